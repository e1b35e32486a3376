package tooltest

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"haft"
)

func TestParse_tables_and_defaults(t *testing.T) {
	f, err := Parse("a_test.yaml", []byte(`
mock: [{request: {path: /last}, answer: {}}]
defaults: {tool: t, env: {A: "1", B: "1"}, expect: {isolation: reduced, check: "true"}, limits: {wall_ms: 1s}}
cases:
- name: table
  env: {B: "2"}
  mock: [{request: {path: /first}, answer: {}}]
  expect: {stdout: x}
  table:
  - {name: one, args: {a: 1}, env: {C: "3"}}
  - {args: {a: 2}, expect: {check: [false, "true"], status: failure}, limits: {memory_bytes: 1MiB}}
- {}
`))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range f.Cases {
		names = append(names, c.Name)
	}
	if diff := cmp.Diff([]string{"table/one", "table/row 2", "case 2"}, names); diff != "" {
		t.Fatal(diff)
	}
	one, two := f.Cases[0], f.Cases[1]
	if diff := cmp.Diff(map[string]string{"A": "1", "B": "2", "C": "3"}, one.Env); diff != "" {
		t.Error(diff)
	}
	if one.Tool != "t" || string(one.Args) != `{"a":1}` || one.At.Line != 10 || one.Expect.Stdout == nil ||
		one.Expect.Isolation != haft.LevelReduced || one.Limits.Wall.D() != time.Second {
		t.Errorf("the first row is %+v", one)
	}
	if one.Mock[0].Request.Path != "/first" || one.Mock[1].Request.Path != "/last" || len(f.Cases[2].Mock) != 1 {
		t.Errorf("the rules are %+v", one.Mock)
	}
	if diff := cmp.Diff([]string{"false", "true"}, two.Expect.Check); diff != "" || two.Limits.Memory != 1<<20 ||
		two.Limits.Wall.D() != time.Second || two.Expect.Stdout == nil || two.Expect.Status != "failure" {
		t.Errorf("the second row is %+v\n%s", two, diff)
	}
}

