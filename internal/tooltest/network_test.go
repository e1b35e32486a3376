package tooltest

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"haft"
	"haft/internal/egress"
)

// A request of no case reaches the network only if the one who runs the tests says so, and none of a case that has
// ended does.
func TestWorld_answers_requests_of_no_case(t *testing.T) {
	for _, tt := range []struct {
		name, user string
		real, sent bool
	}{
		{"an MCP server", "", false, false},
		{"an MCP server, with --real-network", "", true, true},
		{"a case that has ended", "case-1", true, false},
	} {
		sent := false
		w := &world{cfg: &Config{RealNetwork: tt.real}}
		resp, err := w.answer(egress.MockRequest{Caller: egress.Caller{Principal: haft.Principal{User: tt.user}},
			Send: func() (*http.Response, error) { sent = true; return &http.Response{Body: http.NoBody}, nil }})
		if sent != tt.sent || (err == nil) != tt.sent {
			t.Errorf("%s: it was sent: %t, %v", tt.name, sent, err)
		}
		if err != nil && !strings.Contains(haft.MessageOf(err), "--real-network") {
			t.Errorf("%s: the error does not say what allows it: %v", tt.name, err)
		}
		if resp != nil {
			_ = resp.Body.Close()
		}
	}
}

// The name that an observed tool without network gets is asked of no resolver.
func TestWorld_never_sends_to_the_host_that_is_none(t *testing.T) {
	for host, want := range map[string]bool{noHost: false, "No-Host.haft-test.INVALID:8443": false,
		"api.example": true} {
		sent := false
		w := &world{cfg: &Config{RealNetwork: true}}
		r := &run{place: &place{world: w}, c: &Case{Network: networkReal}}
		w.runs.Store("test-1/case-1", r)
		resp, err := w.answer(egress.MockRequest{
			Caller:  egress.Caller{Principal: haft.Principal{Org: "test-1", User: "case-1"}},
			Request: &http.Request{URL: &url.URL{Scheme: "http", Host: host}},
			Send:    func() (*http.Response, error) { sent = true; return &http.Response{Body: http.NoBody}, nil }})
		if sent != want || want != (err == nil) || !want && haft.CodeOf(err) != haft.CodeDenied || len(r.real) != 1 {
			t.Errorf("%s: it was sent: %t, %v, met %q", host, sent, err, r.real)
		}
		if resp != nil {
			_ = resp.Body.Close()
		}
	}
}
