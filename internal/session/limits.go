package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"haft/executor"
	"haft/internal/secret"
)

// ErrCPU is the cause of stopping a call that used more processor time than it may.
var ErrCPU = errors.New("the processor time of the call")

// cpuPace is how often the processor time of a session is read while a call runs.
const cpuPace = 100 * time.Millisecond

// LimitCPU returns a context that ends with [ErrCPU] when the session has used more processor time
// than limit, and a function that ends the watch and returns how much was used. What calls beside
// this one and what earlier ones left running use counts too. Where the processor time of a
// session is not known, there is no limit but that of the session.
func (s *Session) LimitCPU(ctx context.Context, limit time.Duration) (context.Context, func() time.Duration) {
	base := s.cell.CPU()
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(cpuPace)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			if s.cell.CPU()-base > limit {
				cancel(ErrCPU)
			}
		}
	}()
	return ctx, func() time.Duration {
		cancel(nil)
		<-done
		return max(s.cell.CPU()-base, 0)
	}
}

// learn takes over what removes the secrets of a call. Its environment is that of all calls of
// the session, see rulesOf.
func (s *Session) learn(req executor.Request) {
	exposed := false
	for k, v := range req.Env {
		if _, bound := req.Bound[k]; !bound && !strings.HasPrefix(k, "HAFT_") &&
			(req.Redactor == nil || req.Redactor.Text(v) != v || len(req.Redactor.Skipped()) > 0) {
			exposed = true
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.exposed = s.exposed || exposed; req.Redactor != nil {
		s.redactor = req.Redactor
	}
}

// Exposed reports whether code of the session could see secrets.
func (s *Session) Exposed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.exposed
}

// cleaner returns what removes the secrets of the session. It may be nil.
func (s *Session) cleaner() *secret.Redactor {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.redactor
}

// CleanText returns a text of the session without secrets.
func (s *Session) CleanText(text string) string {
	if r := s.cleaner(); r != nil {
		return r.Text(text)
	}
	return text
}

// Clean returns what r has without secrets of the session. The caller closes it.
func (s *Session) Clean(r io.ReadCloser) io.ReadCloser {
	by := s.cleaner()
	if by == nil {
		return r
	}
	c := &cleanReader{from: r, piece: make([]byte, window/4)}
	c.stream = by.NewStream(func(b []byte) { c.ready = append(c.ready, b...) })
	return c
}

// A cleanReader reads a file without the secrets in it.
type cleanReader struct {
	from   io.ReadCloser
	stream *secret.Stream
	piece  []byte
	ready  []byte
	err    error
}

// Read implements [io.Reader].
func (c *cleanReader) Read(b []byte) (int, error) {
	for len(c.ready) == 0 && c.err == nil {
		n, err := c.from.Read(c.piece)
		if _, wrote := c.stream.Write(c.piece[:n]); wrote != nil {
			return 0, fmt.Errorf("remove secrets from a file: %w", wrote)
		}
		if err == nil {
			continue
		}
		if c.err = err; errors.Is(err, io.EOF) {
			if err := c.stream.Close(); err != nil {
				c.err = fmt.Errorf("remove secrets from a file: %w", err)
			}
		}
	}
	n := copy(b, c.ready)
	if c.ready = c.ready[n:]; n == 0 {
		return 0, c.err
	}
	return n, nil
}

// Close implements [io.Closer].
func (c *cleanReader) Close() error { return c.from.Close() }
