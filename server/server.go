package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"haft"
	"haft/internal/auth"
	"haft/internal/bounds"
	"haft/internal/secret"
	"haft/policy"
)

// Config says what a server offers besides its service, and its bounds. The zero
// value is a good server on a loopback address.
type Config struct {
	// Version is that of the program, for the document.
	Version string
	// Engine is the pipeline of calls. Nil means that requests cannot wait for submitted calls,
	// and that decisions are not explained.
	Engine Engine
	// Policies stores policies. Nil means that there are none here.
	Policies Policies
	// Audit is the audit log of organisations. Nil means that there is none here.
	Audit Audit
	// Events are the stored events. Nil means that the events of one call are searched among
	// those of [haft.Watcher].
	Events Events
	// Sandboxes, MCPServers, Secrets, Keys and Webhooks store resources; Meter sums the usage
	// of calls. The operations of one that is nil answer 404.
	Sandboxes  haft.Sandboxes
	MCPServers haft.MCPServers
	Secrets    Secrets
	Keys       Keys
	Webhooks   haft.Webhooks
	Meter      haft.Meter
	// Retainer sets how long calls are kept. Nil means that there is none here.
	Retainer haft.Retainer
	// Files keeps files. Nil means that there are none.
	Files Files
	// Sessions are sandboxes that live for many calls; nil leaves them out. What it implements of
	// [haft.SessionFiles], [haft.SessionWorker] and [PortDialer] is served, too.
	Sessions haft.Sessions
	// Workspaces keeps workspaces. Without roles there are none.
	Workspaces haft.Workspaces
	// Eraser exports and erases the data of an organisation or a user. Nil means that there is
	// none here.
	Eraser haft.Eraser
	// Health says what /readyz answers. Nil means that the server is always ready.
	Health Health
	// Metrics serves metrics to clients on this machine that use no proxy, and to operators.
	Metrics http.Handler
	// Refusals gets every request that is refused before anything is done for it. It may be
	// nil.
	Refusals RefusalLog
	// Mounts are other APIs, by pattern of [http.ServeMux]. The server checks host, origin and
	// headers for them; they authenticate requests themselves.
	Mounts map[string]http.Handler
	// ByHost serves what it has under other names of hosts than those of the server. It
	// authenticates requests itself. Nil means that there is none.
	ByHost HostHandler
	// APIs are other APIs of the service, by pattern of [http.ServeMux]. The server
	// authenticates their requests.
	APIs map[string]API
	// Resources add operations to the API, and to its document.
	Resources []Resource
	// Headers are the headers of Haft that Mounts honour, by pattern: see
	// [AgentHeader]. Others are refused.
	Headers map[string][]string
	// Agents is held while an agent is read, changed and written. APIs that do so
	// share it. Nil means one of its own.
	Agents sync.Locker
	// Leaving is called when the server begins to shut down: streams of other APIs
	// end then. Nil means that there are none.
	Leaving func()
	// Noting is called with every [Server.Changed], and does not block either. Nil does nothing.
	Noting func(org string)

	// Hosts are the names by which the server is reached, without ports; nil means
	// the loopback names and addresses only.
	Hosts []string
	// Origins are those of other pages that may send requests, such as
	// https://console.example.com.
	Origins []string
	// Proxies are addresses whose X-Forwarded-For is trusted.
	Proxies []netip.Prefix
	// TLS has the certificates of the server. Nil means none.
	TLS *tls.Config

	// MaxBody bounds the body of a request; 0 means 8 MiB. MaxHeader bounds its
	// headers; 0 means 32 KiB.
	MaxBody   int64
	MaxHeader int
	// Connections bounds how many there are at once; 0 means 8,192. PerSource bounds
	// those of one address, or of a /64 of version 6; 0 means a quarter of them. Behind
	// a proxy it bounds the requests of one address. Silent is how many of an address
	// may bring no request for longer than a moment; 0 means 64. Reserve are further
	// ones on which only operators are served, when all are in use; 0 means 16.
	Connections, PerSource, Silent, Reserve int
	// Streams bounds the streams of events, and the requests that wait for a call, that
	// one credential has open, and OrgStreams those of an organisation; 0 means 256 and
	// 2,048.
	Streams, OrgStreams int
	// ReadTimeout bounds how long the headers, and then the body, may take to
	// arrive; 0 means 15 seconds. WriteTimeout bounds each write of an answer; 0
	// means 30 seconds.
	ReadTimeout, WriteTimeout time.Duration
	// Heartbeat is how often a silent stream shows that it lives; 0 means 15
	// seconds.
	Heartbeat time.Duration
	// Logger gets a record of every request and of internal errors. Nil discards.
	Logger *slog.Logger
}

