package engine

import (
	"context"
	"time"

	"haft"
	"haft/internal/audit"
	"haft/internal/store"
)

// Submit implements [haft.Caller]. The call is looked at as far as its tool and
// who may call it before it is acknowledged: a refusal is a result at once.
func (en *entrance) Submit(ctx context.Context, c haft.Call) (*haft.Record, error) {
	ex, first, err := en.arrive(ctx, c)
	if err != nil {
		return nil, err
	}
	if first != ex.call.ID {
		return en.store.Calls.Record(ctx, c.Principal.Org, first)
	}
	ex.async, ex.sure = true, false // once it is queued, others may end it
	err = ex.refused
	if err == nil {
		err = en.look(ctx, ex)
	}
	if err != nil {
		res, err := en.pipeline.leave(ctx, ex, err)
		ex.release()
		if err != nil {
			return nil, err
		}
		ex.rec.Result = res
		return &ex.rec, nil
	}
	if err := en.dispatcher.Reserve(c.Principal.Org); err != nil {
		ex.release()
		en.journal.Forget(ex.call.ID)
		en.unclaim(ctx, ex)
		return nil, err
	}
	err = en.queue(ctx, ex)
	en.dispatcher.Settle(c.Principal.Org, err == nil)
	if err != nil {
		return en.accept(context.WithoutCancel(ctx), ex, err)
	}
	rec := ex.rec
	en.dispatcher.accepted(ex)
	return &rec, nil
}

// accept finds out whether a call is in the store although writing it seemed to fail. If
// nobody can tell now, its idempotency key stays taken: who repeats it gets this call.
func (en *entrance) accept(ctx context.Context, ex *execution, failed error) (*haft.Record, error) {
	ex.release()
	if haft.CodeOf(failed) != haft.CodeUnavailable {
		en.unclaim(ctx, ex)
		return nil, failed
	}
	r, err := en.store.Calls.Record(ctx, ex.call.Principal.Org, ex.call.ID)
	switch {
	case err == nil:
		en.dispatcher.recount(ctx)
		return r, nil
	case haft.CodeOf(err) == haft.CodeNotFound:
		en.unclaim(ctx, ex)
		return nil, failed
	}
	return nil, &haft.Error{Code: haft.CodeUnavailable, RetryAfter: haft.Millis(time.Second), Err: failed,
		Message: "the store does not answer: nobody can tell yet whether the call was accepted; repeat it with its " +
			"idempotency key, or look for it by its id"}
}

// look takes an execution through the stages that need no turn, so that what is
// refused anyway is refused now. They run again when the call does.
func (en *entrance) look(ctx context.Context, ex *execution) error {
	probe := *ex
	defer func() {
		// What is kept of the call from here on is without what is stored.
		ex.env.LearnSecrets(probe.env)
		probe.release()
	}()
	for _, s := range en.pipeline.deciding() {
		if err := s.run(ctx, &probe); err != nil {
			ex.tool, ex.rules, ex.decision = probe.tool, probe.rules, probe.decision
			return err
		}
	}
	now := time.Now()
	taken, err := en.limiter.limits.Take(ctx, en.limiter.ask(&probe, now), now)
	if err != nil {
		ex.tool, ex.rules, ex.decision = probe.tool, probe.rules, probe.decision
		return limited(err)
	}
	ex.taken, ex.decision, ex.rec.ToolID, ex.rec.Digest = taken, probe.decision, probe.tool.Tool.ID,
		probe.tool.Tool.Version.Digest
	ex.rec.Call.Tool = probe.tool.Tool.Name
	ex.tool, ex.rules, ex.agent = probe.tool, probe.rules, probe.agent // by which its record is kept
	return nil
}

// queue writes down that the call is acknowledged.
func (en *entrance) queue(ctx context.Context, ex *execution) error {
	sealed, err := en.seals.seal(ex)
	if err != nil {
		return err
	}
	en.redaction.keep(ex)
	ex.rec.Status, ex.rec.Sealed = haft.StatusQueued, sealed
	part := &store.Batch{Records: []haft.Record{ex.rec}, Limits: ex.taken, Keys: ex.keysHeld(),
		Audit: []audit.Entry{en.recorder.entry(ex, "call.queued", map[string]any{"args_digest": ex.rec.ArgsDigest})}}
	ex.taken = nil
	if err := en.recorder.publish(ctx, ex, haft.EventQueued, nil, part); err != nil {
		return err
	}
	ex.accepted = true
	return nil
}
