package bench

import "sync"

// perCaller has a thing for each caller, made when it is first needed.
type perCaller[T any] struct {
	mu   sync.Mutex
	made map[int]T
}

func newPerCaller[T any]() *perCaller[T] { return &perCaller[T]{made: map[int]T{}} }

// get returns the thing of a caller. Others wait while it is made.
func (p *perCaller[T]) get(caller int, make func() (T, error)) (T, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t, ok := p.made[caller]
	if ok {
		return t, nil
	}
	t, err := make()
	if err == nil {
		p.made[caller] = t
	}
	return t, err
}
