package devloop

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"haft"
	"haft/internal/registry"
	"haft/internal/terminal"
	"haft/internal/toolfile"
	"haft/schema"
)

// register registers the files that have changed and says which are gone.
func (l *loop) register(ctx context.Context, s save) {
	set, err := toolfile.DirRequirements(l.Dir)
	for _, f := range s.changed {
		file := filepath.Join(l.Dir, filepath.FromSlash(f.Path))
		own := toolfile.AddDirRequirements(&f, file, set)
		l.put(ctx, f, file, cmp.Or(f.Err, err, own))
	}
	for _, path := range s.gone {
		l.noteGone(ctx, path)
	}
}

// put registers the tools of one file.
func (l *loop) put(ctx context.Context, f registry.Found, file string, err error) {
	drafts := []haft.Draft{f.Draft}
	if err == nil {
		drafts, err = l.Split(ctx, file, f.Draft)
	}
	var names []string
	for _, d := range drafts {
		var c *haft.Change
		if err == nil {
			d.KeepSettings = true
			c, err = l.System.PutTool(ctx, l.Principal, d)
		}
		if err == nil {
			names = append(names, c.Tool.Name)
			l.showChange(file, c)
			continue
		}
		for _, line := range faults(file, err) {
			l.printf("%s %s\n", l.paint(red, "failed"), line)
		}
		for _, name := range l.tools[f.Path] {
			if !slices.Contains(names, name) {
				l.printf("  %s stays as it was\n", name)
				names = append(names, name)
			}
		}
		break
	}
	before := l.tools[f.Path]
	l.tools[f.Path] = names
	for _, name := range before {
		l.noteTool(ctx, name, terminal.Escape(file))
	}
}

// showChange shows what was registered: the schema, its health and what to think of.
func (l *loop) showChange(file string, c *haft.Change) {
	t := c.Tool
	word, shade := "updated", green
	switch {
	case c.Waiting > 0:
		word, shade = "waiting", yellow
	case c.Created:
		word = "created"
	case c.Same:
		word, shade = "unchanged", dim
	}
	l.printf("%s %s version %d (%s)\n", l.paint(shade, word), t.Name, max(t.Version.Number, c.Waiting),
		terminal.Escape(file))
	if c.Same {
		return
	}
	l.printf("  %s\n", signature(t))
	health := toolfile.HealthOf(t)
	l.printf("  schema %s\n", health.Status)
	for _, r := range health.Reasons {
		l.printf("    %s\n", terminal.Escape(r.String()))
	}
	for _, change := range append(c.Schema, c.Files...) {
		l.printf("  changed: %s\n", terminal.Escape(change))
	}
	if len(c.Kept) > 0 {
		l.printf("  kept: %s\n", terminal.Escape(strings.Join(c.Kept, ", ")))
	}
	for _, w := range c.Warnings {
		l.printf("  %s %s\n", l.paint(yellow, "warning:"), terminal.Escape(schema.PlaceInFile(file, w)))
	}
	if c.Waiting > 0 {
		l.printf("  it is not called before a person has looked at it: accept %s, or refuse %s\n", t.Name, t.Name)
	}
}

// noteGone says that a file is gone, and what becomes of its tools.
func (l *loop) noteGone(ctx context.Context, path string) {
	names, file := l.tools[path], terminal.Escape(filepath.Join(l.Dir, filepath.FromSlash(path)))
	delete(l.tools, path)
	if len(names) == 0 {
		l.printf("%s %s\n", l.paint(yellow, "gone"), file)
	}
	for _, name := range names {
		if l.has(name) {
			l.printf("%s %s: another file has the tool %s\n", l.paint(yellow, "gone"), file, name)
		} else {
			l.noteTool(ctx, name, file)
		}
	}
}

// noteTool says that a tool is no longer in the file that had it. It stays callable unless tools are to be
// removed, or until the person says so: an editor or a change of branch may only have moved it.
func (l *loop) noteTool(ctx context.Context, name, file string) {
	switch {
	case l.has(name):
		return
	case !l.Remove:
		l.printf("%s %s: the tool stays; remove it with: remove %s\n", l.paint(yellow, "gone"), file, name)
		return
	}
	if err := l.System.RemoveTool(ctx, l.Principal, name, ""); err != nil {
		l.printError(err)
		return
	}
	l.printf("%s %s: removed the tool %s\n", l.paint(yellow, "gone"), file, name)
}

// has reports whether a file has the tool of a name.
func (l *loop) has(name string) bool {
	for _, names := range l.tools {
		if slices.Contains(names, name) {
			return true
		}
	}
	return false
}

// faults returns a line for each mistake in a file, with its place: FILE:LINE:COLUMN, which editors open.
func faults(file string, err error) []string {
	var list []string
	for _, e := range sourceErrors(err) {
		at := file
		if e.Line > 0 {
			at += fmt.Sprintf(":%d", e.Line)
			if e.Column > 0 {
				at += fmt.Sprintf(":%d", e.Column)
			}
		}
		bare := *e
		bare.Line, bare.Column = 0, 0
		list = append(list, terminal.Escape(at+": "+bare.Error()))
	}
	if len(list) == 0 {
		message := haft.MessageOf(err)
		if _, coded := errors.AsType[*haft.Error](err); !coded {
			message = err.Error() // the person owns the system
		}
		list = append(list, terminal.Escape(file+": "+message))
	}
	return list
}

// sourceErrors returns the mistakes in a source that an error is about.
func sourceErrors(err error) []*schema.SourceError {
	switch e := err.(type) { //nolint:errorlint // it walks the tree itself
	case *schema.SourceError:
		return []*schema.SourceError{e}
	case interface{ Unwrap() []error }:
		var list []*schema.SourceError
		for _, inner := range e.Unwrap() {
			list = append(list, sourceErrors(inner)...)
		}
		return list
	case interface{ Unwrap() error }:
		return sourceErrors(e.Unwrap())
	}
	return nil
}

// signature shows the parameters of a tool in a line: name, type and default of each.
func signature(t haft.Tool) string {
	tree, err := schema.Decode(t.Version.Parameters)
	params, ok := tree.(*schema.Object)
	if err != nil || !ok {
		return t.Name + "(…)"
	}
	var parts []string
	properties := params.Object("properties")
	if properties != nil {
		for _, name := range properties.Keys() {
			parts = append(parts, parameter(name, properties.Object(name), params.Array("required")))
		}
	}
	return terminal.OneLine(t.Name+"("+strings.Join(parts, ", ")+")", maxSignature)
}

// maxSignature bounds the line of a signature.
const maxSignature = 300

// parameter shows one parameter.
func parameter(name string, s *schema.Object, required []any) string {
	text := name
	if kind := typeName(s); kind != "" {
		text += ": " + kind
	}
	if s != nil && s.Value("default") != nil {
		if b, err := json.Marshal(s.Value("default")); err == nil {
			return text + " = " + string(b)
		}
	}
	for _, r := range required {
		if r == name {
			return text
		}
	}
	return text + " (optional)"
}

// typeName returns the type that a schema names, if it names one.
func typeName(s *schema.Object) string {
	if s == nil {
		return ""
	}
	switch kind := s.Value("type").(type) {
	case string:
		if items := s.Object("items"); kind == "array" && typeName(items) != "" {
			return "array of " + typeName(items)
		}
		return kind
	case []any:
		var parts []string
		for _, k := range kind {
			parts = append(parts, fmt.Sprint(k))
		}
		return strings.Join(parts, "|")
	}
	return ""
}
