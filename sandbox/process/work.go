package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"haft"
	"haft/sandbox"
	"haft/sandbox/internal/collect"
)

// maxUnlock is how deep directories are made removable.
const maxUnlock = 256

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
		return // RemoveAll reports it
	}
	for _, d := range list {
		if d.IsDir() {
			w.unlock(path.Join(dir, d.Name()), depth+1)
		}
	}
}

// collect returns the files that the command left, and says what was left out.
func (w *work) collect(given []string, limits haft.Limits) ([]haft.Artifact, []string) {
	root, err := w.root.Open(".")
	if err != nil {
		return nil, []string{"the directory cannot be opened"}
	}
	defer root.Close() // only read
	return collect.Artifacts(root, ".", given, limits.Artifacts, limits.ArtBytes)
}
