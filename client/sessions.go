package client

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"haft"
)

// Sessions are the sessions of a server. It implements [haft.Sessions] and [haft.SessionFiles].
type Sessions struct{ api *transport }

var (
	_ haft.Sessions     = (*Sessions)(nil)
	_ haft.SessionFiles = (*Sessions)(nil)
)

// Sessions implements [haft.Sessions].
func (s *Sessions) Sessions(ctx context.Context, p haft.Principal) ([]haft.Session, error) {
	out, err := get[struct {
		Sessions []haft.Session `json:"sessions"`
	}](ctx, s.api, query{method: http.MethodGet, path: "/v1/sessions", as: p})
	if err != nil {
		return nil, err
	}
	return out.Sessions, nil
}

// EndSession implements [haft.Sessions].
func (s *Sessions) EndSession(ctx context.Context, p haft.Principal, id string) error {
	return s.api.read(ctx, query{method: http.MethodDelete, path: "/v1/sessions",
		item: &item{kind: "session", id: id}, as: p, again: true}, nil)
}

// AddSession implements [haft.Sessions].
func (s *Sessions) AddSession(ctx context.Context, p haft.Principal, n haft.NewSession) (*haft.Session, error) {
	return get[haft.Session](ctx, s.api, query{method: http.MethodPost, path: "/v1/sessions", as: p,
		body: sessionBody{n.Name, n.Language, n.TTY, n.Sandbox, n.TTL.D().Seconds(), n.Idle.D().Seconds(), n.Workspace,
			n.Requirements}})
}

// sessionBody says what a session is to be.
type sessionBody struct {
	Name     string  `json:"name,omitempty"`
	Language string  `json:"language,omitempty"`
	TTY      bool    `json:"tty,omitempty"`
	Sandbox  string  `json:"sandbox,omitempty"`
	TTL      float64 `json:"timeout_seconds,omitempty"`
	Idle     float64 `json:"idle_seconds,omitempty"`

	Workspace    *haft.SessionWorkspace `json:"workspace,omitempty"`
	Requirements haft.Requirements      `json:"requirements,omitzero"`
}

// ExtendSession implements [haft.Sessions].
func (s *Sessions) ExtendSession(ctx context.Context, p haft.Principal, id string,
	ttl, idle haft.Millis) (*haft.Session, error) {
	return get[haft.Session](ctx, s.api, query{method: http.MethodPatch, path: "/v1/sessions",
		item: &item{kind: "session", id: id}, as: p,
		body: sessionBody{TTL: ttl.D().Seconds(), Idle: idle.D().Seconds()}})
}

// SessionContexts implements [haft.Sessions].
func (s *Sessions) SessionContexts(ctx context.Context, p haft.Principal, id string) ([]haft.SessionContext, error) {
	out, err := get[struct {
		Contexts []haft.SessionContext `json:"contexts"`
	}](ctx, s.api, query{path: "/v1/sessions", item: &item{"session", id, "/contexts"}, as: p})
	if err != nil {
		return nil, err
	}
	return out.Contexts, nil
}

// RestartContext implements [haft.Sessions].
func (s *Sessions) RestartContext(ctx context.Context, p haft.Principal, id, name string) error {
	return s.api.read(ctx, query{method: http.MethodDelete, path: "/v1/sessions",
		item: &item{"session", id, "/contexts/" + url.PathEscape(name)}, as: p}, nil)
}

// file is a request about a file of a session.
func (s *Sessions) file(method, id, rest, path string, p haft.Principal) query {
	return query{method: method, path: "/v1/sessions", item: &item{"session", id, "/files" + rest}, as: p,
		values: params("path", path)}
}

// ListFiles implements [haft.SessionFiles].
func (s *Sessions) ListFiles(ctx context.Context, p haft.Principal, id, path string,
	depth int) (*haft.SessionDir, error) {
	q := s.file(http.MethodGet, id, "", path, p)
	q.values.Set("depth", strconv.Itoa(depth))
	return get[haft.SessionDir](ctx, s.api, q)
}

// ReadFile implements [haft.SessionFiles]. The whole file is in memory.
func (s *Sessions) ReadFile(ctx context.Context, p haft.Principal, id, path string) (io.ReadCloser, error) {
	var b []byte
	if err := s.api.read(ctx, s.file(http.MethodGet, id, "/content", path, p), &b); err != nil {
		return nil, err
	}
	return io.NopCloser(bytes.NewReader(b)), nil
}

// maxSessionFile bounds a file that is sent to a session. The server may take less.
const maxSessionFile = 64 << 20

// WriteFile implements [haft.SessionFiles].
func (s *Sessions) WriteFile(ctx context.Context, p haft.Principal, id, path string, content io.Reader) error {
	b, err := io.ReadAll(io.LimitReader(content, maxSessionFile+1))
	if err != nil {
		return fmt.Errorf("read what is to be sent: %w", err)
	}
	if len(b) > maxSessionFile {
		return &haft.Error{Code: haft.CodeInvalid, Message: "the file is larger than a request may be"}
	}
	q := s.file(http.MethodPut, id, "/content", path, p)
	q.raw, q.header, q.again = notNil(b), http.Header{"Content-Type": {octets("")}}, true
	return s.api.read(ctx, q, nil)
}

// MakeDir implements [haft.SessionFiles].
func (s *Sessions) MakeDir(ctx context.Context, p haft.Principal, id, path string) error {
	return s.api.read(ctx, s.file(http.MethodPut, id, "/directory", path, p), nil)
}

// MoveFile implements [haft.SessionFiles].
func (s *Sessions) MoveFile(ctx context.Context, p haft.Principal, id, from, to string) error {
	q := s.file(http.MethodPost, id, "/move", "", p)
	q.body = map[string]string{"from": from, "to": to}
	return s.api.read(ctx, q, nil)
}

// RemoveFile implements [haft.SessionFiles].
func (s *Sessions) RemoveFile(ctx context.Context, p haft.Principal, id, path string) error {
	return s.api.read(ctx, s.file(http.MethodDelete, id, "", path, p), nil)
}

// SendInput sends input to a command that the principal has started and that runs.
func (s *Sessions) SendInput(ctx context.Context, p haft.Principal, call haft.CallID, in haft.CommandInput) error {
	return s.api.read(ctx, query{method: http.MethodPost, path: "/v1/calls",
		item: &item{"call", string(call), "/input"}, as: p, body: in}, nil)
}
