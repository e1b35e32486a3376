package conversation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"unicode/utf8"

	"haft"
	"haft/internal/authority"
)

// maxName bounds keys and names of models, in bytes.
const maxName = 256

// errStopped says that nobody listens any more.
var errStopped = errors.New("the listener stopped")

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

// Send implements [haft.Conversations].
func (s *Service) Send(ctx context.Context, p haft.Principal, agent string, m haft.NewMessage) iter.Seq2[haft.TurnEvent,
	error] {
	return events(func(yield func(haft.TurnEvent) error) error {
		a, err := s.addressed(ctx, p, agent)
		if err != nil {
			return err
		}
		t, l, err := s.begin(ctx, p, a, m, nil)
		if err != nil {
			return err
		}
		return s.watch(ctx, *t, 0, l, true, s.visible(p, *t, yield))
	})
}

// addressed returns the agent to which p sends a message. Only who already acts as an agent has it work, since the turn
// has the tools, the environment and the secrets of the agent.
func (s *Service) addressed(ctx context.Context, p haft.Principal, ref string) (*haft.Agent, error) {
	if err := s.may(p, haft.CallsWrite); err != nil {
		return nil, err
	}
	a, err := s.cfg.Agents.Agent(ctx, p, ref)
	if err == nil && (p.Agent == "" || p.Agent != string(a.ID) && p.Agent != a.Name) {
		err = &haft.Error{Code: haft.CodeDenied, Message: "the credential does not act as the agent: use one of the " +
			"agent, or one that may act as it"}
	}
	return a, err
}

// check reports why a message is not taken.
func (s *Service) check(p haft.Principal, a *haft.Agent, m haft.NewMessage) error {
	code, why, b := haft.CodeInvalid, "", m.Budget
	switch {
	case strings.TrimSpace(m.Text) == "" || len(m.Text) > maxText || !utf8.ValidString(m.Text):
		why = fmt.Sprintf("text is a text in UTF-8 of 1 to %d bytes", maxText)
	case len(m.Key) > maxName || len(m.Model) > maxName:
		why = fmt.Sprintf("idempotency_key and model have at most %d bytes", maxName)
	case b.Steps < 0 || b.Tokens < 0 || b.Time < 0 || b.Cost < 0:
		why = "no limit of a budget is negative"
	case p.Owner() == "":
		why = "a turn belongs to somebody: the sender has neither a user nor a credential"
	case a.Disabled:
		code, why = haft.CodeDenied, "the agent is disabled"
	default:
		return nil
	}
	return &haft.Error{Code: code, Message: why}
}

// begin keeps a message with its turn, and has the turn worked on. Parent is the turn of the agent that sends the
// message, or nil.
func (s *Service) begin(ctx context.Context, p haft.Principal, a *haft.Agent, m haft.NewMessage,
	parent *haft.Turn) (*haft.Turn, *listener, error) {
	if err := s.check(p, a, m); err != nil {
		return nil, nil, err
	}
	if why, stopped := s.cfg.Stopped(); stopped {
		return nil, nil, &haft.Error{Code: haft.CodeUnavailable, Message: "messages are not taken now, because calls " +
			"are stopped: " + why}
	}
	if s.crowded(p.Org) {
		return nil, nil, &haft.Error{Code: haft.CodeRateLimited, Message: "too many turns of the organisation wait " +
			"for people: answer their requests for approval, or cancel the turns"}
	}
	s.mu.Lock()
	placed := s.takePlace(p.Org, false)
	s.mu.Unlock()
	if !placed {
		return nil, nil, &haft.Error{Code: haft.CodeRateLimited,
			Message: "too many turns are under way here: try again later"}
	}
	begun := false
	defer func() {
		if !begun {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.givePlace(p.Org)
		}
	}()
	p.Agent = string(a.ID)
	prof, err := s.cfg.Agents.Profile(ctx, p, a.ID)
	if err != nil {
		return nil, nil, err
	}
	t := haft.Turn{Agent: a.ID, Model: cmp.Or(m.Model, prof.Model), Budget: lesser(m.Budget, s.cfg.Budget),
		Principal: p}
	if _, err := s.cfg.Models.Model(ctx, p, t.Model); err != nil {
		return nil, nil, err
	}
	first := haft.Message{Role: haft.RoleUser, Text: m.Text}
	if parent != nil {
		t.Parent, t.Depth, first.Name = parent.ID, parent.Depth+1, string(parent.Agent)
	}
	defer s.begins.note(t)()
	owner := s.cfg.Owner()
	turn, begun, err := s.cfg.Turns.BeginTurn(ctx, owner, t, m.Key, first)
	if err != nil || !begun {
		return turn, nil, err
	}
	l := newListener()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.start(ctx, owner, *turn, l, false); l.of == nil { // it is worked on already, or the service is closed
		l = nil
	}
	return turn, l, nil
}

