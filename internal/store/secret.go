package store

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"haft"
)

// A Secret is an encrypted value and where it belongs. Org, Kind, Scope and Name
// identify it. The store does not know what is in Data.
type Secret struct {
	Org   string
	Kind  string // of the scope: that of an organisation, of an agent
	Scope string // the id of what it belongs to; empty for an organisation
	Name  string
	Data  []byte
	// Plain says that Data is the value itself. Only a migration from elsewhere
	// keeps one so, and only until it is sealed.
	Plain bool
	// Key names the key of Data.
	Key uint32
	// Bound says where the value may go, for those who read it.
	Bound string
	// Print tells values apart without showing them.
	Print            string
	Created, Updated time.Time
	// Rev counts the writes of this secret, from 1 on.
	Rev int64
}

// String names the secret and does not show it.
func (s Secret) String() string { return fmt.Sprintf("secret %q of %s %q", s.Name, s.Kind, s.Scope) }

// secretColumns are read in this order by scanSecret.
const secretColumns = "SELECT org, kind, scope, name, data, plain, key, bound, print, created, updated, rev FROM " +
	"secrets "

func scanSecret(r scanner) (Secret, error) {
	var s Secret
	var data string
	var plain, key, created, updated int64
	if err := r.Scan(&s.Org, &s.Kind, &s.Scope, &s.Name, &data, &plain, &key, &s.Bound, &s.Print, &created, &updated,
		&s.Rev); err != nil {
		return s, err
	}
	var err error
	if s.Data, err = base64.StdEncoding.DecodeString(data); err != nil {
		return s, fmt.Errorf("read the kept secret %s: %w", s.Name, err)
	}
	s.Plain, s.Key, s.Created, s.Updated = plain != 0, uint32(key), fromMicros(created), fromMicros(updated)
	return s, nil
}

// Secret returns one secret, or [haft.CodeNotFound].
func (s *Store) Secret(ctx context.Context, org, kind, scope, name string) (Secret, error) {
	list, err := s.secrets(ctx, secretColumns+"WHERE org = $1 AND kind = $2 AND scope = $3 AND name = $4", column(org),
		column(kind), column(scope), column(name))
	if err != nil {
		return Secret{}, fmt.Errorf("find the secret: %w", err)
	}
	if len(list) == 0 {
		return Secret{}, notFound("secret")
	}
	return list[0], nil
}

// Secrets lists those of one scope by name, after that name.
func (s *Store) Secrets(ctx context.Context, org, kind, scope, after string, limit int) ([]Secret, error) {
	list, err := s.secrets(ctx,
		secretColumns+"WHERE org = $1 AND kind = $2 AND scope = $3 AND name > $4 ORDER BY name LIMIT $5",
		column(org), column(kind), column(scope), column(after), page(limit))
	if err != nil {
		return nil, fmt.Errorf("list secrets: %w", err)
	}
	return list, nil
}

// AllSecrets lists those of all organisations after the given one, in the order of
// organisation, kind, scope and name.
func (s *Store) AllSecrets(ctx context.Context, after Secret, limit int) ([]Secret, error) {
	list, err := s.secrets(ctx,
		secretColumns+"WHERE (org, kind, scope, name) > ($1, $2, $3, $4) ORDER BY org, kind, scope, name LIMIT $5",
		column(after.Org), column(after.Kind), column(after.Scope), column(after.Name), page(limit))
	if err != nil {
		return nil, fmt.Errorf("list all secrets: %w", err)
	}
	return list, nil
}

func (s *Store) secrets(ctx context.Context, text string, args ...any) ([]Secret, error) {
	var list []Secret
	err := s.rows(ctx, func(r scanner) error {
		got, err := scanSecret(r)
		list = append(list, got)
		return err
	}, text, args...)
	return list, err
}

// PutSecret writes a secret, whose Rev is the one that is kept, or 0 for one that
// is new. If that is not so, it is a [haft.CodeConflict] and nothing is changed.
func (s *Store) PutSecret(ctx context.Context, v Secret) error {
	if err := v.check(); err != nil {
		return err
	}
	err := s.write(ctx, func(ctx context.Context, t *tx) error {
		if err := t.putSecret(ctx, v); err != nil {
			return err
		}
		return markSecrets(ctx, t, v.Org)
	})
	if err != nil {
		return fmt.Errorf("keep the secret: %w", err)
	}
	return nil
}

