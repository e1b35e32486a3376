package client

import (
	"context"
	"net/http"
	"time"

	"haft"
	"haft/internal/secret"
)

// Secrets manages the variables that are stored for calls.
type Secrets struct{ api *transport }

// A Secret describes a stored variable, without its value.
type Secret struct {
	Name string `json:"name"`
	// Fingerprint is the same for the same value, and says nothing about it.
	Fingerprint string `json:"fingerprint"`
	// Bound lists the only places where the value is sent; nil means that tools have it.
	Bound   *secret.Binding `json:"bound,omitempty"`
	Created time.Time       `json:"created_at"`
	Updated time.Time       `json:"updated_at"`
}

// secretQuery is a request about a secret of the organisation, or of an agent.
func secretQuery(p haft.Principal, method, agent, name string) query {
	return query{method: method, path: "/v1/secrets", item: &item{"secret", name, ""}, values: params("agent", agent),
		as: p}
}

// Put stores a variable for all calls of the organisation, or for those of
// one agent. It cannot be read back.
func (s *Secrets) Put(ctx context.Context, p haft.Principal, agent, name, value string) error {
	return s.Bind(ctx, p, agent, name, value, nil)
}

// Bind stores a variable and the hosts that it may be sent to. A nil binding keeps the one that
// is stored; a binding without hosts allows every host.
func (s *Secrets) Bind(ctx context.Context, p haft.Principal, agent, name, value string, b *secret.Binding) error {
	q := secretQuery(p, http.MethodPut, agent, name)
	q.again, q.body = true, struct {
		Value string          `json:"value"`
		Bound *secret.Binding `json:"bound,omitempty"`
	}{value, b}
	return s.api.read(ctx, q, nil)
}

// List lists the variables that are stored for the organisation, or for one agent.
func (s *Secrets) List(ctx context.Context, p haft.Principal, agent string) ([]Secret, error) {
	var all []Secret
	q := query{path: "/v1/secrets", values: params("agent", agent), as: p}
	for one, err := range list[Secret](ctx, s.api, q, 0) {
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// Remove removes a stored variable.
func (s *Secrets) Remove(ctx context.Context, p haft.Principal, agent, name string) error {
	return s.api.read(ctx, secretQuery(p, http.MethodDelete, agent, name), nil)
}
