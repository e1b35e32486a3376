package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"path"
	"strings"
	"syscall"
	"time"

	"haft"
)

// An Entry is a file or directory of a session, as the session says.
type Entry struct {
	Path     string  `json:"path"`
	Name     string  `json:"name"`
	Type     string  `json:"type"` // file, dir, symlink or other
	Size     int64   `json:"size"`
	Mode     uint32  `json:"mode"`
	Modified float64 `json:"modified"` // seconds since 1970
	Target   string  `json:"target,omitempty"`
}

// maxPath bounds a path, maxDepth how deep a list goes.
const (
	maxPath  = 4096
	maxDepth = 16
)

// cleanPath returns p, or the path in /work that a relative p means.
func cleanPath(p string) (string, error) {
	switch {
	case p == "" || len(p) > maxPath || strings.ContainsRune(p, 0):
		return "", &haft.Error{Code: haft.CodeInvalid, Message: "the path is empty, too long or holds NUL"}
	case !path.IsAbs(p):
		p = "/work/" + p
	}
	return path.Clean(p), nil
}

// ReadFile returns the content of a file, from offset on, and the size of the file. The
// caller closes it.
func (s *Session) ReadFile(ctx context.Context, name string, offset int64) (io.ReadCloser, int64, error) {
	name, err := cleanPath(name)
	if err != nil {
		return nil, 0, err
	}
	end := s.use()
	r, err := s.ch.start("read", map[string]any{"path": name, "offset": offset})
	var m *message
	if err == nil {
		if m, err = r.await(ctx, "started"); err != nil {
			r.close()
		}
	}
	if err != nil {
		end()
		return nil, 0, s.why(err)
	}
	return &stream{ctx: ctx, r: r, end: end}, m.Size, nil
}

// WriteFile makes a file of what content has, with the directories that it needs. The file
// is there when it is whole.
func (s *Session) WriteFile(ctx context.Context, name string, mode uint32, content io.Reader) (int64, error) {
	name, err := cleanPath(name)
	if err != nil {
		return 0, err
	}
	defer s.use()()
	r, err := s.ch.start("write", map[string]any{"path": name, "mode": mode & 0o777})
	if err != nil {
		return 0, s.why(err)
	}
	defer r.close()
	buf := make([]byte, window/4)
	for {
		n, err := content.Read(buf)
		if n > 0 {
			if err := r.write(ctx, buf[:n]); err != nil {
				return 0, s.why(r.giveUp(err))
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, r.giveUp(fmt.Errorf("read what is to be written: %w", err))
		}
	}
	if err := r.control("eof", nil); err != nil {
		return 0, s.why(err)
	}
	m, err := r.await(ctx, "done")
	if err != nil {
		return 0, s.why(err)
	}
	return m.Size, nil
}

// giveUp ends the request and returns why.
func (r *request) giveUp(why error) error {
	return errors.Join(why, r.control("signal", map[string]any{"signal": int(syscall.SIGKILL)}))
}

// do makes a request that is answered at once.
func (s *Session) do(ctx context.Context, op string, fields map[string]any) (*message, error) {
	for _, k := range []string{"path", "to"} {
		if p, ok := fields[k].(string); ok {
			clean, err := cleanPath(p)
			if err != nil {
				return nil, err
			}
			fields[k] = clean
		}
	}
	defer s.use()()
	r, err := s.ch.start(op, fields)
	if err != nil {
		return nil, s.why(err)
	}
	defer r.close()
	m, err := r.await(ctx, "done")
	return m, s.why(err)
}

// Stat describes a file or directory. It does not follow a link.
func (s *Session) Stat(ctx context.Context, name string) (Entry, error) {
	m, err := s.do(ctx, "stat", map[string]any{"path": name})
	if err != nil {
		return Entry{}, err
	}
	list, err := entriesOf(m.Entries)
	if err != nil || len(list) != 1 {
		return Entry{}, errProtocol
	}
	return list[0], nil
}

// maxEntries bounds a list of files: more than the agent sends.
const maxEntries = 10_000

// entriesOf reads a list of files.
func entriesOf(raw json.RawMessage) (list []Entry, err error) {
	err = eachOf(raw, maxEntries, func(d *json.Decoder) error {
		var e Entry
		if err := d.Decode(&e); err != nil {
			return fmt.Errorf("read a list of files: %w", err)
		}
		list = append(list, e)
		return nil
	})
	return list, err
}

// List lists a directory, and those in it down to depth. It reports whether there are more
// than it returns.
func (s *Session) List(ctx context.Context, name string, depth int) (list []Entry, cut bool, err error) {
	m, err := s.do(ctx, "list", map[string]any{"path": name, "depth": min(max(depth, 1), maxDepth)})
	if err != nil {
		return nil, false, err
	}
	list, err = entriesOf(m.Entries)
	return list, m.Cut, err
}

// MaxRead bounds a file that is read for the owner: one with holes can be larger than any disk.
const MaxRead = 1 << 30

// OpenFile returns the content of a file without the secrets of the session. The caller closes it.
func (s *Session) OpenFile(ctx context.Context, name string) (io.ReadCloser, error) {
	f, size, err := s.ReadFile(ctx, name, 0)
	if err != nil {
		return nil, err
	}
	f = s.Clean(&bounded{f, MaxRead})
	if size > MaxRead {
		return nil, errors.Join(errTooLarge, f.Close())
	}
	return f, nil
}

// errTooLarge is the error for a file that is larger than [MaxRead].
var errTooLarge = &haft.Error{Code: haft.CodeInvalid, Message: "the file is larger than 1 GiB: read it in parts, " +
	"with commands"}

// bounded is a file that fails where it gets too large.
type bounded struct {
	io.ReadCloser
	left int64
}

// Read implements [io.Reader].
func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}

