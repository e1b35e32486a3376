package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"haft"
	"haft/internal/registry"
	"haft/schema"
)

// An added is what became of one file.
type added struct {
	File   string       `json:"file"`
	Change *haft.Change `json:"change,omitempty"`
	Error  *failed      `json:"error,omitempty"`
	err    error
}

// failed is an error in JSON.
type failed struct {
	Code    haft.Code     `json:"code"`
	Message string        `json:"message"`
	Misfits []haft.Misfit `json:"misfits,omitempty"`
}

// asFailed makes JSON of an error. The command runs as the person who reads it,
// so it is told everything.
func asFailed(err error) *failed {
	f := &failed{Code: haft.CodeOf(err), Message: err.Error()}
	if _, ok := errors.AsType[*schema.SourceError](err); ok && f.Code == haft.CodeInternal {
		f.Code = haft.CodeInvalid
	}
	if e, ok := errors.AsType[*haft.Error](err); ok {
		f.Misfits = e.Misfits
	}
	return f
}

// toolAdd registers files and directories.
func toolAdd(p *persona, std streams) *cobra.Command {
	var (
		d     draftFlags
		watch bool
	)
	cmd := p.command(std, "add FILE[:FUNCTION]|DIR…",
		"Register tools: a new one, or a new version of the one of that name", cobra.MinimumNArgs(1), nil)
	cmd.Long = `Register tools. FILE is a .py, .ts, .js or .sh file; of a DIR all of them are taken.
Beside weather.py there may be weather.tool.json with settings; flags win over it.
The source is reviewed and its schema derived before anything is kept; nothing of it
is run. A source in which something grave is found waits for haft tool review.`
	cmd.Example = `  haft tool add weather.py --tag weather --timeout 5s
  haft tool add tools/ --watch             register again whenever a file changes
  haft tool add pay.py --requires-approval --rate 10/m`
	d.add(cmd)
	cmd.Flags().BoolVar(&watch, "watch", false, "register again whenever a file of the DIR changes, until interrupted")
	cmd.RunE = func(c *cobra.Command, args []string) error {
		if watch && (len(args) != 1 || !isDir(args[0])) {
			return usage(errors.New("--watch is for one directory"))
		}
		if watch && p.json {
			return usage(errors.New("--watch never ends, and --json prints one document: leave one out"))
		}
		if d.name != "" && (len(args) > 1 || isDir(args[0])) {
			return usage(errors.New("--name is for one file"))
		}
		if watch {
			return watchTools(c.Context(), std, args[0], p, &adder{flags: &d, cmd: cmd})
		}
		return p.do(c.Context(), std, func(ctx context.Context, s *session) error {
			return (&adder{s: s, flags: &d, cmd: cmd}).all(ctx, args)
		})
	}
	return cmd
}

// isDir reports whether name is a directory.
func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// An adder registers what it finds.
type adder struct {
	s     *session
	flags *draftFlags
	cmd   *cobra.Command
	done  []added
}

