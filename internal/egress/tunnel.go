package egress

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"
)

// helloTime is how long a program may take for its first words in a tunnel where
// they are looked at.
const helloTime = 15 * time.Second

// A tunnel is a connection through the proxy whose inside is not HTTP of the
// proxy's own.
type tunnel struct {
	*record
	client *client
	br     *bufio.Reader // what the program sends
	host   string        // as the program said it, then canonical
	port   uint16
	// reply answers the program whether there is a tunnel. It returns false if there is none.
	reply func(err error) bool

	// What the rules allow to be inside.
	opaque bool // TLS that is not opened
	plain  bool // anything
	http   bool // plain HTTP, looked at
	inside bool // TLS has to be opened
}

// dest returns where t goes if it speaks scheme.
func (t *tunnel) dest(scheme string) Dest { return Dest{Host: t.host, Port: t.port, Scheme: scheme} }

// tunnel serves one tunnel. The program's first words decide what it is:
//
//	TLS hello   name in it checked, then passed on as it is, or opened if a rule
//	            looks inside or a secret belongs inside
//	HTTP        served request by request, where the rules allow HTTP
//	anything    passed on, where a rule allows plain TCP
//
// Where plain TCP is allowed the server may speak first: what it says does not
// wait for the program.
func (p *Proxy) tunnel(ctx context.Context, t *tunnel) {
	if r := p.plan(t); r != nil {
		t.refuse(r)
		t.reply(r)
		return
	}
	var server net.Conn
	if !t.inside && (t.opaque || t.plain) {
		conn, err := p.dial(ctx, t)
		if err != nil {
			t.reply(err)
			return
		}
		defer conn.Close()
		defer context.AfterFunc(ctx, func() { conn.Close() })()
		server = conn
	} else if _, r := p.cfg.Guard.refuseHost(t.host); r != nil {
		r.Port = t.port
		t.refuse(r)
		t.reply(r)
		return
	}
	if !t.reply(nil) {
		t.Outcome = OutcomeFailed
		return
	}
	if t.plain && !t.inside {
		p.relayPlain(ctx, t, server)
		return
	}
	p.readFirstBytes(ctx, t, server)
}

// plan finds out what may be inside t, or why there may be no tunnel.
func (p *Proxy) plan(t *tunnel) *Refusal {
	host, err := Canonical(t.host)
	if err != nil {
		t.Host, t.Port = printable(t.host), t.port
		return &Refusal{Port: t.port, Rule: RuleName, Reason: err.Error()}
	}
	t.host = host
	t.record.dest(t.dest(""))
	rules := p.cfg.Rules
	var https, http bool
	for _, r := range rules.reaching(host, t.port) {
		https = https || r.speaks(HTTPS, t.port)
		http = http || r.speaks(HTTP, t.port)
	}
	for _, scheme := range []string{HTTPS, TCP} {
		r, ok := rules.Allows(t.dest(scheme))
		if !ok {
			continue
		}
		t.Rule = r.String()
		t.opaque = t.opaque || scheme == HTTPS
		t.plain = scheme == TCP
	}
	t.http = http
	if p.cfg.Inspect && p.cfg.Broker == nil {
		t.opaque = false // it could not be inspected
	}
	if b := p.cfg.Broker; b != nil && https {
		t.inside = b.bound(host, t.port) || !t.plain && (p.cfg.Inspect || !t.opaque)
	}
	switch {
	case !https && !http && !t.plain:
		scheme := HTTPS
		if t.port == 80 {
			scheme = HTTP
		}
		return notListed(t.dest(scheme))
	case p.mocked():
		return p.planMocked(t, https)
	case !t.opaque && !t.plain && !http && !t.inside:
		return &Refusal{Host: host, Port: t.port, Rule: RuleInside,
			Reason: fmt.Sprintf("the rule for %s limits methods or paths, which cannot be seen inside TLS here", host),
			Ask:    "ask the operator to let the proxy open TLS, or for a rule without method and path"}
	}
	return p.forbidden(host, t.port)
}

// readFirstBytes waits for the program's first bytes and serves the tunnel by what they
// show.
func (p *Proxy) readFirstBytes(ctx context.Context, t *tunnel, server net.Conn) {
	t.client.idle = helloTime
	first, err := t.br.Peek(1)
	if err != nil {
		t.Outcome = OutcomeFailed
		return
	}
	if first[0] != 0x16 {
		t.client.idle = p.cfg.Limits.Idle
		switch {
		case t.http && tokenByte(first[0]):
			p.serveHTTP(ctx, t.client, t.br, &authority{track: t.record, scheme: HTTP, host: t.host, port: t.port})
		case t.plain:
			p.relayLate(ctx, t)
		default:
			t.refusePlain(first[0])
		}
		return
	}
	t.Scheme = HTTPS
	raw, err := readHello(ctx, t.client, t.br, t.host)
	t.client.idle = p.cfg.Limits.Idle
	if err != nil {
		t.fail(err)
		if t.Refusal != nil {
			t.Refusal.Port = t.port
		}
		_, _ = t.client.Write(alertDenied) // the connection ends either way
		return
	}
	switch {
	case t.inside:
		p.terminateTLS(ctx, t, raw)
	case t.opaque:
		p.relay(t, server, raw)
	default:
		t.refuse(notListed(t.dest(HTTPS)))
		_, _ = t.client.Write(alertDenied) // as above
	}
}

