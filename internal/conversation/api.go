package conversation

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"
	"unicode/utf8"

	"haft"
	"haft/internal/authority"
)

// The bounds of what comes from outside.
const (
	maxName  = 256 // bytes of keys and names of models
	maxQuery = 1_000
	maxList  = 1_000
)

// errStopped says that nobody listens any more.
var errStopped = errors.New("the listener stopped")

// Send implements [haft.Conversations].
func (s *Service) Send(ctx context.Context, p haft.Principal, agent string, m haft.NewMessage) iter.Seq2[haft.TurnEvent,
	error] {
	return events(func(yield func(haft.TurnEvent) error) error {
		t, l, err := s.begin(ctx, p, agent, m)
		if err != nil {
			return err
		}
		return s.watch(ctx, *t, 0, l, true, yield)
	})
}

// events makes a sequence of a function that yields events until it fails.
func events(each func(yield func(haft.TurnEvent) error) error) iter.Seq2[haft.TurnEvent, error] {
	return func(yield func(haft.TurnEvent, error) bool) {
		err := each(func(e haft.TurnEvent) error {
			if !yield(e, nil) {
				return errStopped
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStopped) {
			yield(haft.TurnEvent{}, err)
		}
	}
}

// begin keeps a message with its turn, and has the turn worked on.
func (s *Service) begin(ctx context.Context, p haft.Principal, agent string, m haft.NewMessage) (*haft.Turn, *listener,
	error) {
	wrong := func(why string) (*haft.Turn, *listener, error) {
		return nil, nil, &haft.Error{Code: haft.CodeInvalid, Message: why}
	}
	a, err := s.find(ctx, p, haft.CallsWrite, agent, m.From)
	if err != nil {
		return nil, nil, err
	}
	b := m.Budget
	switch {
	case strings.TrimSpace(m.Text) == "" || len(m.Text) > maxText || !utf8.ValidString(m.Text):
		return wrong(fmt.Sprintf("text is a text in UTF-8 of 1 to %d bytes", maxText))
	case len(m.Key) > maxName || len(m.Model) > maxName:
		return wrong(fmt.Sprintf("idempotency_key and model have at most %d bytes", maxName))
	case b.Steps < 0 || b.Tokens < 0 || b.Time < 0 || b.Cost < 0:
		return wrong("no limit of a budget is negative")
	case p.Owner() == "":
		return wrong("a turn belongs to somebody: the sender has neither a user nor a credential")
	case a.Disabled:
		return nil, nil, &haft.Error{Code: haft.CodeDenied, Message: "the agent is disabled"}
	case !s.free(p.Org):
		return nil, nil, &haft.Error{Code: haft.CodeRateLimited, RetryAfter: haft.Millis(time.Second),
			Message: "too many turns are under way here: try again later"}
	}
	p.Agent = string(a.ID)
	prof, err := s.cfg.Agents.Profile(ctx, p, a.ID)
	if err != nil {
		return nil, nil, err
	}
	t := haft.Turn{ID: haft.TurnID("run-" + rand.Text()), Agent: a.ID, Status: haft.TurnRunning,
		Model: cmp.Or(m.Model, prof.Model), Budget: s.budget(b), Created: time.Now(), Principal: p}
	if _, err := s.cfg.Models.Model(ctx, p, t.Model); err != nil {
		return nil, nil, err
	}
	first := &haft.Message{ID: haft.MessageID("message-" + rand.Text()), Agent: a.ID, Turn: t.ID, Role: haft.RoleUser,
		Name: string(m.From), Text: m.Text, Created: t.Created}
	owner := s.cfg.Owner()
	earlier, err := s.cfg.Turns.Begin(ctx, owner, m.Key, t, first)
	if err != nil || earlier != nil {
		return earlier, nil, err
	}
	// It is kept: what comes is the turn's, and not the sender's request's. If the service is closed meanwhile, the turn
	// goes on elsewhere.
	l := newListener()
	if s.start(ctx, owner, t, l); l.of == nil { // it is worked on already, or the service is closed
		l = nil
	}
	return &t, l, nil
}

// budget is what a turn may take: what its sender wants within what the server allows.
func (s *Service) budget(b haft.Budget) haft.Budget {
	most := s.cfg.Budget
	return haft.Budget{Steps: within(b.Steps, most.Steps), Tokens: within(b.Tokens, most.Tokens),
		Time: within(b.Time, most.Time), Cost: within(b.Cost, most.Cost)}
}

// within bounds what somebody wants. 0 means nothing in particular, or no bound.
func within[T int | int64 | haft.Millis](wanted, most T) T {
	if wanted <= 0 || most > 0 && wanted > most {
		return most
	}
	return wanted
}

// find returns an agent to which p may do something. A credential of an agent is for that agent only, except that the
// agent itself sends messages to others.
func (s *Service) find(ctx context.Context, p haft.Principal, act haft.Action, ref string,
	from haft.AgentID) (*haft.Agent, error) {
	for _, action := range []haft.Action{haft.AgentsRead, act} {
		if err := s.cfg.Authority.Authorize(p, action, authority.Resource{}); err != nil {
			return nil, err
		}
	}
	a, err := s.cfg.Agents.Agent(ctx, p, ref)
	if err != nil {
		return nil, err
	}
	if p.Agent != "" && p.Agent != string(a.ID) && p.Agent != a.Name && (from == "" || p.Agent != string(from)) {
		return nil, &haft.Error{Code: haft.CodeNotFound, Message: "there is no such agent"}
	}
	return a, nil
}

// seen returns a turn to which p may do something. What p may not see is not there.
func (s *Service) seen(ctx context.Context, p haft.Principal, act haft.Action, id haft.TurnID) (*haft.Turn, error) {
	for _, action := range []haft.Action{haft.AgentsRead, act} {
		if err := s.cfg.Authority.Authorize(p, action, authority.Resource{}); err != nil {
			return nil, err
		}
	}
	t, err := s.cfg.History.Turn(ctx, p.Org, id)
	if err != nil {
		return nil, err
	}
	if err := s.cfg.Authority.Authorize(p, act, authority.Owned("turn", t.Principal)); err != nil {
		return nil, err
	}
	return t, nil
}

// whose returns the owner of the turns that p sees, which is empty if p sees all, and whether it sees any.
func (s *Service) whose(p haft.Principal) (owner string, any bool) {
	if s.cfg.Authority.Authorize(p, haft.CallsRead, authority.Owned("", haft.Principal{Org: p.Org})) == nil {
		return "", true
	}
	return p.Owner(), p.Owner() != ""
}

// Turn implements [haft.Conversations].
func (s *Service) Turn(ctx context.Context, p haft.Principal, id haft.TurnID) (*haft.Turn, error) {
	return s.seen(ctx, p, haft.CallsRead, id)
}

// Turns implements [haft.Conversations].
func (s *Service) Turns(ctx context.Context, p haft.Principal, agent string, after haft.TurnID,
	limit int) ([]haft.Turn, error) {
	a, err := s.find(ctx, p, haft.CallsRead, agent, "")
	if err != nil {
		return nil, err
	}
	owner, any := s.whose(p)
	if !any {
		return nil, nil
	}
	return s.cfg.History.Turns(ctx, p.Org, owner, a.ID, after, min(cmp.Or(max(limit, 0), 50), maxList))
}

// Messages implements [haft.Conversations].
func (s *Service) Messages(ctx context.Context, p haft.Principal, agent string, f haft.MessageFilter) ([]haft.Message,
	error) {
	a, err := s.find(ctx, p, haft.CallsRead, agent, "")
	if err != nil {
		return nil, err
	}
	if len(f.Query) > maxQuery || len(f.Roles) > 4 {
		return nil, &haft.Error{Code: haft.CodeInvalid,
			Message: fmt.Sprintf("a query has at most %d bytes, and there are 4 roles", maxQuery)}
	}
	owner, any := s.whose(p)
	if !any {
		return nil, nil
	}
	f.Limit = min(cmp.Or(max(f.Limit, 0), 50), maxList)
	return s.cfg.History.Messages(ctx, p.Org, owner, a.ID, f)
}

// CancelTurn implements [haft.Conversations]. It returns when the turn has ended.
func (s *Service) CancelTurn(ctx context.Context, p haft.Principal, id haft.TurnID) error {
	t, err := s.seen(ctx, p, haft.CallsWrite, id)
	if err != nil || t.Final() {
		return err
	}
	r := s.running(id)
	if r == nil {
		owner := s.cfg.Owner()
		if t, err = s.cfg.Owners.Take(ctx, owner, p.Org, id); haft.CodeOf(err) == haft.CodeConflict {
			return nil // it has ended meanwhile
		} else if err != nil {
			return err
		}
		if r = s.start(ctx, owner, *t, nil); r == nil {
			return &haft.Error{Code: haft.CodeUnavailable, Message: "this server is shutting down: try again",
				Err: errClosing}
		}
	}
	r.cancel(errCancelled)
	select {
	case <-r.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if t, err = s.cfg.History.Turn(ctx, p.Org, id); err == nil && !t.Final() {
		err = &haft.Error{Code: haft.CodeUnavailable, Message: "the turn could not be ended now: try again"}
	}
	return err
}

// Follow implements [haft.Conversations].
func (s *Service) Follow(ctx context.Context, p haft.Principal, id haft.TurnID) iter.Seq2[haft.TurnEvent, error] {
	return events(func(yield func(haft.TurnEvent) error) error {
		t, err := s.seen(ctx, p, haft.CallsRead, id)
		if err != nil {
			return err
		}
		l, err := s.listen(id)
		if err != nil {
			return err
		}
		list, err := s.messagesOf(ctx, *t, haft.MessageFilter{Turn: id, Newest: true, Limit: 1})
		if err != nil {
			l.leave()
			return err
		}
		after := int64(0)
		if len(list) > 0 {
			after = list[0].Seq
		}
		if err := yield(haft.TurnEvent{Turn: t}); err != nil || t.Final() {
			l.leave()
			return err
		}
		return s.watch(ctx, *t, after, l, false, yield)
	})
}

// messagesOf reads messages of a turn.
func (s *Service) messagesOf(ctx context.Context, t haft.Turn, f haft.MessageFilter) ([]haft.Message, error) {
	return s.cfg.History.Messages(ctx, t.Principal.Org, t.Principal.Owner(), t.Agent, f)
}
