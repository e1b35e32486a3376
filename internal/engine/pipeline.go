package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"haft"
	"haft/internal/chains"
	"haft/internal/journal"
	"haft/sandbox"
)

// A pipeline takes executions through the stages, and out by the one exit.
type pipeline struct {
	cfg         *Config
	journal     *journal.Journal
	authorizer  *authorizer
	calls       *callTable
	dispatcher  *dispatcher
	entrance    *entrance
	filters     *filters
	limiter     *limiter
	permissions *permissions
	recorder    *recorder
	redaction   *redaction
	runner      *runner
	seals       *callSealer

	stages []stage
}

// A stage is one step in the handling of a call.
type stage struct {
	name string
	run  func(context.Context, *execution) error
}

// stages returns the order in which a call is handled. The order is a security
// property: a test pins it, and nothing configures it. Redaction and audit are
// not stages: they stand at the one entry and the one exit, where no path can go
// around them.
func stages(au *authorizer, l *limiter, rn *runner) []stage {
	return []stage{
		{"resolve", au.resolve},     // which tool, in which version
		{"authorize", au.authorize}, // may this principal call it
		{"limit", l.limit},          // and this often
		{"validate", au.validate},   // do the arguments fit
		{"approve", au.approve},     // does a person agree to exactly this
		{"execute", rn.execute},     // run it
		{"check", rn.check},         // does the value fit
	}
}

// deciding returns the stages that find out whether a call may be made.
func (pl *pipeline) deciding() []stage { return pl.stages[:2] }

// errSettled ends the pipeline early: the execution has its result, such as that of
// a cache, or that a person has to agree.
var errSettled = errors.New("the result is there")

// A refusal is why a call does not go on. It becomes the result.
type refusal struct {
	status  haft.Status
	failure haft.Failure
	cause   error  // for the operator
	rule    string // of haft's own that refuses, for an explanation
}

// by names the rule of haft's own that refuses.
func (r *refusal) by(rule string) *refusal {
	r.rule = "haft/" + rule
	return r
}

// Error returns the message, for logs.
func (r *refusal) Error() string {
	if r.cause != nil {
		return r.failure.Message + ": " + r.cause.Error()
	}
	return r.failure.Message
}

// Unwrap returns the cause.
func (r *refusal) Unwrap() error { return r.cause }

// refuse makes a refusal.
func refuse(status haft.Status, kind haft.FailureKind, retry haft.Retry, message string) *refusal {
	return &refusal{status: status, failure: haft.Failure{Kind: kind, Message: message, Retry: retry}}
}

// newID makes an id that nobody can guess.
func newID(prefix string) string { return prefix + rand.Text() }

// runCall takes an execution through all stages and out.
func (pl *pipeline) runCall(ctx context.Context, ex *execution) (*haft.Result, error) {
	callers := ctx
	ctx, other, err := pl.start(ctx, ex)
	if err != nil {
		pl.dropUnstarted(context.WithoutCancel(callers), ex, other)
		return nil, err
	}
	defer func() {
		pl.finish(context.WithoutCancel(ctx), ex)
		if ex.result != nil && ex.result.Status == haft.StatusPending && withdrawalOf(ctx) != nil {
			pl.permissions.review(ex.call.Principal.Org) // it was withdrawn while it was written down that it waits
		}
	}()
	if pl.cfg.Observer != nil {
		ctx, ex.trace = pl.cfg.Observer.Begin(ctx, ex.named())
	}
	err = pl.runStages(ctx, ex)
	ex.result, ex.err = pl.leave(ctx, ex, err)
	if ex.result != nil && ex.result.Status == haft.StatusPending {
		pl.permissions.noteWaiting(ex.call.Principal)
	}
	return ex.result, ex.err
}

