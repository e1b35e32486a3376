package tooltest_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"haft/internal/skiptest"
	"haft/internal/tooltest"
	"haft/sandbox/local"
)

func TestMain(m *testing.M) {
	local.Init()
	os.Exit(m.Run())
}

// run runs test files with what this machine has.
func run(t *testing.T, cfg tooltest.Config, paths ...string) *tooltest.Report {
	t.Helper()
	var files []*tooltest.File
	for _, path := range paths {
		f, err := tooltest.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	cfg.Reduced = true
	report, err := tooltest.Run(t.Context(), files, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// text is everything that is wrong with a case.
func text(o tooltest.Outcome) string {
	var b strings.Builder
	for _, f := range o.Faults {
		b.WriteString(f.Text + "\n")
	}
	return b.String()
}

func TestRun(t *testing.T) {
	r := run(t, tooltest.Config{}, "testdata/pass_test.yaml")
	for _, o := range r.Outcomes {
		if o.State != tooltest.Passed && o.Name != "later" {
			t.Errorf("%s %s\n%s", o.State, o.Name, text(o))
		}
	}
	if n := r.Count[tooltest.Passed]; n < 30 || r.Count[tooltest.Skipped] != 1 || !r.Good() {
		t.Errorf("the counts are %v, the gates %v", r.Count, r.Gates)
	}
	if len(r.Gates) != 2 {
		t.Errorf("the gates are %v", r.Gates)
	}
}

// Every expectation that is not met is a fault, with what differs.
func TestRun_faults(t *testing.T) {
	r := run(t, tooltest.Config{}, "testdata/fail_test.yaml")
	generated := 0
	for _, o := range r.Outcomes {
		switch {
		case strings.HasPrefix(o.Name, "generated/"):
			if o.State == tooltest.Failed {
				generated++
				if got := text(o); !strings.Contains(got, `{"a":0,"b":0}`) || !strings.Contains(got, "division by zero") {
					t.Errorf("the arguments are not the smallest:\n%s", got)
				}
			}
		case o.State == tooltest.Skipped && o.Name == "skipped":
		case o.State != tooltest.Failed || !strings.Contains(text(o), o.Tags[0]):
			t.Errorf("%s is %s and says\n%s, want\n%s", o.Name, o.State, text(o), o.Tags[0])
		}
	}
	if generated == 0 {
		t.Error("no generated case divides by zero")
	}
	closed := 0
	for _, g := range r.Gates {
		if g.Closed {
			closed++
		}
	}
	if r.Good() || closed != 2 {
		t.Errorf("the gates are %+v", r.Gates)
	}
	var junit, page, notes bytes.Buffer
	if err := tooltest.WriteJUnit(&junit, r); err != nil {
		t.Fatal(err)
	}
	var read struct {
		Failures int `xml:"failures,attr"`
		Skipped  int `xml:"skipped,attr"`
	}
	if err := xml.Unmarshal(junit.Bytes(), &read); err != nil || read.Failures != r.Count[tooltest.Failed]+closed ||
		read.Skipped != 1 {
		t.Errorf("JUnit has %+v: %v", read, err)
	}
	if err := tooltest.WriteHTML(&page, r); err != nil || !strings.Contains(page.String(), `class="minus"`) {
		t.Errorf("the page: %v", err)
	}
	tooltest.WriteAnnotations(&notes, r)
	if n := strings.Count(notes.String(), "\n"); n != read.Failures {
		t.Errorf("there are %d lines of annotations", n)
	}
}

// A generated case whose request no rule is for says so, and blames neither the tool nor arguments that another case
// would have.
func TestRun_generated_with_unexpected_requests(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "stock.py", `import urllib.parse
import urllib.request


def stock(sku: str) -> str:
    """Ask for the stock.

    Args:
        sku: Of what.
    """
    to = "http://api.example/stock/" + urllib.parse.quote(sku + "x" * 5000)
    return urllib.request.urlopen(to).read().decode()
`)
	put(t, dir, "stock_test.yaml", `settings: {network: [api.example]}
generated: {count: 8}
cases:
- name: one
  args: {sku: a}
  mock: [{request: {host: api.example}, answer: {body: "7"}}]
  expect: {value: "7"}
`)
	failed := 0
	for _, o := range run(t, tooltest.Config{}, filepath.Join(dir, "stock_test.yaml")).Outcomes {
		if o.State == tooltest.Passed { // arguments that do not fit the schema among them
			continue
		}
		failed++
		if got := text(o); len(o.Faults) != 1 || len(got) > 1500 || !strings.HasPrefix(got, "unexpected request: "+
			"no rule is for GET http://api.example/stock/") || !strings.Contains(got, "with the arguments {") ||
			strings.Contains(got, `{"sku":""}`) && !strings.Contains(got, "/stock/xxx") {
			t.Errorf("%s %s:\n%s", o.State, o.Name, got)
		}
	}
	if failed == 0 {
		t.Error("no generated case made a request")
	}
}

// secretOf is the secret of a case.
func secretOf(i int) string { return fmt.Sprintf("the-secret-of-case-%d-and-no-other", i) }

// Hundreds of cases that run beside each other, two for each processor, and share warm cells: none sees a file, a
// variable of the module, a secret or a file of the workspace that another one has.
func TestRun_many_cases_apart(t *testing.T) {
	dir, n := t.TempDir(), 500
	if skiptest.Race {
		n = 60
	}
	put(t, dir, "mark.py", `import hashlib
import os
import pathlib

before = []


def mark(name: str) -> list:
    """Leave a mark in every place, and return what is in them.

    Args:
        name: The mark.
    """
    before.append(name)
    found = []
    for place in ("/tmp", "/var/tmp", "/dev/shm", "/work", "/workspace"):
        try:
            found += [f"{place}/{p}" for p in os.listdir(place) if p.startswith("mark-")]
            pathlib.Path(place, "mark-" + name).write_text(name)
        except OSError:
            pass
    secrets = [hashlib.sha256(v.encode()).hexdigest() for v in os.environ.values() if v.startswith("the-secret")]
    return [before, found, secrets]
`)
	var cases strings.Builder
	cases.WriteString("cases:\n")
	for i := range n {
		sum := sha256.Sum256([]byte(secretOf(i)))
		fmt.Fprintf(&cases, "- {name: c%d, args: {name: m%d}, workspace: {}, secrets: {TOKEN: %s}, "+
			"expect: {value: [[m%d], [], [\"%x\"]]}}\n", i, i, secretOf(i), i, sum)
	}
	put(t, dir, "mark_test.yaml", cases.String())
	r := run(t, tooltest.Config{}, filepath.Join(dir, "mark_test.yaml"))
	if r.Count[tooltest.Passed] != n || len(r.Outcomes) != n {
		t.Errorf("the counts are %v", r.Count)
	}
	for _, o := range r.Outcomes {
		if o.State != tooltest.Passed {
			t.Fatalf("%s %s\n%s", o.State, o.Name, text(o))
		}
	}
}

// What is not as expected of an agent is a fault, with the turn.
func TestRun_agent_faults(t *testing.T) {
	for _, o := range run(t, tooltest.Config{}, "testdata/talk_test.yaml").Outcomes {
		if got := text(o); o.State != tooltest.Failed || !strings.Contains(got, o.Tags[0]) ||
			!strings.Contains(got, "user: hi") {
			t.Errorf("%s is %s and says\n%s, want\n%s", o.Name, o.State, got, o.Tags[0])
		}
	}
}

// A turn whose approval fails does not keep the next message waiting.
func TestRun_agent_goes_on_after_a_fault(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "a.sh", "# One.\necho 1\n")
	put(t, dir, "a_test.yaml", `cases:
- name: two messages
  agent: {rules: [{type: requires_approval, tool_name: a}]}
  steps:
  - {name: first, message: hi, answers: [{calls: [{tool: a}]}], approve: {answer: yes, roles: [nobody]}}
  - {name: second, message: and, answers: [{text: Hello.}], expect: {reply: Hello.}}
`)
	got := text(run(t, tooltest.Config{}, filepath.Join(dir, "a_test.yaml")).Outcomes[0])
	if !strings.Contains(got, "steps first: there is no answer: answer the request for approval") ||
		strings.Contains(got, "steps second") {
		t.Errorf("it says\n%s", got)
	}
}

// A server of a test that came with a repository cannot change that, nor read what git keeps.
func TestRun_refuses_mounts(t *testing.T) {
	for mount, made := range map[string]string{"{dir: ., inside: /w, writable: true}": "data",
		"{dir: ., inside: /w}": ".git"} {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, made), 0o700); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, "a_test.yaml")
		if err := os.WriteFile(file, []byte("mcp: {e: {command: [python3, /w/e.py], mounts: ["+mount+"]}}\n"+
			"cases: [{name: x, tool: e__x}]\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := tooltest.Load(file)
		if err != nil {
			t.Fatal(err)
		}
		r, err := tooltest.Run(t.Context(), []*tooltest.File{f}, tooltest.Config{Reduced: true})
		got := fmt.Sprint(err)
		if err == nil {
			got = text(r.Outcomes[0])
		}
		if !strings.Contains(got, "mounts nothing writable") {
			t.Errorf("%s: %s", mount, got)
		}
	}
}

