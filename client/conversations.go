package client

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"net/http"
	"strconv"

	"haft"
)

// Conversations are those with the agents of a server.
type Conversations struct{ api *transport }

var (
	_ haft.Conversations = (*Conversations)(nil)
	_ haft.Models        = (*Conversations)(nil)
)

// turn is a request about a turn.
func turn(method string, p haft.Principal, id haft.TurnID, rest string) query {
	return query{method: method, path: "/v1/turns", item: &item{"turn", string(id), rest}, as: p}
}

// Send implements [haft.Conversations]. The key must be allowed to act as the agent. When the connection is cut after
// the turn has begun, it reconnects and goes on after the last message; pieces of text that were missed do not come
// again. A message without a key is sent once: see [ErrMaybeDone].
func (c *Conversations) Send(ctx context.Context, p haft.Principal, agent string,
	m haft.NewMessage) iter.Seq2[haft.TurnEvent, error] {
	q := ofAgent(http.MethodPost, p, agent, "messages")
	q.body, q.again, q.header = m, m.Key != "", http.Header{"Accept": {"text/event-stream"}}
	f := &following{api: c.api, q: q, as: p, brief: true, at: -1}
	return f.events(ctx)
}

// Follow implements [haft.Conversations]. When the connection is cut it goes on after the last message, as Send does;
// it fails if there was none yet.
func (c *Conversations) Follow(ctx context.Context, p haft.Principal, id haft.TurnID) iter.Seq2[haft.TurnEvent, error] {
	f := &following{api: c.api, q: turn("", p, id, "/events"), as: p, at: -1}
	return f.events(ctx)
}

// A following follows a turn over one connection after the other.
type following struct {
	api   *transport
	q     query // for the next connection
	as    haft.Principal
	brief bool // it ends when the turn waits, too
	at    int64
	over  bool // the turn is, or nobody listens any more
}

// events yields what happens.
func (f *following) events(ctx context.Context) iter.Seq2[haft.TurnEvent, error] {
	return func(yield func(haft.TurnEvent, error) bool) {
		var failed error
		err := f.api.reconnect(ctx, func() (received bool, err error) {
			received, err = f.api.stream(ctx, f.q, func(m message) error { return f.take(m, yield) })
			if f.at < 0 && !errors.Is(err, errDone) { // it is not known where to go on
				failed, err = err, errDone
			}
			return received, err
		})
		if !f.over {
			yield(haft.TurnEvent{}, cmp.Or(err, failed, context.Cause(ctx)))
		}
	}
}

// take passes an event on, and notes where the next connection goes on.
func (f *following) take(m message, yield func(haft.TurnEvent, error) bool) error {
	if len(m.data) == 0 {
		return nil
	}
	var e haft.TurnEvent
	if err := m.read(&e); err != nil {
		return err
	}
	if e.Message != nil {
		if e.Message.Seq <= f.at {
			return nil // we have it
		}
		f.at = e.Message.Seq
		f.q = turn("", f.as, e.Message.Turn, "/events")
		f.q.values = params("after", strconv.FormatInt(f.at, 10))
	}
	if !yield(e, nil) || e.Turn != nil && (e.Turn.Final() || f.brief && e.Turn.Status == haft.TurnWaiting) {
		f.over = true
		return errDone
	}
	return nil
}

// Turn implements [haft.Conversations].
func (c *Conversations) Turn(ctx context.Context, p haft.Principal, id haft.TurnID) (*haft.Turn, error) {
	return get[haft.Turn](ctx, c.api, turn("", p, id, ""))
}

// Turns implements [haft.Conversations].
func (c *Conversations) Turns(ctx context.Context, p haft.Principal, agent string, after haft.TurnID,
	limit int) ([]haft.Turn, error) {
	q := ofAgent("", p, agent, "turns")
	q.values = params("after", string(after))
	return some[haft.Turn](ctx, c.api, q, limit)
}

// CancelTurn implements [haft.Conversations].
func (c *Conversations) CancelTurn(ctx context.Context, p haft.Principal, id haft.TurnID) error {
	q := turn(http.MethodPost, p, id, "/cancel")
	q.again = true
	return c.api.read(ctx, q, nil)
}

// Messages implements [haft.Conversations].
func (c *Conversations) Messages(ctx context.Context, p haft.Principal, agent string,
	f haft.MessageFilter) ([]haft.Message, error) {
	q := ofAgent("", p, agent, "messages")
	q.values = params("query", f.Query, "roles", commas(f.Roles), "turn", string(f.Turn), "since", instant(f.Since),
		"till", instant(f.Till), "after", number(f.After), "before", number(f.Before), "newest", yes(f.Newest, "true"))
	return some[haft.Message](ctx, c.api, q, f.Limit)
}

// number writes a number as a parameter; 0 is "".
func number(n int64) string { return yes(n != 0, strconv.FormatInt(n, 10)) }

// Models implements [haft.Models].
func (c *Conversations) Models(ctx context.Context, p haft.Principal) ([]haft.Model, error) {
	return whole[haft.Model](ctx, c.api, query{path: "/v1/models", as: p})
}
