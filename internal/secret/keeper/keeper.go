package keeper

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tink-crypto/tink-go/v2/tink"

	"haft"
	"haft/internal/secret"
)

// The bounds on what is kept.
const (
	// MaxValue is the length of the longest value in bytes. The kernel takes no
	// longer variable than 128 KiB, name and all.
	MaxValue = 96 << 10
	// MaxBinding is the length of the longest binding, as it is kept.
	MaxBinding = 16 << 10
	// MaxPerScope bounds the secrets of one scope.
	MaxPerScope = 1000

	page = 200
	// tries bounds how often a write that lost a race is made again.
	tries = 5
)

// A Keeper stores secrets. It is safe for concurrent use, and several processes
// may have one on the same backend.
type Keeper struct {
	back    Backend
	masters []*Master
	now     func() time.Time

	mu   sync.RWMutex
	keys *keys
}

// Open returns the keeper of the secrets in back. The keyset is encrypted under all of masters,
// and made if there is none. One master that decrypts it is enough. Without one, Open fails and
// changes nothing.
func Open(ctx context.Context, back Backend, masters ...*Master) (*Keeper, error) {
	if len(masters) == 0 {
		return nil, &haft.Error{Code: haft.CodeInvalid, Message: "keeping secrets needs a master key"}
	}
	k := &Keeper{back: back, masters: masters, now: time.Now}
	for range tries {
		got, err := k.load(ctx)
		if err != nil {
			return nil, err
		}
		k.keys = got
		if covers(got.copies, masters) {
			return k, nil
		}
		// A new master key: from here on either opens the keyset.
		if err = k.replace(ctx, got); err == nil {
			return k, nil
		} else if haft.CodeOf(err) != haft.CodeConflict {
			return nil, err
		}
	}
	return nil, lostRace()
}

// covers reports whether each of masters is among ids.
func covers(ids []string, masters []*Master) bool {
	return !slices.ContainsFunc(masters, func(m *Master) bool { return !slices.Contains(ids, m.id) })
}

// lostRace is the error for a write that others were always faster than.
func lostRace() error {
	return &haft.Error{Code: haft.CodeConflict,
		Message: "somebody else changed the secrets at the same time; try again"}
}

// replace keeps next as the keyset after the one it was made of.
func (k *Keeper) replace(ctx context.Context, next *keys) error {
	data, err := next.wrap(k.masters)
	if err != nil {
		return err
	}
	if err := k.back.PutKeyset(ctx, data, next.rev); err != nil {
		return fmt.Errorf("keep the keyset: %w", err)
	}
	next.rev++
	k.mu.Lock()
	defer k.mu.Unlock()
	k.keys = next
	return nil
}

// current returns the keys that this process has loaded.
func (k *Keeper) current() *keys {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.keys
}

// fresh returns the keys that the backend has.
func (k *Keeper) fresh(ctx context.Context) (*keys, error) {
	data, rev, err := k.back.Keyset(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the keyset: %w", err)
	}
	if have := k.current(); have.rev == rev {
		return have, nil
	}
	got, err := unwrap(data, rev, k.masters)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.keys = got
	return got, nil
}

// Put stores a value. It replaces an existing one and keeps its binding.
func (k *Keeper) Put(ctx context.Context, scope Scope, name string, v secret.Value) error {
	return k.PutBound(ctx, scope, name, v, nil)
}

// PutBound stores a value and where it may go. A nil binding is that of the value
// that is there, and one without hosts is none. There is no way to bind a value
// elsewhere without giving it: that would be a way to read it.
func (k *Keeper) PutBound(ctx context.Context, scope Scope, name string, v secret.Value, b *secret.Binding) error {
	if err := check(scope, name); err != nil {
		return err
	}
	if err := checkValue(name, v); err != nil {
		return err
	}
	bound, err := b.Encode()
	if err != nil {
		return fmt.Errorf("write the binding of the secret %s: %w", name, err)
	}
	if len(bound) > MaxBinding {
		return &haft.Error{Code: haft.CodeInvalid,
			Message: fmt.Sprintf("the binding of the secret %s has %d bytes; %d are the most", name, len(bound),
				MaxBinding)}
	}
	rebind := func(r *Row) {
		if b != nil {
			r.Bound = bound
		}
	}
	for range tries {
		err := k.put(ctx, scope, name, v, rebind)
		if haft.CodeOf(err) != haft.CodeConflict {
			return err
		}
	}
	return lostRace()
}

