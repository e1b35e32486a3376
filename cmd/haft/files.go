package main

import (
	"context"
	"fmt"
	"io"
	"iter"
	"time"

	"haft"
	"haft/internal/backend"
	"haft/internal/cli"
)

// fileCommand keeps files.
func fileCommand(*cli.Profile) cli.Command {
	var ttl time.Duration
	var to string
	return cli.Command{
		Use: "file", Short: "Keep files that calls are given: add, list, get and remove them",
		Example: `  haft file add photo.png
  haft call thumbnail --file file_…                a file that was added, or one of this machine`,
		Missing: "see which there are with: haft file list",
		Subs: []cli.Command{
			{Use: "add FILE…", Short: "Add files, and print their ids",
				Flags: []cli.Flag{{&ttl, "ttl", "how long to keep them; as long as the server allows if it is " +
					"not given"}},
				Run: func(ctx context.Context, s *cli.Session, names []string) error {
					return addFiles(ctx, s, names, ttl)
				}},
			{Use: "list", Short: "List files, newest first", Run: cli.ListAll(
				func(s cli.System, ctx context.Context, p haft.Principal) iter.Seq2[haft.File, error] {
					return backend.FilesOf(s).Files(ctx, p, "")
				}, cli.Listing[haft.File]{"ID,NAME,SIZE,TYPE,EXPIRES", func(f haft.File) []any {
					return []any{f.ID, cli.Shaded(f.Name, bold), f.Size, f.ContentType, f.Expires.Format(time.DateTime)}
				}, "there are no files; add one with: haft file add FILE"})},
			{Use: "get ID", Short: "Write the content of a file to standard output, or to a file",
				Flags: []cli.Flag{{&to, "output", "the `FILE` to write it to"}},
				Run: func(ctx context.Context, s *cli.Session, args []string) error {
					_, content, err := backend.FilesOf(s.System).OpenFile(ctx, s.Who, haft.FileID(args[0]))
					if err != nil {
						return err
					}
					return s.WithOutput(to, func(w io.Writer) error {
						_, err := io.Copy(w, content)
						return err
					})
				}},
			{Use: "remove ID", Old: []string{"rm"}, Short: "Remove a file", Run: cli.RemoveOne(func(s cli.System,
				ctx context.Context,
				p haft.Principal,
				id haft.FileID, _ string) error {
				return backend.FilesOf(s).RemoveFile(ctx, p, id)
			}, "removed ", "")},
		},
	}
}

// addFiles adds files of this machine.
func addFiles(ctx context.Context, s *cli.Session, names []string, ttl time.Duration) error {
	var added []haft.File
	for _, name := range names {
		f, err := backend.AddFile(ctx, backend.FilesOf(s.System), s.Who, name, ttl)
		if err != nil {
			return err
		}
		added = append(added, *f)
	}
	return s.Print(added, func() {
		for _, f := range added {
			fmt.Fprintln(s.Out, f.ID)
		}
	})
}

// saveArtifacts saves what a call left below a directory and names it; empty saves nothing.
func saveArtifacts(ctx context.Context, p *cli.Profile, from cli.System, who haft.Principal, res *haft.Result,
	dir string) error {
	if dir == "" {
		return nil
	}
	return backend.SaveArtifacts(ctx, from, who, res, dir, func(path string) {
		fmt.Fprintf(p.Err, "saved %s\n", safe(p.Err, path))
	})
}

// artifactFlags are the flags of haft calls artifacts.
type artifactFlags struct{ dir string }

func (f *artifactFlags) flags() []cli.Flag {
	return []cli.Flag{{&f.dir, "save", "the `DIR` to save them in"}}
}

// show lists what a call left, and saves it if it is told where.
func (f *artifactFlags) show(ctx context.Context, s *cli.Session, args []string) error {
	rec, err := s.Record(ctx, s.Who, haft.CallID(args[0]))
	if err != nil {
		return err
	}
	list := []haft.Artifact{}
	if rec.Result != nil {
		list = append(list, rec.Result.Artifacts...)
		if err := saveArtifacts(ctx, s.Profile, s.System, s.Who, rec.Result, f.dir); err != nil {
			return err
		}
	}
	for i := range list {
		list[i].Data = nil
	}
	return s.Print(list, func() {
		cli.PrintTable(s.Out, list, cli.Listing[haft.Artifact]{"NAME,SIZE,TYPE", func(a haft.Artifact) []any {
			return []any{cli.Shaded(a.Name, bold), a.Size, a.ContentType}
		}, "the call left no files"})
	})
}
