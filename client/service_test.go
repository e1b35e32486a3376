package client_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"haft"
	"haft/client"
	"haft/executor"
	"haft/internal/authority"
	"haft/internal/engine"
	"haft/internal/registry"
	"haft/internal/service"
	"haft/internal/servicetest"
	"haft/internal/store/sqlite"
	"haft/policy"
	"haft/server"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// newEngine makes an engine that nothing is in.
func newEngine(t *testing.T) (*engine.Engine, *service.API) {
	t.Helper()
	store, err := sqlite.Open(t.Context(), sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { check(t, store.Close()) })
	reg := registry.New(store,
		registry.Config{Review: func(context.Context, haft.Kind, string, bool) ([]haft.Finding, error) {
			return nil, nil
		}})
	pol, err := policy.Compile([]byte(servicetest.Policy))
	if err != nil {
		t.Fatal(err)
	}
	parts := engine.Parts{Store: store, Registry: reg,
		Executors: map[haft.Kind]executor.Executor{haft.KindPython: servicetest.Executor{}}}
	e, err := engine.Open(t.Context(), parts, engine.Config{Policy: pol})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { check(t, e.Close()) })
	return e, service.New(e, parts, service.Config{})
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// people knows who a token of the tests is: ORG/USER/ROLE.
type people struct{}

// Authenticate implements server.Authenticator.
func (people) Authenticate(r *http.Request, _ netip.Addr) (server.Identity, error) {
	parts := strings.Split(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), "/")
	if len(parts) != 3 {
		return server.Identity{}, &haft.Error{Code: haft.CodeUnauthenticated,
			Message: "the credential is missing or not valid"}
	}
	admin := parts[2] == haft.RoleAdmin
	id := server.Identity{Principal: haft.Principal{Org: parts[0], User: parts[1], Roles: []string{parts[2]}},
		Rules: authority.Rules{Operators: "acme"}}
	if admin {
		id.ActAs = func(string) error { return nil }
	}
	return id, nil
}

// openServer makes a server over an engine that nothing is in.
func openServer(t *testing.T) (*httptest.Server, servicetest.System) {
	t.Helper()
	e, api := newEngine(t)
	return newServer(t, e, api)
}

// newServer makes a server over an engine, and a client for each who asks.
func newServer(t *testing.T, e *engine.Engine, api *service.API) (*httptest.Server, servicetest.System) {
	t.Helper()
	s, err := server.New(api, people{}, server.Config{Engine: e, Policies: api.Policies, Events: api})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(s.Handler())
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		check(t, s.Shutdown(ctx))
		web.Close()
	})
	return web, func(t *testing.T, who haft.Principal) haft.Service {
		return dial(t, client.Config{URL: web.URL, Key: who.Org + "/" + who.User + "/" + who.Roles[0]})
	}
}

// dial makes a client.
func dial(t *testing.T, cfg client.Config) *client.Client {
	t.Helper()
	c, err := client.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { check(t, c.Close()) })
	return c
}

// The engine and the client of its server pass the same conformance suite.
func TestService_engine(t *testing.T) {
	servicetest.Run(t, func(t *testing.T) servicetest.System {
		_, api := newEngine(t)
		return func(*testing.T, haft.Principal) haft.Service { return api }
	})
}

func TestService_client(t *testing.T) {
	servicetest.Run(t, func(t *testing.T) servicetest.System {
		_, system := openServer(t)
		return system
	})
}

// Who asks is said by the key: a principal that is somebody else is refused before
// anything is sent for it.
func TestClient_is_whom_the_key_says(t *testing.T) {
	_, system := openServer(t)
	c := system(t, servicetest.Ann)
	for name, p := range map[string]haft.Principal{
		"another organisation": servicetest.Stranger,
		"another user":         servicetest.Bob,
		"more roles":           {Org: "acme", User: "ann", Roles: []string{"user", haft.RoleAdmin}},
		"fewer roles":          {Org: "acme", User: "ann", Roles: []string{}},
		"a narrower scope":     {Org: "acme", User: "ann", Scope: []string{"tool:x"}},
		"an agent":             {Org: "acme", User: "ann", Agent: "smith"},
	} {
		if _, err := c.Tool(t.Context(), p, "f"); haft.CodeOf(err) != haft.CodeDenied {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, p := range map[string]haft.Principal{"the same": servicetest.Ann, "nobody in particular": {},
		"only the organisation": {Org: "acme"}} {
		if _, err := c.Tool(t.Context(), p, "f"); haft.CodeOf(err) != haft.CodeNotFound {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := system(t, haft.Principal{Org: "x", User: "y", Roles: []string{"a/b"}}).Tool(t.Context(), haft.Principal{},
		"f")
	if haft.CodeOf(err) != haft.CodeUnauthenticated {
		t.Errorf("a bad key: %v", err)
	}
}

// A stream that is cut at every turn loses nothing and repeats nothing.
func TestWatch_survives_cuts(t *testing.T) {
	e, api := newEngine(t)
	web, system := newServer(t, e, api)
	cut := &cutter{to: strings.TrimPrefix(web.URL, "http://")}
	c := dial(t, client.Config{URL: cut.start(t), Key: "acme/root/admin"})
	admin := system(t, servicetest.Admin)
	if _, err := admin.PutTool(t.Context(), servicetest.Admin,
		haft.Draft{Name: "echo", Kind: haft.KindPython, Function: "echo", Source: "def echo(): pass",
			Description: "A tool.", Parameters: []byte(`{"type":"object"}`)}); err != nil {
		t.Fatal(err)
	}
	const calls = 30
	made := make(chan error, 1)
	go func() {
		for range calls {
			if _, err := admin.Call(t.Context(), haft.Call{Tool: "echo"}); err != nil {
				made <- err
				return
			}
			cut.all()
		}
		made <- nil
	}()
	seqs, done, last := map[haft.CallID]int64{}, 0, int64(0)
	for ev, err := range c.Watch(t.Context(), haft.Principal{}, haft.EventFilter{}, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Type == "" {
			continue
		}
		if ev.Cursor <= last {
			t.Fatalf("event %d after %d", ev.Cursor, last)
		}
		last = ev.Cursor
		if seqs[ev.Call]++; ev.Seq != seqs[ev.Call] {
			t.Fatalf("event %d of %s has the number %d", seqs[ev.Call], ev.Call, ev.Seq)
		}
		if ev.Type == haft.EventCompleted {
			if done++; done == calls {
				break
			}
		}
	}
	if err := <-made; err != nil {
		t.Fatal(err)
	}
	if cut.cuts.Load() == 0 {
		t.Error("nothing was cut")
	}
}

var _ io.Closer = (*client.Client)(nil)
