package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"haft"
	"haft/executor"
	"haft/internal/engine"
	"haft/internal/secret"
	"haft/internal/store"
	"haft/internal/store/sqlite"
)

// credentials is who is still known, as an authenticator would say.
type credentials struct {
	mu      sync.Mutex
	gone    map[string]string // why, by credential
	roles   map[string][]string
	expires map[string]time.Time
	broken  string // the credential that cannot be looked up
}

func (c *credentials) recheck(_ context.Context, p haft.Principal) (haft.Principal, time.Time, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if why := c.gone[p.Credential]; why != "" {
		return p, time.Time{}, &haft.Error{Code: haft.CodeUnauthenticated, Message: why}
	}
	if p.Credential == c.broken && c.broken != "" {
		return p, time.Time{}, errors.New("the store cannot be read")
	}
	ends := c.expires[p.Credential]
	if !ends.IsZero() && !time.Now().Before(ends) {
		return p, ends, &haft.Error{Code: haft.CodeUnauthenticated, Message: "the token has expired"}
	}
	if roles, ok := c.roles[p.Credential]; ok {
		p.Roles = roles
	}
	return p, ends, nil
}

// set changes the state of a credential. Audit is whether anybody is told.
func (c *credentials) set(f func(*credentials)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(c)
}

// approvalRules demand that a person agrees to the tool "ask".
const approvalRules = allowAll + `
rules:
  - {id: ask, effect: ask, tools: ["tool:ask"]}
  - {id: one, effect: limit, tools: ["tool:single"], concurrency: {max: 1}}
`

// revoking is a world in which mallory, whose credential is key:m, and her agent have
// tools that do not end by themselves.
type revoking struct {
	*world
	credentials *credentials
	p           haft.Principal
	agent       *haft.Agent
	started     chan haft.CallID
}

func newRevoking(t *testing.T) *revoking {
	t.Helper()
	r := &revoking{credentials: &credentials{gone: map[string]string{}, roles: map[string][]string{},
		expires: map[string]time.Time{}}, started: make(chan haft.CallID, 64)}
	r.world = setup(t, approvalRules, engine.Config{Recheck: r.credentials.recheck})
	for _, name := range []string{"slow", "ask", "single"} {
		r.tool("o", name, nil)
	}
	var err error
	if r.agent, err = r.PutAgent(t.Context(), admin("o"),
		haft.Agent{Name: "bot", Tools: []string{"slow", "ask", "single"}}); err != nil {
		t.Fatal(err)
	}
	r.p = user("o", "mallory")
	r.p.Agent, r.p.Credential = string(r.agent.ID), "key:m"
	r.script.set(func(ctx context.Context, req executor.Request) (*haft.Result, error) {
		r.started <- req.Call
		<-ctx.Done()
		return failing(req, haft.StatusCancelled, haft.FailCancelled), nil
	})
	return r
}

// begun waits until so many tools run.
func (r *revoking) begun(n int) {
	r.t.Helper()
	for range n {
		select {
		case <-r.started:
		case <-time.After(time.Minute):
			r.t.Fatal("the tool does not begin")
		}
	}
}

func (r *revoking) asked(tool string) haft.Call {
	return haft.Call{ID: haft.NewCallID(), Tool: tool, Args: json.RawMessage(`{"x":1}`), Principal: r.p}
}

