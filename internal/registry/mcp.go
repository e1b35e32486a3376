package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"haft"
	"haft/internal/store"
	"haft/schema"
)

// serverTag is the tag of a server's tools.
func serverTag(server string) string { return "mcp:" + server }

// Sync updates the tools of an MCP server to what the server lists.
//
// A tool that is new or changed waits for a person unless accept is set: otherwise a
// server could change a tool after a person accepted it. The accepted version stays
// callable. A tool with hidden characters always waits, and shows them. Tools that are
// no longer listed are removed; those that cannot be called are in the server's Invalid.
//
// The Server of the change is to be stored.
func (r *Registry) Sync(ctx context.Context, p haft.Principal, s haft.MCPServer, l haft.MCPListing,
	accept bool) (*haft.MCPChange, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	cost, err := checkList(l)
	if err != nil {
		return nil, err
	}
	y := &syncing{r: r, p: p, server: s, accept: accept, done: &haft.MCPChange{}, listed: map[string]bool{}}
	ready, err := y.prepare(ctx, l.Tools, cost)
	if err != nil {
		return nil, err
	}
	defer r.writes.lock(p.Org)()
	for _, t := range ready {
		if err := y.tool(ctx, t); err != nil {
			return nil, err
		}
	}
	if err := y.prune(ctx, func(name string) bool { return y.listed[name] }); err != nil {
		return nil, err
	}
	s.State = haft.MCPState{
		Listed: now(), Listing: l.Digest(), Protocol: l.Protocol, Title: visible(l.Title), Tools: len(y.listed),
		Invalid: slices.Concat(l.Problems, y.invalid),
	}
	if len(s.State.Invalid) > maxFindings {
		s.State.Invalid = s.State.Invalid[:maxFindings]
	}
	for i := range s.State.Invalid {
		s.State.Invalid[i].Tool = visible(s.State.Invalid[i].Tool)
	}
	y.done.Server = s
	return y.done, nil
}

// Unsync calls remove with the tools of a server, while nothing else writes tools of the
// organisation, and returns their names.
func (r *Registry) Unsync(ctx context.Context, p haft.Principal, s haft.MCPServer,
	remove func(tools []haft.ToolID) error) ([]string, error) {
	defer r.writes.lock(p.Org)()
	y := &syncing{r: r, p: p, server: s}
	list, err := y.tools(ctx)
	if err != nil {
		return nil, err
	}
	var ids []haft.ToolID
	var names []string
	for _, t := range list {
		ids, names = append(ids, t.ID), append(names, t.Name)
	}
	err = remove(ids)
	for _, t := range list { // also if it failed: that may be after it was done
		r.cache.forget(p.Org, t.ID, t.Name)
	}
	if err != nil {
		return nil, err
	}
	return names, nil
}

// syncing is the state of one Sync.
type syncing struct {
	r       *Registry
	p       haft.Principal
	server  haft.MCPServer
	accept  bool
	done    *haft.MCPChange
	listed  map[string]bool // by our name
	invalid []haft.MCPProblem
}

// refuse notes that a tool cannot be called.
func (y *syncing) refuse(t haft.MCPTool, reasons ...string) {
	y.invalid = append(y.invalid, haft.MCPProblem{Tool: t.Name, Reasons: reasons})
}

// prepared is a tool of the list with the version that was made of it.
type prepared struct {
	tool    haft.MCPTool
	name    string // ours
	version haft.Version
}

// prepare compiles the tools of a list. It takes the most time of all, and holds no
// lock; cost bounds it.
func (y *syncing) prepare(ctx context.Context, tools []haft.MCPTool, cost *listCost) ([]prepared, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, listTime, errListTime)
	defer cancel()
	var ready []prepared
	seen := map[string]bool{}
	for _, t := range tools {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		name := haft.MCPToolName(y.server.Name, t.Name)
		if err := y.r.free(name); err != nil || seen[name] {
			y.refuse(t, "its name here would be that of another tool")
			continue
		}
		v, err := y.version(name, t)
		if over := cost.made(t, v, err); over != nil {
			return nil, over
		}
		if err != nil {
			if haft.CodeOf(err) == haft.CodeInternal {
				return nil, err
			}
			y.refuse(t, reasonsOf(err)...)
			continue
		}
		seen[name] = true
		ready = append(ready, prepared{t, name, v})
	}
	return ready, nil
}

