package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"time"

	"haft"
)

// defaultSearch is how many tools a search gives that does not say.
const defaultSearch = 100

// Tool implements [haft.ToolReader].
func (c *Client) Tool(ctx context.Context, p haft.Principal, ref string) (*haft.Tool, error) {
	return c.tool(ctx, query{as: p}, ref)
}

// tool sends a request about a tool whose answer is the tool.
func (c *Client) tool(ctx context.Context, q query, ref string) (*haft.Tool, error) {
	at, err := part("tool", ref)
	if err != nil {
		return nil, err
	}
	q.path = "/v1/tools" + at
	out := &haft.Tool{}
	if err := c.read(ctx, q, out); err != nil {
		return nil, err
	}
	return out, nil
}

// Tools implements [haft.ToolReader].
func (c *Client) Tools(ctx context.Context, p haft.Principal, f haft.ToolFilter) iter.Seq2[haft.Tool, error] {
	v := url.Values{}
	set(v, "category", f.Category)
	set(v, "tag", f.Tag)
	set(v, "kind", string(f.Kind))
	set(v, "search", f.Search)
	set(v, "after", f.After)
	if f.Disabled {
		v.Set("disabled", "true")
	}
	setBool(v, "enabled", f.Enabled)
	if f.Recent {
		v.Set("sort", "-updated")
	}
	if !f.AfterTime.IsZero() {
		v.Set("after_time", f.AfterTime.Format(time.RFC3339Nano))
	}
	limit := f.Limit
	if f.Search != "" && limit <= 0 {
		limit = defaultSearch
	}
	return list[haft.Tool](ctx, c, query{path: "/v1/tools", values: v, as: p}, limit)
}

// Versions implements [haft.ToolReader].
func (c *Client) Versions(ctx context.Context, p haft.Principal, ref string) iter.Seq2[haft.Version, error] {
	at, err := part("tool", ref)
	if err != nil {
		return failed[haft.Version](err)
	}
	return list[haft.Version](ctx, c, query{path: "/v1/tools" + at + "/versions", as: p}, 0)
}

// PutTool implements [haft.Toolbox].
func (c *Client) PutTool(ctx context.Context, p haft.Principal, d haft.Draft) (*haft.Change, error) {
	var out struct {
		haft.Tool
		Created  bool     `json:"created"`
		Same     bool     `json:"unchanged"`
		Waiting  int      `json:"waiting"`
		Schema   []string `json:"schema_changes"`
		Warnings []string `json:"warnings"`
	}
	if err := c.read(ctx, query{method: http.MethodPost, path: "/v1/tools", as: p, body: d}, &out); err != nil {
		return nil, err
	}
	return &haft.Change{Tool: out.Tool, Created: out.Created, Same: out.Same, Waiting: out.Waiting, Schema: out.Schema,
		Warnings: out.Warnings}, nil
}

// SetTool implements [haft.Toolbox].
func (c *Client) SetTool(ctx context.Context, p haft.Principal, ref string, s haft.ToolState) (*haft.Tool, error) {
	return c.tool(ctx, query{method: http.MethodPatch, as: p, body: s}, ref)
}

// RemoveTool implements [haft.Toolbox].
func (c *Client) RemoveTool(ctx context.Context, p haft.Principal, ref, revision string) error {
	at, err := part("tool", ref)
	if err != nil {
		return err
	}
	return c.read(ctx, query{method: http.MethodDelete, path: "/v1/tools" + at, as: p, header: match(revision)}, nil)
}
