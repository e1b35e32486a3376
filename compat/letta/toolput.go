package letta

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"haft"
)

// maxReturn is the largest return_char_limit.
const maxReturn = 1_000_000

// toolCreate describes a tool to add.
type toolCreate struct {
	Source           string          `json:"source_code"`
	SourceType       *string         `json:"source_type"`
	Description      *string         `json:"description"`
	Tags             []string        `json:"tags"`
	Schema           json.RawMessage `json:"json_schema"`
	ArgsSchema       json.RawMessage `json:"args_json_schema"`
	ReturnLimit      *int            `json:"return_char_limit"`
	Pip              *[]wirePackage  `json:"pip_requirements"`
	NPM              *[]wirePackage  `json:"npm_requirements"`
	RequiresApproval *bool           `json:"default_requires_approval"`
	Parallel         *bool           `json:"enable_parallel_execution"`
}

// toolUpdate describes changes of a tool. Nil fields stay as they are.
type toolUpdate struct {
	toolCreate
	Source   *string         `json:"source_code"`
	Name     *string         `json:"name"`
	Tags     *[]string       `json:"tags"`
	Metadata json.RawMessage `json:"metadata_"`
}

// isSet reports whether raw is there and not null.
func isSet(raw json.RawMessage) bool {
	t := bytes.TrimSpace(raw)
	return len(t) > 0 && !bytes.Equal(t, []byte("null"))
}

// kindOf reads a source type.
func kindOf(s string) (haft.Kind, error) {
	switch k := haft.Kind(s); k {
	case haft.KindPython, haft.KindTypeScript, haft.KindJavaScript, haft.KindBash:
		return k, nil
	}
	return "", invalid("Unknown tool source type: it is python or typescript, and here also javascript or bash")
}

// schemaOf reads a json_schema.
func schemaOf(raw json.RawMessage) (*wireSchema, error) {
	if !isSet(raw) {
		return nil, nil
	}
	var s wireSchema
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, unprocessable("body json_schema: expected an object with name, description and parameters")
	}
	if !isSet(s.Parameters) {
		s.Parameters = json.RawMessage(`{"type":"object","properties":{}}`)
	}
	return &s, nil
}

// fill puts what a create and an update share into a draft.
func (b toolCreate) fill(d *haft.Draft) error {
	if b.SourceType != nil {
		kind, err := kindOf(*b.SourceType)
		if err != nil {
			return err
		}
		d.Kind = kind
	}
	s, err := schemaOf(b.Schema)
	if err != nil {
		return err
	}
	if s != nil {
		d.Parameters, d.ArgsSchema = s.Parameters, nil
		if s.Description != "" {
			d.Description = s.Description
		}
		if d.Name == "" && s.Name != "" {
			if !defines(d.Kind, d.Source, s.Name) {
				return errMismatch
			}
			d.Name, d.Function = s.Name, s.Name
		}
	} else if isSet(b.ArgsSchema) {
		d.Parameters, d.ArgsSchema = nil, b.ArgsSchema
	}
	if b.Description != nil && *b.Description != "" {
		d.Description = *b.Description
	}
	if b.ReturnLimit != nil {
		if *b.ReturnLimit < 1 || *b.ReturnLimit > maxReturn {
			return unprocessable("body return_char_limit: expected a number from 1 to %d", maxReturn)
		}
		d.Settings.Output.MaxChars = *b.ReturnLimit
	}
	if b.Pip != nil {
		if d.Needs.Pip, err = names(*b.Pip, "=="); err != nil {
			return err
		}
	}
	if b.NPM != nil {
		if d.Needs.NPM, err = names(*b.NPM, "@"); err != nil {
			return err
		}
	}
	if d.Kind == haft.KindPython { // packages of another language do nothing, as in Letta
		d.Needs.NPM = nil
	} else {
		d.Needs.Pip = nil
	}
	setIf(&d.Settings.RequiresApproval, b.RequiresApproval)
	setIf(&d.Settings.Parallel, b.Parallel)
	return nil
}

// setIf sets a value if there is one.
func setIf[T any](to, value *T) {
	if value != nil {
		*to = *value
	}
}

// defines reports whether a source may define a function, by the same text search as
// Letta. The registry parses the source later.
func defines(kind haft.Kind, source, name string) bool {
	if kind == haft.KindPython {
		return strings.Contains(source, "def "+name)
	}
	return kind == haft.KindBash || strings.Contains(source, name)
}

// errMismatch is the error for a schema and a source that name different tools.
var errMismatch = invalid("the tool's name does not match the name in the JSON schema or in the source code")