// A case that passes only sometimes is found, and flags choose cases.
func TestRun_repeats(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "coin.py",
		"import os\n\ndef coin() -> bool:\n    \"\"\"Toss.\"\"\"\n    return os.urandom(1)[0] % 2 == 0\n")
	put(t, dir, "coin_test.yaml", "cases:\n- {name: heads, tags: [luck], expect: {value: true}}\n- name: other\n")
	r := run(t, tooltest.Config{Repeat: 40, Tags: []string{"luck"}}, filepath.Join(dir, "coin_test.yaml"))
	if len(r.Outcomes) != 1 || r.Outcomes[0].State != tooltest.Flaky || r.Outcomes[0].Runs != 40 || r.Good() {
		t.Errorf("%+v", r.Outcomes)
	}
}

func TestRun_focus(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "a.sh", "# One.\necho 1\n")
	put(t, dir, "a_test.yaml", "cases:\n- {name: x, focus: true}\n- name: y\n")
	r := run(t, tooltest.Config{}, filepath.Join(dir, "a_test.yaml"))
	i := slices.IndexFunc(r.Outcomes, func(o tooltest.Outcome) bool { return o.State == tooltest.Skipped })
	if len(r.Outcomes) != 2 || i < 0 || r.Outcomes[i].Name != "y" || r.Outcomes[i].Why == "" {
		t.Errorf("%+v", r.Outcomes)
	}
}

