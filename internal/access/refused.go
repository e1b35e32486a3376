package access

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"haft"
	"haft/internal/auth"
	"haft/server"
)

// Bounds of the log and the audit of refused requests: clients decide how many requests they
// send.
const (
	refusedEvery = time.Minute // at most one entry of a kind in this time
	refusedKinds = 1000        // the most kinds that are counted apart
)

// A refusedKind identifies refusals that are counted together.
type refusedKind struct {
	why    server.Why
	reason auth.Reason
	key    string
	org    string
}

// A refusedEntry is the entry of the audit about refusals.
type refusedEntry struct {
	Why    server.Why  `json:"why"`
	Reason auth.Reason `json:"reason,omitempty"`
	Key    string      `json:"key,omitempty"`
	// Source is the address of the client whose request caused this entry.
	Source string `json:"source,omitempty"`
	// Count is the number of refusals of this kind since the last entry, including this one.
	Count int `json:"count"`
}

// Refusals counts the requests that the server refuses. It logs and audits the first of a
// kind in each interval, with the number since the last entry.
type Refusals struct {
	// Count is called for each refusal, for the metrics.
	Count func(why, reason string)
	// Operators is the organisation whose audit gets refusals of unknown callers.
	Operators string
	Keys      auth.Keys
	Manage    Manage
	Logger    *slog.Logger

	mu   sync.Mutex
	seen map[refusedKind]*refusedTally
}

// refusedTally counts the refusals of a kind since the last entry.
type refusedTally struct {
	since time.Time
	count int
}

// Refused counts a refusal. Only refusals of credentials are audited: the others name no key
// and no caller, so the counts say as much.
func (p *Refusals) Refused(ctx context.Context, r server.Refusal) {
	reason := auth.ReasonOf(r.Err)
	p.Count(string(r.Why), string(reason))
	kind := refusedKind{why: r.Why, reason: reason, key: auth.KeyOf(r.Err), org: r.Principal.Org}
	count := p.due(kind, time.Now())
	if count == 0 {
		return
	}
	p.Logger.Warn("requests were turned away", "why", r.Why, "reason", reason, "key", kind.key, "source", r.Source,
		"tenant", kind.org, "count", count)
	if r.Why != server.WhyCredential && r.Why != server.WhyScope {
		return
	}
	p.audit(ctx, kind, r.Source, count)
}

// due returns the number of refusals to write about now, or 0 if it is too early.
func (p *Refusals) due(kind refusedKind, now time.Time) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.seen[kind]
	if t == nil {
		if len(p.seen) >= refusedKinds {
			for k, old := range p.seen {
				if now.Sub(old.since) >= refusedEvery && old.count == 0 {
					delete(p.seen, k)
				}
			}
		}
		if len(p.seen) >= refusedKinds {
			kind = refusedKind{why: kind.why} // count the rest together
		}
		if t = p.seen[kind]; t == nil {
			if p.seen == nil {
				p.seen = map[refusedKind]*refusedTally{}
			}
			t = &refusedTally{}
			p.seen[kind] = t
		}
	}
	t.count++
	if !t.since.IsZero() && now.Sub(t.since) < refusedEvery {
		return 0
	}
	n := t.count
	t.since, t.count = now, 0
	return n
}

// audit writes an entry to the audit of the organisation that owns the key, or else of the
// operators.
func (p *Refusals) audit(ctx context.Context, kind refusedKind, source netip.Addr, count int) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	org := kind.org
	if org == "" && kind.key != "" {
		if k, err := p.Keys.Key(ctx, kind.key); err == nil {
			org = k.Org
		}
	}
	if org == "" {
		org = p.Operators
	}
	entry := refusedEntry{Why: kind.why, Reason: kind.reason, Key: kind.key, Count: count}
	if source.IsValid() {
		entry.Source = source.String()
	}
	by := haft.Principal{Org: org, User: "haft", Roles: []string{haft.RoleAdmin}}
	if err := p.Manage(ctx, by, haft.AuditRead, "request.refused",
		func(context.Context) (any, error) { return entry, nil }); err != nil {
		p.Logger.Error("a refusal could not be audited", "err", err)
	}
}
