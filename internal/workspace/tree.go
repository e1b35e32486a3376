package workspace

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"haft"
)

// A tree is what tools left in a directory: it may have links to anywhere, named pipes, directories
// without permissions, and any names. Everything here goes through an [os.Root], which no link
// leads out of, and opens nothing but regular files and directories.

// maxDepth is how deep the directories of a workspace may be.
const maxDepth = 64

// errTooDeep is for trees that only [removeTree] deals with.
var errTooDeep = &overError{haft.FailInodes,
	fmt.Sprintf("the workspace has directories that are more than %d deep", maxDepth)}

// maxPath is how long paths in a workspace may be.
const maxPath = 1024

// errLongPath is for trees that only [removeTree] deals with.
var errLongPath = &overError{haft.FailInodes, fmt.Sprintf("the workspace has paths of more than %d bytes", maxPath)}

// A visitor is told of an entry: its directory, its name there, and its path in the tree.
type visitor func(dir *os.Root, name, at string, info fs.FileInfo) error

// walk visits all entries below dir, in any order. Leave, if not nil, is told of a directory after its entries.
func walk(ctx context.Context, dir *os.Root, at string, visit, leave visitor) error {
	if strings.Count(at, "/") >= maxDepth-1 {
		return errTooDeep
	}
	return entries(dir, func(name string, info fs.FileInfo) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		full := path.Join(at, name)
		if len(full) > maxPath {
			return errLongPath
		}
		if err := visit(dir, name, full, info); err != nil || !info.IsDir() {
			return err
		}
		sub, err := openDir(dir, name)
		if err != nil {
			return unlessGone(err)
		}
		defer sub.Close() // only read
		if err := walk(ctx, sub, full, visit, leave); err != nil || leave == nil {
			return err
		}
		return leave(dir, name, full, info)
	})
}

