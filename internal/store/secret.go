package store

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"haft"
	"haft/internal/secret/keeper"
	"haft/internal/store/stored"
)

// A Store is the backend of the keeper of secrets. What it keeps is encrypted; the store
// does not know what is in it.
var _ keeper.Backend = Secrets{}

// secretFrom are read in this order by scanSecret.
const secretFrom = "SELECT org, kind, scope, name, data, plain, key, bound, print, created, updated, rev FROM secrets"

func scanSecret(r scanner) (v keeper.Row, err error) {
	var data string
	var plain, created, updated int64
	if err := r.Scan(&v.Scope.Org, &v.Scope.Kind, &v.Scope.ID, &v.Name, &data, &plain, &v.Key, &v.Bound,
		&v.Fingerprint, &created, &updated, &v.Rev); err != nil {
		return v, err
	}
	if v.Data, err = base64.StdEncoding.DecodeString(data); err != nil {
		return v, fmt.Errorf("read the kept secret %s: %w", v.Name, err)
	}
	v.Plain, v.Created, v.Updated = plain != 0, stored.Time(created), stored.Time(updated)
	return v, nil
}

// inScope is the condition for the secrets of a scope, and scopeArgs are its arguments,
// with names that follow.
const inScope = " WHERE org = $1 AND kind = $2 AND scope = $3"

func scopeArgs(s keeper.Scope, names ...string) []any {
	return columns(append([]string{s.Org, string(s.Kind), s.ID}, names...))
}

// Secret implements [keeper.Backend].
func (s Secrets) Secret(ctx context.Context, scope keeper.Scope, name string) (keeper.Row, error) {
	v, err := find(ctx, s.db, "secret", scanSecret, unlogged(secretFrom+inScope+" AND name = $4"),
		scopeArgs(scope, name)...)
	if err != nil {
		return keeper.Row{}, err
	}
	return *v, nil
}

// Secrets implements [keeper.Backend].
func (s Secrets) Secrets(ctx context.Context, scope *keeper.Scope, after keeper.Row, limit int) ([]keeper.Row, error) {
	if scope == nil {
		return list(ctx, s.db, "list all secrets", scanSecret, unlogged(secretFrom+
			" WHERE (org, kind, scope, name) > ($1, $2, $3, $4) ORDER BY org, kind, scope, name LIMIT $5"),
			append(scopeArgs(after.Scope, after.Name), page(limit))...)
	}
	return list(ctx, s.db, "list secrets", scanSecret,
		unlogged(secretFrom+inScope+" AND name > $4 ORDER BY name LIMIT $5"),
		append(scopeArgs(*scope, after.Name), page(limit))...)
}

// PutSecret implements [keeper.Backend].
func (s Secrets) PutSecret(ctx context.Context, v keeper.Row) error {
	if err := checkSecret(v); err != nil {
		return err
	}
	return s.db.write(ctx, "keep the secret", func(ctx context.Context, t *tx) error {
		if err := t.putSecret(ctx, v); err != nil {
			return err
		}
		return t.markSecrets(ctx, v.Scope.Org)
	})
}

// checkSecret reports why a secret cannot be kept.
func checkSecret(v keeper.Row) error {
	if err := errors.Join(need("the organisation of the secret", v.Scope.Org),
		need("the kind of the secret", string(v.Scope.Kind)), need("the name of the secret", v.Name)); err != nil {
		return err
	}
	if !plain(v.Scope.ID) || !plain(v.Fingerprint) {
		return invalid("what the secret belongs to is not plain text")
	}
	if !plain(v.Bound) {
		return invalid("where the secret may go is not plain text")
	}
	if n := base64.StdEncoding.EncodedLen(len(v.Data)); n > MaxText {
		return invalid("the secret has %d bytes, %d is the most", n, MaxText)
	}
	return nil
}

