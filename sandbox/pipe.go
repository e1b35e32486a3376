package sandbox

import (
	"errors"
	"io"
	"os"
	"syscall"
)

// maxLate bounds what is read of a pipe after its deadline: more than the buffer of one holds.
const maxLate = 1 << 20

// A Pipe is read by one goroutine, and a command writes to it. A deadline ends waiting, but not
// reading: what the command wrote before its end is there, however late this process gets to
// read it.
type Pipe struct {
	*os.File
	late int // bytes that were read after the deadline
}

// NewPipe returns a Pipe that reads f.
func NewPipe(f *os.File) *Pipe { return &Pipe{File: f} }

// Read implements [io.Reader].
func (p *Pipe) Read(b []byte) (int, error) {
	n, err := p.File.Read(b)
	if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) || len(b) == 0 || p.late >= maxLate {
		return n, err
	}
	raw, failed := p.SyscallConn()
	if failed != nil {
		return 0, err
	}
	if failed := raw.Control(func(fd uintptr) { n, err = readNow(int(fd), b, err) }); failed != nil {
		return 0, err
	}
	p.late += n
	return n, err
}

// readNow reads what is there. The error is timeout if there is nothing.
func readNow(fd int, b []byte, timeout error) (int, error) {
	for {
		n, err := syscall.Read(fd, b)
		switch {
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EAGAIN):
			return 0, timeout
		case err != nil:
			return 0, os.NewSyscallError("read", err)
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}
