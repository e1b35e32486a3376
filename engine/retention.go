package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"haft"
	"haft/authority"
	"haft/store"
)

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

var _ haft.Retainer = (*Engine)(nil)

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
func (e *Engine) retentionOf(ctx context.Context, org string) (holds, most haft.Retention, kept keptRetention, err error) {
	text, err := e.store.Setting(ctx, retentionSetting(org))
	if err != nil {
		return holds, most, kept, err
	}
	if text != "" {
		if err := json.Unmarshal([]byte(text), &kept); err != nil {
			return holds, most, kept, fmt.Errorf("read the retention of an organisation: %w", err)
		}
	}
	most = kept.Granted.Or(e.cfg.Retention)
	holds = kept.Own.Within(most)
	return holds, most, kept, nil
}

// retained returns the organisation that p asks about.
func (e *Engine) retained(p haft.Principal, a haft.Action, org string) (string, error) {
	org = cmp.Or(org, p.Org)
	return org, e.Authorize(p, a, authority.Resource{Server: org != p.Org})
}

// Retention implements [haft.Retainer].
func (e *Engine) Retention(ctx context.Context, p haft.Principal, org string) (*haft.Kept, error) {
	org, err := e.retained(p, haft.PoliciesRead, org)
	if err != nil {
		return nil, err
	}
	return e.keptOf(ctx, org)
}

// keptOf returns what an organisation keeps.
func (e *Engine) keptOf(ctx context.Context, org string) (k *haft.Kept, err error) {
	k = &haft.Kept{}
	if k.Retention, k.Most, _, err = e.retentionOf(ctx, org); err != nil {
		return nil, err
	}
	k.Calls, k.Refused, k.Oldest, err = e.store.KeptCalls(ctx, org, refusals())
	return k, err
}

// SetRetention implements [haft.Retainer].
func (e *Engine) SetRetention(ctx context.Context, p haft.Principal, org string, r haft.Retention) (*haft.Kept, error) {
	org, err := e.retained(p, haft.PoliciesWrite, org)
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
	_, most, kept, err := e.retentionOf(ctx, org)
	if err != nil {
		return nil, err
	}
	kept.Own = r
	if e.authority.Operates(p) {
		kept.Granted = r
	} else if name := r.Exceeds(most); name != "" {
		return nil, &haft.Error{Code: haft.CodeDenied, Message: name + " is more than the server keeps for this organisation: its operator can raise it, with haft calls retention --of " + org}
	}
	raw, err := json.Marshal(kept)
	if err != nil {
		return nil, fmt.Errorf("encode a retention: %w", err)
	}
	if err := e.store.PutSetting(ctx, retentionSetting(org), string(raw)); err != nil {
		return nil, err
	}
	if err := e.logFor(ctx, p, org, "retention.set", map[string]any{"org": org, "retention": r}); err != nil {
		return nil, err
	}
	return e.keptOf(ctx, org)
}

// A pruning is where the rounds of pruning calls stand. Only the housekeeping has it.
type pruning struct {
	orgs []string // still to be looked at in this pass
	full bool     // this pass looks at all calls, and not only at refusals
}

// pruneCalls removes calls that need not be kept, for a while at most. Between two
// transactions it waits for as long as the first took: callers come before it. Of servers that
// share a store one does it at a time.
func (e *Engine) pruneCalls(ctx context.Context, pass *pruning, full bool) error {
	now := time.Now()
	if mine, err := e.store.Lease(ctx, "prune", e.cfg.Owner, time.Minute); err != nil || !mine {
		return err
	}
	if len(pass.orgs) == 0 {
		orgs, err := e.store.AuditOrgs(ctx)
		if err != nil {
			return err
		}
		*pass = pruning{orgs: orgs, full: full}
	}
	pass.full = pass.full || full
	end := now.Add(pruneFor)
	for len(pass.orgs) > 0 && time.Now().Before(end) {
		done, err := e.pruneOrg(ctx, pass.orgs[0], pass.full, end)
		if err != nil {
			pass.orgs = pass.orgs[1:] // the others are not kept waiting for it
			return err
		}
		if !done {
			return nil
		}
		pass.orgs = pass.orgs[1:]
	}
	return nil
}

// pruneOrg prunes the calls of an organisation until a time, and reports whether it is done.
func (e *Engine) pruneOrg(ctx context.Context, org string, full bool, end time.Time) (bool, error) {
	keep, _, _, err := e.retentionOf(ctx, org)
	if err != nil {
		return false, err
	}
	for _, status := range refusals() {
		done, err := e.pruneOld(ctx, store.OldCalls{Org: org, Status: status, Never: true}, keep.Refused, keep.RefusedCount, keepRefused, end)
		if err != nil || !done {
			return false, err
		}
	}
	if !full {
		return true, nil
	}
	return e.pruneOld(ctx, store.OldCalls{Org: org}, keep.Calls, keep.CallsCount, keepRan, end)
}

// pruneOld prunes what is older than age or not among the newest count, and in any case than
// least.
func (e *Engine) pruneOld(ctx context.Context, o store.OldCalls, age haft.Millis, count int64, least time.Duration, end time.Time) (bool, error) {
	now := time.Now()
	if age > 0 {
		o.Before = now.Add(-age.D())
	}
	if count > 0 {
		counted, err := e.store.KeepNewest(ctx, o.Org, o.Status, count)
		if err != nil {
			return false, err
		}
		o.Before = slices.MaxFunc([]time.Time{o.Before, counted}, time.Time.Compare)
	}
	if o.Before.IsZero() {
		return true, nil
	}
	o.Before = slices.MinFunc([]time.Time{o.Before, now.Add(-least)}, time.Time.Compare)
	for at := (*store.CallPlace)(nil); ; {
		began := time.Now()
		_, next, err := e.store.PruneCalls(ctx, o, at)
		if err != nil || next == nil {
			return err == nil, err
		}
		if at = next; time.Now().After(end) {
			return false, nil
		}
		if err := pause(ctx, time.Since(began)); err != nil {
			return false, err
		}
	}
}