// may reports why p may not do something with agents.
func (s *Service) may(p haft.Principal, act haft.Action) error {
	if err := s.cfg.Authority.Authorize(p, haft.AgentsRead, authority.Resource{}); err != nil {
		return err
	}
	return s.cfg.Authority.Authorize(p, act, authority.Resource{})
}

// find returns an agent to which p may do something. A credential of an agent is for that agent only.
func (s *Service) find(ctx context.Context, p haft.Principal, act haft.Action, ref string) (*haft.Agent, error) {
	if err := s.may(p, act); err != nil {
		return nil, err
	}
	a, err := s.cfg.Agents.Agent(ctx, p, ref)
	if err == nil && p.Agent != "" && p.Agent != string(a.ID) && p.Agent != a.Name {
		err = &haft.Error{Code: haft.CodeNotFound, Message: "there is no such agent"}
	}
	return a, err
}

// seen returns a turn to which p may do something. What p may not see is not there.
func (s *Service) seen(ctx context.Context, p haft.Principal, act haft.Action, id haft.TurnID) (*haft.Turn, error) {
	if err := s.may(p, act); err != nil {
		return nil, err
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

// listed returns an agent, and the owner of those of its turns that p sees: empty if p sees all. Somebody who owns
// nothing sees what belongs to a name that nobody has.
func (s *Service) listed(ctx context.Context, p haft.Principal, agent string) (*haft.Agent, string, error) {
	a, err := s.find(ctx, p, haft.CallsRead, agent)
	if s.cfg.Authority.Authorize(p, haft.CallsRead, authority.Owned("", haft.Principal{Org: p.Org})) == nil {
		return a, "", err
	}
	return a, cmp.Or(p.Owner(), haft.OwnerMark), err
}

// Turn implements [haft.Conversations].
func (s *Service) Turn(ctx context.Context, p haft.Principal, id haft.TurnID) (*haft.Turn, error) {
	return s.seen(ctx, p, haft.CallsRead, id)
}

// Turns implements [haft.Conversations].
func (s *Service) Turns(ctx context.Context, p haft.Principal, agent string, after haft.TurnID,
	limit int) ([]haft.Turn, error) {
	a, owner, err := s.listed(ctx, p, agent)
	if err != nil {
		return nil, err
	}
	return s.cfg.History.Turns(ctx, p.Org, owner, a.ID, after, limit)
}

// Messages implements [haft.Conversations].
func (s *Service) Messages(ctx context.Context, p haft.Principal, agent string, f haft.MessageFilter) ([]haft.Message,
	error) {
	a, owner, err := s.listed(ctx, p, agent)
	if err != nil {
		return nil, err
	}
	return s.cfg.History.Messages(ctx, p.Org, owner, a.ID, f)
}

// messagesOf reads messages of a turn, or of the conversation that it belongs to.
func (s *Service) messagesOf(ctx context.Context, t haft.Turn, f haft.MessageFilter) ([]haft.Message, error) {
	return s.cfg.History.Messages(ctx, t.Principal.Org, t.Principal.Owner(), t.Agent, f)
}

// CancelTurn implements [haft.Conversations]. It returns when the turn has ended, if this process runs it; another one
// ends it soon.
func (s *Service) CancelTurn(ctx context.Context, p haft.Principal, id haft.TurnID) error {
	t, err := s.seen(ctx, p, haft.CallsWrite, id)
	if err != nil || t.Final() {
		return err
	}
	for err = s.cfg.Claims.CancelTurn(ctx, p.Org, id); err == nil; {
		r := s.cancelHere(ctx, *t)
		if r == nil {
			break
		}
		select {
		case <-r.done: // or it just began to wait: then it is looked at again
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	return err
}

// visible leaves out the events of calls if p may not see those of the turn.
func (s *Service) visible(p haft.Principal, t haft.Turn, yield func(haft.TurnEvent) error) func(haft.TurnEvent) error {
	if s.cfg.Authority.Authorize(p, haft.EventsRead, authority.Owned("turn", t.Principal)) == nil {
		return yield
	}
	return func(e haft.TurnEvent) error {
		if e.Event != nil {
			return nil
		}
		return yield(e)
	}
}

// Follow implements [haft.Conversations].
func (s *Service) Follow(ctx context.Context, p haft.Principal, id haft.TurnID) iter.Seq2[haft.TurnEvent, error] {
	return events(func(yield func(haft.TurnEvent) error) error {
		t, err := s.seen(ctx, p, haft.CallsRead, id)
		if err != nil {
			return err
		}
		after := int64(0)
		list, err := s.messagesOf(ctx, *t, haft.MessageFilter{Turn: id, Newest: true, Limit: 1})
		if len(list) > 0 {
			after = list[0].Seq
		}
		if err == nil {
			err = yield(haft.TurnEvent{Turn: t})
		}
		if err != nil || t.Final() {
			return err
		}
		return s.watch(ctx, *t, after, nil, false, s.visible(p, *t, yield))
	})
}
