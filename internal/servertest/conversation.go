package servertest

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"haft"
)

// Conversations are [haft.Conversations] without a model: an agent answers "you said" and the text. The text says what
// happens else: "fail" is refused, "crash" breaks after a piece of the answer, "ask" waits for a person, and "hold"
// goes on when Finish is called.
type Conversations struct {
	Agents haft.Agents
	// Left gets a turn when somebody stops listening to it before its end. It may be nil.
	Left chan haft.TurnID

	mu       sync.Mutex
	turns    []haft.Turn
	messages []haft.Message
	changed  chan struct{}
}

// agent returns the agent of that name or id.
func (c *Conversations) agent(ctx context.Context, p haft.Principal, ref string) (*haft.Agent, error) {
	as := p.Agent
	p.Agent = ""
	a, err := c.Agents.Agent(ctx, p, ref)
	if err == nil && as != "" && as != string(a.ID) {
		err = &haft.Error{Code: haft.CodeNotFound, Message: "there is no such agent"}
	}
	return a, err
}

// turn returns a turn that p sees.
func (c *Conversations) turn(p haft.Principal, id haft.TurnID) (*haft.Turn, error) {
	for i, t := range c.turns {
		if t.ID == id && t.Principal.Org == p.Org &&
			(t.Principal.Owner() == p.Owner() || slices.Contains(p.Roles, haft.RoleAdmin)) {
			return &c.turns[i], nil
		}
	}
	return nil, &haft.Error{Code: haft.CodeNotFound, Message: "there is no such turn"}
}

// add keeps a message of a turn.
func (c *Conversations) add(t haft.Turn, role haft.MessageRole, text string) haft.TurnEvent {
	m := haft.Message{ID: haft.MessageID(fmt.Sprintf("message-%d", len(c.messages)+1)), Agent: t.Agent, Turn: t.ID,
		Seq: int64(len(c.messages) + 1), Role: role, Text: text, Created: time.Now()}
	c.messages = append(c.messages, m)
	return haft.TurnEvent{Message: &m}
}

// end ends a turn, or has it wait, and returns what is seen of that.
func (c *Conversations) end(id haft.TurnID, status haft.TurnStatus, stop haft.StopReason) haft.TurnEvent {
	i := slices.IndexFunc(c.turns, func(t haft.Turn) bool { return t.ID == id })
	c.turns[i].Status, c.turns[i].Stop = status, stop
	if c.turns[i].Final() {
		c.turns[i].Ended = time.Now()
	}
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
	t := c.turns[i]
	return haft.TurnEvent{Turn: &t}
}

// Finish answers in a turn that holds, and ends it.
func (c *Conversations) Finish(id haft.TurnID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.turns {
		if t.ID == id && !t.Final() {
			c.add(t, haft.RoleAssistant, "you said hold")
			c.end(id, haft.TurnCompleted, haft.StopEnd)
		}
	}
}

// Send implements [haft.Conversations].
func (c *Conversations) Send(ctx context.Context, p haft.Principal, agent string,
	m haft.NewMessage) iter.Seq2[haft.TurnEvent, error] {
	return func(yield func(haft.TurnEvent, error) bool) {
		a, err := c.agent(ctx, p, agent)
		switch {
		case err == nil && p.Agent == "":
			err = &haft.Error{Code: haft.CodeDenied, Message: "only who acts as the agent sends messages to it"}
		case err == nil && m.Text == "fail":
			err = &haft.Error{Code: haft.CodeRateLimited, Message: "too many turns are under way"}
		}
		if err != nil {
			yield(haft.TurnEvent{}, err)
			return
		}
		c.mu.Lock()
		t := haft.Turn{ID: haft.TurnID(fmt.Sprintf("run-%d", len(c.turns)+1)), Agent: a.ID, Status: haft.TurnRunning,
			Model: cmp.Or(m.Model, "small"), Budget: m.Budget, Created: time.Now(), Principal: p}
		c.turns = append(c.turns, t)
		first := c.add(t, haft.RoleUser, m.Text)
		c.mu.Unlock()
		if !yield(first, nil) || !yield(haft.TurnEvent{Delta: "you said"}, nil) {
			return
		}
		if m.Text == "crash" {
			yield(haft.TurnEvent{}, fmt.Errorf("the disk is full"))
			return
		}
		if m.Text == "hold" {
			c.follow(ctx, t, first.Message.Seq, yield)
			return
		}
		c.mu.Lock()
		answer := c.add(t, haft.RoleAssistant, "you said "+m.Text)
		status, stop := haft.TurnCompleted, haft.StopEnd
		if m.Text == "ask" {
			status, stop = haft.TurnWaiting, ""
		}
		last := c.end(t.ID, status, stop)
		c.mu.Unlock()
		if yield(answer, nil) {
			yield(last, nil)
		}
	}
}

