package registry

import "sync"

// orgLocks has a lock for every organisation that writes. What one organisation does
// while it holds its own never makes another wait.
type orgLocks struct {
	mu  sync.Mutex
	all map[string]*orgLock
}

// orgLock is that of one organisation, while anybody wants it.
type orgLock struct {
	sync.Mutex
	users int
}

// lock locks an organisation and returns what unlocks it.
func (l *orgLocks) lock(org string) (unlock func()) {
	l.mu.Lock()
	if l.all == nil {
		l.all = map[string]*orgLock{}
	}
	own := l.all[org]
	if own == nil {
		own = &orgLock{}
		l.all[org] = own
	}
	own.users++
	l.mu.Unlock()
	own.Lock()
	return func() {
		own.Unlock()
		l.mu.Lock()
		defer l.mu.Unlock()
		if own.users--; own.users == 0 {
			delete(l.all, org)
		}
	}
}
