package tooltest

import (
	"net/http"
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
