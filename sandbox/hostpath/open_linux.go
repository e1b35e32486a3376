package hostpath

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// Open opens a path without following any symbolic link, also not those of /proc. It
// returns [haft.CodeDenied] for a path with a link in it, and [haft.CodeNotFound] if
// there is nothing.
func Open(name string) (*Path, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	fd, err := openStrict(unix.AT_FDCWD, name)
	switch {
	case errors.Is(err, unix.ELOOP):
		return nil, denied(isLink)
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.EACCES):
		return nil, missing(err)
	case errors.Is(err, unix.ENOSYS):
		return nil, denied("this kernel cannot open a path without following links (openat2, Linux 5.6): nothing of " +
			"the host is mounted")
	case err != nil:
		return nil, fmt.Errorf("open a path of the host: %w", err)
	}
	return describe(os.NewFile(uintptr(fd), "path"))
}

// Read opens a regular file for reading: the one that is open, and no other.
func (p *Path) Read() (*os.File, error) { return os.Open(fmt.Sprintf("/proc/self/fd/%d", p.File.Fd())) }

// openStrict is openat2 without links.
func openStrict(at int, name string) (int, error) {
	how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS}
	for {
		fd, err := unix.Openat2(at, name, how)
		if !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
			return fd, err
		}
	}
}

// describe finds out what f is, and closes it if it may not be shown.
func describe(f *os.File) (_ *Path, err error) {
	defer func() {
		if err != nil {
			_ = f.Close() // nothing was written
		}
	}()
	st, err := statOf(int(f.Fd()))
	if err != nil {
		return nil, err
	}
	p := &Path{File: f, Dir: st.mode&unix.S_IFMT == unix.S_IFDIR}
	if !p.Dir && st.mode&unix.S_IFMT != unix.S_IFREG {
		return nil, denied(isOdd)
	}
	p.Shared = !p.Dir && st.links > 1
	if p.Real, err = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd())); err != nil {
		return nil, fmt.Errorf("name an open path: %w", err)
	}
	// The kernel adds " (deleted)" to a name that is gone, and writes "(unreachable)"
	// before one that is outside of our root: neither leads back to the same file.
	fd, err := openStrict(unix.AT_FDCWD, p.Real)
	if err != nil {
		return nil, denied(hasMoved)
	}
	again, err := statOf(fd)
	if err := errors.Join(err, unix.Close(fd)); err != nil {
		return nil, fmt.Errorf("look at an open path again: %w", err)
	}
	if again.id != st.id {
		return nil, denied(hasMoved)
	}
	return p, nil
}

// An identity is what a file is, whatever its name.
type identity struct {
	major, minor uint32
	ino          uint64
}

// stat is what is looked at of a file.
type stat struct {
	id    identity
	mount uint64 // the id of its mount, as in mountinfo
	mode  uint16
	links uint32
}

// statOf looks at an open file.
func statOf(fd int) (stat, error) {
	var x unix.Statx_t
	const want = unix.STATX_TYPE | unix.STATX_MODE | unix.STATX_NLINK | unix.STATX_INO | unix.STATX_MNT_ID
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, want, &x)
	if err != nil {
		return stat{}, fmt.Errorf("statx: %w", err)
	}
	if x.Mask&unix.STATX_MNT_ID == 0 { // Linux 5.8
		return stat{},
			denied("this kernel does not say on which mount a file is (statx, Linux 5.8): nothing of the host is " +
				"mounted")
	}
	return stat{identity{x.Dev_major, x.Dev_minor, x.Ino}, x.Mnt_id, x.Mode, x.Nlink}, nil
}

// maxDepth bounds a walk to the root: a path has at most 4096 bytes.
const maxDepth = 2048

// above returns what an open directory is and what all directories above it are, up
// to the root, through the mounts that it is seen by.
func above(fd int) ([]identity, error) {
	at, err := openDir(fd, ".")
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(at) }() // nothing was written
	var list []identity
	for last := (stat{}); len(list) < maxDepth; {
		st, err := statOf(at)
		if err != nil {
			return nil, err
		}
		if st.id == last.id && st.mount == last.mount { // the root is its own parent
			return list, nil
		}
		list, last = append(list, st.id), st
		up, err := openDir(at, "..")
		if err != nil {
			return nil, err
		}
		if err := unix.Close(at); err != nil {
			return nil, errors.Join(fmt.Errorf("close a directory: %w", err), unix.Close(up))
		}
		at = up
	}
	return nil, denied("the path is too deep")
}

// openDir opens a directory by a name that is no link.
func openDir(at int, name string) (int, error) {
	fd, err := unix.Openat(at, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open a directory: %w", err)
	}
	return fd, nil
}

// maxLinks is how many links a path may have, as for the kernel.
const maxLinks = 40

// Follow opens a path that may lead through symbolic links, such as that of a program of
// the system, and returns the directories in which the links are: a user who can write
// there can choose what is opened.
func Follow(name string) (_ *Path, linkDirs []string, err error) {
	if err := CheckName(name); err != nil {
		return nil, nil, err
	}
	at, rest := "/", strings.Split(name[1:], "/")
	for len(rest) > 0 {
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			at = path.Dir(at)
			continue
		}
		target, err := os.Readlink(path.Join(at, part))
		if err != nil { // not a link, or nothing: opening it reports that
			at = path.Join(at, part)
			continue
		}
		if linkDirs = append(linkDirs, at); len(linkDirs) > maxLinks || len(target) > 4096 {
			return nil, nil, denied(isLink)
		}
		if path.IsAbs(target) {
			at = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	// No part of at was a link when it was read. If one is now, this refuses.
	p, err := Open(at)
	return p, linkDirs, err
}
