package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"haft"
	"haft/internal/auth"
	"haft/internal/datadir"
)

// firstOrg is the organisation of the first administrator if nothing else is said.
const firstOrg = "local"

// AuthConfig says who is believed. The zero value is for a service that keeps
// nothing.
type AuthConfig struct {
	// Config adjusts the authenticator. Its Keyring is made here.
	auth.Config
	// Data is that of the service.
	Data string
	// Org is the organisation of the first administrator; "" means "local".
	Org string
}

// Keyring returns the API keys of the store. Data is the data directory of the
// service, which has the pepper; it is made if there are no keys yet. If there are
// some it has to be there: with another no key would be good, and nobody would
// know why.
func (s *Service) Keyring(ctx context.Context, data string) (*auth.Keyring, error) {
	pepper, err := s.pepper(ctx, data)
	if err != nil {
		return nil, err
	}
	ring, err := auth.NewKeyring(s.Store, pepper, s.App.cfg.Logger)
	if err != nil {
		return nil, fmt.Errorf("read %s of the data directory: %w", datadir.PepperFile, err)
	}
	return ring, nil
}

// pepper returns the pepper of the API keys.
func (s *Service) pepper(ctx context.Context, data string) ([]byte, error) {
	switch {
	case data == "" && s.Store.Shared():
		return nil, &haft.Error{Code: haft.CodeInvalid,
			Message: "API keys in a database need a data directory, for " + datadir.PepperFile}
	case data == "":
		return datadir.NewKey() // nothing outlives the process
	}
	some, err := s.Store.HasKeys(ctx)
	if err != nil {
		return nil, err
	}
	return (&datadir.Dir{Path: data, Store: s.Store}).Key(ctx, datadir.PepperFile, some)
}

// An Auth knows the callers of a service.
type Auth struct {
	*auth.Authenticator
	Keyring *auth.Keyring
	// First is the key of the first administrator if it was made just now, and
	// FirstFile the file that has it too, where anything is kept.
	First     auth.Token
	FirstFile string
}

// OpenAuth returns who knows the callers of the service. If there are no API keys,
// it makes that of an administrator and writes its text to admin.key in the data
// directory, which nobody else can read.
func (s *Service) OpenAuth(ctx context.Context, cfg AuthConfig) (*Auth, error) {
	ring, err := s.Keyring(ctx, cfg.Data)
	if err != nil {
		return nil, err
	}
	cfg.Config.Keyring = ring
	a := &Auth{Keyring: ring}
	if a.Authenticator, err = auth.New(cfg.Config); err != nil {
		return nil, err
	}
	some, err := s.Store.HasKeys(ctx)
	if err == nil && !some {
		err = s.firstKey(ctx, a, cfg)
	}
	if err != nil {
		return nil, err
	}
	return a, nil
}

// firstKey makes the first key.
func (s *Service) firstKey(ctx context.Context, a *Auth, cfg AuthConfig) error {
	if cfg.Org == "" {
		cfg.Org = firstOrg
	}
	path := filepath.Join(cfg.Data, datadir.AdminFile)
	by := haft.Principal{Org: cfg.Org, User: "haft", Roles: []string{haft.RoleAdmin}}
	var token auth.Token
	err := s.Manage(ctx, by, haft.KeysWrite, "key.create", func(ctx context.Context) (_ any, err error) {
		var key auth.Key
		if key, token, err = a.Keyring.NewAdminKey(ctx, cfg.Org); err != nil || cfg.Data == "" {
			return key, err
		}
		if err := datadir.CreateFile(path, []byte(token.Reveal()+"\n")); err != nil {
			// A key that nobody has is only in the way of the next try.
			return nil, errors.Join(err, s.Store.RemoveKey(context.WithoutCancel(ctx), cfg.Org, key.ID))
		}
		a.FirstFile = path
		return key, nil
	})
	if errors.Is(err, fs.ErrExist) {
		return s.knownKey(ctx, path)
	}
	if err != nil {
		return fmt.Errorf("make the first key: %w", err)
	}
	a.First = token
	return nil
}

// knownKey reports why the key at path is not the first: one that another process
// made at the same time is. A key is never overwritten, since it may be the only
// one of another database.
func (s *Service) knownKey(ctx context.Context, path string) error {
	text, err := datadir.ReadKey(path)
	if err != nil {
		return fmt.Errorf("read the first key: %w", err)
	}
	if id, ok := auth.ParseKey(strings.TrimSpace(string(text))); ok {
		switch _, err := s.Store.Key(ctx, id); {
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
