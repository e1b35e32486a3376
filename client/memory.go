package client

import (
	"context"
	"net/http"
	"net/url"

	"haft"
)

// Memory is what the agents of a server remember.
type Memory struct{ api *transport }

var (
	_ haft.Memory      = (*Memory)(nil)
	_ haft.BlockSharer = (*Memory)(nil)
	_ haft.Archive     = (*Memory)(nil)
)

// block is a request about a block.
func block(method string, p haft.Principal, id haft.BlockID, rest string) query {
	return query{method: method, path: "/v1/blocks", item: &item{"block", string(id), rest}, as: p}
}

// ofAgent is a request about what an agent has. Parts are behind its name in the path.
func ofAgent(method string, p haft.Principal, agent, kind string, parts ...string) query {
	rest := "/" + kind
	for _, part := range parts {
		rest += "/" + url.PathEscape(part)
	}
	return query{method: method, path: "/v1/agents", item: &item{"agent", agent, rest}, as: p}
}

// AddBlock implements [haft.Memory].
func (m *Memory) AddBlock(ctx context.Context, p haft.Principal, b haft.Block) (*haft.Block, error) {
	return get[haft.Block](ctx, m.api, query{method: http.MethodPost, path: "/v1/blocks", as: p, body: struct {
		Label       string `json:"label"`
		Value       string `json:"value,omitempty"`
		Description string `json:"description,omitempty"`
		Limit       int    `json:"limit,omitempty"`
		ReadOnly    bool   `json:"read_only,omitempty"`
	}{b.Label, b.Value, b.Description, b.Limit, b.ReadOnly}})
}

// Block implements [haft.Memory].
func (m *Memory) Block(ctx context.Context, p haft.Principal, id haft.BlockID) (*haft.Block, error) {
	return get[haft.Block](ctx, m.api, block("", p, id, ""))
}

// Blocks implements [haft.Memory].
func (m *Memory) Blocks(ctx context.Context, p haft.Principal, f haft.BlockFilter) ([]haft.Block, error) {
	return some[haft.Block](ctx, m.api, query{path: "/v1/blocks", as: p, values: params("agent", f.Agent,
		"label", f.Label, "after", string(f.After))}, f.Limit)
}

// ChangeBlock implements [haft.Memory].
func (m *Memory) ChangeBlock(ctx context.Context, p haft.Principal, id haft.BlockID,
	c haft.BlockChange) (*haft.Block, error) {
	q := block(http.MethodPatch, p, id, "")
	q.body = c
	return get[haft.Block](ctx, m.api, q)
}

// RemoveBlock implements [haft.Memory].
func (m *Memory) RemoveBlock(ctx context.Context, p haft.Principal, id haft.BlockID) error {
	return m.api.read(ctx, block(http.MethodDelete, p, id, ""), nil)
}

// AttachBlock implements [haft.BlockSharer].
func (m *Memory) AttachBlock(ctx context.Context, p haft.Principal, agent string, id haft.BlockID) error {
	return m.share(ctx, http.MethodPut, p, agent, id)
}

// DetachBlock implements [haft.BlockSharer].
func (m *Memory) DetachBlock(ctx context.Context, p haft.Principal, agent string, id haft.BlockID) error {
	return m.share(ctx, http.MethodDelete, p, agent, id)
}

// share gives a block to an agent, or takes it.
func (m *Memory) share(ctx context.Context, method string, p haft.Principal, agent string, id haft.BlockID) error {
	if _, err := block("", p, id, "").target(); err != nil {
		return err
	}
	q := ofAgent(method, p, agent, "blocks", string(id))
	q.again = true
	return m.api.read(ctx, q, nil)
}

// BlockAgents implements [haft.BlockSharer].
func (m *Memory) BlockAgents(ctx context.Context, p haft.Principal, id haft.BlockID) ([]haft.AgentID, error) {
	return whole[haft.AgentID](ctx, m.api, block("", p, id, "/agents"))
}

// AddPassage implements [haft.Archive].
func (m *Memory) AddPassage(ctx context.Context, p haft.Principal, agent string, text string,
	tags []string) (*haft.Passage, error) {
	q := ofAgent(http.MethodPost, p, agent, "passages")
	q.body = struct {
		Text string   `json:"text"`
		Tags []string `json:"tags,omitempty"`
	}{text, tags}
	return get[haft.Passage](ctx, m.api, q)
}

// Passages implements [haft.Archive].
func (m *Memory) Passages(ctx context.Context, p haft.Principal, agent string,
	f haft.PassageFilter) ([]haft.Passage, error) {
	q := ofAgent("", p, agent, "passages")
	q.values = params("query", f.Query, "tags", commas(f.Tags), "all_tags", yes(f.AllTags, "true"),
		"since", instant(f.Since), "till", instant(f.Till), "after", string(f.After), "newest", yes(f.Newest, "true"))
	return some[haft.Passage](ctx, m.api, q, f.Limit)
}

// RemovePassage implements [haft.Archive].
func (m *Memory) RemovePassage(ctx context.Context, p haft.Principal, agent string, id haft.PassageID) error {
	if _, err := (query{item: &item{kind: "passage", id: string(id)}}).target(); err != nil {
		return err
	}
	return m.api.read(ctx, ofAgent(http.MethodDelete, p, agent, "passages", string(id)), nil)
}

// PassageTags implements [haft.Archive].
func (m *Memory) PassageTags(ctx context.Context, p haft.Principal, agent string) ([]string, error) {
	return whole[string](ctx, m.api, ofAgent("", p, agent, "passages", "tags"))
}
