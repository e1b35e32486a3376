package agentapi

import (
	"cmp"
	"context"
	"iter"
	"net/http"
	"strconv"
	"time"

	"haft"
	"haft/server"
)

// MessageBody is what somebody says to an agent.
type MessageBody struct {
	Text   string      `json:"text" minLength:"1" maxLength:"262144"`
	Model  string      `json:"model,omitempty" maxLength:"256" doc:"The name of a model for this turn, instead of that of the agent."`
	Budget haft.Budget `json:"budget,omitzero" doc:"What the turn may take, within what the server allows."`
	Key    string      `json:"idempotency_key,omitempty" maxLength:"256" doc:"Of several messages with one key the first counts."`
}

// Replied is a turn, and the messages of it.
type Replied struct {
	Turn     haft.Turn      `json:"turn"`
	Messages []haft.Message `json:"messages" nullable:"false"`
}

// about says how the events of a turn are streamed.
const about = "Each server-sent event has one field of what happens: `delta` and `thinking` are pieces of what the " +
	"model writes, `message` is one that is kept, and its number is the id of the event; `result` and `event` are of " +
	"calls, and `turn` is how the turn stands. The last event has the turn, which has ended or waits for a person. An " +
	"event of the type `error` says why the stream ends before that.\n\n"

// messages registers the operations on messages.
func (a *Resource) messages(ops *server.Operations) {
	at := server.Endpoint{Pattern: "POST /v1/agents/{agent}/messages", ID: "send-message", Tag: "messages",
		Summary: "Send a message to an agent, and get what it does and answers", Action: haft.CallsWrite,
		Missing: missing(a.cfg.Conversations != nil, noConversations), Conflicts: true, Also: []int{http.StatusAccepted},
		About: "The credential must be allowed to act as the agent. Who accepts text/event-stream gets what happens as " +
			"it happens; others get the turn and its messages when it has ended (200) or waits for a person (202). The " +
			"turn goes on if the connection is cut: see GET /v1/turns/{id}/events.\n\n" + about}
	server.HandleFeed(ops, at, Replied{}, a.sendMessage)
	at = server.Endpoint{Pattern: "GET /v1/agents/{agent}/messages", ID: "list-messages", Tag: "messages",
		Summary: "List messages of the conversation of an agent, or search them", Action: haft.CallsRead,
		Missing: at.Missing}
	server.Handle(ops, at, a.listMessages)
}

type sendMessage struct {
	server.AgentRef
	Body MessageBody
}

func (a *Resource) sendMessage(ctx context.Context, who server.Identity, in *sendMessage) (*server.Feed[haft.TurnEvent],
	error) {
	p, err := who.As(ctx, a.cfg.Agents, in.Agent)
	if err != nil {
		return nil, err
	}
	if err := server.Needs(ctx, haft.CallsWrite, haft.AgentsRead); err != nil {
		return nil, err
	}
	who.Principal = p
	b := in.Body
	return &server.Feed[haft.TurnEvent]{Who: who, Label: label, Whole: reply,
		Items: func(ctx context.Context) iter.Seq2[haft.TurnEvent, error] {
			return a.cfg.Conversations.Send(ctx, p, in.Agent, haft.NewMessage{Text: b.Text, Model: b.Model,
				Budget: b.Budget, Key: b.Key})
		}}, nil
}

// label names an event by the field that it has. The number of a message is its cursor.
func label(e haft.TurnEvent) (cursor int64, kind string) {
	switch {
	case e.Message != nil:
		return e.Message.Seq, "message"
	case e.Turn != nil:
		return 0, "turn"
	case e.Result != nil:
		return 0, "result"
	case e.Event != nil:
		return 0, "event"
	case e.Notice != "":
		return 0, "notice"
	case e.Thinking != "":
		return 0, "thinking"
	}
	return 0, "delta"
}