// Engine is what the pipeline of calls offers besides [haft.Service].
type Engine interface {
	// Wait waits for the end of a call, or until it waits for a person.
	Wait(ctx context.Context, p haft.Principal, id haft.CallID) (*haft.Result, error)
	// Explain says what policy would decide about a call.
	Explain(ctx context.Context, c haft.Call) (policy.Decision, error)
}

// A HostHandler serves requests by the names of their hosts.
type HostHandler interface {
	http.Handler
	// Hosts reports whether the host of a request is one of its own.
	Hosts(r *http.Request) bool
}

// Health is the state of the service.
type Health interface {
	// Healthy makes a real call and reports why that does not work.
	Healthy(ctx context.Context) error
	// Warnings names the parts that do not work though calls do. /readyz shows the names
	// without authentication.
	Warnings() []string
}

// Policies stores the policies of organisations and of the whole server.
type Policies interface {
	// Policy returns one, whose text is nil if none was written.
	Policy(ctx context.Context, p haft.Principal, server bool) (*haft.PolicyText, error)
	// PutPolicy replaces one if it is what next.If says, and else returns
	// [haft.CodeConflict].
	PutPolicy(ctx context.Context, p haft.Principal, server bool, next haft.PolicyText) (*haft.PolicyText, error)
}

// Secrets stores variables of organisations and of agents. It never returns a value.
type Secrets interface {
	Secrets(ctx context.Context, p haft.Principal, agent string) ([]secret.Info, error)
	BindSecret(ctx context.Context, p haft.Principal, agent, name string, v secret.Value, b *secret.Binding) error
	RemoveSecret(ctx context.Context, p haft.Principal, agent, name string) error
}

// Keys stores API keys. The argument by is the caller as the authenticator returned it, see
// [Identity.Credential].
type Keys interface {
	Key(ctx context.Context, by Identity, id string) (auth.Key, error)
	// Keys lists those whose ids come after the given one, ordered by id.
	Keys(ctx context.Context, by Identity, after string) iter.Seq2[auth.Key, error]
	// IssueKey and RotateKey also return the text of the key, which cannot be read again.
	IssueKey(ctx context.Context, by Identity, k auth.Key) (auth.Key, string, error)
	RotateKey(ctx context.Context, by Identity, id string, overlap time.Duration) (auth.Key, string, error)
	SetKey(ctx context.Context, by Identity, id string, s auth.KeyState) (auth.Key, error)
	RemoveKey(ctx context.Context, by Identity, id string) error
}

// An Audit is the audit log. Methods return an error if p may not read it.
type Audit interface {
	// ExportAudit writes the audit of p's organisation, or the entries that match a filter, as
	// JSON lines. If p may not read it, it fails before it writes anything.
	ExportAudit(ctx context.Context, p haft.Principal, f haft.AuditFilter, w io.Writer) error
	// AuditEntries returns a page of the entries that match f, after a place: a list for JSON.
	// Next is the place to continue from, and nil after the last page. A page with few entries,
	// or none, need not be the last.
	AuditEntries(ctx context.Context, p haft.Principal, f haft.AuditFilter, after haft.AuditPlace) (list any,
		next *haft.AuditPlace, err error)
	// AuditKeys returns the public keys that prove an export, as PEM.
	AuditKeys(ctx context.Context, p haft.Principal) ([]byte, error)
}

// Events are the events of calls. Those that p may not see are left out.
type Events interface {
	// Cursor returns the cursor of the last event.
	Cursor(ctx context.Context) (int64, error)
	// EventsOf returns up to limit events of a call after the one with that cursor.
	EventsOf(ctx context.Context, p haft.Principal, id haft.CallID, after int64, limit int) ([]haft.Event, error)
	// WatchCall yields the events of a call after the one with that cursor until
	// ctx ends, as [haft.Watcher] does.
	WatchCall(ctx context.Context, p haft.Principal, id haft.CallID, after int64) iter.Seq2[haft.Event, error]
}

// A Server is an HTTP server. It is safe for concurrent use.
//
// Lifecycle: New, then Serve or Handler, then Shutdown.
type Server struct {
	service haft.Service
	cfg     Config
	hosts   hosts
	handler http.Handler
	http    *http.Server
	openapi []byte
	shapes  map[string]*bounds.Shape // of bodies, by operation
	routed  []Route
	// patterns are those of the addresses that are not in the document.
	patterns []string
	requests *openRequests
	streams  *streams
	errors   errorWriter
	ready    readiness

	proxies   proxies
	forwarded counter[netip.Prefix] // requests that proxies bring, by their source

	shuttingDown atomic.Bool
	ending       context.Context // ends when the server shuts down
}

