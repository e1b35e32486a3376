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

// The bounds of what is written of requests that were turned away: whoever sends
// them decides how many there are.
const (
	refusedEvery = time.Minute // at most one entry of a kind in this time
	refusedKinds = 1000        // so many kinds are told apart
)

// A refusedKind is one kind of refusals.
type refusedKind struct {
	why    server.Why
	reason auth.Reason
	key    string
	org    string
}

// A refusedEntry is what the audit has of refusals.
type refusedEntry struct {
	Why    server.Why  `json:"why"`
	Reason auth.Reason `json:"reason,omitempty"`
	Key    string      `json:"key,omitempty"`
	// Source is where the one came from that made this entry.
	Source string `json:"source,omitempty"`
	// Count is how many of the kind there were since the last entry, this one
	// included.
	Count int `json:"count"`
}

// Refusals keeps count of requests that the server refused: it counts all,
// logs and audits the first of a kind in a while, and says how many there were.
type Refusals struct {
	// Count is told of each.
	Count func(why, reason string)
	// Operators is the organisation whose audit has refusals of unknown callers.
	Operators string
	Keys      auth.Keys
	Manage    Manage
	Logger    *slog.Logger

	mu   sync.Mutex
	seen map[refusedKind]*refusedTally
}

// refusedTally is how many of a kind there were since the last entry.
type refusedTally struct {
	since time.Time
	count int
}

// Refused counts one. Only refusals of credentials are audited: what names no key
// and no caller says nothing that the counts do not.
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

// due returns how many of a kind are to be written about now: 0 if it is too early.
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
			kind = refusedKind{why: kind.why} // the rest are one
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

// audit writes an entry: to the audit of the organisation whose key it is, or else
// of those who run the server.
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
