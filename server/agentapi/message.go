package agentapi

import (
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
	"model writes, `message` is one that is kept, and its number is the id of the event; `result` and `event` are " +
	"of calls, and `turn` is how the turn stands. The last event has the turn, which has ended or waits for a " +
	"person. An event of the type `error` says why the stream ends before that.\n\n"

// messages registers the operations on messages.
func (a *Resource) messages(ops *server.Operations) {
	at := endpoints("messages", a.cfg.Conversations != nil, noConversations)
	send := at("POST /v1/agents/{agent}/messages", "send-message",
		"Send a message to an agent, and get what it does and answers", haft.CallsWrite)
	send.Conflicts, send.Also = true, []int{http.StatusAccepted}
	send.About = "The credential must be allowed to act as the agent. Who prefers text/event-stream gets what " +
		"happens as it happens; others get the turn and its messages when it has ended (200) or waits for a person " +
		"(202). The turn goes on if the connection is cut: see GET /v1/turns/{id}/events.\n\n" + about
	server.HandleFeed(ops, send, Replied{}, a.sendMessage)
	server.Handle(ops, at("GET /v1/agents/{agent}/messages", "list-messages",
		"List messages of the conversation of an agent, or search them", haft.CallsRead), a.listMessages)
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
			if after != "" && in.Query != "" {
				return nil, nil // a search has one page
			}
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