// errShuttingDown is why streams end when the server shuts down.
var errShuttingDown = &haft.Error{Code: haft.CodeUnavailable, Message: "the server is shutting down"}

// New makes a server. It opens nothing.
func New(service haft.Service, auth Authenticator, cfg Config) (*Server, error) {
	if service == nil || auth == nil {
		return nil, errors.New("a server needs a service and an authenticator")
	}
	cfg = cfg.filled()
	s := &Server{service: service, cfg: cfg, proxies: cfg.Proxies, errors: errorWriter{cfg.Logger}}
	var err error
	if s.hosts, err = newHosts(cfg.Hosts, cfg.Origins); err != nil {
		return nil, err
	}
	s.streams = newStreams(service, cfg)
	s.ending = s.streams.ending
	s.requests = &openRequests{auth: auth, agents: service, ending: s.ending, log: cfg.Logger}
	mux := http.NewServeMux()
	if s.openapi, err = s.routes(mux); err != nil {
		return nil, err
	}
	s.handler = s.guard(mux)
	s.http = &http.Server{
		Handler: s.handler, TLSConfig: withHTTP2(cfg.TLS), MaxHeaderBytes: cfg.MaxHeader,
		ReadHeaderTimeout: cfg.ReadTimeout, IdleTimeout: 2 * time.Minute,
		ErrorLog:  slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelDebug),
		ConnState: s.connState,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, c)
		},
	}
	return s, nil
}

// withHTTP2 names the protocols of a server with TLS. Without names, net/http decides about HTTP/2 for all listeners
// when the first is served. If that is a Unix socket, without TLS, it answers no HTTP/2, but offers it with TLS.
func withHTTP2(c *tls.Config) *tls.Config {
	if c == nil || len(c.NextProtos) > 0 {
		return c
	}
	c = c.Clone()
	c.NextProtos = []string{"h2", "http/1.1"}
	return c
}

// filled returns the configuration with its defaults.
func (c Config) filled() Config {
	c.Version = cmp.Or(c.Version, "dev")
	setDefault(&c.MaxBody, 8<<20)
	setDefault(&c.MaxHeader, 32<<10)
	setDefault(&c.Connections, 8192)
	setDefault(&c.PerSource, max(1, c.Connections/4))
	setDefault(&c.Silent, 64)
	setDefault(&c.Reserve, 16)
	setDefault(&c.Streams, 256)
	setDefault(&c.OrgStreams, 2048)
	setDefault(&c.ReadTimeout, 15*time.Second)
	setDefault(&c.WriteTimeout, 30*time.Second)
	setDefault(&c.Heartbeat, 15*time.Second)
	if c.Agents == nil {
		c.Agents = new(sync.Mutex)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// setDefault replaces a value that is not positive.
func setDefault[T int | int64 | time.Duration](v *T, value T) {
	if *v <= 0 {
		*v = value
	}
}

// Handler returns the API as a handler for another HTTP server.
func (s *Server) Handler() http.Handler { return s.handler }

// OpenAPI returns the document of the API, as JSON.
func (s *Server) OpenAPI() []byte { return s.openapi }

// Serve answers the connections of ln until Shutdown, and then returns nil. It may serve several listeners. Connections
// of a Unix socket have no TLS.
func (s *Server) Serve(ln net.Listener) error {
	ln = s.listen(ln)
	var err error
	if s.cfg.TLS != nil && ln.Addr().Network() != "unix" {
		err = s.http.ServeTLS(ln, "", "")
	} else {
		err = s.http.Serve(ln)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve: %w", err)
}

// Leave makes the server answer that it is not ready, so that load balancers send no more
// requests.
func (s *Server) Leave() { s.shuttingDown.Store(true) }

// Shutdown ends streams, waits for the requests that are being answered, and
// closes all connections. When ctx ends before, it closes them at once.
func (s *Server) Shutdown(ctx context.Context) error {
	s.Leave()
	s.streams.end()
	if s.cfg.Leaving != nil {
		s.cfg.Leaving()
	}
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(fmt.Errorf("wait for requests to end: %w", err), s.http.Close())
	}
	return errors.Join(err, s.streams.wait(ctx))
}
