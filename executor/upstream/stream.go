package upstream

import (
	"errors"
	"io"
	"sync"
	"time"
)

// errFull says that a server does not read its input.
var errFull = errors.New("the server does not read what it is sent")

// An inputBuffer carries bytes to one reader through a bounded buffer. A write that does
// not fit fails. An [io.Pipe] will not do: a server that does not read would block its
// callers past every deadline.
type inputBuffer struct {
	max int

	mu     sync.Mutex
	more   sync.Cond // signalled when there is more to read, or an end
	buf    []byte
	closed bool
}

// newInputBuffer returns a buffer for max bytes.
func newInputBuffer(max int) *inputBuffer {
	b := &inputBuffer{max: max}
	b.more.L = &b.mu
	return b
}

// Write implements [io.Writer].
func (i *inputBuffer) Write(b []byte) (int, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.closed:
		return 0, io.ErrClosedPipe
	case len(i.buf)+len(b) > i.max:
		return 0, errFull
	}
	i.buf = append(i.buf, b...)
	i.more.Broadcast()
	return len(b), nil
}

// Read implements [io.Reader].
func (i *inputBuffer) Read(b []byte) (int, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for len(i.buf) == 0 {
		if i.closed {
			return 0, io.EOF
		}
		i.more.Wait()
	}
	n := copy(b, i.buf)
	if i.buf = i.buf[n:]; len(i.buf) == 0 {
		i.buf = nil // frees the memory of a large message
	}
	return n, nil
}

// Close ends both directions. Bytes that were written can still be read.
func (i *inputBuffer) Close() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.closed = true
	i.more.Broadcast()
	return nil
}

// A throttle lets its user wait when too much came within a second, so that a flood
// blocks the server that makes it.
type throttle struct {
	most int
	done <-chan struct{} // ends all waiting

	mu    sync.Mutex
	start time.Time
	used  int
	full  int // seconds in a row in which the most was reached
}

// wait counts n, waits if that is too many for this second, and returns for how many
// seconds in a row there were too many.
func (t *throttle) wait(n int) int {
	t.mu.Lock()
	now := time.Now()
	if past := now.Sub(t.start); past >= time.Second {
		if t.used < t.most || past > 2*time.Second {
			t.full = 0
		}
		t.start, t.used = now, 0
	}
	if t.used += n; t.used < t.most {
		t.mu.Unlock()
		return 0
	}
	t.full++
	full, left := t.full, time.Second-now.Sub(t.start)
	t.mu.Unlock()
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.done:
	}
	return full
}

// A stderrTail keeps the end of what a command writes to stderr, and passes all of it on.
type stderrTail struct {
	throttle *throttle
	log      func([]byte)

	mu  sync.Mutex
	buf []byte
}

// maxTail is how many bytes are kept.
const maxTail = 8 << 10

// Write implements [io.Writer].
func (t *stderrTail) Write(b []byte) (int, error) {
	t.mu.Lock()
	t.buf = append(t.buf, b...)
	if n := len(t.buf); n > maxTail {
		t.buf = append(t.buf[:0:0], t.buf[n-maxTail:]...)
	}
	t.mu.Unlock()
	t.log(b)
	t.throttle.wait(len(b))
	return len(b), nil
}

// String returns what is kept.
func (t *stderrTail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf)
}
