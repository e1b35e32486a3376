package requirement_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"haft"
	"haft/internal/requirement"
)

var sum = "sha256:" + strings.Repeat("ab", 32)

func TestReadRequirements(t *testing.T) {
	text := "\ufeff# what we need\r\n" +
		"numpy>=1.20 # fast\n" +
		"\n" +
		"pydantic==2.5 \\\n    --hash=" + sum + " \\\n    --hash=" + "sha256:" + strings.Repeat("cd", 32) + "\n" +
		"\trequests[socks]\t# tabs\n" +
		"cowsay; python_version < \"4\""
	s, err := requirement.ReadRequirements("requirements.txt", text)
	if err != nil {
		t.Fatal(err)
	}
	pip, _ := s.Strings()
	want := []string{`cowsay; python_version < "4"`, "numpy>=1.20", "pydantic==2.5", "requests[socks]"}
	if diff := cmp.Diff(want, pip); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{sum, "sha256:" + strings.Repeat("cd", 32)}, s.Pip[2].Hashes); diff != "" {
		t.Error(diff)
	}
	again, err := requirement.ReadRequirements("again", s.Pip[2].Line())
	if err != nil || len(again.Pip) != 1 || again.Pip[0].Line() != s.Pip[2].Line() {
		t.Errorf("its own line is read as %v, %v", again, err)
	}
}

func TestReadRequirements_refuses(t *testing.T) {
	for _, tt := range []struct{ in, says string }{
		{"a\n-r other.txt", "r.txt: line 2: the option -r is not accepted: other files"},
		{"-rother.txt", "the option -r "},
		{"--index-url https://evil.example", "the option --index-url is not accepted: the index is the operator's"},
		{"--extra-index-url=https://evil.example", "the option --extra-index-url "},
		{"-e git+https://evil.example", "the option -e "},
		{"--evil-option", "line 1: options are not accepted"},
		{"a \\\n --install-option=x", "options are not accepted"},
		{"a \\\n --global-option=x", "the option --global-option "},
		{"\n\na --hash=md5:00", "line 3: a hash must be"},
		{"a --hash=sha256:zz", "a hash must be"},
		{"a --hash", "options"},
		{"a\\\n--pre", "not accepted"},
		{"a ; os_name == 'x\\\n --pre'", "not accepted"},
		{"https://evil.example/a.whl", "URL"},
		{strings.Repeat("a\n", 200) + "b\n", ""},
		{strings.Repeat("#", 300<<10), "bytes"},
		{"a\x00", "NUL"},
		{"a\xff", "UTF-8"},
	} {
		s, err := requirement.ReadRequirements("r.txt", tt.in)
		if tt.says == "" {
			if haft.CodeOf(err) != haft.CodeInvalid {
				t.Errorf("%.40q is read as %v, %v", tt.in, s, err)
			}
			continue
		}
		if err == nil || !strings.Contains(haft.MessageOf(err), tt.says) ||
			strings.Contains(haft.MessageOf(err), "evil") {
			t.Errorf("%.40q: %v, want %q", tt.in, err, tt.says)
		}
	}
}

func TestReadPyproject(t *testing.T) {
	s, err := requirement.ReadPyproject("pyproject.toml", []byte(`
[build-system]
requires = ["hatchling"]
[project]
name = "x"
requires-python = ">=3.9,<4"
dependencies = [
  "httpx[http2]>=0.27", # comment
  'rich; python_version < "4"',
]
[project.optional-dependencies]
dev = ["pytest"]
[[tool.x]]
y = {a = [1, 2]}
`))
	if err != nil {
		t.Fatal(err)
	}
	pip, _ := s.Strings()
	if diff := cmp.Diff([]string{"httpx[http2]>=0.27", `rich; python_version < "4"`}, pip); diff != "" {
		t.Error(diff)
	}
	if len(s.Python) != 2 || s.Python[0].Op+s.Python[0].Version != "<4" {
		t.Errorf("requires-python is read as %v", s.Python)
	}
	for in, says := range map[string]string{
		"[project]\ndependencies = \"a\"":                      "must be a list of strings",
		"[project]\ndependencies = [1]":                        "must be a list of strings",
		"[project]\ndependencies = [\"a\", \"b @ file:///x\"]": "pip requirement 2: ",
		"[project]\nrequires-python = 3":                       "must be a list of strings",
		"[project]\nrequires-python = \"3\"":                   "comparison",
		"[project]\ndynamic = [\"dependencies\"]":              "dynamic",
		"[project":                              "line 1 is not TOML",
		"project = 1":                           "type",
		"x = " + strings.Repeat("[", 200):       "nest",
		"x = \"" + strings.Repeat("a", 300<<10): "bytes",
	} {
		if _, err := requirement.ReadPyproject("pyproject.toml", []byte(in)); !strings.Contains(haft.MessageOf(err),
			says) {
			t.Errorf("%.40q: %v, want %q", in, err, says)
		}
	}
}

