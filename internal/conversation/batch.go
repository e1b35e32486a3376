package conversation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
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
	// secondTry ends the id of a call of an idempotent tool that is made again, because nobody knows whether the first
	// one ran: the process that made it has ended.
	secondTry = "-2"
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
	width   int    // how many are made at once
	most    int    // bytes of an answer
	warning string // that is added to each answer
	images  imageBudget
	// idempotent has the tools that can be run again.
	idempotent map[string]bool
	calls      context.Context //nolint:containedctx // of the calls that are made; ends with the time of the turn
	end        context.CancelCauseFunc
	waits      context.Context //nolint:containedctx // of waiting for calls; ends with them, the work, or a failure
	giveUp     context.CancelCauseFunc

	mu      sync.Mutex                      // for the rest, and for run
	pending map[haft.CallID]haft.ApprovalID // calls that wait for a person
	failed  error
}

// makeCalls makes calls, or goes on with them, and keeps their answers as they come. It returns [errWaiting] if all
// that have no answer then wait for a person, or for a call that does.
func (r *run) makeCalls(prof *Profile, open []haft.ToolCall) error {
	b := &batch{run: r, open: open, width: 1, most: max(minAnswer, min(maxAnswer, 2*r.model.Context/len(open))),
		pending: map[haft.CallID]haft.ApprovalID{}, idempotent: map[string]bool{}}
	for _, t := range prof.Tools {
		b.idempotent[t.Name] = t.Version.Settings.Idempotent
	}
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
	b.images = stepBudget(after)
	if err := b.seed(); err != nil {
		return err
	}
	if r.purse.time() <= 0 {
		return timeUp(r.turn.Budget)
	}
	b.calls, b.end = context.WithCancelCause(r.base)
	defer b.end(nil)
	b.waits, b.giveUp = context.WithCancelCause(b.calls)
	defer b.giveUp(nil)
	began, timer := time.Now(), time.AfterFunc(r.purse.time().D(), func() { b.end(errTime) })
	b.make()
	timer.Stop()
	r.purse.spend(haft.TurnUsage{Time: haft.Millis(time.Since(began))})
	switch {
	case errors.Is(b.failed, errPaused):
		return nil // the next step waits until it goes on
	case b.failed != nil:
		return b.failed
	case errors.Is(context.Cause(b.calls), errTime):
		return timeUp(r.turn.Budget)
	case len(b.pending) > 0 && r.ctx.Err() == nil:
		r.asking = slices.Collect(maps.Keys(b.pending))
		return errWaiting
	}
	return nil
}

// seed notes which calls of a turn that waited still do.
func (b *batch) seed() error {
	if b.turn.Status != haft.TurnWaiting {
		return nil
	}
	for _, c := range b.open {
		for _, id := range tries(c) {
			rec, err := b.s.cfg.Calls.Seen(b.ctx, b.turn.Principal, id, haft.CallsRead, haft.CallsWrite)
			if err == nil && rec.Status == haft.StatusPending && rec.Result != nil {
				b.pending[id] = rec.Result.Approval
			}
			if err != nil || rec.Status != haft.StatusUnknown {
				break // there is no second one
			}
		}
	}
	return b.settle()
}

// tries returns the ids under which a call may have been made, in their order.
func tries(c haft.ToolCall) []haft.CallID { return []haft.CallID{c.Call, c.Call + secondTry} }

// make makes the calls. It returns when none of them runs here any more.
func (b *batch) make() {
	stopped := make(chan struct{})
	unhook := context.AfterFunc(b.ctx, func() {
		defer close(stopped)
		b.try(b.stopCalls)
	})
	free := make(chan struct{}, b.width)
	var all sync.WaitGroup
	for _, c := range b.open {
		free <- struct{}{}
		b.mu.Lock()
		waits := slices.ContainsFunc(tries(c), func(id haft.CallID) bool { _, ok := b.pending[id]; return ok })
		over := b.waits.Err() != nil || b.width == 1 && len(b.pending) > 0
		b.mu.Unlock()
		if over {
			break
		}
		if waits {
			<-free
			continue
		}
		all.Go(func() {
			defer func() { <-free }()
			b.try(func() {
				res, err := b.perform(c)
				b.keep(c, res, b.findImages(b.waits, res), err)
			})
		})
	}
	all.Wait()
	if !unhook() {
		<-stopped
	}
}

// try does a part of the work beside others. A panic of it fails the batch.
func (b *batch) try(do func()) {
	if err := b.guard(func() error { do(); return nil }); err != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.fail(err)
	}
}

// fail notes why the turn cannot go on. Calls that run go on unless nobody wants to know any more. Precondition: mu is
// locked.
func (b *batch) fail(err error) {
	if b.failed != nil {
		return
	}
	b.failed = err
	b.giveUp(err)
	if _, ends := errors.AsType[*ending](err); ends || errors.Is(err, errLost) {
		b.end(err)
	}
}

// stopCalls ends what the batch does when the work on the turn ends. It cancels the calls if the turn was cancelled.
func (b *batch) stopCalls() {
	cause := context.Cause(b.ctx)
	defer b.giveUp(cause)
	if errors.Is(cause, errLost) {
		b.end(cause)
	}
	if !errors.Is(cause, errCancelled) {
		return
	}
	for _, c := range b.open {
		for _, id := range tries(c) {
			if err := b.s.cfg.Calls.Cancel(b.base, b.turn.Principal, id); haft.CodeOf(err) == haft.CodeInternal {
				b.s.cfg.Logger.Warn("a call of a turn cannot be cancelled", "call", id, "error", err)
			}
		}
	}
	b.end(cause) // also what was about to begin
}

