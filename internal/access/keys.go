package access

import (
	"context"
	"iter"
	"time"

	"haft"
	"haft/internal/auth"
	"haft/server"
)

// A KeyAPI manages API keys for callers of the HTTP server. All changes are in the audit.
type KeyAPI struct {
	Keyring *auth.Keyring
	Manage  Manage
}

var _ server.Keys = KeyAPI{}

// known returns the credential of a caller. A caller that acts as somebody else may not
// manage keys.
func known(by server.Identity) (auth.Identity, error) {
	id, ok := by.Credential.(auth.Identity)
	if !ok {
		return auth.Identity{}, &haft.Error{Code: haft.CodeDenied, Message: "this credential is not for keeping keys"}
	}
	return id, nil
}

// Key implements [server.Keys].
func (d KeyAPI) Key(ctx context.Context, by server.Identity, id string) (auth.Key, error) {
	who, err := known(by)
	if err != nil {
		return auth.Key{}, err
	}
	return d.Keyring.Key(ctx, who, id)
}

// Keys implements [server.Keys].
func (d KeyAPI) Keys(ctx context.Context, by server.Identity, after string) iter.Seq2[auth.Key, error] {
	who, err := known(by)
	if err != nil {
		return func(yield func(auth.Key, error) bool) { yield(auth.Key{}, err) }
	}
	return d.Keyring.Keys(ctx, who, after)
}

// IssueKey implements [server.Keys].
func (d KeyAPI) IssueKey(ctx context.Context, by server.Identity, k auth.Key) (made auth.Key, text string, err error) {
	err = d.manage(ctx, by, "key.create", func(ctx context.Context, who auth.Identity) (auth.Key, error) {
		var token auth.Token
		made, token, err = d.Keyring.Issue(ctx, who, k)
		text = token.Reveal()
		return made, err
	})
	return made, text, err
}

// RotateKey implements [server.Keys].
func (d KeyAPI) RotateKey(ctx context.Context, by server.Identity, id string,
	overlap time.Duration) (made auth.Key, text string, err error) {
	err = d.manage(ctx, by, "key.rotate", func(ctx context.Context, who auth.Identity) (auth.Key, error) {
		var token auth.Token
		made, token, err = d.Keyring.Rotate(ctx, who, id, overlap)
		text = token.Reveal()
		return made, err
	})
	return made, text, err
}

// SetKey implements [server.Keys].
func (d KeyAPI) SetKey(ctx context.Context, by server.Identity, id string, s auth.KeyState) (made auth.Key, err error) {
	err = d.manage(ctx, by, "key.set", func(ctx context.Context, who auth.Identity) (auth.Key, error) {
		made, err = d.Keyring.Set(ctx, who, id, s)
		return made, err
	})
	return made, err
}

// RemoveKey implements [server.Keys].
func (d KeyAPI) RemoveKey(ctx context.Context, by server.Identity, id string) error {
	return d.manage(ctx, by, "key.remove", func(ctx context.Context, who auth.Identity) (auth.Key, error) {
		k, err := d.Keyring.Key(ctx, who, id)
		if err != nil {
			return k, err
		}
		return k, d.Keyring.Remove(ctx, who, id)
	})
}

// manage runs do for a manager, and writes its result to the audit.
func (d KeyAPI) manage(ctx context.Context, by server.Identity, kind string,
	do func(context.Context, auth.Identity) (auth.Key, error)) error {
	who, err := known(by)
	if err != nil {
		return err
	}
	return d.Manage(ctx, by.Principal, haft.KeysWrite, kind,
		func(ctx context.Context) (any, error) { return do(ctx, who) })
}
