package letta_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"haft"
	"haft/executor"
)

func haftAdmin() haft.Principal {
	return haft.Principal{Org: "acme", User: "root", Roles: []string{"admin"}}
}

// draftOf is a draft of what a tool is.
func draftOf(t haft.Tool) haft.Draft {
	v := t.Version
	return haft.Draft{Name: t.Name, Kind: v.Kind, Source: v.Source, Function: v.Function, Parameters: v.Parameters,
		Settings: v.Settings}
}

// agent is what the tests look at of one.
type agent struct {
	ID     string          `json:"id"`
	Name   string          `json:"name"`
	Tools  []tool          `json:"tools"`
	Rules  []haft.ToolRule `json:"tool_rules"`
	System string          `json:"system"`
	Desc   string          `json:"description"`
	Model  string          `json:"model"`
	Tags   []string        `json:"tags"`
	Blocks []block         `json:"blocks"`
	Memory struct {
		Blocks []block `json:"blocks"`
	} `json:"memory"`
	LLM struct {
		Model string `json:"model"`
	} `json:"llm_config"`
	Secrets []struct {
		Key   string `json:"key"`
		Value string `json:"value"`
	} `json:"secrets"`
}

// hire makes an agent with tools.
func (w *world) hire(name string, ids ...string) agent {
	w.t.Helper()
	list, err := json.Marshal(ids)
	if err != nil {
		w.t.Fatal(err)
	}
	if ids == nil {
		list = []byte("[]")
	}
	return must[agent](w, 200, "POST", "/agents/", fmt.Sprintf(`{"name":%q,"tool_ids":%s}`, name, list))
}

// ran is what became of a tool.
type ran struct {
	Status string          `json:"status"`
	Return json.RawMessage `json:"func_return"`
	Stdout []string        `json:"stdout"`
	Stderr []string        `json:"stderr"`
}

func TestAgents_have_tools(t *testing.T) {
	t.Parallel()
	w := setup(t)
	one, two := w.add("one"), w.add("two")
	a := must[agent](w, 200, "POST", "/agents/", `{"name":"Customer support","tool_ids":["`+one.ID+
		`"],"model":"openai/gpt-4.1","memory_blocks":[{"label":"human","value":"x"}],
		"secrets":{"TOKEN":"`+canary+`"},"tool_rules":[{"type":"max_count_per_step","tool_name":"one","max_count_limit":3,"prompt_template":"x"}],"include_base_tools":false}`)
	if a.Name != "Customer support" || namesOf(a.Tools) != "one" || len(a.Rules) != 1 || len(a.Secrets) != 1 ||
		a.Secrets[0].Key != "TOKEN" || a.Secrets[0].Value != "" {
		t.Errorf("made: %+v", a)
	}
	if s := w.ask(admin, "GET", "/agents/"+a.ID, ""); strings.Contains(s.body, canary) {
		t.Error("a stored value is shown")
	}
	// Old clients get the agent and new ones nothing.
	path := "/agents/" + a.ID + "/tools/attach/" + two.ID
	if r := w.ask(admin, "PATCH", path, "", "X-Stainless-Package-Version", "1.12.1"); r.status != 200 ||
		r.body != "null\n" {
		t.Errorf("attach by a new client: %+v", r)
	}
	if got := must[agent](w, 200, "PATCH", path, ""); namesOf(got.Tools) != "one two" {
		t.Errorf("attach twice, by an old client: %+v", got)
	}
	if got := namesOf(w.walk("/agents/" + a.ID + "/tools?limit=1")); got != "two one" {
		t.Errorf("tools of the agent = %s", got)
	}
	// What was stored stays though it was never shown.
	if kept, err := w.engine.Agent(t.Context(), haftAdmin(), "Customer_support"); err != nil || len(kept.Env) != 1 {
		t.Errorf("after an attach: %+v, %v", kept, err)
	}
	got := must[agent](w, 200, "PATCH", "/agents/"+a.ID+"/tools/approval/two?requires_approval=false",
		`{"requires_approval":true}`)
	if len(got.Rules) != 2 || got.Rules[1].Type != haft.RuleApproval {
		t.Errorf("approval: %+v", got.Rules)
	}
	// A detached tool takes its rules with it, and a second time is no error.
	for range 2 {
		got = must[agent](w, 200, "PATCH", "/agents/"+a.ID+"/tools/detach/"+one.ID, "")
		if namesOf(got.Tools) != "two" || len(got.Rules) != 1 {
			t.Errorf("detached: %+v", got)
		}
	}
	// So does one that is removed, when the agent is written next.
	must[any](w, 200, "DELETE", "/tools/"+two.ID, "")
	if got = must[agent](w, 200, "PATCH", "/agents/"+a.ID+"/tools/attach/"+one.ID, ""); namesOf(got.Tools) != "one" ||
		len(got.Rules) != 0 {
		t.Errorf("after its tool was removed: %+v", got)
	}
	if got = must[agent](w, 200, "PATCH", "/agents/"+a.ID,
		`{"tool_ids":[],"secrets":{},"system":"x"}`); len(got.Tools) != 0 || len(got.Secrets) != 0 {
		t.Errorf("cleared: %+v", got)
	}
	must[any](w, 200, "DELETE", "/agents/"+a.ID, "")
	if r := w.ask(admin, "GET", "/agents/"+a.ID, ""); r.status != 404 {
		t.Errorf("gone: %+v", r)
	}
}

