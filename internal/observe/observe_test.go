package observe_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"haft"
	"haft/internal/observe"
)

// access makes an access of a kind, a space and a name.
func access(text string) haft.Access {
	kind, name, _ := strings.Cut(text, " ")
	name, denied := strings.CutSuffix(name, " denied")
	return haft.Access{Kind: haft.AccessKind(kind), Name: name, Denied: denied}
}

// touched makes a list of accesses.
func touched(texts ...string) haft.Touched {
	t := haft.Touched{Observed: true}
	for _, text := range texts {
		t.Accesses = append(t.Accesses, access(text))
	}
	return t
}

func TestOwn(t *testing.T) {
	all := touched("file-read /usr/lib/python3/json.py", "file-read /usr/libexec/x", "file-read /opt/py/lib/os.py",
		"file-read /opt/python-data", "file-read /etc/passwd", "file-write /usr/lib/x", "file-write /dev/null",
		"file-write /work/__pycache__/a.pyc", "program /usr/lib/git-core/git", "connect 127.0.0.1:7718",
		"connect 192.0.2.1:80", "file-read /proc/self/maps", "file-read /proc/self/environ", "file-read /etc/hosts",
		"file-read /proc/self/root/etc/passwd", "file-write /work/.haft", "file-write /work/.haft/ca.pem",
		"file-write /work/.haft/hidden", "file-write /work/.haft/ca.pem/x")
	want := touched("file-read /usr/libexec/x", "file-read /opt/python-data", "file-read /etc/passwd",
		"file-write /usr/lib/x", "program /usr/lib/git-core/git", "connect 192.0.2.1:80",
		"file-read /proc/self/environ", "file-read /etc/hosts",
		"file-read /proc/self/root/etc/passwd", "file-write /work/.haft/hidden", "file-write /work/.haft/ca.pem/x")
	made := []string{"/work/.haft", "/work/.haft/ca.pem"}
	if got := observe.Own(all, []string{"/opt/py"}, made); !slices.Equal(got.Accesses, want.Accesses) || !got.Observed {
		t.Errorf("got %v", got)
	}
	if !observe.Own(haft.Touched{Cut: true}, nil, nil).Cut {
		t.Error("a list that was cut is not any more")
	}
}