func TestReadScript(t *testing.T) {
	source := "#!/usr/bin/env python3\n# /// script\n# requires-python = \">=3.11\"\n# dependencies = [\n#   " +
		"\"requests<3\",\n#\n#   \"rich\",\n# ]\n# ///\n\nimport requests\n"
	s, found, err := requirement.ReadScript("the source", source)
	if err != nil || !found {
		t.Fatal(found, err)
	}
	pip, _ := s.Strings()
	if diff := cmp.Diff([]string{"requests<3", "rich"}, pip); diff != "" {
		t.Error(diff)
	}
	if _, found, err := requirement.ReadScript("the source", "import x\n# /// other\n# a = 1\n# ///\n"); found ||
		err != nil {
		t.Errorf("a script without metadata: %v, %v", found, err)
	}
	for in, says := range map[string]string{
		"# /// script\n# a = 1\n":                            "that no line",
		"# /// script\n# ///\n\n# /// script\n# ///\n":       "line 4 begins metadata (# /// script) a second time",
		"# /// script\n# dependencies = [\"-e .\"]\n# ///\n": "the source: pip requirement 1: it begins with a dash",
		"x\n# /// script\n# dependencies = [\n# ///\n":       "metadata from line 2: line",
	} {
		if _, _, err := requirement.ReadScript("the source", in); !strings.Contains(haft.MessageOf(err), says) {
			t.Errorf("%q: %v, want %q", in, err, says)
		}
	}
}

func TestReadPackageJSON(t *testing.T) {
	s, err := requirement.ReadPackageJSON("package.json",
		[]byte(
			`{"name":"x","dependencies":{"zod":"^3","@a/b":"latest","lodash":""},"devDependencies":{"x":"file:."},"scripts":{"postinstall":"rm"}}`))
	if err != nil {
		t.Fatal(err)
	}
	_, npm := s.Strings()
	if diff := cmp.Diff([]string{"@a/b@latest", "lodash@*", "zod@^3"}, npm); diff != "" {
		t.Error(diff)
	}
	for in, says := range map[string]string{
		`[]`:                                          "not a package.json",
		`{"dependencies":{"a":1}}`:                    "not a package.json",
		`{"dependencies":{"a":"file:.."}}`:            "dependency 1 (by name): URLs",
		`{"dependencies":{"../a":"1"}}`:               "paths",
		`{"dependencies":{"a":"1"}} {}`:               "follows",
		`{"overrides":{"a":"1"}}`:                     "overrides is not accepted",
		`{"optionalDependencies":{"a":"1"}}`:          "optionalDependencies is not accepted",
		`{"dependencies":{"a":"1\n--evil"}}`:          "line break",
		`{"dependencies":` + strings.Repeat("[", 100): "not a package.json",
	} {
		if _, err := requirement.ReadPackageJSON("package.json", []byte(in)); !strings.Contains(haft.MessageOf(err),
			says) {
			t.Errorf("%.60q: %v, want %q", in, err, says)
		}
	}
}

func TestMissingModule(t *testing.T) {
	for _, tt := range []struct {
		text, want string
		known      bool
	}{
		{"Traceback (most recent call last):\n  File \"x\", line 1\nModuleNotFoundError: No module named 'cv2'\n",
			"pip opencv-python-headless", true},
		{"ModuleNotFoundError: No module named 'PIL'", "pip pillow", true},
		{"ModuleNotFoundError: No module named 'yaml'", "pip pyyaml", true},
		{"ModuleNotFoundError: No module named 'sklearn.svm'", "pip scikit-learn", true},
		{"ModuleNotFoundError: No module named 'bs4'", "pip beautifulsoup4", true},
		{"ModuleNotFoundError: No module named 'dateutil'", "pip python-dateutil", true},
		{"ModuleNotFoundError: No module named 'dotenv'", "pip python-dotenv", true},
		{"ModuleNotFoundError: No module named 'google.cloud.storage.blob'", "pip google-cloud-storage", true},
		{"ModuleNotFoundError: No module named 'google'", "pip google", false},
		{"ModuleNotFoundError: No module named 'numpy'", "pip numpy", true},
		{"ModuleNotFoundError(\"No module named 'numpy'\")", "pip numpy", true},
		{"No module named 'numpy'", "pip numpy", true},
		{"ModuleNotFoundError: No module named 'my_strange_thing'", "pip my-strange-thing", false},
		{"ModuleNotFoundError: No module named 'a'\nDuring handling...\nModuleNotFoundError: No module named 'b'",
			"pip b", false},
		{"ImportError: Missing optional dependency 'openpyxl'.  Use pip or conda to install openpyxl.", "pip openpyxl",
			true},
		{"ModuleNotFoundError: No module named 'tkinter'", "", false},
		{"ModuleNotFoundError: No module named 'json.nothing'", "", false},
		{"ModuleNotFoundError: No module named '_tkinter'", "", false},
		{"ModuleNotFoundError: No module named '_cffi_backend'", "pip cffi", true},
		{"ImportError: cannot import name 'x' from 'numpy'", "", false},
		{"Error: Cannot find module 'lodash'\nRequire stack:", "npm lodash", true},
		{"Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'zod' imported from /work/x.mjs", "npm zod", true},
		{"Error: Cannot find module '@aws-sdk/client-s3/dist/x'", "npm @aws-sdk/client-s3", true},
		{"Error: Cannot find module 'lodash/fp'", "npm lodash", true},
		{"Error: Cannot find module 'strange-thing'", "npm strange-thing", false},
		{"Error: Cannot find module './x'", "", false},
		{"Error: Cannot find module '/work/x.js'", "", false},
		{"Error: Cannot find module 'node:nothing'", "", false},
		{"Error: Cannot find module 'fs/nothing'", "", false},
		{"Error: Cannot find module '--evil'", "", false},
		{"Error: Cannot find module 'file:x'", "", false},
		{"all is well", "", false},
		{"", "", false},
	} {
		m, ok := requirement.MissingModule(tt.text)
		got := strings.TrimSpace(m.Kind + " " + m.Requirement)
		if got != tt.want || m.Known != tt.known || ok != (tt.want != "") {
			t.Errorf("MissingModule(%q) = %+v, %v; want %q, known %v", tt.text, m, ok, tt.want, tt.known)
		}
	}
}