// checkValue reports why a value cannot be stored.
func checkValue(name string, v secret.Value) error {
	switch n := len(v.Reveal()); {
	case n == 0:
		return &haft.Error{Code: haft.CodeInvalid, Message: "the secret " + name + " has no value"}
	case n > MaxValue:
		return &haft.Error{Code: haft.CodeInvalid,
			Message: fmt.Sprintf("the secret %s has %d bytes; %d are the most", name, n, MaxValue)}
	}
	return nil
}

// check reports what is wrong with the place of a secret.
func check(scope Scope, name string) error {
	if err := scope.check(); err != nil {
		return err
	}
	return secret.CheckEnvName(name)
}

// put stores a value once.
func (k *Keeper) put(ctx context.Context, scope Scope, name string, v secret.Value, rebind func(*Row)) error {
	row, err := k.back.Secret(ctx, scope, name)
	switch haft.CodeOf(err) {
	case "":
	case haft.CodeNotFound:
		rows, err := k.all(ctx, scope)
		if err != nil {
			return err
		}
		if len(rows) >= MaxPerScope {
			return &haft.Error{Code: haft.CodeInvalid,
				Message: fmt.Sprintf("there are %d secrets here, which is the most; remove some first", len(rows))}
		}
		row = Row{Scope: scope, Name: name, Created: k.now()}
	default:
		return fmt.Errorf("read the secret %s: %w", name, err)
	}
	row.Updated = k.now()
	rebind(&row)
	keys, err := k.fresh(ctx) // not a key that another process has retired
	if err != nil {
		return err
	}
	return k.write(ctx, keys, row, v)
}

// Prepare encrypts values into rows and stores nothing: the caller writes each row over the
// revision that it has. Rows are the existing rows of a scope; a name without a row gets a new
// one.
func (k *Keeper) Prepare(ctx context.Context, scope Scope, rows []Row, values map[string]secret.Value) ([]Row, error) {
	keys, err := k.fresh(ctx)
	if err != nil {
		return nil, err
	}
	have := make(map[string]Row, len(rows))
	for _, r := range rows {
		have[r.Name] = r
	}
	var ready []Row
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if err := check(scope, name); err != nil {
			return nil, err
		}
		if err := checkValue(name, values[name]); err != nil {
			return nil, err
		}
		row, ok := have[name]
		if !ok {
			row = Row{Scope: scope, Name: name, Created: k.now()}
		}
		row.Updated = k.now()
		if err := keys.seal(&row, values[name]); err != nil {
			return nil, err
		}
		ready = append(ready, row)
	}
	return ready, nil
}

// seal encrypts v into row.
func (k *keys) seal(row *Row, v secret.Value) error {
	data, err := k.ciphers[k.primary].Encrypt([]byte(v.Reveal()), row.Scope.bound(row.Name, row.Bound))
	if err != nil {
		return fmt.Errorf("encrypt the secret %s: %w", row.Name, err)
	}
	row.Data, row.Plain, row.Key = data, false, k.primary
	row.Fingerprint = k.fingerprint(row.Scope.Org, v)
	return nil
}

// write encrypts v into row and keeps it.
func (k *Keeper) write(ctx context.Context, keys *keys, row Row, v secret.Value) error {
	if err := keys.seal(&row, v); err != nil {
		return err
	}
	if err := k.back.PutSecret(ctx, row); err != nil {
		return fmt.Errorf("keep the secret %s: %w", row.Name, err)
	}
	return nil
}

// errUnknownKey is the error for data that is encrypted with a missing key.
var errUnknownKey = errors.New("unknown key")

// cipher returns that of a data key, which another process may have added.
func (k *Keeper) cipher(ctx context.Context, id uint32) (tink.AEAD, error) {
	if cipher, ok := k.current().ciphers[id]; ok {
		return cipher, nil
	}
	fresh, err := k.fresh(ctx)
	if err != nil {
		return nil, err
	}
	if cipher, ok := fresh.ciphers[id]; ok {
		return cipher, nil
	}
	return nil, damaged(fmt.Errorf("%w %d", errUnknownKey, id))
}

// read decrypts a row.
func (k *Keeper) read(ctx context.Context, row Row) (secret.Value, error) {
	if row.Plain {
		return secret.Value{}, &haft.Error{Code: haft.CodeUnavailable,
			Message: "the secret " + row.Name + " is stored without encryption; seal the store before it is used"}
	}
	cipher, err := k.cipher(ctx, row.Key)
	if err != nil {
		return secret.Value{}, fmt.Errorf("read the secret %s: %w", row.Name, err)
	}
	text, err := cipher.Decrypt(row.Data, row.Scope.bound(row.Name, row.Bound))
	if err != nil {
		return secret.Value{}, damaged(fmt.Errorf("decrypt the secret %s: %w", row.Name, err))
	}
	return secret.New(string(text)), nil
}

