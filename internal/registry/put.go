package registry

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"haft"
	"haft/internal/store"
	"haft/schema"
)

// Put makes a version of a draft: of a new tool, or of the tool of that name.
//
// Put checks the draft and reviews its source before it stores anything. The error is
// [haft.CodeDenied], with rule and line, for a source that must not be kept;
// [haft.CodeInvalid], with all mistakes, for a draft that is wrong; and
// [haft.CodeConflict] for a name that is taken or a current version that is not the
// expected one.
//
// The tool of the Change has the version that was put, also if that waits for a
// person and is not the current one; its Review says so. Category and tags that
// the draft leaves out stay as they are, and with [haft.Draft.KeepSettings] its settings do.
func (r *Registry) Put(ctx context.Context, p haft.Principal, d haft.Draft) (*haft.Change, error) {
	for tries := 3; ; tries-- {
		c, err := r.draft(ctx, p, d)
		if err != nil {
			return nil, err
		}
		done, err := r.keep(ctx, c)
		// Somebody else has changed the tool whose settings are kept: they are read again.
		if again := d.If == "" && c.draft.If != "" && haft.CodeOf(err) == haft.CodeConflict; !again || tries == 1 {
			return done, err
		}
	}
}

// DraftOf is the draft that makes the current version of a tool again.
func DraftOf(t haft.Tool) haft.Draft {
	v := t.Version
	return haft.Draft{
		Name: t.Name, Kind: v.Kind, Source: v.Source, File: v.File, Files: v.Files, Function: v.Function,
		Description: v.Description,
		Annotations: v.Annotations, Settings: v.Settings, Needs: v.Requirements, Parameters: v.Parameters,
		Returns: v.Returns,
	}
}

// lock finds the exact packages that the draft needs.
func (r *Registry) lock(ctx context.Context, c *change) error {
	if r.cfg.Lock == nil {
		return nil
	}
	var err error
	c.draft.Needs, c.lock, err = r.cfg.Lock(ctx, c.by.Org, c.draft)
	if err != nil || r.cfg.Scan == nil || c.lock == (haft.Lock{}) {
		return err
	}
	found, err := r.cfg.Scan(ctx, c.by.Org, c.lock)
	c.findings = append(c.findings, found...)
	slices.SortStableFunc(c.findings, func(a, b haft.Finding) int { // the worst first
		return slices.Index(haft.Severities(), b.Severity) - slices.Index(haft.Severities(), a.Severity)
	})
	return err
}

// change is a draft that becomes a version.
type change struct {
	draft    haft.Draft
	by       haft.Principal
	tool     haft.Tool
	lock     haft.Lock
	findings []haft.Finding
	waits    bool // for a person
	warnings []string
	kept     []string // settings of the version before, in words
}

func (c *change) warn(format string, args ...any) {
	c.warnings = append(c.warnings, fmt.Sprintf(format, args...))
}

// free reports why a draft cannot have a name.
func (r *Registry) free(name string) error {
	switch {
	case r.taken(name):
		return &haft.Error{Code: haft.CodeConflict,
			Message: "the name is that of a built-in tool, or too close to it: choose another"}
	case r.cfg.Reserved(name):
		return &haft.Error{Code: haft.CodeConflict, Message: "the name is reserved: choose another"}
	}
	return nil
}

// notServers refuses names that would be those of an MCP server's tools.
func (r *Registry) notServers(ctx context.Context, org, name string) error {
	server := haft.ServerOf(name)
	if server == "" {
		return nil
	}
	switch _, err := r.store.MCPServers.MCPServer(ctx, org, server); haft.CodeOf(err) {
	case haft.CodeNotFound:
		return nil
	case "":
		return &haft.Error{Code: haft.CodeConflict,
			Message: "the name is among those of the tools of MCP server " + server + ": choose another"}
	default:
		return fmt.Errorf("look for a server of that name: %w", err)
	}
}