func FuzzPip(f *testing.F) {
	for _, s := range []string{"numpy", "a[b]>=1,<2; python_version<'3'", "-e .", "a @ file:///x",
		"a==1!2.0rc1.post2.dev3+x.y", "a;(os_name=='x')"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := requirement.ParsePip(text)
		if err != nil {
			if code := haft.CodeOf(err); code != haft.CodeInvalid && code != haft.CodeConflict {
				t.Fatalf("%q: %v has code %s", text, err, code)
			}
			return
		}
		safe(t, p.String())
		again, err := requirement.ParsePip(p.String())
		if err != nil || again.String() != p.String() {
			t.Fatalf("%q becomes %q becomes %q, %v", text, p, again, err)
		}
		file, err := requirement.ReadRequirements("file", p.Line()+"\n")
		if err != nil || len(file.Pip) != 1 || file.Pip[0].String() != p.String() {
			t.Fatalf("%q in a file is %v, %v", p.Line(), file, err)
		}
	})
}

func FuzzNPM(f *testing.F) {
	for _, s := range []string{"lodash", "@a/b@^1.2.3 || 2 - 3", "a@npm:b", "a@>=1 <2-0", "a@latest",
		"a@1.0.0-a.01+b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, err := requirement.ParseNPM(text)
		if err != nil {
			if haft.CodeOf(err) != haft.CodeInvalid {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		safe(t, n.String())
		again, err := requirement.ParseNPM(n.String())
		if err != nil || again.String() != n.String() {
			t.Fatalf("%q becomes %q becomes %q, %v", text, n, again, err)
		}
		s := requirement.Set{NPM: []requirement.NPM{n}}
		both, err := requirement.Merge(s, s)
		if err != nil || len(both.NPM) != 1 || both.NPM[0].String() != n.String() {
			t.Fatalf("%q with itself is %v, %v", n, both, err)
		}
	})
}

// safe checks what may never come out.
func safe(t *testing.T, out string) {
	t.Helper()
	if len(out) > requirement.MaxLength || strings.HasPrefix(out, "-") || strings.Contains(out, " -") ||
		strings.ContainsAny(out, "\\$`'#{}&\n\r\t\x00%") || strings.Contains(out, "://") ||
		strings.Contains(out, "..") {
		t.Fatalf("%q came out", out)
	}
}

func FuzzFiles(f *testing.F) {
	f.Add("a==1 \\\n --hash="+sum+"\n# x\nb", byte(0))
	f.Add("[project]\ndependencies=['a']", byte(1))
	f.Add("# /// script\n# dependencies=['a']\n# ///\n", byte(2))
	f.Add(`{"dependencies":{"a":"1"}}`, byte(3))
	f.Add("ModuleNotFoundError: No module named 'cv2'", byte(4))
	f.Fuzz(func(t *testing.T, text string, which byte) {
		var s requirement.Set
		var err error
		switch which % 5 {
		case 0:
			s, err = requirement.ReadRequirements("file", text)
		case 1:
			s, err = requirement.ReadPyproject("file", []byte(text))
		case 2:
			s, _, err = requirement.ReadScript("file", text)
		case 3:
			s, err = requirement.ReadPackageJSON("file", []byte(text))
		case 4:
			if m, ok := requirement.MissingModule(text); ok {
				if _, err := requirement.Parse("x", []string{m.Requirement}, nil); m.Kind == "pip" && err != nil {
					t.Fatalf("%q suggests %+v: %v", text, m, err)
				}
				safe(t, m.Requirement)
			}
			return
		}
		if err != nil {
			if code := haft.CodeOf(err); code != haft.CodeInvalid && code != haft.CodeConflict {
				t.Fatalf("%v has code %s", err, code)
			}
			return
		}
		pip, npm := s.Strings()
		for _, out := range append(pip, npm...) {
			safe(t, out)
		}
		again, err := requirement.Parse("again", pip, npm)
		if err != nil {
			t.Fatalf("%q is refused again: %v", append(pip, npm...), err)
		}
		p2, n2 := again.Strings()
		if diff := cmp.Diff(append(pip, npm...), append(p2, n2...)); diff != "" {
			t.Fatal(diff)
		}
	})
}