// check reports why a secret cannot be kept.
func (v Secret) check() error {
	for what, text := range map[string]string{"the organisation of the secret": v.Org, "the kind of the secret": v.Kind,
		"the name of the secret": v.Name} {
		if err := need(what, text); err != nil {
			return err
		}
	}
	if !plain(v.Scope) || len(v.Print) > maxColumn || !plain(v.Print) {
		return invalid("what the secret belongs to is not plain text")
	}
	if len(v.Bound) > MaxText || !plain(v.Bound) {
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
func (t *tx) putSecret(ctx context.Context, v Secret) error {
	data := base64.StdEncoding.EncodeToString(v.Data)
	args := []any{v.Org, v.Kind, v.Scope, v.Name, data, number(v.Plain), int64(v.Key), v.Print, micros(v.Created),
		micros(v.Updated), v.Bound}
	text := "INSERT INTO secrets (org, kind, scope, name, data, plain, key, print, created, updated, bound, rev) " +
		"VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 1) ON CONFLICT (org, kind, scope, name) DO NOTHING"
	if v.Rev != 0 {
		text = "UPDATE secrets SET data = $5, plain = $6, key = $7, print = $8, created = $9, updated = $10, bound " +
			"= $11, rev = rev + 1 WHERE org = $1 AND kind = $2 AND scope = $3 AND name = $4 AND rev = $12"
		args = append(args, v.Rev)
	}
	n, err := t.exec(ctx, text, args...)
	if err == nil && n == 0 {
		return &haft.Error{Code: haft.CodeConflict, Message: "the secret was changed meanwhile", Err: ErrSecretChanged}
	}
	return err
}

// markSecrets notes that secrets of an organisation changed.
func markSecrets(ctx context.Context, t *tx, org string) error {
	_, err := t.exec(ctx, "INSERT INTO secret_marks (org, rev) VALUES ($1, 1) ON CONFLICT (org) DO UPDATE SET rev = "+
		"secret_marks.rev + 1", column(org))
	return err
}

// RemoveSecret removes a secret, or returns [haft.CodeNotFound].
func (s *Store) RemoveSecret(ctx context.Context, org, kind, scope, name string) error {
	err := s.write(ctx, func(ctx context.Context, t *tx) error {
		n, err := t.exec(ctx, "DELETE FROM secrets WHERE org = $1 AND kind = $2 AND scope = $3 AND name = $4",
			column(org), column(kind), column(scope), column(name))
		if err == nil && n == 0 {
			return notFound("secret")
		}
		if err != nil {
			return err
		}
		return markSecrets(ctx, t, org)
	})
	if err != nil {
		return fmt.Errorf("remove the secret: %w", err)
	}
	return nil
}

// SecretMark returns a number that is another one after every change of a secret
// of the organisation, and 0 if there never was one. It is a cheap check for
// caches.
func (s *Store) SecretMark(ctx context.Context, org string) (int64, error) {
	var rev int64
	err := s.rows(ctx, func(r scanner) error { return r.Scan(&rev) }, "SELECT rev FROM secret_marks WHERE org = $1",
		column(org))
	if err != nil {
		return 0, fmt.Errorf("look for changes of secrets: %w", err)
	}
	return rev, nil
}

// HasPlainSecrets reports whether a secret is kept as the value itself.
func (s *Store) HasPlainSecrets(ctx context.Context) (bool, error) {
	some := false
	err := s.rows(ctx, func(scanner) error { some = true; return nil },
		"SELECT name FROM secrets WHERE plain = 1 LIMIT 1")
	if err != nil {
		return false, fmt.Errorf("look for secrets in the clear: %w", err)
	}
	return some, nil
}

// theKeyset is the name of the one that there is.
const theKeyset = "secrets"

// Keyset returns the encrypted keys of the secrets and their revision, or
// [haft.CodeNotFound].
func (s *Store) Keyset(ctx context.Context) (data []byte, rev int64, err error) {
	err = s.rows(ctx, func(r scanner) error {
		var text string
		if err := r.Scan(&text, &rev); err != nil {
			return err
		}
		var err error
		data, err = base64.StdEncoding.DecodeString(text)
		return err
	}, "SELECT data, rev FROM keysets WHERE name = $1", theKeyset)
	switch {
	case err != nil:
		return nil, 0, fmt.Errorf("read the keys of the secrets: %w", err)
	case rev == 0:
		return nil, 0, notFound("keyset")
	}
	return data, rev, nil
}

// PutKeyset replaces the keys of the secrets of revision rev, which is 0 if there
// are none yet. Else it is a [haft.CodeConflict] and nothing is changed.
func (s *Store) PutKeyset(ctx context.Context, data []byte, rev int64) error {
	text := base64.StdEncoding.EncodeToString(data)
	if len(text) > MaxText || len(data) == 0 {
		return invalid("the keys of the secrets have %d bytes", len(data))
	}
	err := s.write(ctx, func(ctx context.Context, t *tx) error {
		var n int64
		var err error
		if rev == 0 {
			n, err = t.exec(ctx, "INSERT INTO keysets (name, data, rev) VALUES ($1, $2, 1) ON CONFLICT (name) DO "+
				"NOTHING", theKeyset, text)
		} else {
			n, err = t.exec(ctx, "UPDATE keysets SET data = $1, rev = rev + 1 WHERE name = $2 AND rev = $3", text,
				theKeyset, rev)
		}
		if err == nil && n == 0 {
			return conflict("the keys of the secrets were changed meanwhile")
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("keep the keys of the secrets: %w", err)
	}
	return nil
}

// AgentsWithEnv lists agents of all organisations that have variables in their
// own row, by id, after that id. Where secrets are encrypted there are none.
func (s *Store) AgentsWithEnv(ctx context.Context, after haft.AgentID, limit int) ([]haft.Agent, error) {
	list, err := docs[haft.Agent](ctx, s,
		`SELECT doc FROM agents WHERE id > $1 AND doc LIKE '%"env":{"%' ORDER BY id LIMIT $2`, column(string(after)),
		page(limit))
	if err != nil {
		return nil, fmt.Errorf("list agents with variables: %w", err)
	}
	return list, nil
}

// DropAgentEnv removes the variables of a from its row, if they are still those.
// It reports whether they were.
func (s *Store) DropAgentEnv(ctx context.Context, a haft.Agent) (dropped bool, err error) {
	err = s.write(ctx, func(ctx context.Context, t *tx) error {
		dropped = false
		var now haft.Agent
		rows, err := t.query(ctx, "SELECT doc FROM agents WHERE id = $1"+s.dialect.ForUpdate, string(a.ID))
		if err != nil {
			return err
		}
		if err := each(rows, func(r scanner) error {
			var doc string
			if err := r.Scan(&doc); err != nil {
				return err
			}
			return decode(doc, &now)
		}); err != nil {
			return err
		}
		if now.ID == "" || len(now.Env) == 0 || !maps.Equal(now.Env, a.Env) {
			return nil
		}
		now.Env = nil
		doc, err := encode(now)
		if err != nil {
			return err
		}
		n, err := t.exec(ctx, "UPDATE agents SET doc = $1 WHERE id = $2", doc, string(a.ID))
		dropped = n > 0
		return err
	})
	if err != nil {
		return false, fmt.Errorf("take the variables out of an agent's row: %w", err)
	}
	return dropped, nil
}

// A SealedCall is what is kept of a call that has yet to run.
type SealedCall struct {
	ID     haft.CallID
	Sealed json.RawMessage
}

// SealedCalls lists what is kept of calls that are not final, by id, after that
// id.
func (s *Store) SealedCalls(ctx context.Context, after haft.CallID, limit int) ([]SealedCall, error) {
	args := []any{column(string(after)), page(limit)}
	for _, status := range haft.Statuses() { // there is an index by status, and few are open
		if !status.Final() {
			args = append(args, string(status))
		}
	}
	var list []SealedCall
	err := s.rows(ctx, func(r scanner) error {
		var id, sealed string
		err := r.Scan(&id, &sealed)
		list = append(list, SealedCall{haft.CallID(id), json.RawMessage(sealed)})
		return err
	}, "SELECT id, sealed FROM calls WHERE sealed IS NOT NULL AND id > $1 AND status IN "+in(len(args)-2, 3)+
		" ORDER BY id LIMIT $2", args...)
	if err != nil {
		return nil, fmt.Errorf("list what is kept of open calls: %w", err)
	}
	return list, nil
}

// Reseal replaces what is kept of a call, if it is still c's and the call has yet
// to run. It reports whether it was.
func (s *Store) Reseal(ctx context.Context, c SealedCall, next json.RawMessage) (replaced bool, err error) {
	if len(next) > MaxSealed {
		return false, invalid("what is kept of the call has %d bytes, %d is the most", len(next), MaxSealed)
	}
	err = s.write(ctx, func(ctx context.Context, t *tx) error {
		n, err := t.exec(ctx, "UPDATE calls SET sealed = $1 WHERE id = $2 AND final = 0 AND sealed = $3", string(next),
			column(string(c.ID)), string(c.Sealed))
		replaced = n > 0
		return err
	})
	if err != nil {
		return false, fmt.Errorf("seal an open call again: %w", err)
	}
	return replaced, nil
}

// ScrubDue is the setting that says that [Store.Scrub] has yet to be done: the next start does it.
const ScrubDue = "secrets.scrub"

// Scrub removes from the files of the database, and from the log in front of it, what
// was overwritten or removed: a database keeps that for a long time in pages that
// nobody reads. It takes as long as writing the tables of secrets, agents and calls
// again. Backups, and the log that a server archives, are beyond its reach.
func (s *Store) Scrub(ctx context.Context) error {
	if err := s.scrub(ctx); err != nil {
		return fmt.Errorf("scrub the database: %w", s.explain(err))
	}
	return nil
}

func (s *Store) scrub(ctx context.Context) error {
	if s.dialect.Shared {
		for _, table := range []string{"secrets", "agents", "calls"} {
			if _, err := s.db.ExecContext(ctx, "VACUUM (FULL) "+table); err != nil {
				return err
			}
		}
		return nil
	}
	if s.front != nil {
		if err := take(ctx, s.front.order); err != nil {
			return err
		}
		defer func() { s.front.order <- struct{}{} }()
	}
	if err := take(ctx, s.turn); err != nil {
		return err
	}
	defer func() { s.turn <- struct{}{} }()
	if s.front != nil {
		if err := s.front.settleTurn(context.WithoutCancel(ctx), true); err != nil {
			return err
		}
	}
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
