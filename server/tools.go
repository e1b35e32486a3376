package server

import (
	"cmp"
	"context"
	"iter"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"haft"
	"haft/internal/modelapi"
)

// Added is a tool, and how the draft changed it.
type Added struct {
	haft.Tool
	IsNew    bool     `json:"created,omitempty" doc:"There was no such tool before."`
	Same     bool     `json:"unchanged,omitempty" doc:"The draft is the version that is current."`
	Waiting  int      `json:"waiting,omitempty" doc:"The number of the version that waits for review."`
	Schema   []string `json:"schema_changes,omitempty" doc:"How the schema differs from that of the version before."`
	Files    []string `json:"file_changes,omitempty" doc:"How the files differ from those of the version before."`
	Kept     []string `json:"kept,omitempty" doc:"The settings that the draft left out and that stay as they were."`
	Warnings []string `json:"warnings,omitempty"`
}

// ToolRef names a tool in a path.
type ToolRef struct {
	Ref string `path:"ref" maxLength:"200" doc:"The name or id of the tool."`
}

type putTool struct {
	IfMatch     string `header:"If-Match" maxLength:"1000" doc:"The ETag of the tool, or the digest that its current version must have."`
	IfNoneMatch string `header:"If-None-Match" maxLength:"1000" doc:"With *, a tool of that name must not exist."`
	Body        haft.Draft
}

type oneTool struct {
	Status int
	ETag   string `header:"ETag"`
	Body   haft.Tool
}

// toolHandlers serve the operations on tools and their versions.
type toolHandlers struct {
	tools  haft.Toolbox
	agents haft.Agents
}

// tools registers the operations on tools and their versions.
func (a *api) tools() {
	g := a.group("tools", haft.ToolsRead, haft.ToolsWrite)
	h := toolHandlers{a.s.service, a.s.service}
	register(g.op("POST /v1/tools", "put-tool", "Add a tool, or a version to the tool of that name").
		answers(http.StatusCreated, http.StatusOK).conditional(), h.putTool)
	forms := g.op("GET /v1/tools", "list-tools", "List tools, in our form or that of a model vendor").
		about("With `format`, `tools` of the answer is what goes into `tools` of a request to that vendor, " +
			"`skipped` has those that it would refuse, and the header Link says whether there is more.")
	forms.body = a.toolForms()
	register(forms, h.listTools)
	register(g.op("GET /v1/tools/{ref}", "show-tool", "Show a tool with its current version").
		answers(0, http.StatusNotModified), h.showTool)
	register(g.op("PATCH /v1/tools/{ref}", "set-tool", "Disable, sort, roll back or review a tool").
		about("With `version`, calls run that version from now on: this is how to roll back.").conditional(), h.setTool)
	register(g.op("DELETE /v1/tools/{ref}", "remove-tool", "Remove a tool with its versions").conditional(),
		h.removeTool)
	register(g.op("GET /v1/tools/{ref}/versions", "list-versions", "List the versions of a tool, newest first"),
		h.listVersions)
	register(g.op("GET /v1/tools/{ref}/versions/{number}", "show-version", "Show a version of a tool"), h.showVersion)
}

// toolForms describes the forms in which tools are listed: Haft's own, or that of a
// vendor.
func (a *api) toolForms() *huma.Schema {
	ours := a.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[Page[haft.Tool]](), true, "PageTool")
	return &huma.Schema{AnyOf: []*huma.Schema{ours, {Type: huma.TypeArray, Items: &huma.Schema{}},
		{Type: huma.TypeObject}}}
}

// etag returns the ETag of a tool.
func etag(t haft.Tool) string { return quote(t.Revision()) }

// matches reports whether a condition names a tool: by its ETag, by the digest of its
// version, or by * for any.
func matches(condition string, t haft.Tool) bool {
	for one := range strings.SplitSeq(condition, ",") {
		one = strings.TrimPrefix(strings.TrimSpace(one), "W/")
		if one == "*" || one == etag(t) || t.Version.Digest != "" && strings.Trim(one, `"`) == t.Version.Digest {
			return true
		}
	}
	return false
}

