package registry

import (
	"context"

	"haft"
)

// Share makes r look at the store each time, as over a store that other processes
// write to.
func (r *Registry) Share() { r.shared = true }

// Cached returns how many tools are kept compiled.
func (r *Registry) Cached() int {
	r.cache.mu.Lock()
	defer r.cache.mu.Unlock()
	return r.cache.recent.Len()
}

// MaxCost is the bound on what is kept.
const MaxCost = maxCost

// Load puts something of that cost under a name into what is kept compiled, and
// reports whether it had to be loaded.
func (r *Registry) Load(ctx context.Context, name string,
	load func(context.Context) (cost int64, err error)) (loaded bool, err error) {
	k := key{org: "acme", ref: name}
	_, err = r.cache.entry(ctx, k, nil, func(ctx context.Context) (*entry, error) {
		loaded = true
		cost, err := load(ctx)
		return &entry{key: k, name: name, cost: cost}, err
	})
	return loaded, err
}

// Waiting returns how many tools are being loaded.
func (r *Registry) Waiting() int {
	r.cache.mu.Lock()
	defer r.cache.mu.Unlock()
	return len(r.cache.loads)
}

// PassGiven is passGiven.
func PassGiven(d *Derived, given any) ([]haft.Argument, error) { return passGiven(d, given) }
