package local

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"haft/sandbox/local/internal/initimage"
)

// self is the path of this program, whose first line is [Init].
const self = "/proc/self/exe"

// image returns a descriptor of the program that is the init, if it was built in,
// or nil if Haft is its own. It is in memory and sealed, so that nobody can write
// to it: a container that could overwrite the program of its runtime was
// CVE-2019-5736.
func image() (*os.File, error) {
	program := initimage.Bytes()
	if program == nil {
		return nil, nil
	}
	fd, err := unix.MemfdCreate("haft-init", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("make the init's image: %w", err)
	}
	w := os.NewFile(uintptr(fd), "haft-init")
	defer w.Close() // sealed; a program that is open for writing cannot be run (ETXTBSY)
	populate(program)
	if _, err := w.Write(program); err != nil {
		return nil, fmt.Errorf("write the init's image: %w", err)
	}
	const seals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	if _, err := unix.FcntlInt(w.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		return nil, fmt.Errorf("seal the init's image: %w", err)
	}
	r, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open the init's image: %w", err)
	}
	defer unix.Close(r) // only to be copied
	// Above the descriptors that an init is given.
	high, err := unix.FcntlInt(uintptr(r), unix.F_DUPFD_CLOEXEC, 64)
	if err != nil {
		return nil, fmt.Errorf("move the init's image: %w", err)
	}
	return os.NewFile(uintptr(high), "haft-init"), nil
}

// populate has the kernel map b, which is a part of this program's file, in one go:
// copying it would else take a fault for every sixteen pages. It is only faster.
func populate(b []byte) {
	page := uintptr(os.Getpagesize())
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) % page)
	if skip < len(b) {
		_ = unix.Madvise(b[skip:], unix.MADV_POPULATE_READ) // Linux 5.14
	}
}
