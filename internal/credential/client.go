package credential

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"haft"
	"haft/internal/secret"
)

// The defaults and bounds.
const (
	defaultTimeout = 10 * time.Second
	defaultTTL     = time.Minute
	// MaxTTL is the longest time that an answer is cached.
	MaxTTL = time.Hour
	// MaxAnswer and MaxVariables bound an answer, MaxValue one of its values.
	MaxAnswer    = 256 << 10
	MaxVariables = 100
	MaxValue     = 96 << 10

	maxKept = 4096 // answers in memory
	// failedFor is how long a failure is cached.
	failedFor = 2 * time.Second
)

// Config has the settings of a client.
type Config struct {
	// URL is the address of the service: https, or http to this machine or with Insecure.
	URL string
	// Insecure allows http to other machines, where anyone on the network can read the
	// credentials.
	Insecure bool
	// Key is sent as a bearer token, if it is set.
	Key secret.Value
	// Signing signs requests, if it is set.
	Signing secret.Value
	// Client sends the requests, and decides which addresses may be reached. It is required,
	// and is not changed.
	Client *http.Client
	// Timeout bounds a request; 0 means 10 seconds.
	Timeout time.Duration
	// TTL is how long an answer is cached that does not say; 0 means a minute, and less than
	// 0 means not at all.
	TTL time.Duration
}

// An Ask says who calls which tool.
type Ask struct {
	Org    string      `json:"organization_id"`
	User   string      `json:"user_id"`
	Agent  string      `json:"agent_id,omitempty"`
	Tool   string      `json:"tool_name,omitempty"`
	ToolID string      `json:"tool_id,omitempty"`
	Call   haft.CallID `json:"call_id,omitempty"`
}

// A Client asks for credentials. It is safe for concurrent use.
type Client struct {
	cfg  Config
	http *http.Client

	mu   sync.Mutex
	kept map[Ask]*answer // by all but the call
}

// An answer is an answer of the service, or one that is still awaited. The fields but ready
// are written once, before ready is closed.
type answer struct {
	ready   chan struct{}
	values  []secret.Named
	err     error
	until   time.Time // when it expires
	settled bool      // guarded by Client.mu
}

// New returns a client.
func New(cfg Config) (*Client, error) {
	if cfg.Client == nil {
		return nil, errors.New("a credentials webhook needs an HTTP client")
	}
	if err := checkURL(cfg.URL, cfg.Insecure); err != nil {
		return nil, err
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = defaultTimeout
	}
	switch {
	case cfg.TTL == 0:
		cfg.TTL = defaultTTL
	case cfg.TTL < 0:
		cfg.TTL = 0
	}
	own := *cfg.Client
	// A redirect would send the caller, the tool and the signature to another server.
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	own.Jar = nil
	return &Client{cfg: cfg, http: &own, kept: map[Ask]*answer{}}, nil
}

// checkURL reports what is wrong with an address. It does not show the address, which may
// contain a password.
func checkURL(text string, insecure bool) error {
	wrong := func(why string) error {
		return &haft.Error{Code: haft.CodeInvalid, Message: "the address of the credentials webhook " + why}
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Hostname() == "":
		return wrong("is not an address such as https://host/path")
	case u.Scheme != "https" && u.Scheme != "http":
		return wrong("begins with https://")
	case u.User != nil:
		return wrong("holds a password; give it as the key instead")
	case u.Fragment != "":
		return wrong("has a fragment, which is never sent")
	case u.Scheme == "http" && !insecure && !isLocal(u.Hostname()):
		return wrong("is http: anyone on the way could read the credentials; use https, or allow it by name")
	}
	return nil
}

// isLocal reports whether a host is this machine.
func isLocal(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

// errGone says that the caller who sent the request left before the answer came.
var errGone = errors.New("whoever asked has left")

// Fetch returns the variables for a call. It fails with [haft.CodeUnavailable], and returns
// nothing, if the service gives no usable answer.
func (c *Client) Fetch(ctx context.Context, ask Ask) ([]secret.Named, error) {
	key := ask
	key.Call = ""
	for {
		if err := ctx.Err(); err != nil {
			return nil, failure("was not waited for", context.Cause(ctx))
		}
		a, mine := c.join(key, time.Now())
		if mine {
			c.settle(ctx, key, ask, a)
		}
		select {
		case <-a.ready:
		case <-ctx.Done():
			return nil, failure("was not waited for", context.Cause(ctx))
		}
		if !errors.Is(a.err, errGone) {
			return a.values, a.err
		}
		if mine {
			return nil, failure("was not waited for", context.Cause(ctx))
		}
	}
}

// join returns the answer to key that is cached or awaited, or a new one that the caller has
// to settle.
func (c *Client) join(key Ask, now time.Time) (a *answer, mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a := c.kept[key]; a != nil && (!a.settled || now.Before(a.until)) {
		return a, false
	}
	if len(c.kept) >= maxKept {
		c.prune(now)
	}
	a = &answer{ready: make(chan struct{})}
	c.kept[key] = a
	return a, true
}

// prune removes expired answers and, if that is not enough, arbitrary ones.
func (c *Client) prune(now time.Time) {
	for k, a := range c.kept {
		if a.settled && !now.Before(a.until) {
			delete(c.kept, k)
		}
	}
	for k, a := range c.kept {
		if len(c.kept) < maxKept*3/4 {
			return
		}
		if a.settled {
			delete(c.kept, k)
		}
	}
}

// settle sends the request, and wakes all who wait for the answer.
func (c *Client) settle(ctx context.Context, key, ask Ask, a *answer) {
	defer close(a.ready)
	a.err = errGone // also if the client panics
	var ttl time.Duration
	values, ttl, err := c.post(ctx, ask)
	switch {
	case err != nil && ctx.Err() != nil:
		// The caller left: the next one who waits sends the request again.
	case err != nil:
		a.err, ttl = err, failedFor
	default:
		a.values, a.err = values, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	a.settled, a.until = true, time.Now().Add(ttl)
	if ttl <= 0 && c.kept[key] == a {
		delete(c.kept, key)
	}
}

// failure is an error of the service. It shows neither the address nor the answer.
func failure(what string, cause error) error {
	return &haft.Error{Code: haft.CodeUnavailable, Message: "the credentials webhook " + what, Err: strip(cause)}
}

// strip removes the address from an error of the HTTP client: it may contain a secret.
func strip(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	if n, ok := errors.AsType[net.Error](err); ok && n.Timeout() {
		return fmt.Errorf("it took too long: %w", err)
	}
	return err
}