// withdrawals are what can be changed, and what the reason has to say.
func withdrawals() map[string]struct {
	change func(r *revoking) error
	why    string
} {
	manage := func(kind string, f func(*credentials)) func(*revoking) error {
		return func(r *revoking) error {
			return r.Manage(r.t.Context(), admin("o"), haft.KeysWrite, kind, func(context.Context) (any, error) {
				r.credentials.set(f)
				return nil, nil
			})
		}
	}
	policy := func(server bool, text string) func(*revoking) error {
		return func(r *revoking) error {
			_, err := r.PutPolicy(r.t.Context(), admin("o"), server, haft.PolicyText{Text: []byte(text)})
			return err
		}
	}
	each := func(f func(r *revoking, tool string) error) func(*revoking) error {
		return func(r *revoking) error {
			for _, tool := range []string{"slow", "ask", "single"} {
				if err := f(r, tool); err != nil {
					return err
				}
			}
			return nil
		}
	}
	return map[string]struct {
		change func(r *revoking) error
		why    string
	}{
		"the key is removed": {manage("key.remove",
			func(c *credentials) { c.gone["key:m"] = "the API key was removed" }), "the API key was removed"},
		"the token expires without a change": {func(r *revoking) error {
			r.credentials.set(func(c *credentials) { c.expires["key:m"] = time.Now() })
			return r.Manage(r.t.Context(), admin("other"), haft.KeysWrite, "key.remove",
				func(context.Context) (any, error) { return nil, nil })
		}, "the token has expired"},
		"its role is taken": {manage("key.set", func(c *credentials) { c.roles["key:m"] = nil }), ""},
		"the agent is removed": {func(r *revoking) error { return r.RemoveAgent(r.t.Context(), admin("o"), "bot", "") },
			"there is no such agent"},
		"the agent is disabled": {func(r *revoking) error {
			a := *r.agent
			a.Disabled = true
			return second(r.PutAgent(r.t.Context(), admin("o"), a))
		}, "the agent is disabled"},
		"the tools are taken from the agent": {func(r *revoking) error {
			a := *r.agent
			a.Tools = nil
			return second(r.PutAgent(r.t.Context(), admin("o"), a))
		}, "there is no such tool"},
		"the tools are removed": {each(func(r *revoking,
			tool string) error {
			return r.RemoveTool(r.t.Context(), admin("o"), tool, "")
		}), "there is no such tool"},
		"the tools are disabled": {each(func(r *revoking, tool string) error {
			return second(r.SetTool(r.t.Context(), admin("o"), tool, haft.ToolState{Disabled: new(true)}))
		}), "the tool is disabled"},
		"the tools ask for another role": {each(func(r *revoking, tool string) error {
			return second(r.PutTool(r.t.Context(), admin("o"),
				haft.Draft{Name: tool, Kind: haft.KindPython, Function: tool, Description: "A tool.",
					Source:     "def " + tool + "(): pass",
					Parameters: json.RawMessage(`{"type":"object","properties":{"x":{"type":"integer"}}}`),
					Settings:   haft.Settings{Roles: []string{"chief"}}}))
		}), "role"},
		"the policy of the organisation denies": {policy(false,
			"version: 1\nrules:\n  - {id: no-more, effect: deny, users: [mallory]}\n"), "no-more"},
		"the policy of the server denies": {policy(true,
			approvalRules+"  - {id: no-more, effect: deny, when: 'args.x == 1'}\n"), "no-more"},
	}
}

// A sandbox that cannot be had any more does not hide what the rules say of a call.
func TestStillAllowed_without_its_sandbox(t *testing.T) {
	r := newRevoking(t)
	c := r.asked("slow")
	c.Sandbox = "moon"
	if err := r.StillAllowed(t.Context(), c); err != nil {
		t.Errorf("before anything is denied: %v", err)
	}
	if err := withdrawals()["the policy of the organisation denies"].change(r); err != nil {
		t.Fatal(err)
	}
	if err := r.StillAllowed(t.Context(), c); haft.CodeOf(err) != haft.CodeDenied {
		t.Errorf("after a rule that denies: %v, want code %q", err, haft.CodeDenied)
	}
}

func second[T any](_ T, err error) error { return err }