// describe fills in what the draft leaves to the source, and makes the version.
func (r *Registry) describe(ctx context.Context, c *change) error {
	d := c.draft
	given, err := givenSchema(d)
	if err != nil {
		return err
	}
	derived, err := r.derive(ctx, c, given != nil)
	if err != nil {
		return err
	}
	name := d.Name
	if name == "" {
		name = derived.Name
	}
	if err := haft.CheckToolName(name); err != nil {
		return err
	}
	if err := r.free(name); err != nil {
		return err
	}
	if err := r.notServers(ctx, c.by.Org, name); err != nil {
		return err
	}
	if d.Settings.Fallback == name {
		return &haft.Error{Code: haft.CodeInvalid, Message: "a tool cannot be its own fallback"}
	}
	if f := cmp.Or(derived.Signature.Function, derived.Name); f != "" && f != name && derived.Name != name {
		c.warn("the tool is called %s, but its function %s", name, f)
	}
	description := d.Description
	if description == "" {
		description = derived.Description
	}
	if given != nil {
		if derived.Pass, err = passGiven(derived, given); err != nil {
			return err
		}
	}
	// A schema that was derived takes the same way as one that was given, so that
	// what is exported with its schema becomes the same version again.
	if given == nil {
		if derived.Parameters == nil {
			return &haft.Error{Code: haft.CodeInvalid,
				Message: "the source does not say which arguments the tool takes: give a schema"}
		}
		given = derived.Parameters
	}
	sig, err := schema.FromArgsSchema(name, description, given)
	if err != nil {
		return invalid("the schema of the arguments cannot be used", err)
	}
	sig.Returns = derived.Returns
	properties := sig.Parameters.Object("properties")
	for _, n := range derived.Injected {
		if properties != nil && properties.Has(n) {
			return &haft.Error{Code: haft.CodeInvalid,
				Message: fmt.Sprintf("parameter %s is filled in by the server: leave it out of the schema", n)}
		}
	}
	return c.version(sig, derived)
}

// version makes the version that is to be stored.
func (c *change) version(sig *schema.Signature, derived *Derived) error {
	d := c.draft
	file := d.File
	if stem(file) == sig.Name {
		file = "" // which means the same, so that an exported tool is the same version when it comes back
	}
	v := haft.Version{
		Kind: d.Kind, Description: sig.Description, Source: d.Source, File: file, Files: d.Files,
		Function: derived.Function, Pass: derived.Pass,
		Injected: derived.Injected, Requirements: d.Needs, Lock: c.lock, Settings: d.Settings,
		Annotations: d.Annotations,
		Health:      schema.Health(sig.Parameters), Author: person(c.by), Created: now(),
	}
	if v.Health.Status == haft.HealthInvalid {
		return unhealthy(v.Health)
	}
	// What a docstring says may hold characters that its source does not.
	var text checker
	text.text("/description", v.Description, MaxDescription)
	if err := text.err("the tool cannot be registered"); err != nil {
		return err
	}
	if v.Settings.Output.Type == haft.OutputAny {
		v.Settings.Output.Type = derived.Output
	}
	var err error
	if v.Parameters, err = schema.Encode(sig.Parameters); err != nil {
		return fmt.Errorf("write the schema of the arguments: %w", err)
	}
	switch {
	case isThere(d.Returns):
		if v.Returns, err = compact(d.Returns); err != nil {
			return invalid("the schema of the value cannot be read", err)
		}
	case sig.Returns != nil:
		if v.Returns, err = schema.Encode(sig.Returns); err != nil {
			return fmt.Errorf("write the schema of the value: %w", err)
		}
	}
	if v.Digest = Digest(v); v.Digest == "" {
		return &haft.Error{Code: haft.CodeInvalid, Message: "the tool cannot be written as JSON"}
	}
	c.tool = haft.Tool{
		ID: newID(), Org: c.by.Org, Name: sig.Name, Category: d.Category, Tags: once(d.Tags),
		Created: v.Created, Updated: v.Created, Version: v,
	}
	if _, err := Compile(c.tool); err != nil {
		return invalid("the tool cannot be used", err)
	}
	if s := v.Settings; s.CacheFor > 0 && !s.Cacheable {
		c.warn("cache_ms does nothing: the tool is not cacheable")
	}
	return nil
}

// derive reads the source. If a schema is given, only the function and how to call it
// are needed.
func (r *Registry) derive(ctx context.Context, c *change, given bool) (*Derived, error) {
	d := c.draft
	if r.cfg.Derive == nil {
		switch {
		case !given:
			return nil, &haft.Error{Code: haft.CodeInvalid,
				Message: "sources are not read here: give a schema of the arguments"}
		case d.Function == "" && d.Kind != haft.KindBash:
			return nil, &haft.Error{Code: haft.CodeInvalid, Message: "sources are not read here: name the function"}
		}
		return &Derived{Signature: &schema.Signature{Name: d.Function}, Function: d.Function}, nil
	}
	src := Source{Name: d.Name, Kind: d.Kind, Text: []byte(d.Source), Function: d.Function, Untyped: given,
		Org: c.by.Org, Lock: c.lock}
	derived, err := r.cfg.Derive(ctx, src)
	if err != nil {
		// A function of JavaScript is not called if it is not known what it takes: it would see undefined.
		if faults := sourceFaults(err); len(faults) > 0 && given && (d.Kind == haft.KindPython && d.Function != "" ||
			d.Kind == haft.KindBash) {
			c.warn("the source says nothing that can be used: %s", strings.Join(faults, "; "))
			return &Derived{Signature: &schema.Signature{Name: d.Function}, Function: d.Function}, nil
		}
		return nil, invalid("the source is no tool", err)
	}
	if derived == nil || derived.Signature == nil {
		return nil, errors.New("derive a signature: there is none, and no error")
	}
	if given {
		return derived, nil
	}
	return derived, c.checkDocumented(derived.Signature)
}