// perform makes a call, or goes on with one that was made before, and returns how it ended. What an engine says that is
// stopped, or about to end, is no answer to keep: it returns [errPaused]. The engine takes the id of the call no more,
// so that the model is told, when all goes on, that the call did not run.
func (b *batch) perform(c haft.ToolCall) (*haft.Result, error) {
	if _, stopped := b.s.cfg.Stopped(); stopped {
		return nil, errPaused
	}
	res, err := b.outcome(c)
	if err != nil || res.Error == nil || res.Error.Kind != haft.FailStopped {
		return res, err
	}
	if _, stopped := b.s.cfg.Stopped(); stopped {
		return nil, errPaused
	}
	return failure(c, res.Status, haft.FailStopped, "the call did not run, and the tool did nothing: the server was "+
		"about to stop, or an operator had stopped all calls. Calls are possible again"), nil
}

// outcome makes a call, or waits for one that was made before, and returns how it ended.
func (b *batch) outcome(c haft.ToolCall) (*haft.Result, error) {
	p, calls := b.turn.Principal, b.s.cfg.Calls
	defer b.forward(c)()
	res, err := calls.Call(b.calls, haft.Call{ID: c.Call, Tool: c.Tool, Args: c.Args, Principal: p,
		Turn: string(b.id)})
	if haft.CodeOf(err) == haft.CodeConflict { // it was made before
		if res, err = calls.Wait(b.waits, p, c.Call); haft.CodeOf(err) == haft.CodeNotFound {
			res, err = failure(c, haft.StatusUnknown, haft.FailUnknown, "nobody can know whether the tool ran"), nil
		}
		if again := c.Call + secondTry; err == nil && res.Status == haft.StatusUnknown && b.idempotent[c.Tool] &&
			!strings.HasSuffix(string(c.Call), secondTry) {
			c.Call = again
			return b.outcome(c)
		}
	}
	for wait := firstPoll; err == nil && !res.Status.Final() && res.Status != haft.StatusPending; wait = min(2*wait,
		lastPoll) { // another machine runs it
		if err = pause.For(b.waits, wait); err == nil {
			res, err = calls.Wait(b.waits, p, c.Call)
		}
	}
	if code := haft.CodeOf(err); err != nil && code != haft.CodeUnavailable && code != haft.CodeInternal {
		res, err = failure(c, haft.StatusDenied, haft.FailDenied, haft.MessageOf(err)), nil
	}
	return res, err
}

// forward sends those who listen what happens in a call, until the function that it returns is called.
func (b *batch) forward(c haft.ToolCall) (stop func()) {
	if b.s.cfg.Events == nil || !b.listened() {
		return func() {}
	}
	ctx, cancel := context.WithCancel(b.ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		b.try(func() {
			for e, err := range b.s.cfg.Events.Watch(ctx, b.turn.Principal, haft.EventFilter{Call: c.Call}, -1) {
				if err != nil {
					return
				}
				b.publish(haft.TurnEvent{Event: &e}, true)
			}
		})
	})
	return func() { cancel(); watching.Wait() }
}

// keep keeps what became of a call, and whether the turn waits for a person.
func (b *batch) keep(c haft.ToolCall, res *haft.Result, images []foundImage, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []haft.Message
	switch {
	case b.failed != nil || err != nil && b.waits.Err() != nil:
		return // and that is why
	case err != nil:
		b.fail(fmt.Errorf("make the call %s: %w", c.Call, err))
		return
	case !res.Status.Final():
		b.pending[res.Call] = res.Approval // which may be the second try
	default:
		b.last = haft.Result{Call: c.Call, Value: res.Value}
		m := answer(c, res, b.most)
		addImages(&m, images, &b.images)
		m.Text += b.warning
		list = append(list, m)
	}
	if err := b.settle(list...); err != nil {
		b.fail(err)
	} else if len(list) > 0 {
		b.publish(haft.TurnEvent{Result: res}, true)
	}
}

// settle keeps messages, and for what the turn waits.
func (b *batch) settle(list ...haft.Message) error {
	before, t := b.turn.Approvals, &b.turn
	if t.Status, t.Approvals = haft.TurnRunning, slices.Sorted(maps.Values(b.pending)); len(t.Approvals) > 0 {
		t.Status = haft.TurnWaiting
	}
	waits := !slices.Equal(before, t.Approvals)
	if !waits {
		for _, m := range list {
			b.answered(m)
		}
		return nil
	}
	if err := b.append(list...); err != nil {
		return err
	}
	if waits {
		b.publishTurn(b.turn)
	}
	return nil
}

// withdraw cancels the calls that have no answer, and answers them. If one cannot be cancelled now it may still run, so
// that the turn does not end yet, unless it could not go on for long.
func (r *run) withdraw() (list []haft.Message, err error) {
	ctx, cancel := context.WithTimeout(r.base, settling)
	defer cancel()
	for _, c := range r.open() {
		res := failure(c, haft.StatusCancelled, haft.FailCancelled, "the turn ended before the call was made")
		for _, id := range tries(c) {
			err := r.s.cfg.Calls.Cancel(ctx, r.turn.Principal, id)
			code := haft.CodeOf(err)
			if !r.hopeless && (code == haft.CodeUnavailable || code == haft.CodeInternal) {
				return nil, fmt.Errorf("cancel the call %s of the turn that ends: %w", id, err)
			}
			if code == haft.CodeNotFound {
				break
			}
			if res, err = r.s.cfg.Calls.Wait(ctx, r.turn.Principal, id); err != nil || !res.Status.Final() {
				res = failure(c, haft.StatusUnknown, haft.FailUnknown,
					"the turn ended before it was known whether the tool ran")
			}
		}
		list = append(list, answer(c, res, maxAnswer))
	}
	return list, nil
}
