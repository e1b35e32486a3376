package conversation_test

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"
	"time"

	"haft"
	"haft/executor"
	"haft/internal/conversation"
	"haft/internal/engine"
	"haft/internal/registry"
	"haft/internal/servertest"
	"haft/internal/service"
)

// runs is an executor that counts how often tools run. The tool slow runs until it is cancelled.
type runs struct {
	n     atomic.Int32
	began chan struct{}
}

// Execute implements executor.Executor.
func (r *runs) Execute(ctx context.Context, req executor.Request) (*haft.Result, error) {
	r.n.Add(1)
	res := &haft.Result{Call: req.Call, Tool: req.Tool, Status: haft.StatusSuccess, Value: json.RawMessage(req.Args)}
	if req.Tool == "slow" {
		close(r.began)
		<-ctx.Done()
		res.Status, res.Value = haft.StatusCancelled, nil
		res.Error = &haft.Failure{Kind: haft.FailCancelled, Message: "cancelled"}
	}
	return res, nil
}

// realAgents knows the agent of the engine.
type realAgents struct {
	*process
	agent haft.Agent
}

func (a realAgents) Agent(context.Context, haft.Principal, string) (*haft.Agent, error) {
	return &a.agent, nil
}

func (a realAgents) Profile(context.Context, haft.Principal, haft.AgentID) (*conversation.Profile, error) {
	prof := a.profile
	prof.Agent = a.agent
	return &prof, nil
}

// withEngine is a world whose calls are made by a real engine: with the tools a, ask, for which a person has to agree,
// and slow. The function changes a process such that it uses the engine.
func withEngine(t *testing.T) (*world, *runs, *service.API, func(*conversation.Config)) {
	r := &runs{began: make(chan struct{})}
	e, api, _ := servertest.Open(t, "version: 1\nroles: {user: [\"tool:*\"]}\n", r, registry.Config{
		Review: func(context.Context, haft.Kind, string, bool) ([]haft.Finding, error) { return nil, nil },
	}, engine.Config{}, service.Config{})
	w := newWorld(t)
	w.profile.Tools = nil
	for _, name := range []string{"a", "ask", "slow"} {
		change, err := api.PutTool(t.Context(), admin, haft.Draft{Name: name, Kind: haft.KindPython,
			Source: "pass", Function: name, Description: "Do it.",
			Parameters: json.RawMessage(`{"type":"object","properties":{"x":{"type":"integer"}}}`),
			Settings:   haft.Settings{RequiresApproval: name == "ask"}})
		if err != nil {
			t.Fatal(err)
		}
		w.profile.Tools = append(w.profile.Tools, change.Tool)
	}
	agent, err := api.PutAgent(t.Context(), admin, haft.Agent{Name: "helper", Tools: []string{"a", "ask", "slow"}})
	if err != nil {
		t.Fatal(err)
	}
	return w, r, api, func(cfg *conversation.Config) {
		p, _ := cfg.Calls.(*process)
		cfg.Calls, cfg.Events, cfg.Agents, cfg.Beat = e, api, realAgents{p, *agent}, 10*time.Millisecond
	}
}

// user is ann with a role by which she may call tools.
var user = haft.Principal{Org: "org", User: "ann", Roles: []string{"user"}}

// sendAgain sends a message, or listens to the turn of one that was sent.
func (p *process) sendAgain(text string) outcome {
	by := user
	by.Agent = "helper"
	return listen(p.world, p.Send(context.Background(), by, "helper", haft.NewMessage{Text: text, Key: text}))
}

func TestEngine_calls(t *testing.T) {
	w, r, _, real := withEngine(t)
	w.script(call("a", `{"x":1}`, "a", `{"x":"one"}`, "a", `{"x":2}`), say("done"))
	o := w.begin(0, real).sendAgain("hi")
	o.check(t, haft.TurnCompleted, haft.StopEnd,
		"user, assistant a a a, a:success, a:validation_error, a:success, assistant")
	if r.n.Load() != 2 || o.answers()[0] != `{"x":1}` {
		t.Errorf("%d runs, answers %q", r.n.Load(), o.answers())
	}
}

func TestEngine_crash_at_every_operation(t *testing.T) {
	for at := 1; at < 30; at++ {
		w, r, _, real := withEngine(t)
		w.script(call("a", `{"x":1}`, "a", `{"x":2}`), say("done"))
		p := w.begin(at, real)
		p.sendAgain("hi")
		<-p.over(t, at)
		o := w.begin(0, real).sendAgain("hi")
		o.check(t, haft.TurnCompleted, haft.StopEnd, "user, assistant a a, a:success, a:success, assistant")
		if r.n.Load() != 2 {
			t.Errorf("dead at %d: %d runs", at, r.n.Load())
		}
	}
}

// over returns a channel that is closed when the process is dead, or when it has nothing to do.
func (p *process) over(t *testing.T, at int) <-chan struct{} {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ops < at { // the turn is over
		done := make(chan struct{})
		close(done)
		return done
	}
	return p.dead
}

func TestEngine_approvals(t *testing.T) {
	boss := haft.Principal{Org: "org", User: "boss", Roles: []string{haft.RoleApprover, "user"}}
	for approve, want := range map[bool]haft.Status{true: haft.StatusSuccess, false: haft.StatusRejected} {
		w, r, api, real := withEngine(t)
		w.script(call("ask", `{"x":1}`), say("done"))
		p := w.begin(0, real)
		o := p.sendAgain("hi")
		o.check(t, haft.TurnWaiting, "", "user, assistant ask")
		p.kill()
		if _, err := api.Decide(t.Context(), boss, o.turn.Approvals[0], haft.Answer{Approve: approve}); err != nil {
			t.Fatal(err)
		}
		o = listen(w, w.begin(0, real).Follow(t.Context(), user, o.turn.ID))
		o.check(t, haft.TurnCompleted, haft.StopEnd, "user, assistant ask, ask:"+string(want)+", assistant")
		if ran := r.n.Load() == 1; ran != approve {
			t.Errorf("agreed %v, ran %v", approve, ran)
		}
	}
}

func TestEngine_cancels(t *testing.T) {
	for _, name := range []string{"slow", "ask"} {
		w, r, _, real := withEngine(t)
		w.script(call(name, `{"x":1}`), say("done"))
		p := w.begin(0, real)
		done := make(chan outcome, 1)
		go func() { done <- p.sendAgain("hi") }()
		if name == "slow" {
			<-r.began
		} else {
			done <- (<-done)
		}
		if err := p.CancelTurn(t.Context(), user, w.first()); err != nil {
			t.Fatal(err)
		}
		<-done
		turn, kept := w.ofTurn(w.first())
		outcome{turn: turn, kept: kept}.check(t, haft.TurnCancelled, haft.StopCancelled,
			"user, assistant "+name+", "+name+":cancelled")
	}
}
