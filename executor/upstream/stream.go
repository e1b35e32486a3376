package upstream

import (
	"errors"
	"io"
	"sync"
	"time"
)

// errFull is the end of a stream whose reader does not read.
var errFull = errors.New("the server does not read what it is sent")

// A stream carries bytes from writers to one reader through a bounded buffer.
// Neither end of an [io.Pipe] would do: a server that does not read would block
// whoever calls it, past every deadline.
type stream struct {
	max  int
	wait bool // writers wait for room; else they fail

	mu     sync.Mutex
	more   sync.Cond // signalled when there is more to read, more room, or an end
	buf    []byte
	closed bool
}

// newStream makes one with room for max bytes.
func newStream(max int, wait bool) *stream {
	s := &stream{max: max, wait: wait}
	s.more.L = &s.mu
	return s
}

// Write implements [io.Writer].
func (s *stream) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for len(b) > 0 {
		for s.wait && !s.closed && len(s.buf) >= s.max {
			s.more.Wait()
		}
		if s.closed {
			return n, io.ErrClosedPipe
		}
		room := s.max - len(s.buf)
		if !s.wait && room < len(b) {
			return n, errFull
		}
		k := min(len(b), room)
		s.buf = append(s.buf, b[:k]...)
		b, n = b[k:], n+k
		s.more.Broadcast()
	}
	return n, nil
}

// Read implements [io.Reader].
func (s *stream) Read(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.buf) == 0 {
		if s.closed {
			return 0, io.EOF
		}
		s.more.Wait()
	}
	n := copy(b, s.buf)
	if s.buf = s.buf[n:]; len(s.buf) == 0 {
		s.buf = nil // what one large message took is not kept
	}
	s.more.Broadcast()
	return n, nil
}

// Close ends both directions: what was written can still be read.
func (s *stream) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.more.Broadcast()
	return nil
}

// A pace lets so much through in a second and then has its user wait, so that a
// flood blocks the one who makes it.
type pace struct {
	most int
	done <-chan struct{} // ends all waiting

	mu    sync.Mutex
	start time.Time
	used  int
	full  int // seconds in a row that were used up
}

// take counts n, waits if that is too many, and returns for how many seconds in a
// row it has been too many.
func (p *pace) take(n int) int {
	p.mu.Lock()
	now := time.Now()
	if past := now.Sub(p.start); past >= time.Second {
		if p.used < p.most || past > 2*time.Second {
			p.full = 0
		}
		p.start, p.used = now, 0
	}
	p.used += n
	over, left, full := p.used >= p.most, time.Second-now.Sub(p.start), 0
	if over {
		p.full++
		full = p.full
	}
	p.mu.Unlock()
	if over {
		t := time.NewTimer(left)
		defer t.Stop()
		select {
		case <-t.C:
		case <-p.done:
		}
	}
	return full
}

// A tail keeps the last of what a command says on stderr, and hands all of it to
// whoever listens.
type tail struct {
	pace *pace

	mu   sync.Mutex
	buf  []byte
	hear func([]byte)
}

// maxTail is how much of it is kept.
const maxTail = 8 << 10

// Write implements [io.Writer].
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	t.buf = append(t.buf, b...)
	if n := len(t.buf); n > maxTail {
		t.buf = append(t.buf[:0:0], t.buf[n-maxTail:]...)
	}
	hear := t.hear
	t.mu.Unlock()
	if hear != nil {
		hear(b)
	}
	t.pace.take(len(b))
	return len(b), nil
}

// String returns what is kept.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf)
}
