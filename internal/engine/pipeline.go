package engine

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"haft"
	"haft/internal/limit"
	"haft/internal/registry"
	"haft/internal/secret"
	"haft/internal/store"
	"haft/policy"
)

// A stage is one step in the handling of a call.
type stage struct {
	name string
	run  func(*Engine, context.Context, *execution) error
}

// stages returns the order in which a call is handled. The order is a security
// property: a test pins it, and nothing configures it. Redaction and audit are
// not stages: they stand at the one entry and the one exit, where no path can go
// around them.
func stages() []stage {
	return []stage{
		{"resolve", (*Engine).resolve},     // which tool, in which version
		{"authorize", (*Engine).authorize}, // may this principal call it
		{"limit", (*Engine).limit},         // and this often
		{"validate", (*Engine).validate},   // do the arguments fit
		{"approve", (*Engine).approve},     // does a person agree to exactly this
		{"execute", (*Engine).execute},     // run it
		{"check", (*Engine).check},         // does the value fit
	}
}

// pipeline is the order, made once.
var pipeline = stages()

// deciding are the stages that find out whether a call may be made.
var deciding = pipeline[:2]

// errSettled ends the pipeline early: the execution has its result, such as that of
// a cache, or that a person has to agree.
var errSettled = errors.New("the result is there")

// An execution is one call on its way through the pipeline. One goroutine has it.
type execution struct {
	call     haft.Call // as it came, with its id
	asked    haft.Call // the same; it does not change once others know of the execution
	pinned   string    // the version that the caller named; set with asked
	seen     int64     // how many changes of permissions there were when it came in
	confirm  bool      // its credential has to be looked at again before anything else
	probe    bool      // nothing runs: it is only asked whether it may
	rec      haft.Record
	depth    int        // of fallbacks, and of calls that calls make
	parent   *execution // that made it and waits for it
	keys     []string   // of slots that it holds
	explains bool       // it only asks what would be decided, and runs nothing
	async    bool       // nobody waits: it was submitted, or goes on after an approval
	claimed  *store.Key // its idempotency key
	accepted bool       // it is in the store, to be run by whoever owns it
	free     bool       // of what was kept: no request for approval is asked for
	owner    string     // the name that this process had when it was started
	phase    int        // guarded by Engine.mu
	refused  error      // why it may not be made, if that is known already
	ours     bool       // its id was made here, and nothing is kept of it but by this execution
	began    time.Time
	trace    Span
	redactor *secret.Redactor

	// What the stages find out.
	agent    *haft.Agent
	tool     *registry.Compiled
	config   haft.SandboxConfig // of the organisation, for the sandbox that it runs in
	rules    *policy.Policy
	decision policy.Decision
	decided  json.RawMessage // the arguments that decision is for
	args     json.RawMessage // as they will run
	final    json.RawMessage // the same, once they do not change any more; guarded by Engine.mu
	granted  grant           // what it runs with; guarded by Engine.mu
	env      map[string]string
	bound    map[string]Bound // those of env that its program must not have
	lease    lease            // what env and redactor are made of
	approval *haft.Approval   // that lets it run, or that it waits for
	taken    []limit.State    // to be kept with the record
	grant    *limit.Grant
	unlock   func()        // of the agent's turn
	begun    bool          // the record says that it runs
	passage  EgressSession // its way out, while it runs
	here     *localSession
	contacts []Connection
	notices  []string
	before   int         // how many notices there were when it began: none is of the tool
	held     *heldOutput // progress that waits for the filters
	timeline haft.Timeline
	res      *haft.Result
	screened *haft.Result // the result that was held against the filters

	stop   context.CancelFunc
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when outcome and err are there
	result *haft.Result
	err    error
}

// The phases of an execution, between which one goroutine decides.
const (
	phaseWaits  = iota // it has not begun, and can be left to others
	phaseBegins        // it is being written down that it runs
	phaseLeft          // it is left to others
)

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

