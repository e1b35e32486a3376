package server

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"haft"
)

// hosts are the names of the server, and the origins of pages that may send requests.
type hosts struct {
	names   []string // lower case, without ports; nil means loopback
	origins []string // scheme://host[:port], lower case
}

// newHosts reads both lists.
func newHosts(names, origins []string) (hosts, error) {
	var h hosts
	for _, n := range names {
		if n == "" || strings.ContainsAny(n, "/ *") {
			return h, &haft.Error{Code: haft.CodeInvalid,
				Message: "a host is a name or an address, without a port or *"}
		}
		h.names = append(h.names, strings.ToLower(strings.Trim(n, "[]")))
	}
	for _, o := range origins {
		u, err := url.Parse(o)
		if err != nil || u.Host == "" || u.Scheme == "" || u.Path != "" || u.RawQuery != "" {
			return h, &haft.Error{Code: haft.CodeInvalid,
				Message: "an origin is a scheme and a host, such as https://console.example.com", Err: err}
		}
		h.origins = append(h.origins, strings.ToLower(o))
	}
	return h, nil
}

// isOurs reports whether a Host header names this server. After DNS rebinding a page sends
// its own name.
func (h hosts) isOurs(host string) bool {
	name := strings.ToLower(host)
	if n, _, err := net.SplitHostPort(name); err == nil {
		name = n
	}
	name = strings.Trim(name, "[]")
	if slices.Contains(h.names, name) {
		return true
	}
	if h.names != nil {
		return false
	}
	if name == "localhost" || strings.HasSuffix(name, ".localhost") { // RFC 6761 6.3
		return true
	}
	a, err := netip.ParseAddr(name)
	return err == nil && a.IsLoopback()
}

// fromSocket reports whether a request came by a Unix socket, which no name of a host leads to.
func fromSocket(r *http.Request) bool {
	at, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return ok && at.Network() == "unix"
}

// allowsOrigin reports whether a page of that origin may send r. Programs send no Origin.
func (h hosts) allowsOrigin(r *http.Request) bool {
	for _, o := range r.Header.Values("Origin") {
		u, err := url.Parse(o)
		own := err == nil && (u.Scheme == "http" || u.Scheme == "https") && strings.EqualFold(u.Host, r.Host)
		if !own && !slices.Contains(h.origins, strings.ToLower(o)) {
			return false
		}
	}
	return true
}

// idKey is the context key of the id of a request, for logs.
type idKey struct{}

// requestID returns the id of a request.
func requestID(ctx context.Context) string {
	id, _ := ctx.Value(idKey{}).(string)
	return id
}

// The answers to requests for another host or from another origin.
var (
	errUnknownHost = problem(http.StatusMisdirectedRequest,
		"this server does not go by that name; the operator can allow it")
	errOrigin = problem(http.StatusForbidden, "requests of pages of another origin are not taken")
)

// guard wraps all routes: it gives requests an id, logs them, recovers from their panics
// and refuses those for other hosts or from other origins.
func (s *Server) guard(next *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		began := time.Now()
		id := "r_" + rand.Text() // never one of the client's: it goes into logs
		r = r.WithContext(context.WithValue(r.Context(), idKey{}, id))
		w := &writer{ResponseWriter: out, limit: s.cfg.WriteTimeout}
		l, r := s.requests.begin(r, w)
		var leave func()
		l.reserved, leave = s.reserved(r)
		defer leave()
		// The deadline of the last answer on this connection is not that of this one.
		_ = http.NewResponseController(out).SetWriteDeadline(time.Time{}) // a recorder in a test has none
		h := w.Header()
		h.Set("X-Request-Id", id)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		if s.shuttingDown.Load() || l.reserved {
			h.Set("Connection", "close")
		}
		defer func() {
			crash := recover()
			s.requests.finish(l)
			if crash != nil && crash != http.ErrAbortHandler { //nolint:errorlint // net/http compares it so too
				s.cfg.Logger.Error("a handler panicked", "request", id, "route", r.Pattern, "panic", fmt.Sprint(crash),
					"stack", string(debug.Stack()))
				if w.status == 0 {
					problem(http.StatusInternalServerError, "internal error").write(w, id)
				}
			}
			s.access(r, w, id, time.Since(began))
			if crash != nil {
				panic(http.ErrAbortHandler) // half an answer must not look like a whole one
			}
		}()
		byHost := s.cfg.ByHost != nil && s.cfg.ByHost.Hosts(r)
		switch {
		case !byHost && !s.hosts.isOurs(r.Host) && !fromSocket(r):
			s.reportRefusal(r, WhyHost, haft.Principal{}, errUnknownHost)
			errUnknownHost.write(w, id)
		case !s.hosts.allowsOrigin(r):
			s.reportRefusal(r, WhyOrigin, haft.Principal{}, errOrigin)
			errOrigin.write(w, id)
		case l.reserved && !isProbe(r) && r.Header.Get("Authorization") == "":
			s.reportRefusal(r, WhyBusy, haft.Principal{}, errBusy)
			problemOf(errBusy).write(w, id)
		default:
			if err := s.checkHeaders(next, r); err != nil {
				problemOf(err).write(w, id)
				return
			}
			if byHost {
				s.cfg.ByHost.ServeHTTP(w, r)
				return
			}
			next.ServeHTTP(w, r)
		}
	})
}

