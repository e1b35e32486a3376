package conversation

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"haft"
)

// maxDepth is how many turns can be above one that a message of an agent began.
const maxDepth = 4

// replying is how long an agent waits for the answer of another one.
const replying = 2 * time.Minute

// errLate is the cause of the end of waiting for an answer that takes long.
var errLate = errors.New("the answer takes long")

// Deliver sends a message to an agent in a turn of another one, as which from acts. It does not wait for what becomes
// of the message. The turn that it begins takes what the turn of the sender has left, and goes on when that has ended,
// unless it was cancelled.
func (s *Service) Deliver(ctx context.Context, from haft.Principal, turn haft.TurnID, agent, text string) error {
	_, l, err := s.post(ctx, from, turn, agent, text)
	l.leave()
	return err
}

// Reply is Deliver with an answer: it waits for the end of the turn, and returns what the agent said last. It waits for
// no person and at most two minutes, and returns then that the answer comes later: the turn goes on, as with Deliver.
// If ctx ends before, the turn is cancelled.
//
// Calls of the turn that it waits for may need the slots that rules of the policy gave the call that waits. So whoever
// calls Reply has given them back, see [executor.Yield].
func (s *Service) Reply(ctx context.Context, from haft.Principal, turn haft.TurnID, agent, text string) (string,
	error) {
	t, l, err := s.post(ctx, from, turn, agent, text)
	if err != nil {
		return "", err
	}
	last, end := "", *t
	waiting, cancel := context.WithTimeoutCause(ctx, replying, errLate)
	defer cancel()
	err = s.watch(waiting, *t, 0, l, true, func(e haft.TurnEvent) error {
		if e.Message != nil {
			last = cmp.Or(said(*e.Message), last)
		}
		if e.Turn != nil {
			end = *e.Turn
		}
		return nil
	})
	switch {
	case err == nil && end.Status == haft.TurnWaiting:
		return later("a person has to agree to something that it wants to do"), nil
	case err == nil && (end.Status != haft.TurnCompleted || last == ""):
		return "", &haft.Error{Code: haft.CodeUnavailable,
			Message: "the agent did not answer: " + cmp.Or(end.Error, string(end.Stop))}
	case err == nil:
		return last, nil
	case s.life.Err() != nil: // the turn goes on in the next process
		return later("the server is restarted"), nil
	case ctx.Err() == nil && errors.Is(context.Cause(waiting), errLate):
		return later("it still works"), nil
	}
	s.abandon(ctx, *t)
	return "", fmt.Errorf("wait for the answer of an agent: %w", err)
}

// later is what an agent gets that waited for an answer which is not there yet.
func later(why string) string {
	return "[no answer yet: the agent has the message, but " + why + ". Its answer will be in its own conversation " +
		"with the user. Go on without it; do not send the message again.]"
}

// post begins the turn of a message that an agent sends to another.
func (s *Service) post(ctx context.Context, from haft.Principal, turn haft.TurnID, ref, text string) (*haft.Turn,
	*listener, error) {
	if s.cfg.As == nil {
		return nil, nil, &haft.Error{Code: haft.CodeDenied, Message: "agents send each other no messages here"}
	}
	parent, left, err := s.sender(ctx, from, turn)
	if err != nil {
		return nil, nil, err
	}
	if ref == "" || len(ref) > maxName {
		return nil, nil, &haft.Error{Code: haft.CodeInvalid, Message: "expected the id or the name of an agent"}
	}
	a, err := s.cfg.Agents.Agent(ctx, from, ref)
	if err != nil {
		return nil, nil, err
	}
	if a.ID == parent.Agent {
		return nil, nil, &haft.Error{Code: haft.CodeInvalid, Message: "an agent sends itself no messages"}
	}
	p, err := s.cfg.As(ctx, from, a.ID)
	if err == nil && (p.Org != from.Org || p.Owner() != from.Owner() || p.Agent != string(a.ID)) {
		err = &haft.Error{Code: haft.CodeDenied, Message: "the sender does not act as that agent"}
	}
	if err == nil {
		err = s.may(p, haft.CallsWrite)
	}
	if err != nil {
		return nil, nil, err
	}
	t, l, err := s.begin(ctx, p, a, haft.NewMessage{Text: text, Budget: left}, parent)
	if haft.CodeOf(err) == haft.CodeConflict {
		err = &haft.Error{Code: haft.CodeConflict, Err: err, Message: "the agent still works on another message of " +
			"the same user, perhaps on the one that led to this message: go on without its answer, or try again later"}
	}
	return t, l, err
}

// sender returns the turn in which an agent sends a message, and what is left of its budget. Whoever makes calls can
// name any turn, so that it must be one of the same user and agent.
func (s *Service) sender(ctx context.Context, from haft.Principal, id haft.TurnID) (*haft.Turn, haft.Budget, error) {
	t, err := s.cfg.History.Turn(ctx, from.Org, id)
	switch {
	case err != nil && haft.CodeOf(err) != haft.CodeNotFound:
		return nil, haft.Budget{}, err
	case err != nil || t.Final() || t.Principal.Owner() != from.Owner() || from.Agent == "" ||
		string(t.Agent) != from.Agent:
		return nil, haft.Budget{}, &haft.Error{Code: haft.CodeInvalid,
			Message: "an agent sends messages within its turns only, and this call is in none that is under way"}
	case t.Depth >= maxDepth:
		return nil, haft.Budget{}, &haft.Error{Code: haft.CodeDenied, Message: fmt.Sprintf("this message came over %d "+
			"agents, which is the most: answer it without asking another one", t.Depth)}
	}
	s.mu.Lock()
	here := s.purseOf(id)
	s.mu.Unlock()
	if here == nil { // another process works on it
		here = &purse{most: lesser(t.Budget, s.cfg.Budget), used: t.Usage}
	}
	left, end := here.left()
	if end != nil {
		return nil, left, &haft.Error{Code: haft.CodeDenied,
			Message: "nothing is left of what this turn may take (" + string(end.stop) + "): answer now"}
	}
	return t, left, nil
}

// said is what an agent says to whoever sent it a message, or empty.
func said(m haft.Message) string {
	for _, c := range m.Calls {
		var in struct {
			Message string `json:"message"`
		}
		if c.Tool == sendMessage && json.Unmarshal(c.Args, &in) == nil && in.Message != "" {
			return in.Message
		}
	}
	if m.Role != haft.RoleAssistant || strings.TrimSpace(m.Text) == "" {
		return ""
	}
	return m.Text
}

// abandon ends a turn whose result nobody needs any more.
func (s *Service) abandon(ctx context.Context, t haft.Turn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settling)
	defer cancel()
	err := s.cfg.Claims.CancelTurn(ctx, t.Principal.Org, t.ID)
	s.cancelHere(ctx, t)
	if err != nil {
		s.cfg.Logger.Warn("a turn cannot be cancelled", "turn", t.ID, "error", err)
	}
}

// cancelHere ends a turn that is worked on or waits here, and returns what works on it, or nil.
func (s *Service) cancelHere(ctx context.Context, t haft.Turn) *run {
	s.mu.Lock()
	here := s.sharedOf(t.ID) != nil
	s.mu.Unlock()
	if !here {
		return nil
	}
	return s.maintain(ctx, s.cfg.Owner(), t, true)
}
