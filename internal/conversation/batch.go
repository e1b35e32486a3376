package conversation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"haft"
	"haft/internal/engine"
	"haft/internal/toolrule"
)

// The bounds of calls that run.
const (
	wide      = 16                    // calls at once
	minAnswer = 2_000                 // bytes that each of many answers has at least
	firstPoll = 50 * time.Millisecond // for the answer to a request for approval
	lastPoll  = 2 * time.Second
	settling  = 5 * time.Second // that calls have to end when the turn does
)

// open returns the calls of the turn that have no answer. They are of the last message of the model.
func (r *run) open() []haft.ToolCall {
	m, answers := r.asked()
	if m == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(m.Calls), func(c haft.ToolCall) bool {
		return slices.ContainsFunc(answers, func(a haft.Message) bool { return a.Answers == c.ID })
	})
}

// A batch is the calls of one step that have no answer.
type batch struct {
	*run
	open    []haft.ToolCall
	width   int             // how many are made at once
	most    int             // bytes of an answer
	warning string          // that is added to each answer
	calls   context.Context //nolint:containedctx // of the calls that are made
	updates chan update
	begun   map[haft.CallID]bool            // calls that have not ended
	pending map[haft.CallID]haft.ApprovalID // those of them that wait for a person
	waited  bool                            // one of them did
}

// An update says that a call has ended, or that it waits for a person.
type update struct {
	call haft.ToolCall
	res  *haft.Result
	err  error
}

// makeCalls makes calls, or goes on with them, and keeps their answers as they come.
func (r *run) makeCalls(prof *Profile, open []haft.ToolCall) error {
	b := &batch{run: r, open: open, width: 1, most: max(minAnswer, min(maxAnswer, 2*r.model.Context/len(open))),
		updates: make(chan update), begun: map[haft.CallID]bool{}, pending: map[haft.CallID]haft.ApprovalID{}}
	alone := func(c haft.ToolCall) bool {
		return !slices.ContainsFunc(prof.Tools, func(t haft.Tool) bool {
			return t.Name == c.Tool && t.Version.Settings.Parallel
		})
	}
	if !toolrule.NeedsTurn(prof.Agent.Rules) && !slices.ContainsFunc(open, alone) {
		b.width = wide
	}
	m, _ := r.asked()
	if n := repeated(r.own, m); n >= warnRepeats {
		b.warning = fmt.Sprintf("\n[You have asked for exactly this %d times in a row. Do something else, or answer: "+
			"after %d times you are stopped.]", n, maxRepeats)
	}
	calls, end := context.WithCancelCause(r.base)
	defer end(nil)
	b.calls = calls
	began := time.Now()
	err := b.make(end)
	if !b.waited {
		r.spent += time.Since(began)
	}
	return err
}

// make makes the calls. It returns when none of them runs here any more. End ends those that run.
func (b *batch) make(end context.CancelCauseFunc) (failed error) {
	stopped := b.ctx.Done()
	for next, running := 0, 0; ; {
		for failed == nil && b.ctx.Err() == nil && next < len(b.open) && running < b.width {
			c := b.open[next]
			b.begun[c.Call] = true
			next, running = next+1, running+1
			go func() { b.updates <- b.perform(c) }()
		}
		if running == 0 {
			break
		}
		select {
		case <-stopped:
			stopped = nil
			b.stopCalls(end)
		case u := <-b.updates:
			if u.err != nil || u.res.Status.Final() {
				running--
				delete(b.begun, u.call.Call)
			}
			if err := b.keep(u); failed == nil {
				failed = err
			}
		}
	}
	if b.ctx.Err() != nil {
		return context.Cause(b.ctx)
	}
	return failed
}

// stopCalls cancels the calls that have not ended, if the turn was cancelled: here, or by a process that took it.
func (b *batch) stopCalls(end context.CancelCauseFunc) {
	cause := context.Cause(b.ctx)
	if !errors.Is(cause, errCancelled) && !(errors.Is(cause, errLost) && b.s.cfg.Owner() == b.owner) {
		return
	}
	for id := range b.begun {
		err := b.s.cfg.Calls.Cancel(b.base, b.turn.Principal, id)
		if err != nil && haft.CodeOf(err) != haft.CodeNotFound {
			end(cause)
		}
	}
}

