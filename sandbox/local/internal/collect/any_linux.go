package collect

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

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
