package upstream

import (
	"encoding/json"
	"fmt"
	"strconv"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"haft/executor"
)

// A listener gets the progress and the logs of one running call. Its functions are
// called one at a time, and not after the end of the call.
type listener struct {
	progress func(json.RawMessage)
	log      func([]byte)

	mu   sync.Mutex
	over bool
}

// notify calls one of the functions, unless the call is over.
func (l *listener) notify(call func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.over {
		call()
	}
}

// listen registers a running call, and returns its progress token. Done ends it, and
// waits for a notification that is being passed on.
func (s *session) listen(l *listener) (token string, done func()) {
	token = "haft-" + strconv.FormatInt(s.tokens.Add(1), 10)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[token] = l
	return token, func() {
		s.mu.Lock()
		delete(s.calls, token)
		s.mu.Unlock()
		l.mu.Lock()
		defer l.mu.Unlock()
		l.over = true
	}
}

// onlyCall returns the call that is running if there is one only. Logs do not say which
// call they are about: with several calls, nobody gets them, because they may be about
// the call of another user.
func (s *session) onlyCall() *listener {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.calls) == 1 {
		for _, l := range s.calls {
			return l
		}
	}
	return nil
}

// handleNotification handles the notifications of commands that are about calls. It
// reports whether r was one of them.
func (s *session) handleNotification(r *jsonrpc.Request) bool {
	switch r.Method {
	case "notifications/progress":
		var p mcp.ProgressNotificationParams
		if json.Unmarshal(r.Params, &p) == nil {
			s.passProgress(&p)
		}
	case "notifications/message":
		var p mcp.LoggingMessageParams //nolint:staticcheck // servers of earlier revisions log
		if json.Unmarshal(r.Params, &p) == nil {
			s.passLog(&p)
		}
	default:
		return false
	}
	return true
}

// passProgress passes progress on to its call.
func (s *session) passProgress(p *mcp.ProgressNotificationParams) {
	if p == nil {
		return
	}
	token, _ := p.ProgressToken.(string)
	s.mu.Lock()
	l := s.calls[token]
	s.mu.Unlock()
	if l == nil || l.progress == nil {
		return
	}
	data := map[string]any{"progress": p.Progress}
	if p.Total != 0 {
		data["total"] = p.Total
	}
	if p.Message != "" {
		data["message"] = cut(s.redactAll.Text(p.Message), 4<<10)
	}
	if raw, err := json.Marshal(data); err == nil {
		l.notify(func() { l.progress(raw) })
	}
}

// passLog passes a log message of the server on to the call that is running.
func (s *session) passLog(p *mcp.LoggingMessageParams) { //nolint:staticcheck // servers of earlier revisions log
	if p == nil {
		return
	}
	raw, err := executor.EncodeJSON(p.Data)
	if err != nil {
		return
	}
	text := string(raw)
	if plain := ""; json.Unmarshal(raw, &plain) == nil {
		text = plain
	}
	s.logStderr(fmt.Appendf(nil, "[%s] %s\n", cut(string(p.Level), 20), cut(text, 16<<10)))
}

// logStderr passes on what a command writes to stderr.
func (s *session) logStderr(b []byte) {
	if l := s.onlyCall(); l != nil && l.log != nil {
		l.notify(func() { l.log(b) })
	}
}
