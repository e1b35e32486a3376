package script

import "haft/sandbox/cell"

// Parked returns how many sandboxes are ready for the organisation.
func (x *Executor) Parked(org string) int {
	return x.pool.Count(func(k cell.Key) bool { return k.Tenant == org })
}
