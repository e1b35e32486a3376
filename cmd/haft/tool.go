package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"haft"
	"haft/internal/registry"
	"haft/schema"
)

// toolCommand keeps tools.
func toolCommand(std streams) *cobra.Command {
	cmd := group("tool", "Keep tools: register, list, show, roll back, review", `  haft tool add weather.py
  haft tool list --tag weather
  haft tool show forecast --format openai --strict
  haft tool rollback forecast`)
	p := attach(cmd)
	cmd.AddCommand(
		toolAdd(p, std), toolList(p, std), toolSearch(p, std), toolShow(p, std), toolVersions(p, std),
		toolRollback(p, std),
		toolSwitch(p, std, "enable", "Let a tool be called again", false),
		toolSwitch(p, std, "disable", "Refuse calls of a tool, and keep its history", true),
		toolReview(p, std), toolLock(p, std), toolExport(p, std), toolRemove(p, std), makeCall(p, std),
	)
	return cmd
}

// noTool says what to do about a tool that is not there.
func noTool(err error) error {
	if haft.CodeOf(err) != haft.CodeNotFound {
		return err
	}
	return advise(err, "see which there are with: haft tool list --all")
}

// toolList lists tools.
func toolList(p *persona, std streams) *cobra.Command {
	var f haft.ToolFilter
	var kind string
	cmd := p.command(std, "list", "List tools", cobra.NoArgs, func(ctx context.Context, s *session, _ []string) error {
		f.Kind = haft.Kind(kind)
		if kind != "" && !known(haft.Kinds(), f.Kind) {
			return usage(fmt.Errorf("--kind is one of %v", haft.Kinds()))
		}
		return listTools(ctx, s, f)
	})
	fl := cmd.Flags()
	fl.StringVar(&f.Category, "category", "", "only those of a category")
	fl.StringVar(&f.Tag, "tag", "", "only those with a tag")
	fl.StringVar(&kind, "kind", "", "only those of a kind: python, typescript, javascript, bash or builtin")
	fl.StringVar(&f.Search, "search", "", "only those with these words, the best first")
	fl.IntVar(&f.Limit, "limit", 0, "the most to list")
	fl.BoolVar(&f.Disabled, "all", false, "also those that are disabled")
	return cmd
}

// toolSearch finds tools.
func toolSearch(p *persona, std streams) *cobra.Command {
	return p.command(std, "search TEXT…", "Find tools by words of their name, description, tags and category",
		cobra.MinimumNArgs(1),
		func(ctx context.Context, s *session, args []string) error {
			return listTools(ctx, s, haft.ToolFilter{Search: strings.Join(args, " ")})
		})
}

// listTools prints the tools that fit f.
func listTools(ctx context.Context, s *session, f haft.ToolFilter) error {
	now := time.Now()
	return printList(s, s.Tools(ctx, s.p, f), "there are no such tools; register one with: haft tool add FILE",
		[]string{"NAME", "KIND", "VERSION", "STATE", "CATEGORY", "TAGS", "CHANGED", "DESCRIPTION"},
		func(tab *table, t haft.Tool) {
			changed := "with haft"
			if t.Version.Kind != haft.KindBuiltin {
				changed = ago(t.Updated, now)
			}
			tab.row(cell{t.Name, bold}, t.Version.Kind, t.Version.Number, toolStateCell(t), t.Category,
				strings.Join(t.Tags, " "), changed,
				firstSentence(t.Version.Description))
		})
}

// toolStateCell says whether a tool can be called.
func toolStateCell(t haft.Tool) cell {
	switch {
	case t.Disabled:
		return cell{"disabled", yellow}
	case t.Version.Number == 0 || t.Version.Review.State == haft.ReviewWaiting:
		return cell{"waiting", yellow}
	case t.Version.Review.State == haft.ReviewRefused:
		return cell{"refused", red}
	}
	return cell{"ready", green}
}

// firstSentence is enough of a description for a list.
func firstSentence(text string) string {
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
	return text
}

// toolShow shows one tool.
func toolShow(p *persona, std streams) *cobra.Command {
	var (
		number int
		format string
		strict bool
	)
	cmd := p.command(std, "show NAME", "Show a tool, or the form of it that a model vendor takes", cobra.ExactArgs(1),
		func(ctx context.Context, s *session, args []string) error {
			t, err := s.Tool(ctx, s.p, args[0])
			if err != nil {
				return noTool(err)
			}
			if number != 0 {
				v, err := versionOf(ctx, s, args[0], number)
				if err != nil {
					return err
				}
				t.Version = *v
			}
			if format != "" {
				return showForm(s, t, format, strict)
			}
			if s.as.json {
				return printJSON(s.std.out, t)
			}
			printTool(s, t)
			return nil
		})
	cmd.Flags().IntVar(&number, "version", 0, "a `NUMBER`; the current one if it is not given")
	cmd.Flags().StringVar(&format, "format", "",
		"the schema in the form of openai, openai-responses, anthropic, gemini, mcp or json")
	cmd.Flags().BoolVar(&strict, "strict", false, "the vendor's strict form, where it has one")
	return cmd
}