// Nobody's attach gets lost because another came at the same time.
func TestAgents_attach_at_once(t *testing.T) {
	t.Parallel()
	w := setup(t)
	a := w.hire("busy")
	var ids []string
	for i := range 16 {
		ids = append(ids, w.add(fmt.Sprintf("tool%d", i)).ID)
	}
	var all sync.WaitGroup
	for _, id := range ids {
		all.Go(func() {
			if r := w.ask(admin, "PATCH", "/agents/"+a.ID+"/tools/attach/"+id, ""); r.status != 200 {
				t.Errorf("attach: %+v", r)
			}
		})
	}
	all.Wait()
	if got := must[agent](w, 200, "GET", "/agents/"+a.ID, ""); len(got.Tools) != len(ids) {
		t.Errorf("%d tools, want %d", len(got.Tools), len(ids))
	}
}

func TestAgents_lists_page_and_end(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for i := range 5 {
		w.hire(fmt.Sprintf("a%d", i))
	}
	if got := namesOf(w.walk("/agents/?limit=2")); got != "a4 a3 a2 a1 a0" {
		t.Errorf("agents = %s", got)
	}
	if got := namesOf(w.walk("/agents/?limit=2&ascending=true&query_text=A")); got != "a0 a1 a2 a3 a4" {
		t.Errorf("oldest first = %s", got)
	}
	if got := namesOf(w.walk("/agents/?name=a3")); got != "a3" {
		t.Errorf("by name = %s", got)
	}
	if n := must[int](w, 200, "GET", "/agents/count", ""); n != 5 {
		t.Errorf("count = %d", n)
	}
}

