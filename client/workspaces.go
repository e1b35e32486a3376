package client

import (
	"context"
	"fmt"
	"io"
	"iter"
	"net/http"

	"haft"
)

// Workspaces are the workspaces of a server.
type Workspaces struct{ api *transport }

// Roles returns the workspaces by role.
func (w *Workspaces) Roles() haft.Workspaces {
	return haft.Workspaces{WorkspaceKeeper: w, WorkspaceReader: w, WorkspaceWriter: w}
}

// of is a request about a workspace.
func (w *Workspaces) of(method string, p haft.Principal, name, rest string, pairs ...string) query {
	return query{method: method, path: "/v1/workspaces", item: &item{kind: "workspace", id: name, rest: rest}, as: p,
		values: params(pairs...)}
}

// AddWorkspace implements [haft.WorkspaceKeeper].
func (w *Workspaces) AddWorkspace(ctx context.Context, p haft.Principal, n haft.NewWorkspace) (*haft.Workspace, error) {
	return get[haft.Workspace](ctx, w.api, query{method: http.MethodPost, path: "/v1/workspaces", as: p, body: n})
}

// Workspace implements [haft.WorkspaceReader].
func (w *Workspaces) Workspace(ctx context.Context, p haft.Principal, name string) (*haft.Workspace, error) {
	return get[haft.Workspace](ctx, w.api, w.of("", p, name, ""))
}

// Workspaces implements [haft.WorkspaceKeeper].
func (w *Workspaces) Workspaces(ctx context.Context, p haft.Principal) iter.Seq2[haft.Workspace, error] {
	return list[haft.Workspace](ctx, w.api, query{path: "/v1/workspaces", as: p}, 0)
}

// RemoveWorkspace implements [haft.WorkspaceKeeper].
func (w *Workspaces) RemoveWorkspace(ctx context.Context, p haft.Principal, name string) error {
	return w.api.read(ctx, w.of(http.MethodDelete, p, name, ""), nil)
}

// WorkspaceFiles implements [haft.WorkspaceReader].
func (w *Workspaces) WorkspaceFiles(ctx context.Context, p haft.Principal, name,
	dir string) (*haft.WorkspaceListing, error) {
	return get[haft.WorkspaceListing](ctx, w.api, w.of("", p, name, "/files", "dir", dir))
}

// OpenWorkspaceFile implements [haft.WorkspaceReader]. A tool may change the file while it is read.
func (w *Workspaces) OpenWorkspaceFile(ctx context.Context, p haft.Principal, name,
	path string) (*haft.WorkspaceEntry, io.ReadSeekCloser, error) {
	q := w.of("", p, name, "/files/content", "path", path)
	ask := q
	ask.header = http.Header{"Range": {"bytes=0-0"}}
	res, err := w.api.send(ctx, ask)
	if err != nil {
		return nil, nil, err
	}
	defer res.Body.Close() // one byte
	size := int64(0)
	if res.StatusCode == http.StatusPartialContent { // else the file is empty
		if _, err := fmt.Sscanf(res.Header.Get("Content-Range"), "bytes 0-0/%d", &size); err != nil {
			return nil, nil, &haft.Error{Code: haft.CodeUnavailable, Err: err,
				Message: "the answer is not one of a Haft server of this version"}
		}
	}
	return &haft.WorkspaceEntry{Path: path, Kind: "file", Size: size},
		remoteFile{&remote{ctx: ctx, api: w.api, q: q, size: size}}, nil
}

// A remoteFile is a [remote] that needs no Close.
type remoteFile struct{ *remote }

// Close implements [io.Closer].
func (remoteFile) Close() error { return nil }

// PutWorkspaceFile implements [haft.WorkspaceWriter].
func (w *Workspaces) PutWorkspaceFile(ctx context.Context, p haft.Principal, name string, f haft.CallFile) error {
	q := w.of(http.MethodPut, p, name, "/files", "path", f.Path, "file", string(f.ID))
	q.raw, q.header, q.again = notNil(f.Data), http.Header{"Content-Type": {octets("")}}, true
	return w.api.read(ctx, q, nil)
}

// RemoveWorkspaceFile implements [haft.WorkspaceWriter].
func (w *Workspaces) RemoveWorkspaceFile(ctx context.Context, p haft.Principal, name, path string) error {
	return w.api.read(ctx, w.of(http.MethodDelete, p, name, "/files", "path", path), nil)
}

// RestoreWorkspace implements [haft.WorkspaceWriter].
func (w *Workspaces) RestoreWorkspace(ctx context.Context, p haft.Principal, name, from string) error {
	q := w.of(http.MethodPost, p, name, "/restore")
	q.body = map[string]string{"from": from}
	return w.api.read(ctx, q, nil)
}

// DiffWorkspaces implements [haft.WorkspaceReader].
func (w *Workspaces) DiffWorkspaces(ctx context.Context, p haft.Principal, from,
	to string) (*haft.WorkspaceDiff, error) {
	return get[haft.WorkspaceDiff](ctx, w.api, w.of("", p, from, "/diff", "to", to))
}
