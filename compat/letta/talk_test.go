package letta_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"haft"
	"haft/compat/letta"
	"haft/internal/model"
)

// talker makes an agent with the tools one and ask, for which a person has to agree, and send_message.
func (w *world) talker() agent {
	w.add("one")
	must[tool](w, 200, "POST", "/tools/", `{"source_code":"def ask(a): pass","default_requires_approval":true}`)
	return must[agent](w, 200, "POST", "/agents/", `{"name":"helper","model":"m","tools":["one","ask","send_message"]}`)
}

// boss may answer requests; whoever asks may not.
const boss = "acme/boss/admin+approver"

func TestMessages(t *testing.T) {
	t.Parallel()
	w := setup(t)
	of := "/agents/" + w.talker().ID + "/messages"
	thought := call("one", `{"a":1}`)
	thought.Reasoning = "hmm"
	w.script(thought, say("done"))
	got := must[said](w, 200, "POST", of, `{"messages":[{"role":"user","content":[{"type":"text","text":"hi there"}]}]}`)
	if s := shape(got.Messages); s != "reasoning:hmm, tool_call:one, tool_return:success, assistant:done" {
		t.Errorf("messages = %s", s)
	}
	if got.Stop.Reason != "end_turn" || got.Usage.Total != 30 || got.Usage.Steps != 2 || len(got.Usage.Runs) != 1 ||
		got.Messages[0].ID != got.Messages[1].ID || got.Messages[1].Calls[0].Args != `{"a":1}` ||
		got.Messages[2].Return != `{"a":1}` {
		t.Errorf("answer: %+v", got)
	}
	// What an agent says by the tool for that is what it says.
	w.script(call("send_message", `{"message":"hello"}`))
	body := `{"input":"hi","max_steps":3`
	if got = must[said](w, 200, "POST", of, body+`}`); shape(got.Messages) != "assistant:hello" {
		t.Errorf("send_message: %s", shape(got.Messages))
	}
	got = must[said](w, 200, "POST", of, body+`,"use_assistant_message":false}`)
	if shape(got.Messages) != "tool_call:send_message, tool_return:success" {
		t.Errorf("send_message as it is: %s", shape(got.Messages))
	}
	if got = must[said](w, 200, "POST", of, body+`,"include_return_message_types":["tool_call_message"]}`); len(
		got.Messages) != 0 {
		t.Errorf("only calls: %s", shape(got.Messages))
	}
	w.script(call("one", `{"a":1}`), call("one", `{"a":2}`), call("one", `{"a":3}`))
	if got = must[said](w, 200, "POST", of, `{"input":"hi","max_steps":2}`); got.Stop.Reason != "max_steps" ||
		got.Usage.Steps != 2 {
		t.Errorf("two steps: %+v", got)
	}
	w.mu.Lock()
	w.answer = func(model.Request, func(model.Chunk)) *model.Answer { return nil }
	w.mu.Unlock()
	if got = must[said](w, 200, "POST", of, `{"input":"hi"}`); got.Stop.Reason != "llm_api_error" ||
		got.Stop.Detail == "" {
		t.Errorf("a model that is broken: %+v", got)
	}
}

// stream sends a request and returns what came, without the empty lines.
func (w *world) stream(who, path, body string) []message {
	w.t.Helper()
	r := w.ask(who, "POST", path, body)
	if r.status != 200 || r.header.Get("Content-Type") != "text/event-stream" {
		w.t.Fatalf("%s: %+v", path, r)
	}
	var all []message
	done := false
	for line := range strings.Lines(r.body) {
		text, ok := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		if done = done || text == "[DONE]"; !ok || done || strings.Contains(text, `"ping"`) {
			continue
		}
		var m message
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			w.t.Fatalf("%s: %v", line, err)
		}
		all = append(all, m)
	}
	if !done {
		w.t.Errorf("the stream does not end: %s", r.body)
	}
	return all
}

