package registry

// Share makes r look at the store each time, as over a store that other processes
// write to.
func (r *Registry) Share() { r.shared = true }

// Cached returns how many tools are kept compiled.
func (r *Registry) Cached() int {
	r.cache.mu.Lock()
	defer r.cache.mu.Unlock()
	return r.cache.recent.Len()
}
