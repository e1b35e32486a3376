package workspace

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"haft"
	"haft/internal/authority"
)

// An Archive is what a workspace is made of: a file that describes it, and a directory of files.
type Archive struct {
	// About is the content of the file with the name AboutName.
	AboutName string
	About     []byte
	// Files is a tar archive that nobody trusts, and Dir the directory that it is unpacked to.
	Dir   string
	Files io.Reader
	// From returns the names of the workspaces that the files come from, or why they may not be kept. It is called
	// before the files are read and after the last one, since it may change meanwhile. Nil means none.
	From func() ([]string, error)
}

// Import adds a workspace with the files of an archive. It has room for n.Quota.
func (a *API) Import(ctx context.Context, p haft.Principal, n haft.NewWorkspace, from Archive) error {
	if err := a.Rules.Authorize(p, haft.WorkspacesWrite, authority.Owned("workspace", p)); err != nil {
		return err
	}
	if !validName(n.Name) {
		return invalid("/name", nameRule)
	}
	w := &row{Workspace: haft.Workspace{Name: n.Name, Quota: within(n.Quota, a.Store.cfg.Quota, true),
		Owner: haft.Principal{Org: p.Org, User: p.Owner(), Agent: p.Agent}}}
	mayKeep := func(ctx context.Context) error {
		if from.From != nil {
			names, err := from.From()
			if err == nil {
				err = w.comeFrom(names)
			}
			if err != nil {
				return err
			}
		}
		return a.ask(ctx, p, w, haft.WorkspacesWrite)
	}
	if err := mayKeep(ctx); err != nil {
		return err
	}
	if err := a.Store.admit(p.Org); err != nil {
		return err
	}
	err := a.Store.add(ctx, w, w.Quota, func(ctx context.Context, tree *os.Root) (haft.WorkspaceSize, error) {
		size, err := unpackAll(ctx, a.Store, tree, w, from)
		if err == nil {
			err = mayKeep(ctx)
		}
		return size, err
	})
	if err != nil {
		return err
	}
	return a.Log(ctx, p, "workspace.add", map[string]any{"workspace": n.Name, "shared": false, "from": ""})
}

// unpackAll fills the tree of w with an archive, and measures it.
func unpackAll(ctx context.Context, s *Store, tree *os.Root, w *row, from Archive) (size haft.WorkspaceSize,
	err error) {
	if err := tree.WriteFile(from.AboutName, from.About, 0o600); err != nil {
		return size, fmt.Errorf("describe a workspace: %w", err)
	}
	if err := tree.Mkdir(from.Dir, 0o700); err != nil {
		return size, fmt.Errorf("unpack an archive: %w", err)
	}
	files, err := tree.OpenRoot(from.Dir)
	if err != nil {
		return size, fmt.Errorf("unpack an archive: %w", err)
	}
	defer files.Close() // syncTree writes everything
	u := unpacker{to: files, owner: w.uid, limit: w.Quota, check: func() error { return s.diskFull(files, 0) }}
	if err := u.unpack(ctx, tar.NewReader(from.Files)); err != nil {
		return size, err
	}
	for _, name := range []string{from.AboutName, from.Dir} {
		if err := chown(tree, name, w.uid); err != nil {
			return size, fmt.Errorf("unpack an archive: %w", err)
		}
	}
	return sizeOf(ctx, tree, w.Quota)
}

// unpackStep is how many bytes are unpacked before the disk is measured again.
const unpackStep = 1 << 20

// An unpacker writes the files of an archive to a directory. Nothing of the archive is believed: names stay in the
// directory, since it is an [os.Root], and no file replaces another.
type unpacker struct {
	to    *os.Root
	owner int
	limit haft.WorkspaceSize
	check func() error // whether the disk has room
	used  haft.WorkspaceSize
}

