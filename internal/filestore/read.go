package filestore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"haft"
	"haft/internal/store"
)

// Get returns the file of that id in an organisation, or [haft.CodeNotFound]. It does not ask
// who may have it.
func (s *Store) Get(ctx context.Context, org string, id haft.FileID) (*haft.File, error) {
	list, err := s.list(ctx, "org = $1 AND id = $2 AND expires > $3", org, string(id), s.now().UnixMicro())
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, missing()
	}
	return &list[0], nil
}

// A Filter says which files to list.
type Filter struct {
	Org string
	// User and Agent are those of the owner; empty means any.
	User, Agent string
	// Before is the id of a file: only older ones are listed.
	Before haft.FileID
	Limit  int
}

// All lists files, newest first, a page of [Filter.Limit] files at a time.
func (s *Store) All(ctx context.Context, f Filter) iter.Seq2[haft.File, error] {
	return func(yield func(haft.File, error) bool) {
		for {
			list, err := s.page(ctx, f)
			if err != nil {
				yield(haft.File{}, err)
				return
			}
			for _, file := range list {
				if f.Before = file.ID; !yield(file, nil) {
					return
				}
			}
			if len(list) < f.Limit {
				return
			}
		}
	}
}

// page returns one page of files.
func (s *Store) page(ctx context.Context, f Filter) ([]haft.File, error) {
	return s.list(ctx, "org = $1 AND expires > $2 AND ($3 = '' OR usr = $4) AND ($5 = '' OR agent = $6) AND "+
		"($7 = '' OR id < $8) ORDER BY id DESC LIMIT $9", f.Org, s.now().UnixMicro(), f.User, f.User, f.Agent,
		f.Agent, string(f.Before), string(f.Before), f.Limit)
}

func (s *Store) list(ctx context.Context, where string, args ...any) ([]haft.File, error) {
	var all []haft.File
	err := s.db.Each(ctx, "read files", func(r store.Scanner) error {
		f, err := scan(r)
		all = append(all, f)
		return err
	}, "SELECT "+columns+" FROM files WHERE "+where, args...)
	return all, err
}

// Open returns a reader of the content of a file, which reads a row at a time.
func (s *Store) Open(ctx context.Context, f haft.File) io.ReadSeeker {
	return &reader{ctx: ctx, s: s, f: f}
}

// Content returns the content of a complete file.
func (s *Store) Content(ctx context.Context, f haft.File) ([]byte, error) {
	data := make([]byte, f.Size)
	if _, err := io.ReadFull(s.Open(ctx, f), data); err != nil {
		return nil, err
	}
	return data, nil
}

// A reader reads the content of one file. It has the context of the request that it is for.
type reader struct {
	ctx  context.Context
	s    *Store
	f    haft.File
	at   int64  // the next byte to read
	part []byte // what was read and begins there
}

// Read implements [io.Reader].
func (r *reader) Read(p []byte) (int, error) {
	switch {
	case len(p) == 0:
		return 0, nil
	case !r.f.Complete():
		return 0, &haft.Error{Code: haft.CodeConflict,
			Message: fmt.Sprintf("the file has %d of %d bytes: send the rest first", r.f.Uploaded, r.f.Size)}
	case r.at >= r.f.Size:
		return 0, io.EOF
	}
	if len(r.part) == 0 {
		if err := r.load(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.part)
	r.part, r.at = r.part[n:], r.at+int64(n)
	return n, nil
}

// load reads the row that has the next byte.
func (r *reader) load() error {
	var begin int64
	var data []byte
	err := r.s.db.Each(r.ctx, "read a file", func(row store.Scanner) error { return row.Scan(&begin, &data) },
		"SELECT p.at, p.data FROM file_parts p JOIN files f ON f.content = p.content WHERE f.id = $1 AND f.org = $2 "+
			"AND p.at <= $3 ORDER BY p.at DESC LIMIT 1", string(r.f.ID), r.f.Owner.Org, r.at)
	if err != nil {
		return err
	}
	if r.at-begin >= int64(len(data)) {
		return missing() // it was removed while it was read
	}
	r.part = data[r.at-begin:]
	return nil
}

// Seek implements [io.Seeker].
func (r *reader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += r.at
	case io.SeekEnd:
		offset += r.f.Size
	}
	if offset < 0 {
		return 0, errors.New("seek before the beginning of a file")
	}
	if skip := offset - r.at; skip >= 0 && skip < int64(len(r.part)) {
		r.part = r.part[skip:]
	} else {
		r.part = nil
	}
	r.at = offset
	return offset, nil
}
