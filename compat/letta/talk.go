package letta

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"time"

	"haft"
	"haft/server"
)

// talkHandlers serve the routes of messages and runs. A run is a turn, and has its id.
type talkHandlers struct {
	talk      haft.Conversations
	approver  haft.Approver
	agents    agentHandlers
	heartbeat time.Duration
}

// messageBody is what is said to an agent.
type messageBody struct {
	view
	Input       json.RawMessage   `json:"input"`
	Messages    []sentMessage     `json:"messages"`
	MaxSteps    *int              `json:"max_steps"`
	Model       *string           `json:"override_model"`
	System      *string           `json:"override_system"`
	ClientTools []json.RawMessage `json:"client_tools"`
	Callback    *string           `json:"callback_url"`
	Streaming   *bool             `json:"streaming"`
	Tokens      *bool             `json:"stream_tokens"`
	Pings       *bool             `json:"include_pings"`
}

// A sentMessage is a message of a user, or answers to requests for approval.
type sentMessage struct {
	Type    *string         `json:"type"`
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
	OTID    *string         `json:"otid"`

	Approvals []sentAnswer `json:"approvals"`
	Request   *string      `json:"approval_request_id"`
	sentAnswer
}

// A sentAnswer is the answer to one request for approval.
type sentAnswer struct {
	Kind    *string `json:"type"`
	Call    string  `json:"tool_call_id"`
	Approve *bool   `json:"approve"`
	Reason  *string `json:"reason"`
}

// notHere is the error for what Letta has and Haft has not.
func notHere(format string, args ...any) error {
	return &httpError{http.StatusNotImplemented, fmt.Sprintf(format, args...)}
}

// check reports what of a body is not possible here.
func (b messageBody) check() error {
	switch {
	case len(b.ClientTools) > 0:
		return notHere("body client_tools: tools run on the server: add the tool or its MCP server, with approvals")
	case b.System != nil:
		return notHere("body override_system: an agent has its own instructions: change the system of the agent")
	case b.Callback != nil:
		return notHere("body callback_url: add a webhook instead, see Webhooks in docs/api.md")
	case b.MaxSteps != nil && *b.MaxSteps < 1:
		return unprocessable("body max_steps: expected a number from 1 on")
	case isSet(b.Input) == (len(b.Messages) > 0):
		return unprocessable("body input, messages: expected one of them")
	}
	return nil
}

// textOf returns the text of a content, which is a text or a list of parts.
func textOf(raw json.RawMessage) (string, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text, nil
	}
	var parts []struct {
		Type *string `json:"type"`
		Text *string `json:"text"`
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return "", unprocessable("body content: expected a text, or a list of parts")
	}
	var all []string
	for _, p := range parts {
		if p.Type != nil && *p.Type != "text" || p.Text == nil {
			return "", notHere("body content: only text can be sent to an agent here")
		}
		all = append(all, *p.Text)
	}
	return strings.Join(all, "\n"), nil
}

// read returns the message of a body, or the answers to requests.
func (b messageBody) read(q *request) (m haft.NewMessage, answers []answerTo, err error) {
	if err := b.check(); err != nil {
		return m, nil, err
	}
	m.Key = q.Header.Get("Idempotency-Key")
	setIf(&m.Budget.Steps, b.MaxSteps)
	setIf(&m.Model, b.Model)
	if isSet(b.Input) {
		m.Text, err = textOf(b.Input)
		return m, nil, err
	}
	var texts []string
	for _, one := range b.Messages {
		kind := "message"
		setIf(&kind, one.Type)
		switch {
		case kind == "approval":
			list, err := one.answers()
			if err != nil {
				return m, nil, err
			}
			answers = append(answers, list...)
		case kind == "tool_return":
			return m, nil, notHere("body messages: tools run on the server here, and nobody else answers their calls")
		case kind == "message" && (one.Role == "system" || one.Role == "assistant"):
			return m, nil, notHere("body messages: only users send them: change the system of the agent, or a block")
		case kind != "message" || one.Role != "user":
			return m, nil, unprocessable("body messages: expected messages of the role user, or approvals")
		default:
			text, err := textOf(one.Content)
			if err != nil {
				return m, nil, err
			}
			texts = append(texts, text)
			if one.OTID != nil && *one.OTID != "" {
				m.Key = cmp.Or(m.Key, "otid:"+*one.OTID)
			}
		}
	}
	if len(texts) > 0 && len(answers) > 0 {
		return m, nil, unprocessable("body messages: answer first, and say more when the run has ended")
	}
	m.Text = strings.Join(texts, "\n\n")
	return m, answers, nil
}

