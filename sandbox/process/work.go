package process

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"haft"
	"haft/sandbox"
)

// Bounds of the search for artifacts, whatever a program makes of its directory.
const (
	maxDepth   = 16
	maxEntries = 4096
	maxCut     = 32
	maxUnlock  = 256 // depth of directories that are made removable
)

// A work is the directory that stands for /work. The root stays the same
// directory even if the command moves it or puts a link in its place.
type work struct {
	dir  string
	root *os.Root
}

// makeWork makes a work directory with out and the given files in it.
func makeWork(parent string, files []sandbox.File) (*work, error) {
	dir, err := os.MkdirTemp(parent, "haft-process-")
	if err != nil {
		return nil, fmt.Errorf("make work directory: %w", err)
	}
	w := &work{dir: dir}
	if w.root, err = os.OpenRoot(dir); err != nil {
		return nil, errors.Join(fmt.Errorf("open work directory: %w", err), os.Remove(dir))
	}
	if err := w.fill(files); err != nil {
		return nil, errors.Join(fmt.Errorf("fill work directory: %w", err), w.remove())
	}
	return w, nil
}

// fill puts the files in.
func (w *work) fill(files []sandbox.File) error {
	if err := w.root.Mkdir("out", 0o700); err != nil {
		return err
	}
	for _, f := range files {
		if err := w.root.MkdirAll(path.Dir(f.Name), 0o700); err != nil {
			return err
		}
		mode := f.Mode.Perm()
		if mode == 0 {
			mode = 0o644
		}
		if err := w.root.WriteFile(f.Name, f.Data, 0o600); err != nil {
			return err
		}
		if err := w.root.Chmod(f.Name, mode); err != nil {
			return err
		}
	}
	return nil
}

// remove deletes the directory, even if the command took its own permissions
// away.
func (w *work) remove() error {
	defer w.root.Close()
	if os.RemoveAll(w.dir) == nil {
		return nil
	}
	w.unlock(".", 0)
	return os.RemoveAll(w.dir)
}

// unlock makes directories writable again, from the top down.
func (w *work) unlock(dir string, depth int) {
	if depth > maxUnlock || w.root.Chmod(dir, 0o700) != nil {
		return
	}
	list, err := fs.ReadDir(w.root.FS(), dir)
	if err != nil {
		return // RemoveAll will say so
	}
	for _, d := range list {
		if d.IsDir() {
			w.unlock(path.Join(dir, d.Name()), depth+1)
		}
	}
}

// A collector gathers artifacts within bounds.
type collector struct {
	root    *os.Root
	limits  haft.Limits
	found   []haft.Artifact
	bytes   int64
	entries int
	cut     []string
}

// collect returns the regular files below out, and what was left out.
func (w *work) collect(limits haft.Limits) ([]haft.Artifact, []string) {
	st, err := w.root.Lstat("out")
	if err != nil || !st.IsDir() {
		return nil, []string{"out: not a directory"}
	}
	root, err := w.root.OpenRoot("out")
	if err != nil {
		return nil, []string{"out: cannot be opened"}
	}
	defer root.Close()
	c := &collector{root: root, limits: limits}
	c.walk(".", 0)
	return c.found, c.cut
}

// walk takes what lies in dir, in the order of names.
func (c *collector) walk(dir string, depth int) {
	f, err := c.root.Open(dir)
	if err != nil {
		c.leave(dir, "cannot be opened")
		return
	}
	list, err := f.ReadDir(maxEntries)
	_ = f.Close() // only read from
	if err != nil && !errors.Is(err, io.EOF) {
		c.leave(dir, "cannot be read")
		return
	}
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, d := range list {
		if c.entries++; c.entries > maxEntries {
			c.leave(dir, "there are too many files")
			return
		}
		name := path.Join(dir, d.Name())
		switch {
		case !utf8.ValidString(d.Name()):
			c.leave(name, "the name is not UTF-8")
		case d.IsDir() && depth >= maxDepth:
			c.leave(name, "too deep")
		case d.IsDir():
			c.walk(name, depth+1)
		case !d.Type().IsRegular():
			c.leave(name, "not a regular file")
		default:
			c.take(name)
		}
	}
}

// take reads one file. It is looked at again once it is open: a process that
// fled could have put something else in its place. A FIFO would block the open,
// hence O_NONBLOCK.
func (c *collector) take(name string) {
	if len(c.found) >= c.limits.Artifacts {
		c.leave(name, "there are too many artifacts")
		return
	}
	f, err := c.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		c.leave(name, "cannot be opened")
		return
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		c.leave(name, "not a regular file")
		return
	}
	left := c.limits.ArtBytes - c.bytes
	data, err := io.ReadAll(io.LimitReader(f, left+1))
	if err != nil {
		c.leave(name, "cannot be read")
		return
	}
	if int64(len(data)) > left {
		c.leave(name, "the artifacts are too large together")
		return
	}
	c.bytes += int64(len(data))
	c.found = append(c.found, haft.Artifact{
		Name: filepath.ToSlash(name), ContentType: http.DetectContentType(data),
		Size: int64(len(data)), Data: data,
	})
}

// leave notes what does not come back.
func (c *collector) leave(name, reason string) {
	if len(c.cut) < maxCut {
		c.cut = append(c.cut, fmt.Sprintf("%q: %s", name, reason))
	}
}