func TestRun_failures_of_a_tool_are_answers(t *testing.T) {
	t.Parallel()
	w := setup(t)
	one := w.add("one")
	a := w.hire("helper", one.ID)
	path := "/agents/" + a.ID + "/tools/one/run"
	if got := must[ran](w, 200, "POST", path, `{"args":{"a":5}}`); got.Status != "success" ||
		string(got.Return) != `{"a":5}` || got.Stdout == nil || got.Stderr == nil {
		t.Errorf("success: %+v", got)
	}
	// One key, one run, however often a client sends it.
	runs := 0
	w.mu.Lock()
	w.run = func(req executor.Request) *haft.Result {
		runs++
		return &haft.Result{Call: req.Call, Tool: req.Tool, Status: haft.StatusSuccess, Value: req.Args}
	}
	w.mu.Unlock()
	for range 3 {
		if r := w.ask(admin, "POST", path, `{"args":{"a":6}}`, "Idempotency-Key", "k1"); r.status != 200 {
			t.Errorf("with a key: %+v", r)
		}
	}
	if runs != 1 {
		t.Errorf("%d runs with one key", runs)
	}
	results := map[string]struct {
		res    haft.Result
		status int
		says   string
	}{
		"an exception": {haft.Result{Status: haft.StatusError, Stdout: "out", Stderr: "err",
			Error: &haft.Failure{Kind: haft.FailException, Type: "ValueError", Message: "no",
				Traceback: "Traceback\nValueError: no"}}, 200, "Error executing function one: ValueError: no"},
		"too long": {haft.Result{Status: haft.StatusTimeout,
			Error: &haft.Failure{Kind: haft.FailTimeout, Message: "it ran for too long"}}, 200,
			"timeout: it ran for too long"},
		"nobody knows": {haft.Result{Status: haft.StatusUnknown,
			Error: &haft.Failure{Kind: haft.FailUnknown, Message: "nobody can know"}}, 200, "nobody can know"},
		"much to say": {haft.Result{Status: haft.StatusError,
			Error: &haft.Failure{Kind: haft.FailException, Type: "E", Message: strings.Repeat("ü", 5000)}}, 200,
			"Error executing function one: E: ü"},
		"less isolation": {haft.Result{Status: haft.StatusDenied,
			Error: &haft.Failure{Kind: haft.FailIsolation, Message: "less than demanded"}}, 403, "less than demanded"},
	}
	for name, tt := range results {
		w.mu.Lock()
		w.run = func(req executor.Request) *haft.Result {
			res := tt.res
			failure := *tt.res.Error
			res.Call, res.Tool, res.Error = req.Call, req.Tool, &failure
			return &res
		}
		w.mu.Unlock()
		r := w.ask(admin, "POST", path, `{"args":{"a":5}}`)
		if r.status != tt.status || !strings.Contains(r.body, tt.says) {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
		if r.status != 200 {
			continue
		}
		var got ran
		if err := json.Unmarshal([]byte(r.body), &got); err != nil || got.Status != "error" ||
			string(got.Return) != "null" {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		for _, line := range got.Stderr {
			if strings.HasPrefix(line, "Error executing") && len(line) > 1000 {
				t.Errorf("%s: %d bytes", name, len(line))
			}
		}
	}
	// Arguments that do not fit are the model's mistake, which it should read.
	if got := must[ran](w, 200, "POST", path, `{"args":{"a":"`+canary+`"}}`); got.Status != "error" ||
		strings.Contains(strings.Join(got.Stderr, ""), canary) {
		t.Errorf("bad arguments: %+v", got)
	}
	if r := w.ask(admin, "POST", "/agents/"+a.ID+"/tools/two/run", `{"args":{}}`); r.status != 404 {
		t.Errorf("a tool that the agent does not have: %+v", r)
	}
}

func TestRun_waits_for_a_person(t *testing.T) {
	t.Parallel()
	w := setup(t)
	one := must[tool](w, 200, "POST", "/tools/", `{"source_code":"def one(a): pass","default_requires_approval":true}`)
	a := w.hire("helper", one.ID)
	if shown := must[agent](w, 200, "GET", "/agents/"+a.ID, ""); len(shown.Rules) != 1 ||
		shown.Rules[0].Type != haft.RuleApproval {
		t.Errorf("the rule of the tool: %+v", shown.Rules)
	}
	got := must[ran](w, 200, "POST", "/agents/"+a.ID+"/tools/one/run", `{"args":{"a":1}}`)
	if got.Status != "error" || !strings.Contains(strings.Join(got.Stderr, ""), "a person has to agree") {
		t.Errorf("waiting: %+v", got)
	}
	if r := w.ask(admin, "PATCH", "/agents/"+a.ID+"/tools/approval/one",
		`{"requires_approval":false}`); r.status != 403 {
		t.Errorf("lifting what the tool demands: %+v", r)
	}
}

func TestRun_from_source(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var seen executor.Request
	value := `{"ok":[1,true,null,"it's"]}`
	w.run = func(req executor.Request) *haft.Result {
		seen = req
		return &haft.Result{Call: req.Call, Status: haft.StatusSuccess, Value: json.RawMessage(value),
			Stdout: "printed"}
	}
	// The tool of the tests takes no arguments, so that the call is refused; the
	// environment must not be among them.
	r := w.ask(admin, "POST", "/tools/run", `{"source_code":"def f(a): pass","args":{"a":1},"env_vars":{"K":"`+canary+
		`"},"name":"f"}`)
	if r.status != 200 || strings.Contains(r.body, canary) || strings.Contains(string(seen.Args), canary) {
		t.Fatalf("run: %+v", r)
	}
	var got struct {
		ID      string `json:"id"`
		Type    string `json:"message_type"`
		Call    string `json:"tool_call_id"`
		Return  string `json:"tool_return"`
		Status  string `json:"status"`
		Name    string `json:"name"`
		Date    string `json:"date"`
		Returns []struct {
			Type   string `json:"type"`
			Return string `json:"tool_return"`
		} `json:"tool_returns"`
	}
	if err := json.Unmarshal([]byte(r.body), &got); err != nil {
		t.Fatal(err)
	}
	if got.ID != "null" || got.Type != "tool_return_message" || got.Call != "null" || got.Name != "f" ||
		got.Date == "" || len(got.Returns) != 1 || got.Returns[0].Type != "tool" {
		t.Errorf("message: %+v", got)
	}
}

// TestAgents_named_like_an_id: an agent that has the id of another one as its name is not found by that id.
func TestAgents_named_like_an_id(t *testing.T) {
	t.Parallel()
	w := setup(t)
	victim := w.hire("payroll")
	copied := w.hire(victim.ID)
	if copied.Name != victim.ID || copied.ID == victim.ID {
		t.Errorf("got %+v", copied)
	}
	if a, err := w.engine.Agent(t.Context(), haftAdmin(), victim.ID); haft.CodeOf(err) != haft.CodeNotFound {
		t.Errorf("the id of Letta is the name of %+v %v", a, err)
	}
	if got := must[agent](w, 200, "GET", "/agents/"+victim.ID, ""); got.Name != "payroll" {
		t.Errorf("got %+v", got)
	}
}
