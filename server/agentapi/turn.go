package agentapi

import (
	"cmp"
	"context"
	"iter"
	"strconv"

	"haft"
	"haft/server"
)

// TurnRef names a turn in a path.
type TurnRef struct {
	ID haft.TurnID `path:"id" maxLength:"200" doc:"The id of the turn."`
}

// turns registers the operations on turns.
func (a *Resource) turns(ops *server.Operations) {
	at := endpoints("turns", a.cfg.Conversations != nil, noConversations)
	server.Handle(ops, at("GET /v1/agents/{agent}/turns", "list-turns", "List the turns of an agent, oldest first",
		haft.CallsRead), a.listTurns)
	server.Handle(ops, at("GET /v1/turns/{id}", "show-turn", "Show a turn", haft.CallsRead),
		func(ctx context.Context, who server.Identity, in *TurnRef) (*shown[haft.Turn], error) {
			return show(a.cfg.Conversations.Turn(ctx, who.Principal, in.ID))
		})
	server.Handle(ops, at("POST /v1/turns/{id}/cancel", "cancel-turn",
		"Cancel a turn; one that has ended stays as it is", haft.CallsWrite),
		func(ctx context.Context, who server.Identity, in *TurnRef) (*struct{}, error) {
			return nil, a.cfg.Conversations.CancelTurn(ctx, who.Principal, in.ID)
		})
	events := at("GET /v1/turns/{id}/events", "watch-turn", "Watch a turn until it ends, as server-sent events",
		haft.CallsRead)
	events.About = about + "Who comes back names the number of the last message in `after` or Last-Event-ID and gets " +
		"every later message of the turn once, in order; pieces of text and events of calls that were missed are not " +
		"repeated. With `after=0` it begins with the first message of the turn, without it with what happens next."
	server.HandleFeed(ops, events, nil, a.watchTurn)
}

type listTurns struct {
	server.AgentRef
	server.Paging
	After haft.TurnID `query:"after" maxLength:"200" doc:"An id: only turns behind it are listed. The cursor of a page does the same."`
}

func (a *Resource) listTurns(ctx context.Context, who server.Identity, in *listTurns) (*server.Listed[haft.Turn],
	error) {
	return server.FetchPage(in.Paging, maxPage, "turns", func(t haft.Turn) string { return string(t.ID) },
		func(after string, limit int) ([]haft.Turn, error) {
			return a.cfg.Conversations.Turns(ctx, who.Principal, in.Agent, cmp.Or(haft.TurnID(after), in.After), limit)
		})
}

type watchTurn struct {
	TurnRef
	After     string `query:"after" maxLength:"20" pattern:"^[0-9]+$" doc:"The number of the last message that was seen."`
	LastEvent string `header:"Last-Event-ID" maxLength:"20" doc:"The same, as browsers send it."`
}

func (a *Resource) watchTurn(ctx context.Context, who server.Identity, in *watchTurn) (*server.Feed[haft.TurnEvent],
	error) {
	if err := server.Needs(ctx, haft.CallsRead, haft.AgentsRead); err != nil {
		return nil, err
	}
	feed := &server.Feed[haft.TurnEvent]{Who: who, Label: label,
		Items: func(ctx context.Context) iter.Seq2[haft.TurnEvent, error] {
			return a.cfg.Conversations.Follow(ctx, who.Principal, in.ID)
		}}
	text := cmp.Or(in.LastEvent, in.After) // a browser repeats the address, but updates Last-Event-ID
	if text == "" {
		return feed, nil
	}
	after, err := strconv.ParseInt(text, 10, 64)
	if err != nil || after < 0 {
		return nil, &haft.Error{Code: haft.CodeInvalid, Message: "after and Last-Event-ID are the number of a message"}
	}
	feed.After = after
	feed.Items = func(ctx context.Context) iter.Seq2[haft.TurnEvent, error] {
		return a.resume(ctx, who.Principal, in.ID, after)
	}
	return feed, nil
}

// resume yields the messages of a turn after the one of a number, and then what happens in it, each message once.
func (a *Resource) resume(ctx context.Context, p haft.Principal, id haft.TurnID,
	after int64) iter.Seq2[haft.TurnEvent, error] {
	return func(yield func(haft.TurnEvent, error) bool) {
		begun := false
		for e, err := range a.cfg.Conversations.Follow(ctx, p, id) {
			if err == nil && !begun && e.Turn != nil { // from this state on no message is missed
				begun = true
				if after, err = a.replay(ctx, p, *e.Turn, after, yield); after < 0 {
					return // nobody listens any more
				}
			}
			if err == nil && e.Message != nil {
				if e.Message.Seq <= after {
					continue // it was sent
				}
				after = e.Message.Seq
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// replay yields the messages that a turn has after the one of a number, and returns the number of the last one; -1
// means that nobody listens any more.
func (a *Resource) replay(ctx context.Context, p haft.Principal, t haft.Turn, after int64,
	yield func(haft.TurnEvent, error) bool) (int64, error) {
	for {
		list, err := a.cfg.Conversations.Messages(ctx, p, string(t.Agent), haft.MessageFilter{Turn: t.ID, After: after,
			Limit: maxPage})
		if err != nil || len(list) == 0 {
			return after, err
		}
		for i := range list {
			after = list[i].Seq
			if !yield(haft.TurnEvent{Message: &list[i]}, nil) {
				return -1, nil
			}
		}
	}
}