func TestMessages_stream(t *testing.T) {
	t.Parallel()
	w := setup(t)
	of := "/agents/" + w.talker().ID + "/messages"
	thought := call("one", `{"a":1}`)
	thought.Reasoning = "hmmm"
	w.script(thought, say("done"))
	const end = ", stop_reasonend_turn, usage_statistics"
	for path, body := range map[string]string{of + "/stream": `{"input":"hi","include_pings":true,"background":true}`,
		of: `{"input":"hi","streaming":true}`} {
		if got := shape(w.stream(admin, path, body)); got != "reasoning:hmmm, tool_call:one, tool_return:success, "+
			"assistant:done"+end {
			t.Errorf("%s: %s", path, got)
		}
	}
	// Whatever the pieces are, they are the text.
	got := w.stream(admin, of+"/stream", `{"input":"hi","stream_tokens":true}`)
	text := ""
	for _, m := range got {
		text += m.Reasoning + m.Content
	}
	if text != "hmmmdone" {
		t.Errorf("tokens: %s", shape(got))
	}
	// A run can be looked at again, from any of its messages on.
	call := got[slices.IndexFunc(got, func(m message) bool { return m.Type == "tool_call_message" })]
	if s := shape(w.stream(admin, "/runs/"+call.Run+"/stream", fmt.Sprintf(`{"starting_after":%d}`, call.Seq))); s !=
		"tool_return:success, assistant:done"+end {
		t.Errorf("resumed: %s", s)
	}
	w.mu.Lock()
	w.answer = func(model.Request, func(model.Chunk)) *model.Answer { return nil }
	w.mu.Unlock()
	if s := shape(w.stream(admin, of+"/stream", `{"input":"hi"}`)); !strings.Contains(s, "error:") ||
		!strings.Contains(s, "stop_reasonllm_api_error") {
		t.Errorf("a model that is broken: %s", s)
	}
	// An error before the first event is an answer.
	if r := w.ask(stranger, "POST", of+"/stream", `{"input":"hi"}`); r.status != 404 {
		t.Errorf("a stranger: %+v", r)
	}
	if r := w.ask(admin, "POST", of+"/stream", `{"input":" "}`); r.status != 400 {
		t.Errorf("nothing to say: %+v", r)
	}
}

// A stream in which nothing happens still says something, which clients that do not ask for it do not see.
func TestMessages_stream_beats(t *testing.T) {
	t.Parallel()
	w := setup(t)
	of := "/agents/" + w.talker().ID + "/messages/stream"
	w.mu.Lock()
	w.answer = func(model.Request, func(model.Chunk)) *model.Answer {
		<-time.After(10 * heartbeat)
		a := say("late")
		return &a
	}
	w.mu.Unlock()
	for _, ping := range []bool{true, false} {
		r := w.ask(admin, "POST", of, fmt.Sprintf(`{"input":"hi","include_pings":%v}`, ping))
		if strings.Contains(r.body, `"message_type":"ping"`) != ping ||
			strings.Contains(r.body, ": heartbeat\n\n") == ping || !strings.Contains(r.body, "late") {
			t.Errorf("pings %v: %s", ping, r.body)
		}
	}
}