// ErrSecretChanged is wrapped by the conflict of a write over a secret that is not
// the one that was read any more: reading again may help.
var ErrSecretChanged = errors.New("the secret has another revision")

// putSecret writes one secret.
func (t *tx) putSecret(ctx context.Context, v keeper.Row) error {
	data := base64.StdEncoding.EncodeToString(v.Data)
	args := []any{v.Scope.Org, string(v.Scope.Kind), v.Scope.ID, v.Name, data, stored.Bool(v.Plain), int64(v.Key),
		v.Fingerprint, stored.Micros(v.Created), stored.Micros(v.Updated), v.Bound}
	text := "INSERT INTO secrets (org, kind, scope, name, data, plain, key, print, created, updated, bound, rev) " +
		"VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 1) ON CONFLICT (org, kind, scope, name) DO NOTHING"
	if v.Rev != 0 {
		text = "UPDATE secrets SET data = $5, plain = $6, key = $7, print = $8, created = $9, updated = $10, bound " +
			"= $11, rev = rev + 1 WHERE org = $1 AND kind = $2 AND scope = $3 AND name = $4 AND rev = $12"
		args = append(args, v.Rev)
	}
	return t.execOr(ctx, &haft.Error{Code: haft.CodeConflict, Message: "the secret was changed meanwhile",
		Err: ErrSecretChanged}, text, args...)
}

// markSecrets notes that secrets of an organisation changed.
func (t *tx) markSecrets(ctx context.Context, org string) error {
	_, err := t.exec(ctx, "INSERT INTO secret_marks (org, rev) VALUES ($1, 1) ON CONFLICT (org) DO UPDATE SET rev = "+
		"secret_marks.rev + 1", column(org))
	return err
}

// RemoveSecret implements [keeper.Backend].
func (s Secrets) RemoveSecret(ctx context.Context, scope keeper.Scope, name string) error {
	return s.db.write(ctx, "remove the secret", func(ctx context.Context, t *tx) error {
		if err := t.execOr(ctx, notFound("secret"), "DELETE FROM secrets"+inScope+" AND name = $4",
			scopeArgs(scope, name)...); err != nil {
			return err
		}
		return t.markSecrets(ctx, scope.Org)
	})
}

// SecretMark returns a number that is another one after every change of a secret
// of the organisation, and 0 if there never was one. It is a cheap check for
// caches.
func (s Secrets) SecretMark(ctx context.Context, org string) (int64, error) {
	return value[int64](ctx, s.db, "look for changes of secrets",
		unlogged("SELECT rev FROM secret_marks WHERE org = $1"), column(org))
}

// HasPlainSecrets reports whether a secret is kept as the value itself.
func (s Secrets) HasPlainSecrets(ctx context.Context) (bool, error) {
	return value[bool](ctx, s.db, "look for secrets in the clear",
		unlogged("SELECT EXISTS (SELECT 1 FROM secrets WHERE plain = 1)"))
}

// theKeyset is the name of the one that there is.
const theKeyset = "secrets"

// Keyset implements [keeper.Backend].
func (s Secrets) Keyset(ctx context.Context) ([]byte, int64, error) {
	kept, err := find(ctx, s.db, "keyset", scanPair[string, int64],
		unlogged("SELECT data, rev FROM keysets WHERE name = $1"), theKeyset)
	if err != nil {
		return nil, 0, err
	}
	data, err := base64.StdEncoding.DecodeString(kept.a)
	if err != nil {
		return nil, 0, fmt.Errorf("read the keyset: %w", err)
	}
	return data, kept.b, nil
}

