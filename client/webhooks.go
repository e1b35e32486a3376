package client

import (
	"context"
	"iter"
	"net/http"

	"haft"
)

// Webhooks manages webhooks. It implements [haft.Webhooks].
type Webhooks struct{ api *transport }

var _ haft.Webhooks = (*Webhooks)(nil)

// webhook is a request about a webhook.
func webhook(p haft.Principal, method string, id haft.WebhookID, rest string) query {
	return query{method: method, path: "/v1/webhooks", item: &item{"webhook", string(id), rest}, as: p}
}

// Webhook implements [haft.Webhooks].
func (h *Webhooks) Webhook(ctx context.Context, p haft.Principal, id haft.WebhookID) (*haft.Webhook, error) {
	return get[haft.Webhook](ctx, h.api, webhook(p, http.MethodGet, id, ""))
}

// WebhookList implements [haft.Webhooks].
func (h *Webhooks) WebhookList(ctx context.Context, p haft.Principal) iter.Seq2[haft.Webhook, error] {
	return list[haft.Webhook](ctx, h.api, query{path: "/v1/webhooks", as: p}, 0)
}

// PutWebhook implements [haft.Webhooks].
func (h *Webhooks) PutWebhook(ctx context.Context, p haft.Principal, w haft.Webhook) (*haft.Webhook, string, error) {
	q := query{method: http.MethodPost, path: "/v1/webhooks", as: p}
	if w.ID != "" {
		q = webhook(p, http.MethodPut, w.ID, "")
		q.header = match(w.If)
	}
	q.body = struct {
		URL         string           `json:"url"`
		Description string           `json:"description,omitempty"`
		Types       []haft.EventType `json:"types,omitempty"`
		Tools       []string         `json:"tools,omitempty"`
		Agents      []string         `json:"agents,omitempty"`
		Users       []string         `json:"users,omitempty"`
		Disabled    bool             `json:"disabled,omitempty"`
	}{w.URL, w.Description, w.Types, w.Tools, w.Agents, w.Users, w.Disabled}
	out, err := get[struct {
		haft.Webhook
		Secret string `json:"secret"`
	}](ctx, h.api, q)
	if err != nil {
		return nil, "", err
	}
	return &out.Webhook, out.Secret, nil
}

// RemoveWebhook implements [haft.Webhooks].
func (h *Webhooks) RemoveWebhook(ctx context.Context, p haft.Principal, id haft.WebhookID, revision string) error {
	return h.api.remove(ctx, p, "/v1/webhooks", "webhook", string(id), revision)
}

// DeadLetters implements [haft.WebhookAdmin].
func (h *Webhooks) DeadLetters(ctx context.Context, p haft.Principal, id haft.WebhookID) iter.Seq2[haft.DeadLetter,
	error] {
	return list[haft.DeadLetter](ctx, h.api, webhook(p, http.MethodGet, id, "/dead_letters"), 0)
}

// Redeliver implements [haft.WebhookAdmin].
func (h *Webhooks) Redeliver(ctx context.Context, p haft.Principal, id haft.WebhookID, letter string) (int, error) {
	q := webhook(p, http.MethodPost, id, "/redeliver")
	q.body = struct {
		Letter string `json:"letter,omitempty"`
	}{letter}
	var out struct {
		Delivered int `json:"delivered"`
	}
	err := h.api.read(ctx, q, &out)
	return out.Delivered, err
}
