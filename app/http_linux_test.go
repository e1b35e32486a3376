package app_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"haft/app"
	"haft/internal/audit"
)

// startServer opens a server on a free port and returns it and its address.
func startServer(t *testing.T, dir string) (*app.Server, string, func()) {
	t.Helper()
	return startServerWith(t, app.ServerConfig{ServiceConfig: app.ServiceConfig{Data: dir}})
}

// startServerWith is startServer with more to say.
func startServerWith(t *testing.T, cfg app.ServerConfig) (*app.Server, string, func()) {
	t.Helper()
	cfg.AllowReduced = true // what a machine gives is what is tried
	s, err := app.OpenServer(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.HTTP.Serve(ln) }()
	return s, "http://" + ln.Addr().String(), func() {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		for _, err := range []error{s.HTTP.Shutdown(ctx), <-served, s.Close()} {
			if err != nil {
				t.Error(err)
			}
		}
	}
}

// request sends one and returns the status and the body.
func request(t *testing.T, key, method, url, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Close = true
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(raw)
}

// A server makes its first key, is used with it, and knows it after a restart.
func TestServer_with_its_first_key(t *testing.T) {
	open(t, app.Config{})
	dir := t.TempDir()
	s, url, stop := startServer(t, dir)
	file := filepath.Join(dir, "admin.key")
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 || s.Auth.FirstFile != file {
		t.Fatalf("the first key: %v, %v", info, err)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	key := strings.TrimSpace(string(raw))
	if status, _ := request(t, "", "GET", url+"/v1/tools", ""); status != 401 {
		t.Errorf("without a key: %d", status)
	}
	source, err := json.Marshal(map[string]string{"source_code": "def add(a: int, b: int) -> int:\n    " +
		"\"\"\"Add.\n\n    Args:\n        a: one\n        b: two\n    \"\"\"\n    return a + b\n"})
	if err != nil {
		t.Fatal(err)
	}
	if status, body := request(t, key, "POST", url+"/v1/tools", string(source)); status != 201 {
		t.Fatalf("add a tool: %d %s", status, body)
	}
	for _, c := range []struct {
		method, path, body, want string
	}{
		{"POST", "/v1/calls", `{"tool":"add","args":{"a":2,"b":3}}`, `"value":5`},
		{"POST", "/v1/tool_calls",
			`{"role":"assistant","tool_calls":[{"id":"call_1","type":"function","function":{"name":"add","arguments":"{\"a\":1,\"b\":2}"}},{"id":"call_2","type":"function","function":{"name":"add","arguments":"{"}}]}`, `"tool_call_id":"call_2"`},
		{"GET", "/v1/tools?format=anthropic", "", `"input_schema"`},
		{"GET", "/readyz", "", `"ready"`},
		{"GET", "/metrics", "", "haft_"},
	} {
		if status, body := request(t, key, c.method, url+c.path, c.body); status != 200 ||
			!strings.Contains(body, c.want) {
			t.Errorf("%s %s: %d %s", c.method, c.path, status, body)
		}
	}
	_, export := request(t, key, "GET", url+"/v1/audit", "")
	if rep, err := audit.Read(strings.NewReader(export), "local", s.Keys, nil,
		func(audit.Entry) error { return nil }); err != nil || !rep.Sound() || rep.Entries == 0 {
		t.Errorf("the export is not sound: %+v, %v", rep, err)
	}
	stop()

	again, url, stop := startServer(t, dir)
	defer stop()
	if again.Auth.FirstFile != "" {
		t.Error("a second first key")
	}
	if status, body := request(t, key, "GET", url+"/v1/tools/add", ""); status != 200 {
		t.Errorf("after a restart: %d %s", status, body)
	}
}
