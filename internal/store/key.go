package store

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"haft/internal/auth"
	"haft/internal/store/stored"
)

// A keyDoc is what is kept of an API key beside what is looked up. It has names of
// its own: what APIs call things may change, and what is kept may not.
type keyDoc struct {
	Name       string   `json:"name,omitempty"`
	User       string   `json:"user,omitempty"`
	Agent      string   `json:"agent,omitempty"`
	Roles      []string `json:"roles,omitempty"`
	Scope      []string `json:"scope"` // null confines to nothing, [] to nothing at all
	SignedOnly bool     `json:"signed_only,omitempty"`
	Disabled   bool     `json:"disabled,omitempty"`
	Created    int64    `json:"created"`
	Expires    int64    `json:"expires,omitempty"`
	Rotated    int64    `json:"rotated,omitempty"`
	Overlap    int64    `json:"overlap,omitempty"`
	Secret     keyProof `json:"secret,omitzero"`
	Previous   keyProof `json:"previous,omitzero"`
}

// A keyProof is what is kept of one secret: nothing that gives it back.
type keyProof struct {
	Hash    []byte `json:"hash,omitempty"`
	Signing []byte `json:"signing,omitempty"`
}

// keyColumns are read in this order by scanKey.
const keyColumns unlogged = "SELECT id, org, used, rev, doc FROM api_keys "

func scanKey(r scanner) (auth.Key, error) {
	var k auth.Key
	var used int64
	var text string
	if err := r.Scan(&k.ID, &k.Org, &used, &k.Rev, &text); err != nil {
		return auth.Key{}, err
	}
	var d keyDoc
	if err := stored.Decode(text, &d); err != nil {
		return auth.Key{}, err
	}
	k.Name, k.User, k.Agent, k.Roles, k.Scope = d.Name, d.User, d.Agent, d.Roles, d.Scope
	k.SignedOnly, k.Disabled = d.SignedOnly, d.Disabled
	k.Created, k.Expires, k.LastUsed = stored.Time(d.Created), stored.Time(d.Expires), stored.Time(used)
	k.Rotated, k.Overlap = stored.Time(d.Rotated), stored.Time(d.Overlap)
	k.Secret, k.Previous = auth.Proof(d.Secret), auth.Proof(d.Previous)
	return k, nil
}

// A keyCache remembers keys of a store that nobody else writes to: every request
// needs one. Whoever changes keys has it forget them all.
type keyCache struct {
	mu    sync.Mutex
	known map[string]auth.Key
	gen   int
}

// maxKeys bounds the keys that are remembered.
const maxKeys = 10_000

// find returns a key that is known, and the state of the cache.
func (c *keyCache) find(id string) (k auth.Key, gen int, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok = c.known[id]
	return k, c.gen, ok
}

// keep remembers a key, unless one was changed since gen.
func (c *keyCache) keep(k auth.Key, gen int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gen != gen {
		return
	}
	if c.known == nil || len(c.known) >= maxKeys {
		c.known = make(map[string]auth.Key)
	}
	c.known[k.ID] = k
}

// forget forgets all keys.
func (c *keyCache) forget() {
	c.mu.Lock()
	c.known, c.gen = nil, c.gen+1
	c.mu.Unlock()
}

// clone returns a key that shares nothing with k.
func clone(k auth.Key) auth.Key {
	k.Roles, k.Scope = slices.Clone(k.Roles), slices.Clone(k.Scope)
	for _, p := range []*auth.Proof{&k.Secret, &k.Previous} {
		p.Hash, p.Signing = bytes.Clone(p.Hash), bytes.Clone(p.Signing)
	}
	return k
}

// writeKeys is write for what changes keys.
func (s Keys) writeKeys(ctx context.Context, doing string, f func(context.Context, *tx) error) error {
	defer s.db.keyed.forget()
	return s.db.write(ctx, doing, f)
}

// Key implements [auth.Keys].
func (s Keys) Key(ctx context.Context, id string) (auth.Key, error) {
	if s.db.dialect.Shared {
		return s.readKey(ctx, id)
	}
	k, gen, ok := s.db.keyed.find(id)
	if !ok {
		var err error
		if k, err = s.readKey(ctx, id); err != nil {
			return auth.Key{}, err
		}
		s.db.keyed.keep(k, gen)
	}
	return clone(k), nil
}

// readKey finds a key in the database.
func (s Keys) readKey(ctx context.Context, id string) (auth.Key, error) {
	k, err := find(ctx, s.db, "key", scanKey, keyColumns+"WHERE id = $1", column(id))
	if err != nil {
		return auth.Key{}, err
	}
	return *k, nil
}

// Keys implements [auth.Keys]. Unlike other lists, one of no keys is empty.
func (s Keys) Keys(ctx context.Context, org, after string, limit int) ([]auth.Key, error) {
	if limit <= 0 {
		return nil, nil
	}
	return list(ctx, s.db, "list keys", scanKey, keyColumns+"WHERE org = $1 AND id > $2 ORDER BY id LIMIT $3",
		column(org),
		column(after), page(limit))
}

// HasKeys reports whether there is a key of any organisation.
func (s Keys) HasKeys(ctx context.Context) (bool, error) {
	return value[bool](ctx, s.db, "look for keys", unlogged("SELECT EXISTS (SELECT 1 FROM api_keys)"))
}

// PutKey implements [auth.Keys].
func (s Keys) PutKey(ctx context.Context, k auth.Key) error {
	if err := errors.Join(need("the id of the key", k.ID), need("the organisation of the key", k.Org)); err != nil {
		return err
	}
	doc, err := encodeText("the key", keyDoc{
		Name: k.Name, User: k.User, Agent: k.Agent, Roles: k.Roles, Scope: k.Scope, SignedOnly: k.SignedOnly,
		Disabled: k.Disabled,
		Created:  stored.Micros(k.Created), Expires: stored.Micros(k.Expires), Rotated: stored.Micros(k.Rotated),
		Overlap: stored.Micros(k.Overlap),
		Secret:  keyProof(k.Secret), Previous: keyProof(k.Previous),
	})
	if err != nil {
		return err
	}
	text := "INSERT INTO api_keys (id, org, doc, used, rev) VALUES ($1, $2, $3, $4, 1) ON CONFLICT (id) DO NOTHING"
	last := stored.Micros(k.LastUsed)
	if k.Rev != 0 {
		text = "UPDATE api_keys SET doc = $3, rev = rev + 1 WHERE id = $1 AND org = $2 AND rev = $4"
		last = k.Rev
	}
	return s.writeKeys(ctx, "keep the key", func(ctx context.Context, t *tx) error {
		return t.execOr(ctx, conflict("the key was changed meanwhile"), text, k.ID, k.Org, doc, last)
	})
}

// TouchKey implements [auth.Keys].
func (s Keys) TouchKey(ctx context.Context, id string, at time.Time) error {
	return s.writeKeys(ctx, "keep the last use of the key", func(ctx context.Context, t *tx) error {
		_, err := t.exec(ctx, "UPDATE api_keys SET used = $1 WHERE id = $2 AND used < $1",
			stored.Micros(at), column(id))
		return err
	})
}

// RemoveKey implements [auth.Keys].
func (s Keys) RemoveKey(ctx context.Context, org, id string) error {
	return s.writeKeys(ctx, "remove the key", func(ctx context.Context, t *tx) error {
		return t.execOr(ctx, notFound("key"), "DELETE FROM api_keys WHERE org = $1 AND id = $2", column(org),
			column(id))
	})
}
