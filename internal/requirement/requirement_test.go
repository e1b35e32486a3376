package requirement_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"haft"
	"haft/internal/requirement"
)

func TestParsePip_accepts(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"numpy", "numpy"},
		{"  NumPy  ", "numpy"},
		{"Foo__Bar.-baz", "foo-bar-baz"},
		{"numpy==1.26.4", "numpy==1.26.4"},
		{"numpy >= 1.20 , < 2", "numpy<2,>=1.20"},
		{"numpy (>=1.20)", "numpy>=1.20"},
		{"requests[security,SOCKS]~=2.31", "requests[security,socks]~=2.31"},
		{"requests[]", "requests"},
		{"torch==2.1.0+cu118", "torch==2.1.0+cu118"},
		{"a==1!2.0RC1.post3.dev4", "a==1!2.0rc1.post3.dev4"},
		{"a==V1.0-alpha", "a==1.0a0"},
		{"a==1.0-3", "a==1.0.post3"},
		{"a==1.*", "a==1.*"},
		{"a!=1.2.*", "a!=1.2.*"},
		{"a===1.0", "a===1.0"},
		{"a>=1,", "a>=1"},
		{"a>=1,>=1.0,>=1", "a>=1,>=1.0"},
		{"a==2,==1", "a==1,==2"}, // the installer refuses it
		{`a; python_version<'3.12'`, `a; python_version < "3.12"`},
		{`a>=1 ; (os.name == "posix" and "linux" in sys_platform) or extra == 'x'`,
			`a>=1; (os_name == "posix" and "linux" in sys_platform) or extra == "x"`},
		{`a; platform_machine not in "arm64"`, `a; platform_machine not in "arm64"`},
		{"x.zip", "x-zip"}, // pip would take the name with a dot for a file
	} {
		got, err := requirement.ParsePip(tt.in)
		if err != nil {
			t.Errorf("ParsePip(%q): %v", tt.in, err)
			continue
		}
		if got.String() != tt.want {
			t.Errorf("ParsePip(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

func TestParsePip_refuses(t *testing.T) {
	for _, tt := range []struct{ in, says string }{
		{"", "empty"},
		{"   ", "empty"},
		{"--index-url=http://evil.example/", "options"},
		{"-e .", "options"},
		{"-r/etc/passwd", "options"},
		{"pkg @ file:///etc/passwd", "URL"},
		{"pkg @ ./x", "URL or path"},
		{"pkg@https:x", "URL or path"},
		{"git+https://evil.example/x.git", "URL"},
		{"file:/etc/passwd", "URL"},
		{"./local", "path"},
		{"/etc/passwd", "path"},
		{"~root/x", "path"},
		{`..\x`, "path"},
		{"a/b", "path"},
		{"pkg; rm -rf /", "options"},
		{"pkg;rm", "marker"},
		{"pkg; rm", "marker"},
		{"pkg --hash=sha256:00", "options"},
		{"pkg==1 --global-option=x", "options"},
		{"a\nb", "line break"},
		{"a\r--index-url=x", "line break"},
		{"a\x00b", "control"},
		{"a\tb", "control"},
		{"a\x7f", "control"},
		{"nump\u0443", "not ASCII"},
		{"a\u2028b", "not ASCII"},
		{"a\u00a0==1", "not ASCII"},
		{"$(id)", "begins with a letter"},
		{"a`id`", "comparison"},
		{"a$HOME", "comparison"},
		{"a==${HOME}", "not a version"},
		{"a|b", "comparison"},
		{"a 1.0", "comparison"},
		{"a==1.0 b", "not a version"},
		{"a==", "not a version"},
		{"a==1.0#egg=b", "not a version"},
		{"a>=1.*", ".*"},
		{"a==1.0rc1.*", "numbers"},
		{"a~=1", "two numbers"},
		{"a>1.0+x", "local"},
		{"a[b", "not closed"},
		{"a[b;c]", "list of names"},
		{"a(>=1", "not closed"},
		{"a==1234567890123456789", "not a version"},
		{"a;", "nothing follows"},
		{`a; "x" == "y"`, "two texts"},
		{`a; os_name == "a b"`, "text of the marker"},
		{`a; os_name == "$x"`, "text of the marker"},
		{`a; os_name == "x`, "not closed"},
		{`a; os_name == "x" y`, "follows the marker"},
		{`a; os_name "x"`, "comparison"},
		{`a; ` + strings.Repeat("(", 20) + `os_name=="x"` + strings.Repeat(")", 20), "nest"},
		{strings.Repeat("a", 301), "301 characters"},
		{strings.Repeat("a", 200), "name"},
	} {
		_, err := requirement.ParsePip(tt.in)
		if code := haft.CodeOf(err); code != haft.CodeInvalid && code != haft.CodeConflict {
			t.Errorf("ParsePip(%q): code %q, want invalid", tt.in, code)
			continue
		}
		msg := haft.MessageOf(err)
		if !strings.Contains(msg, tt.says) {
			t.Errorf("ParsePip(%q) says %q, want something with %q", tt.in, msg, tt.says)
		}
		if len(msg) > 250 || strings.Contains(msg, "evil") || strings.Contains(msg, "passwd") {
			t.Errorf("ParsePip(%q) echoes its input: %q", tt.in, msg)
		}
	}
}

func TestParseNPM_accepts(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"lodash", "lodash@*"},
		{"lodash@", "lodash@*"},
		{"lodash@*", "lodash@*"},
		{"lodash@x", "lodash@*"},
		{"lodash@^4.17.21", "lodash@^4.17.21"},
		{`lodash@"4.17.21"`, "lodash@4.17.21"},
		{"@scope/pkg@~1.2", "@scope/pkg@~1.2"},
		{"@scope/pkg", "@scope/pkg@*"},
		{"zod@latest", "zod@latest"},
		{"zod@v3.1.0", "zod@3.1.0"},
		{"zod@=3.1.0+build.7", "zod@3.1.0"},
		{"zod@>= 3 <4", "zod@>=3 <4"},
		{"zod@1.2 - 1.8.x", "zod@>=1.2 <=1.8"},
		{"zod@1 || 2.x||^3.0.0-beta.01", "zod@1 || 2 || ^3.0.0-beta.1"},
		{"zod@>2 <1 || 5", "zod@>2 <1 || 5"}, // npm passes over what no version fits
		{"zod@>*", "zod@<0.0.0-0"},
		{"zod@~>1.2.3", "zod@~1.2.3"},
	} {
		got, err := requirement.ParseNPM(tt.in)
		if err != nil {
			t.Errorf("ParseNPM(%q): %v", tt.in, err)
			continue
		}
		if got.String() != tt.want {
			t.Errorf("ParseNPM(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

func TestParseNPM_refuses(t *testing.T) {
	for _, tt := range []struct{ in, says string }{
		{"", "empty"},
		{"--registry=http://evil.example", "options"},
		{"-g", "options"},
		{"a@npm:b@1", "URLs"},
		{"a@file:../x", "URLs"},
		{"a@git+ssh://evil.example/x", "URLs"},
		{"a@user/repo", "URLs"},
		{"a@./x", "URLs"},
		{"a@1 --registry=x", "semver"},
		{"a@--registry", "options"},
		{"user/repo", "repositories"},
		{"github:user/repo", "URLs"},
		{"./x", "paths"},
		{"/etc/passwd", "paths"},
		{"../x", "paths"},
		{"@scope", "name"},
		{"@/x", "name"},
		{"@a/b/c", "name"},
		{"@a/../b", "name"},
		{"Lodash", "name"},
		{".hidden", "paths"},
		{"node_modules", "name"},
		{"a b", "name"},
		{"a;rm", "name"},
		{"a@1;rm", "semver"},
		{"a@`id`", "semver"},
		{"a@$(id)", "semver"},
		{"a@1\n", "line break"},
		{"l\u043edash", "not ASCII"},
		{"a@9007199254740993", "semver"},
		{"a@1.2.3.4", "semver"},
		{"a@1" + strings.Repeat("||1", 40), "alternatives"},
		{strings.Repeat("a", 215), "name"},
	} {
		_, err := requirement.ParseNPM(tt.in)
		if haft.CodeOf(err) != haft.CodeInvalid || !strings.Contains(haft.MessageOf(err), tt.says) {
			t.Errorf("ParseNPM(%q): %v, want invalid with %q", tt.in, err, tt.says)
		}
		if strings.Contains(haft.MessageOf(err), "evil") {
			t.Errorf("ParseNPM(%q) echoes its input: %v", tt.in, err)
		}
	}
}

func TestParse_names_the_place(t *testing.T) {
	_, err := requirement.Parse("the tool", []string{"numpy", "-e ."}, nil)
	if got, want := haft.MessageOf(err),
		"the tool: pip requirement 2: it begins with a dash: options are not accepted"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	_, err = requirement.Parse("the tool", nil, []string{"a", "b", "../c"})
	if got := haft.MessageOf(err); !strings.HasPrefix(got, "the tool: npm requirement 3: ") {
		t.Errorf("got %q", got)
	}
	if _, err = requirement.Parse("the tool", make([]string, 201), nil); !strings.Contains(haft.MessageOf(err),
		"201 pip requirements, 200 is the most") {
		t.Errorf("got %v", err)
	}
}

func set(t *testing.T, origin string, pip, npm []string) requirement.Set {
	t.Helper()
	s, err := requirement.Parse(origin, pip, npm)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestMerge_pip(t *testing.T) {
	for _, tt := range []struct {
		name, tool, org string
		want            string // joined
	}{
		{"same", "a==1", "a==1.0", "a==1,==1.0"},
		{"pin within", "a==1.5", "a>=1,<2", "a<2,==1.5,>=1"},
		{"extras and constraints join", "a[x]>=1", "a[y]<3", "a[x,y]<3,>=1"},
		{"repetition", "a>=1", "a>=1", "a>=1"},
		{"contradiction", "a==1.26", "a==2.0", "a==1.26,==2.0"},
		{"local and not", "a==1+x", "a==1", "a==1,==1+x"},
		{"other markers", `a==1; os_name == "nt"`, `a==2; os_name == "posix"`,
			`a==1; os_name == "nt" a==2; os_name == "posix"`},
		{"equal markers", `a==1; os_name == "nt"`, `a==2 ; os_name == 'nt'`, `a==1,==2; os_name == "nt"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := requirement.Merge(set(t, "the tool", []string{tt.tool}, nil),
				set(t, "the organisation", []string{tt.org}, nil))
			if err != nil {
				t.Fatal(err)
			}
			pip, _ := got.Strings()
			if diff := cmp.Diff(tt.want, strings.Join(pip, " ")); diff != "" {
				t.Error(diff)
			}
		})
	}
	both, err := requirement.Merge(set(t, "the tool", []string{"a==1"}, nil),
		set(t, "the organisation", []string{"a==2"}, nil))
	want := []requirement.Spec{{Op: "==", Version: "1", From: "the tool"},
		{Op: "==", Version: "2", From: "the organisation"}}
	if err != nil || len(both.Pip) != 1 || !cmp.Equal(want, both.Pip[0].Specs) {
		t.Errorf("who asks for what: %+v, %v", both, err)
	}
	var first, second []string
	for i := range 30 {
		first, second = append(first, fmt.Sprintf("!=1.%d", i+10)), append(second, fmt.Sprintf("!=2.%d", i+10))
	}
	_, err = requirement.Merge(set(t, "the tool", []string{"a" + strings.Join(first, ",")}, nil),
		set(t, "the organisation", []string{"a" + strings.Join(second, ",")}, nil))
	if haft.CodeOf(err) != haft.CodeInvalid || !strings.Contains(haft.MessageOf(err), "characters long together") {
		t.Errorf("what is too long together: %v", err)
	}
}

// Fits is held against the library of pip by TestConformance_pep440; these are its corners.
func TestFits(t *testing.T) {
	for _, tt := range []struct {
		spec, version string
		want          bool
	}{
		{"==1", "1.0.0", true},
		{"!=1", "1.0", false},
		{"!=1.4.*", "1.4.2", false},
		{"<=1", "1.0", true},
		{"<1", "1.0", false},
		{"~=1.4.2", "1.5", false},
		{"~=1.4.2", "1.4.9", true},
		{"==1.4.*", "1.5", false},
		{"<1.4", "1.4.dev0", true},
		{"==1+x", "1+y", false},
		{"==1", "1+x", true},
		{">=1.0", "1.0rc1", false},
		{">=1.0", "1.0.post1", true},
		{"<2", "1!0", false},
		{">=3.11,<4", "3.12.1", true},
		{">=3.11,<4", "3.10.1", false},
		{">=3", "no version", false},
	} {
		p, err := requirement.ParsePip("a" + tt.spec)
		if got := requirement.Fits(p.Specs, tt.version); err != nil || got != tt.want {
			t.Errorf("Fits(%s, %s) = %v, %v", tt.spec, tt.version, got, err)
		}
	}
}

func TestMerge_npm(t *testing.T) {
	for _, tt := range []struct{ tool, org, want, says string }{
		{"a@^1.2", "a@>=1.3", "a@^1.2 >=1.3", ""},
		{"a@1 || 2", "a@>=2", "a@1 >=2 || 2 >=2", ""},
		{"a@*", "a@^1", "a@^1", ""},
		{"a@latest", "a@^1", "a@^1", ""},
		{"a@next", "a@^1", "", "the tool asks for next, the organisation for ^1"},
		{"a@next", "a@next", "a@next", ""},
		{"a@^1", "a@^2", "a@^1 ^2", ""},
		{"a@<=1", "a@1.9.9", "a@<=1 1.9.9", ""},
		{"a@1.0.0-2", "a@<1.0.0-alpha", "a@1.0.0-2 <1.0.0-alpha", ""},
	} {
		got, err := requirement.Merge(set(t, "the tool", nil, []string{tt.tool}),
			set(t, "the organisation", nil, []string{tt.org}))
		if tt.says != "" {
			if haft.CodeOf(err) != haft.CodeConflict || !strings.Contains(haft.MessageOf(err), tt.says) {
				t.Errorf("%s with %s: %v, want a conflict with %q", tt.tool, tt.org, err, tt.says)
			}
			continue
		}
		_, npm := got.Strings()
		if err != nil || strings.Join(npm, " ") != tt.want {
			t.Errorf("%s with %s = %v, %v; want %s", tt.tool, tt.org, npm, err, tt.want)
		}
	}
}

func TestSet_Digest(t *testing.T) {
	a := set(t, "the tool", []string{"NumPy >= 1.2", "b"}, []string{"zod", "lodash@^4"})
	b := set(t, "somebody", []string{"b", "numpy>=1.2"}, []string{"lodash@^4", "zod@*"})
	if a.Digest() != b.Digest() {
		t.Error("order, spelling and origin change the digest")
	}
	seen := map[string]string{}
	for _, list := range [][2][]string{{nil, nil}, {{"a"}, nil}, {nil, {"a"}}, {{"a", "b"}, nil}, {{"a==1"}, nil},
		{{"a-b"}, nil}} {
		d := set(t, "x", list[0], list[1]).Digest()
		if other, ok := seen[d]; ok {
			t.Errorf("%v and %s have one digest", list, other)
		}
		seen[d] = strings.Join(append(list[0], list[1]...), " ")
	}
}