// checkDocumented warns of what the documentation of a source lacks, or refuses the draft if it
// says so: a model will not use such a tool well.
func (c *change) checkDocumented(sig *schema.Signature) error {
	var missing []string
	plain := sig.Parameters == nil || sig.Parameters.Object("properties") == nil ||
		sig.Parameters.Object("properties").Len() == 0
	for _, e := range sig.Undocumented {
		if c.draft.Description != "" && e.Parameter == "" && plain {
			continue // the draft has the description
		}
		missing = append(missing, e.Error())
	}
	missing = missing[:min(len(missing), maxMisfits)]
	if len(missing) > 0 && c.draft.DescriptionsRequired {
		return &haft.Error{Code: haft.CodeInvalid, Message: "the tool is not described to a model: " +
			strings.Join(missing, "\n") + "\nor accept it as it is: --descriptions-optional"}
	}
	c.warnings = append(c.warnings, missing...)
	for _, w := range sig.Warnings[:min(len(sig.Warnings), maxMisfits)] {
		c.warn("%s", w)
	}
	return nil
}

// checkRetry refuses retries that would never happen. A version from before this was checked stays
// as it is.
func checkRetry(s haft.Settings, last *haft.Version) error {
	as := last != nil && last.Settings.Retry == s.Retry && !last.Settings.Idempotent
	if s.Retry.ForTool().Tries <= 1 || s.Idempotent || as {
		return nil
	}
	return &haft.Error{Code: haft.CodeInvalid, Message: "the tool cannot be registered: /settings/retry needs " +
		"idempotent: a run that failed may have had an effect, so it is repeated only where it may run twice. " +
		"Set idempotent (--idempotent) if it may, or leave out the retries"}
}

// keep stores a version and describes the change.
func (r *Registry) keep(ctx context.Context, c *change) (*haft.Change, error) {
	defer r.writes.lock(c.by.Org)()
	before, last, err := r.before(ctx, c)
	if err != nil {
		return nil, err
	}
	if before != nil {
		if c.draft.Category == "" {
			c.tool.Category = before.Category
		}
		if c.draft.Tags == nil {
			c.tool.Tags = before.Tags
		}
		if before.Version.Number != 0 && before.Version.Digest == c.tool.Version.Digest {
			c.waits = false // it is what runs already
		}
		defer r.cache.forget(c.by.Org, before.ID, before.Name)
	}
	if err := checkRetry(c.tool.Version.Settings, last); err != nil {
		return nil, err
	}
	if err := r.checkFallback(ctx, c); err != nil {
		return nil, err
	}
	defer r.cache.forget(c.by.Org, c.tool.ID, c.tool.Name)
	opts := store.PutOptions{New: c.draft.New, IfDigest: c.draft.If, Activate: !c.waits}
	put, created, same, err := r.store.Tools.PutTool(ctx, c.tool, opts)
	if err != nil {
		return nil, fmt.Errorf("keep the tool: %w", err)
	}
	if last != nil && !same {
		if was, now := last.Function, c.tool.Version.Function; was != now && was != "" && now != "" {
			c.warn("it calls the function %s now; version %d calls %s", now, last.Number, was)
		}
		for _, w := range c.tool.Version.Settings.Weaker(last.Settings) {
			c.warn("weaker than version %d: %s", last.Number, w)
		}
	}
	done := &haft.Change{Tool: put, Created: created, Same: same, Warnings: c.warnings, Kept: c.kept}
	if c.waits {
		done.Waiting = put.Version.Number
	}
	if last != nil {
		done.Schema, done.Files = Changes(*last, put.Version), fileChanges(last.Files, put.Version.Files)
	}
	return done, nil
}

// before returns the tool that a draft is for, if there is one, and the version
// that its schema is compared with: the current one, or else the newest. The
// store checks the conditions of the draft again, where nothing can come between.
func (r *Registry) before(ctx context.Context, c *change) (*haft.Tool, *haft.Version, error) {
	conflict := ""
	t, err := r.store.Tools.Tool(ctx, c.by.Org, c.tool.Name)
	switch {
	case haft.CodeOf(err) == haft.CodeNotFound && c.draft.If == "":
		return nil, nil, nil
	case haft.CodeOf(err) == haft.CodeNotFound:
		conflict = "there is no tool of that name whose version could be the expected one"
	case err != nil:
		return nil, nil, fmt.Errorf("read the tool: %w", err)
	case t.Name != c.tool.Name:
		conflict = "the name is the id of another tool: choose another"
	case c.draft.New:
		conflict = "there is a tool of that name already"
	case c.draft.If != "" && c.draft.If != t.Version.Digest && c.draft.If != t.Revision():
		conflict = "the current version of the tool is not the expected one: look again"
	case t.Version.Number == 0:
		last, err := r.newest(ctx, c.by.Org, t.ID)
		return t, last, err
	default:
		return t, &t.Version, nil
	}
	return nil, nil, &haft.Error{Code: haft.CodeConflict, Message: conflict}
}

