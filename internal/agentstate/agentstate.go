// Package agentstate gives tools that name agent_state the memory of their agent, and keeps what they change in it.
package agentstate

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"

	"haft"
	"haft/executor"
	"haft/internal/lettaid"
)

// parameter is the name by which a function asks for the state.
const parameter = "agent_state"

// States are the memories of agents.
type States interface {
	// Snapshot is what a tool is given of an agent: nothing secret.
	Snapshot(ctx context.Context, org string, agent haft.AgentID) (json.RawMessage, error)
	// ApplyState keeps what a tool has changed, all of it or nothing. What the tool gives may be anything.
	ApplyState(ctx context.Context, p haft.Principal, agent haft.AgentID, before, after json.RawMessage) error
}

// An Executor runs tools, and those that name agent_state with the state of their agent.
type Executor struct {
	executor.Executor
	States States
}

// Execute implements [executor.Executor].
func (x Executor) Execute(ctx context.Context, req executor.Request) (*haft.Result, error) {
	return x.run(ctx, req, x.Executor.Execute)
}

// Prepare implements [executor.Preparer].
func (x Executor) Prepare(ctx context.Context, req executor.Request) executor.Prepared {
	next, ok := x.Executor.(executor.Preparer)
	if _, state := req.Inject[parameter]; !ok || state { // the state is read when the tool runs
		return nil
	}
	return next.Prepare(ctx, req)
}

// run runs a tool by execute. A state that is not taken makes the call fail, and says why to the model: the value would
// say that the change is there.
func (x Executor) run(ctx context.Context, req executor.Request,
	execute func(context.Context, executor.Request) (*haft.Result, error)) (*haft.Result, error) {
	agent := haft.AgentID(req.Principal.Agent)
	if _, ok := req.Inject[parameter]; !ok || agent == "" {
		return execute(ctx, req)
	}
	before, err := x.States.Snapshot(ctx, req.Org, agent)
	if err != nil {
		return nil, err
	}
	if req.Letta { // the id is the first that a state has
		before = bytes.Replace(before, []byte(`"`+agent+`"`), []byte(`"`+lettaid.Agent(agent)+`"`), 1)
	}
	before, _ = req.Redactor.JSON(before) // both are without secrets, so that only what the tool changed differs
	var after json.RawMessage
	req.Inject = maps.Clone(req.Inject)
	req.Inject[parameter] = before
	req.Changed = func(state json.RawMessage) { after = bytes.Clone(state) }
	res, err := execute(ctx, req)
	if err != nil || res.Status != haft.StatusSuccess || after == nil {
		return res, err
	}
	after, _ = req.Redactor.JSON(after)
	if err := x.States.ApplyState(ctx, req.Principal, agent, before, after); err != nil {
		retry := haft.RetryChanged
		if haft.CodeOf(err) == haft.CodeConflict {
			retry = haft.RetrySame
		}
		executor.Fail(res, haft.Failure{Kind: haft.FailValue, Retry: retry,
			Message: "what the tool changed in agent_state is not kept: " + haft.MessageOf(err)})
	}
	return res, nil
}
