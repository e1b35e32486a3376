package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"haft"
	"haft/app"
	"haft/internal/backend"
	"haft/internal/cli"
	"haft/internal/exit"
	"haft/internal/flagvalue"
	"haft/internal/registry"
	"haft/internal/toolfile"
)

// An added is what became of one file.
type added struct {
	File   string         `json:"file"`
	Change *haft.Change   `json:"change,omitempty"`
	Error  *exit.Document `json:"error,omitempty"`
	// Function is the one of a file with several tools.
	Function string `json:"function,omitempty"`
	err      error
}

// addCommand registers files and directories.
func addCommand() cli.Command {
	var (
		a     adder
		watch bool
	)
	return cli.Command{
		Use: "add FILE[:FUNCTION]|DIR…", Short: "Register tools: a new one, or a new version of the one of that name",
		Long: `Register tools. FILE is a .py, .ts, .js or .sh file; of a DIR all of them are taken.
All tools of a FILE are registered: the functions with a decorator called tool, or else
every documented public function. FILE:FUNCTION registers one. A function or a parameter
without a description is refused, unless --descriptions-optional is given.

Settings are flags here, arguments of the decorator (@haft.tool(timeout=5)), or stand in
weather.tool.json beside weather.py; flags win. Settings that are not named stay as they
were: --requires-approval=false or --secret '' takes one away.

A DIR with a haft.toml (entry = "tool.py") is one tool, with all files in it.
The source is reviewed and its schema derived before anything is kept; nothing of it
is run. A source in which something grave is found waits for haft tool review.`,
		Example: `  haft tool add weather.py --tag weather --timeout 5s
  haft tool add prices.py --file core --file menu.json
  haft tool add tools/ --watch             register again whenever a file changes
  haft tool add pay.py --requires-approval --rate 10/m`,
		Flags: append(a.flags(),
			cli.Flag{&watch, "watch", "register again whenever a file of the DIR changes, until interrupted"}),
		Plain: func(ctx context.Context, p *cli.Profile, args []string) error {
			switch {
			case watch && (len(args) != 1 || !toolfile.IsDir(args[0])):
				return exit.Misuse(errors.New("--watch is for one directory"))
			case watch && p.JSON:
				return exit.Misuse(errors.New("--watch never ends, and --json prints one document: leave one out"))
			case (a.draft.Name != "" || len(a.included) > 0) && (len(args) > 1 || toolfile.IsDir(args[0])):
				return exit.Misuse(errors.New("--name and --file are for one file"))
			case watch:
				return a.watch(ctx, p, args[0])
			}
			return p.Do(ctx, func(ctx context.Context, s *cli.Session) error { return a.addAll(ctx, s, args) })
		},
	}
}

// An adder registers the tools of files, with the settings of its flags.
type adder struct {
	draft               haft.Draft // with the flags that were given
	requirements, files []string
	included            []string // files of the tool
	loose               bool     // descriptions are optional
	done                []added
}

// flags are those that say something about a tool.
func (a *adder) flags() []cli.Flag {
	return append(draftFlags(&a.draft),
		cli.Flag{&a.requirements, "requirement", "a package it needs, such as requests==2.32.3; may be given again"},
		cli.Flag{&a.included, "file", "a `PATH[:NAME]` of a module or data file of the tool, or a directory of them; " +
			"may be given again"},
		cli.Flag{&a.files, "requirements",
			"a `FILE` that names packages: requirements.txt, pyproject.toml or package.json; may be given again"},
		cli.Flag{&a.loose, "descriptions-optional", "accept functions and parameters without documentation"})
}

const programUsage = "the `NAME` of a program of the host that it may run, such as git; may be given again"

