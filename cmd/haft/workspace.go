package main

import (
	"context"
	"fmt"
	"io"

	"haft/internal/backend"
	"haft/internal/flagvalue"
)

// workspaceCommand keeps directories that outlive calls.
func workspaceCommand(*profile) command {
	f := new(backend.WorkspaceFlags)
	flags := map[string]flag{
		"bytes": {(*flagvalue.Size)(&f.Add.Quota.Bytes), "bytes",
			"how much may be in it; what the server allows if it is not given"},
		"inodes": {&f.Inodes, "inodes", "how many files, directories and links may be in it"},
		"shared": {&f.Add.Shared, "shared", "let everybody in the organisation use it"},
		"output": {&f.Output, "output", "the `FILE` to write it to"},
	}
	c := command{
		use: "workspace", short: "Keep directories that outlive calls, with snapshots and forks",
		example: `  haft workspace add notes
  haft call remember --workspace notes             a tool finds it at /workspace
  haft call search --workspace notes:ro            read-only, beside other calls
  haft workspace snapshot notes@before
  haft workspace diff notes@before notes           what was changed since
  haft workspace restore notes notes@before`,
		missing: "see which there are with: haft workspace list",
	}
	for _, w := range backend.WorkspaceCommands() {
		sub := command{use: w.Use, short: w.Short, run: func(ctx context.Context, s *session, args []string) error {
			shown, err := w.Run(ctx, s.system, s.p, f, [3]string(append(args, "", "", "")))
			if err != nil {
				return err
			}
			return s.show(shown, f.Output)
		}}
		for _, name := range w.Flags {
			sub.flags = append(sub.flags, flags[name])
		}
		c.subs = append(c.subs, sub)
	}
	return c
}

// show prints what a command shows, or writes content to a file.
func (s *session) show(shown backend.Shown, to string) error {
	if shown.Content != nil {
		defer shown.Content.Close() // only read
		return s.withOutput(to, func(w io.Writer) error {
			_, err := io.Copy(w, shown.Content)
			return err
		})
	}
	return s.print(shown.Document, func() {
		if shown.Head == "" {
			fmt.Fprintln(s.out, safe(s.out, shown.Line))
			return
		}
		printTable(s.out, shown.Rows, listing[[]any]{shown.Head, func(row []any) []any { return row }, shown.Line})
		if shown.More {
			fmt.Fprintln(s.err, "there is more: name a directory, or use the API")
		}
	})
}
