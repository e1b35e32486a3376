package chains

import (
	"context"
	"sync"
)

// Locks are mutexes by name, which exist while somebody holds or wants them.
type Locks struct {
	mu   sync.Mutex
	held map[string]*lock
}

// lock is one of them: a channel with room for one holder.
type lock struct {
	free chan struct{}
	refs int
}

// NewLocks returns Locks that nobody holds.
func NewLocks() *Locks { return &Locks{held: make(map[string]*lock)} }

// Take waits for the lock of that name. The function that it returns gives it
// back.
func (l *Locks) Take(ctx context.Context, name string) (func(), error) {
	return l.TakeOr(ctx, name, func() {})
}

// TakeOr is Take, and calls waits first if it has to wait.
func (l *Locks) TakeOr(ctx context.Context, name string, waits func()) (func(), error) {
	l.mu.Lock()
	k := l.held[name]
	if k == nil {
		k = &lock{free: make(chan struct{}, 1)}
		k.free <- struct{}{}
		l.held[name] = k
	}
	k.refs++
	l.mu.Unlock()
	unlock := func() { k.free <- struct{}{}; l.drop(name, k) }
	select {
	case <-k.free:
		return unlock, nil
	default:
	}
	waits()
	select {
	case <-k.free:
		return unlock, nil
	case <-ctx.Done():
		l.drop(name, k)
		return nil, context.Cause(ctx)
	}
}

// Busy reports whether somebody holds or wants the lock of that name.
func (l *Locks) Busy(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held[name] != nil
}

// drop forgets a lock that nobody wants any more.
func (l *Locks) drop(name string, k *lock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k.refs--; k.refs == 0 {
		delete(l.held, name)
	}
}