// draftFlags are flags that set fields of a draft.
func draftFlags(d *haft.Draft) []cli.Flag {
	s := &d.Settings
	return []cli.Flag{
		{&d.Name, "name", "what the tool is called; that of the function if empty"},
		{&d.Description, "description", "what it does; the documentation of the function if empty"},
		{&d.Category, "category", "a category"},
		{&d.Tags, "tag", "a tag; may be given again"},
		{&s.Limits.Wall, "timeout", "how long one run may take (30s)"},
		{&s.Limits.Grace, "grace", "how long a run that is stopped has to clean up after SIGTERM (50ms)"},
		{(*flagvalue.Memory)(&s.Limits.Memory), "memory", "how much memory it may use"},
		{(*cli.CommaList)(&s.Network), "network", "a `HOST` that it may reach; may be given again"},
		{&s.Secrets, "secret", "the `NAME` of a variable that it cannot do without; may be given again"},
		{&s.Programs, "program", programUsage},
		{&s.AuditFiles, "audit-files", "list in the audit which files, programs and addresses each call touches"},
		{&s.NoArtifacts, "no-artifacts", "do not keep the files that it leaves in its working directory"},
		{&s.Roles, "for-role", "a role of which callers must have one; may be given again"},
		{&s.RequiresApproval, "requires-approval", "a person has to agree to every call"},
		{&s.Parallel, "parallel", "calls of one batch may run beside each other"},
		{&s.Idempotent, "idempotent", "it may run twice where nobody knows whether the first run happened"},
		{&s.Cacheable, "cacheable", "equal arguments give equal values"},
		{&s.CacheFor, "cache-for", "how long values are kept (1h)"},
		{&s.Retry.Tries, "retry", "how often it is tried in all, where a failure may pass; needs --idempotent"},
		{(*flagvalue.Rate)(&s.Rate), "rate", "how often one user may call it: `N/s`, N/m, N/h or N/d"},
		{&s.Concurrency, "concurrency", "how many calls of it may run at once"},
		{&s.MinIsolation, "min-isolation", "refuse to run it with less: reduced, namespaces, kernel or machine"},
		{&s.Sandbox, "sandbox", "the sandbox it runs in"},
		{&s.Fallback, "fallback", "a `TOOL` that answers when this one has failed"},
		{&s.Output.Type, "output", "read what it gives back as json, text, number, boolean or list"},
		{&s.Output.Validators, "validator", "an `EXPR` over value that must be true; may be given again"},
		{&s.Output.MaxChars, "max-chars", "cut values that are longer"},
		{&s.Letta, "letta", "run it as Letta does, see docs/letta.md"},
		{&d.New, "new", "refuse to add a version to a tool that exists"},
	}
}

// apply sets the fields of a draft whose flags are on the command line. The others keep what the
// file and its settings say.
func (a *adder) apply(given func(string) bool, file string, d *haft.Draft) error {
	var from, to pflag.FlagSet
	chosen := a.draft
	cli.Declare(&from, draftFlags(&chosen))
	cli.Declare(&to, draftFlags(d))
	var err error
	from.VisitAll(func(f *pflag.Flag) {
		if !given(f.Name) {
			return
		}
		value := to.Lookup(f.Name).Value
		d.Named = append(d.Named, toolfile.SettingOf(f.Name))
		if list, ok := f.Value.(pflag.SliceValue); ok {
			err = errors.Join(err, value.(pflag.SliceValue).Replace(toolfile.NotEmpty(list.GetSlice())))
			return
		}
		err = errors.Join(err, value.Set(f.Value.String()))
	})
	if err != nil {
		return exit.Misuse(err)
	}
	for _, name := range []string{"requirement", "requirements", "file"} {
		if given(name) {
			d.Named = append(d.Named, toolfile.SettingOf(name))
		}
	}
	if given("requirement") {
		d.Needs = haft.SplitRequirements(d.Kind, toolfile.NotEmpty(a.requirements))
	}
	set, err := toolfile.ReadRequirements(a.files)
	if err != nil {
		return err
	}
	toolfile.AddRequirements(d, set)
	return toolfile.AddFiles(d, file, toolfile.NotEmpty(a.included))
}

