package letta

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"haft"
)

// A filter says which tools are wanted.
type filter struct {
	names, ids     []string
	search         string
	types, exclude []string
	only, without  bool // built-in tools
}

// filterOf reads one from a query.
func filterOf(query url.Values) (filter, error) {
	f := filter{
		ids: listParam(query, "tool_ids"), search: strings.ToLower(query.Get("search")),
		types: listParam(query, "tool_types"), exclude: listParam(query, "exclude_tool_types"),
	}
	f.names = append(query["names"], query["name"]...)
	var err error
	if f.only, err = boolParam(query, "return_only_letta_tools"); err != nil {
		return f, err
	}
	if f.without, err = boolParam(query, "exclude_letta_tools"); err != nil {
		return f, err
	}
	return f, checkTypes(slices.Concat(f.types, f.exclude))
}

// checkTypes refuses types that Letta does not have.
func checkTypes(list []string) error {
	for _, t := range list {
		if !slices.Contains(toolTypes(), t) {
			return invalid("Invalid tool_type. Must be one of: " + strings.Join(toolTypes(), ", "))
		}
	}
	return nil
}

// fits reports whether a tool is wanted.
func (f filter) fits(t haft.Tool) bool {
	typ := typeOf(t.Version.Kind)
	of := func(list []string, s string) bool { return len(list) == 0 || slices.Contains(list, s) }
	switch {
	case !of(f.names, t.Name), !of(f.types, typ), !of(f.ids, toolID(t.ID)):
		return false
	case slices.Contains(f.exclude, typ), f.only && typ != typeBuiltin, f.without && typ == typeBuiltin:
		return false
	}
	return strings.Contains(strings.ToLower(t.Name), f.search)
}

// wantedTools returns the tools that are wanted.
func (h toolHandlers) wantedTools(ctx context.Context, p haft.Principal,
	query url.Values) ([]item[haft.ToolID], error) {
	f, err := filterOf(query)
	if err != nil {
		return nil, err
	}
	var all []item[haft.ToolID]
	for t, err := range h.tools.Tools(ctx, p, haft.ToolFilter{}) {
		if err != nil {
			return nil, err
		}
		if f.fits(t) {
			all = append(all, toolItem(t))
		}
	}
	return all, nil
}

func toolItem(t haft.Tool) item[haft.ToolID] { return item[haft.ToolID]{t.Created, string(t.ID), t.ID} }

func (h toolHandlers) listTools(ctx context.Context, q *request) (any, error) {
	query, p := q.URL.Query(), q.who.Principal
	pg, err := paging(query, 50)
	if err != nil {
		return nil, err
	}
	all, err := h.wantedTools(ctx, p, query)
	if err != nil {
		return nil, err
	}
	return h.pageOf(ctx, p, pg, all)
}

// pageOf shows the tools of a page.
func (h toolHandlers) pageOf(ctx context.Context, p haft.Principal, pg page,
	all []item[haft.ToolID]) ([]wireTool, error) {
	part, err := cut(pg, all, func(id string) (item[haft.ToolID], error) {
		t, err := h.find(ctx, p, id)
		if err != nil {
			return item[haft.ToolID]{}, err
		}
		return toolItem(*t), nil
	})
	if err != nil {
		return nil, err
	}
	tools := make([]wireTool, 0, len(part))
	for _, id := range part {
		t, err := h.tools.Tool(ctx, p, string(id))
		if isNotFound(err) {
			continue // since it was listed
		}
		if err != nil {
			return nil, err
		}
		tools = append(tools, h.toWire(ctx, p, *t))
	}
	return tools, nil
}

func (h toolHandlers) countTools(ctx context.Context, q *request) (any, error) {
	all, err := h.wantedTools(ctx, q.who.Principal, q.URL.Query())
	if err != nil {
		return nil, err
	}
	return len(all), nil
}

// baseTools lists the tools that come with the server: they are there for everybody
// and need not be added.
func (h toolHandlers) baseTools(ctx context.Context, q *request) (any, error) {
	tools := []wireTool{}
	for t, err := range h.tools.Tools(ctx, q.who.Principal, haft.ToolFilter{Kind: haft.KindBuiltin}) {
		if err != nil {
			return nil, err
		}
		tools = append(tools, h.toWire(ctx, q.who.Principal, t))
	}
	return tools, nil
}

// searching is a search for tools.
type searching struct {
	Query *string  `json:"query"`
	Mode  *string  `json:"search_mode"`
	Types []string `json:"tool_types"`
	Tags  []string `json:"tags"`
	Limit *int     `json:"limit"`
}

// found is one result of a search.
type found struct {
	Tool   wireTool `json:"tool"`
	Text   *string  `json:"embedded_text"`
	Words  *int     `json:"fts_rank"`
	Vector *int     `json:"vector_rank"`
	Score  float64  `json:"combined_score"`
}

// searchTools finds tools by their words, whatever mode is asked for: nothing is
// embedded here.
func (h toolHandlers) searchTools(ctx context.Context, q *request, b searching) (any, error) {
	if b.Mode != nil && !slices.Contains([]string{"vector", "fts", "hybrid"}, *b.Mode) {
		return nil, unprocessable("body search_mode: expected vector, fts or hybrid")
	}
	limit := 50
	if b.Limit != nil {
		if limit = *b.Limit; limit < 1 || limit > 100 {
			return nil, unprocessable("body limit: expected a number from 1 to 100")
		}
	}
	if err := checkTypes(b.Types); err != nil {
		return nil, err
	}
	f := haft.ToolFilter{}
	if b.Query != nil {
		f.Search, f.Limit = *b.Query, maxPage
	}
	all := []found{}
	for t, err := range h.tools.Tools(ctx, q.who.Principal, f) {
		if err != nil {
			return nil, err
		}
		if !(filter{types: b.Types}).fits(t) || len(b.Tags) > 0 &&
			!slices.ContainsFunc(b.Tags, func(tag string) bool { return slices.Contains(t.Tags, tag) }) {
			continue
		}
		rank := len(all) + 1
		// As Letta scores one list of ranks: reciprocal rank fusion.
		all = append(all, found{Tool: h.toWire(ctx, q.who.Principal, t), Words: &rank, Score: 1 / float64(60+rank)})
		if len(all) == limit {
			break
		}
	}
	return all, nil
}
