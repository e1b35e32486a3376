package server

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"

	"haft"
)

// plainRoutes adds the routes outside of the document: for probes, scrapers and readers of
// the document.
func (s *Server) plainRoutes(mux *http.ServeMux) {
	handle := func(pattern string, h http.Handler) {
		s.patterns = append(s.patterns, pattern)
		mux.Handle(pattern, h)
	}
	handle("GET /healthz",
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { writeStatus(w, http.StatusOK, "ok") }))
	handle("GET /readyz", http.HandlerFunc(s.readyz))
	handle("GET /metrics", http.HandlerFunc(s.metrics))
	handle("GET /openapi.json", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/vnd.oai.openapi+json;version=3.1")
		_, _ = w.Write(s.openapi) // fails if the client is gone
	}))
	for pattern, h := range s.cfg.Mounts {
		handle(pattern, h)
	}
	for pattern, d := range s.cfg.APIs {
		handle(pattern, s.serveAPI(d))
	}
	if d, ok := s.cfg.Sessions.(PortDialer); ok {
		handle(portPath, s.serveAPI(ports{s, d}))
	}
	handle("/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := problem(http.StatusNotFound, "there is no such address; /openapi.json lists those that there are")
		if allow := methods(mux, r); len(allow) > 0 {
			w.Header().Set("Allow", strings.Join(allow, ", "))
			p = problem(http.StatusMethodNotAllowed, "the address is not for that method")
		}
		p.write(w, requestID(r.Context()))
	}))
}

// methods lists those for which there is a route at the address of r.
func methods(mux *http.ServeMux, r *http.Request) []string {
	var allow []string
	for _, m := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		probe := &http.Request{Method: m, URL: r.URL, Host: r.Host}
		if _, pattern := mux.Handler(probe); pattern != "/" && pattern != "" {
			allow = append(allow, m)
		}
	}
	return allow
}

// writeStatus answers with a status in one word.
func writeStatus(w http.ResponseWriter, status int, word string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(`{"status":"` + word + `"}` + "\n")) // fails if the client is gone
}

// readyFor is how long a result of the readiness check is used: the check is a real call, and
// needs no credential.
const readyFor = time.Second

// readiness has the result of the last check. Only one check runs at a time.
type readiness struct {
	mu  sync.Mutex
	at  time.Time
	err error
}

// check returns the result of the last check, or of a new one if that is too old.
func (r *readiness) check(ctx context.Context, health Health) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.at.IsZero() && time.Since(r.at) < readyFor {
		return r.err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	err := health.Healthy(ctx)
	if ctx.Err() != nil && err != nil {
		return err // the client has left: that says nothing about the server
	}
	r.err, r.at = err, time.Now()
	return err
}

func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	if s.shuttingDown.Load() {
		writeStatus(w, http.StatusServiceUnavailable, "leaving")
		return
	}
	if s.cfg.Health == nil {
		writeStatus(w, http.StatusOK, "ready")
		return
	}
	if err := s.ready.check(r.Context(), s.cfg.Health); err != nil {
		s.cfg.Logger.Warn("not ready", "request", requestID(r.Context()), "err", err)
		writeStatus(w, http.StatusServiceUnavailable, "not_ready")
		return
	}
	if list := s.cfg.Health.Warnings(); len(list) > 0 {
		text, err := json.Marshal(map[string]any{"status": "ready", "warnings": list})
		if err == nil {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(append(text, '\n')) // fails if the client is gone
			return
		}
	}
	writeStatus(w, http.StatusOK, "ready")
}

// metrics serves metrics. They name organisations and tools, so that only clients on this
// machine, who could ask the kernel, get them without a credential.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) {
	if s.cfg.Metrics == nil {
		problem(http.StatusNotFound, "this server has no measures").write(w, requestID(r.Context()))
		return
	}
	from := s.proxies.sourceAddr(r)
	if !from.IsLoopback() || r.Header.Get("X-Forwarded-For") != "" ||
		r.Header.Get("Forwarded") != "" {
		who, err := s.requests.identify(r, from)
		if err == nil {
			err = who.operator(haft.UsageRead)
		}
		if err != nil {
			s.errors.fault(r.Context(), err).write(w, requestID(r.Context()))
			return
		}
	}
	s.cfg.Metrics.ServeHTTP(w, r)
}
