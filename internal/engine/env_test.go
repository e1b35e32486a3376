package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"haft"
	"haft/executor"
	"haft/internal/callenv"
	"haft/internal/engine"
	"haft/internal/secret"
	"haft/internal/store"
)

// memory is a vault that forgets.
type memory struct {
	mu     sync.Mutex
	values map[string]map[string]string // by organisation and agent
	fail   error
}

func (m *memory) named(org string, agent haft.AgentID) []secret.Named {
	var list []secret.Named
	scope := m.values[org+"/"+string(agent)]
	for _, name := range slices.Sorted(maps.Keys(scope)) {
		list = append(list, secret.Named{Name: name, Value: secret.New(scope[name])})
	}
	return list
}

func (m *memory) Stored(_ context.Context, org string, agent haft.AgentID) (*callenv.Stored, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := &callenv.Stored{Org: m.named(org, "")}
	if agent != "" {
		s.Agent = m.named(org, agent)
	}
	return s, m.fail
}

func (m *memory) List(_ context.Context, org string, agent haft.AgentID) ([]secret.Info, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []secret.Info
	for _, n := range m.named(org, agent) {
		list = append(list, secret.Info{Name: n.Name})
	}
	return list, m.fail
}

func (m *memory) Put(_ context.Context, org string, agent haft.AgentID, name string, v secret.Value,
	_ *secret.Binding) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	scope := org + "/" + string(agent)
	if m.values[scope] == nil {
		m.values[scope] = map[string]string{}
	}
	m.values[scope][name] = v.Reveal()
	return m.fail
}

func (m *memory) Remove(_ context.Context, org string, agent haft.AgentID, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.values[org+"/"+string(agent)], name)
	return m.fail
}

func (m *memory) PutEnv(_ context.Context, org string, agent haft.AgentID, env map[string]secret.Value,
	write func(store.OwnSecrets) error) error {
	if err := write(store.OwnSecrets{Kind: "agent"}); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	next := map[string]string{}
	for name, v := range env {
		if next[name] = v.Reveal(); v.IsZero() {
			next[name] = m.values[org+"/"+string(agent)][name]
		}
	}
	m.values[org+"/"+string(agent)] = next
	return m.fail
}

// hook is a webhook.
type hook func(who haft.Principal, tool haft.Tool, call haft.CallID) ([]secret.Named, error)

func (h hook) Fetch(_ context.Context, who haft.Principal, tool haft.Tool, call haft.CallID) ([]secret.Named, error) {
	return h(who, tool, call)
}

// environment gives back what a tool is given, as a list, so that nothing in it is
// redacted by its place.
func environment(_ context.Context, req executor.Request) (*haft.Result, error) {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(req.Env)) {
		all = append(all, name+"="+strings.ToLower(req.Env[name][:1]))
	}
	raw, err := json.Marshal(all)
	return ok(req, string(raw)), err
}

func TestEngine_environment_has_four_scopes(t *testing.T) {
	vault := &memory{values: map[string]map[string]string{}}
	var asked []string
	w := setup(t, allowAll, engine.Config{Vault: vault,
		Credentials: hook(func(who haft.Principal, tool haft.Tool, call haft.CallID) ([]secret.Named, error) {
			asked = append(asked, who.Org+" "+who.User+" "+tool.Name)
			if who.Agent == "" || call == "" {
				t.Errorf("the webhook was asked about %+v, call %q", who, call)
			}
			return []secret.Named{{Name: "B", Value: secret.New("webhook-value")},
				{Name: "C", Value: secret.New("webhook-value")}, {Name: "D", Value: secret.New("webhook-value")}}, nil
		})})
	ctx := t.Context()
	w.tool("acme", "show", nil)
	w.script.set(environment)
	admin := haft.Principal{Org: "acme", User: "root", Roles: []string{haft.RoleAdmin}}
	for _, name := range []string{"A", "B", "C", "D"} {
		check(t, w.PutSecret(ctx, admin, "", name, secret.New("organisation-value")))
	}
	a, err := w.PutAgent(ctx, admin, haft.Agent{Name: "helper", Tools: []string{"show"},
		Env: map[string]string{"C": "agent-value", "D": "agent-value"}})
	check(t, err)
	who := admin
	who.Agent = string(a.ID)
	res, err := w.Call(ctx, haft.Call{Tool: "show", Principal: who, Env: map[string]string{"D": "call-value"}})
	check(t, err)
	var got []string
	check(t, json.Unmarshal(res.Value, &got))
	want := []string{"A=o", "B=w", "C=a", "D=c", "HAFT_AGENT_ID=a", "HAFT_CALL_ID=c", "HAFT_ORG_ID=a", "HAFT_TOOL_ID=t"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"acme root show"}, asked); diff != "" {
		t.Error(diff)
	}
	// What is replaced by a higher scope may not be seen either.
	w.script.set(func(_ context.Context, req executor.Request) (*haft.Result, error) {
		res := ok(req, `"organisation-value webhook-value agent-value"`)
		res.Stdout = "organisation-value webhook-value agent-value"
		return res, nil
	})
	if res, err = w.Call(ctx, haft.Call{Tool: "show", Principal: who}); err != nil ||
		strings.Contains(string(res.Value)+res.Stdout, "-value") {
		t.Errorf("the call shows %s and %q, %v", res.Value, res.Stdout, err)
	}
}

