package local

import (
	"sync"
	"time"

	"haft/sandbox"
)

// spares keeps one init in reserve: the start of a Go program, with all that its packages
// do before main, takes the larger part of a cold run. A spare has its namespaces and its
// user id, and waits for its request. It has run no command.
type spares struct {
	mu     sync.Mutex
	ready  *initProcess
	uid    int
	making chan struct{} // closed when the one under way is there
	timer  *time.Timer
	closed bool
}

// spareDelay is how long after a run the next spare is made, so that none is made while
// commands follow each other, or in a program that ends after one run.
const spareDelay = 50 * time.Millisecond

// take returns the spare and its user id, or nil. It waits for one that is under
// way, since that will be there before a new one.
func (s *spares) take(network sandbox.Network) (*initProcess, int) {
	if network == sandbox.NetworkFull {
		return nil, 0
	}
	s.mu.Lock()
	making := s.making
	s.mu.Unlock()
	if making != nil {
		<-making
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	init := s.ready
	s.ready = nil
	return init, s.uid
}

// later makes a spare when there was no run for a moment.
func (s *spares) later(p *Provider) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	if s.timer == nil {
		s.timer = time.AfterFunc(spareDelay, func() { s.refill(p) })
		return
	}
	s.timer.Reset(spareDelay)
}

// refill begins to make a spare, if there is none.
func (s *spares) refill(p *Provider) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.ready != nil || s.making != nil || !p.machine.mayNamespace.Load() {
		return
	}
	uid, err := p.runIDs.take()
	if err != nil {
		return // too many sandboxes already
	}
	s.making = make(chan struct{})
	go func() {
		init, err := p.spawn(p.machine.namespacesOf(sandbox.NetworkNone, uid), nil)
		s.mu.Lock()
		defer s.mu.Unlock()
		close(s.making)
		s.making = nil
		if err != nil { // the run that needs one gets the same error, and reports it
			p.runIDs.free(uid)
			return
		}
		s.ready, s.uid = init, uid
	}()
}

// close ends the spare and makes no more.
func (s *spares) close(p *Provider) {
	s.mu.Lock()
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
	making := s.making
	s.mu.Unlock()
	if making != nil {
		<-making
	}
	s.mu.Lock()
	init := s.ready
	s.ready = nil
	s.mu.Unlock()
	if init == nil {
		return
	}
	if err := init.end(); err != nil {
		p.log.Warn("a spare init remains", "err", err)
	}
	p.runIDs.free(s.uid)
}
