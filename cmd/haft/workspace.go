package main

import (
	"context"
	"fmt"
	"io"

	"haft/internal/backend"
	"haft/internal/cli"
	"haft/internal/flagvalue"
)

// workspaceCommand keeps directories that outlive calls.
func workspaceCommand(*cli.Profile) cli.Command {
	f := new(backend.WorkspaceFlags)
	flags := map[string]cli.Flag{
		"bytes": {(*flagvalue.Size)(&f.Add.Quota.Bytes), "bytes",
			"how much may be in it; what the server allows if it is not given"},
		"inodes": {&f.Inodes, "inodes", "how many files, directories and links may be in it"},
		"shared": {&f.Add.Shared, "shared", "let everybody in the organisation use it"},
		"output": {&f.Output, "output", "the `FILE` to write it to"},
	}
	c := cli.Command{
		Use: "workspace", Short: "Keep directories that outlive calls, with snapshots and forks",
		Example: `  haft workspace add notes
  haft call remember --workspace notes             a tool finds it at /workspace
  haft call search --workspace notes:ro            read-only, beside other calls
  haft workspace snapshot notes@before
  haft workspace diff notes@before notes           what was changed since
  haft workspace restore notes notes@before`,
		Missing: "see which there are with: haft workspace list",
	}
	for _, w := range backend.WorkspaceCommands() {
		sub := cli.Command{Use: w.Use, Short: w.Short, Run: func(ctx context.Context, s *cli.Session,
			args []string) error {
			shown, err := w.Run(ctx, s.System, s.Who, f, [3]string(append(args, "", "", "")))
			if err != nil {
				return err
			}
			return showRows(s, shown, f.Output)
		}}
		for _, name := range w.Flags {
			sub.Flags = append(sub.Flags, flags[name])
		}
		c.Subs = append(c.Subs, sub)
	}
	return c
}

// show prints what a command shows, or writes content to a file.
func showRows(s *cli.Session, shown backend.Shown, to string) error {
	if shown.Content != nil {
		defer shown.Content.Close() // only read
		return s.WithOutput(to, func(w io.Writer) error {
			_, err := io.Copy(w, shown.Content)
			return err
		})
	}
	return s.Print(shown.Document, func() {
		if shown.Head == "" {
			fmt.Fprintln(s.Out, safe(s.Out, shown.Line))
			return
		}
		cli.PrintTable(s.Out, shown.Rows, cli.Listing[[]any]{shown.Head, func(row []any) []any { return row },
			shown.Line})
		if shown.More {
			fmt.Fprintln(s.Err, "there is more: name a directory, or use the API")
		}
	})
}
