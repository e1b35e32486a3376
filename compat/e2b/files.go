package e2b

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"path"
	"strings"

	"haft"
)

// The bounds on the content of files that a request brings, on their number, and how much of a file
// is read before its answer begins.
const (
	maxUpload = 1 << 30
	maxParts  = 256
	readFirst = 1 << 20
)

// onFiles serves an operation of HTTP in a sandbox.
func (a *API) onFiles(act haft.Action,
	do func(w http.ResponseWriter, r *http.Request, p haft.Principal, s *sandbox) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s := sandboxOf(r.Context())
		err := checkUser(r.URL.Query().Get("username"))
		if err == nil {
			var p haft.Principal
			if p, err = a.principal(r.Context(), act); err == nil {
				err = a.goneOr(r.Context(), p, s, do(w, r, p, s))
			}
		}
		if err != nil {
			faultOf(err).write(w, s.id)
		}
	}
}

// download sends the content of a file.
func (a fileHandlers) download(w http.ResponseWriter, r *http.Request, p haft.Principal, s *sandbox) error {
	at, err := place(r.URL.Query().Get("path"))
	if err != nil {
		return err
	}
	f, err := a.cfg.Files.ReadFile(r.Context(), p, s.session, at)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // what was read is whole, or the answer is cut
	first, err := io.ReadAll(io.LimitReader(f, readFirst))
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", mime.FormatMediaType("inline", map[string]string{"filename": path.Base(at)}))
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	if len(first) < readFirst {
		http.ServeContent(w, r, "", noTime, bytes.NewReader(first))
		return nil
	}
	if _, err = w.Write(first); err == nil {
		_, err = io.Copy(w, f)
	}
	if err != nil {
		panic(http.ErrAbortHandler) // the reader must not take it for the whole file
	}
	return nil
}

// writeInfo is what a client learns of a file that it has written.
type writeInfo struct {
	Path string `json:"path"`
	Name string `json:"name"`
	Type string `json:"type"`
}

// upload writes files: the body, or the parts of a form.
func (a fileHandlers) upload(w http.ResponseWriter, r *http.Request, p haft.Principal, s *sandbox) error {
	var body io.Reader = &timedBody{w: w, from: http.MaxBytesReader(w, r.Body, maxUpload)}
	if r.Header.Get("Content-Encoding") == "gzip" {
		plain, err := gzip.NewReader(body)
		if err != nil {
			return invalid("the body is not what gzip writes")
		}
		body = &boundedReader{from: plain, left: maxUpload}
	}
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return invalid("the type of the body is missing")
	}
	name := r.URL.Query().Get("path")
	var written []writeInfo
	switch kind {
	case "multipart/form-data":
		written, err = a.writeParts(r, p, s, multipart.NewReader(body, params["boundary"]), name)
	case "application/octet-stream":
		if name == "" {
			return invalid("name the file in the query: path=")
		}
		written, err = a.writeFile(r, p, s, name, body, nil)
	default:
		return invalid("files come as multipart/form-data or application/octet-stream")
	}
	deadline(w, 0)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, written)
	return nil
}

// writeParts writes the parts of a form that are files.
func (a fileHandlers) writeParts(r *http.Request, p haft.Principal, s *sandbox, form *multipart.Reader,
	name string) ([]writeInfo, error) {
	written := []writeInfo{}
	for n := 0; ; n++ {
		part, err := form.NextPart()
		switch {
		case errors.Is(err, io.EOF):
			return written, nil
		case err != nil:
			return nil, unread(err)
		case n == maxParts:
			return nil, invalid("a form has at most 256 files")
		case part.FormName() != "file":
			continue
		}
		to := name
		if to == "" {
			to = fileName(part)
		}
		if to == "" {
			return nil, invalid("a file has no name")
		}
		if written, err = a.writeFile(r, p, s, to, part, written); err != nil {
			return nil, err
		}
	}
}

// fileName returns the whole name of a part, with its directories.
func fileName(part *multipart.Part) string {
	_, params, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
	if err != nil {
		return ""
	}
	return params["filename"]
}

// writeFile writes one file, and adds it to those that were written.
func (a fileHandlers) writeFile(r *http.Request, p haft.Principal, s *sandbox, name string, content io.Reader,
	written []writeInfo) ([]writeInfo, error) {
	at, err := place(name)
	if err != nil {
		return nil, err
	}
	for _, w := range written {
		if w.Path == shown(at) {
			return nil, invalid("two files have one path")
		}
	}
	failed := &failedReader{from: content}
	if err := a.cfg.Files.WriteFile(r.Context(), p, s.session, at, failed); err != nil {
		if failed.err != nil {
			return nil, unread(failed.err)
		}
		if strings.Contains(haft.MessageOf(err), "No space left") {
			return nil, &fault{code: "resource_exhausted", status: http.StatusInsufficientStorage,
				message: "the sandbox has no space left"}
		}
		return nil, err
	}
	return append(written, writeInfo{Path: shown(at), Name: path.Base(at), Type: "file"}), nil
}

// A failedReader remembers why it could not be read.
type failedReader struct {
	from io.Reader
	err  error
}

// Read implements [io.Reader].
func (f *failedReader) Read(b []byte) (int, error) {
	n, err := f.from.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		f.err = err
	}
	return n, err //nolint:wrapcheck // io.EOF has to stay itself
}

// A timedBody is a body of which some part has to come again and again.
type timedBody struct {
	w    http.ResponseWriter
	from io.Reader
}

// Read implements [io.Reader].
func (b *timedBody) Read(p []byte) (int, error) {
	deadline(b.w, readTime)
	return b.from.Read(p) //nolint:wrapcheck // io.EOF has to stay itself
}

// A boundedReader fails where it gets too large.
type boundedReader struct {
	from io.Reader
	left int64
}

// Read implements [io.Reader].
func (b *boundedReader) Read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, &http.MaxBytesError{Limit: maxUpload}
	}
	return n, err //nolint:wrapcheck // io.EOF has to stay itself
}
