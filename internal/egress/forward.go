package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// authority is the server that a tunnel leads to. Requests inside that name another one
// are refused.
type authority struct {
	track  *record
	scheme string
	host   string
	port   uint16
	conn   net.Conn // what requests come from, if that is not the client itself
}

// serveHTTP serves requests until the connection ends. in is nil for requests to
// the proxy itself.
func (p *Proxy) serveHTTP(ctx context.Context, c *client, br *bufio.Reader, in *authority) {
	x := &exchange{proxy: p, client: c, br: br, in: in, conn: c, via: "http"}
	if in != nil {
		x.via = in.track.Via
		if in.conn != nil {
			x.conn = in.conn
		}
	}
	for x.serveOne(ctx) {
	}
}

// exchange is a connection with requests, one after the other.
type exchange struct {
	proxy  *Proxy
	client *client
	conn   net.Conn // the client, or TLS over it
	br     *bufio.Reader
	in     *authority
	via    string

	// Of the request at hand.
	track *record
	req   *http.Request
	close bool
}

// serveOne serves one request and reports whether another may follow.
func (x *exchange) serveOne(ctx context.Context) bool {
	req, h, err := readRequest(x.br)
	if errors.Is(err, errEnd) {
		return false
	}
	t, refusal := x.proxy.begin(x.client, x.via)
	if refusal != nil {
		x.track, x.req, x.close = &record{proxy: x.proxy, conn: x.client, silent: true}, req, true
		return x.refuse(refusal, http.StatusTooManyRequests)
	}
	if x.in != nil {
		x.in.track.silent = true
	}
	x.track, x.req = t, req
	defer func() { x.track.end() }()
	if err != nil {
		x.close = true
		if r, status := refusalOf(err); r != nil {
			return x.refuse(r, status)
		}
		t.Outcome = OutcomeFailed
		return false
	}
	x.close = req.Close || h.version == "HTTP/1.0"
	if req.Method == http.MethodConnect {
		return x.connect(ctx, h)
	}
	dest, r := x.target(h)
	t.dest(dest)
	if r != nil {
		return x.refuse(r, statusOf(r))
	}
	rule, r := x.permit(dest)
	if r != nil {
		return x.refuse(r, statusOf(r))
	}
	t.Rule = rule.String()
	return x.forward(ctx, dest)
}

// refuse answers a refusal and reports whether another request may follow.
func (x *exchange) refuse(r *Refusal, status int) bool {
	x.track.refuse(r)
	x.track.Status = status
	a := answer{status: status, refusal: r, close: x.close}
	if x.req != nil {
		a.head = x.req.Method == http.MethodHead
		a.json = strings.Contains(x.req.Header.Get("Accept"), "json")
		a.close = a.close || x.req.ContentLength != 0 // its body is not read
	} else {
		a.close = true
	}
	if _, err := x.conn.Write(a.bytes()); err != nil {
		return false
	}
	if a.close {
		if x.conn != net.Conn(x.client) {
			closeWrite(x.conn) // TLS says goodbye first; if it cannot, it is gone
		}
		linger(x.client)
	}
	return !a.close
}

// target returns where a request goes. Host and target have to agree, and in a
// tunnel both have to be what the tunnel is for.
func (x *exchange) target(h head) (Dest, *Refusal) {
	u := x.req.URL
	d := Dest{Method: x.req.Method}
	var named string
	switch {
	case x.in != nil:
		d.Scheme, d.Host, d.Port = x.in.scheme, x.in.host, x.in.port
		if u.Host != "" || u.Scheme != "" {
			// ReadRequest takes the host of an absolute target for the Host.
			return d, &Refusal{Rule: RuleProtocol, Reason: "in a tunnel the target of a request is a path"}
		}
		named = h.host
	case u.Scheme != HTTP && u.Scheme != HTTPS || u.Host == "":
		return d, &Refusal{Rule: RuleProtocol, Reason: "this is a proxy: the target of a request is a whole http URL"}
	case u.User != nil:
		return d, &Refusal{Rule: RuleProtocol, Reason: "the URL has a user name in it"}
	default:
		d.Scheme, named = u.Scheme, u.Host
	}
	d.Path = u.EscapedPath()
	if d.Path == "" {
		d.Path = "/"
	}
	host, port, err := splitAuthority(named, d.Scheme)
	if err != nil {
		d.Host = printable(named)
		return d, &Refusal{Rule: RuleName, Reason: err.Error()}
	}
	if x.in == nil {
		d.Host, d.Port = host, port
		if h.hosts == 0 {
			return d, nil
		}
		if host, port, err = splitAuthority(h.host, d.Scheme); err != nil {
			return d, &Refusal{Rule: RuleName, Reason: err.Error()}
		}
	}
	if host != d.Host || port != d.Port {
		return d, &Refusal{Host: d.Host, Port: d.Port, Rule: RuleFronting,
			Reason: fmt.Sprintf("the Host of the request is not %s, where it goes", d.Host)}
	}
	return d, nil
}

