package server

import (
	"context"
	"net/http"

	"haft"
)

// WebhookBody is what somebody says of a webhook.
type WebhookBody struct {
	URL         string           `json:"url" maxLength:"2000" doc:"Where to send events, with https."`
	Description string           `json:"description,omitempty" maxLength:"1000"`
	Types       []haft.EventType `json:"types,omitempty" maxItems:"20" doc:"Types of events; all if it is left out."`
	Tools       []string         `json:"tools,omitempty" maxItems:"100" maxLength:"1000" doc:"Names of tools; all if it is left out."`
	Agents      []string         `json:"agents,omitempty" maxItems:"100" maxLength:"1000" doc:"Ids of agents; all if it is left out."`
	Users       []string         `json:"users,omitempty" maxItems:"100" maxLength:"1000" doc:"Users; all if it is left out."`
	Disabled    bool             `json:"disabled,omitempty" doc:"It keeps its place and is sent nothing."`
}

// NewWebhook is a webhook with the secret that is shown this once.
type NewWebhook struct {
	haft.Webhook
	Secret string `json:"secret" doc:"By which a receiver knows us: requests are signed with it as Standard Webhooks has it. It is shown this once."`
}

// WebhookRef names a webhook in a path.
type WebhookRef struct {
	ID haft.WebhookID `path:"id" maxLength:"200"`
}

type (
	oneWebhook struct {
		ETag string `header:"ETag"`
		Body haft.Webhook
	}
	newWebhook struct {
		ETag     string `header:"ETag"`
		Location string `header:"Location"`
		Body     NewWebhook
	}
)

// webhooks are the operations on webhooks and on what they could not be sent.
func (a *api) webhooks() {
	const tag = "webhooks"
	condition := []int{http.StatusConflict, http.StatusPreconditionFailed}
	register(a, operation{method: http.MethodGet, path: "/v1/webhooks", id: "list-webhooks", action: haft.WebhooksRead,
		tag: tag, summary: "List webhooks", errors: []int{http.StatusNotFound}}, a.s.listWebhooks)
	register(a, operation{method: http.MethodPost, path: "/v1/webhooks", id: "add-webhook", action: haft.WebhooksWrite,
		tag: tag, summary: "Have events sent to an address",
		about: "Each event is sent at least once, those of one call in order, from now on. Requests are signed as " +
			"Standard Webhooks has it: `webhook-id`, `webhook-timestamp` and `webhook-signature`.",
		status: http.StatusCreated, errors: []int{http.StatusNotFound, http.StatusConflict}}, a.s.addWebhook)
	register(a, operation{method: http.MethodGet, path: "/v1/webhooks/{id}", id: "show-webhook",
		action: haft.WebhooksRead, tag: tag, summary: "Show a webhook, and how its deliveries go"}, a.s.showWebhook)
	register(a, operation{method: http.MethodPut, path: "/v1/webhooks/{id}", id: "put-webhook",
		action: haft.WebhooksWrite, tag: tag, summary: "Change a webhook; its secret and its place stay",
		errors: condition}, a.s.putWebhook)
	register(a, operation{method: http.MethodDelete, path: "/v1/webhooks/{id}", id: "remove-webhook",
		action: haft.WebhooksWrite, tag: tag, summary: "Remove a webhook with its dead letters", errors: condition},
		a.s.removeWebhook)
	register(a, operation{method: http.MethodGet, path: "/v1/webhooks/{id}/dead_letters", id: "list-dead-letters",
		action: haft.WebhooksRead, tag: tag, summary: "List what a webhook could not be sent, oldest first"},
		a.s.deadLetters)
	register(a, operation{method: http.MethodPost, path: "/v1/webhooks/{id}/redeliver", id: "redeliver",
		action: haft.WebhooksWrite, tag: tag, summary: "Send dead letters again, now: one, or up to a hundred until " +
			"one fails", errors: []int{http.StatusConflict}}, a.s.redeliver)
}

func (s *Server) listWebhooks(ctx context.Context, who Identity, in *Paging) (*listed[haft.Webhook], error) {
	if s.cfg.Webhooks == nil {
		return nil, absent("webhooks")
	}
	after, err := in.at("webhooks")
	if err != nil {
		return nil, err
	}
	return collect(s.cfg.Webhooks.WebhookList(ctx, who.Principal), *in, "webhooks",
		func(w haft.Webhook) bool { return string(w.ID) <= after }, func(w haft.Webhook) string { return string(w.ID) })
}

