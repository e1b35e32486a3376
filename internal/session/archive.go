package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"haft"
)

// packCode writes the files of /work as a tar archive to its output, and unpackCode reads one from its input. They
// run in the session, and what they print is not trusted. Sockets and named pipes are left out.
const (
	packCode = `
import os, sys, tarfile
def keep(e):
    return e if e.isreg() or e.isdir() or e.issym() or e.islnk() else None
os.chdir("/work")
with tarfile.open(fileobj=sys.stdout.buffer, mode="w|", format=tarfile.GNU_FORMAT) as t:
    for name in sorted(os.listdir(".")):
        if name != ".ports":
            t.add(name, filter=keep)
`
	unpackCode = `
import sys, tarfile
how = {"filter": "fully_trusted"} if hasattr(tarfile, "fully_trusted_filter") else {}
with tarfile.open(fileobj=sys.stdin.buffer, mode="r|") as t:
    t.extractall("/work", **how)
`
)

// python is the command that runs code of this package in a session.
func python(code string) []string { return []string{"python3", "-I", "-S", "-c", code} }

// Pack writes the files of the session as a tar archive. Secrets in them stay: see [Session.Exposed].
func Pack(ctx context.Context, s *Session, to io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	return archive(ctx, s, Command{Argv: python(packCode), Stdout: func(b []byte) {
		if ctx.Err() == nil {
			if _, err := to.Write(b); err != nil {
				cancel(err)
			}
		}
	}}, nil)
}

// NoteOrigins notes that a session gets files of workspaces of these names.
func NoteOrigins(s *Session, names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.origins = append(s.origins, names...)
	slices.Sort(s.origins)
	s.origins = slices.Compact(s.origins)
}

// Origins returns the names of the workspaces that files of a session come from.
func Origins(s *Session) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.origins)
}

// Unpack adds the files of a tar archive to those of the session.
func Unpack(ctx context.Context, s *Session, from io.Reader) error {
	return archive(ctx, s, Command{Argv: python(unpackCode), Stdin: true}, from)
}

// archive runs a command with what it reads.
func archive(ctx context.Context, s *Session, cmd Command, in io.Reader) error {
	p, err := s.Start(ctx, cmd)
	if err != nil {
		return err
	}
	var feeder sync.WaitGroup
	ctx, stop := context.WithCancelCause(ctx)
	if in != nil {
		feeder.Go(func() {
			buf := make([]byte, window/4)
			for {
				n, err := in.Read(buf)
				if n > 0 {
					if p.Write(ctx, buf[:n]) != nil {
						return // the command has ended, and says why
					}
				}
				if errors.Is(err, io.EOF) {
					_ = p.CloseInput()
					return
				}
				if err != nil {
					stop(fmt.Errorf("read an archive: %w", err))
					return
				}
			}
		})
	}
	code, err := p.Wait(ctx)
	stop(nil)
	feeder.Wait()
	if err != nil {
		return err
	}
	if code != 0 {
		return &haft.Error{Code: haft.CodeConflict,
			Message: fmt.Sprintf("the files of the session could not be read or written (exit code %d): the disk "+
				"is full, or a file was changed or cannot be read", code)}
	}
	return nil
}
