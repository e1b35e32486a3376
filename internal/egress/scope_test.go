package egress_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"haft"
	"haft/internal/egress"
)

// A scope holds every request against its rules, also those of redirects and of hosts
// that are spelled otherwise, and records what became of it.
func TestScope_bounds_and_records_requests(t *testing.T) {
	w := open(t, egress.ProxyConfig{}, nil, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if to, ok := strings.CutPrefix(r.URL.Path, "/to/"); ok {
			http.Redirect(rw, r, "http://"+to+"/", http.StatusFound)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		fmt.Fprint(rw, "hello")
	}))
	var mu sync.Mutex
	var log []egress.Connection
	begun := 0
	scope := egress.Scope{
		Forbid: func(host string, port uint16) *egress.Refusal {
			if host == "api.example" && fmt.Sprint(port) == w.http {
				return nil
			}
			return egress.NotByPolicy("org/one-host", host, port)
		},
		Record: func(c egress.Connection) { mu.Lock(); log = append(log, c); mu.Unlock() },
		Begun:  func(egress.Connection) { mu.Lock(); begun++; mu.Unlock() },
	}
	client := *w.guard.Client()
	client.Transport = scope.Wrap(client.Transport)
	t.Cleanup(client.CloseIdleConnections)
	tests := []struct {
		url     string
		refused bool
	}{
		{"http://api.example:" + w.http + "/", false},
		{"http://API.example.:" + w.http + "/", false},
		{"http://other.example:" + w.http + "/", true},
		{"https://api.example:" + w.https + "/", true},
		{"http://api.example:" + w.http + "/to/evil.example:" + w.http, true},
		{"http://127.0.0.1:" + w.http + "/", true},
		{"http://0x7f.1:" + w.http + "/", true},
		{"http://api.example:" + w.http + "/to/api.example:" + w.http, false},
	}
	for _, tt := range tests {
		mu.Lock()
		before := len(log)
		mu.Unlock()
		resp, err := client.Post(tt.url, "text/plain", strings.NewReader("12345"))
		if err == nil {
			_, _ = io.ReadAll(resp.Body)
			resp.Body.Close()
		}
		if (err != nil) != tt.refused {
			t.Fatalf("%s: %v", tt.url, err)
		}
		var h *haft.Error
		if err != nil && (!errors.As(err, &h) || h.Code != haft.CodeDenied) {
			t.Errorf("%s: %v is no denial", tt.url, err)
		}
		mu.Lock()
		last := log[len(log)-1]
		n := len(log) - before
		mu.Unlock()
		if want := 1 + strings.Count(tt.url, "/to/"); n != want {
			t.Errorf("%s: %d records, want %d", tt.url, n, want)
		}
		if tt.refused != (last.Refusal != nil) || tt.refused != (last.Outcome == egress.OutcomeRefused) {
			t.Errorf("%s: record %+v", tt.url, last)
		}
		if !tt.refused && (last.Down != 5 || last.Status != 200 || last.Host != "api.example" ||
			n == 1 && last.Up != 5) {
			t.Errorf("%s: record %+v", tt.url, last)
		}
	}
	for _, r := range w.served() {
		if !strings.EqualFold(strings.TrimSuffix(strings.Split(r.Host, ":")[0], "."), "api.example") {
			t.Errorf("%s was reached", r.Host)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if begun != 5 {
		t.Errorf("%d answers began, want 5", begun)
	}
}

// What a proxy is told to forbid is forbidden though a rule names it, whichever way a
// program connects and whenever that is decided.
func TestProxy_forbids_what_its_rules_name(t *testing.T) {
	var mu sync.Mutex
	forbidden := true
	w := open(t, egress.ProxyConfig{Forbid: func(host string, port uint16) *egress.Refusal {
		mu.Lock()
		defer mu.Unlock()
		if forbidden {
			return egress.NotByPolicy("org/none", host, port)
		}
		return nil
	}}, []string{"http://api.example:HTTP_", "https://api.example:HTTPS", "tcp://api.example:HTTP_"}, nil)
	c := w.client(w.roots)
	for _, allowed := range []bool{false, true, false} {
		mu.Lock()
		forbidden = !allowed
		mu.Unlock()
		for _, u := range []string{"http://api.example:" + w.http + "/x", "https://api.example:" + w.https + "/x"} {
			c.CloseIdleConnections()
			before := len(w.served())
			resp, err := c.Get(u)
			if err == nil {
				_, _ = io.ReadAll(resp.Body)
				resp.Body.Close()
			}
			if got := err == nil && resp.StatusCode == 200; got != allowed {
				t.Errorf("%s is reached: %v, want %v (%v)", u, got, allowed, err)
			}
			if reached := len(w.served()) > before; reached != allowed {
				t.Errorf("%s: the server was asked: %v", u, reached)
			}
		}
	}
	refused := 0
	for _, r := range w.records(6) {
		if r.Refusal != nil && r.Refusal.Rule == egress.RulePolicy &&
			strings.Contains(r.Refusal.Message(), "org/none") {
			refused++
		}
	}
	if refused != 4 {
		t.Errorf("%d refusals are on record, want 4", refused)
	}
}