func TestEngine_agents_keep_their_variables_in_the_vault(t *testing.T) {
	vault := &memory{values: map[string]map[string]string{}}
	w := setup(t, allowAll, engine.Config{Vault: vault})
	ctx := t.Context()
	admin := haft.Principal{Org: "acme", User: "root", Roles: []string{haft.RoleAdmin}}
	a, err := w.PutAgent(ctx, admin, haft.Agent{Name: "helper", Env: map[string]string{"A": "value-a", "B": "value-b"}})
	check(t, err)
	scope := "acme/" + string(a.ID)
	expect := func(what string, want map[string]string) {
		t.Helper()
		if diff := cmp.Diff(want, vault.values[scope]); diff != "" {
			t.Error(what + ": " + diff)
		}
		row, err := w.store.Agents.Agent(ctx, "acme", "helper")
		if check(t, err); len(row.Env) > 0 {
			t.Errorf("%s: the row has %v", what, row.Env)
		}
	}
	expect("put", map[string]string{"A": "value-a", "B": "value-b"})
	shown, err := w.Agent(ctx, admin, "helper")
	check(t, err)
	if len(shown.Env) != 2 || strings.Contains(shown.Env["A"]+shown.Env["B"], "value") {
		t.Errorf("shown: %v", shown.Env)
	}
	// As a client changes it: what it was shown, with one more and one less.
	delete(shown.Env, "B")
	shown.Env["C"] = "value-c"
	_, err = w.PutAgent(ctx, admin, *shown)
	check(t, err)
	expect("changed", map[string]string{"A": "value-a", "C": "value-c"})
	for name, env := range map[string]map[string]string{"a reserved name": {"PYTHONPATH": "x"},
		"no value": {"NEW": ""}} {
		if _, err := w.PutAgent(ctx, admin, haft.Agent{Name: "helper", Env: env}); haft.CodeOf(
			err) != haft.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	for listed, err := range w.AgentList(ctx, admin, haft.AgentFilter{}) {
		if check(t, err); len(listed.Env) != 2 {
			t.Errorf("listed: %v", listed.Env)
		}
	}
	user := haft.Principal{Org: "acme", User: "ann", Roles: []string{"user"}}
	if err := errors.Join(w.PutSecret(ctx, user, "", "A", secret.New("x"))); haft.CodeOf(err) != haft.CodeDenied {
		t.Errorf("a user stored a secret: %v", err)
	}
	if _, err := w.Secrets(ctx, admin, "nobody"); haft.CodeOf(err) != haft.CodeNotFound {
		t.Errorf("the secrets of nobody: %v", err)
	}
	check(t, w.RemoveAgent(ctx, admin, "helper", ""))
	if len(vault.values[scope]) > 0 {
		t.Errorf("after its removal there are %v", vault.values[scope])
	}
}

// A stored value that a call brings in another way is not kept either.
func TestEngine_keeps_no_stored_value_of_a_call(t *testing.T) {
	vault := &memory{values: map[string]map[string]string{"acme/": {"KEY": "Zx8Qv1"}}}
	w := setup(t, allowAll, engine.Config{Vault: vault})
	w.tool("acme", "show", nil)
	res := w.do(haft.Call{Tool: "show", Principal: admin("acme"), Args: json.RawMessage(`{"path":"/Zx8Qv1"}`),
		Env: map[string]string{"OTHER": "Zx8Qv1", "PLAIN": "word"}})
	rec := w.record("acme", res.Call)
	raw, err := json.Marshal(rec)
	if check(t, err); strings.Contains(string(raw), "Zx8Qv1") || rec.Call.Env["PLAIN"] != "word" {
		t.Errorf("the record is %s", raw)
	}
	events, err := json.Marshal(w.events("acme", res.Call))
	if check(t, err); strings.Contains(string(events), "Zx8Qv1") {
		t.Errorf("the events are %s", events)
	}
}

// More than can be kept out of what a tool prints is not given to it. What is too
// short to be a secret is.
func TestEngine_gives_no_more_than_it_can_hide(t *testing.T) {
	for name, tt := range map[string]struct {
		count, length int
		runs          bool
	}{"short ones": {20, 2, true}, "many": {100, 1000, true}, "too many": {49, 90 << 10, false}} {
		t.Run(name, func(t *testing.T) {
			stored := map[string]string{}
			for i := range tt.count {
				stored[fmt.Sprint("V", i)] = strings.Repeat(fmt.Sprint(i%10), tt.length)
			}
			w := setup(t, allowAll,
				engine.Config{Vault: &memory{values: map[string]map[string]string{"acme/": stored}}})
			w.tool("acme", "show", nil)
			res := w.do(haft.Call{Tool: "show", Principal: admin("acme")})
			if (w.script.count() == 1) != tt.runs || !tt.runs && res.Status != haft.StatusValidation {
				t.Errorf("the call ended with %s, %+v", res.Status, res.Error)
			}
		})
	}
}

// A vault that cannot be read fails the call before it runs, and its arguments are
// not kept: nobody can tell what in them is a secret.
func TestEngine_runs_nothing_without_its_vault(t *testing.T) {
	vault := &memory{values: map[string]map[string]string{"acme/": {"KEY": "stored-value"}}}
	w := setup(t, allowAll, engine.Config{Vault: vault})
	w.tool("acme", "show", nil)
	admin := haft.Principal{Org: "acme", User: "root", Roles: []string{haft.RoleAdmin}}
	vault.fail = &haft.Error{Code: haft.CodeUnavailable,
		Message: "the stored secrets were encrypted with another master key"}
	_, err := w.Call(t.Context(), haft.Call{ID: "c_1", Tool: "show", Args: json.RawMessage(`{"text":"stored-value"}`),
		Principal: admin})
	if haft.CodeOf(err) != haft.CodeUnavailable || w.script.count() != 0 {
		t.Errorf("Call = %v, and the tool ran %d times", err, w.script.count())
	}
	rec, err := w.Record(t.Context(), admin, "c_1")
	check(t, err)
	if raw, err := json.Marshal(rec); err != nil || strings.Contains(string(raw), "stored-value") {
		t.Errorf("the record holds the value: %s, %v", raw, err)
	}
}

// A tool that says what it needs is not run without it.
func TestEngine_runs_no_tool_without_what_it_needs(t *testing.T) {
	down := &haft.Error{Code: haft.CodeUnavailable, Message: "the credentials webhook took too long"}
	tests := []struct {
		name   string
		stored map[string]map[string]string
		hook   engine.Credentials
		env    map[string]string
		says   string // "" means that it runs
		notice bool
	}{
		{name: "nobody gives it", says: "which is not set"},
		{name: "the organisation has it", stored: map[string]map[string]string{"acme/": {"KEY": "stored"}}},
		{name: "the call has it", env: map[string]string{"KEY": "given"}},
		{name: "the webhook gives it", hook: hook(func(haft.Principal, haft.Tool, haft.CallID) ([]secret.Named, error) {
			return []secret.Named{{Name: "KEY", Value: secret.New("fetched")}}, nil
		})},
		{name: "the webhook gives another", says: "which is not set",
			hook: hook(func(haft.Principal, haft.Tool, haft.CallID) ([]secret.Named, error) {
				return []secret.Named{{Name: "OTHER", Value: secret.New("fetched")}}, nil
			})},
		{name: "the webhook would have replaced it", stored: map[string]map[string]string{"acme/": {"KEY": "stored"}},
			says: "took too long",
			hook: hook(func(haft.Principal, haft.Tool, haft.CallID) ([]secret.Named, error) { return nil, down })},
		{name: "the webhook could not have replaced it", env: map[string]string{"KEY": "given"}, notice: true,
			hook: hook(func(haft.Principal, haft.Tool, haft.CallID) ([]secret.Named, error) { return nil, down })},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.stored == nil {
				tt.stored = map[string]map[string]string{}
			}
			w := setup(t, allowAll, engine.Config{Vault: &memory{values: tt.stored}, Credentials: tt.hook})
			w.tool("acme", "show", func(d *haft.Draft) { d.Settings.Secrets = []string{"KEY"} })
			w.script.set(environment)
			res := w.do(haft.Call{Tool: "show", Principal: admin("acme"), Env: tt.env})
			if ran := w.script.count() == 1; ran != (tt.says == "") {
				t.Errorf("it ran: %v, %+v", ran, res.Error)
			}
			if tt.says != "" && (res.Status != haft.StatusError ||
				!strings.Contains(res.Error.Message, "needs the variable KEY") ||
				!strings.Contains(res.Error.Message, tt.says)) {
				t.Errorf("the result is %s, %+v", res.Status, res.Error)
			}
			if (len(res.Notices) > 0) != tt.notice {
				t.Errorf("the notices are %q", res.Notices)
			}
		})
	}
}
