package egress

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"haft"
)

// Limits bound what goes through one proxy. A zero field means the default, never
// "unlimited".
type Limits struct {
	// Conns is how many connections there may be at once; 0 means 64.
	Conns int
	// Requests is how many requests and tunnels there may be in all, so that the
	// records of a call have an end; 0 means 10,000.
	Requests int64
	// BytesUp and BytesDown are what may be sent and received in all; 0 means
	// 1 GiB each.
	BytesUp, BytesDown int64
	// Idle is how long a connection may rest; 0 means 2 minutes.
	Idle time.Duration
	// Total is how long one connection may live; 0 means 30 minutes.
	Total time.Duration
}

// ProxyConfig has the settings of a proxy.
type ProxyConfig struct {
	// Guard connects; nil means New(Config{}).
	Guard *Guard
	// Caller is whose requests these are, for the mock of Guard.
	Caller Caller
	// Rules say what may be reached; none means nothing.
	Rules Rules
	// Forbid returns why a destination that the rules name may not be reached all the
	// same, or nil: it is for what can change while the proxy lives. It is asked for
	// each request and tunnel. Nil forbids nothing.
	Forbid func(host string, port uint16) *Refusal
	// Limits bound it all.
	Limits Limits
	// Record is called with each request and tunnel when it is over, from several goroutines at
	// once. It may be nil.
	Record func(Connection)
	// Paths puts the path of requests into records. Paths may hold personal data
	// and are left out otherwise.
	Paths bool
	// Broker puts secrets in and opens TLS where a rule looks inside; nil means
	// that neither is done, and rules with methods or paths refuse https.
	Broker *Broker
	// Inspect opens all TLS, so that names inside (Host, as in domain fronting)
	// are checked for every host. It needs a Broker whose CA the programs trust.
	Inspect bool
	// Logger gets internal errors of the proxy; nil discards.
	Logger *slog.Logger
}

// The outcomes of a connection.
const (
	// OutcomeOK: it went through.
	OutcomeOK = "ok"
	// OutcomeRefused: a rule forbade it; the Refusal says which.
	OutcomeRefused = "refused"
	// OutcomeFailed: the server or the connection failed.
	OutcomeFailed = "failed"
)

// A Connection is the record of one request or tunnel. It has no headers, no
// bodies, and no path unless [ProxyConfig.Paths] says so.
type Connection struct {
	Time   time.Time `json:"time"`
	Via    string    `json:"via"` // "http", "connect" or "socks"
	Host   string    `json:"host,omitempty"`
	Port   uint16    `json:"port,omitempty"`
	Scheme string    `json:"scheme,omitempty"` // http, https or tcp, once it is known
	Method string    `json:"method,omitempty"`
	Path   string    `json:"path,omitempty"`
	// Rule is the rule that allowed it.
	Rule string `json:"rule,omitempty"`
	// Secrets are the names of the secrets that were put in.
	Secrets  []string      `json:"secrets,omitempty"`
	Status   int           `json:"status,omitempty"`
	Up       int64         `json:"up"`
	Down     int64         `json:"down"`
	Duration time.Duration `json:"duration_ns"`
	Outcome  string        `json:"outcome"`
	Refusal  *Refusal      `json:"refusal,omitempty"`
}

// A Proxy is the only way out of a sandbox. It speaks HTTP/1.1 as a proxy,
// CONNECT and SOCKS5 on every connection that it is given. It is safe for
// concurrent use.
//
// Lifecycle: [NewProxy], then Serve and ServeConn in any order, then Close.
type Proxy struct {
	cfg       ProxyConfig
	transport *http.Transport
	slots     chan struct{}
	readers   sync.Pool // of *bufio.Reader, maxHead long
	buffers   sync.Pool // of *[]byte, for copying

	requests atomic.Int64
	up, down atomic.Int64
}

// NewProxy returns a proxy. It touches nothing outside.
func NewProxy(cfg ProxyConfig) *Proxy {
	if cfg.Guard == nil {
		cfg.Guard = New(Config{})
	}
	l := &cfg.Limits
	setDefault(&l.Conns, 64)
	setDefault(&l.Requests, 10_000)
	setDefault(&l.BytesUp, 1<<30)
	setDefault(&l.BytesDown, 1<<30)
	setDefault(&l.Idle, 2*time.Minute)
	setDefault(&l.Total, 30*time.Minute)
	p := &Proxy{cfg: cfg, slots: make(chan struct{}, l.Conns)}
	p.transport = cfg.Guard.transport()
	p.transport.DisableCompression = true // what the server sends is what the program gets
	p.transport.ResponseHeaderTimeout = l.Total
	p.transport.MaxIdleConns = l.Conns
	p.readers.New = func() any { return bufio.NewReaderSize(nil, maxHead) }
	p.buffers.New = func() any { b := make([]byte, 32<<10); return &b }
	return p
}

// Close closes the connections to servers that were kept for later. Those in use
// end with their Serve or ServeConn.
func (p *Proxy) Close() { p.transport.CloseIdleConnections() }

// Serve serves the connections of l until ctx ends or l is closed, closes l, and waits for
// them. It accepts no connection beyond its limit, so that a flood stays in the queue of the
// kernel. It returns nil if ctx ended or l was closed.
func (p *Proxy) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer func() {
		stop()
		cancel()
		l.Close()
		wg.Wait()
	}()
	for {
		select {
		case p.slots <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		conn, err := l.Accept()
		if err != nil {
			<-p.slots
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return nil
			}
			return fmt.Errorf("take a connection: %w", err)
		}
		wg.Go(func() {
			defer func() { <-p.slots }()
			p.serve(ctx, conn)
		})
	}
}

