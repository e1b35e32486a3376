package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"syscall"

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
	if len(m.Entries) != 1 {
		return Entry{}, errProtocol
	}
	return m.Entries[0], nil
}

// List lists a directory, and those in it down to depth. It reports whether there are more
// than it returns.
func (s *Session) List(ctx context.Context, name string, depth int) (list []Entry, cut bool, err error) {
	m, err := s.do(ctx, "list", map[string]any{"path": name, "depth": min(max(depth, 1), maxDepth)})
	if err != nil {
		return nil, false, err
	}
	return m.Entries, m.Cut, nil
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