// follow yields the messages of a turn after the one of a number, and its end.
func (c *Conversations) follow(ctx context.Context, t haft.Turn, after int64,
	yield func(haft.TurnEvent, error) bool) {
	for {
		c.mu.Lock()
		if c.changed == nil {
			c.changed = make(chan struct{})
		}
		changed, now := c.changed, *c.find(t.ID)
		messages := slices.Clone(c.messages)
		c.mu.Unlock()
		for _, m := range messages {
			if m.Turn == t.ID && m.Seq > after {
				if after = m.Seq; !yield(haft.TurnEvent{Message: &m}, nil) {
					return
				}
			}
		}
		if now.Final() {
			yield(haft.TurnEvent{Turn: &now}, nil)
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			if c.Left != nil {
				c.Left <- t.ID
			}
			yield(haft.TurnEvent{}, context.Cause(ctx))
			return
		}
	}
}

// find returns a turn that there is.
func (c *Conversations) find(id haft.TurnID) *haft.Turn {
	return &c.turns[slices.IndexFunc(c.turns, func(t haft.Turn) bool { return t.ID == id })]
}

// Follow implements [haft.Conversations].
func (c *Conversations) Follow(ctx context.Context, p haft.Principal,
	id haft.TurnID) iter.Seq2[haft.TurnEvent, error] {
	return func(yield func(haft.TurnEvent, error) bool) {
		t, err := c.Turn(ctx, p, id)
		if err != nil {
			yield(haft.TurnEvent{}, err)
			return
		}
		c.mu.Lock()
		after := int64(0)
		for _, m := range c.messages {
			if m.Turn == id {
				after = m.Seq
			}
		}
		c.mu.Unlock()
		if yield(haft.TurnEvent{Turn: t}, nil) && !t.Final() {
			c.follow(ctx, *t, after, yield)
		}
	}
}

// Turn implements [haft.Conversations].
func (c *Conversations) Turn(_ context.Context, p haft.Principal, id haft.TurnID) (*haft.Turn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t, err := c.turn(p, id)
	if err != nil {
		return nil, err
	}
	seen := *t
	return &seen, nil
}

// Turns implements [haft.Conversations].
func (c *Conversations) Turns(ctx context.Context, p haft.Principal, agent string, after haft.TurnID,
	limit int) (list []haft.Turn, err error) {
	a, err := c.agent(ctx, p, agent)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.turns {
		if _, err := c.turn(p, t.ID); err == nil && t.Agent == a.ID && t.ID > after && len(list) < limit {
			list = append(list, t)
		}
	}
	return list, nil
}

// CancelTurn implements [haft.Conversations].
func (c *Conversations) CancelTurn(_ context.Context, p haft.Principal, id haft.TurnID) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	t, err := c.turn(p, id)
	if err == nil && !t.Final() {
		c.end(id, haft.TurnCancelled, haft.StopCancelled)
	}
	return err
}

// Messages implements [haft.Conversations].
func (c *Conversations) Messages(ctx context.Context, p haft.Principal, agent string,
	f haft.MessageFilter) (list []haft.Message, err error) {
	a, err := c.agent(ctx, p, agent)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	all := slices.Clone(c.messages)
	if f.Newest {
		slices.Reverse(all)
	}
	for _, m := range all {
		if _, err := c.turn(p, m.Turn); err == nil && m.Agent == a.ID && m.Seq > f.After && len(list) < f.Limit &&
			(f.Before == 0 || m.Seq < f.Before) && (f.Turn == "" || m.Turn == f.Turn) &&
			(len(f.Roles) == 0 || slices.Contains(f.Roles, m.Role)) && strings.Contains(m.Text, f.Query) &&
			!m.Created.Before(f.Since) && (f.Till.IsZero() || m.Created.Before(f.Till)) {
			list = append(list, m)
		}
	}
	return list, nil
}

// Models are two models, of which one has no key.
type Models struct{}

// Models implements [haft.Models].
func (Models) Models(context.Context, haft.Principal) ([]haft.Model, error) {
	return []haft.Model{{Name: "small", Model: "vendor-small-1", Default: true},
		{Name: "large", Model: "vendor-large-1", Unavailable: "its key is missing"}}, nil
}