// begin starts a turn with the message of a body, or goes on with the one whose requests it answers. The events end
// when the turn does, or waits.
func (h talkHandlers) begin(ctx context.Context, q *request, a haft.Agent,
	b messageBody) (iter.Seq2[haft.TurnEvent, error], *flow, error) {
	m, answers, err := b.read(q)
	if err != nil {
		return nil, nil, err
	}
	f := h.newFlow(q, b.view)
	f.tokens = b.Tokens != nil && *b.Tokens
	if len(answers) > 0 {
		w, err := h.answer(ctx, q, a, answers)
		if err != nil {
			return nil, nil, err
		}
		f.turn.ID, f.asked, f.shown = w.turn.ID, w.asked, w.shown()
		return h.watch(ctx, q.who.Principal, *w), f, nil
	}
	p, err := q.who.As(ctx, h.agents.agents, string(a.ID))
	if err != nil {
		return nil, nil, err
	}
	return h.talk.Send(ctx, p, string(a.ID), m), f, nil
}

// newFlow makes a flow for a request.
func (h talkHandlers) newFlow(q *request, v view) *flow {
	return &flow{view: v, shown: map[string]bool{}, answered: map[string]bool{}, waits: func(ctx context.Context,
		t haft.Turn) map[haft.CallID]bool {
		waiting, err := h.pendingOf(ctx, q, t)
		if err != nil {
			return nil
		}
		calls := map[haft.CallID]bool{}
		for _, a := range waiting {
			calls[a.Call] = true
		}
		return calls
	}}
}

// sendMessage says something to an agent and answers when its turn has ended, or as a stream.
func (h talkHandlers) sendMessage(ctx context.Context, q *request, a haft.Agent) (any, error) {
	var b messageBody
	if err := q.lenient(&b); err != nil {
		return nil, err
	}
	if b.Streaming != nil && *b.Streaming {
		return h.sendStream(ctx, q, a, b)
	}
	events, f, err := h.begin(ctx, q, a, b)
	if err != nil {
		return nil, err
	}
	all := []wireMessage{}
	for e, err := range events {
		if err != nil {
			return nil, err
		}
		all = append(all, f.take(ctx, e)...)
	}
	return map[string]any{"messages": all, "stop_reason": showStop(f.turn), "usage": showUsage(f.turn)}, nil
}

// streamMessage says something to an agent and streams what happens.
func (h talkHandlers) streamMessage(ctx context.Context, q *request, a haft.Agent) (any, error) {
	var b messageBody
	if err := q.lenient(&b); err != nil {
		return nil, err
	}
	return h.sendStream(ctx, q, a, b)
}

func (h talkHandlers) sendStream(ctx context.Context, q *request, a haft.Agent, b messageBody) (any, error) {
	ctx, cancel := context.WithCancel(ctx)
	events, f, err := h.begin(ctx, q, a, b)
	if err != nil {
		cancel()
		return nil, err
	}
	return h.stream(ctx, cancel, f, events, b.Pings != nil && *b.Pings)
}