// entries visits the entries of one directory. What is gone meanwhile is left out: a tool may be running.
func entries(dir *os.Root, visit func(name string, info fs.FileInfo) error) error {
	return names(dir, func(list []string) error {
		for _, name := range list {
			info, err := dir.Lstat(name)
			if err == nil {
				err = visit(name, info)
			} else {
				err = unlessGone(err)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// names visits the names in a directory, some at a time.
func names(dir *os.Root, visit func(list []string) error) error {
	f, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer f.Close() // only read
	for {
		list, err := f.Readdirnames(1024)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := visit(list); err != nil {
			return err
		}
	}
}

func unlessGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// openDir opens a directory. If a tool took its permissions away, its owner gets them back: what
// cannot be read could not be counted. Root needs none.
func openDir(dir *os.Root, name string) (*os.Root, error) {
	info, err := dir.Lstat(name)
	if err == nil && info.IsDir() && info.Mode().Perm()&0o700 != 0o700 && os.Geteuid() != 0 {
		err = dir.Chmod(name, 0o700)
	}
	if err != nil {
		return nil, err
	}
	return dir.OpenRoot(name)
}

// openFile opens a regular file to read it, and nothing else: a named pipe would block, and a link may
// lead anywhere.
func openFile(dir *os.Root, name string) (*os.File, fs.FileInfo, error) {
	info, err := dir.Lstat(name)
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, invalid("/path", "expected a regular file")
	}
	f, err := dir.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrPermission) {
		if err = dir.Chmod(name, info.Mode().Perm()|0o400); err == nil {
			f, err = dir.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		}
	}
	if err != nil {
		return nil, nil, err
	}
	now, err := f.Stat()
	if err == nil && !os.SameFile(info, now) {
		err = invalid("/path", "the file was replaced meanwhile")
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, now, nil
}

// hardLink returns the inode of an entry that may have several names.
func hardLink(info fs.FileInfo) (inode uint64, ok bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || info.IsDir() || st.Nlink < 2 {
		return 0, false
	}
	return st.Ino, true
}

// measure returns how much is in a tree. It stops when that is more than limit, and says so with an
// [overError]. A file counts with its size, also if it is sparse, since a copy of it may not be; or
// with what is allocated for it, if that is more. Its bytes count once if it has several names.
func measure(ctx context.Context, tree *os.Root, limit haft.WorkspaceSize) (haft.WorkspaceSize, error) {
	var used haft.WorkspaceSize
	seen := map[uint64]bool{} // not more than may be in the tree
	err := walk(ctx, tree, "", func(_ *os.Root, _, _ string, info fs.FileInfo) error {
		inode, linked := hardLink(info)
		if !linked || !seen[inode] {
			size := info.Size()
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				size = max(size, st.Blocks*512)
			}
			used.Bytes += min(size, 1<<60)
		}
		if linked {
			seen[inode] = true
		}
		used.Inodes++
		return over(used, limit)
	}, nil)
	if errors.Is(err, errTooDeep) || errors.Is(err, errLongPath) {
		used.Inodes = limit.Inodes + 1 // not all was counted
	}
	return used, err
}

// An overError says that a workspace has more than it may have.
type overError struct {
	kind    haft.FailureKind
	message string
}

// Error says which bound was exceeded.
func (e *overError) Error() string { return e.message }

// over reports which bound a size exceeds, as an [overError], or nil.
func over(used, limit haft.WorkspaceSize) error {
	switch {
	case used.Bytes > limit.Bytes:
		return &overError{haft.FailDisk, fmt.Sprintf("the workspace has more than %d bytes", limit.Bytes)}
	case used.Inodes > limit.Inodes:
		return &overError{haft.FailInodes,
			fmt.Sprintf("the workspace has more than %d files and directories", limit.Inodes)}
	}
	return nil
}

// full makes an error of the caller of an [overError].
func full(err error) error {
	if e, ok := errors.AsType[*overError](err); ok {
		return conflict(e.message + ": remove some files, or restore a snapshot")
	}
	return err
}

// maxLinked is how many bytes the paths of files with several names have together, in a tree that is copied.
const maxLinked = 16 << 20

// errTooLinked refuses more than [maxLinked].
var errTooLinked = conflict("the workspace has too many files with several names")

// copyStep is how many bytes are copied before the disk is measured again.
const copyStep = 64 << 20

// A copier copies trees into an empty directory, which is then the owner's. Before every step bytes it asks
// check whether to go on.
type copier struct {
	to    *os.Root
	owner int
	step  int64
	check func() error
	left  int64 // of the step
}

// tree copies a tree: directories, files (by sharing their blocks where the file system can), links as they
// are, and hard links as such. Named pipes and sockets are left out, and bits that change the user of a program
// are dropped.
func (c *copier) tree(ctx context.Context, from *os.Root) error {
	to, owner := c.to, c.owner
	first, linked := map[uint64]string{}, 0
	return walk(ctx, from, "", func(dir *os.Root, name, at string, info fs.FileInfo) (err error) {
		inode, several := hardLink(info)
		old, again := first[inode]
		switch mode := info.Mode(); {
		case mode.IsDir():
			return to.Mkdir(at, 0o700)
		case mode.IsRegular() && several && again:
			err = to.Link(old, at)
		case mode.IsRegular():
			if several {
				first[inode], linked = at, linked+len(at)
			}
			if linked > maxLinked {
				return errTooLinked
			}
			err = c.file(ctx, dir, name, at)
		case mode&fs.ModeSymlink != 0:
			var target string
			if target, err = dir.Readlink(name); err == nil {
				err = to.Symlink(target, at)
			}
		default:
			return nil
		}
		if err != nil {
			return err
		}
		return chown(to, at, owner)
	}, func(_ *os.Root, _, at string, info fs.FileInfo) error {
		return errors.Join(to.Chmod(at, info.Mode().Perm()), chown(to, at, owner))
	})
}

// chown gives an entry to a user id, unless that is 0: then it stays with this process.
func chown(dir *os.Root, name string, owner int) error {
	if owner == 0 {
		return nil
	}
	return dir.Lchown(name, owner, owner)
}

// file copies one file with its permissions and its time. The kernel shares the blocks where the
// file system can (copy_file_range).
func (c *copier) file(ctx context.Context, dir *os.Root, name, at string) error {
	in, info, err := openFile(dir, name)
	if err != nil {
		return err
	}
	defer in.Close() // only read
	out, err := c.to.OpenFile(at, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = c.content(ctx, out, in, info.Size())
	if err = errors.Join(err, out.Chmod(info.Mode().Perm()), out.Close()); err != nil {
		return err
	}
	return c.to.Chtimes(at, info.ModTime(), info.ModTime())
}

// content copies so many bytes, or up to the end.
func (c *copier) content(ctx context.Context, out, in *os.File, size int64) error {
	for size > 0 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if c.left <= 0 {
			if err := c.check(); err != nil {
				return err
			}
			c.left = c.step
		}
		n, err := io.CopyN(out, in, min(size, c.left))
		size, c.left = size-n, c.left-n
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// trash begins the names of directories that are being removed.
const trash = "trash-"

// removeTree removes an entry of top with everything in it. It moves directories to top before it
// looks into them, so that it does not matter how deep they are.
func removeTree(top *os.Root, name string) error {
	for todo := []string{name}; len(todo) > 0; {
		at := todo[len(todo)-1]
		found, err := clearDir(top, at)
		if len(found) == 0 && err == nil {
			todo, err = todo[:len(todo)-1], top.Remove(at)
		}
		if errors.Is(err, fs.ErrNotExist) {
			todo, err = slices.DeleteFunc(todo, func(s string) bool { return s == at }), nil
		}
		if err != nil {
			return fmt.Errorf("remove a tree: %w", err)
		}
		todo = append(todo, found...)
	}
	return nil
}

// clearDir removes files from a directory, and moves directories from it to top, whose names there it
// returns. It does nothing with what is no directory.
func clearDir(top *os.Root, at string) (dirs []string, err error) {
	if info, err := top.Lstat(at); err != nil || !info.IsDir() {
		return nil, err
	}
	dir, err := openDir(top, at)
	if err != nil {
		return nil, err
	}
	defer dir.Close() // only read
	err = entries(dir, func(name string, info fs.FileInfo) error {
		if !info.IsDir() {
			return unlessGone(dir.Remove(name))
		}
		sub, err := openDir(dir, name) // without permission to write to it, it cannot be moved
		if err != nil {
			return unlessGone(err)
		}
		moved := trash + rand.Text()
		dirs = append(dirs, moved)
		return unlessGone(errors.Join(sub.Close(), top.Rename(at+"/"+name, moved)))
	})
	return dirs, err
}

// syncDir writes the names in a directory to the disk.
func syncDir(dir *os.Root, name string) error {
	f, err := dir.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// diskFull reports that the disk has less free than is reserved, after so many bytes were written.
func (s *Store) diskFull(tree *os.Root, size int64) error {
	f, err := tree.Open(".")
	if err != nil {
		return err
	}
	defer f.Close() // only read
	var st syscall.Statfs_t
	if err := syscall.Fstatfs(int(f.Fd()), &st); err != nil {
		return fmt.Errorf("measure the disk: %w", err)
	}
	block, reserve := int64(st.Bsize), s.cfg.Reserve
	if reserve <= 0 {
		reserve = min(1<<30, int64(st.Blocks)*block/20)
	}
	if int64(st.Bavail)*block-size < reserve {
		return &haft.Error{Code: haft.CodeUnavailable, Message: "the disk of the workspaces is full: ask the operator"}
	}
	return nil
}
