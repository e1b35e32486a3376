package server

import (
	"context"
	"net/http"
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

// secrets are the operations on stored variables. No answer has a value.
func (a *api) secrets() {
	const tag = "secrets"
	register(a, operation{method: http.MethodGet, path: "/v1/secrets", id: "list-secrets", action: haft.SecretsRead,
		tag: tag, summary: "List the names of stored variables",
		about:  "Values are never shown. A fingerprint is the same for the same value.",
		errors: []int{http.StatusNotFound}}, a.s.listSecrets)
	register(a, operation{method: http.MethodPut, path: "/v1/secrets/{name}", id: "put-secret",
		action: haft.SecretsWrite, tag: tag, summary: "Store a variable; nobody can read it back",
		about: "With `bound` it goes to those hosts and nowhere else: tools see a placeholder, which is replaced " +
			"outside of their sandbox."}, a.s.putSecret)
	register(a, operation{method: http.MethodDelete, path: "/v1/secrets/{name}", id: "remove-secret",
		action: haft.SecretsWrite, tag: tag, summary: "Remove a stored variable"}, a.s.removeSecret)
}

type listSecrets struct {
	Paging
	Agent string `query:"agent" maxLength:"200" doc:"The name or id of an agent; without it those of the whole organisation are listed."`
}

func (s *Server) listSecrets(ctx context.Context, who Identity, in *listSecrets) (*listed[secret.Info], error) {
	if s.cfg.Secrets == nil {
		return nil, absent("secrets")
	}
	after, err := in.at("secrets")
	if err != nil {
		return nil, err
	}
	list, err := s.cfg.Secrets.Secrets(ctx, who.Principal, in.Agent)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b secret.Info) int { return strings.Compare(a.Name, b.Name) })
	return collect(each(list), in.Paging, "secrets", func(i secret.Info) bool { return i.Name <= after },
		func(i secret.Info) string { return i.Name })
}

type putSecret struct {
	SecretRef
	Body struct {
		Value string          `json:"value" maxLength:"65536" writeOnly:"true" doc:"It is never shown again."`
		Bound *secret.Binding `json:"bound,omitempty" doc:"Where it may go, and nowhere else. Without it, where the one that is there may; no hosts means that tools have it."`
	}
}

func (s *Server) putSecret(ctx context.Context, who Identity, in *putSecret) (*struct{}, error) {
	if s.cfg.Secrets == nil {
		return nil, absent("secrets")
	}
	if in.Body.Value == "" {
		return nil, &haft.Error{Code: haft.CodeInvalid, Message: "a variable needs a value",
			Misfits: []haft.Misfit{{Pointer: "/value", Message: "is empty"}}}
	}
	return nil, s.cfg.Secrets.BindSecret(ctx, who.Principal, in.Agent, in.Name, secret.New(in.Body.Value),
		in.Body.Bound)
}

func (s *Server) removeSecret(ctx context.Context, who Identity, in *SecretRef) (*struct{}, error) {
	if s.cfg.Secrets == nil {
		return nil, absent("secrets")
	}
	return nil, s.cfg.Secrets.RemoveSecret(ctx, who.Principal, in.Agent, in.Name)
}