// anyValue is the schema of the value of Letta's tools: the annotation of a function does not
// count there.
func anyValue() json.RawMessage { return json.RawMessage("{}") }

// promises reports whether a version says what its value is.
func promises(v haft.Version) bool { return len(v.Returns) > 0 && string(v.Returns) != "{}" }

// createTool adds a tool, or a version to the one of that name: Letta does so for
// POST and for PUT.
func (h toolHandlers) createTool(ctx context.Context, q *request, b toolCreate) (any, error) {
	if strings.TrimSpace(b.Source) == "" {
		return nil, unprocessable("body source_code: it is missing")
	}
	draft := haft.Draft{Kind: haft.KindPython, Source: b.Source, Returns: anyValue()}
	draft.Settings.Network, draft.Settings.Programs = h.settings.Network, h.settings.Programs
	draft.Settings.Letta = true
	if err := b.fill(&draft); err != nil {
		return nil, err
	}
	if err := h.inherit(ctx, q, &draft, b); err != nil {
		return nil, err
	}
	if len(b.Tags) > 0 {
		draft.Tags = b.Tags // no tags keep the stored ones, as in Letta
	}
	change, err := h.tools.PutTool(ctx, q.who.Principal, draft)
	if err != nil {
		return nil, err
	}
	return h.changed(ctx, q, change), nil
}

// changed shows a tool that was written, with the warnings: above all which controls it no
// longer has.
func (h toolHandlers) changed(ctx context.Context, q *request, c *haft.Change) wireTool {
	w := h.toWire(ctx, q.who.Principal, c.Tool)
	if own, ok := w.Metadata["haft"].(map[string]any); ok && len(c.Warnings) > 0 {
		own["warnings"] = c.Warnings
	}
	return w
}

// inherit takes over from the existing tool what a request does not name, such as that a
// person has to approve, or cannot say, such as the hosts that a tool may reach. Only this
// method decides what an upsert keeps.
func (h toolHandlers) inherit(ctx context.Context, q *request, draft *haft.Draft, b toolCreate) error {
	name := draft.Name
	if name == "" && h.derive != nil {
		sig, err := h.derive(ctx, draft.Kind, draft.Source, len(draft.ArgsSchema)+len(draft.Parameters) > 0)
		if err != nil {
			// The registry says better what is wrong. If it takes the source nevertheless, no tool that
			// exists loses what it has.
			draft.New = true
			return nil //nolint:nilerr // see above
		}
		name = sig.Name
	}
	if haft.CheckToolName(name) != nil {
		return nil
	}
	t, err := h.tools.Tool(ctx, q.who.Principal, name)
	if isNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	v, err := h.newest(ctx, q, *t)
	if err != nil {
		return err
	}
	needs := draft.Needs
	draft.Settings, draft.Annotations = v.Settings, v.Annotations
	if promises(v) {
		draft.Returns = nil // as the source says
	} else if len(v.Returns) > 0 {
		draft.Settings.Letta = true // it came through this API
	}
	if draft.Kind == v.Kind { // packages and modules of another language would be of no use
		draft.Needs, draft.File, draft.Files = v.Requirements, v.File, v.Files
	}
	setIf(&draft.Settings.Output.MaxChars, b.ReturnLimit)
	setIf(&draft.Settings.RequiresApproval, b.RequiresApproval)
	setIf(&draft.Settings.Parallel, b.Parallel)
	if b.Pip != nil {
		draft.Needs.Pip = needs.Pip
	}
	if b.NPM != nil {
		draft.Needs.NPM = needs.NPM
	}
	return nil
}

// newest is the version of a tool that the next one follows: the current one, or the
// newest of a tool that waits for its first review.
func (h toolHandlers) newest(ctx context.Context, q *request, t haft.Tool) (haft.Version, error) {
	if t.Version.Number != 0 {
		return t.Version, nil
	}
	for v, err := range h.tools.Versions(ctx, q.who.Principal, string(t.ID)) {
		return v, err
	}
	return t.Version, nil
}

// updateTool changes a tool. Unlike Letta it reads the schema again from a source
// that has changed, unless one is given.
func (h toolHandlers) updateTool(ctx context.Context, q *request) (any, error) {
	var b toolUpdate
	if err := q.lenient(&b); err != nil {
		return nil, err
	}
	t, err := h.pathTool(ctx, q)
	if err != nil {
		return nil, err
	}
	metadata, err := sentMetadata(b.Metadata, *t)
	if err != nil {
		return nil, err
	}
	if t.Version.Kind == haft.KindBuiltin || t.Version.Kind == haft.KindMCP {
		return h.updateForeign(ctx, q, *t, b)
	}
	draft, err := h.redraft(ctx, q, *t, b)
	if err != nil {
		return nil, err
	}
	change, err := h.tools.PutTool(ctx, q.who.Principal, *draft)
	if err != nil {
		return nil, err
	}
	if b.Tags != nil && !slices.Equal(change.Tool.Tags, *b.Tags) || metadata != nil {
		state := haft.ToolState{Tags: b.Tags, Metadata: metadata}
		set, err := h.tools.SetTool(ctx, q.who.Principal, string(t.ID), state)
		if err != nil {
			return nil, err
		}
		change.Tool.Tags, change.Tool.Metadata = set.Tags, set.Metadata
	}
	return h.changed(ctx, q, change), nil
}

// updateForeign changes a tool that was not registered with its source: its tags. What an MCP
// server says of its tools is reviewed, and a client cannot replace it.
func (h toolHandlers) updateForeign(ctx context.Context, q *request, t haft.Tool, b toolUpdate) (any, error) {
	w := h.toWire(ctx, q.who.Principal, t)
	same := (b.Name == nil || *b.Name == w.Name) && (b.Description == nil || *b.Description == w.Description) &&
		(b.ReturnLimit == nil || *b.ReturnLimit == w.ReturnLimit) && (b.Source == nil || *b.Source == "") &&
		(b.RequiresApproval == nil || *b.RequiresApproval == w.RequiresApproval) &&
		(b.Parallel == nil || *b.Parallel == w.Parallel) && !isSet(b.ArgsSchema)
	if !same || b.Tags == nil || t.Version.Kind == haft.KindBuiltin {
		return nil, &haft.Error{Code: haft.CodeDenied,
			Message: "the tool was not registered with its source: of a tool of an MCP server only the tags can be " +
				"changed. A policy can demand approval for it"}
	}
	changed, err := h.tools.SetTool(ctx, q.who.Principal, string(t.ID), haft.ToolState{Tags: b.Tags})
	if err != nil {
		return nil, err
	}
	return h.toWire(ctx, q.who.Principal, *changed), nil
}

// redraft makes a draft of a tool and its changes.
func (h toolHandlers) redraft(ctx context.Context, q *request, t haft.Tool, b toolUpdate) (*haft.Draft, error) {
	v, err := h.newest(ctx, q, t)
	if err != nil {
		return nil, err
	}
	if isSet(b.Schema) && isSet(b.ArgsSchema) {
		return nil, invalid("Cannot provide both json_schema and args_json_schema in update")
	}
	s, err := schemaOf(b.Schema)
	if err != nil {
		return nil, err
	}
	names := []string{""}
	if s != nil {
		names[0] = s.Name
	}
	if b.Name != nil {
		names = append(names, *b.Name)
	}
	for _, name := range names {
		if name != "" && name != t.Name {
			return nil, invalid("a tool keeps its name here, which its versions, calls and policies know it by: " +
				"create one of the other name")
		}
	}
	draft := &haft.Draft{
		Name: t.Name, Kind: v.Kind, Source: v.Source, File: v.File, Files: v.Files, Function: v.Function,
		Description: v.Description, Settings: v.Settings, Needs: v.Requirements, Annotations: v.Annotations,
		Parameters: v.Parameters, Returns: v.Returns, If: t.Version.Digest,
	}
	if b.Source != nil && *b.Source != v.Source {
		if !defines(draft.Kind, *b.Source, v.Function) {
			return nil, errMismatch
		}
		// Fields that are not given are read from the source.
		draft.Source, draft.Parameters = *b.Source, nil
		if promises(v) {
			draft.Returns = nil
		}
		if !h.isOwnDescription(ctx, v) {
			draft.Description = ""
		}
	}
	return draft, b.fill(draft)
}

// isOwnDescription reports whether the description of a version is not that of its source.
func (h toolHandlers) isOwnDescription(ctx context.Context, v haft.Version) bool {
	if h.derive == nil {
		return false
	}
	sig, err := h.derive(ctx, v.Kind, v.Source, len(v.Parameters) > 0)
	return err == nil && sig.Description != v.Description
}

// sentMetadata returns the metadata that a body sets, or nil. What the API adds to it when it shows a tool
// is not kept.
func sentMetadata(raw json.RawMessage, t haft.Tool) (*map[string]json.RawMessage, error) {
	if !isSet(raw) {
		return nil, nil
	}
	var m map[string]json.RawMessage
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, unprocessable("body metadata_: expected an object")
	}
	for name := range ownMetadata(t, "") {
		delete(m, name)
	}
	return &m, nil
}