// tool brings one tool up to date.
func (y *syncing) tool(ctx context.Context, ready prepared) error {
	t, name, v := ready.tool, ready.name, ready.version
	old, err := y.r.store.Tools.Tool(ctx, y.p.Org, name)
	found := err == nil
	switch {
	case err != nil && haft.CodeOf(err) != haft.CodeNotFound:
		return fmt.Errorf("read the tool: %w", err)
	case found:
		if last, err := y.newest(ctx, old); err != nil {
			return err
		} else if last.Kind != haft.KindMCP || last.Server != y.server.Name {
			y.refuse(t, "there is another tool of the name "+name)
			return nil
		} else if y.listed[name] = true; y.same(old, last, v) {
			return nil
		}
	}
	y.listed[name] = true
	waits := !y.accept || len(v.Review.Findings) > 0
	if waits {
		v.Review.State = haft.ReviewWaiting
	}
	return y.put(ctx, name, v, found)
}

// same reports whether v is known: it is current, waits, or was refused.
func (y *syncing) same(old *haft.Tool, last *haft.Version, v haft.Version) bool {
	if old.Version.Number != 0 && old.Version.Digest == v.Digest {
		return true
	}
	return last.Digest == v.Digest && (!y.accept || len(v.Review.Findings) > 0 ||
		last.Review.State == haft.ReviewRefused)
}

// newest returns the newest version of a tool.
func (y *syncing) newest(ctx context.Context, t *haft.Tool) (*haft.Version, error) {
	last, err := y.r.newest(ctx, y.p.Org, t.ID)
	if last == nil && err == nil {
		last = &t.Version
	}
	return last, err
}

// put stores a version.
func (y *syncing) put(ctx context.Context, name string, v haft.Version, found bool) error {
	tool := haft.Tool{ID: newID(), Org: y.p.Org, Name: name, Category: "mcp", Tags: []string{serverTag(y.server.Name)},
		Created: v.Created, Updated: v.Created, Version: v}
	waits := v.Review.State == haft.ReviewWaiting
	put, created, _, err := y.r.store.Tools.PutTool(ctx, tool, store.PutOptions{Activate: !waits})
	if err != nil {
		return fmt.Errorf("keep the tool: %w", err)
	}
	y.r.cache.forget(y.p.Org, put.ID, name)
	if created || !found {
		y.done.Added = append(y.done.Added, name)
	} else {
		y.done.Changed = append(y.done.Changed, name)
	}
	if waits {
		y.done.Waiting = append(y.done.Waiting, name)
	}
	for _, f := range v.Review.Findings {
		y.done.Warnings = append(y.done.Warnings, name+": "+f.Message)
	}
	return nil
}

// version makes a version of what a server lists.
func (y *syncing) version(name string, t haft.MCPTool) (haft.Version, error) {
	hidden := hides(t.Name) || hides(t.Description) || hides(t.Annotations.Title)
	t.Description, t.Annotations.Title = visible(t.Description), visible(t.Annotations.Title)
	var c checker
	c.text("/description", t.Description, MaxDescription)
	for pointer, s := range map[string]json.RawMessage{"/inputSchema": t.Input, "/outputSchema": t.Output} {
		if len(s) > MaxSchema {
			c.fail(pointer, "is %d bytes long, %d is the most", len(s), MaxSchema)
		}
	}
	if err := c.err("the tool"); err != nil {
		return haft.Version{}, err
	}
	tree, err := schema.Decode(t.Input)
	if err != nil {
		return haft.Version{}, invalid("the schema of the arguments cannot be read", err)
	}
	normal, err := schema.Normalize(tree, schema.NormalizeOptions{})
	if err != nil {
		return haft.Version{}, invalid("the schema of the arguments cannot be used", err)
	}
	v := haft.Version{
		Kind: haft.KindMCP, Description: t.Description, Function: t.Name, Server: y.server.Name,
		Origin:      y.server.Origin(),
		Annotations: t.Annotations, Health: schema.Health(normal), Author: serverTag(y.server.Name), Created: now(),
		Settings: haft.Settings{Limits: haft.Limits{Wall: y.server.Limits.Wall}},
	}
	if v.Health.Status == haft.HealthInvalid {
		return v, unhealthy(v.Health)
	}
	if v.Parameters, hidden, err = shown(normal, hidden); err != nil {
		return v, err
	}
	if isThere(t.Output) {
		out, err := schema.Decode(t.Output)
		if err != nil {
			return v, invalid("the schema of the value cannot be read", err)
		}
		if v.Returns, hidden, err = shown(out, hidden); err != nil {
			return v, err
		}
	}
	if hidden {
		v.Review.Findings = []haft.Finding{{Scanner: "haft", Rule: "hidden-characters", Severity: haft.SeverityHigh,
			Message: "it holds characters that nobody sees, or that change the order of text; they are shown as \\u " +
				"and their number"}}
	}
	if v.Digest = Digest(v); v.Digest == "" {
		return v, &haft.Error{Code: haft.CodeInvalid, Message: "the tool cannot be written as JSON"}
	}
	if _, err := Compile(haft.Tool{Name: name, Version: v}); err != nil {
		return v, &haft.Error{Code: haft.CodeInvalid, Message: "the schema cannot be used: " + haft.MessageOf(err),
			Err: err}
	}
	return v, nil
}

