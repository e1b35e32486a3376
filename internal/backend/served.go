package backend

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"haft/app"
	"haft/internal/localsocket"
	"haft/server"
)

// errEnded says that the command has ended, and serves nobody any more.
var errEnded = errors.New("the command has ended")

// A served is a system of this process that others use.
type served struct {
	svc   *app.Service
	owned bool // it is closed with the last of its clients, of which this process is one
	ln    *localsocket.Listener
	web   chan *server.Server // has one value: nil if there was no client
	done  chan error          // has why serving has ended
}

// serve serves a system to other processes, and to this one if it is owned.
func (h *Host) serve(ctx context.Context, svc *app.Service, owned bool) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return errEnded
	}
	var yield func()
	if owned {
		yield = func() { h.yield(context.WithoutCancel(ctx)) }
	}
	ln, err := localsocket.Listen(h.Dir, h.Offer, yield)
	if err != nil {
		return err
	}
	h.here = &served{svc, owned, ln, make(chan *server.Server, 1), make(chan error, 1)}
	go h.here.run(context.WithoutCancel(ctx), h.Offer.Version)
	return nil
}

// run answers requests until the listener is closed. The server is made when the first client comes.
func (s *served) run(ctx context.Context, version string) {
	conn, err := s.ln.Accept()
	if err != nil { // it is closed
		s.web <- nil
		s.done <- nil
		return
	}
	web, err := s.svc.LocalServer(ctx, version)
	if err != nil {
		s.web <- nil
		s.done <- errors.Join(fmt.Errorf("serve the data directory to others: %w", err), conn.Close(), s.ln.Close())
		return
	}
	first := make(chan net.Conn, 1)
	first <- conn
	s.web <- web
	err = web.Serve(&resumed{s.ln, first})
	select {
	case conn := <-first: // it was shut down before it began
		err = errors.Join(err, conn.Close())
	default:
	}
	s.done <- err
}

// A resumed is a listener whose first connection was accepted before.
type resumed struct {
	net.Listener
	first chan net.Conn
}

// Accept implements [net.Listener].
func (r *resumed) Accept() (net.Conn, error) {
	select {
	case conn := <-r.first:
		return conn, nil
	default:
		return r.Listener.Accept()
	}
}

// stop lets requests end that are being answered, until ctx ends, and then closes an owned system.
func (s *served) stop(ctx context.Context) error {
	errs := []error{s.ln.Close()}
	if s.owned { // as a server does
		errs = append(errs, s.svc.AgentLoop.Leave(ctx))
		s.svc.HandOver(ctx)
	}
	if web := <-s.web; web != nil {
		errs = append(errs, web.Shutdown(ctx))
	}
	if err := <-s.done; !errors.Is(err, net.ErrClosed) { // we have closed it
		errs = append(errs, err)
	}
	if s.owned {
		errs = append(errs, s.svc.Drain(ctx), s.svc.Close())
	}
	return errors.Join(errs...)
}

// take returns what this process serves, and serves no more.
func (h *Host) take(change func()) *served {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.here
	h.here = nil
	change()
	return s
}

// yield leaves the directory to another process, when the requests that are being answered have ended. This process
// goes on as a client of that.
func (h *Host) yield(ctx context.Context) {
	s := h.take(func() { h.resume = time.Now().Add(time.Hour) })
	if s != nil {
		if err := s.stop(ctx); err != nil {
			h.Note("note: leave the data directory to another process: " + err.Error())
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.resume = time.Now().Add(yieldFor)
}

// end serves others no more, at the end of the command.
func (h *Host) end(ctx context.Context) error {
	s := h.take(func() { h.ended = true })
	if s == nil {
		return nil
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), endWait)
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(signalWait, cancel) })()
	note := time.AfterFunc(noteAfter, func() {
		h.Note("note: waiting for requests of other commands to end, which this process answers")
	})
	defer note.Stop()
	err := s.stop(limited)
	if limited.Err() != nil {
		return nil // who was waited for has left without an answer, and knows it
	}
	return err
}
