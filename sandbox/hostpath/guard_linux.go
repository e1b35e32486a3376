package hostpath

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"haft/sandbox/internal/mountinfo"
)

// Check reports, as an error with [haft.CodeDenied], that p shows something that is
// never shown: it is what the guard keeps, contains it, or lies in it.
//
// Files are compared by device and inode, so that no other name helps. A bind mount
// of a part of a file system has other directories above it than the original; so
// mounts are also compared by which part of which file system they show.
func (g Guard) Check(p *Path) error {
	mounts, err := mountinfo.Read()
	if err != nil {
		return err
	}
	kept, err := g.kept(mounts)
	if err != nil {
		return err
	}
	c := &check{mounts: mounts, kept: kept}
	return c.path(p)
}

// A keeping is one directory or file that is never shown.
type keeping struct {
	above []identity // the directories that contain it, itself first if it exists
	self  bool       // above begins with itself: what lies in it is kept too
	file  bool
	parts []part // what it is of which file system
}

// kept returns what the guard keeps, as it is now.
func (g Guard) kept(mounts mountTable) ([]keeping, error) {
	var list []keeping
	for i, name := range slices.Concat(g.Dirs, g.Files) {
		if name == "" {
			continue
		}
		k, err := keep(name, i >= len(g.Dirs), mounts)
		if err != nil {
			return nil, err
		}
		list = append(list, k)
	}
	return list, nil
}

// keep looks at one directory or file. If there is none yet, the directory in which
// it would be made counts.
func keep(name string, file bool, mounts mountTable) (keeping, error) {
	full, err := filepath.Abs(name)
	if err != nil {
		return keeping{}, fmt.Errorf("find a directory of Haft: %w", err)
	}
	k := keeping{self: true, file: file}
	for {
		// It is the operator's own path: links in it are followed.
		fd, err := unix.Open(full, unix.O_PATH|unix.O_CLOEXEC, 0)
		if errors.Is(err, unix.ENOENT) && full != "/" {
			full, k.self, k.file = filepath.Dir(full), false, false
			continue
		}
		if err != nil {
			return k, fmt.Errorf("look at a directory of Haft: %w", err)
		}
		f := os.NewFile(uintptr(fd), "kept")
		defer f.Close() // only looked at
		return k, k.look(f, mounts)
	}
}

// look fills in what k is.
func (k *keeping) look(f *os.File, mounts mountTable) error {
	st, err := statOf(int(f.Fd()))
	if err != nil {
		return err
	}
	real, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
	if err != nil {
		return fmt.Errorf("name a directory of Haft: %w", err)
	}
	k.parts = mounts.parts(st.mount, real)
	if st.mode&unix.S_IFMT == unix.S_IFDIR {
		k.above, err = above(int(f.Fd()))
		return err
	}
	k.file = true
	dir, err := unix.Open(filepath.Dir(real), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("look at a directory of Haft: %w", err)
	}
	defer func() { _ = unix.Close(dir) }() // nothing was written
	list, err := above(dir)
	k.above = append([]identity{st.id}, list...)
	return err
}

// A check is one decision.
type check struct {
	mounts mountTable
	kept   []keeping
}

// path decides about an open path.
func (c *check) path(p *Path) error {
	st, err := statOf(int(p.File.Fd()))
	if err != nil {
		return err
	}
	up := []identity{st.id}
	if p.Dir {
		up, err = above(int(p.File.Fd()))
	} else if dir, derr := Open(filepath.Dir(p.Real)); derr == nil {
		var list []identity
		list, err = above(int(dir.File.Fd()))
		up = append(up, list...)
		err = errors.Join(err, dir.File.Close())
	} else {
		err = derr
	}
	if err != nil {
		return err
	}
	for _, k := range c.kept {
		inside := k.self && slices.Contains(up, k.above[0])
		if inside || slices.Contains(k.above, st.id) {
			return denied(isOwn)
		}
	}
	if err := c.parts(c.mounts.parts(st.mount, p.Real)); err != nil {
		return err
	}
	for _, m := range c.mounts { // what comes along, because binding is recursive
		if within(m.At, p.Real) {
			if err := c.parts(c.mounts.parts(m.ID, m.At)); err != nil {
				return err
			}
		}
	}
	return nil
}

// parts decides about parts of file systems.
func (c *check) parts(list []part) error {
	for _, p := range list {
		if p.kernel {
			return denied(isKernel)
		}
		for _, k := range c.kept {
			for _, own := range k.parts {
				if own.device != p.device {
					continue
				}
				if within(own.path, p.path) || k.self && !k.file && within(p.path, own.path) {
					return denied(isOwn)
				}
			}
		}
	}
	return nil
}
