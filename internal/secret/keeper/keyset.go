package keeper

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tink-crypto/tink-go/v2/aead/aesgcm"
	"github.com/tink-crypto/tink-go/v2/insecuresecretdataaccess"
	"github.com/tink-crypto/tink-go/v2/keyset"
	"github.com/tink-crypto/tink-go/v2/secretdata"
	"github.com/tink-crypto/tink-go/v2/tink"

	"haft"
	"haft/internal/secret"
)

// MasterSize is the length of a master key in bytes.
const MasterSize = 32

// A Master is a key that encrypts data keys.
type Master struct {
	id   string
	aead tink.AEAD
}

// NewMaster returns the master key of [MasterSize] random bytes.
func NewMaster(key []byte) (*Master, error) {
	if len(key) != MasterSize {
		return nil, &haft.Error{Code: haft.CodeInvalid,
			Message: fmt.Sprintf("a master key has %d bytes, and this one has %d", MasterSize, len(key))}
	}
	// The package that collects all ciphers of Tink would take a third of a
	// millisecond of every start of the program, so it is not used.
	p, err := parameters(aesgcm.VariantNoPrefix)
	if err != nil {
		return nil, err
	}
	k, err := aesgcm.NewKey(secretdata.NewBytesFromData(key, insecuresecretdataaccess.Token{}), 0, p)
	if err != nil {
		return nil, fmt.Errorf("make the master key: %w", err)
	}
	a, err := aesgcm.NewAEAD(k)
	if err != nil {
		return nil, fmt.Errorf("make the cipher of the master key: %w", err)
	}
	// The key itself is never hashed for its name: what it makes of a constant is.
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("haft/master/id")) // hash.Hash never fails
	return &Master{hex.EncodeToString(mac.Sum(nil)[:6]), a}, nil
}

// parameters are those of every key: AES-256-GCM, as RFC 5116 has it.
func parameters(v aesgcm.Variant) (*aesgcm.Parameters, error) {
	p, err := aesgcm.NewParameters(aesgcm.ParametersOpts{KeySizeInBytes: 32, IVSizeInBytes: 12, TagSizeInBytes: 16,
		Variant: v})
	if err != nil {
		return nil, fmt.Errorf("choose the cipher: %w", err)
	}
	return p, nil
}

// ID names the key without showing it.
func (m *Master) ID() string { return m.id }

// kept is the keyset as the backend keeps it: once for each master key.
type kept struct {
	Version int       `json:"version"`
	Copies  []wrapped `json:"copies"`
}

// wrapped is the keyset under one master key.
type wrapped struct {
	Master string `json:"master"`
	Keyset []byte `json:"keyset"` // Tink's encrypted form
	Print  []byte `json:"print"`  // the key of fingerprints, encrypted
}

// keys are the data keys, open.
type keys struct {
	handle  *keyset.Handle
	ciphers map[uint32]tink.AEAD
	primary uint32
	print   []byte
	rev     int64
	copies  []string // the masters it is kept under
}

// The associated data of what a master key encrypts.
var (
	boundKeyset = []byte("haft/keyset/1")
	boundPrint  = []byte("haft/print/1")
)

// maxKeys bounds the data keys of one keyset.
const maxKeys = 64

// newKeys makes the first keyset.
func newKeys() (*keys, error) {
	prints := make([]byte, 32)
	_, _ = rand.Read(prints) // never fails
	return (&keys{print: prints}).rotated()
}

// ready fills in what follows from the handle.
func ready(k *keys) (*keys, error) {
	p, err := k.handle.Primary()
	if err != nil {
		return nil, fmt.Errorf("find the primary data key: %w", err)
	}
	k.primary = p.KeyID()
	k.ciphers = make(map[uint32]tink.AEAD, k.handle.Len())
	for i := range k.handle.Len() {
		e, err := k.handle.Entry(i)
		if err != nil {
			return nil, fmt.Errorf("read the data keys: %w", err)
		}
		key, ok := e.Key().(*aesgcm.Key)
		if !ok {
			return nil, damaged(fmt.Errorf("data key %d is a %T", e.KeyID(), e.Key()))
		}
		if k.ciphers[e.KeyID()], err = aesgcm.NewAEAD(key); err != nil {
			return nil, fmt.Errorf("make the cipher of a data key: %w", err)
		}
	}
	return k, nil
}

// rotated returns k with one more key, which is the primary one.
func (k *keys) rotated() (*keys, error) {
	m := keyset.NewManager()
	if k.handle != nil {
		if k.handle.Len() >= maxKeys {
			return nil, &haft.Error{Code: haft.CodeConflict,
				Message: "there are too many data keys; rewrap the secrets and forget the old keys first"}
		}
		m = keyset.NewManagerFromHandle(k.handle)
	}
	p, err := parameters(aesgcm.VariantTink)
	if err != nil {
		return nil, err
	}
	id, err := m.AddNewKeyFromParameters(p)
	if err == nil {
		err = m.SetPrimary(id)
	}
	return k.changed(m, err)
}

// without returns k less the keys that used does not name.
func (k *keys) without(used map[uint32]bool) (next *keys, dropped int, err error) {
	m := keyset.NewManagerFromHandle(k.handle)
	for i := range k.handle.Len() {
		e, err := k.handle.Entry(i)
		if err != nil {
			return nil, 0, fmt.Errorf("read the data keys: %w", err)
		}
		if id := e.KeyID(); id != k.primary && !used[id] {
			if err := m.Delete(id); err != nil {
				return nil, 0, fmt.Errorf("drop a data key: %w", err)
			}
			dropped++
		}
	}
	next, err = k.changed(m, nil)
	return next, dropped, err
}

