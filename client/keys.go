package client

import (
	"context"
	"iter"
	"net/http"
	"time"

	"haft"
	"haft/internal/auth"
	"haft/internal/secret"
)

// A Secret is what there is to say of a stored variable. Nobody gets its value.
type Secret struct {
	Name string `json:"name"`
	// Fingerprint is the same for the same value, and says nothing about it.
	Fingerprint string `json:"fingerprint"`
	// Bound is where it goes and nowhere else; nil means that tools have it.
	Bound   *secret.Binding `json:"bound,omitempty"`
	Created time.Time       `json:"created_at"`
	Updated time.Time       `json:"updated_at"`
}

// secretQuery is a request about a secret of the organisation, or of an agent.
func secretQuery(p haft.Principal, method, agent, name string) query {
	return query{method: method, path: "/v1/secrets", item: &item{"secret", name, ""}, values: params("agent", agent),
		as: p}
}

// PutSecret stores a variable for all calls of the organisation, or for those of
// one agent. It cannot be read back.
func (c *Client) PutSecret(ctx context.Context, p haft.Principal, agent, name, value string) error {
	return c.BindSecret(ctx, p, agent, name, value, nil)
}

// BindSecret stores a variable, and where it may go: nil means where the one that
// is there may, and no hosts means everywhere.
func (c *Client) BindSecret(ctx context.Context, p haft.Principal, agent, name, value string, b *secret.Binding) error {
	q := secretQuery(p, http.MethodPut, agent, name)
	q.again, q.body = true, struct {
		Value string          `json:"value"`
		Bound *secret.Binding `json:"bound,omitempty"`
	}{value, b}
	return c.read(ctx, q, nil)
}

// Secrets says which variables are stored for the organisation, or for one agent.
func (c *Client) Secrets(ctx context.Context, p haft.Principal, agent string) ([]Secret, error) {
	var all []Secret
	for s, err := range list[Secret](ctx, c, query{path: "/v1/secrets", values: params("agent", agent), as: p}, 0) {
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// RemoveSecret removes a stored variable.
func (c *Client) RemoveSecret(ctx context.Context, p haft.Principal, agent, name string) error {
	return c.read(ctx, secretQuery(p, http.MethodDelete, agent, name), nil)
}

// issued is a key with its text, which is shown once.
type issued struct {
	auth.Key
	Secret string `json:"secret"`
}

// IssueKey makes an API key and returns it with its text, which nobody can get
// again.
func (c *Client) IssueKey(ctx context.Context, p haft.Principal, k auth.Key) (auth.Key, string, error) {
	var out issued
	err := c.read(ctx, query{method: http.MethodPost, path: "/v1/keys", as: p, body: struct {
		Name       string    `json:"name,omitempty"`
		User       string    `json:"user,omitempty"`
		Agent      string    `json:"agent,omitempty"`
		Roles      []string  `json:"roles,omitempty"`
		Scope      []string  `json:"scope,omitzero"`
		SignedOnly bool      `json:"signed_only,omitempty"`
		Expires    time.Time `json:"expires_at,omitzero"`
	}{k.Name, k.User, k.Agent, k.Roles, k.Scope, k.SignedOnly, k.Expires}}, &out)
	return out.Key, out.Secret, err
}

// Keys lists the API keys of the organisation, without their secrets.
func (c *Client) Keys(ctx context.Context, p haft.Principal) iter.Seq2[auth.Key, error] {
	return list[auth.Key](ctx, c, query{path: "/v1/keys", as: p}, 0)
}

// RotateKey gives a key a new secret and returns its text. The old one is good for
// overlap.
func (c *Client) RotateKey(ctx context.Context, p haft.Principal, id string,
	overlap haft.Millis) (auth.Key, string, error) {
	var out issued
	err := c.read(ctx, query{method: http.MethodPost, path: "/v1/keys", item: &item{"key", id, "/rotate"}, as: p,
		body: struct {
			Overlap haft.Millis `json:"overlap_ms,omitempty"`
		}{overlap}}, &out)
	return out.Key, out.Secret, err
}

// DisableKey refuses a key from now on, and keeps it.
func (c *Client) DisableKey(ctx context.Context, p haft.Principal, id string) (k auth.Key, err error) {
	disabled := true
	err = c.read(ctx, query{method: http.MethodPatch, path: "/v1/keys", item: &item{"key", id, ""}, as: p,
		body: auth.KeyState{Disabled: &disabled}}, &k)
	return k, err
}

// RemoveKey removes a key. It is refused from then on.
func (c *Client) RemoveKey(ctx context.Context, p haft.Principal, id string) error {
	return c.remove(ctx, p, "/v1/keys", "key", id, "")
}
