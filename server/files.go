package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"haft"
)

// Files keeps files, and has the content of what calls left.
type Files interface {
	haft.Files
	// OpenArtifact returns an artifact of a call that p may see, and a reader of its content.
	OpenArtifact(ctx context.Context, p haft.Principal, id haft.CallID, name string) (*haft.Artifact, io.ReadSeeker,
		error)
}

// files has the operations on files and artifacts.
type files struct {
	s     *Server
	files Files
}

// addFile is the operation whose body is the content of a file.
const addFile = "add-file"

func (a *api) files() {
	f := files{a.s, a.s.cfg.Files}
	g := a.group("files", haft.FilesRead, haft.FilesWrite).needs(f.files != nil, "files")
	register(g.op("POST /v1/files", addFile, "Add a file").
		about("The body is the content, or a form (multipart/form-data) with one file. A file that is larger than a "+
			"request may be is sent in parts: `size` has its size, the body the first part or nothing, and PATCH "+
			"adds the other parts. The file is removed when it expires.").
		answers(http.StatusCreated).conflicts(), f.add)
	register(g.op("GET /v1/files", "list-files", "List files, newest first"), f.list)
	register(g.op("GET /v1/files/{id}", "show-file", "Show what is known of a file").
		about("`uploaded` is where the next part begins."), f.show)
	register(g.op("PATCH /v1/files/{id}", "append-file", "Add a part to a file").
		about("409 means that the file does not end at `offset` so far: `uploaded` of the file says where it does.").
		conflicts(), f.append)
	register(g.op("GET /v1/files/{id}/content", "read-file", "Read the content of a file").
		about("Range requests are answered.").writes(anyContent()), f.content)
	register(g.op("DELETE /v1/files/{id}", "remove-file", "Remove a file"), f.remove)
	calls := a.group("calls", haft.CallsRead, haft.CallsRead).needs(f.files != nil, "files")
	register(calls.op("GET /v1/calls/{id}/artifacts/{name}", "read-artifact", "Read an artifact of a call").
		about("A slash in the name is written %2F. Range requests are answered.").writes(anyContent()), f.artifact)
}

// anyContent describes an answer of bytes.
func anyContent() mediaTypes {
	types := mediaTypes{}
	for _, kind := range passiveTypes() {
		types[kind] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}
	}
	types["application/json"] = &huma.MediaType{Schema: &huma.Schema{}}
	return types
}

// FileBody is a file of a call: a [haft.CallFile] without the digest, which a client cannot set.
type FileBody struct {
	ID   haft.FileID `json:"id,omitempty" maxLength:"200" doc:"A file that was added."`
	Path string      `json:"path,omitempty" maxLength:"255" doc:"Where the tool finds it; the name of the file if it is left out."`
	Data []byte      `json:"data,omitempty" maxLength:"4194304" doc:"The content as base64, instead of an id."`
}

// callFiles returns the files of a call.
func callFiles(list []FileBody) []haft.CallFile {
	files := make([]haft.CallFile, len(list))
	for i, f := range list {
		files[i] = haft.CallFile{ID: f.ID, Path: f.Path, Data: f.Data}
	}
	return files
}

type newFile struct {
	Name        string `query:"name" maxLength:"255" doc:"The name of the file; that of the form if it is left out."`
	TTL         int64  `query:"ttl" minimum:"1" maximum:"31536000" doc:"After how many seconds the file expires."`
	Size        int64  `query:"size" minimum:"0" doc:"The size of the whole content, if it is sent in parts."`
	ContentType string `header:"Content-Type" maxLength:"255"`
	RawBody     []byte `contentType:"application/octet-stream"`
}

type fileAnswer struct {
	Location string `header:"Location"`
	Body     haft.File
}

func fileAnswered(f *haft.File, err error) (*fileAnswer, error) {
	if err != nil {
		return nil, err
	}
	return &fileAnswer{"/v1/files/" + string(f.ID), *f}, nil
}

func (f files) add(ctx context.Context, who Identity, in *newFile) (*fileAnswer, error) {
	n := haft.NewFile{Name: in.Name, ContentType: in.ContentType, TTL: haft.Millis(time.Duration(in.TTL) * time.Second)}
	content := in.RawBody
	switch kind, params, _ := mime.ParseMediaType(in.ContentType); kind {
	case "multipart/form-data":
		part, data, err := formFile(content, params["boundary"])
		if err != nil {
			return nil, err
		}
		content, n.ContentType = data, part.Header.Get("Content-Type")
		if n.Name == "" {
			n.Name = part.FileName()
		}
	case "application/x-www-form-urlencoded":
		n.ContentType = "" // what curl says of every body that it was not told about
	}
	if strings.HasPrefix(n.ContentType, "application/octet-stream") {
		n.ContentType = ""
	}
	if n.Size = int64(len(content)); in.Size > 0 {
		n.Size = in.Size
	}
	return fileAnswered(f.files.AddFile(ctx, who.Principal, n, content))
}