// all registers files and directories, tells what became of each, and fails if
// one did.
func (a *adder) all(ctx context.Context, names []string) error {
	many := len(names) > 1
	for _, name := range names {
		if !isDir(name) {
			draft, err := readTool(name)
			a.one(ctx, name, draft, err)
			continue
		}
		many = true
		found, err := registry.ReadDir(name)
		if err != nil {
			return advise(err, "name a directory with .py, .ts, .js or .sh files")
		}
		if len(found) == 0 {
			return usage(fmt.Errorf("%s: there are no .py, .ts, .js or .sh files in it", name))
		}
		a.found(ctx, name, found)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return a.conclude(many)
}

// found registers what was found in a directory, with the packages that its files
// name.
func (a *adder) found(ctx context.Context, dir string, found []registry.Found) {
	more, err := dirNeeds(dir)
	for _, f := range found {
		if f.Err == nil {
			f.Err = err
		}
		addNeeds(&f.Draft, more)
		a.one(ctx, filepath.Join(dir, filepath.FromSlash(f.Path)), f.Draft, f.Err)
	}
}

// one registers a draft and tells what became of it.
func (a *adder) one(ctx context.Context, file string, draft haft.Draft, err error) {
	r := added{File: file, err: err}
	if r.err == nil {
		r.err = a.flags.apply(a.cmd, &draft)
	}
	if r.err == nil {
		r.Change, r.err = a.s.PutTool(ctx, a.s.p, draft)
	}
	if r.err == nil {
		a.build(ctx, r.Change)
	}
	if r.err != nil {
		r.Error = asFailed(r.err)
	}
	a.done = append(a.done, r)
	if !a.s.as.json {
		a.tell(r)
	}
}

// build has the packages of a tool installed now, so that its first call need not
// wait. With a server that is the server's.
func (a *adder) build(ctx context.Context, c *haft.Change) {
	local, ok := a.s.system.(*embedded)
	if !ok || c.Waiting > 0 || c.Tool.Version.Lock == (haft.Lock{}) {
		return
	}
	if _, err := local.Build(ctx, a.s.p, string(c.Tool.ID)); err != nil {
		c.Warnings = append(c.Warnings, "its packages are not installed, which its first call tries again: "+
			haft.MessageOf(err))
	}
}

// tell prints what became of one file.
func (a *adder) tell(r added) {
	w := a.s.std.out
	if r.err != nil {
		w = a.s.std.err
		fmt.Fprintf(w, "%s %s: %s\n", paint(w, red, "failed   "), safe(w, r.File), safe(w, r.err.Error()))
		return
	}
	c := r.Change
	t := c.Tool
	word, shade := "updated  ", green
	switch {
	case c.Waiting > 0:
		word, shade = "waiting  ", yellow
	case c.Created:
		word = "created  "
	case c.Same:
		word, shade = "unchanged", dim
	}
	fmt.Fprintf(w, "%s %s version %d, %s, %s\n", paint(w, shade, word), t.Name, t.Version.Number, t.Version.Kind,
		shortDigest(t.Version.Digest))
	for _, change := range c.Schema {
		fmt.Fprintln(w, "  "+paint(w, cyan, "schema:"), safe(w, change))
	}
	for _, warning := range c.Warnings {
		fmt.Fprintln(w, "  "+paint(w, yellow, "warning:"), safe(w, warning))
	}
	if c.Waiting > 0 {
		fmt.Fprintf(w, "  version %d is not called before somebody else looks at it: haft tool review %s --accept\n",
			c.Waiting, t.Name)
	}
}

// conclude prints the end of the list, and fails with the first error.
func (a *adder) conclude(many bool) error {
	bad := 0
	code := exitOK
	for _, r := range a.done {
		if r.err == nil {
			continue
		}
		if bad++; code == exitOK {
			code = exitCode(r.err)
		}
	}
	switch {
	case a.s.as.json:
		if err := printJSON(a.s.std.out, a.done); err != nil {
			return err
		}
	case many:
		fmt.Fprintln(a.s.std.out, a.summary(bad))
	}
	if bad > 0 {
		return &exit{code: code}
	}
	return nil
}

// summary counts what became of the files.
func (a *adder) summary(bad int) string {
	var created, updated, same, waiting int
	for _, r := range a.done {
		switch {
		case r.err != nil:
		case r.Change.Waiting > 0:
			waiting++
		case r.Change.Created:
			created++
		case r.Change.Same:
			same++
		default:
			updated++
		}
	}
	text := fmt.Sprintf("%d files: %d created, %d updated, %d unchanged", len(a.done), created, updated, same)
	if waiting > 0 {
		text += fmt.Sprintf(", %d waiting for review", waiting)
	}
	if bad > 0 {
		text += fmt.Sprintf(", %d failed", bad)
	}
	return text
}

// watchTools registers what is in a directory, and then what changes. The system is
// open only while something is registered, so that other commands can work in
// between.
func watchTools(ctx context.Context, std streams, dir string, p *persona, a *adder) error {
	return registry.Watch(ctx, dir, func(found []registry.Found) {
		err := p.do(ctx, std, func(ctx context.Context, s *session) error {
			a.s, a.done = s, nil
			a.found(ctx, dir, found)
			return nil
		})
		if err != nil && ctx.Err() == nil {
			report(std.err, err)
		}
		fmt.Fprintln(std.err, paint(std.err, dim, "watching "+dir+"; Ctrl-C ends it"))
	})
}

// readTool reads the draft of FILE[:FUNCTION], with what stands beside it.
func readTool(ref string) (haft.Draft, error) {
	src, err := readSource(ref)
	if err != nil {
		return haft.Draft{}, err
	}
	name, _ := splitRef(ref)
	d := haft.Draft{}
	side := strings.TrimSuffix(name, filepath.Ext(name)) + ".tool.json"
	switch text, err := readBounded(side, registry.MaxSource); {
	case err == nil:
		if d, err = registry.ReadSidecar(text); err != nil {
			return d, &haft.Error{Code: haft.CodeInvalid, Message: filepath.Base(side) + ": " + err.Error(), Err: err}
		}
	case !errors.Is(err, fs.ErrNotExist):
		return d, usage(fmt.Errorf("read what stands beside the tool: %w", err))
	}
	d.Kind, d.Source = src.Kind, string(src.Text)
	if src.Function != "" {
		d.Function = src.Function
	}
	if d.Name == "" && src.Function == "" && nameless(src.Kind, d.Source) {
		d.Name = src.Name
	}
	return d, nil
}

var (
	// shellName is how a script says what it is called.
	shellName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^#[ \t]*tool:`) })
	// defaultExport is one that has no name.
	defaultExport = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?m)^[ \t]*export[ \t]+default[ \t]+(async[ \t]*)?(function[ \t]*)?\(`)
	})
)

// nameless reports whether a source does not say what its tool is called, so that
// it is called like its file.
func nameless(kind haft.Kind, source string) bool {
	switch kind {
	case haft.KindBash:
		return !shellName().MatchString(source)
	case haft.KindTypeScript, haft.KindJavaScript:
		return defaultExport().MatchString(source)
	}
	return false
}
