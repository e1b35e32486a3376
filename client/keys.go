package client

import (
	"context"
	"iter"
	"net/http"
	"time"

	"haft"
	"haft/internal/auth"
)

// Keys manages API keys.
type Keys struct{ api *transport }

// issued is a key with its text, which is shown once.
type issued struct {
	auth.Key
	Secret string `json:"secret"`
}

// Issue makes an API key and returns it with its text, which cannot be read again.
func (k *Keys) Issue(ctx context.Context, p haft.Principal, key auth.Key) (auth.Key, string, error) {
	var out issued
	err := k.api.read(ctx, query{method: http.MethodPost, path: "/v1/keys", as: p, body: struct {
		Name       string    `json:"name,omitempty"`
		User       string    `json:"user,omitempty"`
		Agent      string    `json:"agent,omitempty"`
		Roles      []string  `json:"roles,omitempty"`
		Scope      []string  `json:"scope,omitzero"`
		SignedOnly bool      `json:"signed_only,omitempty"`
		Expires    time.Time `json:"expires_at,omitzero"`
	}{key.Name, key.User, key.Agent, key.Roles, key.Scope, key.SignedOnly, key.Expires}}, &out)
	return out.Key, out.Secret, err
}

// List lists the API keys of the organisation, without their secrets.
func (k *Keys) List(ctx context.Context, p haft.Principal) iter.Seq2[auth.Key, error] {
	return list[auth.Key](ctx, k.api, query{path: "/v1/keys", as: p}, 0)
}

// Rotate gives a key a new secret and returns its text. The old one is valid for the duration
// overlap.
func (k *Keys) Rotate(ctx context.Context, p haft.Principal, id string,
	overlap haft.Millis) (auth.Key, string, error) {
	var out issued
	err := k.api.read(ctx, query{method: http.MethodPost, path: "/v1/keys", item: &item{"key", id, "/rotate"}, as: p,
		body: struct {
			Overlap haft.Millis `json:"overlap_ms,omitempty"`
		}{overlap}}, &out)
	return out.Key, out.Secret, err
}

// Disable refuses a key from now on, and keeps it.
func (k *Keys) Disable(ctx context.Context, p haft.Principal, id string) (key auth.Key, err error) {
	disabled := true
	err = k.api.read(ctx, query{method: http.MethodPatch, path: "/v1/keys", item: &item{"key", id, ""}, as: p,
		body: auth.KeyState{Disabled: &disabled}}, &key)
	return key, err
}

// Remove removes a key. It is refused from then on.
func (k *Keys) Remove(ctx context.Context, p haft.Principal, id string) error {
	return k.api.remove(ctx, p, "/v1/keys", "key", id, "")
}
