package servers

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"haft"
	"haft/executor/upstream"
	"haft/internal/secret"
	"haft/internal/secret/keeper"
	"haft/internal/secret/vault"
	"haft/internal/store"
)

// serverSecrets are the secret values of a server.
type serverSecrets struct {
	Headers map[string]string `json:"headers,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	Client  string            `json:"client_secret,omitempty"`
	// Audience identifies the server that the values are for, see [haft.MCPServer.Audience];
	// "" means the server that an earlier version stored them with.
	Audience string `json:"audience,omitempty"`
}

// hiddenValue stands for a value that is stored and not shown.
const hiddenValue = "[not kept]"

// stored reads the credentials of a server.
func (u *Servers) stored(ctx context.Context, org, id string) (serverSecrets, error) {
	var c serverSecrets
	raw, err := u.cfg.Vault.Value(ctx, keeper.Scope{Org: org, Kind: kindServer, ID: id})
	if haft.CodeOf(err) == haft.CodeNotFound {
		return c, nil
	}
	if err != nil {
		return c, fmt.Errorf("read the credentials of a server: %w", err)
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return c, fmt.Errorf("read the credentials of a server: %w", err)
	}
	return c, nil
}

// filled returns the shown values, with hidden ones replaced by the stored ones.
func filled(shown, stored map[string]string) map[string]string {
	out := make(map[string]string, len(shown))
	for name, text := range shown {
		if text == hiddenValue {
			value, ok := stored[name]
			if !ok {
				continue
			}
			text = value
		}
		out[name] = text
	}
	return out
}

// Keep implements [service.Upstream].
func (u *Servers) Keep(ctx context.Context, s haft.MCPServer,
	write func(haft.MCPServer, store.OwnSecrets) error) error {
	if err := upstream.CheckHeaders(s.Headers); err != nil {
		return err
	}
	if err := u.cfg.Commands.CheckMounts(ctx, s); err != nil {
		return err
	}
	return vault.Retry(func() error {
		shown, own, err := u.sealed(ctx, s)
		if err != nil {
			return err
		}
		return write(shown, own)
	})
}

// sealed splits a server into the part that is shown and the part that is stored encrypted.
func (u *Servers) sealed(ctx context.Context, s haft.MCPServer) (
	shown haft.MCPServer, own store.OwnSecrets, err error) {
	at := keeper.Scope{Org: s.Org, Kind: kindServer, ID: s.ID}
	have, err := u.cfg.Store.Secrets.Secrets(ctx, &at, keeper.Row{}, 0)
	if err != nil {
		return s, own, err
	}
	old, err := u.stored(ctx, s.Org, s.ID)
	if err != nil {
		return s, own, err
	}
	was, err := u.cfg.Store.MCPServers.MCPServer(ctx, s.Org, s.ID)
	if err != nil && haft.CodeOf(err) != haft.CodeNotFound {
		return s, own, err
	}
	// Values that were stored for another audience, and grants of people to it, must not
	// reach this one.
	moved := was != nil && was.Audience() != s.Audience() || old.Audience != "" && old.Audience != s.Audience()
	if !moved && was != nil {
		if err := sameVariables(s.Env, old.Env, was.Env); err != nil {
			return s, own, err
		}
	}
	if moved {
		old = serverSecrets{}
		s.Headers, s.Env = given(s.Headers), given(s.Env)
		if s.OAuth != nil && s.OAuth.ClientSecret == hiddenValue {
			o := *s.OAuth
			o.ClientSecret = ""
			s.OAuth = &o
		}
	}
	c := serverSecrets{Audience: s.Audience()}
	if s.Headers, c.Headers, err = hidden("the header", s.Headers, old.Headers); err != nil {
		return s, own, err
	}
	if s.Env, c.Env, err = hidden("the variable", s.Env, old.Env); err != nil {
		return s, own, err
	}
	if s.OAuth != nil {
		o := *s.OAuth
		switch o.ClientSecret {
		case "":
		case hiddenValue:
			c.Client = old.Client
		default:
			c.Client, o.ClientSecret = o.ClientSecret, hiddenValue
		}
		s.OAuth = &o
	}
	values := map[string]secret.Value{}
	if len(c.Headers)+len(c.Env)+len(c.Client) > 0 {
		raw, err := json.Marshal(c)
		if err != nil {
			return s, own, fmt.Errorf("write the credentials of a server: %w", err)
		}
		values[vault.ValueName] = secret.New(string(raw))
	}
	if own, err = u.cfg.Vault.Prepare(ctx, at, have, values); moved {
		own.Drop = []string{string(kindGrant)} // of everybody
	}
	return s, own, err
}

// sameVariables refuses to keep stored values of a command while other variables change: a
// command may read from its other variables where to send or write a value. So either all
// variables are given again, or all of them stay. A given value is compared with shown, and
// not with the stored value: otherwise a caller who may update a server could guess it.
func sameVariables(asked, stored, shown map[string]string) error {
	next, kept := maps.Clone(asked), ""
	for name, text := range asked {
		if _, ok := stored[name]; ok && (text == "" || text == hiddenValue) {
			next[name], kept = hiddenValue, max(kept, name)
		}
	}
	if kept == "" || maps.Equal(next, shown) {
		return nil
	}
	return &haft.Error{Code: haft.CodeInvalid, Message: "the variables of a command change together: " +
		"give the variable " + kept + " and every other one its value again, since the command may send it " +
		"elsewhere now"}
}

// given returns the values that came with a request, without the placeholders of stored
// ones.
func given(values map[string]string) map[string]string {
	out := maps.Clone(values)
	maps.DeleteFunc(out, func(_, text string) bool { return text == "" || text == hiddenValue })
	return out
}

// hidden splits values into those that may be shown, because they only name variables, and
// those that are stored.
func hidden(what string, values, old map[string]string) (shown, stored map[string]string, err error) {
	shown, stored = maps.Clone(values), map[string]string{}
	for name, text := range values {
		if text == "" || text == hiddenValue {
			was, ok := old[name]
			if !ok {
				return nil, nil, &haft.Error{Code: haft.CodeInvalid, Message: what + " " + name + " has no value"}
			}
			text = was
		}
		if bare := strings.TrimPrefix(strings.TrimPrefix(text, "Bearer "), "Basic "); upstream.Templated(bare) {
			shown[name] = text
			continue
		}
		shown[name], stored[name] = hiddenValue, text
	}
	return shown, stored, nil
}
