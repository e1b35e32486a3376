package cell

// Count returns how many cells of the matching keys are ready.
func (p *Pool) Count(match func(Key) bool) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for k, s := range p.shelves {
		if match(k) {
			n += len(s.ready)
		}
	}
	return n
}
