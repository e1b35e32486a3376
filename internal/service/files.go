package service

import (
	"bytes"
	"context"
	"io"
	"iter"

	"haft"
	"haft/internal/authority"
	"haft/internal/filestore"
)

// A FileManager keeps the files of principals.
type FileManager struct {
	*base
	files *filestore.Store
}

// AddFile implements [haft.Files].
func (m *FileManager) AddFile(ctx context.Context, p haft.Principal, f haft.NewFile, first []byte) (*haft.File, error) {
	if err := m.authority.Authorize(p, haft.FilesWrite, authority.Owned("file", p)); err != nil {
		return nil, err
	}
	return m.files.Add(ctx, p, f, "", first)
}

// AppendFile implements [haft.Files].
func (m *FileManager) AppendFile(ctx context.Context, p haft.Principal, id haft.FileID, offset int64,
	part []byte) (*haft.File, error) {
	f, err := m.find(ctx, p, id, haft.FilesWrite)
	if err != nil {
		return nil, err
	}
	return m.files.Append(ctx, *f, offset, part)
}

// find returns a file that p may do an action to.
func (m *FileManager) find(ctx context.Context, p haft.Principal, id haft.FileID, a haft.Action) (*haft.File, error) {
	if err := m.authority.May(p, a); err != nil {
		return nil, err
	}
	f, err := m.files.Get(ctx, p.Org, id)
	if err != nil {
		return nil, err
	}
	return f, m.authority.Authorize(p, a, authority.Owned("file", f.Owner))
}

// Files implements [haft.Files].
func (m *FileManager) Files(ctx context.Context, p haft.Principal, before haft.FileID) iter.Seq2[haft.File, error] {
	return func(yield func(haft.File, error) bool) {
		if err := m.authority.May(p, haft.FilesRead); err != nil {
			yield(haft.File{}, err)
			return
		}
		f := filestore.Filter{Org: p.Org, Before: before, Limit: page}
		if !m.authority.SeesAll(p, haft.FilesRead) { // somebody who sees only their own
			if f.User, f.Agent = p.Owner(), p.Agent; f.User == "" {
				return
			}
		}
		for file, err := range m.files.All(ctx, f) {
			if !yield(file, err) {
				return
			}
		}
	}
}

// OpenFile implements [haft.Files].
func (m *FileManager) OpenFile(ctx context.Context, p haft.Principal,
	id haft.FileID) (*haft.File, io.ReadSeeker, error) {
	f, err := m.find(ctx, p, id, haft.FilesRead)
	if err != nil {
		return nil, nil, err
	}
	return f, m.files.Open(ctx, *f), nil
}

// RemoveFile implements [haft.Files].
func (m *FileManager) RemoveFile(ctx context.Context, p haft.Principal, id haft.FileID) error {
	f, err := m.find(ctx, p, id, haft.FilesWrite)
	if err != nil {
		return err
	}
	return m.files.Remove(ctx, *f)
}

// OpenArtifact returns an artifact of a call that p may see, and a reader of its content.
func (m *FileManager) OpenArtifact(ctx context.Context, p haft.Principal, id haft.CallID,
	name string) (*haft.Artifact, io.ReadSeeker, error) {
	rec, err := m.work.Seen(ctx, p, id, haft.CallsRead)
	if err != nil {
		return nil, nil, err
	}
	return m.ArtifactOf(ctx, rec, name)
}

// ArtifactOf returns an artifact of a call, and a reader of its content. The caller was given the record of the call:
// nobody is asked who may see it.
func (m *FileManager) ArtifactOf(ctx context.Context, rec *haft.Record, name string) (*haft.Artifact, io.ReadSeeker,
	error) {
	if rec.Result != nil {
		for _, a := range rec.Result.Artifacts {
			if a.Name == name {
				return m.openArtifact(ctx, rec, a)
			}
		}
	}
	return nil, nil, &haft.Error{Code: haft.CodeNotFound, Message: "the call left no artifact of this name"}
}

// openArtifact opens the content where it is kept: in the record, or as a file. Whoever may see
// the call may have it.
func (m *FileManager) openArtifact(ctx context.Context, rec *haft.Record,
	a haft.Artifact) (*haft.Artifact, io.ReadSeeker, error) {
	gone := &haft.Error{Code: haft.CodeNotFound, Message: "the content of the artifact was not kept"}
	if a.File == "" {
		if int64(len(a.Data)) != a.Size {
			return nil, nil, gone
		}
		return &a, bytes.NewReader(a.Data), nil
	}
	f, err := m.files.Get(ctx, rec.Call.Principal.Org, a.File)
	if err != nil || f.Call != rec.Call.ID {
		return nil, nil, gone
	}
	return &a, m.files.Open(ctx, *f), nil
}
