package mcpserver

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"haft"
)

// credentialHeader carries the name of the caller's credential through the SDK, which
// hands on headers. It is set by us for every request, and never read from a client.
const credentialHeader = "Haft-Credential-Name"

// caller returns on whose behalf a tool is called: the caller of the view, with the
// credential of this request.
func (v *view) caller(r *mcp.CallToolRequest) haft.Principal {
	p := v.who.Principal
	if r.Extra != nil && r.Extra.Header != nil {
		p.Credential = r.Extra.Header.Get(credentialHeader)
	}
	return p
}

// withdrawn returns why a request was ended before its answer, or nil: its credential is
// not good any more.
func withdrawn(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	cause := context.Cause(ctx)
	if code := haft.CodeOf(cause); code == haft.CodeUnauthenticated || code == haft.CodeDenied {
		return cause
	}
	return nil
}

// An answered writer records whether an answer has begun.
type answered struct {
	http.ResponseWriter
	begun bool
}

// WriteHeader implements [http.ResponseWriter].
func (a *answered) WriteHeader(status int) {
	a.begun = true
	a.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (a *answered) Write(b []byte) (int, error) {
	a.begun = true
	return a.ResponseWriter.Write(b)
}

// Flush implements [http.Flusher], which the SDK asks for.
func (a *answered) Flush() {
	a.begun = true
	_ = http.NewResponseController(a.ResponseWriter).Flush() // fails if the client is gone
}

// Unwrap lets [http.ResponseController] through.
func (a *answered) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// sendReason sends the client the reason why its request was ended: as an answer, or as the
// last message of a stream.
func (s *Server) sendReason(w *answered, r *http.Request, v *view) {
	why := withdrawn(r.Context())
	if why == nil {
		why = v.endReason(r.Header.Get(sessionHeader))
	}
	switch {
	case why == nil:
	case !w.begun:
		s.refuse(w, r, why)
	case strings.HasPrefix(w.Header().Get("Content-Type"), "text/event-stream"):
		raw, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "method": "notifications/message",
			"params": map[string]any{
				"level": "error", "logger": "haft", "data": map[string]any{"code": haft.CodeOf(why),
					"message": haft.MessageOf(why)},
			}})
		if err != nil {
			return
		}
		if _, err := w.Write([]byte("event: message\ndata: " + string(raw) + "\n\n")); err == nil {
			w.Flush()
		}
	}
}

// noteUse stores which credential used a session last. Other credentials of the same
// caller may use it too: it ends with the last one.
func (v *view) noteUse(id string, p haft.Principal) {
	if id == "" || p.Credential == "" {
		return
	}
	open := map[string]bool{}
	for s := range v.mcp.Sessions() {
		open[s.ID()] = true
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for old := range v.users {
		if !open[old] {
			delete(v.users, old)
		}
	}
	if open[id] {
		v.users[id] = p
	}
}

// endRevoked ends the sessions of credentials that are no longer valid.
func (v *view) endRevoked(ctx context.Context) {
	if v.s.cfg.Recheck == nil {
		return
	}
	v.mu.Lock()
	users := maps.Clone(v.users)
	v.mu.Unlock()
	if len(users) == 0 {
		return
	}
	verdicts := map[string]error{}
	for session := range v.mcp.Sessions() {
		p, ok := users[session.ID()]
		if !ok {
			continue
		}
		err, known := verdicts[p.Credential]
		if !known {
			err = v.s.cfg.Recheck(ctx, p)
			verdicts[p.Credential] = err
		}
		if code := haft.CodeOf(err); err != nil && (code == haft.CodeUnauthenticated || code == haft.CodeDenied) {
			v.mu.Lock()
			if v.ended == nil || len(v.ended) >= maxEnded {
				v.ended = map[string]error{}
			}
			v.ended[session.ID()] = err
			v.mu.Unlock()
			_ = session.Close() // the peer may be gone, which is what closing is about
		}
	}
}

// maxEnded bounds how many ends of sessions are remembered before they are reported.
const maxEnded = 256

// endReason returns why a session was ended, or nil.
func (v *view) endReason(id string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	why := v.ended[id]
	delete(v.ended, id)
	return why
}