func (h toolHandlers) putTool(ctx context.Context, who Identity, in *putTool) (*stored[Added], error) {
	d := in.Body
	if in.IfNoneMatch == "*" {
		d.New = true
	}
	if in.IfMatch != "" && in.IfMatch != "*" {
		only := tags(in.IfMatch)
		if len(only) != 1 || d.If != "" && d.If != only[0] {
			return nil, &haft.Error{Code: haft.CodeInvalid,
				Message: "If-Match has one ETag, and if_digest is the same if it is there"}
		}
		d.If = only[0]
	}
	c, err := h.tools.PutTool(ctx, who.Principal, d)
	if err != nil {
		if (in.IfMatch != "" || in.IfNoneMatch != "") && haft.CodeOf(err) == haft.CodeConflict {
			return nil, errPrecondition
		}
		return nil, err
	}
	out := &stored[Added]{
		Status: http.StatusCreated, ETag: etag(c.Tool), Location: "/v1/tools/" + string(c.Tool.ID),
		Body: Added{Tool: c.Tool, IsNew: c.Created, Same: c.Same, Waiting: c.Waiting, Schema: c.Schema,
			Files: c.Files, Kept: c.Kept, Warnings: c.Warnings},
	}
	if c.Same {
		out.Status = http.StatusOK
	}
	return out, nil
}

type listTools struct {
	Paging
	Category string    `query:"category" maxLength:"200"`
	Tag      string    `query:"tag" maxLength:"200"`
	Kind     haft.Kind `query:"kind" enum:"builtin,python,typescript,javascript,bash,mcp"`
	Search   string    `query:"search" maxLength:"400" doc:"Words of name, description, tags and category; the best come first, on one page."`
	After    string    `query:"after" maxLength:"200" doc:"A name: only tools behind it are listed. The cursor of a page does the same."`
	Time     time.Time `query:"after_time" doc:"With after and sort=-updated: when that tool was changed."`
	Disabled bool      `query:"disabled" doc:"List disabled tools too."`
	Enabled  string    `query:"enabled" enum:"true,false" doc:"List only those that are enabled, or only those that are not."`
	Sort     string    `query:"sort" enum:"name,-updated" default:"name" doc:"By name, or those first that were changed last."`
	Agent    string    `query:"agent" maxLength:"200" doc:"List the tools of that agent."`
	Name     []string  `query:"name" maxItems:"100" maxLength:"200" doc:"List only the tools of these names, with commas between."`
	Format   string    `query:"format" enum:"openai,openai-responses,anthropic,gemini,mcp" doc:"Write them in the form of a model vendor."`
	Strict   bool      `query:"strict" doc:"With format: in strict mode, where the vendor has one."`
}

type listedTools struct {
	Link string `header:"Link"`
	Body any
}

func (h toolHandlers) listTools(ctx context.Context, who Identity, in *listTools) (*listedTools, error) {
	p, err := who.As(ctx, h.agents, in.Agent)
	if err != nil {
		return nil, err
	}
	after, err := in.at("tools")
	if err != nil {
		return nil, err
	}
	key := func(t haft.Tool) string { return t.Name }
	if in.Sort == "-updated" {
		key = func(t haft.Tool) string { return strconv.FormatInt(t.Updated.UnixMicro(), 10) + "." + t.Name }
		if after, in.Time, err = splitTime(after, in.Time); err != nil {
			return nil, err
		}
	}
	after = cmp.Or(after, in.After)
	if len(in.Name) > 0 && (in.Search != "" || in.Sort == "-updated") {
		return nil, &haft.Error{Code: haft.CodeInvalid,
			Message: "tools that are named are listed by name, and not searched for"}
	}
	if in.Search != "" && in.Cursor != "" {
		return nil, &haft.Error{Code: haft.CodeInvalid, Message: "a search has one page: ask for more with limit"}
	}
	// A form of a vendor is for a model, which cannot call disabled tools.
	f := haft.ToolFilter{Category: in.Category, Tag: in.Tag, Kind: in.Kind, Search: in.Search, After: after,
		Limit:    in.Limit + 1,
		Disabled: in.Disabled && in.Format == "", Enabled: flag(in.Enabled), Recent: in.Sort == "-updated",
		AfterTime: in.Time}
	if p.Agent != "" {
		f.Limit = 0 // the filter comes before the agent's tools are picked
	}
	if in.Search != "" {
		f.Limit = in.Limit
	}
	list := h.tools.Tools(ctx, p, f)
	if len(in.Name) > 0 {
		list = h.namedTools(ctx, p, in.Name, f)
	}
	page, err := collect(list, in.Paging, "tools", nil, key)
	if err != nil {
		return nil, err
	}
	if in.Format == "" {
		return &listedTools{page.Link, page.Body}, nil
	}
	raw, err := modelapi.RenderTools(in.Format, in.Strict, page.Body.Data)
	if err != nil {
		return nil, err
	}
	return &listedTools{page.Link, raw}, nil
}