// access logs a request, without its path, query, headers or body.
func (s *Server) access(r *http.Request, w *writer, id string, took time.Duration) {
	level := slog.LevelInfo
	if w.status >= 500 {
		level = slog.LevelWarn
	}
	if !s.cfg.Logger.Enabled(r.Context(), level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("request", id), slog.String("method", clip(r.Method, 16)), slog.String("route", r.Pattern),
		slog.Int("status", w.status), slog.Int64("bytes", w.bytes), slog.Duration("took", took),
	}
	if w.who.Org != "" {
		attrs = append(attrs, slog.String("tenant", w.who.Org), slog.String("user", w.who.User),
			slog.String("agent", w.who.Agent))
	}
	s.cfg.Logger.LogAttrs(r.Context(), level, "request", attrs...)
}

// clip shortens text that a client sent.
func clip(s string, most int) string { return s[:min(len(s), most)] }

// writer counts what was answered, and gives every write a deadline.
type writer struct {
	http.ResponseWriter
	limit  time.Duration
	status int
	bytes  int64
	who    haft.Principal

	mu      sync.Mutex
	ended   time.Time // when the request was cut; zero means that it was not
	reading bool      // a read has a deadline: the body is being read
}

// abort ends a read of the body at once, and a running write after [abortWrite]. Later
// writes, such as the result of a call that had to be cancelled first, have as long each,
// and [abortTotal] together.
func (w *writer) abort() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = time.Now()
	ctl := http.NewResponseController(w.ResponseWriter)
	// A recorder in a test has no deadlines, which may be.
	_ = ctl.SetWriteDeadline(w.ended.Add(abortWrite))
	if w.reading {
		_ = ctl.SetReadDeadline(time.Now())
	}
}

// SetReadDeadline is that of [http.ResponseController]. Once the request is cut, nothing
// more of its body is read.
func (w *writer) SetReadDeadline(at time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reading = !at.IsZero()
	if w.reading && !w.ended.IsZero() {
		at = time.Now()
	}
	return http.NewResponseController(w.ResponseWriter).SetReadDeadline(at)
}

// WriteHeader implements [http.ResponseWriter].
func (w *writer) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
		w.deadline()
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (w *writer) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	w.deadline()
	n, err := w.ResponseWriter.Write(b)
	w.bytes += int64(n)
	return n, err
}

// deadline bounds the next write. A recorder in a test has none, which may be.
func (w *writer) deadline() {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	at := now.Add(w.limit)
	if !w.ended.IsZero() {
		for _, end := range []time.Time{now.Add(abortWrite), w.ended.Add(abortTotal)} {
			if end.Before(at) {
				at = end
			}
		}
	}
	_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(at)
}

// Unwrap lets [http.ResponseController] through.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// proxies are the addresses whose X-Forwarded-For is trusted.
type proxies []netip.Prefix

// sourceAddr returns the address that r came from: that of the connection, or the one that
// trusted proxies report.
func (p proxies) sourceAddr(r *http.Request) netip.Addr {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	from := at.Addr().Unmap()
	if !p.has(from) {
		return from
	}
	// The last entry was added by a trusted proxy. Entries before an address that is no trusted
	// proxy can be forged by the client.
	chain := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(chain) - 1; i >= 0; i-- {
		a, err := netip.ParseAddr(strings.TrimSpace(chain[i]))
		if err != nil {
			break
		}
		if from = a.Unmap(); !p.has(from) {
			break
		}
	}
	return from
}

// has reports whether an address is that of a proxy.
func (p proxies) has(a netip.Addr) bool {
	return slices.ContainsFunc(p, func(n netip.Prefix) bool { return n.Contains(a) })
}

// readBody reads the whole body of r, up to the limit, before anything is done with it:
// only at its end is it known whether it is the body that was signed.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) error {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	if r.ContentLength > s.cfg.MaxBody {
		return problem(http.StatusRequestEntityTooLarge, fmt.Sprintf("the body has more than %d bytes", s.cfg.MaxBody))
	}
	ctl := http.NewResponseController(w)
	// A recorder in a test has no deadlines, which may be.
	_ = ctl.SetReadDeadline(time.Now().Add(s.cfg.ReadTimeout))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.cfg.MaxBody))
	if err != nil {
		if why := Withdrawn(r.Context()); why != nil {
			return why
		}
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return problem(http.StatusRequestEntityTooLarge,
				fmt.Sprintf("the body has more than %d bytes", s.cfg.MaxBody))
		}
		if _, ok := errors.AsType[*haft.Error](err); ok {
			return err
		}
		return problem(http.StatusRequestTimeout, "the body did not arrive in time or in whole")
	}
	_ = ctl.SetReadDeadline(time.Time{})
	r.Body = &wholeBody{bytes.NewReader(body), body}
	return nil
}