// formFile returns the one file of a form.
func formFile(body []byte, boundary string) (*multipart.Part, []byte, error) {
	wrong := func(err error) error {
		return &haft.Error{Code: haft.CodeInvalid, Message: "the form must have one field, with one file", Err: err}
	}
	form := multipart.NewReader(bytes.NewReader(body), boundary)
	part, err := form.NextPart()
	if err != nil {
		return nil, nil, wrong(err)
	}
	data, err := io.ReadAll(part)
	if err != nil {
		return nil, nil, wrong(err)
	}
	if _, err := form.NextPart(); !errors.Is(err, io.EOF) || part.FileName() == "" {
		return nil, nil, wrong(err)
	}
	return part, data, nil
}

// FileRef names a file in a path.
type FileRef struct {
	ID haft.FileID `path:"id" maxLength:"200" doc:"The id of the file."`
}

type filePart struct {
	FileRef
	Offset  int64  `query:"offset" required:"true" minimum:"0" doc:"How many bytes the file has already."`
	RawBody []byte `contentType:"application/octet-stream"`
}

func (f files) append(ctx context.Context, who Identity, in *filePart) (*fileAnswer, error) {
	return fileAnswered(f.files.AppendFile(ctx, who.Principal, in.ID, in.Offset, in.RawBody))
}

func (f files) show(ctx context.Context, who Identity, in *FileRef) (*fileAnswer, error) {
	file, _, err := f.files.OpenFile(ctx, who.Principal, in.ID)
	return fileAnswered(file, err)
}

func (f files) list(ctx context.Context, who Identity, in *Paging) (*Listed[haft.File], error) {
	before, err := in.at("files")
	if err != nil {
		return nil, err
	}
	return collect(f.files.Files(ctx, who.Principal, haft.FileID(before)), *in, "files", nil,
		func(file haft.File) string { return string(file.ID) })
}

func (f files) remove(ctx context.Context, who Identity, in *FileRef) (*struct{}, error) {
	return nil, f.files.RemoveFile(ctx, who.Principal, in.ID)
}

func (f files) content(ctx context.Context, who Identity, in *FileRef) (*huma.StreamResponse, error) {
	file, content, err := f.files.OpenFile(ctx, who.Principal, in.ID)
	if err == nil && !file.Complete() {
		err = &haft.Error{Code: haft.CodeConflict,
			Message: fmt.Sprintf("the file has %d of %d bytes: send the rest first", file.Uploaded, file.Size)}
	}
	if err != nil {
		return nil, err
	}
	return serveContent(file.Name, file.ContentType, file.SHA256, content), nil
}

type artifactRef struct {
	ID   haft.CallID `path:"id" maxLength:"200"`
	Name string      `path:"name" maxLength:"1024"`
}

func (f files) artifact(ctx context.Context, who Identity, in *artifactRef) (*huma.StreamResponse, error) {
	a, content, err := f.files.OpenArtifact(ctx, who.Principal, in.ID, in.Name)
	if err != nil {
		return nil, err
	}
	return serveContent(a.Name[strings.LastIndexByte(a.Name, '/')+1:], a.ContentType, "", content), nil
}

// serveContent answers with content, or with the range of it that was asked for. A browser saves
// the content and never runs it.
func serveContent(name, contentType, digest string, content io.ReadSeeker) *huma.StreamResponse {
	return &huma.StreamResponse{Body: func(h huma.Context) {
		r, w := humago.Unwrap(h)
		head := w.Header()
		head.Set("Content-Type", passive(contentType))
		head.Set("Content-Disposition", "attachment; filename*=UTF-8''"+url.PathEscape(name))
		head.Set("Content-Security-Policy", "sandbox; default-src 'none'")
		if digest != "" {
			head.Set("ETag", fmt.Sprintf("%q", digest))
		}
		if strings.Contains(r.Header.Get("Range"), ",") {
			r.Header.Del("Range") // each range reads a row: thousands of ranges would be as many
		}
		http.ServeContent(w, r, "", time.Time{}, content)
	}}
}

// passive returns a content type that no browser runs as a program of this origin.
func passive(contentType string) string {
	kind, _, err := mime.ParseMediaType(contentType)
	if err == nil && slices.Contains(passiveTypes(), kind) {
		return contentType
	}
	return "application/octet-stream"
}

// passiveTypes are the types that content is served with. Others become bytes.
func passiveTypes() []string {
	return []string{"application/json", "application/octet-stream", "application/pdf", "application/zip", "audio/mpeg",
		"audio/wav", "image/gif", "image/jpeg", "image/png", "image/webp", "text/csv", "text/markdown", "text/plain",
		"video/mp4", "video/webm"}
}