// splitAuthority returns the canonical host and the port of HOST or HOST:PORT.
func splitAuthority(text, scheme string) (string, uint16, error) {
	number := uint16(80)
	if scheme == HTTPS {
		number = 443
	}
	host := text
	if i := strings.LastIndexByte(text, ':'); i > strings.LastIndexByte(text, ']') {
		n, err := port(text[i+1:])
		if err != nil {
			return "", 0, errors.New("the port is not a number from 1 to 65535")
		}
		host, number = text[:i], n
	}
	if strings.Contains(host, ":") && !strings.HasPrefix(host, "[") {
		return "", 0, errBadName
	}
	host, err := Canonical(host)
	return host, number, err
}

// permit returns the rule that allows a request.
func (x *exchange) permit(d Dest) (Rule, *Refusal) {
	rules := x.proxy.cfg.Rules
	rule, ok := rules.Allows(d)
	if !ok {
		for _, r := range rules.reaching(d.Host, d.Port) {
			if r.speaks(d.Scheme, d.Port) {
				return Rule{}, notAllowedRequest(d)
			}
		}
		return Rule{}, notListed(d)
	}
	if r := x.proxy.forbidden(d.Host, d.Port); r != nil {
		return Rule{}, r
	}
	if upgradeOf(x.req.Header) == "" {
		return rule, nil
	}
	if x.proxy.mocked() {
		return Rule{}, mockedOnly(d.Host, d.Port, "the network is mocked, and WebSockets cannot be")
	}
	wide := d
	wide.Method, wide.Path = "", ""
	if rule, ok = rules.Allows(wide); !ok {
		return Rule{}, &Refusal{Host: d.Host, Port: d.Port, Rule: RuleUpgrade, Network: suggest(d),
			Reason: fmt.Sprintf("the rule for %s limits methods or paths, so the protocol cannot be changed", d.Host),
			Ask:    fmt.Sprintf("for WebSockets the network list needs the rule network: [%q]", suggest(d))}
	}
	if !strings.EqualFold(upgradeOf(x.req.Header), "websocket") || x.req.ContentLength != 0 {
		return Rule{}, &Refusal{Host: d.Host, Port: d.Port, Rule: RuleUpgrade,
			Reason: "the protocol can only be changed to websocket, by a request without a body"}
	}
	return rule, nil
}

// connect serves CONNECT. It is the last request of its connection.
func (x *exchange) connect(ctx context.Context, h head) bool {
	x.track.Via, x.close = "connect", true
	if x.in != nil {
		return x.refuse(&Refusal{Rule: RuleProtocol, Reason: "there is no tunnel inside a tunnel"},
			http.StatusBadRequest)
	}
	target := x.req.RequestURI
	i := strings.LastIndexByte(target, ':')
	if i < 0 || x.req.ContentLength != 0 {
		return x.refuse(&Refusal{Rule: RuleProtocol, Reason: "CONNECT names HOST:PORT and has no body"},
			http.StatusBadRequest)
	}
	host, number, err := splitAuthority(target, HTTPS)
	if err != nil || i <= strings.LastIndexByte(target, ']') {
		x.track.Host = printable(target)
		return x.refuse(&Refusal{Rule: RuleName, Reason: "CONNECT names HOST:PORT, and this is not one"},
			http.StatusForbidden)
	}
	x.track.Host, x.track.Port = host, number
	// Programs send HOST or HOST:PORT as the Host of a CONNECT; the name counts.
	if h.hosts > 0 {
		if other, _, err := splitAuthority(h.host, HTTPS); err != nil || other != host {
			return x.refuse(&Refusal{Host: host, Port: number, Rule: RuleFronting,
				Reason: fmt.Sprintf("the Host of the request is not %s, where it goes", host)}, http.StatusForbidden)
		}
	}
	x.proxy.tunnel(ctx, &tunnel{record: x.track, client: x.client, br: x.br, host: host, port: number,
		reply: func(err error) bool {
			if err != nil {
				x.failed(err)
				return false
			}
			_, err = io.WriteString(x.conn, "HTTP/1.1 200 Connection established\r\n\r\n")
			return err == nil
		}})
	return false
}

