package engine

import (
	"context"
	"errors"
	"time"

	"haft"
	"haft/internal/audit"
	"haft/internal/backlog"
	"haft/internal/chains"
	"haft/internal/event"
	"haft/internal/filestore"
	"haft/internal/followup"
	"haft/internal/journal"
	"haft/internal/membership"
	"haft/internal/pause"
	"haft/internal/secret"
	"haft/internal/store"
)

// A recorder writes what becomes of calls: records, events and the audit, in one transaction.
type recorder struct {
	cfg       *Config
	store     *store.Store
	files     *filestore.Store
	hub       *event.Hub
	journal   *journal.Journal
	calls     *callTable
	chains    *chains.Chains
	digests   *secret.Digester
	entrance  *entrance
	members   *membership.Membership
	redaction *redaction
	seals     *callSealer
}

// recordWait is how long somebody waits for the end of a call to be recorded.
const recordWait = 30 * time.Second

// record closes the record of the call. A tool that ran does not end as unknown because
// the store is away: its end is tried until it is kept. Whoever made the call waits for
// that as long as waiting, and not for ever.
func (w *recorder) record(ctx, waiting context.Context, ex *execution, res *haft.Result) error {
	if !ex.begun {
		w.redaction.keep(ex)
	}
	kept, err := w.files.KeepArtifacts(ctx, ex.call.Principal, ex.call.ID, res)
	if err != nil { // then the record has what fits
		w.redaction.logOf(ex).Warn("artifacts cannot be kept as files", "call", ex.call.ID, "error", err)
	}
	ex.rec.Status, ex.rec.Ended, ex.rec.Result, ex.rec.Sealed = res.Status, time.Now(), kept, nil
	ex.rec.ResultDigest = w.digests.Digest("result", res.Value)
	write := w.ending(ctx, ex, res)
	for _, wait := range []time.Duration{0, 50 * time.Millisecond, 500 * time.Millisecond} {
		if wait > 0 {
			time.Sleep(wait) //nolint:forbidigo // not for others: for a store that has to come back
		}
		if err = write(wait > 0); err == nil || !ex.begun || w.overtaken(ctx, err) {
			return err
		}
	}
	w.calls.mu.Lock()
	w.calls.recording[ex.call.ID] = true
	w.calls.mu.Unlock()
	w.redaction.logOf(ex).Warn("the end of a call cannot be recorded yet; it is tried until the store takes it", "call",
		ex.call.ID, "error", err)
	if ex.async {
		return w.recordUntil(ex, write)
	}
	w.calls.launched.Add(1)
	done := make(chan error, 1)
	if !w.calls.Go(func(context.Context) {
		defer w.calls.launched.Add(-1)
		err := w.recordUntil(ex, write)
		if done <- err; err != nil {
			w.redaction.logOf(ex).Error("the end of a call is not recorded", "call", ex.call.ID, "error", err)
		}
	}) {
		w.calls.launched.Add(-1)
		return err
	}
	waiting, cancel := context.WithTimeout(waiting, recordWait)
	defer cancel()
	select {
	case err = <-done:
	case <-waiting.Done():
	}
	return err
}

// ending returns a function that writes the end of a call: the same each time.
func (w *recorder) ending(ctx context.Context, ex *execution, res *haft.Result) func(again bool) error {
	kind := "call.ended"
	if !ex.begun {
		kind = "call.refused"
		if res.Cached {
			kind = "call.cached"
		}
	}
	entry := w.entry(ex, kind, w.endedBody(ex, res))
	data := followup.NewEnded(res)
	return func(again bool) error {
		part := &store.Batch{Records: []haft.Record{ex.rec}, Audit: []audit.Entry{entry}, Limits: ex.taken,
			Again: again, Sure: ex.sure, Chosen: ex.chosen()}
		if !ex.begun {
			part.Approvals = ex.spent()
		}
		return w.publish(ctx, ex, haft.EventCompleted, data, part)
	}
}

// recordUntil writes the end of a call until the store takes it, somebody else has moved
// the call, or the engine is closed.
func (w *recorder) recordUntil(ex *execution, write func(again bool) error) error {
	defer func() {
		w.calls.mu.Lock()
		delete(w.calls.recording, ex.call.ID)
		w.calls.mu.Unlock()
	}()
	for wait := time.Second / 2; ; wait = min(2*wait, backlog.PostponeMost) {
		closing := pause.For(w.calls.ctx, wait) != nil
		if err := write(true); err == nil || closing || w.overtaken(w.calls.ctx, err) {
			return err
		}
	}
}

// overtaken reports whether a call is with somebody else, so that nothing about it is
// written or told here.
func (w *recorder) overtaken(ctx context.Context, err error) bool {
	return errors.Is(err, errOvertaken) || membership.IsGivenUp(err) ||
		errors.Is(context.Cause(ctx), membership.ErrGivenUp)
}

// fromOthers is what the caller of a call is told that others have moved: what they wrote,
// if the tool had begun, and else that nothing ran here.
func (w *recorder) fromOthers(ctx context.Context, ex *execution, err error) (*haft.Result, error) {
	if !errors.Is(err, errOvertaken) {
		w.journal.Forget(ex.call.ID)
		err = membership.GivenUp()
	}
	if ex.begun {
		// Not an error that says to try again: the tool would run twice.
		err = &haft.Error{Code: haft.CodeInternal, Err: err,
			Message: "the tool was run, and another server has the call: look it up by its id"}
		if res := w.ended(ctx, ex); res != nil {
			w.endTrace(ex, res, nil)
			return res, nil
		}
	}
	w.endTrace(ex, nil, err)
	return nil, err
}

// ended is how others have ended a call for which somebody waits here.
func (w *recorder) ended(ctx context.Context, ex *execution) *haft.Result {
	if ex.async {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordWait)
	defer cancel()
	for {
		r, err := w.store.Calls.Record(ctx, ex.call.Principal.Org, ex.call.ID)
		if err == nil && r.Status.Final() {
			return r.Result
		}
		if pause.For(ctx, backlog.PostponeMost/10) != nil || w.calls.ctx.Err() != nil {
			return nil
		}
	}
}

// unrecorded is what the caller of a call is told whose end is not recorded.
func (w *recorder) unrecorded(ctx context.Context, ex *execution, err error) error {
	switch {
	case ex.isStep(), ex.accepted && !ex.begun:
		err = errPostponed // the store says later what became of it
	case ex.begun:
		// Not one that says to try again: the tool would run twice.
		err = &haft.Error{Code: haft.CodeInternal, Err: err,
			Message: "the tool was run, and its end cannot be recorded yet: look the call up by its id"}
	default:
		w.entrance.unclaim(ctx, ex)
	}
	w.endTrace(ex, nil, err)
	return err
}
