package main

import (
	"context"
	"fmt"
	"io"
	"iter"
	"time"

	"haft"
	"haft/internal/backend"
)

// fileCommand keeps files.
func fileCommand(*profile) command {
	var ttl time.Duration
	var to string
	return command{
		use: "file", short: "Keep files that calls are given: add, list, get and remove them",
		example: `  haft file add photo.png
  haft call thumbnail --file file_…                a file that was added, or one of this machine`,
		missing: "see which there are with: haft file list",
		subs: []command{
			{use: "add FILE…", short: "Add files, and print their ids",
				flags: []flag{{&ttl, "ttl", "how long to keep them; as long as the server allows if it is not given"}},
				run: func(ctx context.Context, s *session, names []string) error {
					return addFiles(ctx, s, names, ttl)
				}},
			{use: "list", short: "List files, newest first", run: listAll(
				func(s system, ctx context.Context, p haft.Principal) iter.Seq2[haft.File, error] {
					return backend.FilesOf(s).Files(ctx, p, "")
				}, listing[haft.File]{"ID,NAME,SIZE,TYPE,EXPIRES", func(f haft.File) []any {
					return []any{f.ID, cell{f.Name, bold}, f.Size, f.ContentType, f.Expires.Format(time.DateTime)}
				}, "there are no files; add one with: haft file add FILE"})},
			{use: "get ID", short: "Write the content of a file to standard output, or to a file",
				flags: []flag{{&to, "output", "the `FILE` to write it to"}},
				run: func(ctx context.Context, s *session, args []string) error {
					_, content, err := backend.FilesOf(s.system).OpenFile(ctx, s.p, haft.FileID(args[0]))
					if err != nil {
						return err
					}
					return s.withOutput(to, func(w io.Writer) error {
						_, err := io.Copy(w, content)
						return err
					})
				}},
			{use: "rm ID", short: "Remove a file", run: removeOne(func(s system, ctx context.Context, p haft.Principal,
				id haft.FileID, _ string) error {
				return backend.FilesOf(s).RemoveFile(ctx, p, id)
			}, "removed ", "")},
		},
	}
}

// addFiles adds files of this machine.
func addFiles(ctx context.Context, s *session, names []string, ttl time.Duration) error {
	var added []haft.File
	for _, name := range names {
		f, err := backend.AddFile(ctx, backend.FilesOf(s.system), s.p, name, ttl)
		if err != nil {
			return err
		}
		added = append(added, *f)
	}
	return s.print(added, func() {
		for _, f := range added {
			fmt.Fprintln(s.out, f.ID)
		}
	})
}

// saveArtifacts saves what a call left below a directory and names it; empty saves nothing.
func (p *profile) saveArtifacts(ctx context.Context, from system, who haft.Principal, res *haft.Result,
	dir string) error {
	if dir == "" {
		return nil
	}
	return backend.SaveArtifacts(ctx, from, who, res, dir, func(path string) {
		fmt.Fprintf(p.err, "saved %s\n", safe(p.err, path))
	})
}

// artifactFlags are the flags of haft calls artifacts.
type artifactFlags struct{ dir string }

func (f *artifactFlags) flags() []flag { return []flag{{&f.dir, "save", "the `DIR` to save them in"}} }

// show lists what a call left, and saves it if it is told where.
func (f *artifactFlags) show(ctx context.Context, s *session, args []string) error {
	rec, err := s.Record(ctx, s.p, haft.CallID(args[0]))
	if err != nil {
		return err
	}
	list := []haft.Artifact{}
	if rec.Result != nil {
		list = append(list, rec.Result.Artifacts...)
		if err := s.saveArtifacts(ctx, s.system, s.p, rec.Result, f.dir); err != nil {
			return err
		}
	}
	for i := range list {
		list[i].Data = nil
	}
	return s.print(list, func() {
		printTable(s.out, list, listing[haft.Artifact]{"NAME,SIZE,TYPE", func(a haft.Artifact) []any {
			return []any{cell{a.Name, bold}, a.Size, a.ContentType}
		}, "the call left no files"})
	})
}
