package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"haft"
	"haft/internal/cli"
	"haft/internal/exit"
	"haft/internal/flagvalue"
	"haft/internal/registry"
	"haft/internal/toolfile"
	"haft/schema"
)

// noSuchTool is what to do about a tool that does not exist.
const noSuchTool = "see which there are with: haft tool list --all"

// toolCommand keeps tools.
func toolCommand(p *cli.Profile) cli.Command {
	var (
		filter  haft.ToolFilter
		shown   showFlags
		review  reviewFlags
		upgrade bool
	)
	return cli.Command{
		Names: toolNames, Use: "tool", Short: "Keep tools: register, list, show, roll back, review",
		Example: `  haft tool add weather.py
  haft tool list --tag weather
  haft tool show forecast --format openai --strict
  haft tool rollback forecast`,
		Missing: noSuchTool,
		Subs: []cli.Command{
			addCommand(),
			{Use: "list", Short: "List tools",
				Flags: []cli.Flag{
					{&filter.Category, "category", "only those of a category"},
					{&filter.Tag, "tag", "only those with a tag"},
					{&filter.Kind, "kind", "only those of a kind: python, typescript, javascript, bash or builtin"},
					{&filter.Search, "search", "only those with these words, the best first"},
					{&filter.Limit, "limit", "the most to list"},
					{&filter.Disabled, "all", "also those that are disabled"},
				},
				Run: func(ctx context.Context, s *cli.Session, _ []string) error { return listTools(ctx, s, filter) }},
			{Use: "search TEXT…", Short: "Find tools by words of their name, description, tags and category",
				Run: func(ctx context.Context, s *cli.Session, args []string) error {
					return listTools(ctx, s, haft.ToolFilter{Search: strings.Join(args, " ")})
				}},
			{Use: "show NAME", Short: "Show a tool, or the form of it that a model vendor takes",
				Flags: []cli.Flag{
					{&shown.number, "version", "a `NUMBER`; the current one if it is not given"},
					{&shown.format, "format",
						"the schema in the form of openai, openai-responses, anthropic, gemini, mcp or json"},
					{&shown.strict, "strict", "the vendor's strict form, where it has one"},
				},
				Run: shown.show},
			{Use: "versions NAME", Short: "List the versions of a tool, newest first", Run: listVersions},
			{Use: "rollback NAME [VERSION]",
				Short: "Call an older version from now on: the one before, or that of a number", Run: rollBack},
			{Use: "enable NAME", Short: "Let a tool be called again", Run: switchTool("enabled", false)},
			{Use: "disable NAME", Short: "Refuse calls of a tool, and keep its history",
				Run: switchTool("disabled", true)},
			{Use: "review NAME --accept|--refuse", Short: "Accept or refuse a version in which something was found",
				Flags: []cli.Flag{
					{&review.accept, "accept", "the version may be called"},
					{&review.refuse, "refuse", "the version may never be called"},
					{&review.reason, "reason", "why"},
					{&review.number, "version",
						"the `NUMBER` of the version; the newest that waits if it is not given"},
				},
				Run: review.answer},
			{Use: "lock NAME", Short: "Show the exact packages that a tool runs with, or find newer ones",
				Long: `A version of a tool always runs with the same packages. lock shows which they are;
with --upgrade it finds the newest that fit the tool's requirements, and makes a new
version if there are any.`,
				Flags: []cli.Flag{{&upgrade, "upgrade", "find the newest packages that fit, and make a version " +
					"with them"}},
				Run: func(ctx context.Context, s *cli.Session, args []string) error {
					if upgrade {
						return upgradeTool(ctx, s, args[0])
					}
					return showLock(ctx, s, args[0])
				}},
			{Use: "export DIR", Run: exportTools,
				Short: "Write the current versions of all tools into a directory, for haft tool add DIR"},
			{Use: "remove NAME…", Old: []string{"rm"}, Short: "Remove tools with their versions; calls and audit " +
				"stay", Run: removeTools},
			callCommand(p),
		},
	}
}

