package tooltest

import (
	"context"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"haft/internal/pause"
	"haft/internal/toolfile"
)

// lookEvery is how often watched directories are read. One that takes long to read is read less often, so that
// watching costs a tenth of a processor at most.
const lookEvery = 250 * time.Millisecond

// maxWatched bounds how many files are watched.
const maxWatched = 20_000

// stamp says whether a file has changed.
type stamp struct {
	size     int64
	modified time.Time
}

// watch calls run with all test files of names, and then with those that a change is about, until ctx ends. Editors
// write a file in several steps, so that a change counts when two looks agree on it.
func watch(ctx context.Context, names []string, run func(paths []string)) error {
	seen, last := map[string]stamp{}, map[string]stamp{}
	for first := true; ; first = false {
		begin := time.Now()
		now := look(names)
		looked := time.Since(begin)
		if maps.Equal(now, last) || first {
			paths, err := Find(names)
			if err != nil {
				return err
			}
			if !first {
				paths = affected(paths, changes(seen, now))
			}
			if seen = now; len(paths) > 0 {
				run(paths)
			}
		}
		last = now
		if pause.For(ctx, max(lookEvery, 10*looked)) != nil {
			return nil //nolint:nilerr // the person leaves
		}
	}
}

// look reads the state of all files below names, and beside those that are files.
func look(names []string) map[string]stamp {
	found := map[string]stamp{}
	for _, name := range names {
		if !toolfile.IsDir(name) {
			name = filepath.Dir(name)
		}
		_ = filepath.WalkDir(name, func(path string, d fs.DirEntry, err error) error { // what is gone is a change
			base := filepath.Base(path)
			switch {
			case err != nil || len(found) >= maxWatched:
				return nil
			case path != name && (strings.HasPrefix(base, ".") || base == "node_modules" || base == "__pycache__"):
				if d.IsDir() {
					return filepath.SkipDir
				}
				return nil
			}
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
				found[path] = stamp{info.Size(), info.ModTime()}
			}
			return nil
		})
	}
	return found
}

// changes returns the files that are new, changed or gone.
func changes(before, now map[string]stamp) []string {
	var list []string
	for path, s := range now {
		if before[path] != s {
			list = append(list, path)
		}
	}
	for path := range before {
		if _, ok := now[path]; !ok {
			list = append(list, path)
		}
	}
	return list
}

// affected returns the test files that are among the changes, and those with another change in their directory or
// below it.
func affected(paths, changed []string) []string {
	return slices.DeleteFunc(paths, func(path string) bool {
		dir := filepath.Dir(path) + string(filepath.Separator)
		return !slices.ContainsFunc(changed, func(c string) bool {
			return c == path || !IsTestFile(c) && (strings.HasPrefix(c, dir) || filepath.Dir(path) == ".")
		})
	})
}
