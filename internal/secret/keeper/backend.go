package keeper

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"haft"
	"haft/internal/secret"
)

// Kind names a level of the environment of calls, low to high.
type Kind string

// The kinds of scopes in which secrets are stored.
const (
	KindOrg   Kind = "org"   // every call of the organisation
	KindAgent Kind = "agent" // every call of one agent
)

// A Scope is where a secret belongs. The ID is empty for the organisation itself.
type Scope struct {
	Org  string
	Kind Kind
	ID   string
}

// check reports what is wrong with s.
func (s Scope) check() error {
	const longest = 256
	if s.Org == "" || s.Kind == "" || (s.ID == "") != (s.Kind == KindOrg) ||
		len(s.Org)+len(s.Kind)+len(s.ID) > longest {
		return &haft.Error{Code: haft.CodeInvalid,
			Message: "a secret belongs to an organisation, or to an agent or tool of one"}
	}
	return nil
}

// bound returns the associated data of a secret: each part after its length, so
// that no two places have the same. Where the value may go is part of it: who can
// write the backend cannot have it sent elsewhere. Its text is part of what is stored: with
// another prefix no secret of an existing database can be decrypted.
func (s Scope) bound(name, binding string) []byte {
	out, parts := []byte("haft/secret/1"), []string{s.Org, string(s.Kind), s.ID, name}
	if binding != "" {
		out, parts = []byte("haft/secret/2"), append(parts, binding)
	}
	for _, part := range parts {
		out = binary.AppendUvarint(out, uint64(len(part)))
		out = append(out, part...)
	}
	return out
}

// A Row is a secret as a backend keeps it. Scope and Name identify it.
type Row struct {
	Scope Scope
	Name  string
	// Data is ciphertext, or the value itself if Plain, which only a migration
	// from elsewhere writes.
	Data  []byte
	Plain bool
	// Key is the data key of Data.
	Key uint32
	// Bound is where the value may go, as [secret.Binding] writes it; "" means that
	// it is not bound. Data cannot be read with another.
	Bound string
	// Fingerprint differs for different values and does not reveal them.
	Fingerprint string
	Created     time.Time
	Updated     time.Time
	// Rev counts the writes of this row, from 1 on.
	Rev int64
}

// binding reads where the value may go.
func (r Row) binding() (*secret.Binding, error) {
	b, err := secret.DecodeBinding(r.Bound)
	if err != nil {
		return nil, damaged(fmt.Errorf("read the binding of the secret %s: %w", r.Name, err))
	}
	return b, nil
}

// Format writes where the secret belongs, whatever the verb: Data may be plain.
func (r Row) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "secret %q of %q", r.Name, r.Scope)
}

// A Backend stores rows and one keyset. It is safe for concurrent use, also from several
// processes. The stored data is encrypted; loss and changes of it are detected, not prevented.
//
// Writes are conditional: the given revision must be the stored one, or 0 if there is none.
// Otherwise the write fails with [haft.CodeConflict] and changes nothing. A read that finds
// nothing fails with [haft.CodeNotFound].
type Backend interface {
	// Secret returns one row.
	Secret(ctx context.Context, scope Scope, name string) (Row, error)
	// Secrets returns up to limit rows that come after the given one in the order
	// of scope and name: those of scope, or all if it is nil.
	Secrets(ctx context.Context, scope *Scope, after Row, limit int) ([]Row, error)
	// PutSecret writes row, whose Rev is the stored one.
	PutSecret(ctx context.Context, row Row) error
	// RemoveSecret removes the row of a secret.
	RemoveSecret(ctx context.Context, scope Scope, name string) error
	// Keyset returns the keyset and its revision.
	Keyset(ctx context.Context) ([]byte, int64, error)
	// PutKeyset replaces the keyset of revision rev.
	PutKeyset(ctx context.Context, data []byte, rev int64) error
}