// kinds are the ways in which a call can be on its way. Each begins calls and returns
// those that have to end, and a function that returns what the caller was told, or nil
// if nobody waits.
func kinds() map[string]func(r *revoking) (ids []haft.CallID, results func() []*haft.Result) {
	answers := func(r *revoking, begun int, make func(ctx context.Context) []*haft.Result) func() []*haft.Result {
		out := make1(func() []*haft.Result { return make(r.t.Context()) })
		r.begun(begun)
		return out
	}
	submit := func(r *revoking, tool string) haft.CallID {
		rec, err := r.Submit(r.t.Context(), r.asked(tool))
		if err != nil {
			r.t.Fatal(err)
		}
		return rec.Call.ID
	}
	return map[string]func(r *revoking) ([]haft.CallID, func() []*haft.Result){
		"running": func(r *revoking) ([]haft.CallID, func() []*haft.Result) {
			c := r.asked("slow")
			return []haft.CallID{c.ID}, answers(r, 1, func(ctx context.Context) []*haft.Result {
				res, err := r.Call(ctx, c)
				check(r.t, err)
				return []*haft.Result{res}
			})
		},
		"submitted": func(r *revoking) ([]haft.CallID, func() []*haft.Result) {
			id := submit(r, "slow")
			r.begun(1)
			return []haft.CallID{id}, nil
		},
		"waiting in a queue": func(r *revoking) ([]haft.CallID, func() []*haft.Result) {
			first := submit(r, "single")
			r.begun(1)
			return []haft.CallID{first, submit(r, "single")}, nil
		},
		"waiting for approval": func(r *revoking) ([]haft.CallID, func() []*haft.Result) {
			c := r.asked("ask")
			want(r.t, r.do(c), haft.StatusPending)
			return []haft.CallID{c.ID}, nil
		},
		"in a batch": func(r *revoking) ([]haft.CallID, func() []*haft.Result) {
			a, b := r.asked("slow"), r.asked("slow")
			return []haft.CallID{a.ID, b.ID}, answers(r, 1, func(ctx context.Context) []*haft.Result {
				list, err := r.Batch(ctx, []haft.Call{a, b})
				check(r.t, err)
				return list
			})
		},
		"in a chain": func(r *revoking) ([]haft.CallID, func() []*haft.Result) {
			c, err := r.Run(r.t.Context(), r.p, haft.Plan{Background: true,
				Steps: []haft.Step{{ID: "a", Tool: "slow", Args: json.RawMessage(`{"x":1}`)},
					{ID: "b", Tool: "slow", Args: json.RawMessage(`{"x":1}`), After: []string{"a"}}}})
			if err != nil {
				r.t.Fatal(err)
			}
			r.begun(1)
			return nil, func() []*haft.Result { return r.chainEnds(c.ID) }
		},
		"in a chain that waits for approval": func(r *revoking) ([]haft.CallID, func() []*haft.Result) {
			c, err := r.Run(r.t.Context(), r.p,
				haft.Plan{Steps: []haft.Step{{ID: "a", Tool: "ask", Args: json.RawMessage(`{"x":1}`)},
					{ID: "b", Tool: "slow", Args: json.RawMessage(`{"x":1}`), After: []string{"a"}}}})
			if err != nil {
				r.t.Fatal(err)
			}
			return nil, func() []*haft.Result { return r.chainEnds(c.ID) }
		},
	}
}

// make1 runs f beside the test and returns what waits for its result.
func make1(f func() []*haft.Result) func() []*haft.Result {
	out := make(chan []*haft.Result, 1)
	go func() { out <- f() }()
	return func() []*haft.Result {
		select {
		case list := <-out:
			return list
		case <-time.After(time.Minute):
			return nil
		}
	}
}

// chainEnds waits for the end of a chain and returns what its first step came to.
func (r *revoking) chainEnds(id haft.ChainID) []*haft.Result {
	r.t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-time.After(5 * time.Millisecond) {
		c, err := r.Chain(r.t.Context(), admin("o"), id)
		if err != nil {
			r.t.Fatal(err)
		}
		if c.Status.Final() && c.Steps[0].Result != nil {
			if c.Steps[1].Result != nil && c.Steps[1].Result.Status == haft.StatusSuccess {
				r.t.Error("the chain went on")
			}
			if res := c.Steps[0].Result; !res.Status.Final() { // the chain ended first
				return []*haft.Result{r.end(admin("o"), res.Call)}
			}
			return []*haft.Result{c.Steps[0].Result}
		}
	}
	r.t.Error("the chain does not end")
	return nil
}

