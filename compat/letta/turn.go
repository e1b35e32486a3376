package letta

import (
	"context"
	"slices"
	"strings"
	"time"

	"haft"
)

// The bounds of reading conversations.
const (
	maxAgents  = 20   // whose runs and messages one request looks at
	maxTurns   = 20   // of an agent that one request looks at for those that have not ended
	maxLooked  = 1000 // turns of an agent that one list looks at
	maxPending = 100  // requests of an agent that one request looks at
	maxRounds  = 100  // lists of messages that one page looks through
)

// A wireRun is a turn in Letta's form. One that waits for a person has completed there, and goes on with the answer.
type wireRun struct {
	ID         haft.TurnID    `json:"id"`
	Agent      string         `json:"agent_id"`
	Status     string         `json:"status"`
	Stop       *string        `json:"stop_reason"`
	Created    time.Time      `json:"created_at"`
	Completed  *time.Time     `json:"completed_at"`
	Background bool           `json:"background"`
	Duration   *int64         `json:"total_duration_ns"`
	Metadata   map[string]any `json:"metadata"`
}

// showRun converts a turn.
func showRun(t haft.Turn) wireRun {
	w := wireRun{ID: t.ID, Agent: agentID(t.Agent), Status: string(t.Status), Stop: stopOf(t), Created: t.Created.UTC(),
		Background: true, Metadata: map[string]any{"haft": map[string]any{"status": t.Status, "model": t.Model}}}
	if t.Status == haft.TurnWaiting {
		w.Status = string(haft.TurnCompleted)
	}
	if !t.Ended.IsZero() {
		at, took := t.Ended.UTC(), int64(t.Ended.Sub(t.Created))
		w.Completed, w.Duration = &at, &took
	}
	if t.Error != "" {
		w.Metadata["error"] = t.Error
	}
	return w
}

// pathTurn is the turn that the path names.
func (h talkHandlers) pathTurn(ctx context.Context, q *request) (*haft.Turn, error) {
	return h.talk.Turn(ctx, q.who.Principal, haft.TurnID(q.PathValue("run")))
}

func (h talkHandlers) showTurn(_ context.Context, _ *request, t haft.Turn) (any, error) {
	return showRun(t), nil
}

func (h talkHandlers) turnUsage(_ context.Context, _ *request, t haft.Turn) (any, error) {
	u := t.Usage
	return map[string]any{"completion_tokens": u.Output, "prompt_tokens": u.Input, "total_tokens": u.Input + u.Output,
		"prompt_tokens_details": map[string]int{"cached_tokens": u.Cached}}, nil
}

// turnStream streams what happens in a turn after the message that starting_after names by its number.
func (h talkHandlers) turnStream(ctx context.Context, q *request, t haft.Turn) (any, error) {
	var b struct {
		After *int64 `json:"starting_after"`
		Pings *bool  `json:"include_pings"`
	}
	if err := q.lenient(&b); err != nil {
		return nil, err
	}
	w := waiting{turn: t}
	setIf(&w.after, b.After)
	ctx, cancel := context.WithCancel(ctx)
	return h.stream(ctx, cancel, h.newFlow(q, view{}), h.watch(ctx, q.who.Principal, w), b.Pings != nil && *b.Pings)
}

// pendingTurns returns the turns of an agent that wait for requests which the client may see, oldest first.
func (h talkHandlers) pendingTurns(ctx context.Context, q *request, a haft.Agent) (ids []haft.TurnID, err error) {
	for one, err := range h.approver.Approvals(ctx, q.who.Principal, haft.ApprovalFilter{Agent: string(a.ID),
		Limit: maxPending}) {
		if haft.CodeOf(err) == haft.CodeDenied {
			break // whoever sees no requests sees the last messages
		}
		if err != nil {
			return nil, err
		}
		list, err := h.talk.Messages(ctx, q.who.Principal, string(a.ID), haft.MessageFilter{Newest: true,
			Roles: []haft.MessageRole{haft.RoleAssistant}, Till: one.Created.Add(time.Millisecond), Limit: pageSize})
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(list, func(m haft.Message) bool {
			return slices.ContainsFunc(m.Calls, func(c haft.ToolCall) bool { return c.Call == one.Call })
		})
		if i >= 0 {
			ids = append(ids, list[i].Turn)
		}
	}
	return ids, nil
}