// versionOf finds the version of a number.
func versionOf(ctx context.Context, s *session, ref string, number int) (*haft.Version, error) {
	for v, err := range s.Versions(ctx, s.p, ref) {
		if err != nil {
			return nil, noTool(err)
		}
		if v.Number == number {
			return &v, nil
		}
	}
	return nil, advise(&haft.Error{Code: haft.CodeNotFound,
		Message: fmt.Sprintf("the tool %s has no version %d", ref, number)},
		"see which it has with: haft tool versions "+ref)
}

// showForm prints the schema of a tool for those who call it.
func showForm(s *session, t *haft.Tool, format string, strict bool) error {
	form, err := schema.ParseForm(format)
	if err != nil {
		return usage(err)
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
	return printSchema(s.std.out, sig, form, strict)
}

// printTool shows a tool to a person.
func printTool(s *session, t *haft.Tool) {
	w, v, now := s.std.out, t.Version, time.Now()
	health := cell{string(v.Health.Status), green}
	if v.Health.Status == haft.HealthNonStrict {
		health.shade = yellow
	}
	state := toolStateCell(*t)
	facts := []fact{
		{"name", cell{t.Name, bold}}, {"id", t.ID}, {"state", state}, {"kind", v.Kind}, {"version", v.Number},
		{"digest", v.Digest},
		{"category", t.Category}, {"tags", strings.Join(t.Tags, ", ")}, {"description", v.Description},
		{"function", v.Function},
		{"parameters", string(v.Parameters)}, {"returns", string(v.Returns)}, {"schema", health},
		{"settings", settingsText(v.Settings)},
		{"requirements", strings.Join(append(v.Requirements.Pip, v.Requirements.NPM...), ", ")},
	}
	if v.Kind != haft.KindBuiltin {
		facts = append(facts,
			fact{"registered", strings.TrimSpace(ago(v.Created, now) + " by " + or(v.Author, "nobody in particular"))})
	}
	if r := v.Review; r.State != haft.ReviewNone {
		text := string(r.State)
		if r.By != "" {
			text += " by " + r.By + ", " + ago(r.At, now)
		}
		if r.Reason != "" {
			text += ": " + r.Reason
		}
		facts = append(facts, fact{"review", text})
	}
	printFacts(w, facts...)
	if len(v.Review.Findings) == 0 {
		return
	}
	fmt.Fprintln(w)
	tab := newTable(w, "LINE", "SEVERITY", "RULE", "FINDING")
	for _, f := range v.Review.Findings {
		tab.row(f.Line, severityCell(f.Severity), f.Rule, f.Message)
	}
	tab.print("")
}

// severityCell is a severity in its colour.
func severityCell(s haft.Severity) cell {
	shade := yellow
	switch {
	case s.AtLeast(haft.SeverityHigh):
		shade = red
	case s == haft.SeverityLow:
		shade = dim
	}
	return cell{string(s), shade}
}

// toolVersions lists the versions of a tool.
func toolVersions(p *persona, std streams) *cobra.Command {
	return p.command(std, "versions NAME", "List the versions of a tool, newest first", cobra.ExactArgs(1),
		func(ctx context.Context, s *session, args []string) error {
			t, err := s.Tool(ctx, s.p, args[0])
			if err != nil {
				return noTool(err)
			}
			now := time.Now()
			return printList(s, s.Versions(ctx, s.p, args[0]), "the tool has no versions",
				[]string{"", "VERSION", "DIGEST", "REVIEW", "FINDINGS", "AUTHOR", "REGISTERED"},
				func(tab *table, v haft.Version) {
					mark := ""
					if v.Number == t.Version.Number {
						mark = "*"
					}
					tab.row(cell{mark, green}, v.Number, shortDigest(v.Digest), v.Review.State, len(v.Review.Findings),
						v.Author, ago(v.Created, now))
				})
		})
}

// toolRollback makes another version the current one.
func toolRollback(p *persona, std streams) *cobra.Command {
	return p.command(std, "rollback NAME [VERSION]",
		"Call an older version from now on: the one before, or that of a number", cobra.RangeArgs(1, 2),
		func(ctx context.Context, s *session, args []string) error {
			number := 0
			if len(args) == 2 {
				if _, err := fmt.Sscanf(args[1], "%d", &number); err != nil || number < 1 {
					return usage(errors.New("VERSION is a number: see haft tool versions " + args[0]))
				}
			} else {
				before, err := versionBefore(ctx, s, args[0])
				if err != nil {
					return err
				}
				number = before
			}
			t, err := s.SetTool(ctx, s.p, args[0], haft.ToolState{Version: &number})
			if err != nil {
				if haft.CodeOf(err) == haft.CodeNotFound {
					return advise(err, "see which versions it has with: haft tool versions "+args[0])
				}
				return err
			}
			return tellTool(s, t, fmt.Sprintf("calls of %s run version %d from now on", t.Name, t.Version.Number))
		})
}

// versionBefore finds the newest version before the current one that may run.
func versionBefore(ctx context.Context, s *session, ref string) (int, error) {
	t, err := s.Tool(ctx, s.p, ref)
	if err != nil {
		return 0, noTool(err)
	}
	for v, err := range s.Versions(ctx, s.p, ref) {
		if err != nil {
			return 0, err
		}
		if v.Number < t.Version.Number && (v.Review.State == haft.ReviewNone || v.Review.State == haft.ReviewPassed) {
			return v.Number, nil
		}
	}
	return 0, advise(&haft.Error{Code: haft.CodeConflict,
		Message: "there is no version before the current one that may be called"},
		"see which versions it has with: haft tool versions "+ref)
}

// tellTool prints a tool that was changed.
func tellTool(s *session, t *haft.Tool, words string) error {
	if s.as.json {
		return printJSON(s.std.out, t)
	}
	fmt.Fprintln(s.std.out, words)
	return nil
}

// toolSwitch enables or disables a tool.
func toolSwitch(p *persona, std streams, name, short string, disabled bool) *cobra.Command {
	return p.command(std, name+" NAME", short, cobra.ExactArgs(1),
		func(ctx context.Context, s *session, args []string) error {
			t, err := s.SetTool(ctx, s.p, args[0], haft.ToolState{Disabled: &disabled})
			if err != nil {
				return noTool(err)
			}
			return tellTool(s, t, t.Name+" is "+name+"d")
		})
}

// toolReview answers for a version that waits.
func toolReview(p *persona, std streams) *cobra.Command {
	var (
		accept, refuse bool
		reason         string
		number         int
	)
	cmd := p.command(std, "review NAME --accept|--refuse", "Accept or refuse a version in which something was found",
		cobra.ExactArgs(1),
		func(ctx context.Context, s *session, args []string) error {
			if accept == refuse {
				return usage(errors.New("say either --accept or --refuse; see what was found with: haft tool show " +
					args[0] + " --version N"))
			}
			state := haft.ToolState{Review: &haft.Answer{Approve: accept, Reason: reason}}
			if number != 0 {
				state.Version = &number
			}
			t, err := s.SetTool(ctx, s.p, args[0], state)
			if haft.CodeOf(err) == haft.CodeDenied {
				return advise(err, "ask another administrator to look: haft tool review "+args[0]+
					" --accept --user NAME")
			}
			if err != nil {
				return noTool(err)
			}
			word := "refused"
			if accept {
				word = "accepted"
			}
			return tellTool(s, t, fmt.Sprintf("%s: %s; calls run version %d", t.Name, word, t.Version.Number))
		})
	cmd.Flags().BoolVar(&accept, "accept", false, "the version may be called")
	cmd.Flags().BoolVar(&refuse, "refuse", false, "the version may never be called")
	cmd.Flags().StringVar(&reason, "reason", "", "why")
	cmd.Flags().IntVar(&number, "version", 0, "the `NUMBER` of the version; the newest that waits if it is not given")
	return cmd
}

// toolExport writes tools into a directory.
func toolExport(p *persona, std streams) *cobra.Command {
	return p.command(std, "export DIR",
		"Write the current versions of all tools into a directory, for haft tool add DIR", cobra.ExactArgs(1),
		func(ctx context.Context, s *session, args []string) error {
			var tools []haft.Tool
			for t, err := range s.Tools(ctx, s.p, haft.ToolFilter{Disabled: true}) {
				if err != nil {
					return err
				}
				tools = append(tools, t)
			}
			written, err := registry.WriteDir(args[0], tools)
			if err != nil {
				return advise(err, "name a directory that can be written")
			}
			if s.as.json {
				return printJSON(s.std.out, append([]string{}, written...))
			}
			for _, name := range written {
				fmt.Fprintln(s.std.out, name)
			}
			fmt.Fprintf(s.std.err, "%d tools written; built-in tools are part of haft\n", len(written))
			return nil
		})
}

// toolRemove removes tools.
func toolRemove(p *persona, std streams) *cobra.Command {
	return p.command(std, "rm NAME…", "Remove tools with their versions; calls and audit stay", cobra.MinimumNArgs(1),
		func(ctx context.Context, s *session, args []string) error {
			for _, name := range args {
				if err := s.RemoveTool(ctx, s.p, name, ""); err != nil {
					return noTool(err)
				}
				if !s.as.json {
					fmt.Fprintln(s.std.out, "removed", name)
				}
			}
			if s.as.json {
				return printJSON(s.std.out, args)
			}
			return nil
		})
}