// ended checks what became of a call whose permission was withdrawn.
func (r *revoking) ended(res *haft.Result, why string) {
	r.t.Helper()
	if res == nil || res.Status != haft.StatusCancelled && res.Status != haft.StatusDenied &&
		res.Status != haft.StatusValidation || res.Error == nil {
		r.t.Errorf("the call ended with %+v", res)
		return
	}
	if !strings.Contains(res.Error.Message, why) {
		r.t.Errorf("the reason is %q, want %q", res.Error.Message, why)
	}
}

func TestWithdrawn_calls_end_and_say_why(t *testing.T) {
	for change, w := range withdrawals() {
		for kind, begin := range kinds() {
			t.Run(change+"/"+kind, func(t *testing.T) {
				t.Parallel()
				r := newRevoking(t)
				ids, resultsOf := begin(r)
				runs := r.script.count()
				check(t, w.change(r))
				if resultsOf != nil {
					results := resultsOf()
					if len(results) == 0 {
						t.Fatal("nobody was told within a minute")
					}
					for _, res := range results {
						r.ended(res, w.why)
					}
				}
				for _, id := range ids {
					if resultsOf == nil {
						r.ended(r.end(admin("o"), id), w.why)
					}
				}
				if n := r.script.count(); n > runs {
					t.Errorf("%d tools ran after the change", n-runs)
				}
				for a, err := range r.Approvals(t.Context(), admin("o"), haft.ApprovalFilter{}) {
					t.Errorf("a request still waits: %+v %v", a, err)
				}
				r.verify("o")
			})
		}
	}
}

// TestWithdrawn_is_audited looks at what is written of the end.
func TestWithdrawn_is_audited(t *testing.T) {
	r := newRevoking(t)
	id, _ := kinds()["submitted"](r)
	check(t, withdrawals()["the key is removed"].change(r))
	r.end(admin("o"), id[0])
	for _, e := range r.audit("o") {
		if e.Call == id[0] && e.Kind == "call.ended" {
			if !strings.Contains(string(e.Body), `"withdrawn":"the API key was removed"`) ||
				e.Actor.Credential != "key:m" {
				t.Errorf("the audit says %s of %+v", e.Body, e.Actor)
			}
			return
		}
	}
	t.Error("the end is not in the audit")
}

// TestWithdrawn_leaves_others looks at whoever is not concerned.
func TestWithdrawn_leaves_others(t *testing.T) {
	r := newRevoking(t)
	mallory, _ := kinds()["submitted"](r)
	r.p = user("o", "ann")
	r.p.Credential = "key:a"
	waiting, _ := kinds()["waiting for approval"](r)
	ann, _ := kinds()["submitted"](r)
	check(t, withdrawals()["the key is removed"].change(r))
	// A policy that says other things, and nothing about what runs.
	check(t, second(r.PutPolicy(t.Context(), admin("o"), false,
		haft.PolicyText{Text: []byte("version: 1\nrules:\n  - {id: x, effect: deny, tools: [\"tool:other\"]}\n")})))
	r.end(admin("o"), mallory[0])
	if rec := r.record("o", ann[0]); rec.Status != haft.StatusRunning {
		t.Errorf("the call of another is %s", rec.Status)
	}
	if rec := r.record("o", waiting[0]); rec.Status != haft.StatusPending {
		t.Errorf("the request of another is %s", rec.Status)
	}
	if rec := r.record("o", ann[0]); rec.Call.Principal.Credential != "key:a" {
		t.Errorf("the record has %+v", rec.Call.Principal)
	}
	for _, e := range r.events("o", mallory[0]) {
		if e.Principal.Credential != "" {
			t.Errorf("an event has %+v", e.Principal)
		}
	}
}

// TestWithdrawn_in_spite_of_an_error: a call that cannot be reviewed spares no other one.
func TestWithdrawn_in_spite_of_an_error(t *testing.T) {
	r := newRevoking(t)
	r.p.Credential = "key:broken"
	running, _ := kinds()["submitted"](r)
	waiting, _ := kinds()["waiting for approval"](r)
	r.p.Credential = "key:m"
	others := [][]haft.CallID{}
	for _, kind := range []string{"submitted", "waiting for approval"} {
		ids, _ := kinds()[kind](r)
		others = append(others, ids)
	}
	r.credentials.set(func(c *credentials) { c.broken = "key:broken" })
	check(t, withdrawals()["the policy of the organisation denies"].change(r))
	for _, ids := range others {
		r.ended(r.end(admin("o"), ids[0]), "no-more")
	}
	r.credentials.set(func(c *credentials) { c.broken = "" })
	for _, id := range append(running, waiting...) { // it is tried again
		r.ended(r.end(admin("o"), id), "no-more")
	}
}

