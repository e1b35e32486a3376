package soak

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A toolServer is an MCP server with one tool, which notes each of its runs. It
// lives in the test process, so whatever dies, the effects are known.
type toolServer struct {
	url  string
	held atomic.Int64 // runs that have come to the gate

	mu      sync.Mutex
	gate    chan struct{} // closed while runs may pass
	effects []Effect
}

func startTool(t *testing.T) *toolServer {
	s := &toolServer{gate: make(chan struct{})}
	close(s.gate)
	web := httptest.NewServer(s)
	t.Cleanup(func() { s.openGate(); web.CloseClientConnections(); web.Close() })
	s.url = web.URL
	return s
}

// closeGate keeps runs of calls that say hold from ending until openGate.
func (s *toolServer) closeGate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gate = make(chan struct{})
	s.held.Store(0)
}

func (s *toolServer) openGate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.gate:
	default:
		close(s.gate)
	}
}

func (s *toolServer) seen() []Effect {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Effect(nil), s.effects...)
}

// arguments are those of the tool.
type arguments struct {
	Key  string `json:"key"`
	Hold bool   `json:"hold"`
}

// inputSchema describes them.
const inputSchema = `{"type": "object", "properties": {"key": {"type": "string"}, "hold": {"type": "boolean"}},
	"required": ["key", "hold"], "additionalProperties": false}`

// ServeHTTP speaks as much of MCP as a server of tools without sessions needs.
func (s *toolServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			Version   string    `json:"protocolVersion"`
			Arguments arguments `json:"arguments"`
		} `json:"params"`
	}
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if m.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	var result any = struct{}{}
	switch m.Method {
	case "initialize":
		result = map[string]any{
			"protocolVersion": m.Params.Version,
			"capabilities":    map[string]any{"tools": map[string]any{}},
			"serverInfo":      map[string]any{"name": "soak", "version": "1"},
		}
	case "tools/list":
		once := map[string]any{"name": "once", "description": "Notes its key.",
			"inputSchema": json.RawMessage(inputSchema)}
		result = map[string]any{"tools": []any{once}}
	case "tools/call":
		if !s.run(r, m.Params.Arguments) {
			return // whoever called is gone
		}
		result = map[string]any{"content": []any{map[string]any{"type": "text", "text": m.Params.Arguments.Key}}}
	}
	w.Header().Set("Content-Type", "application/json")
	// A caller that is gone cannot be told.
	_ = json.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": m.ID, "result": result})
}

// run has the effect first and the answer later, so that a caller that dies in
// between cannot know of it.
func (s *toolServer) run(r *http.Request, a arguments) bool {
	s.mu.Lock()
	s.effects = append(s.effects, Effect{time.Now(), a.Key})
	gate := s.gate
	s.mu.Unlock()
	if !a.Hold {
		return true
	}
	s.held.Add(1)
	select {
	case <-gate:
		return true
	case <-r.Context().Done():
		return false
	}
}
