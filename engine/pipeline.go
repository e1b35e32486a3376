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
	"haft/limit"
	"haft/policy"
	"haft/registry"
	"haft/secret"
	"haft/store"
)

// A stage is one step in the handling of a call.
type stage struct {
	name string
	run  func(*Engine, context.Context, *flight) error
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

// errSettled ends the pipeline early: the flight has its result, such as that of
// a cache, or that a person has to agree.
var errSettled = errors.New("the result is there")

// A flight is one call on its way through the pipeline. One goroutine has it.
type flight struct {
	call     haft.Call // as it came, with its id
	asked    haft.Call // the same; it does not change once others know of the flight
	pinned   string    // the version that the caller named; set with asked
	seen     int64     // how many changes of permissions there were when it came in
	confirm  bool      // its credential has to be looked at again before anything else
	probe    bool      // nothing runs: it is only asked whether it may
	rec      haft.Record
	depth    int        // of fallbacks, and of calls that calls make
	parent   *flight    // that made it and waits for it
	keys     []string   // of slots that it holds
	explains bool       // it only asks what would be decided, and runs nothing
	async    bool       // nobody waits: it was submitted, or goes on after an approval
	claimed  *store.Key // its idempotency key
	accepted bool       // it is in the store, to be run by whoever owns it
	free     bool       // of what was kept: no request for approval is asked for
	owner    string     // the name that this process had when it was boarded
	phase    int        // guarded by Engine.mu
	refused  error      // why it may not be made, if that is known already
	ours     bool       // its id was made here, and nothing is kept of it but by this flight
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
	unlock   func()  // of the agent's turn
	begun    bool    // the record says that it runs
	passage  Passage // its way out, while it runs
	here     *herePassage
	contacts []Contact
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

// The phases of a flight, between which one goroutine decides.
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

// fly takes a flight through all stages and out.
func (e *Engine) fly(ctx context.Context, f *flight) (*haft.Result, error) {
	callers := ctx
	ctx, other, err := e.board(ctx, f)
	if err != nil {
		e.turnAway(context.WithoutCancel(callers), f, other)
		return nil, err
	}
	defer func() {
		e.land(f)
		if f.result != nil && f.result.Status == haft.StatusPending && withdrawalOf(ctx) != nil {
			e.review(f.call.Principal.Org) // it was withdrawn while it was written down that it waits
		}
	}()
	if e.cfg.Observer != nil {
		ctx, f.trace = e.cfg.Observer.Begin(ctx, f.named())
	}
	err = e.drive(ctx, f)
	f.result, f.err = e.leave(ctx, f, err)
	if f.result != nil && f.result.Status == haft.StatusPending {
		e.noteParked(f.call.Principal)
	}
	return f.result, f.err
}

// board makes a flight known, so that it can be cancelled, and gives it its
// deadline. If it cannot, other is the flight that has its id, if that is why.
func (e *Engine) board(ctx context.Context, f *flight) (boarded context.Context, other *flight, err error) {
	ctx, f.cancel = context.WithCancelCause(ctx)
	f.stop = func() { f.cancel(nil) }
	if !f.call.Deadline.IsZero() {
		var stop context.CancelFunc
		ctx, stop = context.WithDeadline(ctx, f.call.Deadline)
		cancel := f.stop
		f.stop = func() { stop(); cancel() }
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		f.stop()
		return nil, nil, &haft.Error{Code: haft.CodeUnavailable, Message: "the engine is shutting down", Err: errClosing}
	}
	if other := e.flights[f.call.ID]; other != nil {
		f.stop()
		return nil, other, errIDRuns()
	}
	f.asked, f.pinned, f.owner = f.call, f.rec.Call.Digest, f.rec.Owner
	if f.seen != e.changes.Load() {
		f.confirm = true // the change need not have seen this call
	}
	e.flights[f.call.ID] = f
	e.aloft.Add(1)
	return ctx, nil, nil
}

// errIDRuns refuses the id of a call that is on its way.
func errIDRuns() error {
	return &haft.Error{Code: haft.CodeConflict, Message: "a call with this id is running"}
}

// turnAway gives back what a flight holds that could not be boarded, except what
// belongs to the other one that has its id: its events, and its idempotency key if it
// is the same. A flight that is kept keeps its key: the next engine goes on with it.
func (e *Engine) turnAway(ctx context.Context, f, other *flight) {
	if other == nil {
		e.journal.forget(f.call.ID)
	}
	if !f.async && (other == nil || !sameKey(f.call, other.asked)) {
		e.unclaim(ctx, f)
	}
}

// land gives back everything that a flight holds.
func (e *Engine) land(f *flight) {
	f.release()
	e.mu.Lock()
	delete(e.flights, f.call.ID)
	e.mu.Unlock()
	f.stop()
	close(f.done)
	e.aloft.Done()
}

// release gives back slots and locks. It can be called twice.
func (f *flight) release() {
	if f.grant != nil {
		f.grant.Leave()
	}
	if f.unlock != nil {
		f.unlock()
		f.unlock = nil
	}
}

// drive runs the stages. A panic is an error like another, so that the call
// leaves by the one exit.
func (e *Engine) drive(ctx context.Context, f *flight) (err error) {
	name := "enter"
	defer func() {
		if p := recover(); p != nil {
			e.logOf(f).Error("a stage panicked", "stage", name, "call", f.call.ID, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = fmt.Errorf("stage %s: %w", name, errPanic)
		}
	}()
	if f.refused != nil {
		return f.refused
	}
	for _, s := range pipeline {
		name = s.name
		if ctx.Err() != nil && !f.begun { // what has run is checked
			return context.Cause(ctx)
		}
		began := time.Now()
		err := s.run(e, ctx, f)
		f.took(name, time.Since(began))
		if err != nil && !f.begun && ctx.Err() != nil && haft.CodeOf(err) == haft.CodeUnavailable {
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
func (f *flight) took(stage string, d time.Duration) {
	switch stage {
	case "resolve", "authorize":
		f.timeline.Policy += haft.Millis(d)
	case "validate":
		f.timeline.Validate = haft.Millis(d)
	}
	if f.trace != nil {
		f.trace.Stage(stage, d)
	}
}
