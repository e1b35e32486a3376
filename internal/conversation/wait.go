package conversation

import (
	"context"
	"slices"
	"time"

	"haft"
)

// The bounds of waiting for people.
const (
	answering = time.Second      // is how often requests are looked at
	maxLooks  = 200              // turns that are looked at each time, of each organisation as many as of others
	staying   = 10 * time.Minute // until the sender and the agent of a turn that waits are looked at again
	// maxWaiting is how many turns of an organisation may wait, as a multiple of those that may be worked on.
	maxWaiting = 5
)

// A wait is a turn of this process that waits for people. Nothing works on it.
type wait struct {
	*shared
	turn  haft.Turn
	calls []haft.CallID // that a person has to agree to
	since time.Time
}

// resume goes on with turns that wait no more.
func (s *Service) resume(ctx context.Context) error {
	s.mu.Lock()
	list := looks(s.waits)
	s.mu.Unlock()
	for _, w := range list {
		over := senderCancelled(ctx, s.cfg.History, w.turn)
		if !over && time.Since(w.since) <= staying && !s.answered(ctx, w) {
			continue
		}
		owner := s.cfg.Owner()
		s.mu.Lock()
		// Meanwhile the turn may have been cancelled, or another process may have taken it.
		if s.waits[w.turn.ID] == w && s.takePlace(w.turn.Principal.Org, over) {
			s.start(ctx, owner, w.turn, nil, false)
		}
		s.mu.Unlock()
	}
	return nil
}

// looks returns which of the turns that wait are looked at now. Many that wait in one organisation do not keep those of
// another waiting.
func looks(waits map[haft.TurnID]*wait) (list []*wait) {
	of := map[string][]*wait{}
	for _, w := range waits { // in any order, so that each has its turn
		org := w.turn.Principal.Org
		of[org] = append(of[org], w)
	}
	for len(of) > 0 {
		for org, rest := range of {
			if list = append(list, rest[0]); len(list) == maxLooks {
				return list
			}
			if of[org] = rest[1:]; len(rest) == 1 {
				delete(of, org)
			}
		}
	}
	return list
}

// answered reports whether a person answered to a call, or it ended otherwise.
func (s *Service) answered(ctx context.Context, w *wait) bool {
	return slices.ContainsFunc(w.calls, func(id haft.CallID) bool {
		rec, err := s.cfg.Calls.Seen(ctx, w.turn.Principal, id, haft.CallsRead, haft.CallsWrite)
		code := haft.CodeOf(err)
		return err == nil && rec.Status != haft.StatusPending ||
			err != nil && code != haft.CodeUnavailable && code != haft.CodeInternal
	})
}

// senderCancelled reports whether the turn of the agent that sent the message of t was cancelled. A person could still
// agree to what t wants to do, so that it is not left waiting.
func senderCancelled(ctx context.Context, turns History, t haft.Turn) bool {
	if t.Parent == "" {
		return false
	}
	parent, err := turns.Turn(ctx, t.Principal.Org, t.Parent)
	return err == nil && parent.Status == haft.TurnCancelled
}

// sweep goes on with the turns of this process that nobody works on here, ends those that are to end, and leaves those
// that are this process's no more.
func (s *Service) sweep(ctx context.Context) error {
	owner := s.cfg.Owner()
	s.mu.Lock()
	free := s.all < s.cfg.Running
	s.mu.Unlock()
	if free {
		if _, err := s.cfg.Claims.ClaimTurns(ctx, owner); err != nil {
			return err
		}
	}
	cancelled, err := s.cfg.Claims.CancelledTurns(ctx, owner)
	if err != nil {
		return err
	}
	gone := s.known(owner)
	for after := haft.TurnID(""); ; {
		list, err := s.cfg.Claims.OpenTurns(ctx, owner, after)
		if err != nil {
			return err
		}
		for _, t := range list {
			delete(gone, t.ID)
			s.maintain(ctx, owner, t, slices.Contains(cancelled, t.ID))
		}
		if len(list) == 0 {
			break
		}
		after = list[len(list)-1].ID
	}
	for id := range gone {
		s.drop(id)
	}
	return nil
}

// maintain has a turn worked on, and ended if it was cancelled: for that there is always a place. It returns what works
// on the turn, or nil. A turn that may just begin is left to whoever begins it, who gets all of it; if that fails, a
// later sweep takes the turn.
func (s *Service) maintain(ctx context.Context, owner string, t haft.Turn, cancelled bool) *run {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, idle := s.runs[t.ID], !s.begins.has(t)
	if s.waits[t.ID] != nil {
		idle = cancelled
	}
	if r == nil && idle && s.takePlace(t.Principal.Org, cancelled) {
		r = s.start(ctx, owner, t, nil, cancelled)
	}
	if r != nil && cancelled {
		r.cancel(errCancelled)
	}
	return r
}

// known returns the turns that are worked on as those of owner, that wait, and that could not go on.
func (s *Service) known(owner string) map[haft.TurnID]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := map[haft.TurnID]bool{}
	for id, r := range s.runs {
		if r.owner == owner {
			ids[id] = true
		}
	}
	for id := range s.waits {
		ids[id] = true
	}
	for id := range s.failed {
		ids[id] = true
	}
	return ids
}

// drop leaves a turn that is this process's no more.
func (s *Service) drop(id haft.TurnID) {
	s.mu.Lock()
	r, w := s.runs[id], s.waits[id]
	delete(s.waits, id)
	delete(s.failed, id)
	s.mu.Unlock()
	if r != nil {
		r.cancel(errLost)
	}
	if w != nil {
		w.publish(haft.TurnEvent{}, false)
	}
}
