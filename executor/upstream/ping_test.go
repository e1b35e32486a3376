package upstream_test

import (
	"encoding/json"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"haft"
	"haft/executor/upstream"
)

// pinged is a server of a revision that has pings. It answers only some of them.
type pinged struct {
	begun, pings atomic.Int64
	answers      func(ping int64) bool
}

func (p *pinged) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var m struct {
		ID     json.RawMessage
		Method string
	}
	if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&m) != nil || m.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	var result any = struct{}{}
	switch m.Method {
	case "initialize":
		p.begun.Add(1)
		result = map[string]any{"protocolVersion": "2025-06-18", "capabilities": map[string]any{"tools": struct{}{}},
			"serverInfo": map[string]any{"name": "pinged", "version": "1"}}
	case "tools/list":
		schema := map[string]any{"type": "object"}
		result = map[string]any{"tools": []any{map[string]any{"name": "hello", "inputSchema": schema}}}
	case "tools/call":
		result = map[string]any{"content": []any{map[string]any{"type": "text", "text": "hello"}}}
	case "ping":
		if !p.answers(p.pings.Add(1)) {
			<-r.Context().Done()
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": m.ID, "result": result}) // or it has left
}

// A session is kept if the server answers the second ping: the time for the first one also passes while this process
// stands still. After two without an answer the next call gets a new session.
func TestPool_pings_twice(t *testing.T) {
	for _, tt := range []struct {
		name    string
		answers func(ping int64) bool
		pings   int64
		begun   int64
	}{
		{"all but the first", func(n int64) bool { return n > 1 }, 4, 1},
		{"none", func(int64) bool { return false }, 2, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := &pinged{answers: tt.answers}
			w := newWorld(t, upstream.Config{Health: 400 * time.Millisecond, Ping: 150 * time.Millisecond})
			url := at(t, p)
			w.add("far", "", func(s *haft.MCPServer) { s.Transport, s.URL, s.Command = haft.MCPHTTP, url, nil })
			call := func() bool { return w.call(request("far", "hello", "{}")).Status == haft.StatusSuccess }
			if !call() {
				t.Fatal("it does not answer")
			}
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			end := time.Now().Add(20 * time.Second)
			for ; p.pings.Load() < tt.pings || p.begun.Load() < tt.begun; <-tick.C {
				if time.Now().After(end) {
					t.Fatalf("%d pings and %d sessions, want %d and %d", p.pings.Load(), p.begun.Load(), tt.pings,
						tt.begun)
				}
				if tt.begun > 1 {
					call() // it fails while the server is left alone
				}
			}
			if tt.begun == 1 && (p.begun.Load() != 1 || !call()) {
				t.Errorf("%d sessions, want 1", p.begun.Load())
			}
		})
	}
}
