package letta

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"haft"
)

// goOn has a filter begin behind the message of a number.
func goOn(f *haft.MessageFilter, seq int64) {
	if f.Newest {
		f.Before = seq
	} else {
		f.After = seq
	}
}

// pendingCalls returns the calls that the turn of a message waits for. It remembers them in known.
func (h talkHandlers) pendingCalls(ctx context.Context, q *request, m haft.Message,
	known map[haft.TurnID]map[haft.CallID]bool) map[haft.CallID]bool {
	if len(m.Calls) == 0 {
		return nil
	}
	calls, ok := known[m.Turn]
	if ok {
		return calls
	}
	if t, err := h.talk.Turn(ctx, q.who.Principal, m.Turn); err == nil && t.Status == haft.TurnWaiting {
		f := h.newFlow(q, view{})
		f.turn, f.asked = *t, m
		calls = f.pending(ctx)
	}
	known[m.Turn] = calls
	return calls
}

// messageSeq returns the number of the message that a page begins at. Ids of messages begin with their time.
func (h talkHandlers) messageSeq(ctx context.Context, q *request, agent haft.AgentID, id string) (int64, error) {
	id = string(messageOf(haft.MessageID(id)))
	rest, ok := strings.CutPrefix(id, messageWord)
	micros, err := strconv.ParseInt(rest[:min(13, len(rest))], 16, 64)
	if !ok || err != nil || len(rest) < 13 {
		return 0, unprocessable("query before, after: expected the id of a message")
	}
	at := time.UnixMicro(micros)
	list, err := h.talk.Messages(ctx, q.who.Principal, string(agent), haft.MessageFilter{Since: at,
		Till: at.Add(time.Microsecond), Limit: pageSize})
	if err != nil {
		return 0, err
	}
	for _, m := range list {
		if string(m.ID) == id {
			return m.Seq, nil
		}
	}
	return 0, notFound("there is no message with that id")
}

// listMessages lists the messages of an agent, newest first unless the query says otherwise.
func (h talkHandlers) listMessages(ctx context.Context, q *request, a haft.Agent) (any, error) {
	return h.pageOfMessages(ctx, q, a.ID, haft.MessageFilter{}, "desc")
}

// turnMessages lists the messages of a turn, oldest first unless the query says otherwise.
func (h talkHandlers) turnMessages(ctx context.Context, q *request, t haft.Turn) (any, error) {
	return h.pageOfMessages(ctx, q, t.Agent, haft.MessageFilter{Turn: t.ID}, "asc")
}

// pageOfMessages lists messages. A page that would be empty because nothing of it is shown goes on: an empty one is
// the last.
func (h talkHandlers) pageOfMessages(ctx context.Context, q *request, agent haft.AgentID, f haft.MessageFilter,
	order string) (any, error) {
	query := q.URL.Query()
	if !query.Has("order") {
		query.Set("order", order)
	}
	pg, err := paging(query, pageSize)
	if err != nil {
		return nil, err
	}
	v, err := viewOf(query)
	if err != nil {
		return nil, err
	}
	f.Limit, f.Newest = min(pg.limit, pageSize), pg.oldest == (pg.before != "")
	if id := pg.before + pg.after; id != "" {
		seq, err := h.messageSeq(ctx, q, agent, id)
		if err != nil {
			return nil, err
		}
		goOn(&f, seq)
	}
	waits := map[haft.TurnID]map[haft.CallID]bool{}
	all, shown := []wireMessage{}, f.Limit
	for round := 0; ; round++ {
		if round == maxRounds {
			return nil, unprocessable("query include_return_message_types: none of many messages has such a type: " +
				"give before or after, or other types")
		}
		list, err := h.talk.Messages(ctx, q.who.Principal, string(agent), f)
		if err != nil {
			return nil, err
		}
		for _, m := range list {
			goOn(&f, m.Seq)
			part := v.show(m, h.pendingCalls(ctx, q, m, waits))
			if f.Newest {
				slices.Reverse(part)
			}
			all = append(all, part...)
			if len(part) > 0 {
				shown--
			}
			if shown == 0 {
				break
			}
		}
		if f.Limit = pageSize; len(all) > 0 || len(list) == 0 {
			break
		}
	}
	if pg.before != "" {
		slices.Reverse(all)
	}
	return all, nil
}

// searchBody is a search for messages.
type searchBody struct {
	Query *string  `json:"query"`
	Mode  *string  `json:"search_mode"`
	Agent *string  `json:"agent_id"`
	Roles []string `json:"roles"`
	Since *string  `json:"start_date"`
	Till  *string  `json:"end_date"`
	Limit *int     `json:"limit"`
}

// findMessages finds messages by their words, whatever mode is asked for: nothing is embedded here.
func (h talkHandlers) findMessages(ctx context.Context, q *request) ([]haft.Message, error) {
	var b searchBody
	if err := q.lenient(&b); err != nil {
		return nil, err
	}
	f := haft.MessageFilter{Limit: 50, Roles: []haft.MessageRole{haft.RoleUser, haft.RoleAssistant}}
	times := url.Values{}
	for name, text := range map[string]*string{"start_date": b.Since, "end_date": b.Till} {
		if text != nil {
			times.Set(name, *text)
		}
	}
	var err error
	f.Since, f.Till, err = span(times, "start_date", "end_date")
	setIf(&f.Query, b.Query)
	setIf(&f.Limit, b.Limit)
	switch {
	case err != nil:
		return nil, err
	case strings.TrimSpace(f.Query) == "":
		return nil, unprocessable("body query: it is missing")
	case f.Limit < 1 || f.Limit > pageSize:
		return nil, unprocessable("body limit: expected a number from 1 to %d", pageSize)
	}
	if len(b.Roles) > 0 {
		f.Roles = slices.DeleteFunc(f.Roles,
			func(r haft.MessageRole) bool { return !slices.Contains(b.Roles, string(r)) })
	}
	var ids []string
	if b.Agent != nil {
		ids = []string{*b.Agent}
	}
	agents, err := h.askedAgents(ctx, q, ids)
	if err != nil || len(f.Roles) == 0 {
		return nil, err
	}
	var all []haft.Message
	for _, a := range agents {
		list, err := h.talk.Messages(ctx, q.who.Principal, string(a.ID), f)
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	return all[:min(len(all), f.Limit)], nil
}

// searchMessages answers a search as clients from 1.0 on expect it.
func (h talkHandlers) searchMessages(ctx context.Context, q *request) (any, error) {
	list, err := h.findMessages(ctx, q)
	results := []map[string]any{}
	for _, m := range list {
		kind := userType
		if m.Role == haft.RoleAssistant {
			kind = assistantType
		}
		results = append(results, map[string]any{"message_id": m.ID, "message_type": kind, "content": m.Text,
			"created_at": m.Created.UTC(), "agent_id": agentID(m.Agent)})
	}
	return results, err
}

// oldSearchMessages answers a search as clients before 1.0 expect it.
func (h talkHandlers) oldSearchMessages(ctx context.Context, q *request) (any, error) {
	list, err := h.findMessages(ctx, q)
	results := []map[string]any{}
	for i, m := range list {
		results = append(results, map[string]any{"embedded_text": m.Text, "fts_rank": i + 1,
			"rrf_score": 1 / float64(61+i), "message": map[string]any{"id": m.ID, "role": m.Role,
				"content":    []map[string]any{{"type": "text", "text": m.Text}},
				"created_at": m.Created.UTC(), "agent_id": agentID(m.Agent)}})
	}
	return results, err
}
