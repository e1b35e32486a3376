package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"haft/internal/registry"
)

// toolLock shows the exact packages of a tool, or finds newer ones.
func toolLock(p *persona, std streams) *cobra.Command {
	upgrade := false
	cmd := p.command(std, "lock NAME", "Show the exact packages that a tool runs with, or find newer ones",
		cobra.ExactArgs(1),
		func(ctx context.Context, s *session, args []string) error {
			if upgrade {
				return upgradeTool(ctx, s, args[0])
			}
			return showLock(ctx, s, args[0])
		})
	cmd.Long = `A version of a tool always runs with the same packages. lock shows which they are;
with --upgrade it finds the newest that fit the tool's requirements, and makes a new
version if there are any.`
	cmd.Flags().BoolVar(&upgrade, "upgrade", false, "find the newest packages that fit, and make a version with them")
	return cmd
}

// showLock prints the lists of packages.
func showLock(ctx context.Context, s *session, ref string) error {
	local, ok := s.system.(*embedded)
	if !ok {
		return usage(errors.New("a server shows which locks a version has (haft tool show --json), and not their " +
			"lists: use haft tool lock where the data is"))
	}
	lists, err := local.Locked(ctx, s.p, ref)
	if err != nil {
		return noTool(err)
	}
	if s.as.json {
		return printJSON(s.std.out, lists)
	}
	if len(lists) == 0 {
		fmt.Fprintln(s.std.err, "it needs no packages")
	}
	for _, kind := range []string{"pip", "npm"} {
		if text := lists[kind]; text != "" {
			fmt.Fprintln(s.std.out, strings.TrimRight(text, "\n"))
		}
	}
	return nil
}

// upgradeTool makes a version with newer packages.
func upgradeTool(ctx context.Context, s *session, ref string) error {
	t, err := s.Tool(ctx, s.p, ref)
	if err != nil {
		return noTool(err)
	}
	d := registry.DraftOf(*t)
	d.Relock, d.If = true, t.Version.Digest
	change, err := s.PutTool(ctx, s.p, d)
	if err != nil {
		return err
	}
	if s.as.json {
		return printJSON(s.std.out, change)
	}
	(&adder{s: s}).build(ctx, change)
	(&adder{s: s}).tell(added{Change: change})
	return nil
}