// listTools lists the tools that a filter selects.
func listTools(ctx context.Context, s *cli.Session, f haft.ToolFilter) error {
	if f.Kind != "" && !slices.Contains(haft.Kinds(), f.Kind) {
		return exit.Misuse(fmt.Errorf("--kind is one of %s", oneOf(haft.Kinds())))
	}
	return cli.PrintList(s.Profile, s.Tools(ctx, s.Who, f), cli.Listing[haft.Tool]{
		"NAME,KIND,VERSION,STATE,CATEGORY,TAGS,CHANGED,DESCRIPTION", func(t haft.Tool) []any {
			changed := "with haft"
			if t.Version.Kind != haft.KindBuiltin {
				changed = cli.Since(t.Updated)
			}
			description, _, _ := strings.Cut(strings.TrimSpace(cmp.Or(t.Unavailable, t.Version.Description)), "\n")
			return []any{cli.Shaded(t.Name, bold), t.Version.Kind, t.Version.Number, toolState(t), t.Category,
				strings.Join(t.Tags, " "), changed, description}
		}, "there are no such tools; register one with: haft tool add FILE"})
}

// toolState says whether a tool can be called.
func toolState(t haft.Tool) cli.Cell {
	switch {
	case t.Disabled:
		return cli.Shaded("disabled", yellow)
	case t.Unavailable != "":
		return cli.Shaded("unavailable", yellow)
	case t.Version.Number == 0 || t.Version.Review.State == haft.ReviewWaiting:
		return cli.Shaded("waiting", yellow)
	case t.Version.Review.State == haft.ReviewRefused:
		return cli.Shaded("refused", red)
	}
	return cli.Shaded("ready", green)
}

// showFlags say in which form a tool is shown.
type showFlags struct {
	number int
	format string
	strict bool
}

// show shows one tool.
func (f *showFlags) show(ctx context.Context, s *cli.Session, args []string) error {
	t, err := s.Tool(ctx, s.Who, args[0])
	if err != nil {
		return err
	}
	if f.number != 0 {
		v, err := versionOf(ctx, s, args[0], f.number)
		if err != nil {
			return err
		}
		t.Version = *v
	}
	if f.format != "" {
		return showForm(s, t, f.format, f.strict)
	}
	return s.Print(t, func() { printTool(s, t) })
}

// versionOf finds the version of a number.
func versionOf(ctx context.Context, s *cli.Session, ref string, number int) (*haft.Version, error) {
	for v, err := range s.Versions(ctx, s.Who, ref) {
		if err != nil {
			return nil, err
		}
		if v.Number == number {
			return &v, nil
		}
	}
	return nil, exit.Advise(&haft.Error{Code: haft.CodeNotFound,
		Message: fmt.Sprintf("the tool %s has no version %d", ref, number)},
		"see which it has with: haft tool versions "+ref)
}

// showForm prints the schema of a tool for those who call it.
func showForm(s *cli.Session, t *haft.Tool, format string, strict bool) error {
	form, err := schema.ParseForm(format)
	if err != nil {
		return exit.Misuse(err)
	}
	sig := &schema.Signature{Name: t.Name, Description: t.Version.Description}
	for _, part := range []struct {
		raw []byte
		to  **schema.Object
	}{{t.Version.Parameters, &sig.Parameters}, {t.Version.Returns, &sig.Returns}} {
		if len(part.raw) == 0 {
			continue
		}
		tree, err := schema.Decode(part.raw)
		if err != nil {
			return fmt.Errorf("read the schema of the tool: %w", err)
		}
		*part.to, _ = tree.(*schema.Object) // a schema that is only true says nothing
	}
	return printSchema(s.Out, sig, form, strict)
}

