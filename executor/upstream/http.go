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
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"haft"
	"haft/internal/secret"
)

// The bounds on what a server sends over HTTP.
const (
	linesPerSecond = 50_000
	endTime        = 5 * time.Second // for saying goodbye
)

// errLong is the end of a message that is too long.
var errLong = errors.New("the server sends a message that is too long")

// headers is a transport that adds a server's headers to requests to it, and
// bounds what comes back.
//
// It is the one place where credentials are added, and where requests leave: none goes
// to another origin than that of the server's address, which the credentials are for.
// So neither a redirect nor an endpoint that an event names leads them, or the arguments
// of calls, elsewhere. A bound secret goes only into requests that its binding allows.
type headers struct {
	next    http.RoundTripper
	origin  string // scheme, host and port
	values  map[string]filled
	fits    func(v secret.Named, method string, to *url.URL) bool
	max     int
	closing <-chan struct{}
	// strayed says that a request was refused: not every error of the SDK tells.
	strayed atomic.Bool
}

// errStrayed is why a request to another origin is not sent.
var errStrayed = &haft.Error{Code: haft.CodeDenied,
	Message: "the server leads to another origin than that of its address (scheme, host and port), " +
		"where its credentials do not belong: change the address"}

// RoundTrip implements [http.RoundTripper].
func (h *headers) RoundTrip(req *http.Request) (*http.Response, error) {
	var cancel context.CancelFunc = func() {}
	if req.Method == http.MethodDelete { // a session that ends waits for nobody
		var ctx context.Context
		ctx, cancel = context.WithTimeout(req.Context(), endTime)
		req = req.Clone(ctx)
	}
	if haft.URLOrigin(req.URL) != h.origin {
		cancel()
		h.strayed.Store(true)
		return nil, errStrayed
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
	resp.Body = &body{
		ReadCloser: resp.Body, cancel: cancel, max: h.max, events: kind == "text/event-stream",
		pace: &pace{most: linesPerSecond, done: h.closing},
	}
	return resp, nil
}

// lasting is a transport whose stream does not end with the context in which it
// was connected, as that of the SDK for SSE does.
type lasting struct{ mcp.Transport }

// Connect implements [mcp.Transport].
func (l *lasting) Connect(ctx context.Context) (mcp.Connection, error) {
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	conn, err := l.Transport.Connect(life)
	if !stop() || err != nil {
		cancel()
		if err == nil {
			err = errors.Join(context.Cause(ctx), conn.Close())
		}
		return nil, err
	}
	return &ending{conn, cancel}, nil
}

// ending is a connection with whose end its stream ends.
type ending struct {
	mcp.Connection
	cancel context.CancelFunc
}

// Close implements [mcp.Connection].
func (e *ending) Close() error {
	defer e.cancel()
	return e.Connection.Close()
}

// A body is bounded: as a whole, or by the event if it is a stream of them.
type body struct {
	io.ReadCloser
	cancel context.CancelFunc
	pace   *pace
	max    int
	events bool

	n     int  // bytes of this event, or of the whole
	empty bool // the line has nothing yet
}

// Read implements [io.Reader].
func (b *body) Read(p []byte) (int, error) {
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
			return 0, errLong
		}
	}
	if b.events && lines > 0 && b.pace.take(lines) > floodSeconds {
		return 0, errFlood
	}
	return n, err
}

// Close implements [io.Closer].
func (b *body) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}

// ours are headers that the protocol or HTTP itself sets.
var ours = sync.OnceValue(func() map[string]bool {
	set := map[string]bool{}
	for _, n := range []string{
		"Host", "Content-Length", "Content-Type", "Content-Encoding", "Transfer-Encoding", "Connection", "Upgrade",
		"Te", "Trailer", "Keep-Alive",
		"Proxy-Connection", "Expect", "Accept", "Last-Event-Id", "Mcp-Session-Id", "Mcp-Protocol-Version", "Mcp-Method",
		"Mcp-Name",
	} {
		set[n] = true
	}
	return set
})

// The bounds on a server's headers.
const (
	maxHeaders = 64
	maxHeader  = 16 << 10
)

// CheckHeaders reports, as an error with [haft.CodeInvalid], why values cannot be
// the headers of a server's requests.
func CheckHeaders(values map[string]string) error {
	bad := func(format string, args ...any) error {
		return &haft.Error{Code: haft.CodeInvalid, Message: fmt.Sprintf(format, args...)}
	}
	if len(values) > maxHeaders {
		return bad("a server has at most %d headers", maxHeaders)
	}
	for name, value := range values {
		token := name != "" && len(name) <= 256 && !strings.ContainsFunc(name, func(r rune) bool {
			return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
		})
		switch {
		case !token:
			return bad("the name of a header is not one")
		case ours()[http.CanonicalHeaderKey(name)]:
			return bad("the header %s is the protocol's own", name)
		case len(value) > maxHeader:
			return bad("the header %s is longer than %d bytes", name, maxHeader)
		case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
			return bad("the header %s holds control characters", name)
		}
	}
	return nil
}

// client returns the client for what is sent for a server, to it or to others that it
// names, such as authorisation servers.
func (p *Pool) client(w wanted) *http.Client {
	if p.cfg.Client == nil {
		return nil
	}
	client := *p.cfg.Client
	if client.Transport == nil {
		client.Transport = http.DefaultTransport
	}
	if p.cfg.Egress != nil {
		texts := make(map[string]string, len(w.headers))
		for name, f := range w.headers {
			texts[name] = f.text
		}
		client.Transport = p.cfg.Egress(w.server, texts, client.Transport)
	}
	return &client
}
