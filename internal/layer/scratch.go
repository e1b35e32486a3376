package layer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// A scratch is the directory of one step. Code of packages can write to it, so its files may
// be links, pipes or devices, or grow without end. Haft reads and writes it only by these
// methods: they follow no link out of it and never block on a file.
type scratch string

// root opens the directory.
func (s scratch) root() (*os.Root, error) { return os.OpenRoot(string(s)) }

// read reads a regular file of at most limit bytes.
func (s scratch) read(name string, limit int64) ([]byte, error) {
	root, err := s.root()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	// A pipe that nobody writes to would hold up whoever opens it otherwise.
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, &fs.PathError{Op: "read", Path: name, Err: errors.New("not a regular file")}
	}
	return readBounded(f, limit)
}

// readBounded reads a file that must not be longer than limit.
func readBounded(f *os.File, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("the file has more than %d bytes", limit)
	}
	return data, err
}

// put writes a file for the installer to read.
func (s scratch) put(name string, data []byte) error {
	root, err := s.root()
	if err != nil {
		return err
	}
	defer root.Close()
	return root.WriteFile(name, data, 0o644)
}

// putJSON writes a value for the installer to read.
func (s scratch) putJSON(name string, v any) error {
	text, err := json.Marshal(v)
	if err == nil {
		err = s.put(name, text)
	}
	return explain("write for the installer", err)
}

// mkdir makes a directory that a sandbox of another user may write to.
func (s scratch) mkdir(name string) error {
	root, err := s.root()
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := root.Lstat(name)
	if err != nil || !info.IsDir() {
		return errors.Join(err, &fs.PathError{Op: "make directory", Path: name, Err: fs.ErrExist})
	}
	return root.Chmod(name, 0o777)
}

// share lets every user read and add to what one sandbox left: the next has another
// user id, if we run as root.
func (s scratch) share() error {
	root, err := s.root()
	if err != nil {
		return err
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() { // before it is read
			return root.Chmod(name, 0o777)
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return root.Chmod(name, info.Mode().Perm()|0o444)
	})
}

// holds reports whether there is a file whose name ends so.
func (s scratch) holds(suffix string) (found bool) {
	root, err := s.root()
	if err != nil {
		return false
	}
	defer root.Close()
	_ = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if found = found || err == nil && d.Type().IsRegular() && strings.HasSuffix(name, suffix); found {
			return fs.SkipAll
		}
		return nil
	})
	return found
}

// measure returns the bytes and the number of the files in there. What changes
// meanwhile is left out.
func (s scratch) measure(ctx context.Context) (size int64, count int) {
	root, err := s.root()
	if err != nil {
		return 0, 0
	}
	defer root.Close()
	_ = fs.WalkDir(root.FS(), ".", func(_ string, d fs.DirEntry, err error) error {
		if err != nil || ctx.Err() != nil {
			return nil
		}
		count++
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			size += info.Size()
		}
		return nil
	})
	return size, count
}

// measureEvery is how often the size of a directory is measured while an installer fills it.
const measureEvery = 2 * time.Second

// watch measures the directory until ctx ends, and cancels once check finds it too large.
func (s scratch) watch(ctx context.Context, check func(size int64, count int) error, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(measureEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := check(s.measure(ctx)); err != nil {
			cancel(err)
			return
		}
	}
}

// join returns the host's path of a file, for a sandbox and never for us.
func (s scratch) join(name string) string { return filepath.Join(string(s), name) }