// TestWithdrawn_approval is answered after the credential of who asked is gone, by an
// engine that nobody told.
func TestWithdrawn_approval_does_not_run(t *testing.T) {
	r := newRevoking(t)
	ids, _ := kinds()["waiting for approval"](r)
	var id haft.ApprovalID
	for a := range r.Approvals(t.Context(), approver("o"), haft.ApprovalFilter{}) {
		id = a.ID
	}
	r.credentials.set(func(c *credentials) { c.gone["key:m"] = "the API key was removed" })
	_, err := r.Decide(t.Context(), approver("o"), id, haft.Answer{Approve: true})
	if haft.CodeOf(err) != haft.CodeConflict { // a review may have ended the request before the answer
		t.Errorf("the answer is %v", err)
	}
	r.ended(r.end(admin("o"), ids[0]), "the API key was removed")
	if r.script.count() > 0 {
		t.Error("it ran")
	}
}

// TestWithdrawn_after_a_restart: permissions are changed while nobody looks.
func TestWithdrawn_after_a_restart(t *testing.T) {
	for _, status := range []haft.Status{haft.StatusQueued, haft.StatusRunning} {
		t.Run(string(status), func(t *testing.T) {
			s, err := sqlite.Open(t.Context(), sqlite.Config{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { check(t, s.Close()) })
			w := open(t, s, allowAll, engine.Config{})
			tool := w.tool("o", "work", func(d *haft.Draft) { d.Settings.Idempotent = true })
			leftOpen(t, w, "c_left", status, `{"args":{"x":1},"async":true}`, tool)
			rec := w.record("o", "c_left")
			rec.Call.Principal.Credential, rec.Sealed = "key:m", json.RawMessage(`{"args":{"x":1},"async":true}`)
			check(t, s.Commit(t.Context(), batchOf(*rec)))
			check(t, w.Engine.Close())
			gone := &credentials{gone: map[string]string{"key:m": "the API key was removed"}}
			again := open(t, s, allowAll, engine.Config{Recheck: gone.recheck})
			res := again.end(admin("o"), "c_left")
			want(t, res, haft.StatusDenied)
			if again.script.count() > 0 || !strings.Contains(res.Error.Message, "the API key was removed") {
				t.Errorf("it ran, or says %q", res.Error.Message)
			}
		})
	}
}

// batchOf writes one record.
func batchOf(r haft.Record) store.Batch { return store.Batch{Records: []haft.Record{r}} }

// TestWithdrawn_from_a_call_that_could_not_be_made_again: that a fresh call would be refused
// for something else than its permission does not keep the one that runs.
func TestWithdrawn_from_a_call_that_could_not_be_made_again(t *testing.T) {
	vault := &memory{values: map[string]map[string]string{"o/": {}}}
	w := setup(t, allowAll, engine.Config{Vault: vault})
	w.tool("o", "slow", nil)
	started := make(chan struct{})
	w.script.set(func(ctx context.Context, req executor.Request) (*haft.Result, error) {
		close(started)
		<-ctx.Done()
		return failing(req, haft.StatusCancelled, haft.FailCancelled), nil
	})
	c := haft.Call{Tool: "slow", Args: json.RawMessage(`{}`), Principal: user("o", "ann"),
		Turn: "my-turn-hunter2hunter2"}
	rec, err := w.Submit(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	<-started
	// From now on the turn of the call holds a secret.
	check(t, w.PutSecret(t.Context(), admin("o"), "", "API_TOKEN", secret.New("hunter2hunter2")))
	check(t, second(w.SetTool(t.Context(), admin("o"), "slow", haft.ToolState{Disabled: new(true)})))
	want(t, w.end(admin("o"), rec.Call.ID), haft.StatusCancelled)
}
