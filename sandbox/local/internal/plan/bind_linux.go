package plan

import (
	"errors"

	"golang.org/x/sys/unix"
)

// attach moves a detached mount to the path of s, which lies below the current directory.
// Links in the path cannot lead out of it: a mount above may be writable for a user.
func (s *Step) attach(tree int) error {
	how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	if s.Strict {
		how.Resolve |= unix.RESOLVE_NO_SYMLINKS
	}
	to, err := openat2(s.Path, how)
	if err != nil {
		return err
	}
	err = unix.MoveMount(tree, "", to, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	return errors.Join(err, unix.Close(to))
}

// bind opens the path Host without following links, makes sure that it is the file
// that is open in the slot, and mounts what it has opened: what was checked, what is
// compared and what is mounted cannot become three things.
func (s *Step) bind(slots []int) error {
	fd, err := openat2(s.Host, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	if s.Slot >= 0 {
		var a, b unix.Stat_t
		if err := errors.Join(unix.Fstat(fd, &a), unix.Fstat(slots[s.Slot], &b)); err != nil {
			return err
		}
		if a.Dev != b.Dev || a.Ino != b.Ino {
			return unix.ESTALE
		}
	}
	tree, err := unix.OpenTree(fd, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|unix.AT_EMPTY_PATH)
	if err != nil {
		return err
	}
	err = unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: s.Attr})
	if err == nil {
		err = s.attach(tree)
	}
	return errors.Join(err, unix.Close(tree))
}

// openat2 opens a path relative to the current directory.
func openat2(name string, how *unix.OpenHow) (int, error) {
	for {
		fd, err := unix.Openat2(unix.AT_FDCWD, name, how)
		if !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
			return fd, err
		}
	}
}
