package backend

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path"
	"path/filepath"
	"time"

	"haft"
	"haft/internal/toolfile"
	"haft/sandbox"
)

// FilesOf returns the files of a system.
func FilesOf(s System) Files {
	if r, ok := s.(*Remote); ok {
		return r.Client.Files
	}
	return s.(*Local).API.Files
}

// AddFile adds a file of this machine.
func AddFile(ctx context.Context, to Files, p haft.Principal, name string, ttl time.Duration) (*haft.File, error) {
	file, size, err := toolfile.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return haft.Upload(ctx, to, p, haft.NewFile{Name: filepath.Base(name), Size: size, TTL: haft.Millis(ttl)}, file)
}

// maxInline is how many bytes of files a call carries to a server; larger ones are added before.
const maxInline = 1 << 20

// uploadTTL is how long files are kept that were added for one call.
const uploadTTL = 24 * time.Hour

// CallFiles returns the files that names name: ids of files, or files of this machine.
func CallFiles(ctx context.Context, s System, p haft.Principal, names []string) (list []haft.CallFile, err error) {
	var own []string
	for _, name := range names {
		if id, at, ok := toolfile.FileID(name); ok {
			list = append(list, haft.CallFile{ID: id, Path: at})
		} else {
			own = append(own, name)
		}
	}
	read, err := toolfile.ReadFiles(own)
	size := 0
	for _, f := range read {
		size += len(f.Data)
	}
	_, remote := s.(*Remote)
	for _, f := range read {
		given := haft.CallFile{Path: f.Name, Data: f.Data}
		if err == nil && remote && size > maxInline {
			given, err = uploadFor(ctx, FilesOf(s), p, f)
		}
		list = append(list, given)
	}
	return list, err
}

// uploadFor adds a file for one call.
func uploadFor(ctx context.Context, to Files, p haft.Principal, f sandbox.File) (haft.CallFile, error) {
	added, err := haft.Upload(ctx, to, p, haft.NewFile{Name: path.Base(f.Name), Size: int64(len(f.Data)),
		TTL: haft.Millis(uploadTTL)}, bytes.NewReader(f.Data))
	if err != nil {
		return haft.CallFile{}, err
	}
	return haft.CallFile{ID: added.ID, Path: f.Name}, nil
}

// SaveArtifacts saves artifacts of a call below a directory, and reports the path of each. An
// artifact that is not in the result is opened in from, which may be nil.
func SaveArtifacts(ctx context.Context, from System, p haft.Principal, res *haft.Result, dir string,
	saved func(path string)) (err error) {
	if len(res.Artifacts) == 0 {
		return nil
	}
	saver, err := toolfile.NewSaver(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, saver.Close()) }()
	for _, a := range res.Artifacts {
		var content io.Reader = bytes.NewReader(a.Data)
		if int64(len(a.Data)) != a.Size && from != nil {
			_, content, err = FilesOf(from).OpenArtifact(ctx, p, res.Call, a.Name)
		}
		if err == nil {
			err = saver.Save(a.Name, content)
		}
		if err != nil {
			return err
		}
		saved(filepath.Join(dir, a.Name))
	}
	return nil
}
