package authtest

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"haft"
	"haft/internal/auth"
)

// Memory keeps keys in memory, for tests of what uses them. The zero value is empty and ready.
type Memory struct {
	mu   sync.Mutex
	keys map[string]auth.Key
}

// Key implements [auth.Keys].
func (m *Memory) Key(_ context.Context, id string) (auth.Key, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, ok := m.keys[id]
	if !ok {
		return auth.Key{}, notFound()
	}
	return clone(k), nil
}

// Keys implements [auth.Keys].
func (m *Memory) Keys(_ context.Context, org, after string, limit int) ([]auth.Key, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []auth.Key
	for _, k := range m.keys {
		if k.Org == org && k.ID > after {
			all = append(all, clone(k))
		}
	}
	slices.SortFunc(all, func(a, b auth.Key) int { return strings.Compare(a.ID, b.ID) })
	return all[:min(len(all), max(limit, 0))], nil
}

// PutKey implements [auth.Keys].
func (m *Memory) PutKey(_ context.Context, k auth.Key) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	old, ok := m.keys[k.ID]
	if old.Rev != k.Rev || ok && old.Org != k.Org {
		return &haft.Error{Code: haft.CodeConflict, Message: "the key was changed meanwhile"}
	}
	k = clone(k)
	k.Rev++
	if ok {
		k.LastUsed = old.LastUsed
	}
	if m.keys == nil {
		m.keys = make(map[string]auth.Key)
	}
	m.keys[k.ID] = k
	return nil
}

// TouchKey implements [auth.Keys].
func (m *Memory) TouchKey(_ context.Context, id string, at time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k, ok := m.keys[id]; ok && at.After(k.LastUsed) {
		k.LastUsed = at
		m.keys[id] = k
	}
	return nil
}

// RemoveKey implements [auth.Keys].
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
func clone(k auth.Key) auth.Key {
	k.Roles, k.Scope = slices.Clone(k.Roles), slices.Clone(k.Scope)
	k.Secret, k.Previous = cloneProof(k.Secret), cloneProof(k.Previous)
	return k
}

func cloneProof(p auth.Proof) auth.Proof {
	return auth.Proof{Hash: bytes.Clone(p.Hash), Signing: bytes.Clone(p.Signing)}
}

func notFound() error {
	return &haft.Error{Code: haft.CodeNotFound, Message: "there is no such key"}
}
