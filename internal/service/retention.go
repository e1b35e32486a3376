package service

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"haft"
	"haft/internal/authority"
	"haft/internal/filestore"
	"haft/internal/memorystore"
	"haft/internal/pause"
	"haft/internal/store"
	"haft/internal/workspace"
)

// A RetentionManager knows how long calls are kept, and prunes older ones.
type RetentionManager struct {
	*base
	files      *filestore.Store
	workspaces *workspace.Store
}

// keepLimits is longer than any period of a quota.
const keepLimits = 32 * 24 * time.Hour

// prune forgets what nobody needs any more.
func (m *RetentionManager) prune(ctx context.Context) error {
	now := time.Now()
	if _, err := m.store.Events.PruneEvents(ctx, now.Add(-m.cfg.KeepEvents)); err != nil {
		return err
	}
	if _, err := m.store.Calls.PruneClaims(ctx, now.Add(-keepKeys)); err != nil {
		return err
	}
	if _, err := m.store.Limits.PruneLimits(ctx, now.Add(-keepLimits)); err != nil {
		return err
	}
	_, err := m.store.Cache.PruneCached(ctx, now)
	return err
}

const (
	// keepKeys is how long an idempotency key finds its call. A call that ran is kept for
	// longer: a key whose call is gone would run it again.
	keepKeys = 24 * time.Hour
	keepRan  = keepKeys + time.Hour
	// keepRefused is how long a refusal stays whatever the count says, so that whoever
	// submitted the call can read why. A key whose call was refused is free again: nothing ran.
	keepRefused = 10 * time.Minute
	// pruneFor is how long one round prunes calls; the rest of a backlog waits for the next.
	pruneFor = 2 * time.Second
)

// refusals are the statuses of calls that never began.
func refusals() []haft.Status {
	return []haft.Status{haft.StatusDenied, haft.StatusRate, haft.StatusValidation}
}

// retentionSetting is the name under which the retention of an organisation is kept.
func retentionSetting(org string) string { return "retention/" + org }

// A keptRetention is what was set for an organisation.
type keptRetention struct {
	Own haft.Retention `json:"own"`
	// Granted is what an operator allows beyond the bounds of the server.
	Granted haft.Retention `json:"granted"`
}

// retentionOf returns what holds for an organisation, and the most that its managers can
// set.
func (m *RetentionManager) retentionOf(ctx context.Context, org string) (
	holds, most haft.Retention, kept keptRetention, err error) {
	text, err := m.store.Settings.Setting(ctx, retentionSetting(org))
	if err != nil {
		return holds, most, kept, err
	}
	if text != "" {
		if err := json.Unmarshal([]byte(text), &kept); err != nil {
			return holds, most, kept, fmt.Errorf("read the retention of an organisation: %w", err)
		}
	}
	most = kept.Granted.Or(m.cfg.Retention)
	holds = kept.Own.Within(most)
	return holds, most, kept, nil
}

// retained returns the organisation that p asks about.
func (m *RetentionManager) retained(p haft.Principal, a haft.Action, org string) (string, error) {
	org = cmp.Or(org, p.Org)
	return org, m.authority.Authorize(p, a, authority.Resource{Server: org != p.Org})
}

// Retention implements [haft.Retainer].
func (m *RetentionManager) Retention(ctx context.Context, p haft.Principal, org string) (*haft.Kept, error) {
	org, err := m.retained(p, haft.PoliciesRead, org)
	if err != nil {
		return nil, err
	}
	return m.keptOf(ctx, org)
}

// keptOf returns what an organisation keeps.
func (m *RetentionManager) keptOf(ctx context.Context, org string) (k *haft.Kept, err error) {
	k = &haft.Kept{}
	if k.Retention, k.Most, _, err = m.retentionOf(ctx, org); err != nil {
		return nil, err
	}
	k.Calls, k.Refused, k.Oldest, err = m.store.Calls.KeptCalls(ctx, org, refusals())
	return k, err
}

