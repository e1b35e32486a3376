package auth

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"haft"
)

// Memory keeps keys in memory. The zero value is empty and ready.
type Memory struct {
	mu   sync.Mutex
	keys map[string]Key
}

// Key implements [Keys].
func (m *Memory) Key(_ context.Context, id string) (Key, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, ok := m.keys[id]
	if !ok {
		return Key{}, notFound()
	}
	return k.clone(), nil
}

// Keys implements [Keys].
func (m *Memory) Keys(_ context.Context, org, after string, limit int) ([]Key, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []Key
	for _, k := range m.keys {
		if k.Org == org && k.ID > after {
			all = append(all, k.clone())
		}
	}
	slices.SortFunc(all, func(a, b Key) int { return strings.Compare(a.ID, b.ID) })
	return all[:min(len(all), max(limit, 0))], nil
}

// PutKey implements [Keys].
func (m *Memory) PutKey(_ context.Context, k Key) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	old, ok := m.keys[k.ID]
	if old.Rev != k.Rev || ok && old.Org != k.Org {
		return &haft.Error{Code: haft.CodeConflict, Message: "the key was changed meanwhile"}
	}
	k = k.clone()
	k.Rev++
	if ok {
		k.LastUsed = old.LastUsed
	}
	if m.keys == nil {
		m.keys = make(map[string]Key)
	}
	m.keys[k.ID] = k
	return nil
}

// TouchKey implements [Keys].
func (m *Memory) TouchKey(_ context.Context, id string, at time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k, ok := m.keys[id]; ok && at.After(k.LastUsed) {
		k.LastUsed = at
		m.keys[id] = k
	}
	return nil
}

// RemoveKey implements [Keys].
func (m *Memory) RemoveKey(_ context.Context, org, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k, ok := m.keys[id]; !ok || k.Org != org {
		return notFound()
	}
	delete(m.keys, id)
	return nil
}

// clone returns a key that shares nothing with k.
func (k Key) clone() Key {
	k.Roles, k.Scope = slices.Clone(k.Roles), slices.Clone(k.Scope)
	k.Secret, k.Previous = k.Secret.clone(), k.Previous.clone()
	return k
}

func (p Proof) clone() Proof {
	return Proof{bytes.Clone(p.Hash), bytes.Clone(p.Signing)}
}
