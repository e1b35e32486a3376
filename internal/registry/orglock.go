package registry

import "sync"

// orgLocks has a lock for every organisation that writes, so that one organisation never
// waits for another.
type orgLocks struct {
	mu  sync.Mutex
	all map[string]*orgLock
}

// orgLock is the lock of one organisation. It exists while somebody holds or wants it.
type orgLock struct {
	sync.Mutex
	users int
}

// lock locks an organisation and returns the function that unlocks it.
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
