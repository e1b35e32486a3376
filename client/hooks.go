package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"haft"
)

var (
	_ haft.Webhooks  = (*Client)(nil)
	_ haft.Sandboxes = (*Client)(nil)
	_ haft.Meter     = (*Client)(nil)
	_ haft.Retainer  = (*Client)(nil)
)

// fetched sends a request whose answer is one thing.
func fetched[T any](ctx context.Context, c *Client, q query) (*T, error) {
	out := new(T)
	if err := c.read(ctx, q, out); err != nil {
		return nil, err
	}
	return out, nil
}

// Webhook implements [haft.Webhooks].
func (c *Client) Webhook(ctx context.Context, p haft.Principal, id haft.WebhookID) (*haft.Webhook, error) {
	at, err := part("webhook", string(id))
	if err != nil {
		return nil, err
	}
	return fetched[haft.Webhook](ctx, c, query{path: "/v1/webhooks" + at, as: p})
}

// WebhookList implements [haft.Webhooks].
func (c *Client) WebhookList(ctx context.Context, p haft.Principal) iter.Seq2[haft.Webhook, error] {
	return list[haft.Webhook](ctx, c, query{path: "/v1/webhooks", as: p}, 0)
}

// PutWebhook implements [haft.Webhooks].
func (c *Client) PutWebhook(ctx context.Context, p haft.Principal, w haft.Webhook) (*haft.Webhook, string, error) {
	q := query{method: http.MethodPost, path: "/v1/webhooks", as: p, body: struct {
		URL         string           `json:"url"`
		Description string           `json:"description,omitempty"`
		Types       []haft.EventType `json:"types,omitempty"`
		Tools       []string         `json:"tools,omitempty"`
		Agents      []string         `json:"agents,omitempty"`
		Users       []string         `json:"users,omitempty"`
		Disabled    bool             `json:"disabled,omitempty"`
	}{w.URL, w.Description, w.Types, w.Tools, w.Agents, w.Users, w.Disabled}}
	if w.ID != "" {
		at, err := part("webhook", string(w.ID))
		if err != nil {
			return nil, "", err
		}
		q.method, q.path, q.header = http.MethodPut, "/v1/webhooks"+at, match(w.If)
	}
	out, err := fetched[struct {
		haft.Webhook
		Secret string `json:"secret"`
	}](ctx, c, q)
	if err != nil {
		return nil, "", err
	}
	return &out.Webhook, out.Secret, nil
}

// RemoveWebhook implements [haft.Webhooks].
func (c *Client) RemoveWebhook(ctx context.Context, p haft.Principal, id haft.WebhookID, revision string) error {
	at, err := part("webhook", string(id))
	if err != nil {
		return err
	}
	return c.read(ctx, query{method: http.MethodDelete, path: "/v1/webhooks" + at, as: p, header: match(revision)}, nil)
}

// DeadLetters implements [haft.WebhookAdmin].
func (c *Client) DeadLetters(ctx context.Context, p haft.Principal, id haft.WebhookID) iter.Seq2[haft.DeadLetter,
	error] {
	at, err := part("webhook", string(id))
	if err != nil {
		return failed[haft.DeadLetter](err)
	}
	return list[haft.DeadLetter](ctx, c, query{path: "/v1/webhooks" + at + "/dead_letters", as: p}, 0)
}

// Redeliver implements [haft.WebhookAdmin].
func (c *Client) Redeliver(ctx context.Context, p haft.Principal, id haft.WebhookID, letter string) (int, error) {
	at, err := part("webhook", string(id))
	if err != nil {
		return 0, err
	}
	out, err := fetched[struct {
		Delivered int `json:"delivered"`
	}](ctx, c, query{method: http.MethodPost, path: "/v1/webhooks" + at + "/redeliver", as: p, body: struct {
		Letter string `json:"letter,omitempty"`
	}{letter}})
	if err != nil {
		return 0, err
	}
	return out.Delivered, nil
}

// SandboxConfig implements [haft.Sandboxes].
func (c *Client) SandboxConfig(ctx context.Context, p haft.Principal, ref string) (*haft.SandboxConfig, error) {
	at, err := part("sandbox configuration", ref)
	if err != nil {
		return nil, err
	}
	return fetched[haft.SandboxConfig](ctx, c, query{path: "/v1/sandbox_configs" + at, as: p})
}

// SandboxConfigs implements [haft.Sandboxes].
func (c *Client) SandboxConfigs(ctx context.Context, p haft.Principal) iter.Seq2[haft.SandboxConfig, error] {
	return list[haft.SandboxConfig](ctx, c, query{path: "/v1/sandbox_configs", as: p}, 0)
}

// PutSandboxConfig implements [haft.Sandboxes].
func (c *Client) PutSandboxConfig(ctx context.Context, p haft.Principal,
	s haft.SandboxConfig) (*haft.SandboxConfig, error) {
	if err := s.Type.Check(); err != nil {
		return nil, err
	}
	return fetched[haft.SandboxConfig](ctx, c, query{method: http.MethodPut,
		path: "/v1/sandbox_configs/" + string(s.Type), as: p, header: match(s.If), body: struct {
			Description string            `json:"description,omitempty"`
			Limits      haft.Limits       `json:"limits,omitzero"`
			Network     []string          `json:"network,omitempty"`
			Needs       haft.Requirements `json:"requirements,omitzero"`
		}{s.Description, s.Limits, s.Network, s.Needs}})
}

// RemoveSandboxConfig implements [haft.Sandboxes].
func (c *Client) RemoveSandboxConfig(ctx context.Context, p haft.Principal, ref, revision string) error {
	at, err := part("sandbox configuration", ref)
	if err != nil {
		return err
	}
	return c.read(ctx, query{method: http.MethodDelete, path: "/v1/sandbox_configs" + at, as: p,
		header: match(revision)}, nil)
}

// Usage implements [haft.Meter].
func (c *Client) Usage(ctx context.Context, p haft.Principal, q haft.UsageQuery) ([]haft.UsageSum, error) {
	v := url.Values{}
	set(v, "tool", q.Tool)
	set(v, "user", q.User)
	set(v, "agent", q.Agent)
	for name, t := range map[string]time.Time{"from": q.From, "until": q.Until} {
		if !t.IsZero() {
			v.Set(name, t.Format(time.RFC3339Nano))
		}
	}
	by := make([]string, len(q.By))
	for i, b := range q.By {
		by[i] = string(b)
	}
	set(v, "by", strings.Join(by, ","))
	if q.Limit > 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	out, err := fetched[struct {
		Data []haft.UsageSum `json:"data"`
	}](ctx, c, query{path: "/v1/usage", values: v, as: p})
	if err != nil {
		return nil, err
	}
	return out.Data, nil
}

// Retention implements [haft.Retainer].
func (c *Client) Retention(ctx context.Context, p haft.Principal, org string) (*haft.Kept, error) {
	v := url.Values{}
	set(v, "org", org)
	return fetched[haft.Kept](ctx, c, query{path: "/v1/retention", values: v, as: p})
}

// SetRetention implements [haft.Retainer].
func (c *Client) SetRetention(ctx context.Context, p haft.Principal, org string, r haft.Retention) (*haft.Kept, error) {
	v := url.Values{}
	set(v, "org", org)
	return fetched[haft.Kept](ctx, c, query{method: http.MethodPut, path: "/v1/retention", values: v, as: p, body: r})
}