func TestDeclared_Undeclared(t *testing.T) {
	tests := []struct {
		name     string
		declared observe.Declared
		touched  haft.Touched
		want     string // a part of the only sentence; empty means that there is none
	}{
		{"nothing", observe.Declared{}, touched(), ""},
		{"read", observe.Declared{}, touched("file-read /etc/passwd"),
			"forecast read /etc/passwd, which its test does not declare"},
		{"declared", observe.Declared{Files: []string{"/etc/passwd"}}, touched("file-read /etc/passwd"), ""},
		{"reading is not writing", observe.Declared{Files: []string{"/work/**"}}, touched("file-write /work/a"),
			"forecast wrote /work/a"},
		{"below", observe.Declared{Files: []string{"/work/**:rw"}},
			touched("file-write /work/a/b", "file-read /work"), ""},
		{"beside", observe.Declared{Files: []string{"/work/**:rw"}}, touched("file-read /workshop"), "read /workshop"},
		{"star", observe.Declared{Files: []string{"/proc/*/stat"}}, touched("file-read /proc/7/stat"), ""},
		{"star is one part", observe.Declared{Files: []string{"/etc/*"}},
			touched("file-read /etc/a/b"), "read /etc/a/b"},
		{"program by name", observe.Declared{Programs: []string{"git"}}, touched("program /usr/bin/git"), ""},
		{"another program", observe.Declared{Programs: []string{"git"}},
			touched("program /work/curl"), "ran /work/curl"},
		{"a file is no program", observe.Declared{Files: []string{"/usr/bin/git"}}, touched("program /usr/bin/git"),
			"ran /usr/bin/git"},
		{"host", observe.Declared{Hosts: []string{"*.example.com"}}, touched("host api.Example.com:8443"), ""},
		{"suffix is no domain", observe.Declared{Hosts: []string{"*.example.com"}}, touched("host evilexample.com"),
			"reached evilexample.com"},
		{"denied", observe.Declared{Hosts: []string{"a.example"}}, touched("host a.example denied"),
			"tried to reach a.example"},
		{"address", observe.Declared{}, touched("connect 192.0.2.1:80"), "connected to 192.0.2.1:80"},
		{"lookup", observe.Declared{}, touched("file-read /etc/hosts"),
			"forecast read /etc/hosts, as a lookup of a name does, which its test does not declare"},
		{"UDP", observe.Declared{}, touched("socket socket:udp"),
			"forecast tried to open socket:udp, which its test does not declare"},
		{"raw packets", observe.Declared{Hosts: []string{"socket:udp", "GET a.example/v1"}},
			touched("socket socket:raw"), "forecast tried to open socket:raw"},
		{"declared UDP", observe.Declared{Hosts: []string{"socket:udp"}}, touched("socket socket:udp"), ""},
		{"any network", observe.Declared{Hosts: []string{"full"}}, touched("socket socket:udp"), ""},
		{"a host is no socket", observe.Declared{Hosts: []string{"socket"}}, touched("socket socket:udp"),
			"open socket:udp"},
		{"cut", observe.Declared{}, haft.Touched{Observed: true, Cut: true}, "more than is recorded"},
		{"not observed", observe.Declared{}, haft.Touched{}, "was not observed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.declared.Undeclared("forecast", tt.touched)
			if tt.want == "" && len(got) > 0 || tt.want != "" && (len(got) != 1 || !strings.Contains(got[0], tt.want)) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestDeclared_Unused(t *testing.T) {
	d := observe.Declared{Files: []string{"/etc/passwd", "/work/**"}, Programs: []string{"/usr/bin/git"},
		Hosts: []string{"unix:/work/door"}}.With(haft.Settings{Programs: []string{"git", "jq"},
		Network: []string{"a.example", "b.example", "GET c.example/v1"}})
	got := strings.Join(d.Unused(observe.Merge(touched("file-read /work/a", "program /usr/bin/git"),
		touched("host b.example"))), "\n")
	for _, want := range []string{"file /etc/passwd", "program jq", "host a.example", "host unix:/work/door"} {
		if !strings.Contains(got, "the "+want+" is declared") {
			t.Errorf("%q has no sentence about %s", got, want)
		}
	}
	if n := strings.Count(got, "declared"); n != 4 {
		t.Errorf("%d sentences: %s", n, got)
	}
}

// What is learned covers what was touched, and nothing of it is unused.
func TestLearn(t *testing.T) {
	seen := touched("file-read /etc/passwd", "file-read /work/in", "file-write /work/out/a", "file-write /tmp/tmpx8s2",
		"file-read /proc/71/stat", "file-read /odd/[a]*", "program /usr/bin/git", "program /work/own",
		"host api.example", "host evil.example denied", "connect unix:/work/door",
		"socket socket:udp")
	d := observe.Learn(seen)
	if err := d.Check(); err != nil {
		t.Fatal(err)
	}
	if got := d.Undeclared("it", seen); len(got) != 1 || !strings.Contains(got[0], "evil.example") {
		t.Errorf("undeclared: %q", got)
	}
	if got := d.Unused(seen); len(got) > 0 {
		t.Errorf("unused: %q", got)
	}
	want := `settings:
  network: ["api.example"]
  programs: ["git"]
  limits: {wall_ms: 4000, memory_bytes: 218103808}
touches:
  files: ["/etc/passwd","/odd/\\[a]\\*","/proc/*/stat","/tmp/**:rw","/work/**:rw"]
  programs: ["/work/own"]
  hosts: ["socket:udp","unix:/work/door"]
`
	if got := d.Proposal(haft.Usage{Wall: haft.Millis(time.Second), MaxRSS: 100 << 20}); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := observe.Learn(haft.Touched{}).Proposal(haft.Usage{}); !strings.HasSuffix(got, "touches: {}\n") {
		t.Errorf("a tool that touches nothing: %s", got)
	}
}

func TestDeclared_Check(t *testing.T) {
	for _, bad := range []observe.Declared{{Files: []string{"etc/passwd"}}, {Files: []string{""}},
		{Programs: []string{""}}, {Files: []string{"/[a"}}, {Hosts: []string{strings.Repeat("a", 5000)}}} {
		if err := bad.Check(); haft.CodeOf(err) != haft.CodeInvalid {
			t.Errorf("%.100v: %v", bad, err)
		}
	}
}
