package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"

	"haft"
)

// defaultSearch is how many tools a search gives that does not say.
const defaultSearch = 100

// Tool implements [haft.ToolReader].
func (c *Client) Tool(ctx context.Context, p haft.Principal, ref string) (*haft.Tool, error) {
	return get[haft.Tool](ctx, c.api, query{path: "/v1/tools", item: &item{"tool", ref, ""}, as: p})
}

// Tools implements [haft.ToolReader].
func (c *Client) Tools(ctx context.Context, p haft.Principal, f haft.ToolFilter) iter.Seq2[haft.Tool, error] {
	limit := f.Limit
	if f.Search != "" && limit <= 0 {
		limit = defaultSearch
	}
	return list[haft.Tool](ctx, c.api, query{path: "/v1/tools", as: p, values: params(
		"category", f.Category, "tag", f.Tag, "kind", string(f.Kind), "search", f.Search, "after", f.After,
		"disabled", yes(f.Disabled, "true"), "enabled", either(f.Enabled), "sort", yes(f.Recent, "-updated"),
		"after_time", instant(f.AfterTime))}, limit)
}

// Versions implements [haft.ToolReader].
func (c *Client) Versions(ctx context.Context, p haft.Principal, ref string) iter.Seq2[haft.Version, error] {
	return list[haft.Version](ctx, c.api, query{path: "/v1/tools", item: &item{"tool", ref, "/versions"}, as: p}, 0)
}

// PutTool implements [haft.Toolbox].
func (c *Client) PutTool(ctx context.Context, p haft.Principal, d haft.Draft) (*haft.Change, error) {
	out, err := get[struct {
		haft.Tool
		Created  bool     `json:"created"`
		Same     bool     `json:"unchanged"`
		Waiting  int      `json:"waiting"`
		Schema   []string `json:"schema_changes"`
		Files    []string `json:"file_changes"`
		Kept     []string `json:"kept"`
		Warnings []string `json:"warnings"`
	}](ctx, c.api, query{method: http.MethodPost, path: "/v1/tools", as: p, body: d})
	if err != nil {
		return nil, err
	}
	return &haft.Change{Tool: out.Tool, Created: out.Created, Same: out.Same, Waiting: out.Waiting, Schema: out.Schema,
		Files: out.Files, Kept: out.Kept, Warnings: out.Warnings}, nil
}

// SetTool implements [haft.Toolbox].
func (c *Client) SetTool(ctx context.Context, p haft.Principal, ref string, s haft.ToolState) (*haft.Tool, error) {
	return get[haft.Tool](ctx, c.api, query{method: http.MethodPatch, path: "/v1/tools", item: &item{"tool", ref, ""},
		as: p, body: s})
}

// RemoveTool implements [haft.Toolbox].
func (c *Client) RemoveTool(ctx context.Context, p haft.Principal, ref, revision string) error {
	return c.api.remove(ctx, p, "/v1/tools", "tool", ref, revision)
}

// remove removes an object, if it has a revision; "" means any.
func (t *transport) remove(ctx context.Context, p haft.Principal, path, kind, ref, revision string) error {
	return t.read(ctx, query{method: http.MethodDelete, path: path, item: &item{kind, ref, ""}, as: p,
		header: match(revision)}, nil)
}

// Agent implements [haft.Agents].
func (c *Client) Agent(ctx context.Context, p haft.Principal, ref string) (*haft.Agent, error) {
	return get[haft.Agent](ctx, c.api, query{path: "/v1/agents", item: &item{"agent", ref, ""}, as: p})
}

// AgentList implements [haft.Agents].
func (c *Client) AgentList(ctx context.Context, p haft.Principal, f haft.AgentFilter) iter.Seq2[haft.Agent, error] {
	return list[haft.Agent](ctx, c.api, query{path: "/v1/agents", as: p, values: params("tool", f.Tool,
		"prefix", f.Prefix, "after", f.After, "enabled", either(f.Enabled))}, f.Limit)
}

// PutAgent implements [haft.Agents].
func (c *Client) PutAgent(ctx context.Context, p haft.Principal, a haft.Agent) (*haft.Agent, error) {
	if a.Name == "" || a.Name == "." || a.Name == ".." {
		return nil, invalid("an agent needs a name")
	}
	return get[haft.Agent](ctx, c.api, query{method: http.MethodPut, path: "/v1/agents",
		item: &item{"agent", a.Name, ""}, as: p, body: struct {
			Title        string            `json:"title,omitempty"`
			Description  string            `json:"description,omitempty"`
			Instructions string            `json:"instructions,omitempty"`
			Model        string            `json:"model,omitempty"`
			Tags         []string          `json:"tags,omitempty"`
			Tools        []string          `json:"tools,omitempty"`
			Workspace    string            `json:"workspace,omitempty"`
			Env          map[string]string `json:"env,omitempty"`
			Rules        []haft.ToolRule   `json:"tool_rules,omitempty"`
			Disabled     bool              `json:"disabled,omitempty"`
			If           string            `json:"if_revision,omitempty"`

			Metadata map[string]json.RawMessage `json:"metadata,omitempty"`
		}{a.Title, a.Description, a.Instructions, a.Model, a.Tags, a.Tools, a.Workspace, a.Env, a.Rules, a.Disabled,
			a.If, a.Metadata}})
}

// RemoveAgent implements [haft.Agents].
func (c *Client) RemoveAgent(ctx context.Context, p haft.Principal, ref, revision string) error {
	return c.api.remove(ctx, p, "/v1/agents", "agent", ref, revision)
}