// failed answers an error, and reports whether another request may follow.
func (x *exchange) failed(err error) bool {
	r, status := refusalOf(err)
	switch {
	case r != nil && status == http.StatusForbidden:
		return x.refuse(r, status)
	case r == nil:
		r = &Refusal{Host: x.track.Host, Port: x.track.Port, Rule: RuleProtocol, Reason: failure(err, x.track.Host)}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		status = http.StatusGatewayTimeout
	}
	again := x.refuse(r, status)
	x.track.Outcome, x.track.Refusal = OutcomeFailed, nil
	return again
}

// failure describes an error of a server for the program. It never contains the text of
// err, which has addresses in it.
func failure(err error, host string) string {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return fmt.Sprintf("the certificate of %s could not be verified", host)
	}
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		return fmt.Sprintf("%s took too long to answer", host)
	}
	return fmt.Sprintf("%s could not be reached or did not answer as HTTP", host)
}

// outgoing returns the request to send: the same, without the headers for the proxy.
func (x *exchange) outgoing(ctx context.Context, d Dest, body io.ReadCloser) *http.Request {
	out := x.req.Clone(ctx)
	out.RequestURI, out.Close = "", false
	host := d.Host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	out.Host = host
	if d.Scheme == HTTP && d.Port != 80 || d.Scheme == HTTPS && d.Port != 443 {
		out.Host = host + ":" + strconv.Itoa(int(d.Port))
	}
	out.URL = &url.URL{Scheme: d.Scheme, Host: out.Host, Path: x.req.URL.Path, RawPath: x.req.URL.RawPath,
		RawQuery: x.req.URL.RawQuery, ForceQuery: x.req.URL.ForceQuery}
	out.Body = body
	if x.req.ContentLength == 0 {
		out.Body = http.NoBody
	}
	// Clone copies Trailer; the names are known, the values come with the body's
	// end, and have to be looked for in the request that is read.
	out.Trailer = x.req.Trailer
	stripHops(out.Header)
	if upgrade := upgradeOf(x.req.Header); upgrade != "" {
		out.Header.Set("Connection", "Upgrade")
		out.Header.Set("Upgrade", upgrade)
	}
	if _, ok := out.Header["User-Agent"]; !ok {
		out.Header.Set("User-Agent", "") // or net/http would add its own
	}
	return out
}

// hopHeaders are the headers for the next machine only (RFC 9110, 7.6.1).
var hopHeaders = []string{
	"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade", "Http2-Settings",
}

// stripHops removes the headers that are for the next machine only.
func stripHops(h http.Header) {
	for _, c := range h["Connection"] {
		for name := range strings.SplitSeq(c, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range hopHeaders {
		h.Del(name)
	}
}

// upgradeOf returns the protocol that h asks to change to, or "".
func upgradeOf(h http.Header) string {
	for _, c := range h["Connection"] {
		for name := range strings.SplitSeq(c, ",") {
			if strings.EqualFold(strings.TrimSpace(name), "upgrade") {
				return strings.Join(h["Upgrade"], ", ")
			}
		}
	}
	return ""
}

// watchClient calls cancel if the program closes the connection while nothing is read from
// it. The function stop ends the watch; bytes that arrived meanwhile stay in br.
func (x *exchange) watchClient(cancel func()) (stop func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, err := x.br.Peek(1); err != nil && !x.client.abort.Load() {
			cancel()
		}
	}()
	return func() {
		x.client.abort.Store(true)
		_ = x.client.SetReadDeadline(past) // if it fails the connection is closed, and Peek is back
		<-done
		x.client.abort.Store(false)
	}
}