// perform makes a call, or goes on with one that was made before, and returns how it ended.
func (b *batch) perform(c haft.ToolCall) update {
	p, calls := b.turn.Principal, b.s.cfg.Calls
	defer b.forward(c)()
	res, err := calls.Call(b.calls, haft.Call{ID: c.Call, Tool: c.Tool, Args: c.Args, Principal: p,
		IdempotencyKey: string(c.Call), Turn: string(b.id)})
	if haft.CodeOf(err) == haft.CodeConflict { // it was made before
		if res, err = calls.Wait(b.ctx, p, c.Call); haft.CodeOf(err) == haft.CodeNotFound {
			res, err = failure(c, haft.StatusUnknown, haft.FailUnknown, "nobody can know whether the tool ran"), nil
		}
	}
	for wait := firstPoll; err == nil && !res.Status.Final(); wait = min(2*wait, lastPoll) {
		b.updates <- update{call: c, res: res}
		if err = engine.Pause(b.ctx, wait); err == nil {
			res, err = calls.Wait(b.ctx, p, c.Call)
		}
	}
	if code := haft.CodeOf(err); err != nil && code != haft.CodeUnavailable && code != haft.CodeInternal {
		res, err = failure(c, haft.StatusDenied, haft.FailDenied, haft.MessageOf(err)), nil
	}
	return update{c, res, err}
}

// forward tells those who listen what happens in a call, until the function that it returns is called.
func (b *batch) forward(c haft.ToolCall) (stop func()) {
	if b.s.cfg.Events == nil || !b.listened() {
		return func() {}
	}
	ctx, cancel := context.WithCancel(b.ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		for e, err := range b.s.cfg.Events.Watch(ctx, b.turn.Principal, haft.EventFilter{Call: c.Call}, -1) {
			if err != nil {
				return
			}
			b.tell(haft.TurnEvent{Event: &e}, true)
		}
	})
	return func() { cancel(); watching.Wait() }
}

// keep keeps what became of a call, and whether the turn waits for a person.
func (b *batch) keep(u update) error {
	id := u.call.Call
	var list []*haft.Message
	switch {
	case u.err != nil && b.ctx.Err() != nil:
		return nil
	case u.err != nil:
		return fmt.Errorf("make the call %s: %w", id, u.err)
	case !u.res.Status.Final() && b.pending[id] == u.res.Approval:
		return nil
	case !u.res.Status.Final():
		b.pending[id], b.waited = u.res.Approval, true
	default:
		delete(b.pending, id)
		b.last = haft.Result{Call: id, Value: u.res.Value}
		m := b.answer(u.call, u.res, b.most)
		m.Text += b.warning
		list = append(list, m)
	}
	before, t := b.turn.Approvals, &b.turn
	if t.Status, t.Approvals = haft.TurnRunning, slices.Sorted(maps.Values(b.pending)); len(t.Approvals) > 0 {
		t.Status = haft.TurnWaiting
	}
	if err := b.append(list...); err != nil {
		return err
	}
	if len(list) > 0 {
		b.tell(haft.TurnEvent{Result: u.res}, true)
	}
	if !slices.Equal(before, t.Approvals) {
		b.tellTurn()
	}
	return nil
}

// withdraw cancels the calls that have no answer, and answers them.
func (r *run) withdraw() (list []*haft.Message) {
	ctx, cancel := context.WithTimeout(r.base, settling)
	defer cancel()
	for _, c := range r.open() {
		res := failure(c, haft.StatusCancelled, haft.FailCancelled, "the turn ended before the call was made")
		if err := r.s.cfg.Calls.Cancel(ctx, r.turn.Principal, c.Call); haft.CodeOf(err) != haft.CodeNotFound {
			if res, err = r.s.cfg.Calls.Wait(ctx, r.turn.Principal, c.Call); err != nil || !res.Status.Final() {
				res = failure(c, haft.StatusUnknown, haft.FailUnknown, "the turn ended before it was known whether the "+
					"tool ran")
			}
		}
		list = append(list, r.answer(c, res, maxAnswer))
	}
	return list
}
