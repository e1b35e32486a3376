package haft

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"
)

// FileID identifies a [File].
type FileID string

// A File is content that was uploaded or that a call left. Its content never changes: the
// id stands for the same bytes until the file is removed or expires.
type File struct {
	ID FileID `json:"id"`
	// Owner is who uploaded it, or for whom the call ran that left it.
	Owner       Principal `json:"-"`
	Name        string    `json:"name"`
	ContentType string    `json:"content_type"`
	Size        int64     `json:"size"`
	// Uploaded is how many bytes have arrived. The file can be used when all have.
	Uploaded int64 `json:"uploaded"`
	// SHA256 is the digest of the content in hexadecimal, once all of it has arrived.
	SHA256 string `json:"sha256,omitempty"`
	// Call is the call that left the file as an artifact.
	Call    CallID    `json:"call_id,omitempty"`
	Created time.Time `json:"created_at"`
	Expires time.Time `json:"expires_at"`
}

// Complete reports whether all of the content has arrived.
func (f File) Complete() bool { return f.Uploaded == f.Size && f.SHA256 != "" }

// A NewFile is a file to be added.
type NewFile struct {
	Name        string `json:"name"`
	ContentType string `json:"content_type,omitempty"` // empty means what the content looks like
	// Size is that of the whole content.
	Size int64 `json:"size"`
	// TTL is how long the file is kept; 0 means as long as the server allows.
	TTL Millis `json:"ttl_ms,omitempty"`
}

// A CallFile is a file that a call puts into the working directory of the tool: a file that
// was added before, or content that comes with the call.
type CallFile struct {
	ID FileID `json:"id,omitempty"`
	// Path is where the tool finds it, relative to its working directory; empty means the
	// name of the file.
	Path string `json:"path,omitempty"`
	// Data is the content if there is no ID; JSON carries it as base64.
	Data []byte `json:"data,omitempty"`
	// SHA256 is the digest of the content. Haft sets it.
	SHA256 string `json:"sha256,omitempty"`
}

// Files keeps files. A file of somebody else is not there: [CodeNotFound].
type Files interface {
	// AddFile adds a file with the first part of its content, which may be all or nothing.
	AddFile(ctx context.Context, p Principal, f NewFile, first []byte) (*File, error)
	// AppendFile adds the part of the content that begins at an offset. [CodeConflict] means
	// that this is not where the content ends so far.
	AppendFile(ctx context.Context, p Principal, id FileID, offset int64, part []byte) (*File, error)
	// Files lists the files that p may see, newest first: those that are older than the one
	// with the id before, or all if that is empty. Ids are ordered by time.
	Files(ctx context.Context, p Principal, before FileID) iter.Seq2[File, error]
	// OpenFile returns a file and a reader of its content, which fails if not all of it has
	// arrived.
	OpenFile(ctx context.Context, p Principal, id FileID) (*File, io.ReadSeeker, error)
	// RemoveFile removes a file.
	RemoveFile(ctx context.Context, p Principal, id FileID) error
}

// uploadPart is how much of a file [Upload] sends at once.
const uploadPart = 4 << 20

// Upload adds a file with the content of r, part by part. It removes what it has added if r has
// less content than n says.
func Upload(ctx context.Context, to Files, p Principal, n NewFile, r io.Reader) (*File, error) {
	part := make([]byte, min(uploadPart, max(0, n.Size)))
	if _, err := io.ReadFull(r, part); err != nil {
		return nil, fmt.Errorf("read the file to upload: %w", err)
	}
	f, err := to.AddFile(ctx, p, n, part)
	for err == nil && !f.Complete() {
		part = part[:min(uploadPart, n.Size-f.Uploaded)]
		if _, err := io.ReadFull(r, part); err != nil {
			return nil, errors.Join(fmt.Errorf("read the file to upload: %w", err), to.RemoveFile(ctx, p, f.ID))
		}
		f, err = to.AppendFile(ctx, p, f.ID, f.Uploaded, part)
	}
	return f, err
}
