package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/net/http/httpguts"

	"haft"
	"haft/internal/secret"
)

// The bounds on what a server sends over HTTP.
const (
	linesPerSecond = 50_000
	endTime        = 5 * time.Second // for the request that ends a session
)

// errTooLong ends a message that is too long.
var errTooLong = errors.New("the server sends a message that is too long")

// A headersTransport adds a server's headers to its requests, and bounds the answers.
//
// It is the only place where credentials are added, and all requests pass it: none goes
// to another origin than that of the server's address, which the credentials are for. So
// neither a redirect nor an endpoint that an event names can lead credentials, or the
// arguments of calls, elsewhere. A bound secret goes only into requests that its binding
// allows.
type headersTransport struct {
	next    http.RoundTripper
	origin  string // scheme, host and port
	values  map[string]expanded
	fits    func(v secret.Named, method string, to *url.URL) bool
	max     int
	closing <-chan struct{}
	// leftOrigin says that a request was refused: not every error of the SDK says so.
	leftOrigin atomic.Bool
}

// errOtherOrigin refuses a request to another origin.
var errOtherOrigin = &haft.Error{Code: haft.CodeDenied,
	Message: "the server leads to another origin than that of its address (scheme, host and port), " +
		"where its credentials do not belong: change the address"}

// RoundTrip implements [http.RoundTripper].
func (h *headersTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	var cancel context.CancelFunc = func() {}
	if req.Method == http.MethodDelete { // the end of a session does not wait for the server
		var ctx context.Context
		ctx, cancel = context.WithTimeout(req.Context(), endTime)
		req = req.Clone(ctx)
	}
	if haft.URLOrigin(req.URL) != h.origin {
		cancel()
		h.leftOrigin.Store(true)
		return nil, errOtherOrigin
	}
	if len(h.values) > 0 {
		req = req.Clone(req.Context())
		for name, value := range h.values {
			if !slices.ContainsFunc(value.bound, func(v secret.Named) bool { return !h.fits(v, req.Method, req.URL) }) {
				req.Header.Set(name, value.text)
			}
		}
	}
	resp, err := h.next.RoundTrip(req)
	if err != nil {
		cancel()
		return nil, err
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	resp.Body = &boundedBody{
		ReadCloser: resp.Body, cancel: cancel, max: h.max, events: kind == "text/event-stream",
		throttle: &throttle{most: linesPerSecond, done: h.closing},
	}
	return resp, nil
}

// A detachedTransport does not end its stream with the context of Connect, as the SSE
// transport of the SDK does.
type detachedTransport struct{ mcp.Transport }

// Connect implements [mcp.Transport].
func (d *detachedTransport) Connect(ctx context.Context) (mcp.Connection, error) {
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	conn, err := d.Transport.Connect(life)
	if !stop() || err != nil {
		cancel()
		if err == nil {
			err = errors.Join(context.Cause(ctx), conn.Close())
		}
		return nil, err
	}
	return &detachedConn{conn, cancel}, nil
}

// A detachedConn ends its stream when it is closed.
type detachedConn struct {
	mcp.Connection
	cancel context.CancelFunc
}

// Close implements [mcp.Connection].
func (d *detachedConn) Close() error {
	defer d.cancel()
	return d.Connection.Close()
}

// A boundedBody bounds an answer: each event of a stream of events, else the whole.
type boundedBody struct {
	io.ReadCloser
	cancel   context.CancelFunc
	throttle *throttle
	max      int
	events   bool

	n     int  // bytes of this event, or of the whole
	empty bool // the line has nothing yet
}

// Read implements [io.Reader].
func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	lines := 0
	for _, c := range p[:n] {
		b.n++
		switch {
		case c == '\n':
			lines++
			if b.empty && b.events {
				b.n = 0
			}
			b.empty = true
		case c != '\r':
			b.empty = false
		}
		if b.n > b.max {
			return 0, errTooLong
		}
	}
	if b.events && lines > 0 && b.throttle.wait(lines) > floodSeconds {
		return 0, errFlood
	}
	return n, err
}

// Close implements [io.Closer].
func (b *boundedBody) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}

// reservedHeaders are set by the protocol or HTTP itself.
var reservedHeaders = []string{
	"Host", "Content-Length", "Content-Type", "Content-Encoding", "Transfer-Encoding", "Connection", "Upgrade", "Te",
	"Trailer", "Keep-Alive", "Proxy-Connection", "Expect", "Accept", "Last-Event-Id", "Mcp-Session-Id",
	"Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name",
}

// The bounds on a server's headers.
const (
	maxHeaders = 64
	maxHeader  = 16 << 10
)

// CheckHeaders returns an error with [haft.CodeInvalid] if values cannot be the headers
// of a server's requests.
func CheckHeaders(values map[string]string) error {
	bad := func(format string, args ...any) error {
		return &haft.Error{Code: haft.CodeInvalid, Message: fmt.Sprintf(format, args...)}
	}
	if len(values) > maxHeaders {
		return bad("a server has at most %d headers", maxHeaders)
	}
	for name, value := range values {
		switch {
		case len(name) > 256 || !httpguts.ValidHeaderFieldName(name):
			return bad("the name of a header is not one")
		case slices.Contains(reservedHeaders, http.CanonicalHeaderKey(name)):
			return bad("the header %s is the protocol's own", name)
		case len(value) > maxHeader:
			return bad("the header %s is longer than %d bytes", name, maxHeader)
		case !httpguts.ValidHeaderFieldValue(value):
			return bad("the header %s holds control characters", name)
		}
	}
	return nil
}

// client returns the client for the requests of a server: to itself, and to others that
// it names, such as authorisation servers.
func (p *Pool) client(to target) *http.Client {
	if p.cfg.Client == nil {
		return nil
	}
	client := *p.cfg.Client
	if client.Transport == nil {
		client.Transport = http.DefaultTransport
	}
	if p.cfg.Egress != nil {
		client.Transport = p.cfg.Egress(to.server, texts(to.headers), client.Transport)
	}
	return &client
}