// start makes an execution known, so that it can be cancelled, and gives it its
// deadline. If it cannot, other is the execution that has its id, if that is why.
func (pl *pipeline) start(ctx context.Context, ex *execution) (running context.Context, other *execution, err error) {
	ctx, kill := sandbox.WithKill(ctx)
	ctx, cancel := context.WithCancelCause(ctx)
	ex.cancel = func(cause error) {
		if cancel(cause); errors.Is(cause, sandbox.ErrNoGrace) {
			kill() // also in the grace time of an earlier cause
		}
	}
	ex.stop = func() { cancel(nil); kill() }
	if !ex.call.Deadline.IsZero() {
		var stop context.CancelFunc
		ctx, stop = context.WithDeadline(ctx, ex.call.Deadline)
		cancel := ex.stop
		ex.stop = func() { stop(); cancel() }
	}
	pl.calls.mu.Lock()
	defer pl.calls.mu.Unlock()
	if pl.calls.closed {
		ex.stop()
		return nil, nil, &haft.Error{Code: haft.CodeUnavailable, Message: "the engine is shutting down",
			Err: chains.ErrClosing}
	}
	if other := pl.calls.executions[ex.call.ID]; other != nil {
		ex.stop()
		return nil, other, errIDRuns()
	}
	ex.asked, ex.pinned, ex.owner = ex.call, ex.rec.Call.Digest, ex.rec.Owner
	if ex.seen != pl.permissions.changes.Load() {
		ex.confirm = true // the change need not have seen this call
	}
	pl.calls.executions[ex.call.ID] = ex
	pl.calls.inFlight.Add(1)
	return ctx, nil, nil
}

// errIDRuns refuses the id of a call that is on its way.
func errIDRuns() error {
	return &haft.Error{Code: haft.CodeConflict, Message: "a call with this id is running"}
}

// dropUnstarted gives back what an execution holds that could not be started, except what
// belongs to the other one that has its id: its events, and its idempotency key if it
// is the same. An execution that is kept keeps its key: the next engine goes on with it.
func (pl *pipeline) dropUnstarted(ctx context.Context, ex, other *execution) {
	if other == nil {
		pl.journal.Forget(ex.call.ID)
	}
	if !ex.async && (other == nil || !sameKey(ex.call, other.asked)) {
		pl.entrance.unclaim(ctx, ex)
	}
}

// finish gives back everything that an execution holds.
func (pl *pipeline) finish(ctx context.Context, ex *execution) {
	ex.release()
	pl.calls.mu.Lock()
	delete(pl.calls.executions, ex.call.ID)
	pl.calls.mu.Unlock()
	pl.recorder.endCancelled(ctx, ex)
	ex.stop()
	close(ex.done)
	pl.calls.inFlight.Done()
}

// release gives back slots and locks. It can be called twice.
func (ex *execution) release() {
	if ex.grant != nil {
		ex.grant.Leave()
	}
	if ex.unlock != nil {
		ex.unlock()
		ex.unlock = nil
	}
}

// runStages runs the stages. A panic is an error like another, so that the call
// leaves by the one exit.
func (pl *pipeline) runStages(ctx context.Context, ex *execution) (err error) {
	name := "enter"
	defer func() {
		if p := recover(); p != nil {
			pl.redaction.logOf(ex).Error("a stage panicked", "stage", name, "call", ex.call.ID, "panic",
				fmt.Sprint(p), "stack", string(debug.Stack()))
			err = fmt.Errorf("stage %s: %w", name, errPanic)
		}
	}()
	if ex.refused != nil {
		return ex.refused
	}
	for _, s := range pl.stages {
		name = s.name
		if ctx.Err() != nil && !ex.begun { // what has run is checked
			return context.Cause(ctx)
		}
		began := time.Now()
		err := s.run(ctx, ex)
		ex.took(name, time.Since(began))
		if err != nil && !ex.begun && ctx.Err() != nil && haft.CodeOf(err) == haft.CodeUnavailable {
			return context.Cause(ctx) // whatever failed at the same moment
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// errPanic is a fault of ours that was caught.
var errPanic = errors.New("a fault inside haft")

// took notes how long a stage took.
func (ex *execution) took(stage string, d time.Duration) {
	switch stage {
	case "resolve", "authorize":
		ex.timeline.Policy += haft.Millis(d)
	case "validate":
		ex.timeline.Validate = haft.Millis(d)
	}
	if ex.trace != nil {
		ex.trace.Stage(stage, d)
	}
}
