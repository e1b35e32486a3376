package conversation

import (
	"context"
	"slices"
	"sync"
	"time"

	"haft"
	"haft/internal/pause"
)

// The bounds of listening.
const (
	polling      = 500 * time.Millisecond // for turns that another process runs
	maxListeners = 100                    // of one turn
	maxQueued    = 256                    // events that a listener has yet to take; more pieces of text are dropped
)

// listeners are told what happens in a turn.
type listeners struct {
	mu   sync.Mutex
	list []*listener
	over bool // nothing happens any more
}

// A listener is told what happens in a turn. The lock is that of all listeners.
type listener struct {
	of    *listeners
	wake  chan struct{} // has something if there is something to take
	queue []haft.TurnEvent
	cut   bool // pieces of text were dropped since the last message
}

func newListener() *listener { return &listener{wake: make(chan struct{}, 1)} }

// listen adds a listener. It returns nil if nothing happens any more, and an error if there are too many.
func (s *listeners) listen() (*listener, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.over:
		return nil, nil
	case len(s.list) >= maxListeners:
		return nil, &haft.Error{Code: haft.CodeRateLimited, Message: "too many listen to this turn: try again later"}
	}
	l := newListener()
	l.of, s.list = s, append(s.list, l)
	return l, nil
}

// leave removes a listener, or nil.
func (l *listener) leave() {
	if l != nil {
		l.of.mu.Lock()
		defer l.of.mu.Unlock()
		l.of.list = slices.DeleteFunc(l.of.list, func(other *listener) bool { return other == l })
	}
}

// listened reports whether anybody listens.
func (s *listeners) listened() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.list) > 0
}

// publish sends all listeners an event. One that may be dropped is, for listeners that are slow; the others are as many
// as the turn has messages. An empty event is the last one.
func (s *listeners) publish(e haft.TurnEvent, droppable bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = s.over || e == haft.TurnEvent{}
	for _, l := range s.list {
		sent := e
		switch {
		case droppable && l.cut:
			continue // text behind a gap does not fit to what is before it
		case droppable && len(l.queue) >= maxQueued:
			l.cut, sent = true, haft.TurnEvent{Notice: "this listener is slow: text is left out until the next message"}
		case e.Message != nil:
			l.cut = false
		}
		if !s.over {
			l.queue = append(l.queue, sent)
		}
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
}

// publishTurn sends all listeners how the turn stands.
func (s *listeners) publishTurn(t haft.Turn) { s.publish(haft.TurnEvent{Turn: &t}, false) }

// take waits for events and returns them, and whether there will be no more.
func (l *listener) take(ctx context.Context) (list []haft.TurnEvent, over bool, err error) {
	select {
	case <-l.wake:
	case <-ctx.Done():
		return nil, false, context.Cause(ctx)
	}
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	list, l.queue = l.queue, nil
	return list, l.of.over, nil
}

// listen returns a listener to a turn that is worked on or waits here, or nil.
func (s *Service) listen(id haft.TurnID) (*listener, error) {
	s.mu.Lock()
	sh := s.sharedOf(id)
	s.mu.Unlock()
	if sh == nil {
		return nil, nil
	}
	return sh.listen()
}

// replay yields the messages of a turn after the one of a number, and returns the number of the last. A page of large
// messages is short, so that only an empty one is the last.
func (s *Service) replay(ctx context.Context, t haft.Turn, after int64, yield func(haft.TurnEvent) error) (int64,
	error) {
	for {
		list, err := s.messagesOf(ctx, t, haft.MessageFilter{Turn: t.ID, After: after, Limit: pageSize})
		if err != nil || len(list) == 0 {
			return after, err
		}
		for _, m := range list {
			after = m.Seq
			if err := yield(haft.TurnEvent{Message: &m}); err != nil {
				return after, err
			}
		}
	}
}

// watch yields what happens in a turn after the message of that number, until the turn ends, or waits if brief. What l
// is told comes as it happens; what is not worked on here is looked for in the store. Whoever listens knows t.
func (s *Service) watch(ctx context.Context, t haft.Turn, after int64, l *listener, brief bool,
	yield func(haft.TurnEvent) error) error {
	defer func() { l.leave() }()
	known, send := t, yield
	yield = func(e haft.TurnEvent) error {
		if e.Turn != nil {
			known = *e.Turn
		}
		return send(e)
	}
	over := func(t *haft.Turn) bool { return t.Final() || brief && t.Status == haft.TurnWaiting }
	if l != nil { // it is told all but what the turn began with, however late this reads it
		list, err := s.messagesOf(ctx, t, haft.MessageFilter{Turn: t.ID, After: after, Limit: 1})
		for i := range list {
			after, err = list[i].Seq, yield(haft.TurnEvent{Message: &list[i]})
		}
		if err != nil {
			return err
		}
		if after, err = l.drain(ctx, after, over, yield); err != nil || after < 0 {
			return err
		}
		l.leave()
		l = nil
	}
	for {
		now, err := s.cfg.History.Turn(ctx, t.Principal.Org, t.ID) // first: what it has is not missed then
		if err != nil {
			return err
		}
		if after, err = s.replay(ctx, t, after, yield); err != nil {
			return err
		}
		switch {
		case over(now):
			return yield(haft.TurnEvent{Turn: now})
		case now.Status != known.Status || !slices.Equal(now.Approvals, known.Approvals): // while l was not told
			err = yield(haft.TurnEvent{Turn: now})
		case l != nil:
			if after, err = l.drain(ctx, after, over, yield); err != nil || after < 0 {
				return err
			}
			l.leave()
			l = nil
		case s.life.Err() != nil:
			return &haft.Error{Code: haft.CodeUnavailable, Err: errClosing,
				Message: "this server is shutting down; the turn goes on: follow it again"}
		default:
			if l, err = s.listen(t.ID); l == nil && err == nil {
				err = pause.For(ctx, polling)
			}
		}
		if err != nil {
			return err
		}
	}
}

// drain yields what a listener is told after the message of that number, until there will be no more. It returns the
// number of the last message, or -1 if the turn is over.
func (l *listener) drain(ctx context.Context, after int64, over func(*haft.Turn) bool,
	yield func(haft.TurnEvent) error) (int64, error) {
	for ended := false; !ended; {
		list, last, err := l.take(ctx)
		if err != nil {
			return after, err
		}
		ended = last
		for i, e := range slices.Backward(list) {
			if e.Message != nil && e.Message.Seq <= after { // which was read from the store, with what belongs to it
				list = list[i+1:]
				break
			}
		}
		for _, e := range list {
			if e.Message != nil {
				after = e.Message.Seq
			}
			if err := yield(e); err != nil {
				return after, err
			}
			if e.Turn != nil && over(e.Turn) {
				return -1, nil
			}
		}
	}
	return after, nil
}
