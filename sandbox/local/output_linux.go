package local

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// An outputReader copies the output of a command to a writer, up to a limit. Beyond it,
// it goes on reading, so that the command does not block, and counts.
type outputReader struct {
	f     *os.File
	w     io.Writer
	limit int64
	// onFlood is called, once, when far more came than will be kept.
	onFlood func()
	done    chan struct{}

	mu      sync.Mutex // held while something is read and passed on
	total   int64      // came
	kept    int64      // given to w
	stopped bool       // nothing counts any more
}

// floodFactor and floodLeast say when output is a flood: that many times the
// limit, and no less than that many bytes. A pipe fills them in a fraction of a
// second; an honest program that prints too much can finish.
const (
	floodFactor = 16
	floodLeast  = 64 << 20
)

// buffers are borrowed only while there is something to read: an idle sandbox
// holds none.
var buffers = sync.Pool{New: func() any { b := make([]byte, 64<<10); return &b }}

// startOutputReader makes a pipe and starts to read it. The other end is for the command.
func startOutputReader(w io.Writer, limit int64, flooded func()) (*outputReader, *os.File, error) {
	r, far, err := pipe()
	if err != nil {
		return nil, nil, err
	}
	p := &outputReader{f: r, w: w, limit: limit, onFlood: flooded, done: make(chan struct{})}
	go p.run()
	return p, far, nil
}

// pipe makes a pipe whose first end is ours.
func pipe() (ours, theirs *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("make pipe: %w", err)
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("make pipe: %w", err), unix.Close(fds[0]), unix.Close(fds[1]))
	}
	return os.NewFile(uintptr(fds[0]), "pipe"), os.NewFile(uintptr(fds[1]), "pipe"), nil
}

// run reads until the end, or until drain says that nothing more can come.
func (p *outputReader) run() {
	defer close(p.done)
	raw, err := p.f.SyscallConn()
	if err != nil {
		return
	}
	for {
		more := false
		err := raw.Read(func(fd uintptr) (ready bool) { ready, more = p.read(int(fd)); return ready })
		if errors.Is(err, os.ErrDeadlineExceeded) {
			for more = true; more; {
				ready := false
				if raw.Control(func(fd uintptr) { ready, more = p.read(int(fd)) }) != nil || !ready {
					return
				}
			}
			return
		}
		if err != nil || !more {
			return
		}
	}
}

// read reads once. It reports whether there was anything to read, the end
// included, and whether more may come.
func (p *outputReader) read(fd int) (ready, more bool) {
	b := buffers.Get().(*[]byte)
	defer buffers.Put(b)
	p.mu.Lock()
	defer p.mu.Unlock()
	n, err := unix.Read(fd, *b)
	switch {
	case errors.Is(err, unix.EAGAIN):
		return false, true
	case errors.Is(err, unix.EINTR):
		return true, true
	case err != nil || n == 0:
		return true, false
	}
	p.take((*b)[:n])
	return true, true
}

// take passes b on, or what of it is within the limit. Preconditions: mu is held.
func (p *outputReader) take(b []byte) {
	if p.stopped {
		return
	}
	flood := max(p.limit*floodFactor, floodLeast)
	if p.total < flood && p.total+int64(len(b)) >= flood {
		p.onFlood()
	}
	p.total += int64(len(b))
	keep := b[:min(int64(len(b)), max(p.limit-p.kept, 0))]
	if len(keep) == 0 {
		return
	}
	if p.w == nil {
		p.kept += int64(len(keep))
		return
	}
	n, err := p.w.Write(keep)
	p.kept += int64(n)
	if err != nil {
		p.limit = 0 // the writer takes no more; further output is counted as dropped
	}
}

// stopIfEmpty stops the reader if nothing is in the pipe and nothing is being passed on,
// and reports whether it did. It does not wait.
func (p *outputReader) stopIfEmpty() bool {
	raw, err := p.f.SyscallConn()
	if err != nil || !p.mu.TryLock() {
		return false
	}
	defer p.mu.Unlock()
	if err := raw.Control(func(fd uintptr) {
		n, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ)
		p.stopped = err == nil && n == 0
	}); err != nil {
		return false
	}
	return p.stopped
}

// drain takes what is in the pipe at this moment, and ends.
func (p *outputReader) drain() {
	_ = p.f.SetReadDeadline(time.Unix(1, 0)) // fails only if it is closed, and then run has ended
	<-p.done
}

// close drains and gives the descriptor back.
func (p *outputReader) close() {
	p.drain()
	_ = p.f.Close() // only read
}

// serialised returns writers that are not called at the same time if both are the same.
func serialised(out, errs io.Writer) (io.Writer, io.Writer) {
	same := func() (same bool) {
		defer func() { _ = recover() }() // types that cannot be compared are not the same
		return out != nil && out == errs
	}
	if !same() {
		return out, errs
	}
	w := &lockedWriter{w: out}
	return w, w
}

// A lockedWriter is written to by two output readers.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

// Write implements io.Writer.
func (l *lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

// A feeder carries a reader to the standard input of a command.
type feeder struct {
	from io.Reader // nil is an empty input
	near *os.File
}

// openFeeder makes the pipe for standard input. Nothing is read until start.
func openFeeder(r io.Reader) (*feeder, *os.File, error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("make pipe: %w", err)
	}
	far := os.NewFile(uintptr(fds[0]), "stdin")
	if r == nil {
		return &feeder{}, far, unix.Close(fds[1])
	}
	if err := unix.SetNonblock(fds[1], true); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("make pipe: %w", err), unix.Close(fds[0]), unix.Close(fds[1]))
	}
	return &feeder{r, os.NewFile(uintptr(fds[1]), "stdin")}, far, nil
}

// start begins to feed the command.
func (f *feeder) start() {
	if f.from == nil {
		return
	}
	go func() {
		_, _ = io.Copy(f.near, f.from) // a command need not read its input
		_ = f.near.Close()             // so that it sees the end
	}()
}

// close ends the input. It does not wait for a reader that blocks, which cannot be
// interrupted: its goroutine ends with its next read.
func (f *feeder) close() {
	if f.near != nil {
		_ = f.near.Close() // closing twice does no harm
	}
}
