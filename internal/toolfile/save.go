package toolfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
)

// Open opens a regular file of this machine, and returns its size.
func Open(name string) (*os.File, int64, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, 0, wrong(fmt.Errorf("read a file: %w", err))
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file")
	}
	if err != nil {
		return nil, 0, errors.Join(wrong(fmt.Errorf("read %s: %w", name, err)), file.Close())
	}
	return file, info.Size(), nil
}

// A Saver saves files of others below one directory. A name cannot lead out of it, and links in it
// are not followed to the outside.
type Saver struct{ root *os.Root }

// NewSaver returns a saver for a directory, which it makes if it does not exist. Close it.
func NewSaver(dir string) (*Saver, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, wrong(fmt.Errorf("make the directory to save to: %w", err))
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, wrong(fmt.Errorf("open the directory to save to: %w", err))
	}
	return &Saver{root}, nil
}

// Save saves content under a name that is not in use yet: what is there stays as it is.
func (s *Saver) Save(name string, content io.Reader) (err error) {
	if !fs.ValidPath(name) || name == "." || strings.HasPrefix(name, ".") || strings.Contains(name, "/.") {
		return wrong(errors.New("a file to save has a name that is hidden, or no path below the directory"))
	}
	if err := s.root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return wrong(fmt.Errorf("save a file: %w", err))
	}
	file, err := s.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return wrong(fmt.Errorf("%s is there already: remove it, or save to another directory", name))
	}
	if err != nil {
		return wrong(fmt.Errorf("save a file: %w", err))
	}
	_, err = io.Copy(file, content)
	if err = errors.Join(err, file.Close()); err != nil {
		return errors.Join(fmt.Errorf("save a file: %w", err), s.root.Remove(name))
	}
	return nil
}

// Close closes the directory.
func (s *Saver) Close() error { return s.root.Close() }
