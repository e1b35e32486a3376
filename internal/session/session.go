package session

import (
	"context"
	"net"
	"slices"
	"sync"
	"time"

	"haft"
	"haft/executor"
	"haft/internal/secret"
	"haft/sandbox"
	"haft/sandbox/cell"
)

// A Session is a sandbox that lives for many commands. It is safe for concurrent use.
type Session struct {
	info   haft.Session
	owner  haft.Principal
	rules  string // what confines it
	wanted string // the sandbox that its first call named, or ""
	cell   *cell.Cell
	ch     *channel
	ctx    context.Context // ends with the session
	cancel context.CancelCauseFunc
	gone   chan struct{} // closed when nothing of it runs any more

	making   timedMutex // guards contexts and named, and is held while one is made
	contexts map[string]*codeContext
	named    int

	mu    sync.Mutex
	inUse int
	used  time.Time
	idle  *time.Timer // nil once the session has ended
	ttl   *time.Timer
	// redactor removes the secrets of the last call, whose environment all calls had. exposed
	// says that code could see some.
	redactor *secret.Redactor
	exposed  bool
	origins  []string // see NoteOrigins

	made haft.Call // the call that made it, with its workspace; it does not change
	due  bool      // for a review; see [subject]

	egressMu sync.Mutex
	serves   []*egress
}

// egress is how the connections of one command leave the session.
type egress struct {
	serve  func(context.Context, net.Conn)
	ctx    context.Context // ends with the command
	cancel context.CancelFunc
	open   sync.WaitGroup
}

// newSession makes a session of a cell whose agent is ready. The session releases its workspace when nothing of it
// runs any more.
func newSession(info haft.Session, req executor.Request, c *cell.Cell, mounted *executor.Mounted) *Session {
	s := &Session{info: info, owner: req.Principal, rules: rulesOf(req), wanted: req.Sandbox, cell: c,
		made: madeBy(req), contexts: map[string]*codeContext{}, making: make(timedMutex, 1), used: time.Now(),
		gone: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	s.ch = newChannel(c.Conn, func(error) {
		select { // the sandbox knows better why
		case <-c.Ended():
			s.end(endOf(c.Exit()))
		case <-time.After(endWait):
			s.end("its agent has ended")
		}
	})
	c.ServeEgress(s.serveConn)
	s.mu.Lock() // a timer may fire at once
	defer s.mu.Unlock()
	if w := s.made.Workspace; w != nil {
		s.origins = append([]string{w.Name}, w.Origins...)
		s.info.Workspace = &haft.SessionWorkspace{Name: w.Name, ReadOnly: w.ReadOnly}
		context.AfterFunc(mounted.Watch, func() { s.end(context.Cause(mounted.Watch).Error()) })
	}
	s.idle = time.AfterFunc(info.IdleTimeout.D(), s.idled)
	s.ttl = time.AfterFunc(time.Until(info.Expires), func() { s.end("its time was over") })
	go func() {
		defer close(s.gone)
		s.ch.serve()
		<-c.Ended()
		mounted.Release()
	}()
	go func() {
		<-c.Ended()
		exit, err := c.Exit()
		s.end(endOf(exit, err))
	}()
	return s
}

// endWait is how long the end of a sandbox may be later than that of its channel.
const endWait = 200 * time.Millisecond

// endOf says why a sandbox has ended by itself.
func endOf(exit sandbox.Exit, err error) string {
	switch {
	case err != nil:
		return "its sandbox could not go on"
	case exit.Cause == sandbox.CauseLimit:
		return "it reached its limit " + string(exit.Limit)
	}
	return "its agent has ended"
}

// end ends the session, once.
func (s *Session) end(why string) {
	s.mu.Lock()
	over := s.idle == nil
	if !over {
		s.idle.Stop()
		s.ttl.Stop()
		s.idle = nil
	}
	s.mu.Unlock()
	if over {
		return
	}
	s.cancel(ended(why))
	s.cell.Release(false)
}

// Close ends the session and waits until nothing of it runs.
func (s *Session) Close(why string) {
	s.end(why)
	<-s.gone
}

// why returns the error of a request, or why the session has ended.
func (s *Session) why(err error) error {
	if err != nil && s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	return err
}

// use notes that the session is in use until end is called.
func (s *Session) use() (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inUse++
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.inUse--
		if s.used = time.Now(); s.inUse == 0 && s.idle != nil {
			s.idle.Reset(s.info.IdleTimeout.D())
		}
	})
}

// idled ends the session if it is not in use.
func (s *Session) idled() {
	s.mu.Lock()
	idle := s.info.IdleTimeout.D()
	unused := s.inUse == 0 && time.Since(s.used) >= idle
	if !unused && s.idle != nil {
		s.idle.Reset(idle)
	}
	s.mu.Unlock()
	if unused {
		s.end("it was not used for " + idle.String())
	}
}

// Info describes the session.
func (s *Session) Info() haft.Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	info := s.info
	info.Used, info.Busy = s.used, s.inUse > 0
	return info
}

// Ended returns a channel that is closed when the session has ended. Why says the reason
// then.
func (s *Session) Ended() <-chan struct{} { return s.ctx.Done() }

// Why returns why the session has ended, or nil.
func (s *Session) Why() error { return context.Cause(s.ctx) }

// Serve lets connections of the session leave by serve until stop is called, which ends
// those that it serves. If there are several, the last serves new connections. Without any,
// connections are closed at once, so that what is left running in a session reaches nothing
// between calls.
func (s *Session) Serve(serve func(context.Context, net.Conn)) (stop func()) {
	if serve == nil {
		return func() {}
	}
	e := &egress{serve: serve}
	e.ctx, e.cancel = context.WithCancel(s.ctx)
	s.egressMu.Lock()
	defer s.egressMu.Unlock()
	s.serves = append(s.serves, e)
	return func() {
		s.egressMu.Lock()
		s.serves = slices.DeleteFunc(s.serves, func(o *egress) bool { return o == e })
		s.egressMu.Unlock()
		e.cancel()
		e.open.Wait()
	}
}

// serveConn serves a connection of the session by the last egress.
func (s *Session) serveConn(ctx context.Context, conn net.Conn) {
	s.egressMu.Lock()
	var e *egress
	if n := len(s.serves); n > 0 {
		e = s.serves[n-1]
		e.open.Add(1)
	}
	s.egressMu.Unlock()
	if e == nil {
		_ = conn.Close() // nothing was written
		return
	}
	defer e.open.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.ctx, func() {
		cancel()
		_ = conn.Close() // the process goes on, so that it does not close it
	})()
	e.serve(ctx, conn)
}
