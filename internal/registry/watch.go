package registry

import (
	"context"
	"reflect"
	"slices"
	"time"

	"haft"
)

// pollEvery is how often a watched directory is read. A directory that takes long to read is
// read less often, so that watching costs a tenth of a processor at most.
const pollEvery = 250 * time.Millisecond

// Watch reads a directory of tools, gives report all that it found, and from then on the
// files that are new or changed, and the paths of those that are gone, until ctx ends. It is
// meant for development. It returns nil when ctx ends, and never calls report after that.
//
// Editors write a file in several steps, so a change is reported when two reads in a row
// agree on it.
func Watch(ctx context.Context, dir string, report func(changed []Found, gone []string)) error {
	reported, last := map[string]Found{}, map[string]Found{}
	for first := true; ; first = false {
		start := time.Now()
		found, err := ReadDir(dir)
		if err != nil {
			return err
		}
		var changed []Found
		now := make(map[string]Found, len(found))
		for _, f := range found {
			now[f.Path] = f
			if (first || sameFile(last, f)) && !sameFile(reported, f) {
				reported[f.Path] = f
				changed = append(changed, f)
			}
		}
		gone := missing(reported, now, last)
		last = now
		took := time.Since(start)
		if (first || len(changed)+len(gone) > 0) && ctx.Err() == nil {
			report(changed, gone)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(max(pollEvery, 10*took)):
		}
	}
}

// missing takes the files that neither of two reads has from those that were reported, and returns
// their paths in order.
func missing(reported, now, last map[string]Found) []string {
	var gone []string
	for path := range reported {
		_, here := now[path]
		if _, before := last[path]; !here && !before {
			gone = append(gone, path)
		}
	}
	for _, path := range gone {
		delete(reported, path)
	}
	slices.Sort(gone)
	return gone
}

// sameFile reports whether f is as it is in files.
func sameFile(files map[string]Found, f Found) bool {
	old, ok := files[f.Path]
	return ok && reflect.DeepEqual(old.Draft, f.Draft) && haft.MessageOf(old.Err) == haft.MessageOf(f.Err)
}
