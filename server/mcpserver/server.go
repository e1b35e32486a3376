package mcpserver

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"haft"
)

// Config says what a server offers besides its service, and its bounds. The zero
// value is useful.
type Config struct {
	// Version is that of the program.
	Version string
	// Wait waits for the end of a call that went on in the background. Nil means that clients
	// are not asked to approve calls.
	Wait func(ctx context.Context, p haft.Principal, id haft.CallID) (*haft.Result, error)
	// Stream makes a call and shows its events, one after the other. It reports whether all of
	// them were shown. Nil means that clients get neither progress nor output.
	Stream func(ctx context.Context, c haft.Call, show func(haft.Event)) (res *haft.Result, all bool, err error)
	// Lazy is from how many tools on a list has only find_tools and call_tool; 0
	// means 100, 1 always and less than 0 never.
	Lazy int
	// Page is how many tools and resources one page of a list has; 0 means 100.
	Page int
	// Poll is how often views with open sessions look for changes that were not reported by
	// [Server.Changed]; 0 means 30 seconds.
	Poll time.Duration
	// Sessions bounds those of all callers; 0 means 4,096. PerCaller bounds those of
	// one; 0 means 64.
	Sessions, PerCaller int
	// Idle is how long a session lasts without a request; 0 means an hour.
	Idle time.Duration
	// MaxMessage bounds what a client sends at once; 0 means 8 MiB.
	MaxMessage int64
	// ReadTimeout bounds how long a message may take to arrive over HTTP; 0 means 15
	// seconds.
	ReadTimeout time.Duration
	// Recheck reports why a principal's credential is not good any more, with
	// [haft.CodeUnauthenticated] or [haft.CodeDenied]: its sessions end when something
	// was changed. Nil means that it always is.
	Recheck func(ctx context.Context, p haft.Principal) error
	// Metadata returns the address of the OAuth metadata of the resource, which clients without
	// a credential get. Nil means that there is none.
	Metadata func(r *http.Request) string
	// Options and Extend adjust the MCP server of each view before it is used, for
	// programs that have prompts, resources or tools of their own beside those of
	// the service.
	Options func(*mcp.ServerOptions)
	Extend  func(*mcp.Server)
	// Logger gets the errors that an operator can act on. Nil discards.
	Logger *slog.Logger
}

// A Caller is on whose behalf a connection works.
type Caller struct {
	// Principal is whom calls are made for.
	Principal haft.Principal
	// Person is the user at the client, who answers requests for approval there as far as
	// policy allows. Without an organisation there is no such person.
	Person haft.Principal
	// Tags filter tools: a tool must have one of them; empty means all tools.
	Tags []string
	// NoBuiltins leaves out the built-in tools.
	NoBuiltins bool
	// Artifacts lets the caller read what calls left behind.
	Artifacts bool
	// Expires is when the credential does: streams end then. Zero means never.
	Expires time.Time
}

// A Server is an MCP endpoint. It is safe for concurrent use.
//
// Lifecycle: New, then Handler or Run, then Leave, then Close.
type Server struct {
	service haft.Service
	cfg     Config
	seal    []byte // makes ids of sessions and states of requests

	stateful, stateless http.Handler

	ctx    context.Context // the server's life
	cancel context.CancelFunc
	work   sync.WaitGroup
	// leaving ends streams, which would keep a server from shutting down.
	leaving context.Context
	leave   context.CancelFunc

	mu      sync.Mutex
	closed  bool
	polling bool
	views   map[string]*view
	opening int // sessions that are being made
}

// errClosed is the error for callers of a closed server.
var errClosed = &haft.Error{Code: haft.CodeUnavailable, Message: "the server is shutting down"}

// New makes a server. It opens nothing.
func New(service haft.Service, cfg Config) (*Server, error) {
	if service == nil {
		return nil, errors.New("an MCP server needs a service")
	}
	s := &Server{service: service, cfg: cfg.filled(), seal: make([]byte, 32), views: map[string]*view{}}
	if _, err := rand.Read(s.seal); err != nil {
		return nil, err
	}
	s.ctx, s.cancel = context.WithCancel(context.Background()) //nolint:forbidigo // it is the server's life and not a request's
	s.leaving, s.leave = context.WithCancel(s.ctx)
	s.stateful, s.stateless = s.transport(false), s.transport(true)
	return s, nil
}

