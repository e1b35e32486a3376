package agentapi_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"haft"
	"haft/internal/servertest"
	"haft/server"
	"haft/server/agentapi"
)

const messages = "/v1/agents/smith/messages"

func TestSend_streams_what_happens(t *testing.T) {
	w := setup(t, nil)
	s := w.stream(user, "POST", messages, `{"text":"hi","model":"large","budget":{"max_steps":3}}`)
	if s.res.StatusCode != 200 || s.res.Header.Get("Content-Type") != "text/event-stream" ||
		s.res.Header.Get("X-Request-Id") == "" {
		t.Fatalf("%d %v", s.res.StatusCode, s.res.Header)
	}
	s.expect("1 message user: hi", "delta you said", "2 message assistant: you said hi", "turn completed", "")
	var turn haft.Turn
	w.must(200, user, "GET", "/v1/turns/run-1", "", &turn)
	if turn.Model != "large" || turn.Budget.Steps != 3 || string(turn.Agent) != w.agents["smith"] {
		t.Errorf("the turn: %+v", turn)
	}
}

func TestSend_answers_with_the_whole(t *testing.T) {
	w := setup(t, nil)
	var got agentapi.Replied
	a := w.must(200, user, "POST", messages, `{"text":"hi"}`, &got)
	if got.Turn.Status != haft.TurnCompleted || len(got.Messages) != 2 || got.Messages[1].Text != "you said hi" ||
		a.Header.Get("Location") != "/v1/turns/"+string(got.Turn.ID) {
		t.Errorf("%s %v", a.Body, a.Header)
	}
	w.must(202, user, "POST", messages, `{"text":"ask"}`, &got)
	if got.Turn.Status != haft.TurnWaiting {
		t.Errorf("it waits for a person: %+v", got.Turn)
	}
}

func TestSend_says_what_went_wrong(t *testing.T) {
	w := setup(t, nil)
	// What fails before the first event has the status of a request that fails.
	for _, accept := range []string{"application/json", "text/event-stream"} {
		a := servertest.Send(t, w.http, user, "POST", messages, `{"text":"fail"}`, "Accept", accept)
		if a.Status != 429 || a.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %s", accept, a.Status, a.Body)
		}
	}
	a := w.must(500, user, "POST", messages, `{"text":"crash"}`, nil)
	s := w.stream(user, "POST", messages, `{"text":"crash"}`)
	s.expect("2 message user: crash", "delta you said",
		`error {"type":"error","code":"internal","message":"internal error"}`, "")
	if strings.Contains(string(a.Body), "disk") {
		t.Errorf("the answer has the cause: %s", a.Body)
	}
}

// ATTACK: somebody sends messages as an agent that the credential is not for.
func TestSend_only_as_the_agent(t *testing.T) {
	w := setup(t, nil)
	smith, jones := w.agents["smith"], w.agents["jones"]
	w.must(201, admin, "POST", "/v1/agents", `{"name":"off","disabled":true}`, nil)
	for name, tt := range map[string]struct {
		who, path string
		status    int
	}{
		"by a manager":                {admin, messages, 200},
		"by id":                       {user, "/v1/agents/" + smith + "/messages", 200},
		"the agent itself":            {"acme/ann/user/" + smith, messages, 200},
		"the agent itself, by name":   {"acme/ann/user/smith", "/v1/agents/" + smith + "/messages", 200},
		"somebody who cannot act":     {ann, messages, 403},
		"another agent":               {"acme/root/admin/" + jones, messages, 403},
		"as another agent":            {user, messages + "?as=jones", 403},
		"an agent that is disabled":   {user, "/v1/agents/off/messages", 403},
		"another organisation":        {stranger, messages, 404},
		"another organisation, by id": {stranger, "/v1/agents/" + smith + "/messages", 404},
		"an agent of another":         {user, "/v1/agents/mallory/messages", 404},
		"without the scope":           {user + "//agents:read+calls:read", messages, 403},
	} {
		t.Run(name, func(t *testing.T) {
			a := servertest.Send(t, w.http, tt.who, "POST", tt.path, `{"text":"hi"}`)
			if a.Status != tt.status {
				t.Errorf("%d, want %d: %s", a.Status, tt.status, a.Body)
			}
		})
	}
}

// A reader that is cut does not stop the turn, and gets every later message once when it comes back.
func TestSend_cut(t *testing.T) {
	w := setup(t, nil)
	s := w.stream(user, "POST", messages, `{"text":"hold"}`)
	s.expect("1 message user: hold", "delta you said")
	s.cut()
	id := <-w.talk.Left
	var turn haft.Turn
	if w.must(200, user, "GET", "/v1/turns/"+string(id), "", &turn); turn.Status != haft.TurnRunning {
		t.Errorf("the turn is %s", turn.Status)
	}
	at := "/v1/turns/" + string(id) + "/events"
	live := w.stream(user, "GET", at, "", "Last-Event-ID", "1")
	live.expect("turn running")
	w.talk.Finish(id)
	live.expect("2 message assistant: you said hold", "turn completed", "")
	w.stream(user, "GET", at+"?after=0", "").expect("1 message user: hold", "2 message assistant: you said hold",
		"turn completed", "")
	w.stream(user, "GET", at+"?after=0", "", "Last-Event-ID", "1").expect("2 message assistant: you said hold",
		"turn completed", "") // as a browser comes back
	w.stream(user, "GET", at+"?after=2", "").expect("turn completed", "")
	w.stream(user, "GET", at, "").expect("turn completed", "")
}

