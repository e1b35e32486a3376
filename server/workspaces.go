package server

import (
	"context"
	"iter"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"haft"
)

// WorkspaceBody is the workspace of a call.
type WorkspaceBody struct {
	Name     string `json:"name" minLength:"1" maxLength:"129" doc:"The name of the workspace."`
	ReadOnly bool   `json:"read_only,omitempty" doc:"Only read it, beside other calls. Otherwise the call has it alone."`
	Workdir  bool   `json:"workdir,omitempty" doc:"Make it the working directory of the tool."`
}

// call is what a call has; nil is none.
func (b *WorkspaceBody) call() *haft.CallWorkspace {
	if b == nil {
		return nil
	}
	return &haft.CallWorkspace{Name: b.Name, ReadOnly: b.ReadOnly, Workdir: b.Workdir}
}

// workspaces has the operations on workspaces.
type workspaces struct{ all haft.Workspaces }

func (a *api) workspaces() {
	h := workspaces{a.s.cfg.Workspaces}
	g := a.group("workspaces", haft.WorkspacesRead, haft.WorkspacesWrite).
		needs(h.all.WorkspaceKeeper != nil, "workspaces")
	register(g.op("POST /v1/workspaces", "add-workspace", "Add a workspace").
		about("A workspace is a directory that outlives calls: a tool whose call names it finds it at /workspace. "+
			"With `from` it is a fork, which begins with the files of another one. The name of a snapshot is that of "+
			"a workspace, an @ and a name, such as notes@before: nobody writes to it.").
		answers(http.StatusCreated).conflicts(), h.add)
	register(g.op("GET /v1/workspaces", "list-workspaces", "List workspaces by name"), h.list)
	register(g.op("GET /v1/workspaces/{name}", "show-workspace", "Show a workspace"), h.show)
	register(g.op("DELETE /v1/workspaces/{name}", "remove-workspace", "Remove a workspace and its snapshots").
		about("409 means that a call uses it.").conflicts(), h.remove)
	register(g.op("GET /v1/workspaces/{name}/files", "list-workspace-files", "List what is in a workspace, by path"),
		h.files)
	register(g.op("GET /v1/workspaces/{name}/files/content", "read-workspace-file", "Read a file of a workspace").
		about("Range requests are answered.").writes(anyContent()), h.content)
	register(g.op("PUT /v1/workspaces/{name}/files", "put-workspace-file", "Write a file of a workspace").
		about("The body is the content, or `file` names a file that was added. It waits for calls that use the "+
			"workspace; 409 means that they went on, or that the file does not fit.").conflicts(), h.put)
	a.OpenAPI().Paths["/v1/workspaces/{name}/files"].Put.RequestBody.Required = false // an empty file has none
	register(g.op("DELETE /v1/workspaces/{name}/files", "remove-workspace-file", "Remove a file or a directory of a "+
		"workspace").conflicts(), h.removeFile)
	register(g.op("POST /v1/workspaces/{name}/restore", "restore-workspace",
		"Give a workspace the files of a snapshot or of another one; its own are lost").conflicts(), h.restore)
	register(g.op("GET /v1/workspaces/{name}/diff", "diff-workspaces",
		"Say what was changed from a workspace or snapshot to another one").conflicts(), h.diff)
}

// QuotaBody bounds a workspace.
type QuotaBody struct {
	Bytes  int64 `json:"bytes,omitempty" minimum:"0" doc:"Of all files; what the server allows if it is left out."`
	Inodes int64 `json:"inodes,omitempty" minimum:"0" doc:"Files, directories and links."`
}

// NewWorkspaceBody describes a workspace to add.
type NewWorkspaceBody struct {
	Name   string    `json:"name" minLength:"1" maxLength:"129" doc:"Lower-case letters, digits, dots, underscores and hyphens. Unique in the organisation. That of a snapshot has an @."`
	Shared bool      `json:"shared,omitempty" doc:"Let everybody in the organisation use it."`
	Quota  QuotaBody `json:"quota,omitzero"`
	From   string    `json:"from,omitempty" maxLength:"129" doc:"A workspace or a snapshot whose files it begins with."`
}

type workspaceAnswer struct {
	Location string `header:"Location"`
	Body     haft.Workspace
}

func workspaceAnswered(w *haft.Workspace, err error) (*workspaceAnswer, error) {
	if err != nil {
		return nil, err
	}
	return &workspaceAnswer{"/v1/workspaces/" + w.Name, *w}, nil
}

