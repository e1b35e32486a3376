package engine

import (
	"context"
	"time"

	"haft"
	"haft/internal/journal"
)

// A housekeeper does what has to be done from time to time.
type housekeeper struct {
	cfg       *Config
	journal   *journal.Journal
	approvals *approvals
	recovery  *recovery
}

// housekeep does what has to be done from time to time, until ctx ends.
func (h *housekeeper) housekeep(ctx context.Context) {
	beat := time.NewTicker(h.cfg.Beat)
	defer beat.Stop()
	for rounds := 0; ; rounds++ {
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
		}
		for _, job := range h.jobs(rounds) {
			if err := job.do(ctx); err != nil && ctx.Err() == nil {
				h.cfg.Logger.Warn("housekeeping failed", "job", job.name, "error", err)
			}
		}
	}
}

// A job is something that has to be done from time to time.
type job struct {
	name string
	do   func(context.Context) error
}

// jobs returns what is due in a round.
func (h *housekeeper) jobs(round int) []job {
	due := []job{{"take up what was left", h.recovery.sweep}, {"expire approvals", h.approvals.expireApprovals}}
	if round%12 == 11 || h.journal.Entries.Load() >= signAfter { // about a minute
		due = append(due, job{"sign the audit", h.checkpoint})
	}
	return due
}

// expireAtOnce is how many requests are closed in one round.
const expireAtOnce = 100

// expireApprovals closes the calls whose requests nobody answered.
func (ap *approvals) expireApprovals(ctx context.Context) error {
	list, err := ap.store.Approvals.ExpiredApprovals(ctx, time.Now(), expireAtOnce)
	if err != nil {
		return err
	}
	for _, a := range list {
		r, err := ap.store.Calls.Record(ctx, a.Requester.Org, a.Call)
		if err != nil {
			return err
		}
		if err := ap.recorder.expire(ctx, r); err != nil && haft.CodeOf(err) != haft.CodeConflict {
			return err
		}
	}
	return nil
}

// signAfter is after how many entries the audit is signed before the minute is over: what
// is not signed yet can be changed by whoever can write to the database.
const signAfter = 1000

// checkpoint signs what the audit has grown by.
func (h *housekeeper) checkpoint(ctx context.Context) error {
	if h.cfg.Checkpoint == nil {
		return nil
	}
	before := h.journal.Entries.Load()
	if err := h.cfg.Checkpoint(ctx); err != nil {
		return err
	}
	h.journal.Entries.Add(-before)
	return nil
}