// changed returns k with the keys of m.
func (k *keys) changed(m *keyset.Manager, err error) (*keys, error) {
	var h *keyset.Handle
	if err == nil {
		h, err = m.Handle()
	}
	if err != nil {
		return nil, fmt.Errorf("change the data keys: %w", err)
	}
	return ready(&keys{handle: h, print: k.print, rev: k.rev})
}

// wrap returns k encrypted under each of masters.
func (k *keys) wrap(masters []*Master) ([]byte, error) {
	out := kept{Version: 1}
	k.copies = nil
	for _, m := range masters {
		var buf bytes.Buffer
		if err := k.handle.WriteWithAssociatedData(keyset.NewBinaryWriter(&buf), m.aead, boundKeyset); err != nil {
			return nil, fmt.Errorf("encrypt the data keys: %w", err)
		}
		prints, err := m.aead.Encrypt(k.print, boundPrint)
		if err != nil {
			return nil, fmt.Errorf("encrypt the key of fingerprints: %w", err)
		}
		out.Copies = append(out.Copies, wrapped{m.id, buf.Bytes(), prints})
		k.copies = append(k.copies, m.id)
	}
	return json.Marshal(out)
}

// unwrap opens a kept keyset with the first of masters that fits.
func unwrap(data []byte, rev int64, masters []*Master) (*keys, error) {
	var from kept
	if err := json.Unmarshal(data, &from); err != nil || from.Version != 1 || len(from.Copies) == 0 {
		return nil, damaged(errors.Join(errors.New("the keyset cannot be read"), err))
	}
	var ids []string
	for _, c := range from.Copies {
		ids = append(ids, c.Master)
	}
	for _, m := range masters {
		for _, c := range from.Copies {
			if c.Master != m.id {
				continue
			}
			h, err := keyset.ReadWithAssociatedData(keyset.NewBinaryReader(bytes.NewReader(c.Keyset)), m.aead,
				boundKeyset)
			if err != nil {
				return nil, damaged(fmt.Errorf("decrypt the data keys: %w", err))
			}
			prints, err := m.aead.Decrypt(c.Print, boundPrint)
			if err != nil {
				return nil, damaged(fmt.Errorf("decrypt the key of fingerprints: %w", err))
			}
			return ready(&keys{handle: h, print: prints, rev: rev, copies: ids})
		}
	}
	return nil, &haft.Error{Code: haft.CodeUnavailable,
		Message: "the stored secrets were encrypted with another master key; give that one back, nothing was changed",
		Err:     fmt.Errorf("kept under master keys %v", ids)}
}

// damaged is the error for stored data that was changed.
func damaged(cause error) error {
	return &haft.Error{Code: haft.CodeUnavailable,
		Message: "stored secrets are damaged or were tampered with; nothing was changed", Err: cause}
}

// fingerprint returns a text that differs for different values of one organisation.
func (k *keys) fingerprint(org string, v secret.Value) string {
	mac := hmac.New(sha256.New, k.print)
	fmt.Fprintf(mac, "%d:%s:%s", len(org), org, v.Reveal())
	return hex.EncodeToString(mac.Sum(nil)[:4])
}

// load reads the keyset, or makes the first one.
func (k *Keeper) load(ctx context.Context) (*keys, error) {
	data, rev, err := k.back.Keyset(ctx)
	if err == nil {
		return unwrap(data, rev, k.masters)
	}
	if haft.CodeOf(err) != haft.CodeNotFound {
		return nil, fmt.Errorf("read the keyset: %w", err)
	}
	sealed, err := k.any(ctx, func(r Row) bool { return !r.Plain })
	if err != nil {
		return nil, err
	}
	if sealed {
		// Values without their keyset are lost, and a new one would hide that;
		// unless another process made it, and stored them, just now.
		if data, rev, err = k.back.Keyset(ctx); err == nil {
			return unwrap(data, rev, k.masters)
		}
		return nil, &haft.Error{Code: haft.CodeUnavailable,
			Message: "there are stored secrets, but the keys they were encrypted with are gone; restore them from " +
				"a backup", Err: err}
	}
	made, err := newKeys()
	if err != nil {
		return nil, err
	}
	if data, err = made.wrap(k.masters); err != nil {
		return nil, err
	}
	switch err := k.back.PutKeyset(ctx, data, 0); haft.CodeOf(err) {
	case "":
		made.rev = 1
		return made, nil
	case haft.CodeConflict: // another process was first
		if data, rev, err = k.back.Keyset(ctx); err != nil {
			return nil, fmt.Errorf("read the keyset: %w", err)
		}
		return unwrap(data, rev, k.masters)
	default:
		return nil, fmt.Errorf("keep the keyset: %w", err)
	}
}

// errFound ends a search.
var errFound = errors.New("found")

// any reports whether there is a row that fits.
func (k *Keeper) any(ctx context.Context, fits func(Row) bool) (bool, error) {
	err := k.each(ctx, nil, func(r Row) error {
		if fits(r) {
			return errFound
		}
		return nil
	})
	if errors.Is(err, errFound) {
		return true, nil
	}
	return false, err
}
