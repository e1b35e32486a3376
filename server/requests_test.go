package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"haft"
	"haft/executor"
	"haft/internal/service"
	"haft/sandbox"
	"haft/server"
)

// holding is an entry point that answers when its request is ended, with the reason.
type holding struct{ began chan struct{} }

// Action implements [server.API].
func (holding) Action(*http.Request) haft.Action { return haft.ToolsRead }

// Enter implements [server.API].
func (h holding) Serve(w http.ResponseWriter, r *http.Request, _ server.Identity) { h.hold(w, r) }

func (h holding) hold(w http.ResponseWriter, r *http.Request) {
	h.began <- struct{}{}
	select {
	case <-r.Context().Done():
		w.WriteHeader(http.StatusForbidden)
		if cause := context.Cause(r.Context()); errors.Is(cause, sandbox.ErrNoGrace) { // or tools would run on
			fmt.Fprint(w, cause)
		}
	case <-time.After(time.Minute):
		w.WriteHeader(http.StatusOK)
	}
}

// A request on behalf of an agent ends with the agent, wherever it came in and however it
// names the agent.
func TestChanged_ends_what_is_done_as_an_agent(t *testing.T) {
	for name, tt := range map[string]struct{ method, path, body string }{
		"another API":   {"GET", "/other/x?as=smith", ""},
		"a mount":       {"GET", "/mount?as=smith", ""},
		"a call, query": {"POST", "/v1/calls?as=smith", `{"tool":"f"}`},
		"a call, body":  {"POST", "/v1/calls", `{"tool":"f","agent":"smith"}`},
		"a batch, the first": {"POST", "/v1/calls/batch",
			`{"calls":[{"tool":"f","agent":"smith"},{"tool":"f","agent":"jones"}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			held := holding{make(chan struct{}, 4)}
			var s *server.Server
			w := setup(t, func(c *server.Config) {
				c.APIs = map[string]server.API{"/other/": held}
				c.Mounts = map[string]http.Handler{"/mount": http.HandlerFunc(
					func(w http.ResponseWriter, r *http.Request) {
						if _, _, err := s.Identify(w, r, ""); err != nil {
							t.Error(err)
						}
						held.hold(w, r)
					})}
			})
			s = w.server
			w.tool("f", "")
			w.run = func(ctx context.Context, req executor.Request) (*haft.Result, error) {
				held.began <- struct{}{}
				select {
				case <-ctx.Done():
					return nil, context.Cause(ctx)
				case <-time.After(time.Minute):
					return echo(ctx, req)
				}
			}
			w.must(201, admin, "POST", "/v1/agents", `{"name":"smith","tools":["f"]}`)
			w.must(201, admin, "POST", "/v1/agents", `{"name":"jones","tools":["f"]}`)
			done := make(chan answer, 1)
			go func() { done <- w.ask(admin, tt.method, tt.path, tt.body) }()
			select {
			case <-held.began:
			case a := <-done:
				t.Fatalf("%d %s", a.status, a.body)
			}
			w.must(204, admin, "DELETE", "/v1/agents/smith", "")
			w.server.Changed("acme")
			// The engine withdraws calls too, in its own words.
			a := <-done
			if said := string(a.body); !strings.Contains(said, "the agent was removed") &&
				!strings.Contains(said, "there is no such agent") {
				t.Errorf("%d %s", a.status, a.body)
			}
		})
	}
}

// turning is a service and an authenticator that take something away between two steps
// of a request, after what is open was looked at because of it.
type turning struct {
	*service.API
	at     string // the step
	change func() // takes something away and tells the server

	mu     sync.Mutex
	turned bool
	looked chan struct{} // a look at what is open
}

// turn changes what it has to at a step, and waits for the server to have looked at the
// request as it was before.
func (tn *turning) turn(at string) {
	tn.mu.Lock()
	now := at == tn.at && !tn.turned
	tn.turned = tn.turned || now
	tn.mu.Unlock()
	if now {
		tn.change()
		<-tn.looked
	}
}

func (tn *turning) gone() bool {
	tn.mu.Lock()
	defer tn.mu.Unlock()
	return tn.turned
}

// Authenticate implements [server.Authenticator].
func (tn *turning) Authenticate(r *http.Request, from netip.Addr) (server.Identity, error) {
	id, err := people{}.Authenticate(r, from)
	if id.ActAs != nil {
		id.ActAs = func(string) error { tn.turn("acts"); return nil }
	}
	return id, err
}

// Recheck implements [server.Rechecker].
func (tn *turning) Recheck(_ context.Context, who server.Identity) (server.Identity, error) {
	if tn.gone() {
		who.Principal.Actions = []haft.Action{haft.ApprovalsRead} // of all, this is left
		who.ActAs = nil
	}
	select {
	case tn.looked <- struct{}{}:
	default:
	}
	return who, nil
}

// Agent implements [haft.Service]: the server asks for the agent of a credential before
// it knows what the request does.
func (tn *turning) Agent(ctx context.Context, p haft.Principal, ref string) (*haft.Agent, error) {
	tn.turn("needs")
	return tn.API.Agent(ctx, p, ref)
}

// Changes that are told between authentication and the moment at which the server knows
// what a request needs are not lost.
func TestChanged_between_the_steps_of_a_request(t *testing.T) {
	for at, tt := range map[string]struct{ who, path string }{
		"needs": {"acme/root/admin/smith", "/v1/tools"},
		"acts":  {admin, "/v1/whoami?as=smith"},
	} {
		t.Run(at, func(t *testing.T) {
			w := setup(t, nil)
			w.must(201, admin, "POST", "/v1/agents", `{"name":"smith"}`)
			tn := &turning{API: w.engine, at: at, looked: make(chan struct{}, 1)}
			s, err := server.New(tn, tn, server.Config{Events: w.engine})
			check(t, err)
			tn.change = func() { s.Changed("acme") }
			r := httptest.NewRequest("GET", tt.path, nil)
			r.Host = "localhost"
			r.Header.Set("Authorization", "Bearer "+tt.who)
			rec := httptest.NewRecorder()
			s.Handler().ServeHTTP(rec, r)
			if !tn.gone() || rec.Code != 403 {
				t.Errorf("the request went on: %d %s", rec.Code, rec.Body)
			}
			check(t, s.Shutdown(t.Context()))
		})
	}
}

// countedWaits sends a value for every call that is waited for.
type countedWaits struct {
	server.Engine
	waits chan<- struct{}
}

func (c countedWaits) Wait(ctx context.Context, p haft.Principal, id haft.CallID) (*haft.Result, error) {
	c.waits <- struct{}{}
	return c.Engine.Wait(ctx, p, id)
}

// A request that waits for a call is as long as a stream, and counts as one.
func TestStreams_count_requests_that_wait(t *testing.T) {
	var w *world
	waits := make(chan struct{}, 10)
	w, address := bounded(t, func(c *server.Config) {
		c.Engine = countedWaits{c.Engine, waits}
	})
	w.tool("f", "")
	hold := make(chan struct{})
	w.run = func(ctx context.Context, req executor.Request) (*haft.Result, error) {
		select {
		case <-hold:
		case <-ctx.Done():
		}
		return echo(ctx, req)
	}
	var first server.Called
	w.must(202, user, "POST", "/v1/calls", `{"tool":"f","wait":false}`).into(t, &first)
	show := func() string {
		return fmt.Sprintf("GET /v1/calls/%s?wait=600 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n",
			first.Call, user)
	}
	const body = `{"tool":"f","wait":600}`
	call := fmt.Sprintf("POST /v1/calls HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: "+
		"application/json\r\nContent-Length: %d\r\n\r\n%s",
		user, len(body), body)
	var waiting []net.Conn
	for _, request := range []string{show(), call, show()} { // as many as a credential may have
		conn := dialFrom(t, "127.0.0.1", address)
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
		waiting = append(waiting, conn)
	}
	for range waiting {
		<-waits
	}
	for _, one := range []struct{ method, path, body string }{
		{"GET", fmt.Sprintf("/v1/calls/%s?wait=600", first.Call), ""}, {"POST", "/v1/calls", body},
		{"GET", "/v1/events", ""},
	} {
		if a := w.ask(user, one.method, one.path, one.body); a.status != 429 {
			t.Errorf("one more, %s %s: %d %s", one.method, one.path, a.status, a.body)
		}
	}
	if a := w.ask(user, "GET", fmt.Sprintf("/v1/calls/%s", first.Call), ""); a.status != 200 {
		t.Errorf("a request that does not wait: %d %s", a.status, a.body)
	}
	close(hold)
	for _, conn := range waiting {
		_ = conn.SetDeadline(time.Now().Add(3 * time.Minute))
		if _, err := conn.Read(make([]byte, 1)); err != nil {
			t.Error(err)
		}
	}
}