type newWorkspace struct{ Body NewWorkspaceBody }

func (h workspaces) add(ctx context.Context, who Identity, in *newWorkspace) (*workspaceAnswer, error) {
	b := in.Body
	return workspaceAnswered(h.all.AddWorkspace(ctx, who.Principal, haft.NewWorkspace{Name: b.Name, Shared: b.Shared,
		Quota: haft.WorkspaceSize(b.Quota), From: b.From}))
}

func (h workspaces) list(ctx context.Context, who Identity, in *Paging) (*Listed[haft.Workspace], error) {
	return pageOf(*in, "workspaces", func(w haft.Workspace) string { return w.Name },
		func(string) iter.Seq2[haft.Workspace, error] { return h.all.Workspaces(ctx, who.Principal) })
}

// WorkspaceRef names a workspace in a path.
type WorkspaceRef struct {
	Name string `path:"name" maxLength:"129" doc:"The name of the workspace."`
}

func (h workspaces) show(ctx context.Context, who Identity, in *WorkspaceRef) (*workspaceAnswer, error) {
	return workspaceAnswered(h.all.Workspace(ctx, who.Principal, in.Name))
}

func (h workspaces) remove(ctx context.Context, who Identity, in *WorkspaceRef) (*struct{}, error) {
	return nil, h.all.RemoveWorkspace(ctx, who.Principal, in.Name)
}

type workspaceDir struct {
	WorkspaceRef
	Dir string `query:"dir" maxLength:"1024" doc:"A directory of the workspace; all of it if it is left out."`
}

type bodyOf[T any] struct{ Body T }

// answerOf makes an answer of an object.
func answerOf[T any](v *T, err error) (*bodyOf[T], error) {
	if err != nil {
		return nil, err
	}
	return &bodyOf[T]{*v}, nil
}

func (h workspaces) files(ctx context.Context, who Identity, in *workspaceDir) (*bodyOf[haft.WorkspaceListing], error) {
	return answerOf(h.all.WorkspaceFiles(ctx, who.Principal, in.Name, in.Dir))
}

// WorkspacePath names a file of a workspace.
type WorkspacePath struct {
	WorkspaceRef
	Path string `query:"path" required:"true" minLength:"1" maxLength:"1024" doc:"The path of a file in the workspace."`
}

func (h workspaces) content(ctx context.Context, who Identity, in *WorkspacePath) (*huma.StreamResponse, error) {
	e, content, err := h.all.OpenWorkspaceFile(ctx, who.Principal, in.Name, in.Path)
	if err != nil {
		return nil, err
	}
	answer := serveContent(e.Path, "", "", content)
	return &huma.StreamResponse{Body: func(h huma.Context) {
		defer content.Close() // only read
		answer.Body(h)
	}}, nil
}

type workspaceFile struct {
	WorkspacePath
	File    haft.FileID `query:"file" maxLength:"200" doc:"A file that was added, instead of a body."`
	RawBody []byte      `contentType:"application/octet-stream"`
}

func (h workspaces) put(ctx context.Context, who Identity, in *workspaceFile) (*struct{}, error) {
	return nil, h.all.PutWorkspaceFile(ctx, who.Principal, in.Name,
		haft.CallFile{ID: in.File, Path: in.Path, Data: in.RawBody})
}

func (h workspaces) removeFile(ctx context.Context, who Identity, in *WorkspacePath) (*struct{}, error) {
	return nil, h.all.RemoveWorkspaceFile(ctx, who.Principal, in.Name, in.Path)
}

type restoreWorkspace struct {
	WorkspaceRef
	Body struct {
		From string `json:"from" minLength:"1" maxLength:"129" doc:"The snapshot, or another workspace."`
	}
}

func (h workspaces) restore(ctx context.Context, who Identity, in *restoreWorkspace) (*struct{}, error) {
	return nil, h.all.RestoreWorkspace(ctx, who.Principal, in.Name, in.Body.From)
}

type diffWorkspaces struct {
	WorkspaceRef
	To string `query:"to" required:"true" minLength:"1" maxLength:"129" doc:"The workspace or snapshot that came later."`
}

func (h workspaces) diff(ctx context.Context, who Identity, in *diffWorkspaces) (*bodyOf[haft.WorkspaceDiff], error) {
	return answerOf(h.all.DiffWorkspaces(ctx, who.Principal, in.Name, in.To))
}