// addAll registers files and directories, prints the outcome of each, and fails if
// one did.
func (a *adder) addAll(ctx context.Context, s *cli.Session, names []string) error {
	many := len(names)
	for _, name := range names {
		if !toolfile.IsDir(name) {
			draft, err := toolfile.ReadDraft(name)
			a.addFile(ctx, s, name, draft, err)
			continue
		}
		many = 2
		found, err := registry.ReadDir(name)
		if err != nil {
			return exit.Advise(err, "name a directory with .py, .ts, .js or .sh files")
		}
		if len(found) == 0 {
			return exit.Misuse(fmt.Errorf("%s: there are no .py, .ts, .js or .sh files in it", name))
		}
		a.addFound(ctx, s, name, found)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	code, summary := a.summary()
	err := s.Print(a.done, func() {
		if max(many, len(a.done)) > 1 {
			fmt.Fprintln(s.Out, summary)
		}
	})
	return cmp.Or(err, exit.With(code))
}

// addFound registers the tools of a directory, with the packages that files of the directory name.
func (a *adder) addFound(ctx context.Context, s *cli.Session, dir string, found []registry.Found) {
	set, err := toolfile.DirRequirements(dir)
	for _, f := range found {
		file := filepath.Join(dir, filepath.FromSlash(f.Path))
		own := toolfile.AddDirRequirements(&f, file, set)
		err := cmp.Or(f.Err, err, own)
		if err != nil || !f.Whole {
			a.addFile(ctx, s, file, f.Draft, err)
			continue
		}
		err = a.apply(s.Given, file, &f.Draft)
		a.add(ctx, s, file, f.Draft, err)
	}
}

// addFile registers the tools of a file.
func (a *adder) addFile(ctx context.Context, s *cli.Session, file string, draft haft.Draft, err error) {
	reader := &toolfile.Reader{Config: app.Config{AllowReduced: s.Reduced}}
	defer reader.Close() // nothing is lost
	split := toolfile.Splitter{Tools: reader.Tools, Function: toolfile.FunctionOf(s, s.Who)}
	if local, ok := s.System.(*backend.Local); ok {
		split.Tools = local.App.Tools
	}
	if err == nil {
		err = a.apply(s.Given, file, &draft)
	}
	drafts := []haft.Draft{draft}
	if err == nil {
		path, _ := toolfile.SplitRef(file)
		drafts, err = split.Split(ctx, path, draft)
	}
	if err != nil {
		drafts = []haft.Draft{draft}
	}
	var done []added
	for _, d := range drafts {
		r := a.register(ctx, s, file, d, err)
		if len(drafts) > 1 {
			r.Function = d.Function
		}
		done = append(done, r)
	}
	a.report(s, done)
}

// add registers a draft and prints the outcome.
func (a *adder) add(ctx context.Context, s *cli.Session, file string, draft haft.Draft, err error) {
	a.report(s, []added{a.register(ctx, s, file, draft, err)})
}

// report prints the outcomes for the tools of a file. Tools that failed for the same reason are named together.
func (a *adder) report(s *cli.Session, done []added) {
	a.done = append(a.done, done...)
	if s.JSON {
		return
	}
	var messages []string
	failed := map[string][]string{} // the tools that failed, by message
	for _, r := range done {
		if r.err == nil {
			printAdded(s.Streams, r)
			continue
		}
		message := r.message()
		if failed[message] == nil {
			messages = append(messages, message)
		}
		failed[message] = append(failed[message], r.label())
	}
	for _, message := range messages {
		fmt.Fprintf(s.Err, "%s %s: %s\n", paint(s.Err, red, fmt.Sprintf("%-9s", "failed")),
			safe(s.Err, strings.Join(failed[message], ", ")), safe(s.Err, message))
	}
}

// register registers a draft.
func (a *adder) register(ctx context.Context, s *cli.Session, file string, draft haft.Draft, err error) added {
	r := added{File: file, err: err}
	if r.err == nil {
		draft.DescriptionsRequired, draft.KeepSettings = !a.loose, true
		r.Change, r.err = s.PutTool(ctx, s.Who, draft)
	}
	if r.err == nil {
		installPackages(ctx, s, r.Change)
	} else {
		r.Error = exit.NewDocument(r.err)
	}
	return r
}

// installPackages installs the packages of a tool now, so that its first call need not
// wait. A server does that itself.
func installPackages(ctx context.Context, s *cli.Session, c *haft.Change) {
	local, ok := s.System.(*backend.Local)
	if !ok || c.Waiting > 0 || c.Tool.Version.Lock == (haft.Lock{}) {
		return
	}
	if _, err := local.Build(ctx, s.Who, string(c.Tool.ID)); err != nil {
		c.Warnings = append(c.Warnings, "its packages are not installed, which its first call tries again: "+
			haft.MessageOf(err))
	}
}

// outcome says in a word what has happened to a file.
func (r added) outcome() (word string, shade colour) {
	switch {
	case r.err != nil:
		return "failed", red
	case r.Change.Waiting > 0:
		return "waiting", yellow
	case r.Change.Created:
		return "created", green
	case r.Change.Same:
		return "unchanged", dim
	}
	return "updated", green
}

// label names the file, and the function if the file has several tools.
func (r added) label() string {
	if r.Function == "" {
		return r.File
	}
	return r.File + ":" + r.Function
}

// message is the error without the name of the file, which some errors begin with.
func (r added) message() string {
	text := r.Error.Message
	if name, rest, ok := strings.Cut(text, ": "); ok && strings.HasSuffix("/"+r.File, "/"+name) {
		return rest
	}
	return text
}

// printAdded prints what became of one tool that was registered.
func printAdded(std cli.Streams, r added) {
	w := std.Out
	word, shade := r.outcome()
	fmt.Fprint(w, paint(w, shade, fmt.Sprintf("%-9s", word)), " ")
	c, t := r.Change, r.Change.Tool
	fmt.Fprintf(w, "%s version %d, %s, %s\n", t.Name, t.Version.Number, t.Version.Kind,
		cli.ShortDigest(t.Version.Digest))
	for _, change := range c.Schema {
		fmt.Fprintln(w, "  "+paint(w, cyan, "schema:"), safe(w, change))
	}
	for _, change := range c.Files {
		fmt.Fprintln(w, "  "+paint(w, cyan, "file:"), safe(w, change))
	}
	if len(c.Kept) > 0 && !c.Same {
		fmt.Fprintln(w, "  "+paint(w, dim, "kept:"), safe(w, strings.Join(c.Kept, ", ")))
	}
	for _, warning := range c.Warnings {
		fmt.Fprintln(w, "  "+paint(w, yellow, "warning:"), safe(w, warning))
	}
	if c.Waiting > 0 {
		fmt.Fprintf(w, "  version %d is not called before somebody else looks at it: haft tool review %s --accept\n",
			c.Waiting, t.Name)
	}
}

// summary counts the outcomes, and returns the exit code of the first failure.
func (a *adder) summary() (code int, text string) {
	count, names := map[string]int{}, map[string]bool{}
	for _, r := range a.done {
		word, _ := r.outcome()
		names[r.File] = true
		if count[word]++; r.err != nil {
			code = cmp.Or(code, exit.CodeOf(r.err))
		}
	}
	text = fmt.Sprintf("%d files", len(names))
	if len(names) == 1 {
		text = "1 file"
	}
	if len(a.done) > len(names) {
		text += fmt.Sprintf(", %d tools", len(a.done))
	}
	text += fmt.Sprintf(": %d created, %d updated, %d unchanged", count["created"], count["updated"],
		count["unchanged"])
	if n := count["waiting"]; n > 0 {
		text += fmt.Sprintf(", %d waiting for review", n)
	}
	if n := count["failed"]; n > 0 {
		text += fmt.Sprintf(", %d failed", n)
	}
	return code, text
}

// watch registers the tools of a directory, and then those that change. The system is
// open only while something is registered, so that other commands can work in
// between.
func (a *adder) watch(ctx context.Context, p *cli.Profile, dir string) error {
	return registry.Watch(ctx, dir, func(found []registry.Found, _ []string) {
		err := p.Do(ctx, func(ctx context.Context, s *cli.Session) error {
			a.done = nil
			a.addFound(ctx, s, dir, found)
			return nil
		})
		if err != nil && ctx.Err() == nil {
			cli.Report(p.Err, err)
		}
		fmt.Fprintln(p.Err, paint(p.Err, dim, "watching "+dir+"; Ctrl-C ends it"))
	})
}