// filled returns the configuration with its defaults.
func (c Config) filled() Config {
	c.Version = cmp.Or(c.Version, "dev")
	c.Lazy, c.Page = cmp.Or(c.Lazy, 100), cmp.Or(max(c.Page, 0), 100)
	c.Sessions, c.PerCaller = cmp.Or(max(c.Sessions, 0), 4096), cmp.Or(max(c.PerCaller, 0), 64)
	c.Poll, c.Idle = cmp.Or(max(c.Poll, 0), 30*time.Second), cmp.Or(max(c.Idle, 0), time.Hour)
	c.MaxMessage, c.ReadTimeout = cmp.Or(max(c.MaxMessage, 0), 8<<20), cmp.Or(max(c.ReadTimeout, 0), 15*time.Second)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Leave ends streams that would go on for ever. Requests that are being answered
// go on.
func (s *Server) Leave() { s.leave() }

// Close ends every session and waits for what the server began. It can be called
// twice.
func (s *Server) Close() error {
	s.leave()
	s.mu.Lock()
	s.closed = true
	views := slices.Collect(maps.Values(s.views))
	s.mu.Unlock()
	s.cancel()
	var closing sync.WaitGroup
	for _, v := range views {
		for session := range v.mcp.Sessions() {
			// The peer may be gone, which is what closing is about.
			closing.Go(func() { _ = session.Close() })
		}
	}
	closing.Wait()
	s.work.Wait()
	return nil
}

// Changed says that tools, agents or rules of an organisation may have changed; "" means
// all. Views of it notify their clients if their list differs.
func (s *Server) Changed(org string) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	var views []*view
	for _, v := range s.views {
		if org == "" || v.who.Principal.Org == org {
			views = append(views, v)
		}
	}
	if len(views) > 0 {
		s.work.Go(func() {
			for _, v := range views {
				v.endRevoked(s.ctx)
				v.notifyIfChanged(s.ctx)
			}
		})
	}
	s.mu.Unlock()
}

// poll looks for changes that were not reported, such as those of another process, as long as a
// client is connected. Precondition: mu is held.
func (s *Server) poll() {
	if s.polling || s.closed {
		return
	}
	s.polling = true
	s.work.Go(func() {
		tick := time.NewTicker(s.cfg.Poll)
		defer tick.Stop()
		for {
			select {
			case <-s.ctx.Done():
				return
			case <-tick.C:
			}
			for _, v := range s.usedViews() {
				v.notifyIfChanged(s.ctx)
			}
			s.mu.Lock()
			if s.polling = len(s.views) > 0; !s.polling {
				s.mu.Unlock()
				return
			}
			s.mu.Unlock()
		}
	})
}

// usedViews removes unused views and returns the others.
func (s *Server) usedViews() []*view {
	s.mu.Lock()
	defer s.mu.Unlock()
	var used []*view
	for _, v := range s.views {
		s.dropUnused(v)
		if s.views[v.key] == v {
			used = append(used, v)
		}
	}
	return used
}

// dropUnused removes a view if it is unused. Precondition: mu is held.
func (s *Server) dropUnused(v *view) {
	if v.uses == 0 && v.sessions() == 0 {
		delete(s.views, v.key)
	}
}

// enter returns the view of a caller. The function returned ends its use.
func (s *Server) enter(who Caller) (*view, func(), error) {
	if err := who.Principal.Check(); err != nil {
		return nil, nil, err
	}
	key, err := keyOf(who)
	if err != nil {
		return nil, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil, errClosed
	}
	v := s.views[key]
	if v == nil {
		v = s.newView(who, key)
		s.views[key] = v
	}
	v.uses++
	s.poll()
	return v, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		v.uses--
		s.dropUnused(v)
	}, nil
}

// admit reports why the caller of a view may not open another session, and otherwise
// counts one until the function returned is called.
func (s *Server) admit(v *view) (func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.opening
	for _, o := range s.views {
		all += o.sessions()
	}
	switch {
	case v.opening+v.sessions() >= s.cfg.PerCaller:
		return nil, &haft.Error{Code: haft.CodeRateLimited,
			Message:    "there are too many open sessions of this caller: end one first",
			RetryAfter: haft.Millis(time.Second)}
	case all >= s.cfg.Sessions:
		return nil, &haft.Error{Code: haft.CodeUnavailable, Message: "there are too many open sessions",
			RetryAfter: haft.Millis(time.Second)}
	}
	s.opening++
	v.opening++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.opening--
		v.opening--
	}, nil
}

// Has reports whether a tool is one of the caller's.
func (c Caller) Has(t haft.Tool) bool {
	if c.NoBuiltins && t.Version.Kind == haft.KindBuiltin {
		return false
	}
	return len(c.Tags) == 0 || slices.ContainsFunc(c.Tags,
		func(tag string) bool { return slices.Contains(t.Tags, tag) })
}
