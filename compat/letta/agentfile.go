package letta

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"slices"
	"strings"

	"haft"
	"haft/internal/bounds"
)

// The bounds of the file of an agent, besides those of every body.
const (
	maxFileTools  = 100
	maxFileBlocks = haft.MaxBlocks
	maxFileParts  = 20
	maxFileDepth  = 64
)

// An agentFile is an agent with its tools and blocks, in the form that Letta writes from 0.8 on. Messages are not read.
type agentFile struct {
	Agents []fileAgent `json:"agents"`
	Blocks []fileBlock `json:"blocks"`
	Tools  []fileTool  `json:"tools"`
	// What the others stand for is not here: a file that has some is refused.
	Groups  []json.RawMessage `json:"groups"`
	Files   []json.RawMessage `json:"files"`
	Sources []json.RawMessage `json:"sources"`
	Servers []json.RawMessage `json:"mcp_servers"`
	Skills  []json.RawMessage `json:"skills"`
}

// A fileAgent is an agent in a file. Its tools and blocks are named by ids of the file.
type fileAgent struct {
	Name        *string            `json:"name"`
	Description *string            `json:"description"`
	System      *string            `json:"system"`
	Model       *string            `json:"model"`
	LLM         json.RawMessage    `json:"llm_config"`
	Tags        json.RawMessage    `json:"tags"`
	Rules       *[]json.RawMessage `json:"tool_rules"`
	ToolIDs     []string           `json:"tool_ids"`
	BlockIDs    []string           `json:"block_ids"`
	Metadata    *metadata          `json:"metadata"`
	keptFields
	// An older file is one agent, which has these itself.
	Memory []fileBlock `json:"core_memory"`
	Tools  []fileTool  `json:"tools"`
}

// A fileBlock is a block in a file.
type fileBlock struct {
	ID string `json:"id"`
	blockBody
}

// UnmarshalJSON implements [json.Unmarshaler].
func (b *fileBlock) UnmarshalJSON(raw []byte) error {
	var id struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(raw, &id); err != nil {
		return err
	}
	b.ID = id.ID
	return json.Unmarshal(raw, &b.blockBody)
}

// A fileTool is a tool in a file.
type fileTool struct {
	ID   string  `json:"id"`
	Name string  `json:"name"`
	Type *string `json:"tool_type"`
	toolCreate
}

// fileShape bounds the fields of a file.
func fileShape() *bounds.Shape {
	text := func(most int) *bounds.Shape { return &bounds.Shape{Text: most} }
	list := func(items int, of map[string]*bounds.Shape) *bounds.Shape {
		one := &bounds.Shape{}
		for name, s := range of {
			one.Field(name, s)
		}
		return &bounds.Shape{Items: items, Item: one}
	}
	blocks := list(maxFileBlocks, map[string]*bounds.Shape{"value": text(haft.MaxBlockLimit), "label": text(64)})
	tools := list(maxFileTools, map[string]*bounds.Shape{"source_code": text(1 << 20), "name": text(512)})
	agent := map[string]*bounds.Shape{"tools": tools, "core_memory": blocks, "tool_rules": {Items: 100},
		"system": text(400_000), "name": text(512), "tags": {Items: 100}, "block_ids": {Items: maxFileBlocks},
		"tool_ids": {Items: maxFileTools}}
	file := list(1, agent).Item // an older file is an agent itself
	file.Field("agents", list(1, agent))
	file.Field("blocks", blocks)
	return file
}

// readFile reads a file of an agent.
func readFile(raw []byte) (*agentFile, error) {
	limits := bounds.Default()
	limits.Depth = maxFileDepth
	if err := bounds.Check(raw, limits, fileShape()); err != nil {
		return nil, unprocessable("the file: %s", haft.MessageOf(err))
	}
	var f agentFile
	if err := json.Unmarshal(raw, &f); err != nil {
		return nil, unprocessable("the file does not fit: %s", misfit(err))
	}
	if len(f.Agents) == 0 {
		var old fileAgent
		if err := json.Unmarshal(raw, &old); err != nil {
			return nil, unprocessable("the file does not fit: %s", misfit(err))
		}
		if old.Name == nil || old.System == nil {
			return nil, unprocessable("the file has no agent")
		}
		f = agentFile{Agents: []fileAgent{old}, Tools: old.Tools, Blocks: old.Memory}
		for i := range f.Tools {
			f.Tools[i].ID = fmt.Sprint("tool-", i)
			f.Agents[0].ToolIDs = append(f.Agents[0].ToolIDs, f.Tools[i].ID)
		}
		for i := range f.Blocks {
			f.Blocks[i].ID = fmt.Sprint("block-", i)
			f.Agents[0].BlockIDs = append(f.Agents[0].BlockIDs, f.Blocks[i].ID)
		}
	}
	if len(f.Groups)+len(f.Files)+len(f.Sources)+len(f.Servers)+len(f.Skills) > 0 {
		return nil, unprocessable("the file has groups, files, sources, MCP servers or skills, which are not " +
			"imported: export the agent without them")
	}
	return &f, nil
}

// importForm reads the form of an import: the file, and its other fields.
func importForm(q *request) (file []byte, fields map[string]string, err error) {
	kind, params, err := mime.ParseMediaType(q.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/form-data" {
		return nil, nil, unprocessable("expected a form (multipart/form-data) with the file")
	}
	form := multipart.NewReader(bytes.NewReader(q.body), params["boundary"])
	fields = map[string]string{}
	for range maxFileParts {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			if file == nil {
				return nil, nil, unprocessable("the form has no file")
			}
			return file, fields, nil
		}
		if err != nil {
			return nil, nil, unprocessable("the form is not whole")
		}
		text, err := io.ReadAll(part) // of a body that is bounded
		if err != nil {
			return nil, nil, unprocessable("the form is not whole")
		}
		if part.FormName() == "file" {
			file = text
		} else {
			fields[part.FormName()] = string(text)
		}
	}
	return nil, nil, unprocessable("the form has more than %d parts", maxFileParts)
}

