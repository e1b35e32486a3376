package server

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net/http"
	"net/url"
	"path"
	"reflect"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"haft"
)

// putSessionFile is the operation whose body is the content of a file of a session.
const putSessionFile = "write-session-file"

// sessionFiles registers the operations on files of sessions.
func (a *api) sessionFiles(h sessions) {
	g := a.group("sessions", haft.CallsRead, haft.CallsWrite).needs(h.files() != nil, "sessions")
	register(g.op("GET /v1/sessions/{id}/files", "list-session-files", "List a directory of a session").
		about("Depth 0 describes the one file or directory. `cut` says that there are more files."), h.listFiles)
	register(g.op("DELETE /v1/sessions/{id}/files", "remove-session-file",
		"Remove a file of a session, or a directory with all that is in it"), h.removeFile)
	register(g.op("GET /v1/sessions/{id}/files/content", "read-session-file", "Read a file of a session").
		about("Secrets of the session's calls are masked, as in the results of calls.").writes(mediaTypes{
		"application/octet-stream": {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}}), h.readFile)
	register(g.op("PUT /v1/sessions/{id}/files/content", putSessionFile, "Write a file of a session").
		about("The body is the content. Directories that are missing are made."), h.writeFile)
	register(g.op("PUT /v1/sessions/{id}/files/directory", "make-session-directory", "Make a directory in a session").
		conflicts(), h.makeDir)
	register(g.op("POST /v1/sessions/{id}/files/move", "move-session-file", "Move a file of a session").conflicts(),
		h.moveFile)
	change := a.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[haft.SessionChange](), true, "SessionChange")
	register(g.op("GET /v1/sessions/{id}/files/watch", "watch-session-files",
		"Watch what happens to the files of a directory, as server-sent events").
		about("Directories in it are watched, too. They are looked at twice a second: of changes that follow each "+
			"other closely the last is told. What happens after the answer has begun is told. A watch that is cut "+
			"cannot be resumed: watch again, and list the directory.").
		writes(mediaTypes{"text/event-stream": {Schema: change}}), h.watchFiles)
}

// files returns the files of sessions, or nil.
func (h sessions) files() haft.SessionFiles {
	f, _ := h.sessions.(haft.SessionFiles)
	return f
}

// SessionPath names a file of a session.
type SessionPath struct {
	SessionRef
	Path string `query:"path" maxLength:"1024" doc:"Absolute, or relative to /work; /work if it is left out."`
}

func (in *SessionPath) path() string { return cmp.Or(in.Path, "/work") }

type listSessionFiles struct {
	SessionPath
	Depth int `query:"depth" minimum:"0" maximum:"16" default:"1"`
}

func (h sessions) listFiles(ctx context.Context, who Identity, in *listSessionFiles) (*shown[haft.SessionDir], error) {
	dir, err := h.files().ListFiles(ctx, who.Principal, in.ID, in.path(), in.Depth)
	if err != nil {
		return nil, err
	}
	return &shown[haft.SessionDir]{*dir}, nil
}

func (h sessions) removeFile(ctx context.Context, who Identity, in *SessionPath) (*struct{}, error) {
	if in.Path == "" {
		return nil, &haft.Error{Code: haft.CodeInvalid, Message: "name the file that is to be removed"}
	}
	return nil, h.files().RemoveFile(ctx, who.Principal, in.ID, in.Path)
}

func (h sessions) readFile(ctx context.Context, who Identity, in *SessionPath) (*huma.StreamResponse, error) {
	// The request has the context of the stream, which the file is bound to.
	f, err := h.files().ReadFile(ctx, who.Principal, in.ID, in.path())
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		_, w := humago.Unwrap(hc)
		head := w.Header()
		head.Set("Content-Type", "application/octet-stream")
		head.Set("Content-Disposition", "attachment; filename*=UTF-8''"+url.PathEscape(path.Base(in.path())))
		head.Set("Content-Security-Policy", "sandbox; default-src 'none'")
		_, err := io.Copy(w, f)
		if closed := f.Close(); err == nil {
			err = closed
		}
		if err != nil {
			panic(http.ErrAbortHandler) // the reader must not take it for the whole file
		}
	}}, nil
}

type writeSessionFile struct {
	SessionPath
	RawBody []byte `contentType:"application/octet-stream"`
}

func (h sessions) writeFile(ctx context.Context, who Identity, in *writeSessionFile) (*struct{}, error) {
	return nil, h.files().WriteFile(ctx, who.Principal, in.ID, in.path(), bytes.NewReader(in.RawBody))
}

func (h sessions) makeDir(ctx context.Context, who Identity, in *SessionPath) (*struct{}, error) {
	return nil, h.files().MakeDir(ctx, who.Principal, in.ID, in.path())
}

type moveSessionFile struct {
	SessionRef
	Body struct {
		From string `json:"from" minLength:"1" maxLength:"4096"`
		To   string `json:"to" minLength:"1" maxLength:"4096"`
	}
}

func (h sessions) moveFile(ctx context.Context, who Identity, in *moveSessionFile) (*struct{}, error) {
	return nil, h.files().MoveFile(ctx, who.Principal, in.ID, in.Body.From, in.Body.To)
}

func (h sessions) watchFiles(_ context.Context, who Identity, in *SessionPath) (*huma.StreamResponse, error) {
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		r, w := humago.Unwrap(hc)
		if err := h.watch(w, r, who, in); err != nil {
			h.s.errors.refuse(hc, err)
		}
	}}, nil
}
