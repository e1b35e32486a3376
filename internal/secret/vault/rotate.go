package vault

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"haft"
	"haft/internal/secret/keeper"
	"haft/internal/store"
	"haft/internal/webhook"
)

// RotateConfig says what to rotate besides the data keys. The zero value is useful.
type RotateConfig struct {
	// MasterKeyFile has the new master key. It is made if there is no such file. "" keeps the
	// current master key.
	MasterKeyFile string
	// Forget drops unused data keys even if other processes share the store. None of them may
	// be about to use one.
	Forget bool
}

// A Rotation is the result of a rotation.
type Rotation struct {
	Values int `json:"values"` // encrypted again
	Calls  int `json:"calls"`  // that wait, encrypted again
	// Webhooks is the number of webhooks whose secrets were encrypted again.
	Webhooks int `json:"webhooks"`
	Keys     int `json:"keys"` // data keys that are gone
	// Master reports whether the master key was replaced.
	Master bool `json:"master"`
	// Next is what the operator has to do next, or "".
	Next string `json:"next,omitempty"`
}

// Rotate makes a new data key and encrypts all stored secrets with it, and replaces the
// master key if cfg says so. Calls continue meanwhile. At every moment, processes with the
// old or the new master key can read everything. Rotate may be stopped at any moment and
// called again.
func (v *Vault) Rotate(ctx context.Context, cfg RotateConfig) (done Rotation, err error) {
	k, err := v.open(ctx)
	if err != nil {
		return done, err
	}
	v.opening.Lock()
	defer v.opening.Unlock()
	if k, done.Next, err = v.replace(ctx, k, cfg.MasterKeyFile); err != nil {
		return done, err
	}
	done.Master = cfg.MasterKeyFile != ""
	// A stopped rotation is continued, so that repeated stops do not add keys.
	half, err := v.unfinished(ctx, k)
	if err != nil {
		return done, err
	}
	if !half {
		// Repeated stops before the last step must not add keys either.
		if done.Keys, _, err = v.forget(ctx, k, cfg); err != nil {
			return done, err
		}
		if err := k.Rotate(ctx); err != nil {
			return done, fmt.Errorf("make a data key: %w", err)
		}
	}
	if done.Values, err = k.Rewrap(ctx); err != nil {
		return done, fmt.Errorf("encrypt the secrets again: %w", err)
	}
	if done.Calls, err = v.resealCalls(ctx, k); err != nil {
		return done, fmt.Errorf("encrypt the calls that wait again: %w", err)
	}
	if done.Webhooks, err = webhook.Reseal(ctx, v.store,
		func(box, label []byte) ([]byte, error) { return rebox(ctx, k, box, label) }); err != nil {
		return done, err
	}
	gone, kept, err := v.forget(ctx, k, cfg)
	if done.Keys += gone; kept && done.Next == "" {
		done.Next = "old data keys are kept for chains that have not ended: rotate again when they have"
	}
	return done, err
}

// forget drops unused data keys and returns their number. It reports whether chains still
// need old ones. Precondition: only chains use old keys.
func (v *Vault) forget(ctx context.Context, k *keeper.Keeper, cfg RotateConfig) (gone int, kept bool, err error) {
	// The process that runs a chain seals its plan again when it continues.
	open, err := v.store.Chains.OpenChains(ctx, 1)
	if err != nil || len(open) > 0 {
		return 0, len(open) > 0, err
	}
	// Another process may still hold a call under an old key.
	if v.store.Shared() && !cfg.Forget {
		return 0, false, nil
	}
	if gone, err = k.Forget(ctx); err != nil {
		return gone, false, fmt.Errorf("forget old data keys: %w", err)
	}
	return gone, false, nil
}

// errStale says that something is encrypted under an old data key.
var errStale = errors.New("it is under an old data key")

// unfinished reports whether something is not under the newest data key: a rotation was
// stopped.
func (v *Vault) unfinished(ctx context.Context, k *keeper.Keeper) (bool, error) {
	if half, err := k.Unfinished(ctx); half || err != nil {
		return half, err
	}
	_, err := v.eachCall(ctx, func(c store.SealedCall) (json.RawMessage, error) {
		var box []byte
		if json.Unmarshal(c.Sealed, &box) == nil && k.Stale(box) {
			return nil, errStale
		}
		return nil, nil // fine, or none of ours
	})
	if err == nil {
		_, err = webhook.Reseal(ctx, v.store, func(box, _ []byte) ([]byte, error) {
			if k.Stale(box) {
				return nil, errStale
			}
			return nil, nil
		})
	}
	if errors.Is(err, errStale) {
		return true, nil
	}
	return false, err
}

// rebox encrypts a box again that is under an old key, and returns nil for one that is not.
func rebox(ctx context.Context, k *keeper.Keeper, box, label []byte) ([]byte, error) {
	if !k.Stale(box) {
		return nil, nil
	}
	plain, err := k.Unbox(ctx, box, label)
	if err != nil {
		return nil, err
	}
	return k.Box(plain, label)
}

// errReplacing refuses to write keys that processes with the new master key could not read.
func errReplacing() error {
	return &haft.Error{Code: haft.CodeConflict, Message: "the master key is being replaced: give this process the " +
		"new one first, or name it again as the new one; nothing was changed"}
}

// replace encrypts the keys under the master key of a file, and returns the keeper to
// continue with and what the operator has to do next. Precondition: opening is held.
func (v *Vault) replace(ctx context.Context, k *keeper.Keeper, file string) (_ *keeper.Keeper, next string, err error) {
	back := v.store
	replacing, err := k.Replacing(ctx)
	if err != nil {
		return nil, "", err
	}
	if file == "" {
		if replacing {
			return nil, "", errReplacing()
		}
		return k, "", nil
	}
	if err := placeMaster(file, newMaster(), os.Link); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, "", &haft.Error{Code: haft.CodeInvalid, Message: "the file of the new master key cannot be made",
			Err: err}
	}
	key, err := readMaster(file, 0o027)
	if err != nil {
		return nil, "", err
	}
	if subtle.ConstantTimeCompare(key, v.master.key) == 1 {
		if replacing {
			return nil, "", errReplacing()
		}
		return k, "", nil // by a rotation that was stopped after that
	}
	fresh, err := keeper.NewMaster(key)
	if err != nil {
		return nil, "", err
	}
	old, err := keeper.NewMaster(v.master.key)
	if err != nil {
		return nil, "", err
	}
	if replacing { // it may be this one that a rotation that was stopped began with
		if _, err := keeper.Open(ctx, back.Secrets, fresh); err != nil {
			return nil, "", errReplacing()
		}
	}
	both, err := keeper.Open(ctx, back.Secrets, fresh, old) // from here on either opens
	if err != nil {
		return nil, "", err
	}
	v.use(both)
	if v.master.own == "" {
		return both,
			"give the new master key to every process in place of the old one, then rotate again: that forgets the " +
				"old one", nil
	}
	if err := swapMaster(v.master.own, key); err != nil {
		return nil, "", fmt.Errorf("replace the master key in the data directory: %w", err)
	}
	alone, err := keeper.Open(ctx, back.Secrets, fresh)
	if err != nil {
		return nil, "", err
	}
	v.master.key = key
	v.use(alone)
	return alone, "the old master key is in master.key.old: backups from before need it, and nothing else does", nil
}

// swapMaster replaces the key of the data directory, and keeps the old one beside it.
func swapMaster(path string, key []byte) error {
	before := path + ".old"
	if err := os.Remove(before); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Link(path, before); err != nil {
		return err
	}
	return placeMaster(path, key, os.Rename)
}