// sendAsync says something to an agent and answers with the run, which goes on.
func (h talkHandlers) sendAsync(ctx context.Context, q *request, a haft.Agent) (any, error) {
	var b messageBody
	if err := q.lenient(&b); err != nil {
		return nil, err
	}
	events, f, err := h.begin(ctx, q, a, b)
	if err != nil {
		return nil, err
	}
	for e, err := range events {
		if err != nil {
			return nil, err
		}
		if f.take(ctx, e); f.turn.ID != "" {
			break
		}
	}
	t, err := h.talk.Turn(ctx, q.who.Principal, f.turn.ID)
	if err != nil {
		return nil, err
	}
	return showRun(*t), nil
}

// An occurrence is an event of a turn, or why there are no more.
type occurrence struct {
	event haft.TurnEvent
	err   error
}

// stream makes server-sent events of the events of a turn. An error before the first of them is an answer of its own.
func (h talkHandlers) stream(ctx context.Context, cancel func(), f *flow, events iter.Seq2[haft.TurnEvent, error],
	pings bool) (any, error) {
	came := make(chan occurrence)
	go func() {
		defer close(came)
		for e, err := range events {
			select {
			case came <- occurrence{e, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	end := func() {
		cancel()
		for range came { // until it has returned
		}
	}
	first, ok := <-came
	if !ok {
		end()
		return nil, fmt.Errorf("listen to a turn: %w", context.Cause(ctx))
	}
	if first.err != nil {
		end()
		return nil, first.err
	}
	return stream(func(w http.ResponseWriter) {
		defer end()
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("X-Accel-Buffering", "no") // proxies must not collect them
		h.sendEvents(ctx, sse{w, http.NewResponseController(w)}, f, first, came, pings)
	}), nil
}

// sendEvents sends what comes, and something now and then if nothing does.
func (h talkHandlers) sendEvents(ctx context.Context, out sse, f *flow, o occurrence, came <-chan occurrence,
	pings bool) {
	beat := time.NewTicker(h.heartbeat)
	defer beat.Stop()
	for more := true; more; {
		if o.err != nil {
			if why := server.Withdrawn(ctx); why != nil {
				o.err = why
			}
			out.send("event: error\ndata: ", wireError{"error_message", f.turn.ID, string(haft.CodeOf(o.err)),
				haft.MessageOf(o.err)})
			return
		}
		for _, m := range f.take(ctx, o.event) {
			if !out.send("data: ", m) {
				return
			}
		}
		for waiting := true; waiting; {
			select {
			case o, more = <-came:
				waiting = false
			case <-beat.C:
				if !out.beat(f.turn.ID, pings) {
					return
				}
			}
		}
	}
	if ctx.Err() != nil {
		return // the client is gone
	}
	if f.turn.Error != "" {
		out.send("data: ", wireError{"error_message", f.turn.ID, string(f.turn.Stop), f.turn.Error})
	}
	out.send("data: ", showStop(f.turn))
	out.send("data: ", showUsage(f.turn))
	out.write("data: [DONE]\n\n")
}

// A wireError says in a stream what went wrong.
type wireError struct {
	Type    string      `json:"message_type"`
	Run     haft.TurnID `json:"run_id"`
	Kind    string      `json:"error_type"`
	Message string      `json:"message"`
}

// An sse writes server-sent events.
type sse struct {
	w   http.ResponseWriter
	ctl *http.ResponseController
}

// write reports whether the client is still there.
func (s sse) write(text string) bool {
	_, err := s.w.Write([]byte(text))
	return err == nil && s.ctl.Flush() == nil
}

func (s sse) send(before string, v any) bool {
	text, err := json.Marshal(v)
	return err == nil && s.write(before+string(text)+"\n\n")
}

// beat sends a ping, or a comment that clients do not see.
func (s sse) beat(run haft.TurnID, ping bool) bool {
	if !ping {
		return s.write(": heartbeat\n\n")
	}
	return s.send("data: ", wireMessage{ID: "ping", Date: time.Now().UTC(), Type: "ping", Run: run})
}
