package collect

import (
	"errors"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"
)

// lookOnly opens a file without effects, even if it is a device or a pipe.
const lookOnly = unix.O_PATH

// openBeneath opens a path that must lead nowhere else: not through a link, not
// into another mount, not to a device that would do something on open.
func openBeneath(dir int, name string, flags int) (int, error) {
	if flags&unix.O_PATH == 0 { // which takes no other flags
		flags |= unix.O_NONBLOCK | unix.O_NOCTTY
	}
	for {
		fd, err := unix.Openat2(dir, name, &unix.OpenHow{
			Flags: uint64(flags) | unix.O_CLOEXEC | unix.O_NOFOLLOW,
			Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS |
				unix.RESOLVE_NO_XDEV,
		})
		if err != unix.EINTR && err != unix.EAGAIN { // EAGAIN: a rename raced
			return fd, err
		}
	}
}

// Disk is how full the private directories are.
type Disk struct {
	Bytes                 int64
	BytesFull, InodesFull bool
}

// Usage asks the file system of dir.
func Usage(dir *os.File) Disk {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(dir.Fd()), &st); err != nil {
		return Disk{} // nothing is known
	}
	size, free := int64(st.Blocks)*st.Bsize, int64(st.Bfree)*st.Bsize
	return Disk{
		Bytes: size - free,
		// A write that fails halfway leaves less than it asked for, rarely none.
		BytesFull:  free < max(size/64, 64<<10) && size > 0,
		InodesFull: st.Files > 0 && st.Ffree == 0,
	}
}

// Any reports whether [Artifacts] could find something in the directory work of dir.
func Any(dir *os.File, work string, given []string) bool {
	names, all := list(dir, work)
	for _, n := range names {
		if n != out && !isCache(n) && !slices.Contains(given, n) {
			return true
		}
	}
	left, allLeft := list(dir, path.Join(work, out))
	return !all || !allLeft || len(left) > 0
}

// list returns names in the directory sub of dir, and whether these are all.
func list(dir *os.File, sub string) (names []string, all bool) {
	fd, err := openBeneath(int(dir.Fd()), sub, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, errors.Is(err, unix.ENOENT)
	}
	defer unix.Close(fd) // only read
	buf := make([]byte, 4096)
	n, err := unix.ReadDirent(fd, buf)
	if err != nil {
		return nil, false
	}
	_, _, names = unix.ParseDirent(buf[:n], -1, nil)
	return names, n < len(buf)/2 // a larger answer could be a part
}
