package letta

import (
	"context"
	"iter"
	"maps"
	"slices"
	"time"

	"haft"
)

// An answerTo is the answer to the request about one call, or about all of the calls of a message.
type answerTo struct {
	call    string         // empty if it is for all calls of a request
	request haft.MessageID // may be empty if it names a call
	haft.Answer
}

// answers reads the answers of a message.
func (m sentMessage) answers() ([]answerTo, error) {
	list := m.Approvals
	if len(list) == 0 && m.Request != nil {
		list = []sentAnswer{m.sentAnswer}
	}
	var all []answerTo
	for _, one := range list {
		switch {
		case len(m.Approvals) > 0 && one.Kind != nil && *one.Kind != "approval":
			return nil, notHere("body approvals: tools run on the server here, and nobody else answers their calls")
		case one.Approve == nil || len(m.Approvals) > 0 && one.Call == "":
			return nil, unprocessable("body approvals: expected approve and tool_call_id")
		}
		a := answerTo{call: one.Call, Answer: haft.Answer{Approve: *one.Approve}}
		setIf(&a.Reason, one.Reason)
		if m.Request != nil {
			a.request = haft.MessageID(*m.Request)
		}
		if len(m.Approvals) == 0 {
			a.call = ""
		}
		all = append(all, a)
	}
	if len(all) == 0 {
		return nil, unprocessable("body approvals: they are missing")
	}
	return all, nil
}

// A waiting is a turn that waits for people, with the message of the model whose calls it waits for, and the number of
// its last message. Decided are the requests that are answered.
type waiting struct {
	turn    haft.Turn
	asked   haft.Message
	after   int64
	pending []haft.Approval
	decided []haft.ApprovalID

	answered map[string]bool // calls of asked
}

// pendingOf returns the requests that a turn waits for.
func (h talkHandlers) pendingOf(ctx context.Context, q *request, t haft.Turn) ([]haft.Approval, error) {
	var all []haft.Approval
	for _, id := range t.Approvals {
		a, err := h.approver.Approval(ctx, q.who.Principal, id)
		if err != nil {
			return nil, err
		}
		all = append(all, *a)
	}
	return all, nil
}

// waitingTurns returns the turns of an agent that wait for people.
func (h talkHandlers) waitingTurns(ctx context.Context, q *request, a haft.Agent) ([]waiting, error) {
	open, err := h.openTurns(ctx, q, a)
	if err != nil {
		return nil, err
	}
	var all []waiting
	for _, t := range open {
		if t.Status != haft.TurnWaiting {
			continue
		}
		w := waiting{turn: t}
		if w.pending, err = h.pendingOf(ctx, q, t); err != nil {
			return nil, err
		}
		list, err := h.talk.Messages(ctx, q.who.Principal, string(a.ID), haft.MessageFilter{Turn: t.ID, Newest: true,
			Limit: pageSize})
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(list, func(m haft.Message) bool { return m.Role == haft.RoleAssistant })
		if i >= 0 { // a message has fewer calls than are read
			w.asked, w.after, w.answered = list[i], list[0].Seq, map[string]bool{}
			for _, m := range list[:i] {
				w.answered[m.Answers] = true
			}
			all = append(all, w)
		}
	}
	return all, nil
}

// requests returns the requests of a turn that an answer is for.
func (w waiting) requests(to answerTo) (ids []haft.ApprovalID) {
	if to.request != "" && messageOf(to.request) != w.asked.ID {
		return nil
	}
	var calls []wireCall
	for _, c := range w.asked.Calls {
		i := slices.IndexFunc(w.pending, func(a haft.Approval) bool { return a.Call == c.Call })
		if i >= 0 && (to.call == "" || to.call == string(c.Call)) {
			ids, calls = append(ids, w.pending[i].ID), append(calls, wireCall{ID: string(c.Call)})
		}
	}
	if to.call == "" && to.request != requestID(w.asked.ID, calls) {
		return nil
	}
	return ids
}

// shown returns the ids of the calls that clients know of: those that have an answer or a request.
func (w waiting) shown() map[string]bool {
	ids := maps.Clone(w.answered)
	for _, c := range w.asked.Calls {
		if slices.ContainsFunc(w.pending, func(a haft.Approval) bool { return a.Call == c.Call }) {
			ids[c.ID] = true
		}
	}
	return ids
}

// answer answers the requests of a turn, and returns the turn.
func (h talkHandlers) answer(ctx context.Context, q *request, a haft.Agent, answers []answerTo) (*waiting, error) {
	turns, err := h.waitingTurns(ctx, q, a)
	if err != nil {
		return nil, err
	}
	var found *waiting
	how, used := map[haft.ApprovalID]haft.Answer{}, map[int]bool{}
	for i := range turns {
		w := &turns[i]
		for n, to := range answers {
			for _, id := range w.requests(to) {
				switch _, twice := how[id]; {
				case twice:
					return nil, unprocessable("body approvals: a call is answered twice")
				case found != nil && found != w:
					return nil, conflict("the calls belong to several runs: answer those of one run at a time")
				}
				found, how[id], used[n] = w, to.Answer, true
			}
		}
	}
	if len(used) < len(answers) {
		return nil, invalid("no call with that id waits for an approval: it may have been answered already")
	}
	for id, answer := range how {
		if _, err := h.approver.Decide(ctx, q.who.Principal, id, answer); err != nil {
			return nil, err
		}
		found.decided = append(found.decided, id)
	}
	return found, nil
}

// The pauses between looks at a turn.
const (
	firstLook = 50 * time.Millisecond
	lastLook  = time.Second
)

// watch yields what happens in a turn after the message w.after, until it ends or waits for a request that is not
// decided. The first event says nothing, so that a stream can begin. It reads what is kept, so that it does not matter
// which process works on the turn, or since when.
func (h talkHandlers) watch(ctx context.Context, p haft.Principal, w waiting) iter.Seq2[haft.TurnEvent, error] {
	return func(yield func(haft.TurnEvent, error) bool) {
		after := w.after
		if !yield(haft.TurnEvent{}, nil) {
			return
		}
		for pause := firstLook; ; pause = min(2*pause, lastLook) {
			t, err := h.talk.Turn(ctx, p, w.turn.ID) // first: its messages are not missed then
			if err != nil {
				yield(haft.TurnEvent{}, err)
				return
			}
			for list := make([]haft.Message, 1); len(list) > 0; {
				if list, err = h.talk.Messages(ctx, p, string(t.Agent), haft.MessageFilter{Turn: t.ID, After: after,
					Limit: pageSize}); err != nil {
					yield(haft.TurnEvent{}, err)
					return
				}
				for _, m := range list {
					if after, pause = m.Seq, firstLook; !yield(haft.TurnEvent{Message: &m}, nil) {
						return
					}
				}
			}
			if t.Final() || t.Status == haft.TurnWaiting && slices.ContainsFunc(t.Approvals,
				func(id haft.ApprovalID) bool { return !slices.Contains(w.decided, id) }) {
				yield(haft.TurnEvent{Turn: t}, nil)
				return
			}
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				yield(haft.TurnEvent{}, context.Cause(ctx))
				return
			}
		}
	}
}
