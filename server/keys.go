package server

import (
	"context"
	"iter"
	"net/http"
	"time"

	"haft"
	"haft/internal/auth"
)

// NewKey describes an API key to make.
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

// keyHandlers serve the operations on API keys.
type keyHandlers struct {
	keys   Keys
	agents haft.Agents
}

// keys registers the operations on API keys.
func (a *api) keys() {
	h := keyHandlers{a.s.cfg.Keys, a.s.service}
	g := a.group("keys", haft.KeysRead, haft.KeysWrite).needs(h.keys != nil, "keys")
	register(g.op("GET /v1/keys", "list-keys", "List the API keys of the organisation, without their texts"),
		func(ctx context.Context, who Identity, in *Paging) (*Listed[auth.Key], error) {
			return pageOf(*in, "keys", func(k auth.Key) string { return k.ID },
				func(after string) iter.Seq2[auth.Key, error] { return h.keys.Keys(ctx, who, after) })
		})
	register(g.op("POST /v1/keys", "issue-key", "Make an API key; its text is shown this once").
		about("A key is never more than the credential that it is made with.").answers(http.StatusCreated), h.issueKey)
	register(g.op("GET /v1/keys/{id}", "show-key", "Show an API key, without its text"),
		func(ctx context.Context, who Identity, in *KeyRef) (*shown[auth.Key], error) {
			k, err := h.keys.Key(ctx, who, in.ID)
			return &shown[auth.Key]{k}, err
		})
	register(g.op("PATCH /v1/keys/{id}", "set-key", "Rename or disable an API key, or change when it expires").
		conflicts(), func(ctx context.Context, who Identity, in *setKey) (*shown[auth.Key], error) {
		k, err := h.keys.SetKey(ctx, who, in.ID, in.Body)
		return &shown[auth.Key]{k}, err
	})
	register(g.op("POST /v1/keys/{id}/rotate", "rotate-key", "Give an API key a new text, which is shown this once").
		conflicts(), h.rotateKey)
	register(g.op("DELETE /v1/keys/{id}", "remove-key", "Remove an API key; it is refused from then on"),
		func(ctx context.Context, who Identity, in *KeyRef) (*struct{}, error) {
			return nil, h.keys.RemoveKey(ctx, who, in.ID)
		})
}

type newKey struct{ Body NewKey }

func (h keyHandlers) issueKey(ctx context.Context, who Identity, in *newKey) (*shown[IssuedKey], error) {
	b := in.Body
	if b.Agent != "" {
		a, err := h.agents.Agent(ctx, who.Principal, b.Agent)
		if err != nil {
			return nil, err
		}
		b.Agent = string(a.ID)
	}
	k, text, err := h.keys.IssueKey(ctx, who, auth.Key{
		Name: b.Name, User: b.User, Agent: b.Agent, Roles: b.Roles, Scope: b.Scope, SignedOnly: b.SignedOnly,
		Expires: b.Expires,
	})
	return &shown[IssuedKey]{IssuedKey{k, text}}, err
}

type setKey struct {
	KeyRef
	Body auth.KeyState
}

type rotateKey struct {
	KeyRef
	Body *struct {
		Overlap haft.Millis `json:"overlap_ms,omitempty" minimum:"0" maximum:"2592000000" doc:"For how long the old text is good too; it ends at once if this is left out."`
	}
}

func (h keyHandlers) rotateKey(ctx context.Context, who Identity, in *rotateKey) (*shown[IssuedKey], error) {
	var overlap time.Duration
	if in.Body != nil {
		overlap = in.Body.Overlap.D()
	}
	k, text, err := h.keys.RotateKey(ctx, who, in.ID, overlap)
	return &shown[IssuedKey]{IssuedKey{k, text}}, err
}
