package cell

// Idle returns how many cells of key are idle.
func (p *Pool) Idle(key Key) int { return p.Count(func(k Key) bool { return k == key }) }