// SetRetention implements [haft.Retainer].
func (m *RetentionManager) SetRetention(ctx context.Context, p haft.Principal, org string,
	r haft.Retention) (*haft.Kept, error) {
	org, err := m.retained(p, haft.PoliciesWrite, org)
	if err != nil {
		return nil, err
	}
	if err := r.Check(); err != nil {
		return nil, err
	}
	for _, age := range []*haft.Millis{&r.Refused, &r.Calls} {
		if *age < 0 {
			*age = -haft.Millis(time.Millisecond) // which JSON does not round to 0
		}
	}
	_, most, kept, err := m.retentionOf(ctx, org)
	if err != nil {
		return nil, err
	}
	kept.Own = r
	if m.authority.Operates(p) {
		kept.Granted = r
	} else if name := r.Exceeds(most); name != "" {
		return nil, &haft.Error{Code: haft.CodeDenied,
			Message: name + " is more than the server keeps for this organisation: its operator can raise it, with " +
				"haft calls retention --of " + org}
	}
	raw, err := json.Marshal(kept)
	if err != nil {
		return nil, fmt.Errorf("encode a retention: %w", err)
	}
	if err := m.store.Settings.PutSetting(ctx, retentionSetting(org), string(raw)); err != nil {
		return nil, err
	}
	if err := m.changes.Log(ctx, p, org, "retention.set", map[string]any{"org": org, "retention": r}); err != nil {
		return nil, err
	}
	return m.keptOf(ctx, org)
}

// A pruning is where the rounds of pruning calls stand. Only the housekeeping has it.
type pruning struct {
	orgs []string // still to be looked at in this pass
	full bool     // this pass looks at all calls, and not only at refusals
	// places are where to go on with organisations that a round did not get through. Without
	// them it would look at the same calls, which stay, again and never get to the rest.
	places map[string]prunePlace
}

// A prunePlace is where to go on with an organisation.
type prunePlace struct {
	step  int // in refusals, and behind them all calls
	at    *store.CallPlace
	turns *memorystore.TurnPlace
}

// unfinished reports whether a round has left something to do.
func (p *pruning) unfinished() bool { return len(p.orgs)+len(p.places) > 0 }

// pruneCalls removes calls that need not be kept, for a while at most. Between two
// transactions it waits for as long as the first took: callers come before it. An organisation
// that has more than that goes on in the next pass, so that it does not keep others waiting.
// Of servers that share a store one does it at a time.
func (m *RetentionManager) pruneCalls(ctx context.Context, pass *pruning, full bool, most time.Duration) error {
	now := time.Now()
	if mine, err := m.store.Settings.Lease(ctx, "prune", m.cfg.Owner, time.Minute); err != nil || !mine {
		return err
	}
	if len(pass.orgs) == 0 {
		orgs, err := m.store.Audit.AuditOrgs(ctx)
		if err != nil {
			return err
		}
		pass.orgs, pass.full = orgs, full
	}
	pass.full = pass.full || full
	if pass.places == nil {
		pass.places = make(map[string]prunePlace)
	}
	end, gone := now.Add(most), 0
	for more := true; more && len(pass.orgs) > 0; more = time.Now().Before(end) {
		org := pass.orgs[0]
		pass.orgs = pass.orgs[1:]
		place := pass.places[org]
		delete(pass.places, org)
		n, done, err := m.pruneOrg(ctx, org, &place, pass.full, end)
		if gone += n; err != nil {
			return err
		}
		if !done {
			pass.places[org] = place
		}
	}
	if gone > 0 {
		m.cfg.Logger.Info("calls were pruned, see haft calls retention", "count", gone)
	}
	return nil
}

