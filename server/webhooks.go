package server

import (
	"context"
	"iter"
	"net/http"

	"haft"
)

// WebhookBody describes a webhook to write.
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

type newWebhook struct {
	ETag     string `header:"ETag"`
	Location string `header:"Location"`
	Body     NewWebhook
}

// webhookHandlers serve the operations on webhooks and on their dead letters.
type webhookHandlers struct{ webhooks haft.Webhooks }

// webhooks registers the operations on webhooks and on their dead letters.
func (a *api) webhooks() {
	h := webhookHandlers{a.s.cfg.Webhooks}
	g := a.group("webhooks", haft.WebhooksRead, haft.WebhooksWrite).needs(h.webhooks != nil, "webhooks")
	register(g.op("GET /v1/webhooks", "list-webhooks", "List webhooks"),
		func(ctx context.Context, who Identity, in *Paging) (*Listed[haft.Webhook], error) {
			return pageOf(*in, "webhooks", func(w haft.Webhook) string { return string(w.ID) },
				func(string) iter.Seq2[haft.Webhook, error] { return h.webhooks.WebhookList(ctx, who.Principal) })
		})
	register(g.op("POST /v1/webhooks", "add-webhook", "Have events sent to an address").
		about("Each event is sent at least once, those of one call in order, from now on. Requests are signed as "+
			"Standard Webhooks has it: `webhook-id`, `webhook-timestamp` and `webhook-signature`.").
		answers(http.StatusCreated).conflicts(), h.addWebhook)
	register(g.op("GET /v1/webhooks/{id}", "show-webhook", "Show a webhook, and how its deliveries go"),
		func(ctx context.Context, who Identity, in *WebhookRef) (*tagged[haft.Webhook], error) {
			return tag(h.webhooks.Webhook(ctx, who.Principal, in.ID))
		})
	register(g.op("PUT /v1/webhooks/{id}", "put-webhook", "Change a webhook; its secret and its place stay").
		conditional(), h.putWebhook)
	register(g.op("DELETE /v1/webhooks/{id}", "remove-webhook", "Remove a webhook with its dead letters").
		conditional(), h.removeWebhook)
	register(g.op("GET /v1/webhooks/{id}/dead_letters", "list-dead-letters",
		"List what a webhook could not be sent, oldest first"),
		func(ctx context.Context, who Identity, in *deadLetters) (*Listed[haft.DeadLetter], error) {
			return pageOf(in.Paging, "letters", func(l haft.DeadLetter) string { return l.ID },
				func(string) iter.Seq2[haft.DeadLetter, error] {
					return h.webhooks.DeadLetters(ctx, who.Principal, in.ID)
				})
		})
	register(g.op("POST /v1/webhooks/{id}/redeliver", "redeliver",
		"Send dead letters again, now: one, or up to a hundred until one fails").conflicts(), h.redeliver)
}

// webhook makes a webhook of a body.
func (b WebhookBody) webhook(id haft.WebhookID, condition string) haft.Webhook {
	return haft.Webhook{ID: id, URL: b.URL, Description: b.Description, Types: b.Types, Tools: b.Tools,
		Agents: b.Agents, Users: b.Users, Disabled: b.Disabled, If: condition}
}

type addWebhook struct{ Body WebhookBody }

func (h webhookHandlers) addWebhook(ctx context.Context, who Identity, in *addWebhook) (*newWebhook, error) {
	w, secret, err := h.webhooks.PutWebhook(ctx, who.Principal, in.Body.webhook("", ""))
	if err != nil {
		return nil, err
	}
	return &newWebhook{ETag: quote(w.Revision()), Location: "/v1/webhooks/" + string(w.ID),
		Body: NewWebhook{*w, secret}}, nil
}

type putWebhook struct {
	WebhookRef
	Condition
	Body WebhookBody
}

func (h webhookHandlers) putWebhook(ctx context.Context, who Identity, in *putWebhook) (*tagged[haft.Webhook], error) {
	have, err := h.webhooks.Webhook(ctx, who.Principal, in.ID)
	if err != nil {
		return nil, err
	}
	condition, err := in.revision(have.Revision())
	if err != nil {
		return nil, err
	}
	w, _, err := h.webhooks.PutWebhook(ctx, who.Principal, in.Body.webhook(have.ID, condition))
	return tag(w, in.failed(err))
}

type removeWebhook struct {
	WebhookRef
	RemoveIf
}

func (h webhookHandlers) removeWebhook(ctx context.Context, who Identity, in *removeWebhook) (*struct{}, error) {
	return remove(in.RemoveIf,
		func() (*haft.Webhook, error) { return h.webhooks.Webhook(ctx, who.Principal, in.ID) },
		func(revision string) error { return h.webhooks.RemoveWebhook(ctx, who.Principal, in.ID, revision) })
}

type deadLetters struct {
	WebhookRef
	Paging
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

func (h webhookHandlers) redeliver(ctx context.Context, who Identity, in *redeliver) (*redelivered, error) {
	letter := ""
	if in.Body != nil {
		letter = in.Body.Letter
	}
	n, err := h.webhooks.Redeliver(ctx, who.Principal, in.ID, letter)
	if err != nil {
		return nil, err
	}
	out := &redelivered{}
	out.Body.Delivered = n
	return out, nil
}