// all returns the rows of a scope.
func (k *Keeper) all(ctx context.Context, scope Scope) ([]Row, error) {
	var all []Row
	err := k.each(ctx, &scope, func(r Row) error {
		if r.Scope != scope {
			return fmt.Errorf("the backend gave a row of another scope")
		}
		if all = append(all, r); len(all) > 2*MaxPerScope {
			return fmt.Errorf("the scope has more than %d secrets", MaxPerScope)
		}
		return nil
	})
	return all, err
}

// each calls do for every row of scope, or of all.
func (k *Keeper) each(ctx context.Context, scope *Scope, do func(Row) error) error {
	for after := (Row{}); ; {
		rows, err := k.back.Secrets(ctx, scope, after, page)
		if err != nil {
			return fmt.Errorf("read secrets: %w", err)
		}
		for _, r := range rows {
			if err := do(r); err != nil {
				return err
			}
		}
		if len(rows) < page {
			return nil
		}
		after = rows[len(rows)-1]
	}
}

// Rotate adds a data key. Values that are stored from now on are encrypted with it; older ones
// stay readable, and [Keeper.Rewrap] encrypts them again.
func (k *Keeper) Rotate(ctx context.Context) error {
	for range tries {
		keys, err := k.fresh(ctx)
		if err != nil {
			return err
		}
		next, err := keys.rotated()
		if err != nil {
			return err
		}
		if err := k.replace(ctx, next); haft.CodeOf(err) != haft.CodeConflict {
			return err
		}
	}
	return lostRace()
}

// Rewrap encrypts every value again that is not under the newest data key, and
// keeps the keyset under the master keys of this Keeper only. It returns how many
// values it wrote. It may be stopped at any moment and called again. Rows that
// cannot be read are left as they are and named in the error.
func (k *Keeper) Rewrap(ctx context.Context) (int, error) {
	keys, err := k.fresh(ctx)
	if err != nil {
		return 0, err
	}
	if len(keys.copies) != len(k.masters) || !covers(keys.copies, k.masters) {
		if err := k.replace(ctx, keys); err != nil {
			return 0, err
		}
	}
	return k.rewrite(ctx, func(r Row) (secret.Value, bool, error) {
		if r.Plain || r.Key == keys.primary {
			return secret.Value{}, false, nil
		}
		v, err := k.read(ctx, r)
		return v, true, err
	})
}

// Seal encrypts every value that is stored without encryption, in place. It
// returns how many. It may be stopped at any moment and called again.
func (k *Keeper) Seal(ctx context.Context) (int, error) {
	return k.rewrite(ctx, func(r Row) (secret.Value, bool, error) {
		return secret.New(string(r.Data)), r.Plain && len(r.Data) > 0, nil
	})
}

// rewrite writes every row again that want wants, with the value it gives.
func (k *Keeper) rewrite(ctx context.Context, want func(Row) (secret.Value, bool, error)) (int, error) {
	keys, err := k.fresh(ctx)
	if err != nil {
		return 0, err
	}
	n := 0
	var bad []error
	err = k.each(ctx, nil, func(r Row) error {
		v, wanted, err := want(r)
		if err != nil {
			bad = append(bad, err)
			return nil
		}
		if !wanted {
			return nil
		}
		// A value that was changed or removed meanwhile needs no more work.
		switch err := k.write(ctx, keys, r, v); haft.CodeOf(err) {
		case "":
			n++
		case haft.CodeConflict, haft.CodeNotFound:
		default:
			return err
		}
		return nil
	})
	return n, errors.Join(append(bad, err)...)
}

// Forget drops the data keys that no value is under any more, and returns how
// many. Call it after [Keeper.Rewrap], when no other process is storing secrets: one
// that is in the middle of it may be using a key that goes.
func (k *Keeper) Forget(ctx context.Context) (int, error) {
	keys, err := k.fresh(ctx)
	if err != nil {
		return 0, err
	}
	used := map[uint32]bool{}
	if err := k.each(ctx, nil, func(r Row) error { used[r.Key] = true; return nil }); err != nil {
		return 0, err
	}
	next, dropped, err := keys.without(used)
	if err != nil || dropped == 0 {
		return 0, err
	}
	if err := k.replace(ctx, next); err != nil {
		return 0, err
	}
	return dropped, nil
}