// pruneOrg prunes the calls of an organisation from a place on until a time. It reports how
// many are gone and whether it is done; else place is where to go on.
func (m *RetentionManager) pruneOrg(ctx context.Context, org string, place *prunePlace, full bool,
	end time.Time) (gone int, done bool, err error) {
	keep, _, _, err := m.retentionOf(ctx, org)
	if err != nil {
		return 0, false, err
	}
	for never := refusals(); place.step <= len(never); place.step++ {
		n := 0
		if place.step < len(never) {
			o := store.OldCalls{Org: org, Status: never[place.step], Never: true}
			n, place.at, err = m.pruneOld(ctx, o, place.at, keep.Refused, keep.RefusedCount, keepRefused, end)
		} else if full || place.at != nil {
			n, place.at, err = m.pruneOld(ctx, store.OldCalls{Org: org}, place.at, keep.Calls, keep.CallsCount, keepRan,
				end)
		}
		if gone += n; err != nil || place.at != nil {
			return gone, false, err
		}
	}
	if !full && place.turns == nil || keep.Calls <= 0 {
		return gone, true, nil
	}
	place.turns, err = m.memory.PruneTurns(ctx, org, time.Now().Add(-max(keep.Calls.D(), keepRan)), place.turns, end)
	return gone, place.turns == nil, err
}

// pruneOld prunes what is older than age or not among the newest count, and in any case than
// least. It returns how many are gone and where to go on, or nil if it is done.
func (m *RetentionManager) pruneOld(ctx context.Context, o store.OldCalls, at *store.CallPlace, age haft.Millis,
	count int64,
	least time.Duration, end time.Time) (gone int, next *store.CallPlace, err error) {
	now := time.Now()
	if age > 0 {
		o.Before = now.Add(-age.D())
	}
	if count > 0 {
		counted, err := m.store.Calls.KeepNewest(ctx, o.Org, o.Status, count)
		if err != nil {
			return 0, nil, err
		}
		o.Before = slices.MaxFunc([]time.Time{o.Before, counted}, time.Time.Compare)
	}
	if o.Before.IsZero() {
		return 0, nil, nil
	}
	o.Before = slices.MinFunc([]time.Time{o.Before, now.Add(-least)}, time.Time.Compare)
	for {
		began := time.Now()
		n, next, err := m.store.Calls.PruneCalls(ctx, o, at)
		if gone += n; err != nil || next == nil || time.Now().After(end) {
			return gone, next, err
		}
		at = next
		if err := pause.For(ctx, time.Since(began)); err != nil {
			return gone, nil, err
		}
	}
}

// pruneLoop prunes from time to time, until ctx ends: old calls and files about each minute, and
// everything else about each hour, before the calls that claims name.
func (m *RetentionManager) pruneLoop(ctx context.Context) {
	tick := time.NewTicker(m.cfg.PruneEvery)
	defer tick.Stop()
	pass := &pruning{}
	for round := 0; ; round++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		hour := round%720 == 719
		if hour {
			m.warn(ctx, "prune", m.prune(ctx))
		}
		if round%720 == 0 {
			m.warn(ctx, "remove what a crash left of workspaces", m.workspaces.Sweep(ctx))
		}
		if round%12 == 0 {
			_, err := m.files.Sweep(ctx)
			m.warn(ctx, "remove old files", err)
			m.warn(ctx, "remove the memory of agents that are gone", m.purge(ctx))
		}
		if round%12 == 11 || pass.unfinished() {
			m.warn(ctx, "prune calls", m.pruneCalls(ctx, pass, hour, pruneFor))
		}
	}
}

// indexLoop makes the audit log searchable as it grows, until ctx ends.
func (m *RetentionManager) indexLoop(ctx context.Context) {
	tick := time.NewTicker(m.cfg.PruneEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		m.warn(ctx, "index the audit log", m.store.Audit.IndexAudit(ctx))
	}
}

// purge removes the memory of agents that are gone, for a while at most; the next one goes on.
func (m *RetentionManager) purge(ctx context.Context) error {
	some, cancel := context.WithTimeout(ctx, pruneFor)
	defer cancel()
	if err := m.memory.Purge(some); some.Err() == nil {
		return err
	}
	return nil
}

// warn logs why a job failed, unless the process ends.
func (m *RetentionManager) warn(ctx context.Context, job string, err error) {
	if err != nil && ctx.Err() == nil {
		m.cfg.Logger.Warn("housekeeping failed", "job", job, "error", err)
	}
}