func TestMessages_wait_for_a_person(t *testing.T) {
	t.Parallel()
	w := setup(t)
	of := "/agents/" + w.talker().ID + "/messages"
	w.script(call("one", `{"a":1}`, "ask", `{"a":2}`, "ask", `{"a":3}`), say("done"))
	got := must[said](w, 200, "POST", of, `{"input":"hi"}`)
	if s := shape(got.Messages); s != "tool_call:one, tool_return:success, approval_request:ask" ||
		got.Stop.Reason != "requires_approval" {
		t.Fatalf("messages = %s, %+v", s, got.Stop)
	}
	run, last := got.Usage.Runs[0], got.Messages[len(got.Messages)-1]
	ran, first := got.Messages[0].Calls[0].ID, last.Calls[0].ID
	if got.Messages[1].Call != ran || ran == first {
		t.Errorf("ids of calls: %+v", got.Messages)
	}
	if r := w.ask(admin, "POST", of, `{"input":"hi"}`); r.status != 409 || r.header.Get("X-Should-Retry") != "false" {
		t.Errorf("another message meanwhile: %+v", r)
	}
	if s := shape(must[[]message](w, 200, "GET", of, "")); s !=
		"tool_return:success, approval_request:ask, tool_call:ask, tool_call:one, user:hi" {
		t.Errorf("listed: %s", s)
	}
	answer := func(id string, yes bool) string {
		return fmt.Sprintf(`{"messages":[{"type":"approval","approvals":[{"type":"approval","tool_call_id":%q,"approve":%v,"reason":"because"}]}]}`, id, yes)
	}
	for name, body := range map[string]string{
		"another call": answer("call_9", true), "one that runs": answer(ran, true),
		"the id of the model": answer("call_1", true), "no id": answer("", true),
		"twice":        strings.Replace(answer(first, true), `}]}]}`, `},{"tool_call_id":"`+first+`","approve":false}]}]}`, 1),
		"another turn": `{"messages":[{"type":"approval","approve":true,"approval_request_id":"message-none"}]}`,
		"another request": strings.Replace(answer(first, true), `"type":"approval",`,
			`"type":"approval","approval_request_id":"message-none",`, 1),
		"no request":  `{"messages":[{"type":"approval","approve":true,"approval_request_id":""}]}`,
		"no answer":   `{"messages":[{"type":"approval","approval_request_id":"` + last.ID + `"}]}`,
		"with a text": strings.Replace(answer(first, true), `[{`, `[{"role":"user","content":"x"},{`, 1),
		"an output":   `{"messages":[{"type":"approval","approvals":[{"type":"tool","tool_call_id":"` + first + `","tool_return":"x","status":"success"}]}]}`,
		"a return":    `{"messages":[{"type":"tool_return","tool_returns":[]}]}`,
	} {
		if r := w.ask(boss, "POST", of, body); r.status < 400 {
			t.Errorf("%s: %+v", name, r)
		}
	}
	// Only those answer who may.
	if r := w.ask(reader, "POST", of, answer(first, true)); r.status < 400 {
		t.Errorf("somebody else: %+v", r)
	}
	if r := w.ask(admin, "POST", of, answer(first, true)); r.status != 403 {
		t.Errorf("the one who asks: %+v", r)
	}
	if r := w.ask(boss+"//agents:read,calls:read,calls:write,approvals:read", "POST", of,
		answer(first, true)); r.status != 403 {
		t.Errorf("a key that is not for answers: %+v", r)
	}
	// The first is agreed to, by a client from 1.0 on; then the turn waits for the second.
	a := w.ask(boss, "POST", of, answer(first, true))
	got = said{}
	if err := json.Unmarshal([]byte(a.body), &got); a.status != 200 || err != nil {
		t.Fatalf("agreed: %+v", a)
	}
	if s := shape(got.Messages); s != "tool_return:success, approval_request:ask" ||
		got.Stop.Reason != "requires_approval" || got.Usage.Runs[0] != run {
		t.Fatalf("agreed: %s, %+v", s, got)
	}
	// The answer to the first is none to the second, though both are of one message.
	old := func(id string) string {
		return `{"messages":[{"type":"approval","approve":false,"reason":"no","approval_request_id":"` + id + `"}]}`
	}
	for name, body := range map[string]string{"of a client from 1.0 on": answer(first, true),
		"of an older one": old(last.ID)} {
		if r := w.ask(boss, "POST", of, body); r.status != 400 {
			t.Errorf("the same answer again %s: %+v", name, r)
		}
	}
	// The second is refused, by an older one.
	if s := shape(w.stream(boss, of+"/stream", old(got.Messages[1].ID))); s !=
		"tool_return:error, assistant:done, stop_reasonend_turn, usage_statistics" {
		t.Errorf("refused: %s", s)
	}
}

