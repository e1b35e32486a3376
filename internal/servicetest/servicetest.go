// Package servicetest is the contract test of [haft.Service]: the promises of the engine hold
// for whoever implements it, such as the client of a server.
//
// [Run] makes its own tools, of which an [Executor] knows what they do, and speaks
// for several people of two organisations. Everything is looked at from outside:
// answers, codes of errors, order, and what others can see.
package servicetest

import (
	"context"
	"encoding/json"
	"iter"
	"testing"

	"haft"
	"haft/executor"
)

// The people of the contract test. Policy must allow users and administrators every tool.
var (
	Admin    = haft.Principal{Org: "acme", User: "root", Roles: []string{haft.RoleAdmin}}
	Approver = haft.Principal{Org: "acme", User: "boss", Roles: []string{haft.RoleApprover}}
	Ann      = haft.Principal{Org: "acme", User: "ann", Roles: []string{"user"}}
	Bob      = haft.Principal{Org: "acme", User: "bob", Roles: []string{"user"}}
	Stranger = haft.Principal{Org: "evil", User: "root", Roles: []string{haft.RoleAdmin}}
)

// Policy is one that allows what the contract test needs.
const Policy = `
version: 1
roles:
  user: ["tool:*"]
  admin: ["tool:*"]
`

// A System gives the service as somebody has it.
type System func(t *testing.T, who haft.Principal) haft.Service

// Executor runs the tools of the contract test by their names: echo gives its arguments,
// fail fails, and sleep lasts until it is cancelled.
type Executor struct{}

// Execute implements [executor.Executor].
func (Executor) Execute(ctx context.Context, req executor.Request) (*haft.Result, error) {
	res := &haft.Result{Call: req.Call, Tool: req.Tool, Status: haft.StatusSuccess, Value: json.RawMessage(req.Args)}
	switch req.Function {
	case "fail":
		res.Status, res.Value = haft.StatusError, json.RawMessage("null")
		res.Error = &haft.Failure{Kind: haft.FailException, Message: "it failed", Retry: haft.RetryNever}
	case "sleep":
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	return res, nil
}

// Run runs the contract test against a system. Open makes a new one, empty, with an [Executor] for
// Python, and must close it with the test.
func Run(t *testing.T, open func(t *testing.T) System) {
	for name, test := range map[string]func(*world){
		"tools":                             (*world).tools,
		"tools_that_are_not_there":          (*world).noTools,
		"tools_are_listed_in_pages":         (*world).manyTools,
		"calls":                             (*world).calls,
		"calls_that_are_refused":            (*world).refusals,
		"calls_with_a_key_are_made_once":    (*world).idempotent,
		"calls_are_submitted":               (*world).submitted,
		"calls_are_cancelled":               (*world).cancelled,
		"calls_are_listed_newest_first":     (*world).records,
		"batches_and_chains":                (*world).many,
		"approvals":                         (*world).approvals,
		"agents":                            (*world).agents,
		"events_resume":                     (*world).events,
		"organisations_do_not_see_others":   (*world).tenants,
		"everything_is_stopped_and_resumed": (*world).stopped,
	} {
		t.Run(name, func(t *testing.T) { test(&world{t, open(t)}) })
	}
}

// A world is one case of the contract test.
type world struct {
	*testing.T
	as System
}

// code expects an error with a code; "" means none.
func (w *world) code(what string, err error, want haft.Code) {
	w.Helper()
	if got := haft.CodeOf(err); got != want {
		w.Errorf("%s: code %q, want %q: %v", what, got, want, err)
	}
}

// must expects no error.
func (w *world) must(what string, err error) {
	w.Helper()
	if err != nil {
		w.Fatalf("%s: %v", what, err)
	}
}

// all collects a list.
func all[T any](w *world, what string, list iter.Seq2[T, error]) []T {
	w.Helper()
	out := []T{}
	for item, err := range list {
		w.must(what, err)
		out = append(out, item)
	}
	return out
}

// first returns the error of a list.
func first[T any](list iter.Seq2[T, error]) error {
	for _, err := range list {
		return err
	}
	return nil
}

// draft is one of a tool that does what its name says.
func draft(name, does string) haft.Draft {
	return haft.Draft{
		Name: name, Kind: haft.KindPython, Function: does, Description: "A tool.", Source: "def " + does + "(): pass",
		Parameters: json.RawMessage(`{"type":"object","properties":{"x":{"type":"integer"}}}`),
	}
}

// put registers a tool.
func (w *world) put(d haft.Draft) haft.Tool {
	w.Helper()
	c, err := w.as(w.T, Admin).PutTool(w.Context(), Admin, d)
	w.must("put the tool "+d.Name, err)
	return c.Tool
}

// call calls a tool and expects a status.
func (w *world) call(who haft.Principal, c haft.Call, want haft.Status) *haft.Result {
	w.Helper()
	c.Principal = who
	res, err := w.as(w.T, who).Call(w.Context(), c)
	w.must("call "+c.Tool, err)
	if res.Status != want {
		w.Fatalf("the call of %s ends with %s, want %s: %+v", c.Tool, res.Status, want, res.Error)
	}
	return res
}

// ended waits for the end of a call by watching.
func (w *world) ended(who haft.Principal, id haft.CallID) *haft.Record {
	w.Helper()
	w.until(who, id, haft.EventCompleted)
	// The event is sent when the record is written.
	r, err := w.as(w.T, who).Record(w.Context(), who, id)
	w.must("look at a call", err)
	return r
}

// until waits for an event of a call.
func (w *world) until(who haft.Principal, id haft.CallID, typ haft.EventType) {
	w.Helper()
	ctx, cancel := context.WithCancel(w.Context())
	defer cancel()
	for e, err := range w.as(w.T, who).Watch(ctx, who, haft.EventFilter{Call: id}, 0) {
		w.must("watch", err)
		if e.Call == id && e.Type == typ {
			return
		}
	}
}
