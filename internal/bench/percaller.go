package bench

import "sync"

// perCaller has a thing for each caller, made when it is first needed.
type perCaller[T any] struct {
	mu   sync.Mutex
	made map[int]T
}

func newPerCaller[T any]() *perCaller[T] { return &perCaller[T]{made: map[int]T{}} }

// get returns the thing of a caller, who calls it alone.
func (p *perCaller[T]) get(caller int, make func() (T, error)) (T, error) {
	p.mu.Lock()
	t, ok := p.made[caller]
	p.mu.Unlock()
	if ok {
		return t, nil
	}
	t, err := make()
	if err != nil {
		return t, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.made[caller] = t
	return t, nil
}
