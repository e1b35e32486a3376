package workspace

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"

	"haft"
)

// The bounds of a listing or a comparison: how many entries it has, how many bytes their paths have, and how
// many entries, and bytes of their names, a directory has that it is about.
const (
	maxListed    = 10_000
	maxPaths     = 1 << 20
	maxNames     = 200_000
	maxNameBytes = 16 << 20
)

// errEnough ends a listing or a comparison that has all that fits.
var errEnough = errors.New("enough entries")

// enough counts entries of an answer.
type enough struct{ entries, paths int }

// add counts a path, and returns errEnough if that is one too many.
func (n *enough) add(at string) error {
	if n.entries, n.paths = n.entries+1, n.paths+len(at); n.entries > maxListed || n.paths > maxPaths {
		return errEnough
	}
	return nil
}

// sortedNames returns the names in a directory in their order. Nil has none.
func sortedNames(dir *os.Root) (all []string, err error) {
	if dir == nil {
		return nil, nil
	}
	size := 0
	err = names(dir, func(list []string) error {
		for _, name := range list {
			size += len(name)
		}
		if all = append(all, list...); len(all) > maxNames || size > maxNameBytes {
			return conflict("a directory has too many entries to list them")
		}
		return nil
	})
	slices.Sort(all)
	return all, err
}

// A comparison visits two trees side by side, in the order of their paths. It keeps one entry of each in
// memory, and the names of the directories above.
type comparison struct {
	// visit is told of an entry of either tree, or of both: what is not there has no info.
	visit func(before, after *os.Root, name, at string, old, now fs.FileInfo) error
}

// walk visits what is in two directories, each of which may be nil, and below.
func (c comparison) walk(ctx context.Context, before, after *os.Root, at string, depth int) error {
	if depth > maxDepth {
		return errTooDeep
	}
	x, err := sortedNames(before)
	y, other := sortedNames(after)
	if err := errors.Join(err, other); err != nil {
		return err
	}
	for len(x)+len(y) > 0 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var name string
		inX := len(y) == 0 || len(x) > 0 && x[0] <= y[0]
		inY := len(x) == 0 || len(y) > 0 && y[0] <= x[0]
		if inX {
			name, x = x[0], x[1:]
		}
		if inY {
			name, y = y[0], y[1:]
		}
		if err := c.entry(ctx, before, after, name, path.Join(at, name), depth, inX, inY); err != nil {
			return err
		}
	}
	return nil
}

// entry visits one name, and what is below.
func (c comparison) entry(ctx context.Context, before, after *os.Root, name, at string, depth int,
	inX, inY bool) error {
	if len(at) > maxPath {
		return errLongPath
	}
	old, err := lstat(before, name, inX)
	now, other := lstat(after, name, inY)
	if err := errors.Join(err, other); err != nil || old == nil && now == nil {
		return err
	}
	if err := c.visit(before, after, name, at, old, now); err != nil {
		return err
	}
	x, err := subDir(before, name, old)
	defer x.Close() // only read
	y, other := subDir(after, name, now)
	defer y.Close() // only read
	if err := errors.Join(err, other); err != nil || x.Root == nil && y.Root == nil {
		return err
	}
	return c.walk(ctx, x.Root, y.Root, at, depth+1)
}

// lstat returns what is at a name. What is gone meanwhile is not there: a tool may be running.
func lstat(dir *os.Root, name string, there bool) (fs.FileInfo, error) {
	if !there {
		return nil, nil
	}
	info, err := dir.Lstat(name)
	if err != nil {
		return nil, unlessGone(err)
	}
	return info, nil
}

// A perhapsDir is a directory, or none.
type perhapsDir struct{ *os.Root }

// Close closes the directory.
func (d perhapsDir) Close() {
	if d.Root != nil {
		_ = d.Root.Close() // only read
	}
}

// subDir opens a directory if info says that it is one.
func subDir(dir *os.Root, name string, info fs.FileInfo) (perhapsDir, error) {
	if info == nil || !info.IsDir() {
		return perhapsDir{}, nil
	}
	sub, err := openDir(dir, name)
	if err != nil {
		return perhapsDir{}, unlessGone(err)
	}
	return perhapsDir{sub}, nil
}

// listTree lists what is in a directory of a workspace and below, by path.
func listTree(ctx context.Context, files *os.Root, dir string) (*haft.WorkspaceListing, error) {
	list, n := &haft.WorkspaceListing{Entries: []haft.WorkspaceEntry{}}, enough{}
	err := comparison{func(_, _ *os.Root, _, at string, _, now fs.FileInfo) error {
		if err := n.add(at); err != nil {
			return err
		}
		list.Entries = append(list.Entries, entry(at, now))
		return nil
	}}.walk(ctx, nil, files, dir, 0)
	list.More = errors.Is(err, errEnough)
	if list.More {
		err = nil
	}
	return list, full(err)
}

// compareTrees returns the differences between two trees, by path.
func compareTrees(ctx context.Context, before, after *os.Root) (*haft.WorkspaceDiff, error) {
	d, n := &haft.WorkspaceDiff{Changes: []haft.WorkspaceChange{}}, enough{}
	err := comparison{func(before, after *os.Root, name, at string, old, now fs.FileInfo) error {
		c := haft.WorkspaceChange{Path: at, Change: "changed"}
		switch {
		case old == nil:
			c.Change = "added"
		case now == nil:
			c.Change = "removed"
		default:
			same, err := sameEntry(ctx, before, after, name, old, now)
			if err != nil || same {
				return err
			}
		}
		if old != nil {
			c.Before = entry(at, old).Size
		}
		if now != nil {
			c.After = entry(at, now).Size
		}
		if err := n.add(at); err != nil {
			return err
		}
		d.Changes = append(d.Changes, c)
		return nil
	}}.walk(ctx, before, after, "", 0)
	d.More = errors.Is(err, errEnough)
	if d.More {
		err = nil
	}
	return d, full(err)
}

// sameEntry compares what two trees have at a path by its content, and not by its time, which a tool can
// choose.
func sameEntry(ctx context.Context, before, after *os.Root, at string, old, now fs.FileInfo) (bool, error) {
	switch mode := now.Mode(); {
	case mode.Type() != old.Mode().Type() || mode.Perm() != old.Mode().Perm():
		return false, nil
	case mode&fs.ModeSymlink != 0:
		x, err := before.Readlink(at)
		y, other := after.Readlink(at)
		return x == y, errors.Join(err, other)
	case !mode.IsRegular() || now.Size() != old.Size():
		return !mode.IsRegular(), nil
	}
	f, _, err := openFile(before, at)
	if err != nil {
		return false, err
	}
	defer f.Close() // only read
	g, _, err := openFile(after, at)
	if err != nil {
		return false, err
	}
	defer g.Close() // only read
	var x, y [32 << 10]byte
	for {
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		n, err := io.ReadFull(f, x[:])
		m, other := io.ReadFull(g, y[:])
		if !bytes.Equal(x[:n], y[:m]) {
			return false, nil
		}
		if n < len(x) || m < len(y) { // the end of both, or an error
			return ended(err) && ended(other), nil
		}
	}
}

// ended reports whether reading came to the end of a file.
func ended(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }
