// Package access authenticates the callers of a server over HTTP. It makes the first API
// key, finds the identity behind a request, manages API keys, and counts refused requests.
package access

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"

	"haft"
	"haft/internal/auth"
	"haft/internal/datadir"
)

// DefaultOrg is the organisation of the first administrator by default.
const DefaultOrg = "local"

// Manage runs do if p may do the action, and writes its result to the audit.
type Manage func(ctx context.Context, p haft.Principal, a haft.Action, kind string,
	do func(context.Context) (any, error)) error

// Keyring returns the API keys in the store of a data directory. The pepper is in the
// directory; it is made if there are no keys yet. If there are keys and no pepper, that is
// an error: with another pepper no key would work.
func Keyring(ctx context.Context, dir *datadir.Dir, logger *slog.Logger) (*auth.Keyring, error) {
	pepper, err := readPepper(ctx, dir)
	if err != nil {
		return nil, err
	}
	ring, err := auth.NewKeyring(dir.Store.Keys, pepper, logger)
	if err != nil {
		return nil, fmt.Errorf("read %s of the data directory: %w", datadir.PepperFile, err)
	}
	return ring, nil
}

// readPepper returns the pepper of the API keys.
func readPepper(ctx context.Context, dir *datadir.Dir) ([]byte, error) {
	switch {
	case dir.Path == "" && dir.Store.Shared():
		return nil, &haft.Error{Code: haft.CodeInvalid,
			Message: "API keys in a database need a data directory, for " + datadir.PepperFile}
	case dir.Path == "":
		return datadir.NewKey() // nothing outlives the process
	}
	some, err := dir.Store.Keys.HasKeys(ctx)
	if err != nil {
		return nil, err
	}
	return dir.Key(ctx, datadir.PepperFile, some)
}

// An Auth authenticates the callers of a server.
type Auth struct {
	*auth.Authenticator
	Keyring *auth.Keyring
	// First is the key of the first administrator if this start made it, and FirstFile is the
	// file that has it; both are empty otherwise. Without a data directory there is no file.
	First     auth.Token
	FirstFile string
}

// Config says where the keys are, and whose tokens are accepted.
type Config struct {
	// Config adjusts the authenticator. Its Keyring is made here.
	auth.Config
	Dir *datadir.Dir
	// Org is the organisation of the first administrator; "" means [DefaultOrg].
	Org string
	// NoFirstKey makes no key: callers come by the socket in the data directory.
	NoFirstKey bool
	Manage     Manage
	Logger     *slog.Logger
}

// Open returns the authenticator of a server. If there are no API keys, it makes one for an
// administrator and writes it to admin.key in the data directory, which only the owner can
// read.
func Open(ctx context.Context, cfg Config) (*Auth, error) {
	ring, err := Keyring(ctx, cfg.Dir, cfg.Logger)
	if err != nil {
		return nil, err
	}
	cfg.Config.Keyring = ring
	a := &Auth{Keyring: ring}
	if a.Authenticator, err = auth.New(cfg.Config); err != nil {
		return nil, err
	}
	some, err := cfg.Dir.Store.Keys.HasKeys(ctx)
	if err == nil && !some && !cfg.NoFirstKey {
		err = a.firstKey(ctx, cfg)
	}
	if err != nil {
		return nil, err
	}
	return a, nil
}

// firstKey makes the first key.
func (a *Auth) firstKey(ctx context.Context, cfg Config) error {
	cfg.Org = cmp.Or(cfg.Org, DefaultOrg)
	path := filepath.Join(cfg.Dir.Path, datadir.AdminFile)
	by := haft.Principal{Org: cfg.Org, User: "haft", Roles: []string{haft.RoleAdmin}}
	var token auth.Token
	err := cfg.Manage(ctx, by, haft.KeysWrite, "key.create", func(ctx context.Context) (_ any, err error) {
		var key auth.Key
		if key, token, err = a.Keyring.NewAdminKey(ctx, cfg.Org); err != nil || cfg.Dir.Path == "" {
			return key, err
		}
		if err := datadir.CreateFile(path, []byte(token.Reveal()+"\n")); err != nil {
			// A key whose text is lost would only block the next attempt.
			return nil, errors.Join(err, cfg.Dir.Store.Keys.RemoveKey(context.WithoutCancel(ctx), cfg.Org, key.ID))
		}
		a.FirstFile = path
		return key, nil
	})
	if errors.Is(err, fs.ErrExist) {
		return knownKey(ctx, cfg.Dir.Store.Keys, path)
	}
	if err != nil {
		return fmt.Errorf("make the first key: %w", err)
	}
	a.First = token
	return nil
}

// knownKey returns nil if the key at path is in the store: another process made it at the
// same time. Otherwise it returns an error. A key is never overwritten, since it may be the
// only one of another database.
func knownKey(ctx context.Context, keys auth.Keys, path string) error {
	text, err := datadir.ReadKey(path)
	if err != nil {
		return fmt.Errorf("read the first key: %w", err)
	}
	if id, ok := auth.ParseKey(strings.TrimSpace(string(text))); ok {
		switch _, err := keys.Key(ctx, id); {
		case err == nil:
			return nil
		case haft.CodeOf(err) != haft.CodeNotFound:
			return err
		}
	}
	return &haft.Error{Code: haft.CodeConflict, Message: datadir.AdminFile +
		" in the data directory is not of this store, which has no keys: move it away, or make a key with: haft key " +
		"create --role admin"}
}
