package conversation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"haft"
	"haft/internal/modelapi"
)

// The bounds of calls.
const (
	maxCalls    = 32       // of one step
	warnRepeats = 3        // times that a model asks for the same calls in a row before it is warned
	maxRepeats  = 5        // and before the turn ends
	maxCompared = 64 << 10 // bytes of arguments that are compared by what they mean
	maxAnswer   = 200_000  // bytes of the answer to a call
)

// takeCalls keeps an answer with calls. Those that cannot be made are answered with it.
func (r *run) takeCalls(now *moment, m *haft.Message, cut bool) error {
	if len(m.Calls) > modelapi.MaxCalls {
		return &ending{stop: haft.StopModel, why: fmt.Sprintf("the model asked for %d calls at once", len(m.Calls))}
	}
	repeats := repeated(r.own, m)
	var end *ending
	switch {
	case repeats >= maxRepeats:
		end = &ending{stop: haft.StopLoop, why: "the model asked for the same calls again and again",
			note: "I stopped here: I asked for the same calls again and again."}
	case cut && slices.ContainsFunc(m.Calls, func(c haft.ToolCall) bool { return malformed(c) != "" }):
		end = &ending{stop: haft.StopTokens, note: "I stopped here: my answer was too long to be completed."}
	}
	var answers []*haft.Message
	ids := map[string]bool{}
	for i := range m.Calls {
		c := &m.Calls[i]
		if c.ID == "" || ids[c.ID] {
			c.ID = "call_" + string(m.ID[len("message-"):]) + fmt.Sprint(i)
		}
		ids[c.ID] = true
		if len(c.Args) == 0 && c.Malformed == "" {
			c.Args = json.RawMessage("{}")
		}
		res := refusal(now, *c, len(m.Calls))
		if res == nil && end != nil {
			res = failure(*c, haft.StatusCancelled, haft.FailCancelled, "the call was not made: "+end.Error())
		}
		if res != nil {
			c.Call = ""
			answers = append(answers, r.answer(*c, res, maxAnswer))
			continue
		}
		c.Call = r.s.cfg.NewCall()
	}
	answers = append([]*haft.Message{m}, answers...)
	if end != nil {
		return r.finish(end, answers...)
	}
	return r.append(answers...)
}

// malformed says why the arguments of a call cannot be read, or nothing.
func malformed(c haft.ToolCall) string {
	if c.Malformed == "" && len(c.Args) > 0 && !object(c.Args) {
		return "they are not a JSON object"
	}
	return c.Malformed
}

// refusal is the result of a call that cannot be made, or nil. Whether it may be made is for the engine to say.
func refusal(now *moment, c haft.ToolCall, n int) *haft.Result {
	known := slices.ContainsFunc(now.tools, func(t haft.Tool) bool { return t.Name == c.Tool })
	switch why := malformed(c); {
	case n > maxCalls:
		return failure(c, haft.StatusValidation, haft.FailValidation, fmt.Sprintf("you asked for %d calls at once, and "+
			"%d is the most: none of them was made", n, maxCalls))
	case why != "":
		return failure(c, haft.StatusValidation, haft.FailValidation, "the call was not made, because its arguments "+
			"cannot be read: "+why+". Call the tool again with arguments that are one JSON object")
	case !known && now.state != nil:
		return failure(c, haft.StatusDenied, haft.FailNotFound, haft.MessageOf(now.state.Admit(c.Tool)))
	case !known:
		return failure(c, haft.StatusDenied, haft.FailNotFound, "there is no such tool, and you may call none now")
	}
	return nil
}

// failure is the result of a call that has none of the engine.
func failure(c haft.ToolCall, status haft.Status, kind haft.FailureKind, why string) *haft.Result {
	return &haft.Result{Call: c.Call, Tool: c.Tool, Status: status, Value: json.RawMessage("null"),
		Error: &haft.Failure{Kind: kind, Message: why}}
}

// repeated counts how often in a row the model has asked for the calls of m, this time included.
func repeated(own []haft.Message, m *haft.Message) int {
	n := 1
	for _, before := range slices.Backward(own) {
		if before.Role != haft.RoleAssistant {
			continue
		}
		if !slices.EqualFunc(before.Calls, m.Calls, func(a, b haft.ToolCall) bool {
			return a.Tool == b.Tool && sameArgs(a.Args, b.Args)
		}) {
			break
		}
		n++
	}
	return n
}

// sameArgs reports whether two arguments mean the same.
func sameArgs(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) || len(a) > maxCompared || len(b) > maxCompared {
		return bytes.Equal(a, b)
	}
	canonical := func(raw json.RawMessage) []byte {
		var v any
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.UseNumber()
		if dec.Decode(&v) != nil {
			return raw
		}
		text, err := json.Marshal(v)
		if err != nil {
			return raw
		}
		return text
	}
	return bytes.Equal(canonical(a), canonical(b))
}

// answer is the message that answers a call.
func (r *run) answer(c haft.ToolCall, res *haft.Result, most int) *haft.Message {
	text, _ := modelapi.ResultText(res)
	m := r.message(haft.RoleTool)
	m.Name, m.Answers, m.Call, m.Status, m.Text = c.Tool, c.ID, c.Call, res.Status, cutText(text, most)
	return m
}
