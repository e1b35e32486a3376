package letta

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"haft"
)

// toolHandlers serve the routes of tools.
type toolHandlers struct {
	tools    haft.Toolbox
	derive   deriver // may be nil
	settings Settings
}

// A wireTool is a tool as Letta's clients know it.
type wireTool struct {
	ID               string          `json:"id"`
	Type             string          `json:"tool_type"`
	Description      string          `json:"description"`
	SourceType       string          `json:"source_type"`
	Name             string          `json:"name"`
	Tags             []string        `json:"tags"`
	Source           *string         `json:"source_code"`
	Schema           *wireSchema     `json:"json_schema"`
	ArgsSchema       json.RawMessage `json:"args_json_schema"`
	ReturnLimit      int             `json:"return_char_limit"`
	Pip              []wirePackage   `json:"pip_requirements"`
	NPM              []wirePackage   `json:"npm_requirements"`
	RequiresApproval bool            `json:"default_requires_approval"`
	Parallel         bool            `json:"enable_parallel_execution"`
	CreatedBy        *string         `json:"created_by_id"`
	UpdatedBy        *string         `json:"last_updated_by_id"`
	Metadata         map[string]any  `json:"metadata_"`
	Project          *string         `json:"project_id"`
}

// A wireSchema is a tool as a model sees it.
type wireSchema struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

// A wirePackage is a package that a tool needs.
type wirePackage struct {
	Name    string  `json:"name"`
	Version *string `json:"version"`
}

// The types of tools in Letta that Haft has.
const (
	typeCustom  = "custom"
	typeBuiltin = "letta_builtin"
	typeMCP     = "external_mcp"
)

// toolTypes are all that Letta has.
func toolTypes() []string {
	return []string{
		typeCustom, "letta_core", "letta_memory_core", "letta_multi_agent_core", "letta_sleeptime_core",
		"letta_voice_sleeptime_core", typeBuiltin, "letta_files_core", "external_langchain", "external_composio",
		typeMCP,
	}
}

// typeOf is Letta's word for a kind.
func typeOf(k haft.Kind) string {
	switch k {
	case haft.KindBuiltin:
		return typeBuiltin
	case haft.KindMCP:
		return typeMCP
	}
	return typeCustom
}

// toWire converts a tool. If it waits for its first review it has no version yet; then the
// waiting version is shown.
func (h toolHandlers) toWire(ctx context.Context, p haft.Principal, t haft.Tool) wireTool {
	state := ""
	if t.Version.Number == 0 {
		for v, err := range h.tools.Versions(ctx, p, string(t.ID)) {
			if err == nil {
				t.Version, state = v, string(v.Review.State)
			}
			break
		}
	}
	v := t.Version
	w := wireTool{
		ID: toolID(t.ID), Type: typeOf(v.Kind), Description: v.Description, SourceType: "json", Name: t.Name,
		Tags:        []string{},
		ReturnLimit: haft.DefaultMaxChars, Pip: packages(v.Requirements.Pip, "=="),
		NPM:              packages(v.Requirements.NPM, "@"),
		RequiresApproval: v.Settings.RequiresApproval, Parallel: v.Settings.Parallel,
	}
	w.Tags = append(w.Tags, t.Tags...)
	if v.Source != "" && readsTools(p) {
		w.Source, w.SourceType = &v.Source, string(v.Kind)
	}
	if v.Kind == haft.KindBuiltin {
		w.SourceType = "python" // Letta's own are
	}
	if len(v.Parameters) > 0 {
		w.Schema = &wireSchema{Name: t.Name, Description: v.Description, Parameters: v.Parameters}
	}
	if n := v.Settings.Output.MaxChars; n > 0 {
		w.ReturnLimit = n
	}
	if v.Author != "" && t.Org != "" {
		by := digestID(userWord, t.Org, v.Author)
		w.CreatedBy, w.UpdatedBy = h.createdBy(ctx, p, t, &by), &by
	}
	w.Metadata = ownMetadata(t, state)
	for name, value := range t.Metadata {
		if _, own := w.Metadata[name]; !own {
			w.Metadata[name] = value
		}
	}
	return w
}

// readsTools reports whether a credential is for tools, and not only for agents that have them.
func readsTools(p haft.Principal) bool {
	return p.Actions == nil || slices.ContainsFunc(p.Actions, func(a haft.Action) bool {
		return a == haft.ToolsRead || a == haft.ToolsWrite || a == haft.AllActions
	})
}

