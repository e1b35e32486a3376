package engine

import (
	"context"
	"time"

	"haft"
	"haft/audit"
	"haft/store"
)

// Submit implements [haft.Caller]. The call is looked at as far as its tool and
// who may call it before it is acknowledged: a refusal is a result at once.
func (e *Engine) Submit(ctx context.Context, c haft.Call) (*haft.Record, error) {
	f, first, err := e.arrive(ctx, c)
	if err != nil {
		return nil, err
	}
	if first != f.call.ID {
		return e.store.Record(ctx, c.Principal.Org, first)
	}
	f.async, f.ours = true, false // once it is queued, others may end it
	err = f.refused
	if err == nil {
		err = e.look(ctx, f)
	}
	if err != nil {
		res, err := e.leave(ctx, f, err)
		f.release()
		if err != nil {
			return nil, err
		}
		f.rec.Result = res
		return &f.rec, nil
	}
	if err := e.dispatcher.reserve(c.Principal.Org); err != nil {
		f.release()
		e.journal.forget(f.call.ID)
		e.unclaim(ctx, f)
		return nil, err
	}
	err = e.queue(ctx, f)
	e.dispatcher.settle(c.Principal.Org, err == nil)
	if err != nil {
		return e.accept(context.WithoutCancel(ctx), f, err)
	}
	rec := f.rec
	e.accepted(f)
	return &rec, nil
}

// accept finds out whether a call is in the store although writing it seemed to fail. If
// nobody can tell now, its idempotency key stays taken: who repeats it gets this call.
func (e *Engine) accept(ctx context.Context, f *flight, failed error) (*haft.Record, error) {
	f.release()
	if haft.CodeOf(failed) != haft.CodeUnavailable {
		e.unclaim(ctx, f)
		return nil, failed
	}
	r, err := e.store.Record(ctx, f.call.Principal.Org, f.call.ID)
	switch {
	case err == nil:
		e.recount(ctx)
		return r, nil
	case haft.CodeOf(err) == haft.CodeNotFound:
		e.unclaim(ctx, f)
		return nil, failed
	}
	return nil, &haft.Error{Code: haft.CodeUnavailable, RetryAfter: haft.Millis(time.Second), Err: failed,
		Message: "the store does not answer: nobody can tell yet whether the call was accepted; repeat it with its idempotency key, or look for it by its id"}
}

// look takes a flight through the stages that need no turn, so that what is
// refused anyway is refused now. They run again when the call does.
func (e *Engine) look(ctx context.Context, f *flight) error {
	probe := *f
	defer func() {
		// What is kept of the call from here on is without what is stored.
		f.lease, f.redactor = probe.lease, probe.redactor
		probe.release()
	}()
	for _, s := range deciding {
		if err := s.run(e, ctx, &probe); err != nil {
			f.tool, f.rules, f.decision = probe.tool, probe.rules, probe.decision
			return err
		}
	}
	now := time.Now()
	taken, err := e.limits.Take(ctx, e.ask(&probe, now), now)
	if err != nil {
		f.tool, f.rules, f.decision = probe.tool, probe.rules, probe.decision
		return limited(err)
	}
	f.taken, f.decision, f.rec.ToolID, f.rec.Digest = taken, probe.decision, probe.tool.Tool.ID, probe.tool.Tool.Version.Digest
	f.rec.Call.Tool = probe.tool.Tool.Name
	f.tool, f.rules, f.agent = probe.tool, probe.rules, probe.agent // by which its record is kept
	return nil
}

// queue writes down that the call is acknowledged.
func (e *Engine) queue(ctx context.Context, f *flight) error {
	sealed, err := e.seal(f)
	if err != nil {
		return err
	}
	e.keep(f)
	f.rec.Status, f.rec.Sealed = haft.StatusQueued, sealed
	part := &store.Batch{Records: []haft.Record{f.rec}, Limits: rows(f.taken), Keys: f.keysHeld(),
		Audit: []audit.Entry{e.entry(f, "call.queued", map[string]any{"args_digest": f.rec.ArgsDigest})}}
	f.taken = nil
	if err := e.tell(ctx, f, haft.EventQueued, nil, part); err != nil {
		return err
	}
	f.accepted = true
	return nil
}