// A model may give its calls the same id: an answer is still for the call that was shown only.
func TestMessages_approvals_hit_one_call(t *testing.T) {
	t.Parallel()
	w := setup(t)
	of := "/agents/" + w.talker().ID + "/messages"
	w.script(call("ask", `{"a":1}`), call("ask", `{"a":666}`), say("done"))
	got := must[said](w, 200, "POST", of, `{"input":"hi"}`)
	asked := got.Messages[len(got.Messages)-1]
	body := fmt.Sprintf(`{"messages":[{"type":"approval","approval_request_id":%q,"approvals":[{"type":"approval",`+
		`"tool_call_id":%q,"approve":true}]}]}`, asked.ID, asked.Calls[0].ID)
	if r := w.ask(boss, "POST", of, body); r.status != 200 || !strings.Contains(r.body, "666") {
		t.Fatalf("the first answer: %+v", r)
	}
	if r := w.ask(boss, "POST", of, body); r.status != 400 {
		t.Errorf("the same answer again: %+v", r)
	}
	if list := must[[]message](w, 200, "GET", of+"?after="+asked.ID+"&order=asc", ""); shape(list) !=
		"tool_return:success, approval_request:ask" || list[0].Call != asked.Calls[0].ID {
		t.Errorf("after the request: %s", shape(list))
	}
}

// A turn that waits is found however much others have said since.
func TestMessages_wait_on_a_busy_agent(t *testing.T) {
	t.Parallel()
	w := setup(t)
	of := "/agents/" + w.talker().ID + "/messages"
	for _, cancel := range []bool{false, true} {
		w.script(call("ask", `{"a":1}`), say("done"))
		got := must[said](w, 200, "POST", of, `{"input":"hi"}`)
		w.script(say("done"))
		for i := range 51 {
			if r := w.ask("acme/eve/admin/helper", "POST", of, fmt.Sprintf(`{"input":"hi %d"}`, i)); r.status != 200 {
				t.Fatalf("somebody else: %+v", r)
			}
		}
		path, body := of, fmt.Sprintf(`{"messages":[{"type":"approval","approvals":[{"type":"approval",`+
			`"tool_call_id":%q,"approve":true}]}]}`, got.Messages[0].Calls[0].ID)
		if cancel {
			path, body = of+"/cancel", "{}"
		}
		if r := w.ask(boss, "POST", path, body); r.status != 200 || !strings.Contains(r.body, got.Usage.Runs[0]) {
			t.Errorf("cancel %v: %+v", cancel, r)
		}
	}
}

func TestMessages_are_cancelled(t *testing.T) {
	t.Parallel()
	w := setup(t)
	of := "/agents/" + w.talker().ID + "/messages"
	w.script(call("ask", `{"a":2}`))
	for _, body := range []string{"", `{}`, `{"run_ids":["%s"]}`} {
		run := must[said](w, 200, "POST", of, `{"input":"hi"}`).Usage.Runs[0]
		if strings.Contains(body, "%s") {
			body = fmt.Sprintf(body, run)
		}
		if r := w.ask(stranger, "POST", of+"/cancel", body); r.status != 404 {
			t.Errorf("a stranger cancels: %+v", r)
		}
		if got := must[map[string]string](w, 200, "POST", of+"/cancel", body); got[run] != "cancelled" ||
			len(got) != 1 {
			t.Errorf("%s: %+v", body, got)
		}
		if got := must[message](w, 200, "GET", "/runs/"+run, ""); got.Status != "cancelled" || got.Stop != "cancelled" {
			t.Errorf("cancelled: %+v", got)
		}
	}
}

