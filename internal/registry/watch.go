package registry

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"haft"
)

// settle is how long a directory must be quiet before it is read. Editors write a
// file in several steps.
const settle = 150 * time.Millisecond

// maxWatched bounds the directories that are watched. The kernel has a bound of
// its own for all programs of a user (fs.inotify.max_user_watches).
const maxWatched = 2000

// Watch reads a directory of tools, gives tell all that it found, and from then on
// what is new or changed, until ctx ends. It is meant for development: a file that
// is removed is not told about. It returns nil when ctx ends, and tell is never
// called after that.
func Watch(ctx context.Context, dir string, tell func([]Found)) error {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch a directory: %w", err)
	}
	defer func() { _ = w.Close() }() // nothing is lost with it
	known := map[string]Found{}
	// Watches come first, so that no change falls between reading and watching.
	if err := addAll(w, dir); err != nil {
		return err
	}
	if err := news(dir, known, tell); err != nil {
		return err
	}
	quiet := time.NewTimer(settle)
	quiet.Stop()
	defer quiet.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, ok := <-w.Events:
			if !ok {
				return fmt.Errorf("watch a directory: %w", fsnotify.ErrClosed)
			}
			if e.Op != fsnotify.Chmod {
				quiet.Reset(settle)
			}
		case err, ok := <-w.Errors:
			if !ok {
				return fmt.Errorf("watch a directory: %w", fsnotify.ErrClosed)
			}
			// Events were lost; reading everything again makes up for it.
			if err != nil {
				quiet.Reset(settle)
			}
		case <-quiet.C:
			if ctx.Err() != nil {
				return nil
			}
			if err := addAll(w, dir); err != nil {
				return err
			}
			if err := news(dir, known, tell); err != nil {
				return err
			}
		}
	}
}

// news reads the directory and tells what differs from what is known.
func news(dir string, known map[string]Found, tell func([]Found)) error {
	found, err := ReadDir(dir)
	if err != nil {
		return err
	}
	var changed []Found
	there := make(map[string]bool, len(found))
	for _, f := range found {
		there[f.Path] = true
		if old, ok := known[f.Path]; !ok || !reflect.DeepEqual(old.Draft, f.Draft) ||
			haft.MessageOf(old.Err) != haft.MessageOf(f.Err) {
			known[f.Path] = f
			changed = append(changed, f)
		}
	}
	for name := range known {
		if !there[name] {
			delete(known, name)
		}
	}
	if len(changed) > 0 {
		tell(changed)
	}
	return nil
}

// addAll watches a directory and those below that can hold tools. Watching one
// twice is the same as once.
func addAll(w *fsnotify.Watcher, dir string) error {
	n := 0
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil && name == dir:
			return err
		case err != nil:
			return nil // it is gone again, or not for us
		case !d.IsDir() && name != dir:
			return nil
		case name != dir && (skipDir(d.Name()) || depth(dir, name) > maxDirLevels):
			return fs.SkipDir
		}
		if n++; n > maxWatched {
			return &haft.Error{Code: haft.CodeInvalid,
				Message: fmt.Sprintf("there are more than %d directories to watch", maxWatched)}
		}
		if err := w.Add(name); err != nil && (name == dir || !errors.Is(err, fs.ErrNotExist)) {
			return err
		}
		return nil
	})
	if err != nil {
		return dirError(err)
	}
	return nil
}

// depth counts the directories between dir and name.
func depth(dir, name string) int {
	rel, err := filepath.Rel(dir, name)
	if err != nil {
		return 0
	}
	return strings.Count(rel, string(os.PathSeparator)) + 1
}