// The examples pass their tests. Those with packages are run by the tests of the command.
func TestRun_examples(t *testing.T) {
	paths, err := tooltest.Find([]string{"../../examples"})
	if err != nil {
		t.Fatal(err)
	}
	paths = slices.DeleteFunc(paths, func(path string) bool {
		text, err := os.ReadFile(path) //nolint:gosec // a file of the repository
		if err != nil {
			t.Fatal(err)
		}
		_, err = os.Stat(filepath.Join(filepath.Dir(path), "requirements.txt"))
		return bytes.Contains(text, []byte("packages:")) || err == nil && bytes.Contains(text, []byte("tool: .\n"))
	})
	if len(paths) < 5 {
		t.Fatalf("there are only the test files %q", paths)
	}
	for _, o := range run(t, tooltest.Config{}, paths...).Outcomes {
		if o.State != tooltest.Passed {
			t.Errorf("%s %s: %s\n%s", o.State, o.File, o.Name, text(o))
		}
	}
}

// The lines of functions that ran are counted, also after an exception, in coroutines and in threads. The file that
// says so is nobody's artifact.
func TestRun_coverage(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "tools.py", `import threading


class Table:
    size = 3

    def area(self) -> int:
        return self.size**2

    def unused(self) -> int:
        return 0


def pick(n: int) -> int:
    """Pick.

    Args:
        n: The number.
    """
    if n > 1:
        raise ValueError("too many")
    if n < 0:
        n = -n
        return n
    return Table().area()


async def wait(n: int) -> int:
    """Wait.

    Args:
        n: The number.
    """
    box = []

    def work():
        box.append(n)

    t = threading.Thread(target=work)
    t.start()
    t.join()
    return box[0]
`)
	put(t, dir, "tools_test.yaml", "gates: {coverage: 81}\nseed: 1\ntouches: {}\ncases:\n"+
		"- {name: a, tool: pick, args: {n: 1}, expect: {value: 9, artifacts: []}}\n"+
		"- {name: b, tool: pick, args: {n: 2}, expect: {failure: {message: too many}}}\n"+
		"- {name: c, tool: wait, args: {n: 7}, expect: {value: 7}}\n")
	r := run(t, tooltest.Config{}, filepath.Join(dir, "tools_test.yaml"))
	for _, o := range r.Outcomes {
		if o.State != tooltest.Passed {
			t.Errorf("%s %s\n%s", o.State, o.Name, text(o))
		}
	}
	if len(r.Coverage) != 1 {
		t.Fatalf("the coverage is %+v", r.Coverage)
	}
	if c := r.Coverage[0]; !slices.Equal(c.Missed, []int{11, 23, 24}) || c.Ran != 12 || c.Lines != 15 {
		t.Errorf("the coverage is %s, %+v", c, c)
	}
	i := slices.IndexFunc(r.Gates, func(g tooltest.Verdict) bool { return g.Name == "coverage" })
	if i < 0 || !r.Gates[i].Closed || !strings.HasPrefix(r.Gates[i].Text, "80 % of the lines of") ||
		!strings.HasSuffix(r.Gates[i].Text, "not 11, 23-24, 81 % is the least") {
		t.Errorf("the gates are %+v", r.Gates)
	}
}

// put writes a file.
func put(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