// openTurns returns the turns of an agent that have not ended: those of the last messages, and those that wait for
// requests, however long ago.
func (h talkHandlers) openTurns(ctx context.Context, q *request, a haft.Agent) ([]haft.Turn, error) {
	list, err := h.talk.Messages(ctx, q.who.Principal, string(a.ID), haft.MessageFilter{Newest: true, Limit: pageSize})
	if err != nil {
		return nil, err
	}
	ids, err := h.pendingTurns(ctx, q, a)
	if err != nil {
		return nil, err
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	most := len(ids) + maxTurns
	for _, m := range list {
		if len(ids) < most && !slices.Contains(ids, m.Turn) {
			ids = append(ids, m.Turn)
		}
	}
	var open []haft.Turn
	for _, id := range ids {
		t, err := h.talk.Turn(ctx, q.who.Principal, id)
		if isNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if !t.Final() {
			open = append(open, *t)
		}
	}
	return open, nil
}

// cancelTurns cancels the turns of an agent that a body names, or all that have not ended.
func (h talkHandlers) cancelTurns(ctx context.Context, q *request, a haft.Agent) (any, error) {
	var b struct {
		Runs []haft.TurnID `json:"run_ids"`
	}
	if err := q.lenient(&b); err != nil {
		return nil, err
	}
	if len(b.Runs) == 0 {
		open, err := h.openTurns(ctx, q, a)
		if err != nil {
			return nil, err
		}
		for _, t := range open {
			b.Runs = append(b.Runs, t.ID)
		}
	}
	states := map[haft.TurnID]string{}
	for _, id := range b.Runs {
		t, err := h.talk.Turn(ctx, q.who.Principal, id)
		if err == nil && t.Agent != a.ID {
			err = notFound("the agent has no such run")
		}
		if err == nil {
			err = h.talk.CancelTurn(ctx, q.who.Principal, id)
		}
		if err != nil {
			return nil, err
		}
		states[id] = "cancelled"
	}
	return states, nil
}

// askedAgents returns the agents of these ids, or all if there are none.
func (h talkHandlers) askedAgents(ctx context.Context, q *request, ids []string) ([]haft.Agent, error) {
	var all []haft.Agent
	if len(ids) > maxAgents {
		return nil, unprocessable("agent_ids: expected at most %d", maxAgents)
	}
	for _, id := range ids {
		a, err := h.agents.findAgent(ctx, q.who.Principal, id)
		if err != nil {
			return nil, err
		}
		all = append(all, *a)
	}
	if len(all) > 0 {
		return all, nil
	}
	for a, err := range h.agents.agents.AgentList(ctx, q.who.Principal, haft.AgentFilter{Limit: maxAgents + 1}) {
		if err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	if len(all) > maxAgents {
		return nil, unprocessable("agent_id: there are more than %d agents: name one", maxAgents)
	}
	return all, nil
}

// listRuns lists turns, newest first unless the query says otherwise.
func (h talkHandlers) listRuns(ctx context.Context, q *request) (any, error) {
	query := q.URL.Query()
	pg, err := paging(query, pageSize)
	if err != nil {
		return nil, err
	}
	active, err := boolParam(query, "active")
	if err != nil {
		return nil, err
	}
	if ascending, err := boolParam(query, "ascending"); err != nil {
		return nil, err
	} else if ascending {
		pg.oldest = true
	}
	active = active || strings.HasSuffix(q.Pattern, "/active")
	fits := func(r wireRun) bool {
		of := func(name, text string) bool { return query.Get(name) == "" || slices.Contains(query[name], text) }
		stop := ""
		setIf(&stop, r.Stop)
		return of("statuses", r.Status) && of("stop_reason", stop) && (!active || r.Status == string(haft.TurnRunning))
	}
	agents, err := h.askedAgents(ctx, q, slices.Concat(listParam(query, "agent_id"), listParam(query, "agent_ids")))
	if err != nil {
		return nil, err
	}
	f := haft.MessageFilter{Roles: []haft.MessageRole{haft.RoleUser}, Newest: !pg.oldest, Limit: pageSize}
	if err := h.fromRun(ctx, q, pg, &f); err != nil {
		return nil, err
	}
	var all []item[wireRun]
	for _, a := range agents {
		list, err := h.turnsOf(ctx, q, a, f, pg.limit, fits)
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	slices.SortFunc(all, item[wireRun].compare)
	if f.Newest {
		slices.Reverse(all)
	}
	part := make([]wireRun, 0, pg.limit)
	for _, i := range all[:min(len(all), pg.limit)] {
		part = append(part, i.value)
	}
	if pg.before != "" {
		slices.Reverse(part)
	}
	return part, nil
}

// fromRun has a filter begin behind the turn that a page follows, or before the one that it precedes.
func (h talkHandlers) fromRun(ctx context.Context, q *request, pg page, f *haft.MessageFilter) error {
	id := haft.TurnID(pg.after + pg.before)
	if id == "" {
		return nil
	}
	if pg.before != "" {
		f.Newest = !f.Newest
	}
	t, err := h.talk.Turn(ctx, q.who.Principal, id)
	if err != nil {
		return err
	}
	list, err := h.talk.Messages(ctx, q.who.Principal, string(t.Agent), haft.MessageFilter{Turn: id, Limit: 1})
	if err != nil || len(list) == 0 {
		return err
	}
	if f.Newest {
		f.Till = list[0].Created
	} else {
		f.Since = list[0].Created.Add(time.Microsecond)
	}
	return nil
}

// turnsOf returns turns of an agent that fit, in the order of a filter: every turn begins with a message of a user.
func (h talkHandlers) turnsOf(ctx context.Context, q *request, a haft.Agent, f haft.MessageFilter, limit int,
	fits func(wireRun) bool) (all []item[wireRun], err error) {
	for looked := 0; looked < maxLooked; {
		list, err := h.talk.Messages(ctx, q.who.Principal, string(a.ID), f)
		if err != nil {
			return nil, err
		}
		for _, m := range list {
			goOn(&f, m.Seq)
			t, err := h.talk.Turn(ctx, q.who.Principal, m.Turn)
			if isNotFound(err) {
				continue
			}
			if err != nil {
				return nil, err
			}
			if r := showRun(*t); fits(r) {
				all = append(all, item[wireRun]{m.Created, string(r.ID), r})
			}
			if len(all) == limit {
				return all, nil
			}
		}
		if looked += len(list); len(list) == 0 {
			break
		}
	}
	return all, nil
}

// turnSteps lists the requests to the model of a turn.
func (h talkHandlers) turnSteps(ctx context.Context, q *request, t haft.Turn) (any, error) {
	pg, err := paging(q.URL.Query(), pageSize)
	if err != nil {
		return nil, err
	}
	var all []item[map[string]any]
	f := haft.MessageFilter{Turn: t.ID, Roles: []haft.MessageRole{haft.RoleAssistant}, Limit: pageSize}
	for more := true; more; {
		list, err := h.talk.Messages(ctx, q.who.Principal, string(t.Agent), f)
		if err != nil {
			return nil, err
		}
		for _, m := range list {
			f.After = m.Seq
			id := stepID(m.ID)
			all = append(all, item[map[string]any]{m.Created, id, map[string]any{"id": id, "run_id": t.ID,
				"agent_id": agentID(t.Agent), "model": t.Model, "status": "success", "messages": []any{}}})
		}
		more = len(list) > 0 && len(all) < maxLooked
	}
	return cut(pg, all, among(all, notFound("the run has no step with that id")))
}
