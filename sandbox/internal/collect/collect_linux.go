package collect

import (
	"errors"
	"os"

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

// Any reports whether there is anything in the directory sub of dir, or may be.
func Any(dir *os.File, sub string) bool {
	fd, err := openBeneath(int(dir.Fd()), sub, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return !errors.Is(err, unix.ENOENT)
	}
	defer unix.Close(fd) // only read
	buf := make([]byte, 4096)
	n, err := unix.ReadDirent(fd, buf)
	if err != nil {
		return true
	}
	_, count, _ := unix.ParseDirent(buf[:n], 1, nil)
	return count > 0
}
