package agentstate_test

import (
	"context"
	"encoding/json"
	"testing"

	"haft"
	"haft/executor"
	"haft/internal/agentstate"
	"haft/internal/secret"
)

// tool is an executor whose tool changes the state that it is given.
type tool struct {
	status haft.Status
	change string
	got    json.RawMessage
}

func (x *tool) Execute(_ context.Context, req executor.Request) (*haft.Result, error) {
	x.got = req.Inject["agent_state"]
	if req.Changed != nil && x.change != "" {
		req.Changed(json.RawMessage(x.change))
	}
	return &haft.Result{Status: x.status, Value: json.RawMessage(`1`)}, nil
}

// kept are states that remember what is applied.
type kept struct {
	refuse error
	took   string
}

func (k *kept) Snapshot(_ context.Context, org string, agent haft.AgentID) (json.RawMessage, error) {
	return json.RawMessage(`"` + org + "/" + string(agent) + `"`), nil
}

func (k *kept) ApplyState(_ context.Context, _ haft.Principal, _ haft.AgentID, before, after json.RawMessage) error {
	k.took = string(before) + " to " + string(after)
	return k.refuse
}

func TestExecutor(t *testing.T) {
	conflict := &haft.Error{Code: haft.CodeConflict, Message: "it was changed"}
	for _, tt := range []struct {
		name, agent, change string
		status              haft.Status
		refuse              error
		given, took, value  string
		retry               haft.Retry
	}{
		{name: "changed", agent: "a", change: `"new"`, status: haft.StatusSuccess, given: `"o/a"`,
			took:  `"o/a" to "new"`,
			value: "1"},
		{name: "unchanged", agent: "a", status: haft.StatusSuccess, given: `"o/a"`, value: "1"},
		{name: "no agent", change: `"new"`, status: haft.StatusSuccess, given: "null", value: "1"},
		{name: "failed", agent: "a", change: `"new"`, status: haft.StatusError, given: `"o/a"`, value: "1"},
		{name: "a secret", agent: "a", change: `"x s3cr3t-s3cr3t"`, status: haft.StatusSuccess, given: `"o/a"`,
			took: `"o/a" to "x [redacted:KEY]"`, value: "1"},
		{name: "refused", agent: "a", change: `{}`, status: haft.StatusSuccess, given: `"o/a"`, took: `"o/a" to {}`,
			refuse: &haft.Error{Code: haft.CodeInvalid, Message: "no"}, value: "null", retry: haft.RetryChanged},
		{name: "overtaken", agent: "a", change: `{}`, status: haft.StatusSuccess, given: `"o/a"`, took: `"o/a" to {}`,
			refuse: conflict, value: "null", retry: haft.RetrySame},
	} {
		t.Run(tt.name, func(t *testing.T) {
			next, states := &tool{status: tt.status, change: tt.change}, &kept{refuse: tt.refuse}
			x := agentstate.Executor{Executor: next, States: states}
			res, err := x.Execute(t.Context(), executor.Request{Org: "o", Principal: haft.Principal{Org: "o",
				Agent: tt.agent},
				Inject: map[string]json.RawMessage{"agent_state": json.RawMessage("null")},
				Redactor: secret.NewRedactor(secret.Config{Values: []secret.Named{{Name: "KEY",
					Value: secret.New("s3cr3t-s3cr3t")}}})})
			if err != nil {
				t.Fatal(err)
			}
			if string(next.got) != tt.given || states.took != tt.took || string(res.Value) != tt.value {
				t.Errorf("given %s, took %s, value %s", next.got, states.took, res.Value)
			}
			if tt.retry != "" && (res.Status != haft.StatusError || res.Error.Retry != tt.retry) {
				t.Errorf("refused with %s %+v", res.Status, res.Error)
			}
		})
	}
}