func TestRuns(t *testing.T) {
	t.Parallel()
	w := setup(t)
	a := w.talker()
	w.script(call("one", `{"a":1}`), say("done"))
	of, runs := "/agents/"+a.ID+"/messages", []string(nil)
	for i := range 3 {
		runs = append(runs, must[said](w, 200, "POST", of, fmt.Sprintf(`{"input":"hi %d"}`, i)).Usage.Runs[0])
	}
	ids := func(list []message) (all string) {
		for _, m := range list {
			all += fmt.Sprint(strings.Index(strings.Join(runs, ""), m.ID)/len(runs[0]), " ")
		}
		return all
	}
	for query, want := range map[string]string{"": "2 1 0 ", "limit=2": "2 1 ", "order=asc": "0 1 2 ",
		"after=" + runs[2] + "&limit=1": "1 ", "after=" + runs[0]: "", "ascending=true&after=" + runs[0]: "1 2 ",
		"before=" + runs[0] + "&limit=1": "1 ", "order=asc&before=" + runs[2]: "0 1 ", "active=true": "",
		"statuses=completed&statuses=failed": "2 1 0 ", "statuses=failed": "", "stop_reason=end_turn": "2 1 0 ",
		"agent_id=" + a.ID: "2 1 0 ", "agent_ids=" + w.hire("other").ID: ""} {
		if got := ids(must[[]message](w, 200, "GET", "/runs/?"+query, "")); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	if got := must[[]message](w, 200, "GET", "/runs/active?agent_ids="+a.ID, ""); len(got) != 0 {
		t.Errorf("active: %+v", got)
	}
	if s := shape(must[[]message](w, 200, "GET", "/runs/"+runs[1]+"/messages", "")); s !=
		"user:hi 1, tool_call:one, tool_return:success, assistant:done" {
		t.Errorf("messages of a run: %s", s)
	}
	if got := must[map[string]any](w, 200, "GET", "/runs/"+runs[1]+"/usage", ""); got["total_tokens"] != 30.0 {
		t.Errorf("usage: %+v", got)
	}
	if got := must[[]message](w, 200, "GET", "/runs/"+runs[1]+"/steps", ""); len(got) != 2 ||
		!strings.HasPrefix(got[0].ID, "step-") {
		t.Errorf("steps: %+v", got)
	}
	for _, path := range []string{"/runs/" + runs[0], "/runs/" + runs[0] + "/messages", "/runs?agent_id=" + a.ID} {
		if r := w.ask(stranger, "GET", path, ""); r.status != 404 {
			t.Errorf("%s by a stranger: %+v", path, r)
		}
	}
}

func TestMessages_are_listed_and_found(t *testing.T) {
	t.Parallel()
	w := setup(t)
	a := w.talker()
	of := "/agents/" + a.ID + "/messages"
	w.script(call("send_message", `{"message":"hello"}`))
	for _, text := range []string{"red apple", "green pear"} {
		must[said](w, 200, "POST", of, `{"input":"`+text+`"}`)
	}
	all := must[[]message](w, 200, "GET", of, "")
	if s := shape(all); s != "assistant:hello, user:green pear, assistant:hello, user:red apple" {
		t.Errorf("all: %s", s)
	}
	// Every page but the last has something, also where messages are not shown.
	for query, want := range map[string]string{"limit=1": shape(all), "order=asc&limit=1": "" +
		"user:red apple, assistant:hello, user:green pear, assistant:hello"} {
		var list []message
		for after := ""; len(list) < 10; {
			page := must[[]message](w, 200, "GET", of+"?"+query+after, "")
			if len(page) == 0 {
				break
			}
			list = append(list, page...)
			after = "&after=" + page[len(page)-1].ID
		}
		if s := shape(list); s != want {
			t.Errorf("%s: %s", query, s)
		}
	}
	for query, want := range map[string]string{
		"before=" + all[2].ID + "&limit=10":           "assistant:hello, user:green pear",
		"order=asc&before=" + all[1].ID + "&limit=10": "user:red apple, assistant:hello",
		"include_return_message_types=user_message":   "user:green pear, user:red apple",
		"use_assistant_message=false&limit=2":         "tool_return:success, tool_call:send_message",
	} {
		if s := shape(must[[]message](w, 200, "GET", of+"?"+query, "")); s != want {
			t.Errorf("%s: %s, want %s", query, s, want)
		}
	}
	for path, body := range map[string]string{"/messages/search": `{"query":"apple","agent_id":"` + a.ID + `"}`,
		"/agents/messages/search": `{"query":"apple","search_mode":"fts","start_date":"2020-01-01T00:00:00Z"}`} {
		r := w.ask(admin, "POST", path, body)
		if r.status != 200 || !strings.Contains(r.body, "red apple") || strings.Contains(r.body, "pear") {
			t.Errorf("%s: %+v", path, r)
		}
		if r := w.ask(stranger, "POST", path, body); strings.Contains(r.body, "apple") {
			t.Errorf("%s by a stranger: %+v", path, r)
		}
	}
	run := must[message](w, 200, "POST", of+"/async", `{"messages":[{"role":"user","content":"later","otid":"o1"}]}`)
	again := must[message](w, 200, "POST", of+"/async", `{"messages":[{"role":"user","content":"later","otid":"o1"}]}`)
	if !strings.HasPrefix(run.ID, "run-") || again.ID != run.ID {
		t.Errorf("async: %+v, again %+v", run, again)
	}
}

// A flow shows each piece of text once, and each call when it is known what becomes of it.
func TestFlow(t *testing.T) {
	t.Parallel()
	text := func(delta string) haft.TurnEvent { return haft.TurnEvent{Delta: delta} }
	kept := func(m haft.Message) haft.TurnEvent { return haft.TurnEvent{Message: &m} }
	asks := haft.Message{ID: "message-1", Role: haft.RoleAssistant, Text: "I look", Calls: []haft.ToolCall{
		{ID: "a", Call: "c1", Tool: "one"}, {ID: "b", Call: "c2", Tool: "two"}}}
	answer := kept(haft.Message{Role: haft.RoleTool, Answers: "a", Name: "one", Status: haft.StatusSuccess})
	happens := func(typ haft.EventType) haft.TurnEvent {
		return haft.TurnEvent{Event: &haft.Event{Call: "c2", Type: typ}}
	}
	began := happens(haft.EventExecuting)
	waits := haft.TurnEvent{Turn: &haft.Turn{Status: haft.TurnWaiting}}
	for name, tt := range map[string]struct {
		tokens bool
		events []haft.TurnEvent
		want   string
	}{
		"pieces": {true, []haft.TurnEvent{text("I "), text("look"), kept(asks)},
			"assistant:I , assistant:look"},
		"no pieces": {false, []haft.TurnEvent{text("I "), text("look"), kept(asks)},
			"assistant:I look"},
		"the end is lost": {true, []haft.TurnEvent{text("I "), kept(asks)},
			"assistant:I , assistant:look"},
		"it is said again": {true, []haft.TurnEvent{text("You"), kept(asks)},
			"assistant:You, assistant:I look"},
		"a call begins": {false, []haft.TurnEvent{kept(asks), began, began},
			"assistant:I look, tool_call:two"},
		"a call has ended": {false, []haft.TurnEvent{kept(asks), answer},
			"assistant:I look, tool_call:one, tool_return:success"},
		"one waits": {false, []haft.TurnEvent{kept(asks), answer, waits},
			"assistant:I look, tool_call:one, tool_return:success, approval_request:two"},
		"one asks first": {false, []haft.TurnEvent{kept(asks), happens(haft.EventQueued), happens(haft.EventApproval),
			waits, happens(haft.EventDecided), began}, "assistant:I look, approval_request:one:two"},
		"both wait": {false, []haft.TurnEvent{kept(asks), waits, answer},
			"assistant:I look, approval_request:one:two, tool_return:success"},
	} {
		var list []message
		if err := json.Unmarshal(letta.Flow(t.Context(), tt.tokens, tt.events...), &list); err != nil {
			t.Fatal(err)
		}
		if got := shape(list); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}