// PutKeyset implements [keeper.Backend].
func (s Secrets) PutKeyset(ctx context.Context, data []byte, rev int64) error {
	kept := base64.StdEncoding.EncodeToString(data)
	if len(kept) > MaxText || len(data) == 0 {
		return invalid("the keys of the secrets have %d bytes", len(data))
	}
	text, args := "INSERT INTO keysets (name, data, rev) VALUES ($1, $2, 1) ON CONFLICT (name) DO NOTHING",
		[]any{theKeyset, kept}
	if rev != 0 {
		text, args = "UPDATE keysets SET data = $2, rev = rev + 1 WHERE name = $1 AND rev = $3", append(args, rev)
	}
	return s.db.write(ctx, "keep the keys of the secrets", func(ctx context.Context, t *tx) error {
		return t.execOr(ctx, conflict("the keys of the secrets were changed meanwhile"), text, args...)
	})
}

// A SealedCall is what is kept of a call that has yet to run.
type SealedCall struct {
	ID     haft.CallID
	Sealed json.RawMessage
}

// SealedCalls lists what is kept of calls that are not final, by id, after that
// id.
func (s Calls) SealedCalls(ctx context.Context, after haft.CallID, limit int) ([]SealedCall, error) {
	var open []any
	for _, status := range haft.Statuses() { // there is an index by status, and few are open
		if !status.Final() {
			open = append(open, string(status))
		}
	}
	q := build("SELECT id, sealed FROM calls WHERE sealed IS NOT NULL AND id > ? AND status IN ",
		column(string(after)))
	q.in(open)
	q.add(" ORDER BY id LIMIT ?", page(limit))
	return list(ctx, s.db, "list what is kept of open calls", func(r scanner) (c SealedCall, err error) {
		err = r.Scan(&c.ID, (*[]byte)(&c.Sealed))
		return c, err
	}, q.logged())
}

// Reseal replaces what is kept of a call, if it is still c's and the call has yet
// to run. It reports whether it was.
func (s Calls) Reseal(ctx context.Context, c SealedCall, next json.RawMessage) (replaced bool, err error) {
	if len(next) > MaxSealed {
		return false, invalid("what is kept of the call has %d bytes, %d is the most", len(next), MaxSealed)
	}
	n, err := s.db.exec(ctx, "seal an open call again", "UPDATE calls SET sealed = $1 WHERE id = $2 AND final = 0 AND "+
		"sealed = $3", string(next), column(string(c.ID)), string(c.Sealed))
	return n > 0, err
}

// ScrubDue is the setting that says that [Store.Scrub] has yet to be done: the next start does it.
const ScrubDue = "secrets.scrub"

// Scrub removes from the files of the database, and from the log in front of it, what
// was overwritten or removed: a database keeps that for a long time in pages that
// nobody reads. It takes as long as writing the tables of secrets, agents, calls and
// memory again. Backups, and the log that a server archives, are beyond its reach.
func (s *Store) Scrub(ctx context.Context) error {
	var err error
	if s.dialect.Shared {
		for _, table := range []string{"secrets", "agents", "calls", "turns", "messages", "blocks", "passages",
			"memory_terms", "memory_shares", "passage_vectors"} {
			if err == nil {
				_, err = s.db.ExecContext(ctx, "VACUUM (FULL) "+table)
			}
		}
	} else {
		err = s.owned(ctx, func(context.Context) error { return s.scrub(ctx) }) // ctx may end it
	}
	if err != nil {
		return fmt.Errorf("scrub the database: %w", s.explain(err))
	}
	return nil
}

// scrub is Scrub for a store that is not shared. Precondition: the order and the turn are
// taken, and everything acknowledged is in the database.
func (s *Store) scrub(ctx context.Context) error {
	if _, err := s.conn.ExecContext(ctx, "VACUUM"); err != nil {
		return s.front.checkSync(err)
	}
	var busy, frames, moved int64
	if err := s.conn.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &frames, &moved); err != nil {
		return s.front.checkSync(err)
	}
	if busy != 0 {
		return &haft.Error{Code: haft.CodeUnavailable,
			Message: "somebody reads the database, and with it what was to be removed; try again"}
	}
	if s.front != nil {
		return s.front.erase()
	}
	return nil
}
