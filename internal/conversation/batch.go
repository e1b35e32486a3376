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
	"haft/internal/pause"
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
	_, after := r.asked()
	if len(after) == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(after[0].Calls), func(c haft.ToolCall) bool {
		return slices.ContainsFunc(after, func(a haft.Message) bool { return a.Answers == c.ID })
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
	end     context.CancelCauseFunc

	mu      sync.Mutex                      // for the rest, and for run
	pending map[haft.CallID]haft.ApprovalID // calls that wait for a person
	waited  bool                            // one of them did
	failed  error
}

// makeCalls makes calls, or goes on with them, and keeps their answers as they come.
func (r *run) makeCalls(prof *Profile, open []haft.ToolCall) error {
	b := &batch{run: r, open: open, width: 1, most: max(minAnswer, min(maxAnswer, 2*r.model.Context/len(open))),
		pending: map[haft.CallID]haft.ApprovalID{}}
	alone := func(c haft.ToolCall) bool {
		return !slices.ContainsFunc(prof.Tools, func(t haft.Tool) bool {
			return t.Name == c.Tool && t.Version.Settings.Parallel
		})
	}
	if !toolrule.NeedsTurn(prof.Agent.Rules) && !slices.ContainsFunc(open, alone) {
		b.width = wide
	}
	before, after := r.asked()
	if n := repeated(before, after[0].Calls); n >= warnRepeats {
		b.warning = fmt.Sprintf("\n[You have asked for exactly this %d times in a row. Do something else, or answer: "+
			"after %d times you are stopped.]", n, maxRepeats)
	}
	b.calls, b.end = context.WithCancelCause(r.base)
	defer b.end(nil)
	began := time.Now()
	b.make()
	if !b.waited {
		r.spent += time.Since(began)
	}
	return b.failed
}

// make makes the calls. It returns when none of them runs here any more.
func (b *batch) make() {
	stopped := make(chan struct{})
	unhook := context.AfterFunc(b.ctx, func() { b.stopCalls(); close(stopped) })
	free := make(chan struct{}, b.width)
	var all sync.WaitGroup
	for _, c := range b.open {
		free <- struct{}{}
		b.mu.Lock()
		failed := b.failed
		b.mu.Unlock()
		if failed != nil || b.ctx.Err() != nil {
			break
		}
		all.Go(func() {
			defer func() { <-free }()
			res, err := b.perform(c)
			b.keep(c, res, err)
		})
	}
	all.Wait()
	if !unhook() {
		<-stopped
	}
}

// stopCalls cancels the calls if the turn was cancelled.
func (b *batch) stopCalls() {
	cause := context.Cause(b.ctx)
	if !errors.Is(cause, errCancelled) {
		return
	}
	for _, c := range b.open {
		if err := b.s.cfg.Calls.Cancel(b.base, b.turn.Principal, c.Call); haft.CodeOf(err) == haft.CodeInternal {
			b.s.cfg.Logger.Warn("a call of a turn cannot be cancelled", "call", c.Call, "error", err)
		}
	}
	b.end(cause) // also what was about to begin
}

// perform makes a call, or goes on with one that was made before, and returns how it ended.
func (b *batch) perform(c haft.ToolCall) (*haft.Result, error) {
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
		b.keep(c, res, nil)
		if err = pause.For(b.ctx, wait); err == nil {
			res, err = calls.Wait(b.ctx, p, c.Call)
		}
	}
	if code := haft.CodeOf(err); err != nil && code != haft.CodeUnavailable && code != haft.CodeInternal {
		res, err = failure(c, haft.StatusDenied, haft.FailDenied, haft.MessageOf(err)), nil
	}
	return res, err
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
			b.publish(haft.TurnEvent{Event: &e}, true)
		}
	})
	return func() { cancel(); watching.Wait() }
}

// keep keeps what became of a call, and whether the turn waits for a person.
func (b *batch) keep(c haft.ToolCall, res *haft.Result, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []haft.Message
	switch {
	case err != nil && b.ctx.Err() == nil && b.failed == nil:
		b.failed = fmt.Errorf("make the call %s: %w", c.Call, err)
		return
	case err != nil || b.failed != nil || !res.Status.Final() && b.pending[c.Call] == res.Approval:
		return
	case !res.Status.Final():
		b.pending[c.Call], b.waited = res.Approval, true
	default:
		delete(b.pending, c.Call)
		b.last = haft.Result{Call: c.Call, Value: res.Value}
		m := answer(c, res, b.most)
		m.Text += b.warning
		list = append(list, m)
	}
	before, t := b.turn.Approvals, &b.turn
	if t.Status, t.Approvals = haft.TurnRunning, slices.Sorted(maps.Values(b.pending)); len(t.Approvals) > 0 {
		t.Status = haft.TurnWaiting
	}
	if b.failed = b.append(list...); b.failed != nil {
		return
	}
	if len(list) > 0 {
		b.publish(haft.TurnEvent{Result: res}, true)
	}
	if !slices.Equal(before, t.Approvals) {
		b.publishTurn()
	}
}

// withdraw cancels the calls that have no answer, and answers them.
func (r *run) withdraw() (list []haft.Message) {
	ctx, cancel := context.WithTimeout(r.base, settling)
	defer cancel()
	for _, c := range r.open() {
		res := failure(c, haft.StatusCancelled, haft.FailCancelled, "the turn ended before the call was made")
		if err := r.s.cfg.Calls.Cancel(ctx, r.turn.Principal, c.Call); haft.CodeOf(err) != haft.CodeNotFound {
			if res, err = r.s.cfg.Calls.Wait(ctx, r.turn.Principal, c.Call); err != nil || !res.Status.Final() {
				res = failure(c, haft.StatusUnknown, haft.FailUnknown,
					"the turn ended before it was known whether the tool ran")
			}
		}
		list = append(list, answer(c, res, maxAnswer))
	}
	return list
}
