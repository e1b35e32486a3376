package client

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"haft"
	"haft/internal/auth"
)

// ErrMaybeDone is wrapped by errors after which it is not known whether the server did what was
// asked: the connection ended between request and answer.
var ErrMaybeDone = errors.New("the server may have done it")

// Config has the address of a server and the credential of the client.
type Config struct {
	// URL is the address of the server, such as https://haft.example.com. A path
	// goes before those of the API.
	URL string
	// Key is an API key, or a token that the server accepts. Without one only public
	// endpoints answer.
	Key string
	// Sign signs requests with the API key instead of sending it. Over http to another
	// machine, where others could read the key, requests are always signed.
	Sign bool
	// TLS has the authorities to trust, and a certificate if the server wants one. Nil
	// means the authorities of the system.
	TLS *tls.Config
	// MaxAnswer bounds an answer that is kept in memory; 0 means 64 MiB.
	MaxAnswer int64
	// Retry says how often and when a request that does no harm twice is repeated.
	// The zero value means three tries; one try means never.
	Retry haft.Backoff
	// Patience is how long a watch tries to reconnect to a server; 0 means a minute.
	Patience time.Duration
	// Dial connects to the server instead, for each request anew. A request whose connection it does not make was
	// not sent. Nil means that URL says where the server is.
	Dial func(ctx context.Context) (net.Conn, error)
	// Name is that of the program, for the log of the server.
	Name string
}

// A Client sends requests to a server. It is safe for concurrent use. Its methods make calls
// and manage tools, agents and approvals; its fields manage the rest, by resource.
//
// Lifecycle: New, then anything, then Close.
type Client struct {
	api *transport

	MCPServers *MCPServers
	Sandboxes  *Sandboxes
	Policies   *Policies
	Secrets    *Secrets
	Keys       *Keys
	Webhooks   *Webhooks
	Audit      *Audit
	Data       *Data
	Files      *Files
	Sessions   *Sessions
	Workspaces *Workspaces
	Memory     *Memory
	// Conversations are those with agents.
	Conversations *Conversations
}

// transport sends requests: it signs and repeats them, and turns refusals into errors.
type transport struct {
	cfg  Config
	base *url.URL
	http *http.Client
	key  func() string // behind a function, so that no printer finds it

	mu   sync.Mutex
	self *Self // once it is known
}

// New makes a client. It sends no request yet.
func New(cfg Config) (*Client, error) {
	base, err := address(cfg.URL)
	if err != nil {
		return nil, err
	}
	if err := cfg.Retry.Check(); err != nil {
		return nil, err
	}
	if cfg.Retry.Tries == 0 {
		cfg.Retry = haft.Backoff{Tries: 3, Initial: haft.Millis(200 * time.Millisecond),
			Max: haft.Millis(3 * time.Second)}
	}
	if cfg.MaxAnswer <= 0 {
		cfg.MaxAnswer = 64 << 20
	}
	if cfg.Patience <= 0 {
		cfg.Patience = time.Minute
	}
	if cfg.Name == "" {
		cfg.Name = "haft-client"
	}
	key := strings.TrimSpace(cfg.Key)
	cfg.Key = ""
	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return nil, invalid("the key has characters that no key has")
	}
	if key != "" && base.Scheme == "http" && !loopback(base.Hostname()) {
		cfg.Sign = true
	}
	if _, ok := auth.ParseKey(key); cfg.Sign && !ok {
		return nil, invalid("only an API key can sign requests; anything else goes over https")
	}
	rt := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: cfg.TLS.Clone(), ForceAttemptHTTP2: true,
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: 90 * time.Second, MaxIdleConnsPerHost: 64,
		MaxResponseHeaderBytes: 64 << 10,
	}
	if cfg.Dial != nil {
		rt.Proxy, rt.DisableKeepAlives = nil, true
		rt.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := cfg.Dial(ctx)
			if err != nil {
				return nil, &dialError{err}
			}
			return conn, nil
		}
	}
	t := &transport{
		cfg: cfg, base: base, key: func() string { return key },
		http: &http.Client{Transport: rt, CheckRedirect: func(*http.Request,
			[]*http.Request) error {
			return http.ErrUseLastResponse
		}},
	}
	return &Client{api: t, MCPServers: &MCPServers{t}, Sandboxes: &Sandboxes{t}, Policies: &Policies{t},
		Secrets: &Secrets{t}, Keys: &Keys{t}, Webhooks: &Webhooks{t}, Audit: &Audit{t}, Data: &Data{t},
		Files: &Files{t}, Sessions: &Sessions{t}, Workspaces: &Workspaces{t},
		Memory: &Memory{t}, Conversations: &Conversations{t}}, nil
}

// Close closes connections that are not in use.
func (c *Client) Close() error {
	c.api.http.CloseIdleConnections()
	return nil
}

// address parses the address of a server.
func address(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil ||
		u.RawQuery != "" || u.Fragment != "" {
		// The parser's error repeats the address, which may hold a password.
		return nil, invalid("the address of a server is such as https://haft.example.com, without a user, a query " +
			"or a fragment")
	}
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), ""
	return u, nil
}

// loopback reports whether requests to a host stay on this machine.
func loopback(host string) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback()
}

func invalid(message string) error { return &haft.Error{Code: haft.CodeInvalid, Message: message} }

// Self is how the server identifies the client.
type Self struct {
	Principal haft.Principal `json:"principal"`
	// Operator says that the principal runs the whole server.
	Operator bool `json:"operator,omitempty"`
	// Actions are those that the credential allows. Rules decide what the principal may
	// do with them.
	Actions []string `json:"actions"`
	// Expires is when the credential does; zero means never.
	Expires time.Time `json:"expires_at,omitzero"`
	// Version is that of the server.
	Version string `json:"version"`
}

// Self returns how the server identifies the client. It asks the server once.
func (c *Client) Self(ctx context.Context) (Self, error) { return c.api.whoami(ctx) }

// whoami implements [Client.Self].
func (t *transport) whoami(ctx context.Context) (Self, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.self != nil {
		return *t.self, nil
	}
	var s Self
	if err := t.read(ctx, query{path: "/v1/whoami"}, &s); err != nil {
		return Self{}, err
	}
	t.self = &s
	return s, nil
}

// as checks that the client may act for p, and returns the agent that a request has to
// name.
func (t *transport) as(ctx context.Context, p haft.Principal) (agent string, err error) {
	if p.Org == "" && p.User == "" && p.Agent == "" && p.Roles == nil && p.Scope == nil {
		return "", nil
	}
	self, err := t.whoami(ctx)
	if err != nil {
		return "", err
	}
	own := self.Principal
	switch {
	case p.Org != "" && p.Org != own.Org,
		p.User != "" && p.User != own.User,
		p.Roles != nil && !same(p.Roles, own.Roles),
		p.Scope != nil && (own.Scope == nil || !same(p.Scope, own.Scope)):
		return "", &haft.Error{Code: haft.CodeDenied,
			Message: "the key of this client is somebody else's: who asks is said by the key"}
	case p.Agent == own.Agent:
		return "", nil
	}
	return p.Agent, nil
}

// same reports whether two lists have the same texts.
func same(a, b []string) bool {
	in := func(list []string) func(string) bool { return func(s string) bool { return !slices.Contains(list, s) } }
	return !slices.ContainsFunc(a, in(b)) && !slices.ContainsFunc(b, in(a))
}