// dial connects to the server of t.
func (p *Proxy) dial(ctx context.Context, t *tunnel) (net.Conn, error) {
	conn, err := p.cfg.Guard.DialContext(ctx, "tcp", net.JoinHostPort(t.host, strconv.Itoa(int(t.port))))
	if err != nil {
		t.fail(err)
		return nil, err
	}
	return conn, nil
}

// relayLate connects and relays where a secret belongs to the host and the program speaks
// neither TLS nor HTTP.
func (p *Proxy) relayLate(ctx context.Context, t *tunnel) {
	conn, err := p.dial(ctx, t)
	if err != nil {
		return
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	p.relayPlain(ctx, t, conn)
}

// refusePlain ends a tunnel that does not begin with TLS. A program that speaks HTTP gets the
// reason.
func (t *tunnel) refusePlain(first byte) {
	r := notListed(t.dest(TCP))
	r.Rule = RulePlain
	r.Reason = fmt.Sprintf("the rule for %s allows TLS only, and this is not TLS", t.host)
	t.refuse(r)
	if tokenByte(first) {
		_, _ = t.client.Write(answer{status: 403, refusal: r, close: true}.bytes()) // the connection ends either way
		linger(t.client)
	}
}

// alertDenied is a fatal TLS alert, access_denied, in the clear: the only answer that is
// possible before there are keys.
var alertDenied = []byte{0x15, 0x03, 0x01, 0x00, 0x02, 0x02, 49}

// terminateTLS ends the program's TLS here and serves the requests inside.
func (p *Proxy) terminateTLS(ctx context.Context, t *tunnel, raw []byte) {
	inner := &replayed{Conn: t.client, first: bytes.NewReader(raw)}
	conn := tls.Server(inner, p.cfg.Broker.serverConfig(t.host))
	defer conn.Close()
	hand, cancel := context.WithTimeout(ctx, helloTime)
	err := conn.HandshakeContext(hand)
	cancel()
	if err != nil {
		t.Outcome = OutcomeFailed
		return
	}
	br := p.readers.Get().(*bufio.Reader)
	defer func() {
		br.Reset(nil)
		p.readers.Put(br)
	}()
	br.Reset(conn)
	p.serveHTTP(ctx, t.client, br, &authority{track: t.record, scheme: HTTPS, host: t.host, port: t.port, conn: conn})
}

// errHello ends the reading of a hello, which goes no further.
var errHello = errors.New("the hello was read")

// hidingExtensions are the extensions that hide the name of the server: ECH (RFC 9849)
// with its last drafts, and ESNI.
var hidingExtensions = []uint16{0xfe0d, 0xfe0c, 0xfe0b, 0xfe0a, 0xfe09, 0xfe08, 0xffce}

// readHello reads a TLS hello and returns its bytes, if host is the only name that it asks for.
// crypto/tls parses it, as strictly as a server does: a second name, a second extension of a
// kind or a torn record is an error.
func readHello(ctx context.Context, c net.Conn, br *bufio.Reader, host string) ([]byte, error) {
	rec := &recorder{Conn: c, br: br}
	var hello *tls.ClientHelloInfo
	conn := tls.Server(rec, &tls.Config{
		MinVersion: tls.VersionTLS10, // nothing is served: the hello is read, and the server decides
		GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			hello = h
			return nil, errHello
		},
	})
	err := conn.HandshakeContext(ctx) // and bounded by the deadlines of c
	if hello == nil {
		return nil, fmt.Errorf("read the hello: %w", err)
	}
	if slices.ContainsFunc(hello.Extensions, func(e uint16) bool { return slices.Contains(hidingExtensions, e) }) {
		r := &Refusal{Host: host, Rule: RuleEncrypted,
			Reason: "the TLS hello hides the name of the server (ECH), which is not allowed",
			Ask:    "turn encrypted client hello off in the program"}
		return nil, r.err()
	}
	if r := checkName(hello.ServerName, host); r != nil {
		return nil, r.err()
	}
	return rec.seen, nil
}

// checkName refuses a hello for another name than host.
func checkName(name, host string) *Refusal {
	_, err := netip.ParseAddr(host)
	isAddr := err == nil
	if name == "" && isAddr {
		return nil
	}
	if got, err := Canonical(name); err == nil && got == host {
		return nil
	}
	reason := fmt.Sprintf("the TLS hello asks for another server than %s", host)
	if name == "" {
		reason = fmt.Sprintf("the TLS hello does not say that it is for %s (no server name)", host)
	}
	return &Refusal{Host: host, Rule: RuleFronting, Reason: reason}
}

// recorder is a connection that records the bytes that were read and sends nothing.
type recorder struct {
	net.Conn
	br   *bufio.Reader
	seen []byte
}

// maxHello is more than any honest hello has.
const maxHello = 64 << 10

// Read implements [io.Reader].
func (r *recorder) Read(b []byte) (int, error) {
	if len(r.seen) > maxHello {
		return 0, fmt.Errorf("the hello is longer than %d bytes", maxHello)
	}
	n, err := r.br.Read(b)
	r.seen = append(r.seen, b[:n]...)
	return n, err
}

// Write drops the alert with which crypto/tls ends.
func (r *recorder) Write(b []byte) (int, error) { return len(b), nil }

// replayed is a connection whose first bytes were already read.
type replayed struct {
	net.Conn
	first *bytes.Reader
}

// Read implements [io.Reader].
func (r *replayed) Read(b []byte) (int, error) {
	if r.first.Len() > 0 {
		return r.first.Read(b)
	}
	return r.Conn.Read(b)
}

// CloseWrite says that no more will be sent, if the connection can say that.
func (r *replayed) CloseWrite() error {
	if h, ok := r.Conn.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return errors.ErrUnsupported
}