// webhook makes a webhook of a body.
func (b WebhookBody) webhook(id haft.WebhookID, condition string) haft.Webhook {
	return haft.Webhook{ID: id, URL: b.URL, Description: b.Description, Types: b.Types, Tools: b.Tools,
		Agents: b.Agents, Users: b.Users, Disabled: b.Disabled, If: condition}
}

type addWebhook struct{ Body WebhookBody }

func (s *Server) addWebhook(ctx context.Context, who Identity, in *addWebhook) (*newWebhook, error) {
	if s.cfg.Webhooks == nil {
		return nil, absent("webhooks")
	}
	w, secret, err := s.cfg.Webhooks.PutWebhook(ctx, who.Principal, in.Body.webhook("", ""))
	if err != nil {
		return nil, err
	}
	return &newWebhook{ETag: quote(w.Revision()), Location: "/v1/webhooks/" + string(w.ID),
		Body: NewWebhook{*w, secret}}, nil
}

func (s *Server) showWebhook(ctx context.Context, who Identity, in *WebhookRef) (*oneWebhook, error) {
	if s.cfg.Webhooks == nil {
		return nil, absent("webhooks")
	}
	w, err := s.cfg.Webhooks.Webhook(ctx, who.Principal, in.ID)
	if err != nil {
		return nil, err
	}
	return &oneWebhook{quote(w.Revision()), *w}, nil
}

type putWebhook struct {
	WebhookRef
	Condition
	Body WebhookBody
}

func (s *Server) putWebhook(ctx context.Context, who Identity, in *putWebhook) (*oneWebhook, error) {
	if s.cfg.Webhooks == nil {
		return nil, absent("webhooks")
	}
	have, err := s.cfg.Webhooks.Webhook(ctx, who.Principal, in.ID)
	if err != nil {
		return nil, err
	}
	condition, err := in.revision(have.Revision())
	if err != nil {
		return nil, err
	}
	w, _, err := s.cfg.Webhooks.PutWebhook(ctx, who.Principal, in.Body.webhook(have.ID, condition))
	if err != nil {
		return nil, in.failed(err)
	}
	return &oneWebhook{quote(w.Revision()), *w}, nil
}

type removeWebhook struct {
	WebhookRef
	RemoveIf
}

func (s *Server) removeWebhook(ctx context.Context, who Identity, in *removeWebhook) (*struct{}, error) {
	if s.cfg.Webhooks == nil {
		return nil, absent("webhooks")
	}
	return nil, in.remove(func() (string, error) {
		w, err := s.cfg.Webhooks.Webhook(ctx, who.Principal, in.ID)
		if err != nil {
			return "", err
		}
		return w.Revision(), nil
	}, func(revision string) error { return s.cfg.Webhooks.RemoveWebhook(ctx, who.Principal, in.ID, revision) })
}

type deadLetters struct {
	WebhookRef
	Paging
}

func (s *Server) deadLetters(ctx context.Context, who Identity, in *deadLetters) (*listed[haft.DeadLetter], error) {
	if s.cfg.Webhooks == nil {
		return nil, absent("webhooks")
	}
	after, err := in.at("letters")
	if err != nil {
		return nil, err
	}
	return collect(s.cfg.Webhooks.DeadLetters(ctx, who.Principal, in.ID), in.Paging, "letters",
		func(l haft.DeadLetter) bool { return l.ID <= after }, func(l haft.DeadLetter) string { return l.ID })
}

type redeliver struct {
	WebhookRef
	Body *struct {
		Letter string `json:"letter,omitempty" maxLength:"200" doc:"The id of a dead letter; all if it is left out."`
	}
}

type redelivered struct {
	Body struct {
		Delivered int `json:"delivered" doc:"How many were received, and are not dead any more."`
	}
}

func (s *Server) redeliver(ctx context.Context, who Identity, in *redeliver) (*redelivered, error) {
	if s.cfg.Webhooks == nil {
		return nil, absent("webhooks")
	}
	letter := ""
	if in.Body != nil {
		letter = in.Body.Letter
	}
	n, err := s.cfg.Webhooks.Redeliver(ctx, who.Principal, in.ID, letter)
	if err != nil {
		return nil, err
	}
	out := &redelivered{}
	out.Body.Delivered = n
	return out, nil
}