func TestParse_refuses(t *testing.T) {
	for text, want := range map[string]string{
		`cases: [{name: "a\n::error::b"}]`:                       "the name of a case is one line",
		"cases: [{name: a}, {name: a}]":                          "a_test.yaml:1:20: there is another case called",
		"cases:\n- {name: a, steps: [{tool: b}], args: {}}":      "a_test.yaml:2:3: a case has steps or args",
		"cases: [{steps: [{name: x}, {name: x}]}]":               "there is another step",
		"cases: [{table: [{table: [{}]}]}]":                      "a row of a table has no table",
		"defaults: {table: [{}]}\ncases: [{}]":                   "defaults have no table",
		"cases: [{parallel: 1000}]":                              "parallel must be between",
		"cases: [{answers: [{text: a}]}]":                        "are for a message",
		"cases: [{expect: {reply: a}}]":                          "are for a message",
		"cases: [{message: a, args: {}}]":                        "a message is no call",
		"cases: [{message: a, expect: {stdout: b}}]":             "a message has no stdout",
		"cases: [{message: a, format: json}]":                    "the format of a model is one of",
		"cases: [{message: a, parallel: 2}]":                     "one message of somebody at a time",
		"cases: [{message: a, answers: [{for: b}]}]":             "leave out for",
		"cases: [{message: a, steps: [{message: b}]}]":           "a case has steps or args",
		"cases: [{message: a, expect: {calls: [{reply: c}]}}]":   "are not of a call",
		"cases: [{expect: {status: fine}}]":                      "the status is one of ok, failure",
		"cases: [{expect: {failure: {kind: bad}}}]":              "the kind of failure is one of",
		"cases: [{expect: {limit: patience}}]":                   "the limit is one of",
		"cases: [{expect: {error: bad}}]":                        "the error is one of",
		"cases: [{expect: {isolation: high}}]":                   "the isolation is one of",
		"cases: [{expect: {time_ratio: -1}}]":                    "must not be negative",
		"cases: [{expect: {check: 'value +'}}]":                  "validator 1",
		"cases: [{expect: {check: 'other > 1'}}]":                "undeclared reference",
		"cases: [{expect: {schema: {type: nothing}}}]":           "the schema is wrong",
		"cases: [{expect: {stdout: '/(/'}}]":                     "no regular expression",
		"cases: [{steps: [{expect: {status: fine}}]}]":           "the status is one of",
		"cases: [{approve: perhaps}]":                            "the answer is yes or no",
		"cases: [{network: full}]":                               "network is real",
		"cases: [{mock: [{}]}]":                                  "a rule needs an answer",
		"mock: [{answer: {status: 1}}]":                          "the status of an answer",
		"cases: [{expect: {requests: [{path: x}]}}]":             "path must begin with /",
		"cases: [{secrets: {A: {worth: 1}}}]":                    `unknown field "worth"`,
		"cases: [{files: {a: {txt: 1}}}]":                        `unknown field "txt"`,
		"cases: [{limits: {wall: 1s}}]":                          `limits has no field "wall"`,
		"settings: {networks: [a]}":                              `settings has no field "networks"`,
		"cases: [{steps: [" + strings.Repeat("{},", 200) + "]}]": "more than 100 steps",
	} {
		_, err := Parse("a_test.yaml", []byte(text))
		if haft.CodeOf(err) != haft.CodeInvalid || !strings.Contains(haft.MessageOf(err), want) ||
			!strings.HasPrefix(haft.MessageOf(err), "a_test.yaml:") {
			t.Errorf("%.60s: %v, want %s", text, err, want)
		}
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"weather.py": "", "weather_test.yaml": "gates: {skipped: 1}\ncases: [{}]",
		GatesFile: "gates: {skipped: 7, health: 50}"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	paths, err := Find([]string{dir})
	if err != nil || len(paths) != 1 {
		t.Fatalf("Find = %q, %v", paths, err)
	}
	f, err := Load(paths[0])
	if err != nil || len(f.Tool) != 1 || f.Tool[0] != "weather.py" || *f.Gates.Skipped != 1 || *f.Gates.Health != 50 {
		t.Errorf("Load = %+v, %v", f, err)
	}
	if _, err := Find([]string{t.TempDir()}); haft.CodeOf(err) != haft.CodeNotFound {
		t.Errorf("an empty directory: %v", err)
	}
	if _, err := Load("a\n::error::b_test.yaml"); haft.CodeOf(err) != haft.CodeInvalid {
		t.Errorf("a name of two lines: %v", err)
	}
	if _, err := Load("none_test.yaml"); haft.CodeOf(err) != haft.CodeNotFound {
		t.Errorf("a file that is not there: %v", err)
	}
}

func TestDifferences(t *testing.T) {
	for name, tt := range map[string]struct{ want, got, text string }{
		"same":       {`{"a":[1,{"b":null}]}`, `{"a":[1.0,{"b":null}]}`, ""},
		"order":      {`{"a":1,"b":2}`, `{"b":2,"a":1}`, ""},
		"large":      {`9007199254740993`, `9007199254740992`, "  at the whole value\n  - 9007199254740993\n  + 9007199254740992"},
		"number":     {`{"a":1}`, `{"a":"1"}`, "  at /a\n  - 1\n  + \"1\""},
		"missing":    {`{"a/b":1}`, `{}`, "  at /a~1b\n  - 1"},
		"more":       {`[1]`, `[1,[]]`, "  at /1\n  + []"},
		"fewer":      {`[1,2]`, `[1]`, "  at /1\n  - 2"},
		"type":       {`[]`, `{}`, "  at the whole value\n  - []\n  + {}"},
		"text":       {`"a\nb\nc"`, `"a\nx\nc"`, "  at the whole value\n    a\n  - b\n  + x\n    c"},
		"null":       {`null`, `{}`, "  at the whole value\n  - null\n  + {}"},
		"object":     {`{"a":{}}`, `{"a":[]}`, "  at /a\n  - {}\n  + []"},
		"not a list": {`"x"`, `["x"]`, "  at the whole value\n  - \"x\"\n  + [\"x\"]"},
	} {
		if got := strings.Join(differences([]byte(tt.want), []byte(tt.got)), "\n"); got != tt.text {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, tt.text)
		}
	}
	many := strings.Join(differences([]byte("["+strings.Repeat("1,", 99)+"1]"), []byte("[]")), "\n")
	if !strings.HasSuffix(many, "… and 80 more") {
		t.Errorf("there is no bound:\n%s", many)
	}
}

func TestFillSteps(t *testing.T) {
	results := map[string]*haft.Result{"a": {Status: "success", Value: json.RawMessage(`{"x":[1,{"y":"z"}]}`)}}
	for args, want := range map[string]string{
		`{"v":"${steps.a.value.x}"}`:                   `{"v":[1,{"y":"z"}]}`,
		`{"v":"${steps.a.value.x.1.y}"}`:               `{"v":"z"}`,
		`["n ${steps.a.value.x.0}/${steps.a.status}"]`: `["n 1/success"]`,
		`{"v":"$steps.a"}`:                             `{"v":"$steps.a"}`,
	} {
		if got, err := fillSteps([]byte(args), results); err != nil || string(got) != want {
			t.Errorf("%s is %s, %v", args, got, err)
		}
	}
	for _, args := range []string{`["${steps.b}"]`, `["${steps.a.value.x.7}"]`, `["a ${steps.a.value.x.-1} b"]`} {
		if got, err := fillSteps([]byte(args), results); haft.CodeOf(err) != haft.CodeInvalid {
			t.Errorf("%s is %s, %v", args, got, err)
		}
	}
}

func TestDeliberate(t *testing.T) {
	for trace, want := range map[string]bool{
		"Traceback:\n  File \"a.py\", line 3, in f\n    raise ValueError(\"no\")\nValueError: no":          true,
		"Traceback:\n  File \"a.py\", line 3, in f\n    return a / b\n           ~~^~~\nZeroDivisionError": false,
		"": false,
	} {
		if got := deliberate(&haft.Failure{Message: "no", Traceback: trace}); got != want {
			t.Errorf("%q: %t", trace, got)
		}
	}
	if deliberate(&haft.Failure{Traceback: "    raise ValueError()\n"}) {
		t.Error("an exception without a message says why")
	}
}