// reply makes one answer of what happens in a turn.
func reply(events iter.Seq2[haft.TurnEvent, error]) (*server.Whole, error) {
	out := Replied{Messages: []haft.Message{}}
	for e, err := range events {
		if err != nil {
			return nil, err
		}
		if e.Message != nil {
			out.Messages = append(out.Messages, *e.Message)
		}
		if e.Turn != nil {
			out.Turn = *e.Turn
		}
	}
	if out.Turn.ID == "" {
		return nil, &haft.Error{Code: haft.CodeUnavailable, Message: "the turn did not begin: try again"}
	}
	status := http.StatusOK
	if !out.Turn.Final() {
		status = http.StatusAccepted
	}
	return &server.Whole{Status: status, Location: "/v1/turns/" + string(out.Turn.ID), Body: out}, nil
}

type listMessages struct {
	server.AgentRef
	server.Paging
	Query  string      `query:"query" maxLength:"1000" doc:"Words; the messages that fit best come first, on one page."`
	Roles  []string    `query:"roles" maxItems:"4" enum:"user,assistant,tool,summary" doc:"Whose they are, with commas between."`
	Turn   haft.TurnID `query:"turn" maxLength:"200"`
	Since  time.Time   `query:"since"`
	Till   time.Time   `query:"till"`
	After  int64       `query:"after" minimum:"0" doc:"The number of a message: only those after it are listed."`
	Before int64       `query:"before" minimum:"0" doc:"The number of a message: only those before it are listed."`
	Newest bool        `query:"newest" doc:"The newest come first."`
}

func (a *Resource) listMessages(ctx context.Context, who server.Identity,
	in *listMessages) (*server.Listed[haft.Message], error) {
	if err := onePage(in.Query, in.Paging, false); err != nil {
		return nil, err
	}
	f := haft.MessageFilter{Query: in.Query, Turn: in.Turn, Since: in.Since, Till: in.Till, After: in.After,
		Before: in.Before, Newest: in.Newest}
	for _, role := range in.Roles {
		f.Roles = append(f.Roles, haft.MessageRole(role))
	}
	return server.FetchPage(in.Paging, maxPage, "messages",
		func(m haft.Message) string { return strconv.FormatInt(m.Seq, 10) },
		func(after string, limit int) ([]haft.Message, error) {
			if after != "" {
				seq, err := strconv.ParseInt(after, 10, 64)
				if err != nil || seq < 1 {
					return nil, &haft.Error{Code: haft.CodeInvalid, Message: "the cursor is not one of this list"}
				}
				if in.Newest {
					f.Before = seq
				} else {
					f.After = seq
				}
			}
			f.Limit = few(in.Query, limit)
			return a.cfg.Conversations.Messages(ctx, who.Principal, in.Agent, f)
		})
}

// TurnRef names a turn in a path.
type TurnRef struct {
	ID haft.TurnID `path:"id" maxLength:"200" doc:"The id of the turn."`
}

// turns registers the operations on turns.
func (a *Resource) turns(ops *server.Operations) {
	at := func(pattern, id, summary string, action haft.Action) server.Endpoint {
		return server.Endpoint{Pattern: pattern, ID: id, Tag: "turns", Summary: summary, Action: action,
			Missing: missing(a.cfg.Conversations != nil, noConversations)}
	}
	server.Handle(ops, at("GET /v1/agents/{agent}/turns", "list-turns", "List the turns of an agent, oldest first",
		haft.CallsRead), a.listTurns)
	server.Handle(ops, at("GET /v1/turns/{id}", "show-turn", "Show a turn", haft.CallsRead),
		func(ctx context.Context, who server.Identity, in *TurnRef) (*shown[haft.Turn], error) {
			return show(a.cfg.Conversations.Turn(ctx, who.Principal, in.ID))
		})
	server.Handle(ops, at("POST /v1/turns/{id}/cancel", "cancel-turn", "Cancel a turn; one that has ended stays as it is",
		haft.CallsWrite), func(ctx context.Context, who server.Identity, in *TurnRef) (*struct{}, error) {
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

func (a *Resource) listTurns(ctx context.Context, who server.Identity, in *listTurns) (*server.Listed[haft.Turn], error) {
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
