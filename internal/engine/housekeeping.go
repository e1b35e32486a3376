package engine

import (
	"context"
	"time"

	"haft"
)

// housekeep does what has to be done from time to time, until ctx ends.
func (e *Engine) housekeep(ctx context.Context) {
	beat := time.NewTicker(e.cfg.Beat)
	defer beat.Stop()
	for rounds := 0; ; rounds++ {
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
		}
		for _, job := range e.jobs(rounds) {
			if err := job.do(ctx); err != nil && ctx.Err() == nil {
				e.cfg.Logger.Warn("housekeeping failed", "job", job.name, "error", err)
			}
		}
	}
}

// keepAlive says that this process lives, and gives up others that do not, until ctx ends.
// Nothing else that takes time is done here: others would give this process up.
func (e *Engine) keepAlive(ctx context.Context) {
	beat := time.NewTicker(e.cfg.Beat)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
		case <-e.hurried:
		}
		for _, job := range []job{{"beat", e.beat}, {"look for servers that are gone", e.givePeersUp}} {
			if err := job.do(ctx); err != nil && ctx.Err() == nil {
				e.cfg.Logger.Warn("housekeeping failed", "job", job.name, "error", err)
			}
		}
	}
}

// hurry has this process find out now whether it was given up.
func (e *Engine) hurry() {
	select {
	case e.hurried <- struct{}{}:
	default:
	}
}

// A job is something that has to be done from time to time.
type job struct {
	name string
	do   func(context.Context) error
}

// jobs returns what is due in a round.
func (e *Engine) jobs(round int) []job {
	due := []job{{"take up what was left", e.sweep}, {"expire approvals", e.expireApprovals}}
	if round%12 == 11 || e.journal.entries.Load() >= signAfter { // about a minute
		due = append(due, job{"sign the audit", e.checkpoint})
	}
	return due
}

// expireAtOnce is how many requests are closed in one round.
const expireAtOnce = 100

// expireApprovals closes the calls whose requests nobody answered.
func (e *Engine) expireApprovals(ctx context.Context) error {
	list, err := e.store.ExpiredApprovals(ctx, time.Now(), expireAtOnce)
	if err != nil {
		return err
	}
	for _, a := range list {
		r, err := e.store.Record(ctx, a.Requester.Org, a.Call)
		if err != nil {
			return err
		}
		if err := e.expire(ctx, r); err != nil && haft.CodeOf(err) != haft.CodeConflict {
			return err
		}
	}
	return nil
}

// signAfter is after how many entries the audit is signed before the minute is over: what
// is not signed yet can be changed by whoever can write to the database.
const signAfter = 1000

// checkpoint signs what the audit has grown by.
func (e *Engine) checkpoint(ctx context.Context) error {
	if e.cfg.Checkpoint == nil {
		return nil
	}
	before := e.journal.entries.Load()
	if err := e.cfg.Checkpoint(ctx); err != nil {
		return err
	}
	e.journal.entries.Add(-before)
	return nil
}