// ServeConn serves one connection until it ends or ctx does, and closes it. If
// there are too many it closes it at once and says so.
func (p *Proxy) ServeConn(ctx context.Context, conn net.Conn) error {
	select {
	case p.slots <- struct{}{}:
	default:
		conn.Close()
		r := &Refusal{Rule: RuleLimit, Reason: fmt.Sprintf("more than %d connections at once", p.cfg.Limits.Conns)}
		return &haft.Error{Code: haft.CodeRateLimited, Message: r.Message(), Err: r}
	}
	defer func() { <-p.slots }()
	p.serve(ctx, conn)
	return nil
}

// serve detects the protocol of a connection and serves it.
func (p *Proxy) serve(ctx context.Context, conn net.Conn) {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Limits.Total)
	defer cancel()
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	defer func() {
		// A fault on what one program sent must not end the work of all others.
		if v := recover(); v != nil && p.cfg.Logger != nil {
			p.cfg.Logger.ErrorContext(ctx, "the proxy panicked", "fault", v, "stack", string(debug.Stack()))
		}
	}()
	br := p.readers.Get().(*bufio.Reader)
	defer func() {
		br.Reset(nil)
		p.readers.Put(br)
	}()
	c := &client{proxy: p, Conn: conn, idle: p.cfg.Limits.Idle}
	br.Reset(c)
	first, err := br.Peek(1)
	if err != nil {
		if !c.limited.Load() {
			return // it never said a word
		}
		if t, r := p.begin(c, ""); r == nil {
			t.end()
		}
		return
	}
	switch first[0] {
	case 0x05:
		p.serveSOCKS(ctx, c, br)
	case 0x04:
		_, _ = c.Write([]byte{0x00, 0x5b, 0, 0, 0, 0, 0, 0}) // SOCKS4: rejected; it ends either way
	default:
		p.serveHTTP(ctx, c, br, nil)
	}
}

// errLimit is what reads and writes return when the bytes of the call are used up.
var errLimit = errors.New("the call has sent or received as many bytes as it may (limits.network_bytes)")

// past is a deadline that is over.
var past = time.Unix(1, 0)

// client is the program's end of a connection: its bytes are counted and limited, and it
// is closed when it is idle too long.
type client struct {
	net.Conn
	proxy    *Proxy
	idle     time.Duration
	up, down atomic.Int64
	limited  atomic.Bool
	abort    atomic.Bool // reads return at once

	// How much of up and down is in records already.
	recordedUp, recordedDown int64
}

// Read implements [io.Reader].
func (c *client) Read(b []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.idle)); err != nil {
		return 0, err
	}
	if c.abort.Load() { // set before its deadline, so one of the two is seen
		if err := c.SetReadDeadline(past); err != nil {
			return 0, err
		}
	}
	left := c.proxy.cfg.Limits.BytesUp - c.proxy.up.Load()
	if left <= 0 {
		c.limited.Store(true)
		return 0, errLimit
	}
	n, err := c.Conn.Read(b[:min(int64(len(b)), left)])
	c.up.Add(int64(n))
	c.proxy.up.Add(int64(n))
	return n, err
}

// Write implements [io.Writer].
func (c *client) Write(b []byte) (int, error) {
	if c.proxy.down.Add(int64(len(b))) > c.proxy.cfg.Limits.BytesDown {
		c.limited.Store(true)
		return 0, errLimit
	}
	if err := c.SetWriteDeadline(time.Now().Add(c.idle)); err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(b)
	c.down.Add(int64(n))
	return n, err
}

// record is the [Connection] of a request or tunnel that has not ended.
type record struct {
	Connection
	proxy  *Proxy
	conn   *client
	silent bool // what it held has records of its own
}

// forbidden returns why a destination may not be reached although a rule names it.
func (p *Proxy) forbidden(host string, port uint16) *Refusal {
	if p.cfg.Forbid == nil {
		return nil
	}
	return p.cfg.Forbid(host, port)
}

// begin opens a record. It refuses when there have been too many.
func (p *Proxy) begin(c *client, via string) (*record, *Refusal) {
	t := &record{proxy: p, conn: c}
	t.Time, t.Via, t.Outcome = time.Now(), via, OutcomeOK
	if n := p.requests.Add(1); n > p.cfg.Limits.Requests {
		return nil, &Refusal{Rule: RuleLimit, Reason: fmt.Sprintf("more than %d requests in one call",
			p.cfg.Limits.Requests)}
	}
	return t, nil
}

// dest says where it goes.
func (t *record) dest(d Dest) {
	t.Host, t.Port, t.Scheme, t.Method = d.Host, d.Port, d.Scheme, d.Method
	if t.proxy.cfg.Paths {
		t.Path = d.Path
	}
}

// refuse says that it did not pass.
func (t *record) refuse(r *Refusal) {
	if r.bare != nil && !t.proxy.cfg.Paths {
		r = r.bare
	}
	t.Outcome, t.Refusal = OutcomeRefused, r
}

// fail says that it did not work.
func (t *record) fail(err error) {
	if r, ok := errors.AsType[*Refusal](err); ok {
		t.refuse(r)
		return
	}
	t.Outcome = OutcomeFailed
}

// end closes the record and hands it over.
func (t *record) end() {
	c := t.conn
	t.Up, t.Down = c.up.Load()-c.recordedUp, c.down.Load()-c.recordedDown
	c.recordedUp, c.recordedDown = c.recordedUp+t.Up, c.recordedDown+t.Down
	t.Duration = time.Since(t.Time)
	if t.conn.limited.Load() && t.Refusal == nil {
		t.refuse(&Refusal{Host: t.Host, Port: t.Port, Rule: RuleLimit, Reason: errLimit.Error()})
	}
	if t.proxy.cfg.Record != nil && !t.silent {
		t.proxy.cfg.Record(t.Connection)
	}
}
