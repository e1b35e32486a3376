package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"

	"haft"
	"haft/internal/pause"
)

// partSize is how much of a file one request asks for.
const partSize = 4 << 20

// Files are the files of a server. It implements [haft.Files].
type Files struct{ api *transport }

var _ haft.Files = (*Files)(nil)

// AddFile implements [haft.Files].
func (f *Files) AddFile(ctx context.Context, p haft.Principal, n haft.NewFile, first []byte) (*haft.File, error) {
	ttl := ""
	if n.TTL > 0 {
		ttl = strconv.FormatInt(max(1, int64(n.TTL.D().Seconds())), 10)
	}
	return get[haft.File](ctx, f.api, query{method: http.MethodPost, path: "/v1/files", as: p, raw: notNil(first),
		values: params("name", n.Name, "ttl", ttl, "size", strconv.FormatInt(n.Size, 10)),
		header: http.Header{"Content-Type": {octets(n.ContentType)}}})
}

// octets returns a content type, or that of bytes.
func octets(contentType string) string {
	if contentType == "" {
		return "application/octet-stream"
	}
	return contentType
}

// notNil returns b as a body that is sent also if it is empty.
func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// AppendFile implements [haft.Files]. If no answer comes it asks what has arrived, and sends the
// part again if it has not.
func (f *Files) AppendFile(ctx context.Context, p haft.Principal, id haft.FileID, offset int64,
	part []byte) (*haft.File, error) {
	for try := 1; ; try++ {
		file, err := f.appendOnce(ctx, p, id, offset, part)
		wait, more := f.api.cfg.Retry.Wait(try, rand.Float64())
		if err == nil || !more || haft.CodeOf(err) != haft.CodeUnavailable || pause.For(ctx, wait) != nil {
			return file, err
		}
		if kept, err := f.File(ctx, p, id); err == nil && kept.Uploaded == offset+int64(len(part)) {
			return kept, nil
		}
	}
}

func (f *Files) appendOnce(ctx context.Context, p haft.Principal, id haft.FileID, offset int64,
	part []byte) (*haft.File, error) {
	return get[haft.File](ctx, f.api, query{method: http.MethodPatch, path: "/v1/files",
		item: &item{kind: "file", id: string(id)}, as: p, raw: notNil(part),
		values: params("offset", strconv.FormatInt(offset, 10)), header: http.Header{"Content-Type": {octets("")}}})
}

// File describes a file.
func (f *Files) File(ctx context.Context, p haft.Principal, id haft.FileID) (*haft.File, error) {
	return get[haft.File](ctx, f.api, query{path: "/v1/files", item: &item{kind: "file", id: string(id)}, as: p})
}

// Files implements [haft.Files].
func (f *Files) Files(ctx context.Context, p haft.Principal, before haft.FileID) iter.Seq2[haft.File, error] {
	return func(yield func(haft.File, error) bool) {
		skip := before != ""
		for file, err := range list[haft.File](ctx, f.api, query{path: "/v1/files", as: p}, 0) {
			if err == nil && skip {
				skip = file.ID != before
				continue
			}
			if !yield(file, err) {
				return
			}
		}
	}
}

// OpenFile implements [haft.Files].
func (f *Files) OpenFile(ctx context.Context, p haft.Principal, id haft.FileID) (*haft.File, io.ReadSeeker, error) {
	file, err := f.File(ctx, p, id)
	if err != nil {
		return nil, nil, err
	}
	return file, &remote{ctx: ctx, api: f.api, size: file.Size,
		q: query{path: "/v1/files", item: &item{kind: "file", id: string(id), rest: "/content"}, as: p}}, nil
}

// OpenArtifact returns an artifact of a call and a reader of its content.
func (f *Files) OpenArtifact(ctx context.Context, p haft.Principal, id haft.CallID,
	name string) (*haft.Artifact, io.ReadSeeker, error) {
	rec, err := (&Client{api: f.api}).Record(ctx, p, id)
	if err != nil {
		return nil, nil, err
	}
	if rec.Result != nil {
		for _, a := range rec.Result.Artifacts {
			if a.Name == name && int64(len(a.Data)) == a.Size {
				return &a, bytes.NewReader(a.Data), nil
			}
			if a.Name == name {
				return &a, &remote{ctx: ctx, api: f.api, size: a.Size, q: query{path: "/v1/calls",
					item: &item{kind: "call", id: string(id), rest: "/artifacts/" + url.PathEscape(name)}, as: p}}, nil
			}
		}
	}
	return nil, nil, &haft.Error{Code: haft.CodeNotFound, Message: "the call left no artifact of this name"}
}

// RemoveFile implements [haft.Files].
func (f *Files) RemoveFile(ctx context.Context, p haft.Principal, id haft.FileID) error {
	return f.api.read(ctx, query{method: http.MethodDelete, path: "/v1/files",
		item: &item{kind: "file", id: string(id)}, as: p, again: true}, nil)
}

// A remote reads content of the server, a part with each request. It has the context of whoever
// opened it.
type remote struct {
	ctx  context.Context
	api  *transport
	q    query
	size int64
	at   int64
	part []byte
}

// Read implements [io.Reader].
func (r *remote) Read(p []byte) (int, error) {
	if r.at >= r.size {
		return 0, io.EOF
	}
	if len(r.part) == 0 {
		q := r.q
		q.header = http.Header{"Range": {"bytes=" + strconv.FormatInt(r.at, 10) + "-" +
			strconv.FormatInt(min(r.size, r.at+partSize)-1, 10)}}
		if err := r.api.read(r.ctx, q, &r.part); err != nil {
			return 0, err
		}
		if len(r.part) == 0 || int64(len(r.part)) > r.size-r.at {
			return 0, io.ErrUnexpectedEOF
		}
	}
	n := copy(p, r.part)
	r.part, r.at = r.part[n:], r.at+int64(n)
	return n, nil
}

// Seek implements [io.Seeker].
func (r *remote) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += r.at
	case io.SeekEnd:
		offset += r.size
	}
	if offset < 0 {
		return 0, errors.New("seek before the beginning of a file")
	}
	r.at, r.part = offset, nil
	return offset, nil
}