// importAgent makes an agent of a file, with its tools and blocks, or nothing at all.
func (h agentHandlers) importAgent(ctx context.Context, q *request) (any, error) {
	raw, fields, err := importForm(q)
	if err != nil {
		return nil, err
	}
	file, err := readFile(raw)
	if err != nil {
		return nil, err
	}
	b, err := file.agent(fields)
	if err != nil {
		return nil, err
	}
	var made undo
	for _, t := range file.Tools {
		if !slices.Contains(file.Agents[0].ToolIDs, t.ID) {
			continue
		}
		name, err := h.importTool(ctx, q, t, fields["override_existing_tools"] == "false", &made)
		if err != nil {
			return nil, made.takeBack(ctx, err)
		}
		b.Tools = append(b.Tools, name)
	}
	a, err := h.addAgent(ctx, q, *b, &made)
	if err != nil {
		return nil, made.takeBack(ctx, err)
	}
	return map[string]any{"agent_ids": []string{agentID(a.ID)}}, nil
}

// agent returns the agent of a file, changed as the fields of the form say.
func (f agentFile) agent(fields map[string]string) (*agentBody, error) {
	a := f.Agents[0]
	b := &agentBody{Description: a.Description, System: a.System, Model: a.Model, LLM: a.LLM, Rules: a.Rules,
		Metadata: a.Metadata, keptFields: a.keptFields}
	name := cmp.Or(fields["override_name"], fields["name"])
	if name == "" && a.Name != nil {
		if name = *a.Name; fields["append_copy_suffix"] != "false" {
			name += "_copy"
		}
	}
	b.Name = &name
	if model := cmp.Or(fields["model"], fields["override_model_handle"]); model != "" {
		b.Model = &model
	}
	var plain []string
	var old []struct{ Tag string }
	if isSet(a.Tags) && json.Unmarshal(a.Tags, &plain) != nil {
		if err := json.Unmarshal(a.Tags, &old); err != nil {
			return nil, unprocessable("the file: tags: expected a list of texts")
		}
		for _, t := range old {
			plain = append(plain, t.Tag)
		}
	}
	b.Tags = &plain
	if text := cmp.Or(fields["secrets"], fields["env_vars_json"]); text != "" {
		if err := json.Unmarshal([]byte(text), &b.Secrets); err != nil {
			return nil, unprocessable("form secrets: expected an object of texts, as JSON")
		}
	}
	for _, id := range a.BlockIDs {
		i := slices.IndexFunc(f.Blocks, func(one fileBlock) bool { return one.ID == id })
		if i < 0 {
			return nil, unprocessable("the file: block_ids: there is no such block in it")
		}
		b.Blocks = append(b.Blocks, f.Blocks[i].blockBody)
	}
	for _, id := range a.ToolIDs {
		if !slices.ContainsFunc(f.Tools, func(one fileTool) bool { return one.ID == id }) {
			return nil, unprocessable("the file: tool_ids: there is no such tool in it")
		}
	}
	return b, nil
}

// importTool adds a tool of a file and returns its name. A tool that exists is used as it is, if it has the same source
// or the client says so: it is never replaced, because other agents have it.
func (h agentHandlers) importTool(ctx context.Context, q *request, t fileTool, keep bool, made *undo) (string, error) {
	if haft.CheckToolName(t.Name) != nil {
		return "", unprocessable("the file: tools: the name of a tool is not one")
	}
	kind := typeCustom
	setIf(&kind, t.Type)
	have, err := h.tools.tools.Tool(ctx, q.who.Principal, t.Name)
	exists := err == nil
	if err != nil && !isNotFound(err) {
		return "", err
	}
	switch {
	case strings.HasPrefix(kind, "letta_") && exists && have.Version.Kind == haft.KindBuiltin:
		return t.Name, nil
	case kind == typeMCP && exists && have.Version.Kind == haft.KindMCP:
		return t.Name, nil
	case strings.HasPrefix(kind, "letta_"):
		return "", unprocessable("the file: tools: this server has no built-in tool %s", plainName(t.Name))
	case kind != typeCustom:
		return "", unprocessable("the file: tools: only tools with their source are imported, and %s is another one: "+
			"add its server, and attach the tool", plainName(t.Name))
	case exists && (keep || have.Version.Source == t.Source):
		return t.Name, nil
	case exists:
		return "", conflict("there is a tool " + plainName(t.Name) + " with another source: change it first, or send " +
			"override_existing_tools=false to use it as it is")
	}
	// The name is that of the file, whatever the source or the schema says, so that no other tool is replaced.
	draft := haft.Draft{Name: t.Name, Function: t.Name, Kind: haft.KindPython, Source: t.Source, Returns: anyValue(),
		Tags: t.Tags, New: true}
	draft.Settings.Network, draft.Settings.Programs = h.tools.settings.Network, h.tools.settings.Programs
	if err := t.fill(&draft); err != nil {
		return "", err
	}
	if s, err := schemaOf(t.Schema); err != nil || s != nil && s.Name != t.Name ||
		!defines(draft.Kind, t.Source, t.Name) {
		return "", cmp.Or(err, errMismatch)
	}
	if _, err := h.tools.tools.PutTool(ctx, q.who.Principal, draft); err != nil {
		return "", err
	}
	*made = append(*made, func(ctx context.Context) error {
		return h.tools.tools.RemoveTool(ctx, q.who.Principal, t.Name, "")
	})
	return t.Name, nil
}
