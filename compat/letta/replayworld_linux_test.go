package letta_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"haft"
	"haft/app"
	"haft/compat/letta"
	"haft/internal/service"
	"haft/internal/supply"
	"haft/sandbox/sandboxtest"
)

// replayRules let administrators call every tool, and have commands of this machine as MCP
// servers.
const replayRules = `
version: 1
roles: {admin: ["tool:*"]}
approval: {roles: [approver]}
mcp: [{orgs: ["*"], commands: [python3]}]
`

// A replay is a whole server, as Letta's clients meet it.
type replay struct {
	t        *testing.T
	url, key string
}

// openReplay starts a server with these settings of its operator. Variables are public, and
// allowed for MCP servers.
func openReplay(t *testing.T, settings letta.Settings, variables ...string) *replay {
	t.Helper()
	return openReplayWith(t, supply.Config{}, settings, variables...)
}

// openReplayWith is openReplay with packages.
func openReplayWith(t *testing.T, packages supply.Config, settings letta.Settings, variables ...string) *replay {
	t.Helper()
	dir := t.TempDir()
	s, err := app.OpenServer(t.Context(), app.ServerConfig{
		ServiceConfig: app.ServiceConfig{
			Data: dir, Policy: []byte(replayRules),
			Config:          app.Config{AllowReduced: true, Packages: packages},
			Allow:           []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
			PublicVariables: variables, Manage: service.Config{CommandVariables: variables},
			Upstream: app.UpstreamConfig{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
		},
		Letta: settings,
	})
	if haft.CodeOf(err) == haft.CodeInvalid {
		t.Fatal(err)
	}
	if err != nil {
		sandboxtest.Require(t, "sandbox", err.Error())
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.HTTP.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		for _, err := range []error{s.HTTP.Shutdown(ctx), <-served, s.Close()} {
			if err != nil {
				t.Error(err)
			}
		}
	})
	key, err := os.ReadFile(filepath.Join(dir, "admin.key"))
	if err != nil {
		t.Fatal(err)
	}
	return &replay{t, "http://" + ln.Addr().String() + letta.Prefix + "/v1", strings.TrimSpace(string(key))}
}

// with is the same server for a part of a test.
func (r replay) with(t *testing.T) *replay { return &replay{t, r.url, r.key} }

// as is the same server for another administrator.
func (r replay) as(user string) *replay {
	r.t.Helper()
	own := r
	own.url = strings.TrimSuffix(r.url, letta.Prefix+"/v1")
	key := own.get("POST", "/v1/keys", body{"name": user, "user": user, "roles": []string{"admin"}})
	r.key = key["secret"].(string)
	return &r
}

// body is a JSON object.
type body = map[string]any

// send sends a request and returns status and answer.
func (r *replay) send(method, path string, b any) (int, string) {
	r.t.Helper()
	text := ""
	if b != nil {
		raw, err := json.Marshal(b)
		if err != nil {
			r.t.Fatal(err)
		}
		text = string(raw)
	}
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, strings.NewReader(text))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Close = true
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+r.key)
	req.Header.Set("X-Stainless-Package-Version", "1.12.1")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return res.StatusCode, string(answer)
}

// get sends a request that must succeed, and reads its answer.
func (r *replay) get(method, path string, b any) body {
	r.t.Helper()
	status, text := r.send(method, path, b)
	if status >= 300 {
		r.t.Fatalf("%s %s: %d %s", method, path, status, text)
	}
	return decode[body](r.t, text)
}

// decode reads JSON.
func decode[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// refused sends a request that must be refused with a status and some words.
func (r *replay) refused(method, path string, b any, status int, words string) {
	r.t.Helper()
	got, text := r.send(method, path, b)
	if got != status || !strings.Contains(text, words) {
		r.t.Errorf("%s %s: %d %s, want %d with %q", method, path, got, text, status, words)
	}
}

// run runs a source as tools.run does, and expects what it returns as text.
func (r *replay) run(source string, args body, want string, more ...body) {
	r.t.Helper()
	b := body{"source_code": source, "args": args}
	for _, m := range more {
		for k, v := range m {
			b[k] = v
		}
	}
	got := r.get("POST", "/tools/run", b)
	if got["tool_return"] != want || got["status"] != "success" {
		r.t.Errorf("%s\n%v: %v %v %v, want %s", source, args, got["status"], got["tool_return"], got["stderr"], want)
	}
}

// put upserts a tool and attaches it to an agent of its own; it returns the tool and the id of
// the agent.
func (r *replay) put(b body) (body, string) {
	r.t.Helper()
	tool := r.get("PUT", "/tools/", b)
	agent := r.get("POST", "/agents/", body{"name": "of_" + tool["name"].(string), "tool_ids": []any{tool["id"]},
		"include_base_tools": false})
	return tool, agent["id"].(string)
}

// call runs a tool of an agent and expects its value as JSON.
func (r *replay) call(tool body, agent string, args body, want string) {
	r.t.Helper()
	got := r.get("POST", "/agents/"+agent+"/tools/"+tool["name"].(string)+"/run", body{"args": args})
	text, err := json.Marshal(got["func_return"])
	if err != nil {
		r.t.Fatal(err)
	}
	if got["status"] != "success" || string(text) != want {
		r.t.Errorf("%v %v: %v %s %v, want %s", tool["name"], args, got["status"], text, got["stderr"], want)
	}
}
