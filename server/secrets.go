package server

import (
	"context"
	"iter"
	"slices"
	"strings"

	"haft"
	"haft/internal/secret"
)

// SecretRef names a stored variable in a path.
type SecretRef struct {
	Name  string `path:"name" maxLength:"128" doc:"The name of the variable."`
	Agent string `query:"agent" maxLength:"200" doc:"The name or id of an agent whose calls have it; without it those of the whole organisation have it."`
}

// secretHandlers serve the operations on stored variables. No answer has a value.
type secretHandlers struct{ secrets Secrets }

// secrets registers the operations on stored variables.
func (a *api) secrets() {
	h := secretHandlers{a.s.cfg.Secrets}
	g := a.group("secrets", haft.SecretsRead, haft.SecretsWrite).needs(h.secrets != nil, "secrets")
	register(g.op("GET /v1/secrets", "list-secrets", "List the names of stored variables").
		about("Values are never shown. A fingerprint is the same for the same value."), h.listSecrets)
	register(g.op("PUT /v1/secrets/{name}", "put-secret", "Store a variable; nobody can read it back").
		about("With `bound` it goes to those hosts and nowhere else: tools see a placeholder, which is replaced "+
			"outside of their sandbox."), h.putSecret)
	register(g.op("DELETE /v1/secrets/{name}", "remove-secret", "Remove a stored variable"),
		func(ctx context.Context, who Identity, in *SecretRef) (*struct{}, error) {
			return nil, h.secrets.RemoveSecret(ctx, who.Principal, in.Agent, in.Name)
		})
}

type listSecrets struct {
	Paging
	Agent string `query:"agent" maxLength:"200" doc:"The name or id of an agent; without it those of the whole organisation are listed."`
}

func (h secretHandlers) listSecrets(ctx context.Context, who Identity, in *listSecrets) (*Listed[secret.Info], error) {
	all, err := h.secrets.Secrets(ctx, who.Principal, in.Agent)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b secret.Info) int { return strings.Compare(a.Name, b.Name) })
	return pageOf(in.Paging, "secrets", func(i secret.Info) string { return i.Name },
		func(string) iter.Seq2[secret.Info, error] { return each(all) })
}

type putSecret struct {
	SecretRef
	Body struct {
		Value string          `json:"value" maxLength:"65536" writeOnly:"true" doc:"It is never shown again."`
		Bound *secret.Binding `json:"bound,omitempty" doc:"Where it may go, and nowhere else. Without it, where the one that is there may; no hosts means that tools have it."`
	}
}

func (h secretHandlers) putSecret(ctx context.Context, who Identity, in *putSecret) (*struct{}, error) {
	if in.Body.Value == "" {
		return nil, &haft.Error{Code: haft.CodeInvalid, Message: "a variable needs a value",
			Misfits: []haft.Misfit{{Pointer: "/value", Message: "is empty"}}}
	}
	return nil, h.secrets.BindSecret(ctx, who.Principal, in.Agent, in.Name, secret.New(in.Body.Value),
		in.Body.Bound)
}
