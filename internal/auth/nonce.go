package auth

import (
	"cmp"
	"context"
	"crypto/sha256"
	"maps"
	"sync"
	"time"

	"haft"
)

// Nonces remembers which nonces were used. It is safe for concurrent use. Processes that serve
// the same keys share one; otherwise each of them accepts the same request once.
type Nonces interface {
	// Use reports whether the nonce of a key was not used before, and remembers it until the
	// time until. At is when the request was signed. Of several concurrent calls with the same
	// nonce, one gets true. If the nonce cannot be remembered, it returns an error.
	Use(ctx context.Context, key, nonce string, at, until time.Time) (fresh bool, err error)
}

// The defaults of [MemoryNonces].
const (
	defaultPerKey = 250_000
	defaultNonces = 1_000_000
	// slotTime is how long nonces of one slot end after each other.
	slotTime = 15 * time.Second
)

// MemoryNonces remembers nonces in memory, 16 bytes of each. One that is full
// refuses with [haft.CodeRateLimited]: it never forgets a nonce before its time.
//
// After a restart it is empty, and so refuses requests that were signed before it was made.
type MemoryNonces struct {
	perKey, most int
	began        time.Time

	mu     sync.Mutex
	total  int
	keys   map[string]*nonces
	pruned time.Time
}

// nonces are those of one key, in slots by when they end.
type nonces struct {
	count int
	slots map[int64]map[[16]byte]struct{}
}

// NewMemoryNonces remembers up to perKey nonces of each key and most in all; 0
// means 250,000 and 1,000,000, which is about 2,000 requests per second and key at
// the default skew, and 64 MB.
func NewMemoryNonces(perKey, most int) *MemoryNonces {
	return &MemoryNonces{perKey: cmp.Or(max(perKey, 0), defaultPerKey), most: cmp.Or(max(most, 0), defaultNonces),
		began: time.Now().Truncate(time.Second), keys: make(map[string]*nonces)}
}

// Use implements [Nonces].
func (m *MemoryNonces) Use(_ context.Context, key, nonce string, at, until time.Time) (bool, error) {
	now := time.Now()
	if at.Before(m.began) || !until.After(now) {
		return false, nil
	}
	full := sha256.Sum256([]byte(nonce))
	sum := [16]byte(full[:16])
	slot := until.UnixNano()/int64(slotTime) + 1

	m.mu.Lock()
	defer m.mu.Unlock()
	if now.Sub(m.pruned) >= slotTime {
		m.prune(now)
	}
	n := m.keys[key]
	if n == nil {
		n = &nonces{slots: make(map[int64]map[[16]byte]struct{})}
	}
	for _, s := range n.slots {
		if _, used := s[sum]; used {
			return false, nil
		}
	}
	if n.count >= m.perKey || m.total >= m.most {
		return false, &haft.Error{
			Code: haft.CodeRateLimited, Message: "too many signed requests at once",
			RetryAfter: haft.Millis(slotTime),
		}
	}
	if n.slots[slot] == nil {
		n.slots[slot] = make(map[[16]byte]struct{})
	}
	n.slots[slot][sum] = struct{}{}
	n.count++
	m.total++
	m.keys[key] = n
	return true, nil
}

// prune forgets the slots that have ended.
func (m *MemoryNonces) prune(now time.Time) {
	m.pruned = now
	for key, n := range m.keys {
		maps.DeleteFunc(n.slots, func(slot int64, s map[[16]byte]struct{}) bool {
			over := slot*int64(slotTime) <= now.UnixNano()
			if over {
				n.count -= len(s)
				m.total -= len(s)
			}
			return over
		})
		if n.count == 0 {
			delete(m.keys, key)
		}
	}
}