// NewCallID makes an id for a call that nobody can guess. It begins with the time,
// so that calls of one moment are neighbours in every index: a commit then writes
// a few pages, and not one for each call.
func NewCallID() haft.CallID {
	var now [8]byte
	binary.BigEndian.PutUint64(now[:], uint64(time.Now().UnixMilli())<<16)
	return haft.CallID("c_" + base32.HexEncoding.EncodeToString(now[:6])[:10] + rand.Text()[:20])
}

// runCall takes an execution through all stages and out.
func (e *Engine) runCall(ctx context.Context, ex *execution) (*haft.Result, error) {
	callers := ctx
	ctx, other, err := e.start(ctx, ex)
	if err != nil {
		e.dropUnstarted(context.WithoutCancel(callers), ex, other)
		return nil, err
	}
	defer func() {
		e.finish(ex)
		if ex.result != nil && ex.result.Status == haft.StatusPending && withdrawalOf(ctx) != nil {
			e.review(ex.call.Principal.Org) // it was withdrawn while it was written down that it waits
		}
	}()
	if e.cfg.Observer != nil {
		ctx, ex.trace = e.cfg.Observer.Begin(ctx, ex.named())
	}
	err = e.runStages(ctx, ex)
	ex.result, ex.err = e.leave(ctx, ex, err)
	if ex.result != nil && ex.result.Status == haft.StatusPending {
		e.noteParked(ex.call.Principal)
	}
	return ex.result, ex.err
}

// start makes an execution known, so that it can be cancelled, and gives it its
// deadline. If it cannot, other is the execution that has its id, if that is why.
func (e *Engine) start(ctx context.Context, ex *execution) (running context.Context, other *execution, err error) {
	ctx, ex.cancel = context.WithCancelCause(ctx)
	ex.stop = func() { ex.cancel(nil) }
	if !ex.call.Deadline.IsZero() {
		var stop context.CancelFunc
		ctx, stop = context.WithDeadline(ctx, ex.call.Deadline)
		cancel := ex.stop
		ex.stop = func() { stop(); cancel() }
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		ex.stop()
		return nil, nil, &haft.Error{Code: haft.CodeUnavailable, Message: "the engine is shutting down",
			Err: errClosing}
	}
	if other := e.executions[ex.call.ID]; other != nil {
		ex.stop()
		return nil, other, errIDRuns()
	}
	ex.asked, ex.pinned, ex.owner = ex.call, ex.rec.Call.Digest, ex.rec.Owner
	if ex.seen != e.changes.Load() {
		ex.confirm = true // the change need not have seen this call
	}
	e.executions[ex.call.ID] = ex
	e.inFlight.Add(1)
	return ctx, nil, nil
}

// errIDRuns refuses the id of a call that is on its way.
func errIDRuns() error {
	return &haft.Error{Code: haft.CodeConflict, Message: "a call with this id is running"}
}

// dropUnstarted gives back what an execution holds that could not be started, except what
// belongs to the other one that has its id: its events, and its idempotency key if it
// is the same. An execution that is kept keeps its key: the next engine goes on with it.
func (e *Engine) dropUnstarted(ctx context.Context, ex, other *execution) {
	if other == nil {
		e.journal.forget(ex.call.ID)
	}
	if !ex.async && (other == nil || !sameKey(ex.call, other.asked)) {
		e.unclaim(ctx, ex)
	}
}

// finish gives back everything that an execution holds.
func (e *Engine) finish(ex *execution) {
	ex.release()
	e.mu.Lock()
	delete(e.executions, ex.call.ID)
	e.mu.Unlock()
	ex.stop()
	close(ex.done)
	e.inFlight.Done()
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
func (e *Engine) runStages(ctx context.Context, ex *execution) (err error) {
	name := "enter"
	defer func() {
		if p := recover(); p != nil {
			e.logOf(ex).Error("a stage panicked", "stage", name, "call", ex.call.ID, "panic", fmt.Sprint(p), "stack",
				string(debug.Stack()))
			err = fmt.Errorf("stage %s: %w", name, errPanic)
		}
	}()
	if ex.refused != nil {
		return ex.refused
	}
	for _, s := range pipeline {
		name = s.name
		if ctx.Err() != nil && !ex.begun { // what has run is checked
			return context.Cause(ctx)
		}
		began := time.Now()
		err := s.run(e, ctx, ex)
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