// printTool shows a tool to a person.
func printTool(s *cli.Session, t *haft.Tool) {
	v := t.Version
	health := cli.Shaded(string(toolfile.HealthOf(*t).Status), green)
	if health == cli.Shaded(string(haft.HealthNonStrict), green) {
		health.Shade = yellow
	}
	registered, review := "", ""
	if v.Kind != haft.KindBuiltin {
		registered = cli.Since(v.Created) + " by " + cmp.Or(v.Author, "nobody in particular")
	}
	if r := v.Review; r.State != haft.ReviewNone {
		review = string(r.State)
		if r.By != "" {
			review += " by " + r.By + ", " + cli.Since(r.At)
		}
		if r.Reason != "" {
			review += ": " + r.Reason
		}
	}
	cli.PrintFacts(s.Out, "name", cli.Shaded(t.Name, bold), "id", t.ID, "state", toolState(*t), "unavailable",
		t.Unavailable,
		"kind", v.Kind, "version", v.Number, "digest", v.Digest, "category", t.Category,
		"tags", strings.Join(t.Tags, ", "), "description", v.Description, "function", v.Function,
		"parameters", string(v.Parameters), "returns", string(v.Returns), "schema", health,
		"settings", flagvalue.SettingsText(v.Settings),
		"files", strings.Join(toolfile.PathsOf(v.Files), ", "), "requirements",
		strings.Join(slices.Concat(v.Requirements.Pip, v.Requirements.NPM), ", "),
		"registered", registered, "review", review)
	if len(v.Review.Findings) > 0 {
		fmt.Fprintln(s.Out)
		cli.PrintTable(s.Out, v.Review.Findings, cli.Listing[haft.Finding]{
			"LINE,SEVERITY,RULE,FINDING", func(f haft.Finding) []any {
				line := strings.TrimPrefix(fmt.Sprintf("%s:%d", f.File, f.Line), ":")
				return []any{line, severityCell(f.Severity), f.Rule, f.Message}
			}, ""})
	}
}

// severityCell is a severity in its colour.
func severityCell(s haft.Severity) cli.Cell {
	shade := yellow
	switch {
	case s.AtLeast(haft.SeverityHigh):
		shade = red
	case s == haft.SeverityLow:
		shade = dim
	}
	return cli.Shaded(string(s), shade)
}

// listVersions lists the versions of a tool.
func listVersions(ctx context.Context, s *cli.Session, args []string) error {
	t, err := s.Tool(ctx, s.Who, args[0])
	if err != nil {
		return err
	}
	return cli.PrintList(s.Profile, s.Versions(ctx, s.Who, args[0]), cli.Listing[haft.Version]{
		",VERSION,DIGEST,REVIEW,FINDINGS,AUTHOR,REGISTERED", func(v haft.Version) []any {
			mark := ""
			if v.Number == t.Version.Number {
				mark = "*"
			}
			return []any{cli.Shaded(mark, green), v.Number, cli.ShortDigest(v.Digest), v.Review.State,
				len(v.Review.Findings),
				v.Author, cli.Since(v.Created)}
		}, "the tool has no versions"})
}

// rollBack makes another version the current one.
func rollBack(ctx context.Context, s *cli.Session, args []string) (err error) {
	number := 0
	if len(args) == 2 {
		if number, err = strconv.Atoi(args[1]); err != nil || number < 1 {
			return exit.Misuse(errors.New("VERSION is a number: see haft tool versions " + args[0]))
		}
	} else if number, err = versionBefore(ctx, s, args[0]); err != nil {
		return err
	}
	t, err := s.SetTool(ctx, s.Who, args[0], haft.ToolState{Version: &number})
	if haft.CodeOf(err) == haft.CodeNotFound {
		return exit.Advise(err, "see which versions it has with: haft tool versions "+args[0])
	}
	if err != nil {
		return err
	}
	return s.PrintLine(t, fmt.Sprintf("calls of %s run version %d from now on", t.Name, t.Version.Number))
}

// versionBefore finds the newest version before the current one that may run.
func versionBefore(ctx context.Context, s *cli.Session, ref string) (int, error) {
	t, err := s.Tool(ctx, s.Who, ref)
	if err != nil {
		return 0, err
	}
	for v, err := range s.Versions(ctx, s.Who, ref) {
		if err != nil {
			return 0, err
		}
		if v.Number < t.Version.Number && (v.Review.State == haft.ReviewNone || v.Review.State == haft.ReviewPassed) {
			return v.Number, nil
		}
	}
	return 0, exit.Advise(&haft.Error{Code: haft.CodeConflict,
		Message: "there is no version before the current one that may be called"},
		"see which versions it has with: haft tool versions "+ref)
}