// createdBy returns who wrote the first version of a tool, or by.
func (h toolHandlers) createdBy(ctx context.Context, p haft.Principal, t haft.Tool, by *string) *string {
	if t.Version.Number <= 1 {
		return by
	}
	author := ""
	for v, err := range h.tools.Versions(ctx, p, string(t.ID)) {
		if err != nil {
			return by
		}
		author = v.Author // the first one is the last that is listed
	}
	if author == "" {
		return by
	}
	first := digestID(userWord, t.Org, author)
	return &first
}

// ownMetadata returns what Haft adds to Letta's fields of a tool.
func ownMetadata(t haft.Tool, state string) map[string]any {
	own := map[string]any{"id": t.ID, "version": t.Version.Number, "digest": t.Version.Digest}
	if state == "" {
		state = string(t.Version.Review.State)
	}
	if state != "" {
		own["review"] = state
	}
	_, hash, _ := strings.Cut(t.Version.Digest, ":")
	all := map[string]any{"tool_hash": hash[:min(12, len(hash))], "haft": own}
	if v := t.Version; v.Kind == haft.KindMCP {
		reasons := []string{}
		for _, r := range v.Health.Reasons {
			reasons = append(reasons, r.String())
		}
		all["mcp"] = map[string]any{"server_name": v.Server}
		all["mcp:SCHEMA_STATUS"], all["mcp:SCHEMA_WARNINGS"] = v.Health.Status, reasons
	}
	return all
}

// packages splits requirements into names and versions.
func packages(list []string, separator string) []wirePackage {
	var all []wirePackage
	for _, p := range list {
		one := wirePackage{Name: p}
		// A scope of npm begins with @.
		if i := strings.Index(p[min(1, len(p)):], separator); i >= 0 {
			version := strings.TrimSpace(p[1+i+len(separator):])
			one.Name, one.Version = strings.TrimSpace(p[:1+i]), &version
		} else if i := strings.IndexAny(p, "<>=!~;[ "); i > 0 && separator == "==" {
			version := strings.TrimSpace(p[i:])
			one.Name, one.Version = p[:i], &version
		}
		all = append(all, one)
	}
	return all
}

// names is the reverse of packages. A version is a version or a range, and nothing else that an
// installer would understand.
func names(list []wirePackage, separator string) ([]string, error) {
	all := make([]string, 0, len(list))
	for _, p := range list {
		if p.Version != nil && strings.ContainsFunc(*p.Version, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') &&
				!strings.ContainsRune(".*+!_-<>=~^|, ", r)
		}) {
			return nil, unprocessable("body requirements: a version is one, or a range of them")
		}
		switch {
		case p.Version == nil || *p.Version == "":
			all = append(all, p.Name)
		case separator == "==" && strings.ContainsAny((*p.Version)[:1], "<>=!~"):
			all = append(all, p.Name+*p.Version)
		default:
			all = append(all, p.Name+separator+*p.Version)
		}
	}
	return all, nil
}

// find returns the tool that a path or a list names by Letta's id.
func (h toolHandlers) find(ctx context.Context, p haft.Principal, id string) (*haft.Tool, error) {
	ours, isMade, err := readID(toolWord, toolPrefix, id)
	if err != nil {
		return nil, err
	}
	if isMade {
		if ours, err = h.listed(ctx, p, id); err != nil {
			return nil, err
		}
	}
	t, err := h.tools.Tool(ctx, p, ours)
	if isNotFound(err) {
		return nil, errNoTool
	}
	return t, err
}

// listed returns the id of a tool whose id of Letta's is made of a digest: built-in tools have ids of another form, and
// so have tools of older versions of Haft.
func (h toolHandlers) listed(ctx context.Context, p haft.Principal, id string) (string, error) {
	for t, err := range h.tools.Tools(ctx, p, haft.ToolFilter{Disabled: true}) {
		if err != nil {
			return "", err
		}
		if toolID(t.ID) == id {
			return string(t.ID), nil
		}
	}
	return "", errNoTool
}

// errNoTool is the error for an id of no tool.
var errNoTool = notFound("there is no tool with that id")

// pathTool is the tool that the path names.
func (h toolHandlers) pathTool(ctx context.Context, q *request) (*haft.Tool, error) {
	return h.find(ctx, q.who.Principal, q.PathValue("tool"))
}

func (h toolHandlers) showTool(ctx context.Context, q *request, t haft.Tool) (any, error) {
	return h.toWire(ctx, q.who.Principal, t), nil
}

func (h toolHandlers) deleteTool(ctx context.Context, q *request, t haft.Tool) (any, error) {
	return nil, h.tools.RemoveTool(ctx, q.who.Principal, string(t.ID), "")
}
