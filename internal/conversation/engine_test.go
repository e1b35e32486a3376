package conversation_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"haft"
)

// end closes a record. The world is locked.
func (r *record) end(res *haft.Result) {
	res.Call, res.Tool, r.status, r.result = r.call.ID, r.call.Tool, res.Status, res
	r.change()
}

func failed(status haft.Status, kind haft.FailureKind, message string) *haft.Result {
	return &haft.Result{Status: status, Error: &haft.Failure{Kind: kind, Message: message}}
}

func (r *record) change() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// Call is that of the engine: an id is taken once.
func (p *process) Call(ctx context.Context, c haft.Call) (*haft.Result, error) {
	r, t, err := p.enter(c)
	if err != nil {
		return nil, err
	}
	if t.approval { // what the record says may change by now
		return &haft.Result{Call: c.ID, Tool: c.Tool, Status: haft.StatusPending, Approval: r.approval}, p.op()
	}
	p.run(ctx, r, t)
	if err := p.op(); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return r.result, nil
}

// enter makes the record of a call.
func (p *process) enter(c haft.Call) (*record, tool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.opLocked(); err != nil {
		return nil, tool{}, err
	}
	if c.ID == "" || c.Turn == "" || !strings.HasPrefix(c.Principal.Agent, string(agentID)) {
		p.t.Errorf("the call %s has no id, no turn or no agent", c.ID)
	}
	if p.calls[c.ID] != nil {
		return nil, tool{}, conflict()
	}
	t, ok := p.tools[c.Tool]
	if !ok {
		return nil, tool{}, notFound()
	}
	r := &record{call: c, owner: p.name, status: haft.StatusRunning, changed: make(chan struct{})}
	if t.approval {
		r.status, r.approval = haft.StatusPending, haft.ApprovalID("ap_"+c.ID)
	}
	p.calls[c.ID] = r
	return r, t, nil
}

// run runs the tool of a record to its end.
func (p *process) run(ctx context.Context, r *record, t tool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p.mu.Lock()
	r.cancel = cancel
	r.runs++
	p.mu.Unlock()
	value, err := t.run(ctx, string(r.call.Args))
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.opLocked() != nil || r.status != haft.StatusRunning {
		return // the process died while the tool ran
	}
	switch {
	case errors.Is(err, context.Canceled):
		r.end(failed(haft.StatusCancelled, haft.FailCancelled, "cancelled"))
	case err != nil:
		r.end(failed(haft.StatusError, haft.FailException, err.Error()))
	default:
		res := &haft.Result{Status: haft.StatusSuccess, Value: json.RawMessage(value)}
		if t.result != nil {
			t.result(res)
		}
		r.end(res)
	}
}

// ArtifactOf is that of the manager of files.
func (p *process) ArtifactOf(_ context.Context, rec *haft.Record, name string) (*haft.Artifact, io.ReadSeeker, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if rec.Result == nil {
		return nil, nil, notFound()
	}
	for _, a := range rec.Result.Artifacts {
		if data := p.files[a.File]; a.Name == name && (a.File == "" || data != nil) {
			return &a, bytes.NewReader(append(data, a.Data...)), nil
		}
	}
	return nil, nil, notFound()
}

// Wait is that of the engine.
func (p *process) Wait(ctx context.Context, by haft.Principal, id haft.CallID) (*haft.Result, error) {
	for {
		p.mu.Lock()
		if err := p.opLocked(); err != nil {
			p.mu.Unlock()
			return nil, err
		}
		r := p.calls[id]
		if r == nil || r.call.Principal.Org != by.Org {
			p.mu.Unlock()
			return nil, notFound()
		}
		res, changed := r.result, r.changed
		if r.status == haft.StatusPending {
			res = &haft.Result{Call: id, Tool: r.call.Tool, Status: haft.StatusPending, Approval: r.approval}
		}
		p.mu.Unlock()
		if res != nil {
			return res, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Seen is that of the engine.
func (p *process) Seen(_ context.Context, by haft.Principal, id haft.CallID, _ ...haft.Action) (*haft.Record, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.opLocked(); err != nil {
		return nil, err
	}
	r := p.calls[id]
	if r == nil || r.call.Principal.Org != by.Org {
		return nil, notFound()
	}
	rec := &haft.Record{Call: r.call, Status: r.status, Result: r.result}
	if r.status == haft.StatusPending {
		rec.Result = &haft.Result{Call: id, Status: r.status, Approval: r.approval}
	}
	return rec, nil
}

// Cancel is that of the engine.
func (p *process) Cancel(_ context.Context, _ haft.Principal, id haft.CallID) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.opLocked(); err != nil {
		return err
	}
	r := p.calls[id]
	switch {
	case r == nil:
		return notFound()
	case r.status == haft.StatusPending:
		r.end(failed(haft.StatusCancelled, haft.FailCancelled, "cancelled"))
	case r.status == haft.StatusRunning && r.owner != p.name:
		return &haft.Error{Code: haft.CodeUnavailable, Message: "the call runs on another machine"}
	case r.status == haft.StatusRunning && r.cancel != nil:
		r.cancel()
	}
	return nil
}

// decide answers the request for approval of a call of the tool, which then runs in p.
func (p *process) decide(name string, approve bool) {
	p.mu.Lock()
	var r *record
	for _, have := range p.calls {
		if have.call.Tool == name && have.status == haft.StatusPending {
			r = have
		}
	}
	if r == nil {
		p.mu.Unlock()
		p.t.Errorf("no call of %s waits", name)
		return
	}
	if !approve {
		r.end(&haft.Result{Status: haft.StatusRejected, Error: &haft.Failure{Kind: haft.FailRejected,
			Message: "a person refused the call"}})
		p.mu.Unlock()
		return
	}
	r.status, r.owner = haft.StatusRunning, p.name
	r.change()
	t := p.tools[name]
	p.mu.Unlock()
	p.run(context.Background(), r, t)
}

// twice says which calls ran more than once.
func (w *world) twice() (list []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, r := range w.calls {
		if r.runs > 1 {
			list = append(list, fmt.Sprintf("%s ran %d times", id, r.runs))
		}
	}
	return list
}

// ofTurn returns what is kept of a turn.
func (w *world) ofTurn(id haft.TurnID) (t haft.Turn, list []haft.Message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.messages {
		if m.Turn == id {
			list = append(list, m)
		}
	}
	return w.turns[id].turn, list
}

// first is the id of the first turn.
func (w *world) first() haft.TurnID {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.order[0]
}