// shown writes a schema with its hidden characters escaped.
func shown(tree any, hidden bool) (json.RawMessage, bool, error) {
	text, err := schema.Encode(tree)
	if err != nil {
		return nil, false, fmt.Errorf("write a schema: %w", err)
	}
	if !hides(string(text)) {
		return text, hidden, nil
	}
	// They are within strings, for there are none elsewhere in JSON.
	return json.RawMessage(escaped(string(text), `\\u{%x}`)), true, nil
}

// prune removes those tools of the server that are not to be kept.
func (y *syncing) prune(ctx context.Context, keep func(name string) bool) error {
	list, err := y.tools(ctx)
	if err != nil {
		return err
	}
	for _, t := range list {
		if keep(t.Name) {
			continue
		}
		if err := y.r.store.Tools.RemoveTool(ctx, y.p.Org, t.ID, ""); err != nil {
			return fmt.Errorf("remove a tool: %w", err)
		}
		y.r.cache.forget(y.p.Org, t.ID, t.Name)
		y.done.Removed = append(y.done.Removed, t.Name)
	}
	return nil
}

// tools lists the tools of the server.
func (y *syncing) tools(ctx context.Context) ([]haft.Tool, error) {
	var all []haft.Tool
	for after := ""; ; {
		list, err := y.r.store.Tools.Tools(ctx, y.p.Org,
			haft.ToolFilter{Tag: serverTag(y.server.Name), Disabled: true, After: after, Limit: 100})
		if err != nil {
			return nil, fmt.Errorf("list the tools of the server: %w", err)
		}
		for _, t := range list {
			after = t.Name
			if haft.ServerOf(t.Name) != y.server.Name {
				continue
			}
			last, err := y.newest(ctx, &t)
			if err != nil {
				return nil, err
			}
			if last.Kind == haft.KindMCP {
				all = append(all, t)
			}
		}
		if len(list) < 100 {
			return all, nil
		}
	}
}

// reasonsOf says why a tool cannot be used, place by place.
func reasonsOf(err error) []string {
	if e, ok := errors.AsType[*haft.Error](err); ok && len(e.Misfits) > 0 {
		var list []string
		for _, m := range e.Misfits {
			list = append(list, strings.TrimSpace(m.Pointer+" "+m.Message))
		}
		return list
	}
	return []string{haft.MessageOf(err)}
}

// secretive reports whether a character is invisible and changes the meaning of a text:
// controls, joiners and marks of direction, tags, variation selectors.
func secretive(r rune) bool {
	switch {
	case r == '\n', r == '\t', r == '\r':
		return false
	case r == 0x200D, r == 0xFE0F: // they join emoji
		return false
	case unicode.Is(unicode.Cf, r), unicode.Is(unicode.Cc, r), unicode.Is(unicode.Co, r):
		return true
	case r >= 0xFE00 && r <= 0xFE0E, r >= 0xE0100 && r <= 0xE01EF, r == 0x034F, r == 0x115F, r == 0x1160, r == 0x3164,
		r == 0xFFA0:
		return true
	case r == 0x2028, r == 0x2029:
		return true
	}
	return false
}

// hides reports whether a text holds invisible characters.
func hides(s string) bool { return strings.ContainsFunc(s, secretive) }

// visible escapes the invisible characters of a text.
func visible(s string) string {
	if !hides(s) {
		return s
	}
	return escaped(s, `\u{%x}`)
}

// escaped writes every invisible character in a form.
func escaped(s, form string) string {
	var b strings.Builder
	for _, r := range s {
		if secretive(r) {
			fmt.Fprintf(&b, form, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}
