package workspace

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"haft"
)

// checkPath accepts clean relative paths only.
func checkPath(name string) error {
	if name == "." || !filepath.IsLocal(name) || path.Clean(name) != name || len(name) > maxPath ||
		strings.Count(name, "/") >= maxDepth/2 || strings.ContainsRune(name, 0) {
		return invalid("/path", "expected a relative path without . and .., of at most 1024 bytes")
	}
	return nil
}

// pathError makes an error of the caller of a path that does not lead to what was expected.
func pathError(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return missing("file in the workspace")
	}
	_, isPath := errors.AsType[*fs.PathError](err)
	no, isErrno := errors.AsType[syscall.Errno](err)
	if isErrno && slices.Contains([]syscall.Errno{syscall.ENOTDIR, syscall.ELOOP, syscall.EISDIR, syscall.ENAMETOOLONG,
		syscall.EEXIST, syscall.ENOTEMPTY, syscall.EINVAL}, no) || isPath && !isErrno { // it leads out of the root
		return invalid("/path", "expected directories on the way: a part of the path is a file or a link")
	}
	return err
}

// withFiles runs do with the files of a workspace that p may read.
func (a *API) withFiles(ctx context.Context, p haft.Principal, name string, do func(t *Tree) error) error {
	w, err := a.find(ctx, p, name, haft.WorkspacesRead)
	if err != nil {
		return err
	}
	return a.Store.read(ctx, w, do)
}

// WorkspaceFiles implements [haft.WorkspaceReader].
func (a *API) WorkspaceFiles(ctx context.Context, p haft.Principal, name,
	dir string) (list *haft.WorkspaceListing, err error) {
	err = a.withFiles(ctx, p, name, func(t *Tree) (err error) {
		list, err = t.List(ctx, dir)
		return err
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// entry describes an entry.
func entry(at string, info fs.FileInfo) haft.WorkspaceEntry {
	e := haft.WorkspaceEntry{Path: at, Kind: "other", Modified: info.ModTime().UTC()}
	switch mode := info.Mode(); {
	case mode.IsRegular():
		e.Kind, e.Size = "file", info.Size()
	case mode.IsDir():
		e.Kind = "directory"
	case mode&fs.ModeSymlink != 0:
		e.Kind = "link"
	}
	return e
}

// content is what was in a file when it was opened, or less if a tool cut it meanwhile.
type content struct {
	*io.SectionReader
	io.Closer
}

// OpenWorkspaceFile implements [haft.WorkspaceReader].
func (a *API) OpenWorkspaceFile(ctx context.Context, p haft.Principal, name,
	at string) (e *haft.WorkspaceEntry, r io.ReadSeekCloser, err error) {
	err = a.withFiles(ctx, p, name, func(t *Tree) (err error) {
		e, r, err = t.Open(at)
		return err
	})
	return e, r, err
}

// PutWorkspaceFile implements [haft.WorkspaceWriter].
func (a *API) PutWorkspaceFile(ctx context.Context, p haft.Principal, name string, f haft.CallFile) error {
	if err := checkPath(f.Path); err != nil {
		return err
	}
	size, data := int64(len(f.Data)), io.Reader(bytes.NewReader(f.Data))
	if f.ID != "" {
		kept, reader, err := a.Files.OpenFile(ctx, p, f.ID)
		if err != nil {
			return err
		}
		size, data = kept.Size, reader
	}
	return a.change(ctx, p, name, "workspace.put", map[string]any{"bytes": size},
		func(home *os.Root, w *row, limit haft.WorkspaceSize) error {
			return a.Store.put(home, w, limit, newFile{f.Path, size, io.LimitReader(data, size), 0o644})
		})
}

// A newFile is a file to be put into a workspace.
type newFile struct {
	at   string
	size int64
	data io.Reader
	perm fs.FileMode
}

// put writes a file and moves it to its path in a workspace that nobody else uses.
func (s *Store) put(home *os.Root, w *row, limit haft.WorkspaceSize, f newFile) error {
	then := haft.WorkspaceSize{Bytes: w.Used.Bytes + f.size, Inodes: w.Used.Inodes + 1}
	if err := over(then, limit); err != nil {
		return full(err)
	}
	if err := s.diskFull(home, f.size); err != nil {
		return err
	}
	temp := "put-" + rand.Text()
	err := writeFile(home, temp, w.uid, f)
	if err == nil {
		err = w.place(home, temp, f.at)
	}
	if err != nil {
		return errors.Join(err, unlessGone(home.Remove(temp)))
	}
	return nil
}

// writeFile writes a file for the owner to the disk.
func writeFile(dir *os.Root, name string, owner int, file newFile) error {
	f, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, file.data)
	return errors.Join(err, f.Chmod(file.perm), f.Sync(), f.Close(), chown(dir, name, owner))
}

// place moves a file to its path in the files of a workspace. Nobody else uses those: directories that
// are no links stay so.
func (w *row) place(home *os.Root, temp, at string) error {
	files, err := openDir(home, w.dir)
	if err != nil {
		return err
	}
	defer files.Close() // syncDir has written it
	if err := parents(files, at, true, w.uid); err != nil {
		return err
	}
	if err := home.Rename(temp, path.Join(w.dir, at)); err != nil {
		return pathError(err)
	}
	return syncDir(files, path.Dir(at))
}

// parents checks that a path leads through directories only, and no links. If make is set it makes those
// that are missing.
func parents(files *os.Root, at string, make bool, owner int) error {
	for i := range at {
		if at[i] != '/' {
			continue
		}
		info, err := files.Lstat(at[:i])
		if errors.Is(err, fs.ErrNotExist) && make {
			if err = files.Mkdir(at[:i], 0o755); err == nil {
				err = chown(files, at[:i], owner)
			}
		} else if err == nil && !info.IsDir() {
			err = syscall.ENOTDIR
		}
		if err != nil {
			return pathError(err)
		}
	}
	return nil
}

// RemoveWorkspaceFile implements [haft.WorkspaceWriter].
func (a *API) RemoveWorkspaceFile(ctx context.Context, p haft.Principal, name, at string) error {
	if err := checkPath(at); err != nil {
		return err
	}
	return a.change(ctx, p, name, "workspace.remove_file", nil,
		func(home *os.Root, w *row, _ haft.WorkspaceSize) error {
			files, err := openDir(home, w.dir)
			if err != nil {
				return err
			}
			defer files.Close() // only read
			if err := parents(files, at, false, 0); err != nil {
				return err
			}
			temp := trash + rand.Text()
			if err := home.Rename(path.Join(w.dir, at), temp); err != nil {
				return pathError(err)
			}
			return removeTree(home, temp)
		})
}
