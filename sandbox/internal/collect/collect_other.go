//go:build !linux

package collect

import (
	"strings"

	"golang.org/x/sys/unix"
)

// lookOnly opens a file to look at it. With O_NONBLOCK, a pipe does not block.
const lookOnly = unix.O_RDONLY

// openBeneath opens a path that leads through no link, one directory after the other.
func openBeneath(dir int, name string, flags int) (int, error) {
	const always = unix.O_CLOEXEC | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY
	first, rest, more := strings.Cut(name, "/")
	if !more {
		return unix.Openat(dir, name, flags|always, 0)
	}
	fd, err := unix.Openat(dir, first, unix.O_RDONLY|unix.O_DIRECTORY|always, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fd) // only looked at
	return openBeneath(fd, rest, flags)
}