// unpack writes all files.
func (u *unpacker) unpack(ctx context.Context, from *tar.Reader) error {
	for {
		h, err := from.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if _, ok := errors.AsType[*haft.Error](err); ok { // who sends it says why it ends
			return err
		}
		if err != nil {
			return &haft.Error{Code: haft.CodeInvalid, Err: err, Message: "the archive of files is broken"}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		name := path.Clean(h.Name)
		if name == "." {
			continue
		}
		if !filepath.IsLocal(name) || len(name) > maxPath || strings.Count(name, "/") >= maxDepth-1 ||
			strings.ContainsRune(name, 0) {
			return invalid("/path", "the archive has a path that leads out of it, or is too long or too deep")
		}
		u.used.Inodes++
		if err := over(u.used, u.limit); err != nil {
			return full(err)
		}
		if err := u.entry(ctx, name, h, from); err != nil {
			if _, ok := errors.AsType[*haft.Error](err); ok || ctx.Err() != nil {
				return err
			}
			// What it was made of says nothing that its sender does not know: it is a name that is there twice, or
			// whose directory is missing.
			return &haft.Error{Code: haft.CodeInvalid, Err: err, Message: "a file of the archive cannot be written"}
		}
	}
}

// entry writes one file, directory or link. Others, such as named pipes, are left out.
func (u *unpacker) entry(ctx context.Context, name string, h *tar.Header, content io.Reader) error {
	mode := fs.FileMode(h.Mode & 0o777) // without the bits that change the user of a program
	switch h.Typeflag {
	case tar.TypeDir:
		if err := errors.Join(u.to.Mkdir(name, 0o700), u.to.Chmod(name, mode|0o700)); err != nil {
			return err
		}
	case tar.TypeReg:
		if err := u.file(ctx, name, h, content); err != nil {
			return err
		}
		if err := errors.Join(u.to.Chtimes(name, h.ModTime, h.ModTime), u.to.Chmod(name, mode)); err != nil {
			return err
		}
	case tar.TypeSymlink:
		if len(h.Linkname) > maxPath {
			return invalid("/path", "the archive has a link that is too long")
		}
		if err := u.to.Symlink(h.Linkname, name); err != nil {
			return err
		}
	case tar.TypeLink:
		old := path.Clean(h.Linkname)
		info, err := u.to.Lstat(old)
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return invalid("/path", "the archive has a second name of something that is no file")
		}
		if err := u.to.Link(old, name); err != nil {
			return err
		}
	default:
		return nil
	}
	return chown(u.to, name, u.owner)
}

// file writes the content of a file.
func (u *unpacker) file(ctx context.Context, name string, h *tar.Header, content io.Reader) error {
	out, err := u.to.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	for left := h.Size; left > 0 && err == nil; {
		n := min(left, unpackStep)
		if u.used.Bytes += n; u.used.Bytes > u.limit.Bytes {
			err = full(over(u.used, u.limit))
			break
		}
		if err = u.check(); err == nil {
			_, err = io.CopyN(out, content, n)
		}
		if left -= n; err == nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
	}
	return errors.Join(err, out.Close())
}

// Export writes the files of a directory of a workspace as a tar archive. Before that it calls begin with the names of
// the workspaces that the files come from, of which this is one.
func (a *API) Export(ctx context.Context, p haft.Principal, name, dir string, to io.Writer,
	begin func(from []string)) error {
	w, err := a.find(ctx, p, name, haft.WorkspacesRead)
	if err != nil {
		return err
	}
	return a.Store.leased(ctx, w, func(tree *os.Root, w *row) error {
		if err := a.ask(ctx, p, w, haft.WorkspacesRead); err != nil { // it may have other origins by now
			return err
		}
		begin(w.names())
		files, err := openDir(tree, dir)
		if err != nil {
			return pathError(err)
		}
		defer files.Close() // only read
		out := tar.NewWriter(to)
		if err := pack(ctx, files, out); err != nil {
			return err
		}
		return out.Close()
	})
}

// pack writes the entries of a tree to an archive.
func pack(ctx context.Context, tree *os.Root, to *tar.Writer) error {
	first, linked := map[uint64]string{}, 0
	return walk(ctx, tree, "", func(dir *os.Root, name, at string, info fs.FileInfo) error {
		h := &tar.Header{Name: at, Mode: int64(info.Mode().Perm()), ModTime: info.ModTime(), Format: tar.FormatGNU}
		inode, several := hardLink(info)
		old, again := first[inode]
		switch mode := info.Mode(); {
		case mode.IsDir():
			h.Typeflag = tar.TypeDir
		case mode.IsRegular() && several && again:
			h.Typeflag, h.Linkname = tar.TypeLink, old
		case mode.IsRegular():
			if several {
				first[inode], linked = at, linked+len(at)
			}
			if linked > maxLinked {
				return errTooLinked
			}
			return packFile(dir, name, h, to)
		case mode&fs.ModeSymlink != 0:
			target, err := dir.Readlink(name)
			if err != nil {
				return err
			}
			h.Typeflag, h.Linkname = tar.TypeSymlink, target
		default:
			return nil
		}
		return to.WriteHeader(h)
	}, nil)
}

// packFile writes a file with its content.
func packFile(dir *os.Root, name string, h *tar.Header, to *tar.Writer) error {
	in, info, err := openFile(dir, name)
	if err != nil {
		return err
	}
	defer in.Close() // only read
	h.Typeflag, h.Size = tar.TypeReg, info.Size()
	if err := to.WriteHeader(h); err != nil {
		return err
	}
	_, err = io.CopyN(to, in, h.Size)
	return err
}