func TestWatch_has_heartbeats(t *testing.T) {
	w := setup(t, func(c *server.Config) { c.Heartbeat = time.Millisecond })
	s := w.stream(user, "POST", messages, `{"text":"hold"}`)
	s.expect("1 message user: hold", "delta you said")
	for s.beats < 3 && s.lines.Scan() {
		if s.lines.Text() == ": heartbeat" {
			s.beats++
		}
	}
	w.must(204, user, "POST", "/v1/turns/run-1/cancel", "", nil)
	s.expect("turn cancelled", "")
}

// ATTACK: a credential that is not good any more goes on listening.
func TestWatch_ends_with_the_agent(t *testing.T) {
	w := setup(t, nil)
	s := w.stream(user, "POST", messages, `{"text":"hold"}`)
	s.expect("1 message user: hold", "delta you said")
	w.must(200, admin, "PATCH", "/v1/agents/smith", `{"disabled":true}`, nil)
	w.server.Changed("acme")
	s.expect(`error {"type":"error","code":"denied","message":"the agent is disabled"}`, "")
	<-w.talk.Left
}

func TestWatch_ends_with_the_server(t *testing.T) {
	w := setup(t, nil)
	s := w.stream(user, "POST", messages, `{"text":"hold"}`)
	s.expect("1 message user: hold", "delta you said")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := w.server.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	if last := s.next(); !strings.HasPrefix(last, `error {"type":"error","code":"unavailable"`) {
		t.Errorf("the last event is %q", last)
	}
}

// ATTACK: somebody opens streams without end.
func TestWatch_is_bounded(t *testing.T) {
	w := setup(t, func(c *server.Config) { c.Streams = 1 })
	s := w.stream(user, "POST", messages, `{"text":"hold"}`)
	s.expect("1 message user: hold")
	for _, accept := range []string{"application/json", "text/event-stream"} {
		a := servertest.Send(t, w.http, user, "POST", messages, `{"text":"hold"}`, "Accept", accept)
		if a.Status != http.StatusTooManyRequests {
			t.Errorf("%s: %d %s", accept, a.Status, a.Body)
		}
	}
}

// ATTACK: somebody sees or ends the turn of somebody else.
func TestTurns_are_of_their_owner(t *testing.T) {
	w := setup(t, nil)
	w.must(200, user, "POST", messages, `{"text":"hi"}`, nil)
	for _, who := range []string{ann, stranger, "acme/ann/user/" + w.agents["jones"]} {
		w.must(404, who, "GET", "/v1/turns/run-1", "", nil)
		w.must(404, who, "GET", "/v1/turns/run-1/events", "", nil)
		w.must(404, who, "GET", "/v1/turns/run-1/events?after=0", "", nil)
		w.must(404, who, "POST", "/v1/turns/run-1/cancel", "", nil)
	}
	for _, path := range []string{messages, "/v1/agents/smith/turns"} {
		var page server.Page[struct{ ID string }]
		if w.must(200, ann, "GET", path, "", &page); len(page.Data) != 0 {
			t.Errorf("%s shows what is somebody else's: %v", path, page.Data)
		}
		if w.must(200, user, "GET", path, "", &page); len(page.Data) == 0 {
			t.Errorf("%s does not show what is one's own", path)
		}
		w.must(404, stranger, "GET", path, "", nil)
	}
}

func TestMessages_are_listed(t *testing.T) {
	w := setup(t, nil)
	for _, text := range []string{"one", "two", "three"} {
		w.must(200, user, "POST", messages, `{"text":"`+text+`"}`, nil)
	}
	for query, want := range map[string]string{
		"":                               "one,you said one,two,you said two,three,you said three",
		"?newest=true&limit=2":           "you said three,three",
		"?roles=assistant":               "you said one,you said two,you said three",
		"?roles=assistant,user&before=3": "one,you said one",
		"?after=4":                       "three,you said three",
		"?turn=run-2":                    "two,you said two",
		"?query=tw":                      "two,you said two",
		"?query=o&limit=1":               "one",
		"?since=2999-01-01T00:00:00Z":    "",
		"?till=2000-01-01T00:00:00Z":     "",
	} {
		var page server.Page[haft.Message]
		w.must(200, user, "GET", messages+query, "", &page)
		texts := []string{}
		for _, m := range page.Data {
			texts = append(texts, m.Text)
		}
		if got := strings.Join(texts, ","); got != want {
			t.Errorf("%q lists %q, want %q", query, got, want)
		}
		if strings.Contains(query, "query=") && page.Next != "" {
			t.Errorf("a search has another page")
		}
	}
	for _, order := range []string{"", "newest=true&"} {
		seen, next := 0, ""
		for {
			var page server.Page[haft.Message]
			w.must(200, user, "GET", messages+"?"+order+"limit=4"+next, "", &page)
			seen += len(page.Data)
			if page.Next == "" {
				break
			}
			next = "&cursor=" + page.Next
		}
		if seen != 6 {
			t.Errorf("the pages of %q have %d messages", order, seen)
		}
	}
}
