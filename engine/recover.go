package engine

import (
	"context"
	"fmt"
	"time"

	"haft"
)

// recover closes what dead processes left open: a call that had begun is unknown
// now, unless its tool may run twice; one that had not begun is run; one that
// waits for a person goes on waiting.
func (e *Engine) recover(ctx context.Context) error {
	if err := e.store.Beat(ctx, e.cfg.Owner, time.Now()); err != nil {
		return err
	}
	if !e.store.Shared() {
		// Nobody else has the store, so whoever had it is dead.
		return e.inherit(ctx, "")
	}
	return e.bury(ctx)
}

// bury takes over from processes that were not heard of for a while.
func (e *Engine) bury(ctx context.Context) error {
	dead, err := e.store.Dead(ctx, time.Now().Add(-e.cfg.DeadAfter))
	if err != nil {
		return err
	}
	for _, owner := range dead {
		if owner == e.cfg.Owner {
			continue
		}
		if err := e.inherit(ctx, owner); err != nil {
			return err
		}
		if err := e.store.Bury(ctx, owner); err != nil {
			return err
		}
	}
	return nil
}

// inherit takes over the open calls of an owner, or of all if it is empty.
func (e *Engine) inherit(ctx context.Context, owner string) error {
	for {
		open, err := e.store.Open(ctx, owner, page)
		if err != nil {
			return err
		}
		taken := 0
		for i := range open {
			r := &open[i]
			if r.Owner == e.cfg.Owner {
				continue
			}
			n, err := e.store.Adopt(ctx, r.Owner, e.cfg.Owner, []haft.CallID{r.Call.ID})
			if err != nil {
				return err
			}
			if n == 0 {
				continue // another process was faster
			}
			taken++
			if err := e.revive(ctx, r); err != nil {
				return fmt.Errorf("take over call %s: %w", r.Call.ID, err)
			}
		}
		if len(open) < page || taken == 0 {
			break
		}
	}
	return e.inheritChains(ctx)
}

// revive goes on with one call of a dead process.
func (e *Engine) revive(ctx context.Context, r *haft.Record) error {
	r.Owner = e.cfg.Owner
	switch r.Status {
	case haft.StatusPending:
		a, err := e.store.ApprovalOf(ctx, r.Call.Principal.Org, r.Call.ID)
		if err != nil {
			return e.lose(ctx, r, "the request for approval is gone")
		}
		if a.State == haft.ApprovalApproved { // answered, and not begun
			f, err := e.unseal(r)
			if err != nil {
				return e.lose(ctx, r, "what was kept of the call cannot be read")
			}
			e.resume(f, a)
			return nil
		}
		if a.State == haft.ApprovalUsed {
			// The approval is spent right before the record says that it runs.
			return e.lose(ctx, r, "the server ended while the call was about to run")
		}
		if a.State == haft.ApprovalDenied {
			f := &flight{call: r.Call, rec: *r, began: time.Now(), done: make(chan struct{}), redactor: e.plain}
			res := f.failed(haft.StatusRejected, haft.FailRejected, "a person refused the call")
			e.finish(f, res)
			return e.close(ctx, f, res)
		}
		e.review(r.Call.Principal.Org) // permissions may have been changed while nobody looked
		return nil
	case haft.StatusQueued:
		f, err := e.unseal(r)
		if err != nil {
			return e.lose(ctx, r, "what was kept of the call cannot be read")
		}
		switch a, err := e.store.ApprovalOf(ctx, r.Call.Principal.Org, r.Call.ID); {
		case haft.CodeOf(err) == haft.CodeNotFound:
			e.launch(f)
		case err != nil:
			return err
		case a.State == haft.ApprovalUsed: // right before the record says that it runs
			return e.lose(ctx, r, "the server ended while the call was about to run")
		default:
			e.resume(f, a)
		}
		return nil
	}
	if f := e.again(ctx, r); f != nil {
		e.launch(f)
		return nil
	}
	return e.lose(ctx, r, "the server ended while the call ran")
}

// again returns a flight for a call that had begun and may run twice: its tool is
// idempotent and nobody waits for it in vain.
func (e *Engine) again(ctx context.Context, r *haft.Record) *flight {
	if len(r.Sealed) == 0 {
		return nil
	}
	tool, err := e.registry.Resolve(ctx, r.Call.Principal.Org, string(r.ToolID), r.Digest)
	if err != nil || !tool.Tool.Version.Settings.Idempotent {
		return nil
	}
	f, err := e.unseal(r)
	if err != nil {
		return nil
	}
	f.call.Digest = r.Digest
	f.rec.Status = haft.StatusQueued
	return f
}

// lose closes a call of which nobody can know whether it ran.
func (e *Engine) lose(ctx context.Context, r *haft.Record, why string) error {
	f := &flight{call: r.Call, rec: *r, began: time.Now(), done: make(chan struct{}), redactor: e.plain}
	res := f.failed(haft.StatusUnknown, haft.FailUnknown, "nobody can know whether the tool ran: "+why)
	e.finish(f, res)
	return e.close(ctx, f, res)
}
