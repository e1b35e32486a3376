package keeper

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"haft"
)

// boxPrefix is how a ciphertext of Tink begins: a version and the id of its key.
const boxPrefix = 5

// boxBound is the associated data of a box.
func boxBound(label []byte) []byte {
	out := []byte("haft/box/1")
	out = binary.AppendUvarint(out, uint64(len(label)))
	return append(out, label...)
}

// Box encrypts data that is stored outside of the backend. Only [Keeper.Unbox] with the same
// label decrypts it.
func (k *Keeper) Box(plain, label []byte) ([]byte, error) {
	keys := k.current()
	box, err := keys.ciphers[keys.primary].Encrypt(plain, boxBound(label))
	if err != nil {
		return nil, fmt.Errorf("encrypt a box: %w", err)
	}
	return box, nil
}

// Unbox gives back what Box encrypted.
func (k *Keeper) Unbox(ctx context.Context, box, label []byte) ([]byte, error) {
	id, err := boxKey(box)
	if err != nil {
		return nil, err
	}
	cipher, err := k.cipher(ctx, id)
	if err != nil {
		return nil, err
	}
	plain, err := cipher.Decrypt(box, boxBound(label))
	if err != nil {
		return nil, damaged(fmt.Errorf("decrypt a box: %w", err))
	}
	return plain, nil
}

// Stale reports whether a box is not under the newest data key. Boxes are stored outside of the
// backend: their owner boxes stale ones again before [Keeper.Forget] drops their keys.
func (k *Keeper) Stale(box []byte) bool {
	id, err := boxKey(box)
	return err != nil || id != k.current().primary
}

// boxKey reads the id of the key of a box.
func boxKey(box []byte) (uint32, error) {
	if len(box) < boxPrefix || box[0] != 1 {
		return 0, damaged(errors.New("a box does not begin like one"))
	}
	return binary.BigEndian.Uint32(box[1:boxPrefix]), nil
}

// Replacing reports whether the keyset is also under a master key that is newer than this
// Keeper's first: the master key is being replaced. A Keeper that does not have the newer one
// must not write the keyset, or Keepers with the newer one could not read it.
func (k *Keeper) Replacing(ctx context.Context) (bool, error) {
	keys, err := k.fresh(ctx)
	if err != nil {
		return false, err
	}
	// The first copy is that of the newest master key.
	return !slices.ContainsFunc(k.masters, func(m *Master) bool { return m.id == keys.copies[0] }), nil
}

// Unfinished reports whether there are values that are not under the newest data
// key: a rotation began and was stopped.
func (k *Keeper) Unfinished(ctx context.Context) (bool, error) {
	keys, err := k.fresh(ctx)
	if err != nil {
		return false, err
	}
	return k.any(ctx, func(r Row) bool { return !r.Plain && r.Key != keys.primary })
}

// Kept reports whether back has a keyset. Where it has, a master key is needed
// and a new one is of no use.
func Kept(ctx context.Context, back Backend) (bool, error) {
	_, _, err := back.Keyset(ctx)
	if haft.CodeOf(err) == haft.CodeNotFound {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for the keyset: %w", err)
	}
	return true, nil
}
