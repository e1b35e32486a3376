package conversation

import (
	"sync"

	"haft"
)

// A conversationKey names the conversation of a sender with an agent, which has one turn at a time.
type conversationKey struct {
	org, owner string
	agent      haft.AgentID
}

// keyOf names the conversation that a turn belongs to.
func keyOf(t haft.Turn) conversationKey {
	return conversationKey{t.Principal.Org, t.Principal.Owner(), t.Agent}
}

// begins counts the turns of each conversation that are about to be kept, or are kept and not worked on yet. A turn
// that a sweep finds in such a conversation may be one of them, so the sweep leaves it until later. No lock is held
// meanwhile: keeping a turn is a write to the database, which can take long.
type begins struct {
	mu sync.Mutex
	of map[conversationKey]int
}

// note notes that a turn begins, until the function that it returns is called.
func (b *begins) note(t haft.Turn) (end func()) {
	key := keyOf(t)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.of[key]++
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.of[key]--; b.of[key] == 0 {
			delete(b.of, key)
		}
	}
}

// has reports whether the turn may be one that begins.
func (b *begins) has(t haft.Turn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.of[keyOf(t)] > 0
}
