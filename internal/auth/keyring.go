package auth

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"haft"
)

// The bounds of a keyring.
const (
	// MaxOverlap is how long an old secret can be good after a rotation.
	MaxOverlap = 30 * 24 * time.Hour
	// touchEvery is how often the last use of a key is written at most.
	touchInterval = time.Minute
	// maxTouched is how many keys' last writes are remembered.
	maxTouched = 10_000
	page       = 100
)

// A Keyring makes and checks API keys. It is safe for concurrent use.
type Keyring struct {
	keys  Keys
	vault *vault
	log   *slog.Logger
	// requireUser has no key issued or rotated that has no user.
	requireUser atomic.Bool

	mu      sync.Mutex
	touched map[string]time.Time
}

// NewKeyring returns a keyring over a backend. The pepper has at least 32 random bytes and is
// stored apart from the backend: without it, or with another, no key is valid. A nil log
// discards.
func NewKeyring(keys Keys, pepper []byte, log *slog.Logger) (*Keyring, error) {
	v, err := newVault(pepper)
	if err != nil {
		return nil, err
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Keyring{keys: keys, vault: v, log: log, touched: make(map[string]time.Time)}, nil
}

// NewAdminKey makes the first key of an organisation: that of an administrator who also answers
// requests for approval. It checks no permission.
func (r *Keyring) NewAdminKey(ctx context.Context, org string) (Key, Token, error) {
	return r.issue(ctx, Key{Org: org, Name: "first administrator", User: "admin",
		Roles: []string{haft.RoleAdmin, haft.RoleApprover}})
}

// Issue makes a key and returns it with its text, which cannot be read again. The keyring sets
// the id, the times and the secrets of k; an empty organisation means that of by.
func (r *Keyring) Issue(ctx context.Context, by Identity, k Key) (Key, Token, error) {
	if k.Org == "" {
		k.Org = by.Principal.Org
	}
	if err := r.mayIssue(by, k); err != nil {
		return Key{}, Token{}, err
	}
	return r.issue(ctx, k)
}

// mayIssue reports why by may not issue k.
func (r *Keyring) mayIssue(by Identity, k Key) error {
	if r.requireUser.Load() && k.User == "" {
		return invalid("this server has no keys without a user: name one")
	}
	return by.MayIssue(k)
}

func (r *Keyring) issue(ctx context.Context, k Key) (Key, Token, error) {
	now := time.Now()
	if err := k.check(now); err != nil {
		return Key{}, Token{}, err
	}
	k.Roles, k.Scope = slices.Clone(k.Roles), slices.Clone(k.Scope)
	k.ID, k.Rev = newID(), 0
	k.Created, k.Expires = micros(now), micros(k.Expires)
	k.LastUsed, k.Rotated, k.Overlap = time.Time{}, time.Time{}, time.Time{}
	token := newToken(k.ID)
	k.Secret, k.Previous = r.vault.proof(k.Org, k.ID, token), Proof{}
	k, err := r.store(ctx, k)
	return k, token, err
}

// store writes a key and returns it with its new revision.
func (r *Keyring) store(ctx context.Context, k Key) (Key, error) {
	if err := r.keys.PutKey(ctx, k); err != nil {
		return Key{}, fmt.Errorf("store a key: %w", err)
	}
	k.Rev++
	return k, nil
}

// micros returns t as every backend keeps it.
func micros(t time.Time) time.Time {
	return t.UTC().Truncate(time.Microsecond)
}

// Rotate gives a key a new secret and returns its text. The old one is valid for the duration
// overlap, at most [MaxOverlap]; the secret before it ends at once. By must be allowed to issue
// the key.
func (r *Keyring) Rotate(ctx context.Context, by Identity, id string, overlap time.Duration) (Key, Token, error) {
	if overlap < 0 || overlap > MaxOverlap {
		return Key{}, Token{}, invalid("an old secret is good for 0 to 30 days")
	}
	k, err := r.own(ctx, by, haft.KeysWrite, id)
	if err != nil {
		return Key{}, Token{}, err
	}
	if err := r.mayIssue(by, k); err != nil {
		return Key{}, Token{}, err
	}
	token, now := newToken(k.ID), time.Now()
	k.Previous, k.Overlap = Proof{}, time.Time{}
	if overlap > 0 {
		k.Previous, k.Overlap = k.Secret, micros(now.Add(overlap))
	}
	k.Secret, k.Rotated = r.vault.proof(k.Org, k.ID, token), micros(now)
	k, err = r.store(ctx, k)
	return k, token, err
}

// A KeyState is what can be changed of a key. Nil leaves it.
type KeyState struct {
	Name     *string    `json:"name,omitempty"`
	Disabled *bool      `json:"disabled,omitempty"`
	Expires  *time.Time `json:"expires_at,omitempty"`
}

// Set changes a key. A principal that may write keys may disable one; for all other changes by
// must be allowed to issue the key as it then is.
func (r *Keyring) Set(ctx context.Context, by Identity, id string, s KeyState) (Key, error) {
	k, err := r.own(ctx, by, haft.KeysWrite, id)
	if err != nil {
		return Key{}, err
	}
	if s.Name != nil {
		k.Name = *s.Name
	}
	if s.Expires != nil {
		k.Expires = micros(*s.Expires)
	}
	if s.Disabled != nil {
		k.Disabled = *s.Disabled
	}
	if s.Name != nil || s.Expires != nil || !k.Disabled {
		if err := by.MayIssue(k); err != nil {
			return Key{}, err
		}
		// A key that has expired can be renamed, so its own time does not count.
		at := time.Now()
		if s.Expires == nil {
			at = k.Created
		}
		if err := k.check(at); err != nil {
			return Key{}, err
		}
	}
	return r.store(ctx, k)
}

// Remove removes a key. It is refused from then on.
func (r *Keyring) Remove(ctx context.Context, by Identity, id string) error {
	if _, err := r.own(ctx, by, haft.KeysWrite, id); err != nil {
		return err
	}
	if err := r.keys.RemoveKey(ctx, by.Principal.Org, id); err != nil {
		return fmt.Errorf("remove a key: %w", err)
	}
	return nil
}

// Key returns a key of the organisation of by, or [haft.CodeNotFound].
func (r *Keyring) Key(ctx context.Context, by Identity, id string) (Key, error) {
	return r.own(ctx, by, haft.KeysRead, id)
}

// Keys lists the keys of the organisation of by that come after the given id,
// ordered by id.
func (r *Keyring) Keys(ctx context.Context, by Identity, after string) iter.Seq2[Key, error] {
	return func(yield func(Key, error) bool) {
		if err := by.May(haft.KeysRead); err != nil {
			yield(Key{}, err)
			return
		}
		for {
			keys, err := r.keys.Keys(ctx, by.Principal.Org, after, page)
			if err != nil {
				yield(Key{}, fmt.Errorf("list keys: %w", err))
				return
			}
			for _, k := range keys {
				if !yield(k, nil) {
					return
				}
				after = k.ID
			}
			if len(keys) < page {
				return
			}
		}
	}
}

// own returns a key of the organisation of by. A key of another organisation is looked up
// in the same way and reported as not found.
func (r *Keyring) own(ctx context.Context, by Identity, a haft.Action, id string) (Key, error) {
	if err := by.May(a); err != nil {
		return Key{}, err
	}
	if !isKeyID(id) {
		return Key{}, notFound()
	}
	k, err := r.keys.Key(ctx, id)
	if haft.CodeOf(err) == haft.CodeNotFound || err == nil && k.Org != by.Principal.Org {
		return Key{}, notFound()
	}
	if err != nil {
		return Key{}, fmt.Errorf("look for a key: %w", err)
	}
	return k, nil
}

// find looks up a key by the id that a caller sent. For an unknown id it returns a key
// that no secret matches.
func (r *Keyring) find(ctx context.Context, id string) (k Key, known bool, err error) {
	r.vault.note("find")
	k, err = r.keys.Key(ctx, id)
	switch {
	case haft.CodeOf(err) == haft.CodeNotFound:
		return Key{ID: id}, false, nil
	case err != nil:
		return Key{}, false, &haft.Error{Code: haft.CodeUnavailable,
			Message: "credentials cannot be checked at the moment", Err: fmt.Errorf("look for a key: %w", err)}
	}
	return k, true, nil
}

// verdict returns why a key is refused, given which of its secrets matches. It runs after
// all comparisons, so that only the reason depends on it.
func verdict(k Key, known bool, hit [2]int, now time.Time) Reason {
	current, previous := hit[0] == 1, hit[1] == 1
	switch {
	case !known:
		return ReasonUnknown
	case !current && !previous:
		return ReasonWrong
	case !current && !now.Before(k.Overlap):
		return ReasonRotated
	case k.Disabled:
		return ReasonDisabled
	case !k.Expires.IsZero() && !now.Before(k.Expires):
		return ReasonExpired
	case k.Org == "":
		return ReasonUnknown
	}
	return ""
}

// accept returns the identity of a key, given which of its secrets matched, and records that
// the key was used. The check may refuse a key that is valid otherwise.
func (r *Keyring) accept(ctx context.Context, k Key, known bool, hit [2]int,
	check func(now time.Time) (Reason, error)) (Identity, error) {
	now := time.Now()
	reason := verdict(k, known, hit, now)
	if reason == "" {
		var err error
		if reason, err = check(now); err != nil {
			return Identity{}, err
		}
	}
	if reason != "" {
		return Identity{}, refuse(reason, k.ID)
	}
	r.touch(ctx, k)
	return k.identity(hit[0] != 1), nil
}

// bearer authenticates an API key that was sent as a whole.
func (r *Keyring) bearer(ctx context.Context, text string) (Identity, error) {
	id, ok := ParseKey(text)
	if !ok {
		return Identity{}, refuse(ReasonMalformed, "")
	}
	k, known, err := r.find(ctx, id)
	if err != nil {
		return Identity{}, err
	}
	hit := r.vault.matches(text, [2]Proof{k.Secret, k.Previous})
	return r.accept(ctx, k, known, hit, func(time.Time) (Reason, error) {
		if k.SignedOnly {
			return ReasonUnsigned, nil
		}
		return "", nil
	})
}

// touch stores that a key was used. A failure is logged for the operator and not returned
// to the caller.
func (r *Keyring) touch(ctx context.Context, k Key) {
	now := time.Now()
	r.mu.Lock()
	last := r.touched[k.ID]
	if k.LastUsed.After(last) {
		last = k.LastUsed
	}
	due := now.Sub(last) >= touchInterval
	if due {
		if len(r.touched) >= maxTouched {
			clear(r.touched)
		}
		r.touched[k.ID] = now
	}
	r.mu.Unlock()
	if !due {
		return
	}
	if err := r.keys.TouchKey(ctx, k.ID, micros(now)); err != nil {
		r.log.Warn("the last use of a key could not be kept", "key", k.ID, "err", err)
	}
}
