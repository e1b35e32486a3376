package limit

import (
	"cmp"
	"slices"
)

// Stats are what there is at one moment.
type Stats struct {
	Running int // calls that hold a grant
	Settled int // calls that do and run long
	Waiting int // calls that wait for one
	Keys    int // rates and quotas that are remembered
	// Tenants are those with calls, in the order of their names.
	Tenants []TenantStats
}

// TenantStats are those of one tenant.
type TenantStats struct {
	Tenant  string
	Running int
	Waiting int
}

// Stats returns what there is now.
func (l *Limiter) Stats() Stats {
	l.quotas.mu.Lock()
	s := Stats{Keys: len(l.quotas.entries)}
	l.quotas.mu.Unlock()
	h := &l.scheduler
	h.mu.Lock()
	s.Running, s.Settled, s.Waiting = h.running, h.settled, h.waiting
	for _, t := range h.tenants {
		if t.running+t.waiting > 0 {
			s.Tenants = append(s.Tenants, TenantStats{Tenant: t.name, Running: t.running, Waiting: t.waiting})
		}
	}
	h.mu.Unlock()
	slices.SortFunc(s.Tenants, func(a, b TenantStats) int { return cmp.Compare(a.Tenant, b.Tenant) })
	return s
}
