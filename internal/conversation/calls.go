package conversation

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"

	"haft"
	"haft/internal/modelapi"
	"haft/internal/toolrule"
)

// The bounds of what a model asks for.
const (
	maxCalls    = 32       // of one step
	warnRepeats = 3        // times that a model asks for the same calls in a row before it is warned
	maxRepeats  = 5        // and before the turn ends
	maxCompared = 64 << 10 // bytes of arguments that are compared by what they mean
	maxAnswer   = 200_000  // bytes of the answer to a call
)

// takeCalls keeps an answer with calls. Those that cannot be made are answered with it.
func (r *run) takeCalls(now *moment, m haft.Message, cut bool) error {
	if len(m.Calls) > modelapi.MaxCalls {
		return &ending{stop: haft.StopModel, why: fmt.Sprintf("the model asked for %d calls at once", len(m.Calls))}
	}
	ids, left := map[string]bool{}, maxText
	for i := range m.Calls {
		c := &m.Calls[i]
		if c.ID == "" || len(c.ID) > modelapi.MaxID || ids[c.ID] {
			c.ID = "call_" + rand.Text()
		}
		ids[c.ID] = true
		c.Tool = cutText(c.Tool, haft.MaxToolName)
		if left -= len(c.ID) + len(c.Tool) + len(c.Args); left < 0 {
			c.Malformed, c.Args = fmt.Sprintf("those of all calls have more than %d bytes", maxText), nil
		}
		if len(c.Args) == 0 && c.Malformed == "" {
			c.Args = json.RawMessage("{}")
		}
		if args := bytes.TrimSpace(c.Args); c.Malformed == "" && (!json.Valid(args) || args[0] != '{') {
			c.Malformed, c.Args = "they are not a JSON object", canonical(args)
		}
	}
	var end *ending
	if repeated(r.own, m.Calls) >= maxRepeats {
		end = &ending{stop: haft.StopLoop, why: "the model asked for the same calls again and again",
			note: "I stopped here: I asked for the same calls again and again."}
	} else if cut && slices.ContainsFunc(m.Calls, func(c haft.ToolCall) bool { return c.Malformed != "" }) {
		end = &ending{stop: haft.StopTokens, note: "I stopped here: my answer was too long to be completed."}
	}
	list := []haft.Message{m}
	for i := range m.Calls {
		c := &m.Calls[i]
		c.Call = ""
		if res := refusal(now, *c, len(m.Calls), end); res != nil {
			list = append(list, answer(*c, res, maxAnswer))
		} else {
			c.Call = haft.NewCallID()
		}
	}
	if end != nil {
		return r.finish(end, list...)
	}
	return r.append(list...)
}

// refusal is the result of a call that is not made, or nil. Whether it may be made is for the engine to say.
func refusal(now *moment, c haft.ToolCall, n int, end *ending) *haft.Result {
	known := slices.ContainsFunc(now.tools, func(t haft.Tool) bool { return t.Name == c.Tool })
	switch {
	case n > maxCalls:
		return failure(c, haft.StatusValidation, haft.FailValidation,
			fmt.Sprintf("you asked for %d calls at once, and %d is the most: none of them was made", n, maxCalls))
	case c.Malformed != "":
		return failure(c, haft.StatusValidation, haft.FailValidation, "the call was not made, because its arguments "+
			"cannot be read: "+c.Malformed+". Call the tool again with arguments that are one JSON object")
	case !known && now.state != nil:
		return failure(c, haft.StatusDenied, haft.FailNotFound, haft.MessageOf(now.state.Admit(c.Tool)))
	case !known:
		return failure(c, haft.StatusDenied, haft.FailNotFound, "there is no such tool, and you may call none now")
	case end != nil:
		return failure(c, haft.StatusCancelled, haft.FailCancelled, "the call was not made: "+end.Error())
	}
	return nil
}

// failure is the result of a call that has none of the engine.
func failure(c haft.ToolCall, status haft.Status, kind haft.FailureKind, why string) *haft.Result {
	return &haft.Result{Call: c.Call, Tool: c.Tool, Status: status, Value: json.RawMessage("null"),
		Error: &haft.Failure{Kind: kind, Message: why}}
}

// repeated counts how often in a row the model has asked for calls, this time included.
func repeated(before []haft.Message, calls []haft.ToolCall) int {
	n := 1
	for _, m := range slices.Backward(before) {
		if m.Role != haft.RoleAssistant {
			continue
		}
		if !slices.EqualFunc(m.Calls, calls, func(a, b haft.ToolCall) bool {
			return a.Tool == b.Tool && (bytes.Equal(a.Args, b.Args) ||
				bytes.Equal(canonical(a.Args), canonical(b.Args)))
		}) {
			break
		}
		n++
	}
	return n
}

// canonical writes arguments such that equal ones are written equally, if they are not large. What is no JSON becomes a
// text.
func canonical(args json.RawMessage) []byte {
	var v any = string(args)
	if json.Valid(args) {
		dec := json.NewDecoder(bytes.NewReader(args))
		dec.UseNumber()
		if len(args) > maxCompared || dec.Decode(&v) != nil {
			return args
		}
	}
	text, err := json.Marshal(v)
	if err != nil {
		return nil // a text and what was read of JSON can be written
	}
	return text
}

// answer is the message that answers a call.
func answer(c haft.ToolCall, res *haft.Result, most int) haft.Message {
	text, _ := modelapi.ResultText(res)
	return haft.Message{Role: haft.RoleTool, Name: c.Tool, Answers: c.ID, Call: c.Call,
		Status: toolrule.StatusOf(res.Status, res),
		Text:   cutText(text, most)}
}
