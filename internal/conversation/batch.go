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

// asked returns the last message with which the model has asked for something, and those before it.
func (r *run) asked() (m *haft.Message, before []haft.Message) {
	for i := range slices.Backward(r.own) {
		if r.own[i].Role == haft.RoleAssistant {
			return &r.own[i], r.own[:i]
		}
	}
	return nil, nil
}

// open returns the calls of the turn that have no answer. They are of the last message that asks for any.
func (r *run) open() []haft.ToolCall {
	m, before := r.asked()
	if m == nil || len(m.Calls) == 0 {
		return nil
	}
	answered := map[string]bool{}
	for _, a := range r.own[len(before)+1:] {
		answered[a.Answers] = a.Role == haft.RoleTool
	}
	return slices.DeleteFunc(slices.Clone(m.Calls), func(c haft.ToolCall) bool { return answered[c.ID] })
}

// A batch is the calls of one step that have no answer.
type batch struct {
	*run
	open    []haft.ToolCall
	width   int    // how many are made at once
	most    int    // bytes of an answer
	warning string // that is added to each answer
	calls   context.Context
	updates chan update
	begun   map[haft.CallID]bool
	pending map[haft.CallID]haft.ApprovalID
	since   time.Time // when the turn began to wait
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
	m, before := r.asked()
	if n := repeated(before, m); n >= warnRepeats {
		b.warning = fmt.Sprintf("\n[You have asked for exactly this %d times in a row. Do something else, or answer: "+
			"after %d times you are stopped.]", n, maxRepeats)
	}
	calls, end := context.WithCancelCause(r.base)
	defer end(nil)
	b.calls = calls
	return b.make(end)
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
			if cause := context.Cause(b.ctx); errors.Is(cause, errCancelled) ||
				errors.Is(cause, errLost) && b.s.cfg.Owner() == b.owner { // somebody took it to cancel it
				b.cancelBegun(end)
			}
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
	b.rest()
	if cause := context.Cause(b.ctx); cause != nil {
		return cause
	}
	return failed
}

// cancelBegun cancels the calls that have not ended.
func (b *batch) cancelBegun(end context.CancelCauseFunc) {
	var all sync.WaitGroup
	for id := range b.begun {
		all.Go(func() {
			if err := b.s.cfg.Calls.Cancel(b.base, b.turn.Principal, id); err != nil &&
				haft.CodeOf(err) != haft.CodeNotFound {
				end(errCancelled)
			}
		})
	}
	all.Wait()
}

// perform makes a call, or goes on with one that was made before, and returns how it ended.
func (b *batch) perform(c haft.ToolCall) update {
	p, cfg := b.turn.Principal, &b.s.cfg
	defer b.forward(c)()
	res, err := cfg.Calls.Call(b.calls, haft.Call{ID: c.Call, Tool: c.Tool, Args: c.Args, Principal: p,
		IdempotencyKey: string(c.Call), Turn: string(b.id)})
	if haft.CodeOf(err) == haft.CodeConflict { // it was made before
		if res, err = cfg.Calls.Wait(b.ctx, p, c.Call); haft.CodeOf(err) == haft.CodeNotFound {
			res, err = failure(c, haft.StatusUnknown, haft.FailUnknown, "nobody can know whether the tool ran"), nil
		}
	}
	for wait := firstPoll; err == nil && !res.Status.Final(); wait = min(2*wait, lastPoll) {
		b.updates <- update{call: c, res: res}
		if err = pause(b.ctx, wait); err == nil {
			res, err = cfg.Calls.Wait(b.ctx, p, c.Call)
		}
	}
	switch haft.CodeOf(err) {
	case haft.CodeInvalid, haft.CodeNotFound:
		res, err = failure(c, haft.StatusValidation, haft.FailValidation, haft.MessageOf(err)), nil
	case haft.CodeDenied, haft.CodeUnauthenticated, haft.CodeConflict:
		res, err = failure(c, haft.StatusDenied, haft.FailDenied, haft.MessageOf(err)), nil
	case haft.CodeRateLimited:
		res, err = failure(c, haft.StatusRate, haft.FailRate, haft.MessageOf(err)), nil
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

// keep keeps what became of a call.
func (b *batch) keep(u update) error {
	id := u.call.Call
	switch {
	case u.err != nil && b.ctx.Err() != nil:
		return nil
	case u.err != nil:
		return fmt.Errorf("make the call %s: %w", id, u.err)
	case !u.res.Status.Final():
		if b.pending[id] == u.res.Approval {
			return nil
		}
		b.pending[id] = u.res.Approval
		return b.stand()
	}
	b.last = haft.Result{Call: id, Value: u.res.Value}
	m := b.answer(u.call, u.res, b.most)
	m.Text += b.warning
	delete(b.pending, id)
	if err := b.stand(m); err != nil {
		return err
	}
	b.tell(haft.TurnEvent{Result: u.res}, true)
	return nil
}

// stand keeps messages and whether the turn waits for a person.
func (b *batch) stand(list ...*haft.Message) error {
	before := b.turn.Approvals
	b.turn.Status, b.turn.Approvals = haft.TurnRunning, slices.Sorted(maps.Values(b.pending))
	if len(b.pending) > 0 {
		b.turn.Status = haft.TurnWaiting
		if b.since.IsZero() {
			b.since = time.Now()
		}
	} else {
		b.rest()
	}
	if err := b.append(list...); err != nil {
		return err
	}
	if !slices.Equal(before, b.turn.Approvals) {
		b.tellTurn()
	}
	return nil
}

// rest takes the time that the turn has waited from what it may take.
func (b *batch) rest() {
	if !b.since.IsZero() {
		b.waited += time.Since(b.since)
		b.since = time.Time{}
	}
}

// withdraw cancels the calls that have no answer, and answers them.
func (r *run) withdraw() (list []*haft.Message) {
	ctx, cancel := context.WithTimeout(r.base, settling)
	defer cancel()
	for _, c := range r.open() {
		err := r.s.cfg.Calls.Cancel(ctx, r.turn.Principal, c.Call)
		res := failure(c, haft.StatusCancelled, haft.FailCancelled, "the turn ended before the call was made")
		if haft.CodeOf(err) != haft.CodeNotFound {
			if res, err = r.s.cfg.Calls.Wait(ctx, r.turn.Principal, c.Call); err != nil || !res.Status.Final() {
				res = failure(c, haft.StatusUnknown, haft.FailUnknown, "the turn ended before it was known whether the "+
					"tool ran")
			}
		}
		list = append(list, r.answer(c, res, maxAnswer))
	}
	return list
}