func TestAffected(t *testing.T) {
	paths := []string{"a/x_test.yaml", "a/y_test.yaml", "b/z_test.yaml"}
	for changed, want := range map[string]string{
		"a/x_test.yaml": "a/x_test.yaml", "a/tool.py": "a/x_test.yaml a/y_test.yaml",
		"a/core/menu.py": "a/x_test.yaml a/y_test.yaml", "b/z.py": "b/z_test.yaml", "c.py": "",
	} {
		if got := strings.Join(affected(append([]string{}, paths...), []string{changed}), " "); got != want {
			t.Errorf("%s affects %s, want %s", changed, got, want)
		}
	}
	old := map[string]stamp{"a": {1, time.Unix(1, 0)}, "b": {1, time.Unix(1, 0)}}
	now := map[string]stamp{"a": {1, time.Unix(2, 0)}, "c": {1, time.Unix(2, 0)}}
	if got := changes(old, now); len(got) != 3 {
		t.Errorf("the changes are %q", got)
	}
}

// What is made of a record is a test file that expects what became of the call.
func TestFromRecord(t *testing.T) {
	r := &haft.Record{Call: haft.Call{ID: "c_1", Args: json.RawMessage(`{"city":"a: b"}`)},
		Result: &haft.Result{Status: haft.StatusSuccess, Value: json.RawMessage(`[1,null]`), Stdout: "x\ny\n"}}
	tool := &haft.Tool{Name: "forecast", Version: haft.Version{Kind: haft.KindPython, Function: "other",
		Settings: haft.Settings{Network: []string{"api.example"}}}}
	text, err := FromRecord(r, tool)
	if err != nil {
		t.Fatal(err)
	}
	f, err := Parse("a_test.yaml", text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	c := f.Cases[0]
	if f.Tool[0] != "forecast.py:other" || string(c.Args) != `{"city":"a: b"}` || string(c.Expect.Value) != `[1,null]` ||
		!c.Expect.Stdout.fits("x\ny\n") || f.Settings.Network[0] != "api.example" {
		t.Errorf("the file is\n%s", text)
	}
	r.Result = &haft.Result{Status: haft.StatusTimeout, Error: &haft.Failure{Kind: haft.FailTimeout, Message: "late"}}
	if text, err = FromRecord(r, tool); err != nil {
		t.Fatal(err)
	}
	if f, err = Parse("a_test.yaml", text); err != nil || f.Cases[0].Expect.Failure.Kind != haft.FailTimeout {
		t.Errorf("%v\n%s", err, text)
	}
	r.Redacted = true
	if _, err := FromRecord(r, tool); haft.CodeOf(err) != haft.CodeInvalid {
		t.Errorf("a redacted call: %v", err)
	}
}

func TestText(t *testing.T) {
	for _, tt := range []struct {
		want, got string
		fits      bool
	}{{`"a"`, "a\n", true}, {`"a"`, "ab", false}, {`"/b.c/"`, "ab\nc", true}, {`"/^b/"`, "ab", false}, {"42", "42", true}} {
		var x Text
		if err := json.Unmarshal([]byte(tt.want), &x); err != nil || x.fits(tt.got) != tt.fits {
			t.Errorf("%s for %q: %v", tt.want, tt.got, err)
		}
	}
}

// What a tool prints is no command for GitHub's runners, and no sequence for a terminal.
func TestPrinter_has_no_commands_of_tools(t *testing.T) {
	o := Outcome{File: "a_test.yaml", Name: "::x ##[y]", State: Failed, Faults: []Fault{
		{"stdout", "stdout differs\n  - a\n    ::stop-commands::b\n  + \x1b[2J##[add-path]c"}}}
	var shown, notes bytes.Buffer
	p := &Printer{Out: &shown, Verbose: true}
	p.Show(o)
	p.Show(Outcome{File: "a_test.yaml", State: Skipped, Why: "x\n::stop-commands::y"})
	p.Summary(&Report{Gates: []Verdict{{File: "f", Name: "touches", Text: "x\n::stop-commands::y"}}})
	WriteAnnotations(&notes, &Report{Outcomes: []Outcome{o}})
	for line := range strings.Lines(shown.String()) {
		if strings.HasPrefix(strings.TrimSpace(line), "::") || strings.Contains(line, "##[") {
			t.Errorf("a runner takes this for a command: %q", line)
		}
	}
	if n := strings.Count(notes.String(), "\n"); n != 1 || !strings.Contains(notes.String(), "::stop-commands::b") {
		t.Errorf("the annotation is %q", notes.String())
	}
	if text := shown.String() + notes.String(); strings.Contains(text, "\x1b") {
		t.Errorf("the terminal gets a sequence: %q", text)
	}
}
