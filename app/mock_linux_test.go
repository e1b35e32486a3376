package app_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"haft"
	"haft/app"
	"haft/internal/apimock"
	"haft/internal/egress"
	"haft/internal/secret"
	"haft/sandbox/sandboxtest"
)

// fetchURL is a tool that uses nothing but the standard library.
const fetchURL = `import os, urllib.request, urllib.error
def fetch_url(url: str) -> str:
    """Fetch.

    Args:
        url: where
    """
    request = urllib.request.Request(url, headers={"Authorization": "Bearer " + os.environ["API_KEY"]})
    try:
        with urllib.request.urlopen(request, timeout=60) as r:
            return str(r.status)
    except urllib.error.HTTPError as e:
        return str(e.code) + " " + e.read().decode()
`

// openMocked opens a market whose requests a mock answers.
func openMocked(t *testing.T, mock *apimock.Mock, real bool, cfg app.ServiceConfig) *market {
	t.Helper()
	cfg.Egress.Mock = &egress.Mock{Answer: mock.Answer, Real: real}
	m := openMarket(t, nil, cfg)
	m.bind("", "API_KEY", brokered, secret.Binding{Header: "Authorization", Prefix: "Bearer "})
	return m
}

// A mock answers real clients in the sandbox and built-in tools, over http and https, and no request reaches a server.
func TestService_mocks_for_real_clients(t *testing.T) {
	for _, program := range []string{"curl", "node"} {
		if _, err := exec.LookPath(program); err != nil {
			sandboxtest.Require(t, program, err.Error())
		}
	}
	site := venv(t)
	mock, err := apimock.New([]apimock.Rule{{Request: apimock.Request{Host: "api.example"},
		Answer: &apimock.Answer{Body: "mocked"}}}, apimock.Options{})
	must(t, err)
	m := openMocked(t, mock, false,
		app.ServiceConfig{Config: app.Config{Interpreters: map[haft.Kind]string{haft.KindPython: site}}})
	tools := clients
	for _, tt := range append(tools[:len(tools):len(tools)], struct {
		name, place, source string
		kind                haft.Kind
	}{"urllib", "bearer", fetchURL, haft.KindPython}) {
		if tt.name == "git" {
			continue // it needs a repository
		}
		t.Run(tt.name, func(t *testing.T) {
			m.t = t
			change, err := m.PutTool(t.Context(), root(), haft.Draft{Name: "try_" + tt.name, Kind: tt.kind,
				Source: tt.source, Settings: haft.Settings{Network: m.hosts("api.example")}})
			must(t, err)
			if change.Waiting != 0 {
				_, err := m.SetTool(t.Context(), root(), change.Tool.Name,
					haft.ToolState{Review: &haft.Answer{Approve: true}})
				must(t, err)
			}
			for _, base := range m.hosts("api.example") {
				if tt.place == "basic" {
					m.bind("", "API_KEY", brokered, secret.Binding{Basic: "password"})
				} else {
					m.bind("", "API_KEY", brokered, secret.Binding{Header: "Authorization", Prefix: "Bearer "})
				}
				before := len(mock.Report().Requests)
				res := m.do(root(), "try_"+tt.name, map[string]string{"url": base}, nil)
				if got := strings.Trim(string(res.Value), `"`); got != "200" {
					t.Errorf("%s: %s %s %+v %s %v", base, res.Status, res.Value, res.Error, res.Stderr, res.Notices)
				}
				seen := mock.Report().Requests[before:]
				if len(seen) != 1 || strings.Contains(fmt.Sprint(seen[0].Header), brokered) {
					t.Errorf("%s: the mock saw %+v, want one request without the secret", base, seen)
				}
				res = m.do(root(), "try_"+tt.name,
					map[string]string{"url": strings.Replace(base, "api.", "other.", 1)}, nil)
				if !strings.Contains(fmt.Sprint(res.Notices), "network: [") {
					t.Errorf("another host is not refused: %s %s %v", res.Status, res.Value, res.Notices)
				}
			}
		})
	}
	t.Run("fetch_webpage", func(t *testing.T) {
		m.t = t
		res := m.do(root(), "fetch_webpage", map[string]string{"url": "https://api.example/page"}, nil)
		if !strings.Contains(string(res.Value), "mocked") {
			t.Errorf("%s %s %+v", res.Status, res.Value, res.Error)
		}
	})
	if n := len(m.requests()); n > 0 {
		t.Errorf("%d requests reached a server", n)
	}
}

// What a tool asks the real API once is replayed without it, and neither the cassette nor the tool has the secret.
func TestService_records_and_replays(t *testing.T) {
	file := filepath.Join(t.TempDir(), "api.cassette.yaml")
	var base string
	call := func(t *testing.T, record bool) (*market, *apimock.Mock, string) {
		mock, err := apimock.New(nil, apimock.Options{Cassette: file, Record: record})
		must(t, err)
		m := openMocked(t, mock, record, app.ServiceConfig{})
		if record {
			base = m.hosts("api.example")[1]
		}
		put(t, m.Service, fetchURL, haft.Settings{Network: []string{base}})
		m.bind("", "API_KEY", brokered, secret.Binding{Header: "Authorization", Prefix: "Bearer ",
			Hosts: []string{base}})
		res := m.do(root(), "fetch_url", map[string]string{"url": base + "/x"}, nil)
		return m, mock, string(res.Value)
	}
	m, mock, value := call(t, true)
	if got := m.requests(); value != `"200"` || len(got) != 1 || got[0].Header.Get("Authorization") != "Bearer "+brokered {
		t.Fatalf("the real API was not asked with the secret: %s, %d requests", value, len(got))
	}
	must(t, mock.Save())
	text, err := os.ReadFile(file)
	must(t, err)
	search(t, "the cassette", text, map[string]string{"API_KEY": brokered})
	m, _, value = call(t, false)
	if n := len(m.requests()); value != `"200"` || n > 0 {
		t.Errorf("replayed: %s with %d requests", value, n)
	}
	res := m.do(root(), "fetch_url", map[string]string{"url": base + "/other"}, nil)
	if !strings.Contains(string(res.Value), fmt.Sprint(apimock.StatusUnexpected)) ||
		!strings.Contains(string(res.Value), "is not in the cassette") {
		t.Errorf("a request that was not recorded: %s", res.Value)
	}
	if n := len(m.requests()); n > 0 {
		t.Errorf("%d requests reached the API", n)
	}
}
