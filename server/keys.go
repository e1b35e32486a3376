package server

import (
	"context"
	"net/http"
	"time"

	"haft"
	"haft/internal/auth"
)

// NewKey is what an API key is to be.
type NewKey struct {
	Name  string   `json:"name,omitempty" maxLength:"256" doc:"What it is for."`
	User  string   `json:"user,omitempty" maxLength:"256" doc:"On whose behalf it acts."`
	Agent string   `json:"agent,omitempty" maxLength:"256" doc:"The name or id of the agent that it acts as."`
	Roles []string `json:"roles,omitempty" maxItems:"64" maxLength:"256"`
	// Scope left out confines the key to no less than its roles allow.
	Scope      []string  `json:"scope,omitzero" maxItems:"256" maxLength:"256" doc:"Actions, such as calls:read, and tools, such as tool:NAME, that it is confined to. Left out it is confined to nothing less than its roles allow, and an empty list makes it good for nothing."`
	SignedOnly bool      `json:"signed_only,omitempty" doc:"It only signs requests, and is never sent."`
	Expires    time.Time `json:"expires_at,omitzero"`
}

// IssuedKey is a key with its text, which is shown this once.
type IssuedKey struct {
	auth.Key
	Secret string `json:"secret" doc:"The text of the key. It is shown this once."`
}

// KeyRef names an API key in a path.
type KeyRef struct {
	ID string `path:"id" maxLength:"64" doc:"The id of the key, which is not its text."`
}

type (
	oneKey    struct{ Body auth.Key }
	issuedKey struct{ Body IssuedKey }
)

// keys are the operations on API keys.
func (a *api) keys() {
	const tag = "keys"
	register(a, operation{method: http.MethodGet, path: "/v1/keys", id: "list-keys", action: haft.KeysRead, tag: tag,
		summary: "List the API keys of the organisation, without their texts", errors: []int{http.StatusNotFound}},
		a.s.listKeys)
	register(a, operation{method: http.MethodPost, path: "/v1/keys", id: "issue-key", action: haft.KeysWrite, tag: tag,
		summary: "Make an API key; its text is shown this once",
		about:   "A key is never more than the credential that it is made with.", status: http.StatusCreated,
		errors: []int{http.StatusNotFound}}, a.s.issueKey)
	register(a, operation{method: http.MethodGet, path: "/v1/keys/{id}", id: "show-key", action: haft.KeysRead,
		tag: tag, summary: "Show an API key, without its text"}, a.s.showKey)
	register(a, operation{method: http.MethodPatch, path: "/v1/keys/{id}", id: "set-key", action: haft.KeysWrite,
		tag: tag, summary: "Rename or disable an API key, or change when it expires",
		errors: []int{http.StatusConflict}}, a.s.setKey)
	register(a, operation{method: http.MethodPost, path: "/v1/keys/{id}/rotate", id: "rotate-key",
		action: haft.KeysWrite, tag: tag, summary: "Give an API key a new text, which is shown this once",
		errors: []int{http.StatusConflict}}, a.s.rotateKey)
	register(a, operation{method: http.MethodDelete, path: "/v1/keys/{id}", id: "remove-key", action: haft.KeysWrite,
		tag: tag, summary: "Remove an API key; it is refused from then on"}, a.s.removeKey)
}

func (s *Server) listKeys(ctx context.Context, who Identity, in *Paging) (*listed[auth.Key], error) {
	if s.cfg.Keys == nil {
		return nil, absent("keys")
	}
	after, err := in.at("keys")
	if err != nil {
		return nil, err
	}
	return collect(s.cfg.Keys.Keys(ctx, who, after), *in, "keys", nil, func(k auth.Key) string { return k.ID })
}

type newKey struct{ Body NewKey }

func (s *Server) issueKey(ctx context.Context, who Identity, in *newKey) (*issuedKey, error) {
	if s.cfg.Keys == nil {
		return nil, absent("keys")
	}
	b := in.Body
	if b.Agent != "" {
		a, err := s.service.Agent(ctx, who.Principal, b.Agent)
		if err != nil {
			return nil, err
		}
		b.Agent = string(a.ID)
	}
	k, text, err := s.cfg.Keys.IssueKey(ctx, who, auth.Key{
		Name: b.Name, User: b.User, Agent: b.Agent, Roles: b.Roles, Scope: b.Scope, SignedOnly: b.SignedOnly,
		Expires: b.Expires,
	})
	if err != nil {
		return nil, err
	}
	return &issuedKey{IssuedKey{k, text}}, nil
}

func (s *Server) showKey(ctx context.Context, who Identity, in *KeyRef) (*oneKey, error) {
	if s.cfg.Keys == nil {
		return nil, absent("keys")
	}
	k, err := s.cfg.Keys.Key(ctx, who, in.ID)
	if err != nil {
		return nil, err
	}
	return &oneKey{k}, nil
}

type setKey struct {
	KeyRef
	Body auth.KeyState
}

func (s *Server) setKey(ctx context.Context, who Identity, in *setKey) (*oneKey, error) {
	if s.cfg.Keys == nil {
		return nil, absent("keys")
	}
	k, err := s.cfg.Keys.SetKey(ctx, who, in.ID, in.Body)
	if err != nil {
		return nil, err
	}
	return &oneKey{k}, nil
}

type rotateKey struct {
	KeyRef
	Body *struct {
		Overlap haft.Millis `json:"overlap_ms,omitempty" minimum:"0" maximum:"2592000000" doc:"For how long the old text is good too; it ends at once if this is left out."`
	}
}

func (s *Server) rotateKey(ctx context.Context, who Identity, in *rotateKey) (*issuedKey, error) {
	if s.cfg.Keys == nil {
		return nil, absent("keys")
	}
	var overlap time.Duration
	if in.Body != nil {
		overlap = in.Body.Overlap.D()
	}
	k, text, err := s.cfg.Keys.RotateKey(ctx, who, in.ID, overlap)
	if err != nil {
		return nil, err
	}
	return &issuedKey{IssuedKey{k, text}}, nil
}

func (s *Server) removeKey(ctx context.Context, who Identity, in *KeyRef) (*struct{}, error) {
	if s.cfg.Keys == nil {
		return nil, absent("keys")
	}
	return nil, s.cfg.Keys.RemoveKey(ctx, who, in.ID)
}