// namedTools yields the tools of the given names that fit a filter, ordered by name.
func (h toolHandlers) namedTools(ctx context.Context, p haft.Principal, names []string,
	f haft.ToolFilter) iter.Seq2[haft.Tool, error] {
	return func(yield func(haft.Tool, error) bool) {
		names := slices.Compact(slices.Sorted(slices.Values(names)))
		for _, name := range names {
			if name <= f.After {
				continue
			}
			t, err := h.tools.Tool(ctx, p, name)
			switch {
			case haft.CodeOf(err) == haft.CodeNotFound:
				continue
			case err != nil:
				yield(haft.Tool{}, err)
				return
			case t.Name != name, // it is an id
				f.Category != "" && t.Category != f.Category, f.Tag != "" && !slices.Contains(t.Tags, f.Tag),
				f.Kind != "" && t.Version.Kind != f.Kind, t.Disabled && !f.Disabled && f.Enabled == nil,
				f.Enabled != nil && *f.Enabled == t.Disabled:
				continue
			}
			if !yield(*t, nil) {
				return
			}
		}
	}
}

type showTool struct {
	ToolRef
	IfNoneMatch string `header:"If-None-Match" maxLength:"1000" doc:"An ETag: if it is still that, the answer is 304 without a body."`
}

func (h toolHandlers) showTool(ctx context.Context, who Identity, in *showTool) (*oneTool, error) {
	t, err := h.tools.Tool(ctx, who.Principal, in.Ref)
	if err != nil {
		return nil, err
	}
	out := &oneTool{Status: http.StatusOK, ETag: etag(*t), Body: *t}
	for one := range strings.SplitSeq(in.IfNoneMatch, ",") {
		if one = strings.TrimPrefix(strings.TrimSpace(one), "W/"); one == "*" || one == out.ETag {
			out.Status = http.StatusNotModified
		}
	}
	return out, nil
}

type setTool struct {
	ToolRef
	IfMatch string `header:"If-Match" maxLength:"1000" doc:"The ETag that the tool must have."`
	Body    haft.ToolState
}

func (h toolHandlers) setTool(ctx context.Context, who Identity, in *setTool) (*oneTool, error) {
	revision, err := h.matchRevision(ctx, who, in.Ref, in.IfMatch)
	if err != nil {
		return nil, err
	}
	if revision != "" {
		in.Body.If = revision
	}
	t, err := h.tools.SetTool(ctx, who.Principal, in.Ref, in.Body)
	if err != nil {
		return nil, Condition{IfMatch: in.IfMatch}.failed(err)
	}
	return &oneTool{Status: http.StatusOK, ETag: etag(*t), Body: *t}, nil
}

// matchRevision returns the revision of a tool that meets a condition, so that the write
// can check it again.
func (h toolHandlers) matchRevision(ctx context.Context, who Identity, ref, condition string) (string, error) {
	if condition == "" {
		return "", nil
	}
	t, err := h.tools.Tool(ctx, who.Principal, ref)
	if err != nil {
		return "", err
	}
	if !matches(condition, *t) {
		return "", errPrecondition
	}
	return t.Revision(), nil
}

type removeTool struct {
	ToolRef
	IfMatch string `header:"If-Match" maxLength:"1000" doc:"The ETag that the tool must have."`
}

func (h toolHandlers) removeTool(ctx context.Context, who Identity, in *removeTool) (*struct{}, error) {
	revision, err := h.matchRevision(ctx, who, in.Ref, in.IfMatch)
	if err != nil {
		return nil, err
	}
	return nil, Condition{IfMatch: in.IfMatch}.failed(h.tools.RemoveTool(ctx, who.Principal, in.Ref, revision))
}

type listVersions struct {
	ToolRef
	Paging
}

func (h toolHandlers) listVersions(ctx context.Context, who Identity, in *listVersions) (*Listed[haft.Version], error) {
	before, err := in.number("versions")
	if err != nil {
		return nil, err
	}
	return collect(h.tools.Versions(ctx, who.Principal, in.Ref), in.Paging, "versions",
		func(v haft.Version) bool { return before > 0 && int64(v.Number) >= before },
		func(v haft.Version) string { return strconv.Itoa(v.Number) })
}

type showVersion struct {
	ToolRef
	Number int `path:"number" minimum:"1"`
}

func (h toolHandlers) showVersion(ctx context.Context, who Identity, in *showVersion) (*shown[haft.Version], error) {
	for v, err := range h.tools.Versions(ctx, who.Principal, in.Ref) {
		if err != nil {
			return nil, err
		}
		if v.Number == in.Number {
			return &shown[haft.Version]{v}, nil
		}
	}
	return nil, &haft.Error{Code: haft.CodeNotFound, Message: "there is no such version"}
}