// newest returns the newest version of a tool, whatever its state, or nil.
func (r *Registry) newest(ctx context.Context, org string, id haft.ToolID) (*haft.Version, error) {
	list, err := r.store.Tools.Versions(ctx, org, id, 0, 1)
	if err != nil {
		return nil, fmt.Errorf("read the versions of a tool: %w", err)
	}
	if len(list) == 0 {
		return nil, nil
	}
	return &list[0], nil
}

// checkFallback follows the fallbacks of a draft, so that none leads back to it.
func (r *Registry) checkFallback(ctx context.Context, c *change) error {
	const most = 8
	ref := c.tool.Version.Settings.Fallback
	for n := 0; ref != ""; n++ {
		if n == most {
			return &haft.Error{Code: haft.CodeInvalid, Message: fmt.Sprintf("%d fallbacks in a row are the most", most)}
		}
		t, err := r.Tool(ctx, c.by, ref)
		if haft.CodeOf(err) == haft.CodeNotFound {
			if ref == c.tool.Version.Settings.Fallback {
				c.warn("there is no tool that is called like the fallback")
			}
			return nil
		}
		if err != nil {
			return err
		}
		if t.Name == c.tool.Name {
			return &haft.Error{Code: haft.CodeInvalid, Message: "the fallback leads back to the tool itself"}
		}
		ref = t.Version.Settings.Fallback
	}
	return nil
}

// givenSchema reads the schema that a draft brings, or nil.
func givenSchema(d haft.Draft) (any, error) {
	text := d.Parameters
	if !isThere(text) {
		text = d.ArgsSchema
	}
	if !isThere(text) {
		return nil, nil
	}
	tree, err := schema.Decode(text)
	if err != nil {
		return nil, invalid("the schema of the arguments cannot be read", err)
	}
	return tree, nil
}

// isThere reports whether a JSON text says anything.
func isThere(text json.RawMessage) bool {
	t := bytes.TrimSpace(text)
	return len(t) > 0 && string(t) != "null"
}

// compact writes a JSON text as we keep it.
func compact(text json.RawMessage) (json.RawMessage, error) {
	tree, err := schema.Decode(text)
	if err != nil {
		return nil, err
	}
	return schema.Encode(tree)
}

// unhealthy says why no vendor would accept a schema.
func unhealthy(h haft.SchemaHealth) error {
	e := &haft.Error{Code: haft.CodeInvalid}
	var reasons []string
	for _, r := range h.Reasons[:min(len(h.Reasons), maxMisfits)] {
		reasons = append(reasons, r.String())
	}
	e.Message = "no model vendor accepts the schema of the arguments: " + strings.Join(reasons, "; ")
	return e
}

// invalid makes an error for the author of a tool. Internal errors stay internal.
func invalid(what string, err error) error {
	if e, ok := errors.AsType[*haft.Error](err); ok {
		return &haft.Error{Code: e.Code, Message: what + ": " + e.Message, Misfits: e.Misfits, RetryAfter: e.RetryAfter,
			Err: err}
	}
	if faults := sourceFaults(err); len(faults) > 0 {
		return &haft.Error{Code: haft.CodeInvalid, Message: what + ": " + strings.Join(faults, "; "), Err: err}
	}
	if e, ok := errors.AsType[*schema.SyntaxError](err); ok {
		return &haft.Error{Code: haft.CodeInvalid, Message: what + ": " + e.Error(), Err: err}
	}
	return fmt.Errorf("%s: %w", what, err)
}

// sourceFaults lists what is wrong with a source. Readers of some languages find
// several faults at once.
func sourceFaults(err error) []string {
	var list []string
	switch e := err.(type) { //nolint:errorlint // it walks the tree itself
	case *schema.SourceError:
		list = append(list, e.Error())
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			list = append(list, sourceFaults(inner)...)
		}
	case interface{ Unwrap() error }:
		list = sourceFaults(e.Unwrap())
	}
	return list[:min(len(list), maxMisfits)]
}

// once returns the tags without those that are there twice.
func once(tags []string) []string {
	var list []string
	for _, t := range tags {
		if !slices.Contains(list, t) {
			list = append(list, t)
		}
	}
	return list
}
