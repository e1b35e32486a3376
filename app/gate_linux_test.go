package app_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"haft"
	"haft/app"
)

// fetching is a tool that fetches an address.
const fetching = `
import urllib.request

def fetch(url: str) -> str:
    """Fetch a page.

    Args:
        url: where
    """
    with urllib.request.urlopen(url, timeout=5) as r:
        return r.read().decode()
`

// A tool reaches the hosts that it names and policy allows, through the proxy, and
// nothing else; the audit has every connection.
func TestService_network_of_named_hosts(t *testing.T) {
	open(t, app.Config{})
	allowed := httptest.NewServer(http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello from outside")) }))
	defer allowed.Close()
	other := httptest.NewServer(
		http.HandlerFunc(
			func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("you should not see this")) }))
	defer other.Close()
	s, err := app.OpenService(t.Context(), app.ServiceConfig{Config: app.Config{AllowReduced: true}, Data: t.TempDir(),
		SelfReview: true,
		Allow:      []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx := t.Context()
	change, err := s.PutTool(ctx, root(), haft.Draft{Kind: haft.KindPython, Source: fetching,
		Settings: haft.Settings{Network: []string{strings.TrimPrefix(allowed.URL, "http://")}}})
	if err != nil {
		t.Fatal(err)
	}
	if change.Waiting > 0 {
		if _, err := s.SetTool(ctx, root(), "fetch", haft.ToolState{Review: &haft.Answer{Approve: true}}); err != nil {
			t.Fatal(err)
		}
	}
	call := func(url string) *haft.Result {
		res, err := s.Call(ctx, haft.Call{Tool: "fetch", Args: json.RawMessage(`{"url":"` + url + `"}`),
			Principal: root()})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	if res := call(allowed.URL); string(res.Value) != `"hello from outside"` {
		t.Errorf("the allowed host gave %s: %+v", res.Value, res.Error)
	}
	res := call(other.URL)
	if res.Status != haft.StatusError || strings.Contains(string(res.Value), "should not") || len(res.Notices) == 0 {
		t.Errorf("the other host gave %s %s, notices %v", res.Status, res.Value, res.Notices)
	}
	entries, err := s.Store.Audit.AuditEntries(ctx, "local", 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	connections := 0
	for _, e := range entries {
		connections += strings.Count(string(e.Body), `"to":`)
	}
	if connections != 2 {
		t.Errorf("the audit has %d connections, want 2", connections)
	}
	if _, err := s.PutPolicy(ctx, root(), false, haft.PolicyText{Text: []byte("version: 1\nrules:\n  - {id: none, " +
		"effect: limit, network: []}\n")}); err != nil {
		t.Fatal(err)
	}
	if res := call(allowed.URL); res.Status != haft.StatusDenied {
		t.Errorf("against policy: %s %+v", res.Status, res.Error)
	}
}
