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
	// MaxTTL is the longest that an answer is kept, whatever it says.
	MaxTTL = time.Hour
	// MaxAnswer and MaxVariables bound an answer, MaxValue one of its values.
	MaxAnswer    = 256 << 10
	MaxVariables = 100
	MaxValue     = 96 << 10

	maxKept = 4096 // answers in memory
	// failedFor is how long a failure is the answer.
	failedFor = 2 * time.Second
)

// Config has the settings of a client.
type Config struct {
	// URL is where to ask: https, or http if it leads to this machine or if
	// Insecure says so.
	URL string
	// Insecure allows http to other machines, where anyone on the way can read
	// the credentials.
	Insecure bool
	// Key is sent as a bearer token, if it is set.
	Key secret.Value
	// Signing signs requests, if it is set.
	Signing secret.Value
	// Client makes the requests. It decides which addresses may be reached; it is
	// needed, and not changed.
	Client *http.Client
	// Timeout bounds a request; 0 means 10 seconds.
	Timeout time.Duration
	// TTL is how long an answer is kept that does not say; 0 means a minute, less
	// than 0 not at all.
	TTL time.Duration
}

// An Ask is who calls what.
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

// An answer is what was, or is being, answered. The fields but ready are written
// once, before ready is closed.
type answer struct {
	ready   chan struct{}
	values  []secret.Named
	err     error
	until   time.Time // when it is not to be used any more
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
	// A redirect would carry who calls what, and the signature, to somebody else.
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	own.Jar = nil
	return &Client{cfg: cfg, http: &own, kept: map[Ask]*answer{}}, nil
}

// checkURL reports what is wrong with an address, without showing it: it may hold
// a password.
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
	case u.Scheme == "http" && !insecure && !near(u.Hostname()):
		return wrong("is http: anyone on the way could read the credentials; use https, or allow it by name")
	}
	return nil
}

// near reports whether a host is this machine.
func near(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

// errGone says that whoever asked for others left before the answer came.
var errGone = errors.New("whoever asked has left")

// Fetch returns the variables for a call. It fails with [haft.CodeUnavailable] if
// the service does not give a good answer; nothing is returned then.
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

// join returns the answer to key that is there or on its way, or a new one that
// the caller has to settle.
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

// prune forgets what has expired and, if that is not enough, what comes first.
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

// settle asks, and tells all who wait.
func (c *Client) settle(ctx context.Context, key, ask Ask, a *answer) {
	defer close(a.ready)
	a.err = errGone // also if the client panics
	var ttl time.Duration
	values, ttl, err := c.post(ctx, ask)
	switch {
	case err != nil && ctx.Err() != nil:
		// Not the service's fault: the next one who waits asks again.
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

// failure is an error of the service. It says what to look at and shows neither
// the address nor the answer.
func failure(what string, cause error) error {
	return &haft.Error{Code: haft.CodeUnavailable, Message: "the credentials webhook " + what, Err: strip(cause)}
}

// strip takes the address off an error of the HTTP client: it may hold a secret.
func strip(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	if n, ok := errors.AsType[net.Error](err); ok && n.Timeout() {
		return fmt.Errorf("it took too long: %w", err)
	}
	return err
}
