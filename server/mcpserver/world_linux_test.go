package mcpserver_test

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"haft"
	"haft/app"
	"haft/executor/builtin"
	"haft/sandbox/sandboxtest"
	"haft/server"
	"haft/server/mcpserver"
)

// operator is who owns the worlds of these tests.
var operator = haft.Principal{Org: "local", User: "ann", Roles: []string{haft.RoleAdmin, haft.RoleApprover}}

// openService opens a service that keeps everything in memory.
func openService(t *testing.T, cfg app.ServiceConfig) *app.Service {
	t.Helper()
	cfg.AllowReduced = true // what a machine gives is what is tried
	s, err := app.OpenService(t.Context(), cfg)
	if haft.CodeOf(err) == haft.CodeInvalid {
		t.Fatal(err) // the test is wrong, not the machine
	}
	if err != nil {
		sandboxtest.Require(t, "sandbox", err.Error())
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close the service: %v", err)
		}
	})
	return s
}

// openEndpoint makes an MCP endpoint to a service.
func openEndpoint(t *testing.T, s *app.Service, cfg mcpserver.Config) *mcpserver.Server {
	t.Helper()
	endpoint, err := mcpserver.New(s.API, s.MCPConfig(cfg))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := endpoint.Close(); err != nil {
			t.Errorf("close the endpoint: %v", err)
		}
	})
	return endpoint
}

// everybody lets everybody in as one principal.
type everybody struct{ haft.Principal }

func (e everybody) Authenticate(*http.Request, netip.Addr) (server.Identity, error) {
	return server.Identity{Principal: e.Principal}, nil
}

// serveEndpoint puts an API behind the guard of the HTTP server, as it is used, and
// returns its address.
func serveEndpoint(t *testing.T, s *app.Service, endpoint *mcpserver.Server,
	who func(http.ResponseWriter, *http.Request) (mcpserver.Caller, error)) string {
	t.Helper()
	web, err := server.New(s.API, everybody{operator}, server.Config{
		Mounts: map[string]http.Handler{"/mcp": endpoint.Handler(who)}, Leaving: endpoint.Leave,
	})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- web.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		for _, err := range []error{web.Shutdown(ctx), <-served} {
			if err != nil {
				t.Errorf("shut the server down: %v", err)
			}
		}
	})
	return "http://" + ln.Addr().String() + "/mcp"
}

// fixed is a caller who is always the same.
func fixed(who mcpserver.Caller) func(http.ResponseWriter, *http.Request) (mcpserver.Caller, error) {
	return func(http.ResponseWriter, *http.Request) (mcpserver.Caller, error) { return who, nil }
}

// installed finds a file of what scripts/setup installs, or skips loudly.
func installed(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", ".haft", name))
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		sandboxtest.Require(t, "mcp", "there is no .haft/"+name+": run make setup-more")
	}
	return path
}

// adding is a configuration with tools.
func adding(add func(*builtin.Set) error) app.ServiceConfig {
	return app.ServiceConfig{Builtins: add}
}