// switchTool enables or disables a tool.
func switchTool(word string, disabled bool) cli.Work {
	return func(ctx context.Context, s *cli.Session, args []string) error {
		t, err := s.SetTool(ctx, s.Who, args[0], haft.ToolState{Disabled: &disabled})
		if err != nil {
			return err
		}
		return s.PrintLine(t, t.Name+" is "+word)
	}
}

// reviewFlags answer for a version that waits.
type reviewFlags struct {
	accept, refuse bool
	reason         string
	number         int
}

// answer accepts or refuses a version.
func (f *reviewFlags) answer(ctx context.Context, s *cli.Session, args []string) error {
	if f.accept == f.refuse {
		return exit.Misuse(errors.New("say either --accept or --refuse; see what was found with: haft tool show " +
			args[0] + " --version N"))
	}
	state := haft.ToolState{Review: &haft.Answer{Approve: f.accept, Reason: f.reason}}
	if f.number != 0 {
		state.Version = &f.number
	}
	t, err := s.SetTool(ctx, s.Who, args[0], state)
	if haft.CodeOf(err) == haft.CodeDenied {
		return exit.Advise(err, "ask another administrator to look: haft tool review "+args[0]+" --accept --user NAME")
	}
	if err != nil {
		return err
	}
	word := "refused"
	if f.accept {
		word = "accepted"
	}
	return s.PrintLine(t, fmt.Sprintf("%s: %s; calls run version %d", t.Name, word, t.Version.Number))
}

// exportTools writes tools into a directory.
func exportTools(ctx context.Context, s *cli.Session, args []string) error {
	tools, err := cli.Collect(registry.Whole(ctx, s, s.Who, s.Tools(ctx, s.Who, haft.ToolFilter{Disabled: true})))
	if err != nil {
		return err
	}
	written, err := registry.WriteDir(args[0], tools)
	if err != nil {
		return exit.Advise(err, "name a directory that can be written")
	}
	return s.Print(append([]string{}, written...), func() {
		for _, name := range written {
			fmt.Fprintln(s.Out, name)
		}
		fmt.Fprintf(s.Err, "%d tools written; built-in tools are part of haft\n", len(written))
	})
}

// removeTools removes tools.
func removeTools(ctx context.Context, s *cli.Session, args []string) error {
	for _, name := range args {
		if err := s.RemoveTool(ctx, s.Who, name, ""); err != nil {
			return err
		}
		if !s.JSON {
			fmt.Fprintln(s.Out, "removed", name)
		}
	}
	return s.Print(args, func() {})
}

// showLock prints the lists of packages.
func showLock(ctx context.Context, s *cli.Session, ref string) error {
	local, err := s.Local("a server shows which locks a version has (haft tool show --json), and not their " +
		"lists: use haft tool lock where the data is")
	if err != nil {
		return err
	}
	lists, err := local.Locked(ctx, s.Who, ref)
	if err != nil {
		return err
	}
	return s.Print(lists, func() {
		if len(lists) == 0 {
			fmt.Fprintln(s.Err, "it needs no packages")
		}
		for _, kind := range []string{"pip", "npm"} {
			if text := lists[kind]; text != "" {
				fmt.Fprintln(s.Out, strings.TrimRight(text, "\n"))
			}
		}
	})
}

// upgradeTool makes a version with newer packages.
func upgradeTool(ctx context.Context, s *cli.Session, ref string) error {
	t, err := s.Tool(ctx, s.Who, ref)
	if err != nil {
		return err
	}
	d := registry.DraftOf(*t)
	d.Relock, d.If = true, t.Version.Digest
	change, err := s.PutTool(ctx, s.Who, d)
	if err != nil {
		return err
	}
	if s.JSON {
		return s.Print(change, nil)
	}
	installPackages(ctx, s, change)
	printAdded(s.Streams, added{Change: change})
	return nil
}