// Files is List for the owner, without secrets. With depth 0 it describes the one file.
func (s *Session) Files(ctx context.Context, name string, depth int) (*haft.SessionDir, error) {
	var list []Entry
	var cut bool
	var err error
	if depth > 0 {
		list, cut, err = s.List(ctx, name, depth)
	} else {
		list = make([]Entry, 1)
		list[0], err = s.Stat(ctx, name)
	}
	if err != nil {
		return nil, err
	}
	out := &haft.SessionDir{Files: make([]haft.SessionFile, len(list)), Cut: cut}
	for i, e := range list {
		// The time is what the session says: it may be anything.
		at := time.Unix(0, 0)
		if e.Modified > 0 && e.Modified < 1<<33 {
			at = time.UnixMicro(int64(e.Modified * 1e6))
		}
		out.Files[i] = haft.SessionFile{Path: s.CleanText(e.Path), Name: s.CleanText(e.Name), Type: e.Type,
			Size: e.Size, Mode: e.Mode, Modified: at.UTC(), Target: s.CleanText(e.Target)}
	}
	return out, nil
}

// watchPace is how often the files of a directory are looked at.
const watchPace = 500 * time.Millisecond

// Watch yields what happens to the files of a directory, and of those in it, until ctx ends. It
// looks at them again and again, for the first time before it returns: of changes that follow each other
// closely it sees the last.
func (s *Session) Watch(ctx context.Context, name string) iter.Seq2[haft.SessionChange, error] {
	before, _, err := look(ctx, s, name)
	return func(yield func(haft.SessionChange, error) bool) {
		tick := time.NewTicker(watchPace)
		defer tick.Stop()
		for err == nil {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			var now map[string]haft.SessionFile
			var cut bool
			if now, cut, err = look(ctx, s, name); err != nil {
				break
			}
			if !changes(before, now, cut, yield) {
				return
			}
			before = now
		}
		if ctx.Err() == nil {
			yield(haft.SessionChange{}, err)
		}
	}
}

// look returns the files of a directory by their paths, and whether there are more.
func look(ctx context.Context, s *Session, name string) (map[string]haft.SessionFile, bool, error) {
	dir, err := s.Files(ctx, name, maxDepth)
	if err != nil {
		return nil, false, err
	}
	files := map[string]haft.SessionFile{}
	for _, f := range dir.Files {
		files[f.Path] = f
	}
	return files, dir.Cut, nil
}

// changes yields the difference between two lists of files. In one that is cut, what is missing
// may still be there.
func changes(before, now map[string]haft.SessionFile, cut bool, yield func(haft.SessionChange, error) bool) bool {
	report := func(kind string, f haft.SessionFile) bool { return yield(haft.SessionChange{Type: kind, File: f}, nil) }
	for path, f := range now {
		old, had := before[path]
		if !had && !report("create", f) || had && old != f && f.Type != "dir" && !report("write", f) {
			return false
		}
	}
	for path, f := range before {
		if _, has := now[path]; !has && !cut && !report("remove", f) {
			return false
		}
	}
	return true
}

// MakeDir makes a directory, and those that lead to it.
func (s *Session) MakeDir(ctx context.Context, name string) error {
	_, err := s.do(ctx, "mkdir", map[string]any{"path": name})
	return err
}

// Move gives a file or directory another name.
func (s *Session) Move(ctx context.Context, from, to string) error {
	_, err := s.do(ctx, "move", map[string]any{"path": from, "to": to})
	return err
}

// Remove removes a file, or a directory with all that is in it.
func (s *Session) Remove(ctx context.Context, name string) error {
	_, err := s.do(ctx, "remove", map[string]any{"path": name})
	return err
}
