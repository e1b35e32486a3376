package agentapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"haft"
	"haft/executor"
	"haft/internal/engine"
	"haft/internal/registry"
	"haft/internal/servertest"
	"haft/internal/service"
	"haft/server"
	"haft/server/agentapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The people of the tests. Root may act as any agent.
const (
	admin    = "acme/root/admin"
	user     = "acme/root/user"
	ann      = "acme/ann/user"
	stranger = "evil/root/admin"
)

// A world is a server over a real memory and fake conversations, with the agents smith and jones of acme and mallory
// of evil.
type world struct {
	t      *testing.T
	api    *service.API
	server *server.Server
	http   *httptest.Server
	talk   *servertest.Conversations
	agents map[string]string // ids by name
}

// nothing executes no tool.
type nothing struct{}

// Execute implements [executor.Executor].
func (nothing) Execute(context.Context, executor.Request) (*haft.Result, error) {
	return nil, io.ErrUnexpectedEOF
}

func setup(t *testing.T, change func(*server.Config)) *world {
	t.Helper()
	w := &world{t: t, agents: map[string]string{}}
	_, w.api, _ = servertest.Open(t, "version: 1\n", nothing{}, registry.Config{}, engine.Config{}, service.Config{})
	w.talk = &servertest.Conversations{Agents: w.api, Left: make(chan haft.TurnID, 10)}
	cfg := server.Config{Resources: []server.Resource{agentapi.New(agentapi.Config{Agents: w.api, Memory: w.api.Memory,
		Blocks: w.api.Memory, Archive: w.api.Memory, Conversations: w.talk, Models: servertest.Models{}})}}
	if change != nil {
		change(&cfg)
	}
	w.server, w.http = servertest.Serve(t, w.api, cfg)
	for name, who := range map[string]string{"smith": admin, "jones": admin, "mallory": stranger} {
		var a haft.Agent
		w.must(201, who, "POST", "/v1/agents", `{"name":"`+name+`"}`, &a)
		w.agents[name] = string(a.ID)
	}
	return w
}

// must sends a request, expects a status and reads the answer, unless into is nil.
func (w *world) must(status int, who, method, path, body string, into any) servertest.Answer {
	w.t.Helper()
	a := servertest.Send(w.t, w.http, who, method, path, body)
	if a.Status != status {
		w.t.Fatalf("%s %s by %s: %d, want %d: %s", method, path, who, a.Status, status, a.Body)
	}
	if into != nil {
		a.Into(w.t, into)
	}
	return a
}

// A stream reads server-sent events.
type stream struct {
	t     *testing.T
	res   *http.Response
	lines *bufio.Scanner
	cut   context.CancelFunc
	beats int
}

// stream begins one, or returns what is answered instead.
func (w *world) stream(who, method, path, body string, headers ...string) *stream {
	w.t.Helper()
	ctx, cut := context.WithCancel(w.t.Context())
	r, err := http.NewRequestWithContext(ctx, method, w.http.URL+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+who)
	r.Header.Set("Accept", "text/event-stream")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := w.http.Client().Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { cut(); res.Body.Close() })
	return &stream{w.t, res, bufio.NewScanner(res.Body), cut, 0}
}

// next returns the next event as "ID KIND DATA", or "" at the end. The data is without times.
func (s *stream) next() string {
	s.t.Helper()
	id, kind, data := "", "", ""
	for s.lines.Scan() {
		name, value, _ := strings.Cut(s.lines.Text(), ": ")
		switch {
		case name == "id":
			id = value
		case name == "event":
			kind = value
		case name == "data":
			data = value
		case name == "" && value == "heartbeat":
			s.beats++
		case name == "" && data == "":
			id, kind = "", ""
		case name == "" && kind == "error":
			return kind + " " + data
		case name == "":
			var e haft.TurnEvent
			if err := json.Unmarshal([]byte(data), &e); err != nil {
				s.t.Fatalf("an event that cannot be read: %v", err)
			}
			switch {
			case e.Message != nil:
				data = fmt.Sprintf("%s: %s", e.Message.Role, e.Message.Text)
			case e.Turn != nil:
				data = string(e.Turn.Status)
			case e.Delta != "":
				data = e.Delta
			}
			return strings.TrimSpace(id + " " + kind + " " + data)
		}
	}
	return ""
}

// expect compares the next events; "" is the end.
func (s *stream) expect(want ...string) {
	s.t.Helper()
	for _, one := range want {
		if got := s.next(); got != one {
			s.t.Fatalf("the event is %q, want %q", got, one)
		}
	}
}
