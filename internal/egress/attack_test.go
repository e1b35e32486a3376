package egress_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"haft/internal/egress"
)

// An attack is what a program sends to its proxy, and the status that it gets.
type attack struct {
	name, send string
	status     int
}

const (
	api  = "http://api.example:HTTP_"
	host = "Host: api.example:HTTP_\r\n"
)

// sendGet is a GET with headers.
func sendGet(target string, headers ...string) string {
	return "GET " + target + " HTTP/1.1\r\n" + strings.Join(headers, "") + "\r\n"
}

// sendTo is a GET of a host, with the Host that belongs to it.
func sendTo(authority string) string {
	return sendGet("http://"+authority+"/", "Host: "+authority+"\r\n")
}

// sendPost is a POST with headers and a body.
func sendPost(headers, body string) string {
	return "POST " + api + "/ HTTP/1.1\r\n" + host + headers + "\r\n" + body
}

// sendOther is a request to the host of which one path is allowed.
func sendOther(method, path string) string {
	return method + " http://other.example:HTTP_" + path + " HTTP/1.1\r\nHost: other.example:HTTP_\r\n\r\n"
}

// sendConnect is a CONNECT.
func sendConnect(authority string) string {
	return "CONNECT " + authority + " HTTP/1.1\r\nHost: " + authority + "\r\n\r\n"
}

var destinations = []attack{
	{"another host", sendTo("evil.example:HTTP_"), 403},
	{"another port", sendTo("api.example:1"), 403},
	{"a host that ends like an allowed one", sendTo("evilapi.example:HTTP_"), 403},
	{"a host below an allowed one", sendTo("x.api.example:HTTP_"), 403},
	{"loopback", sendTo("127.0.0.1:HTTP_"), 403},
	{"loopback, short", sendTo("127.1:HTTP_"), 403},
	{"loopback, decimal", sendTo("2130706433:HTTP_"), 403},
	{"loopback, hexadecimal", sendTo("0x7f.1:HTTP_"), 403},
	{"loopback, octal", sendTo("0177.0.0.1:HTTP_"), 403},
	{"loopback, IPv6", sendTo("[::1]:HTTP_"), 403},
	{"loopback, mapped", sendTo("[::ffff:127.0.0.1]:HTTP_"), 403},
	{"localhost", sendTo("localhost:HTTP_"), 403},
	{"unspecified", sendTo("0.0.0.0:HTTP_"), 403},
	{"metadata", sendTo("169.254.169.254"), 403},
	{"metadata by name", sendTo("metadata.google.internal"), 403},
	{"an address with a zone", sendTo("[fe80::1%25lo]:HTTP_"), 403},
	{"a name with NUL, escaped", sendGet("http://evil.example%00.api.example:HTTP_/", host), 400},
	{"a user name that looks like the host", sendGet("http://api.example:HTTP_@evil.example:HTTP_/", host), 400},
	{"a user name", sendGet("http://u:p@api.example:HTTP_/", host), 400},
	{"a backslash before the host", sendGet(`http://evil.example:HTTP_\@api.example:HTTP_/`, host), 400},
	{"a fragment before the host", sendGet("http://evil.example:HTTP_#@api.example:HTTP_/", host), 400},
	{"an allowed name that leads home", sendTo("home.example:HTTP_"), 403},
	{"a path and no host", sendGet("/", host), 400},
	{"another scheme", sendGet("ftp://api.example:HTTP_/", host), 400},
	{"a file", sendGet("file:///etc/passwd", host), 400},
	{"a target for all", "OPTIONS * HTTP/1.1\r\n" + host + "\r\n", 400},
}

var fronting = []attack{
	{"another Host", sendGet(api+"/", "Host: evil.example:HTTP_\r\n"), 403},
	{"another port in Host", sendGet(api+"/", "Host: api.example:1\r\n"), 403},
	{"no port in Host", sendGet(api+"/", "Host: api.example\r\n"), 403},
	{"two Hosts", sendGet(api+"/", host, "Host: evil.example\r\n"), 400},
	{"two equal Hosts", sendGet(api+"/", host, host), 400},
	{"no Host", sendGet(api + "/"), 400},
	{"CONNECT with another Host", "CONNECT api.example:HTTPS HTTP/1.1\r\nHost: evil.example:HTTPS\r\n\r\n", 403},
}

var smuggling = []attack{
	{"two lengths", sendPost("Content-Length: 3\r\nContent-Length: 5\r\n", "abcde"), 400},
	{"two equal lengths", sendPost("Content-Length: 3\r\nContent-Length: 3\r\n", "abc"), 400},
	{"a list of lengths", sendPost("Content-Length: 3, 3\r\n", "abc"), 400},
	{"a length with a sign", sendPost("Content-Length: +3\r\n", "abc"), 400},
	{"a negative length", sendPost("Content-Length: -3\r\n", "abc"), 400},
	{"a hexadecimal length", sendPost("Content-Length: 0x3\r\n", "abc"), 400},
	{"an empty length", sendPost("Content-Length: \r\n", ""), 400},
	{"an endless length", sendPost("Content-Length: 99999999999999999999\r\n", "abc"), 400},
	{"length and chunks", sendPost("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), 400},
	{"chunks and length", sendPost("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n", "0\r\n\r\n"), 400},
	{"another coding", sendPost("Transfer-Encoding: gzip\r\n", ""), 400},
	{"two codings", sendPost("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n"), 400},
	{"two headers of coding", sendPost("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
		400},
	{"a coding with a tail", sendPost("Transfer-Encoding: chunked;q=1\r\n", "0\r\n\r\n"), 400},
	{"a coding behind a vertical tab", sendPost("Transfer-Encoding: \x0bchunked\r\n", "0\r\n\r\n"), 400},
	{"a coding with a space before the colon", sendPost("Transfer-Encoding : chunked\r\n", "0\r\n\r\n"), 400},
	{"a coding in HTTP/1.0", "POST " + api + "/ HTTP/1.0\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		400},
	{"a folded header", sendGet(api+"/", host, "X: a\r\n b\r\n"), 400},
	{"a folded first header", sendGet(api+"/", " X: a\r\n", host), 400},
	{"a header without a colon", sendGet(api+"/", host, "X\r\n"), 400},
	{"a header without a name", sendGet(api+"/", host, ": x\r\n"), 400},
	{"a name with a space", sendGet(api+"/", host, "X Y: z\r\n"), 400},
	{"a NUL in a header", sendGet(api+"/", host, "X: a\x00b\r\n"), 400},
	{"a bare CR in a header", sendGet(api+"/", host, "X: a\rY: b\r\n"), 400},
	{"a bare LF in a header", sendGet(api+"/", host, "X: a\nY: b\r\n"), 400},
	{"lines that end with LF", "GET " + api + "/ HTTP/1.1\n" + "Host: api.example:HTTP_\n\n", 400},
	{"a tab in the first line", "GET\t" + api + "/ HTTP/1.1\r\n" + host + "\r\n", 400},
	{"two spaces in the first line", "GET  " + api + "/ HTTP/1.1\r\n" + host + "\r\n", 400},
	{"a space in the target", sendGet(api+"/a b", host), 400},
	{"HTTP/0.9", "GET " + api + "/\r\n\r\n", 400},
	{"HTTP/2.0", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400},
	{"HTTP/1.2", "GET " + api + "/ HTTP/1.2\r\n" + host + "\r\n", 400},
	{"a method that is none", "G@T " + api + "/ HTTP/1.1\r\n" + host + "\r\n", 400},
	{"an empty line first", "\r\n" + sendGet(api+"/", host), 400},
	{"a head without end", "GET " + api + "/ HTTP/1.1\r\n" + host + "X: " + strings.Repeat("x", 70<<10) + "\r\n\r\n",
		400},
	{"too many headers", sendGet(api+"/", host, strings.Repeat("X: y\r\n", 300)), 400},
	{"an upgrade to h2c",
		sendGet(api+"/", host, "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAA\r\n"), 403},
	{"an upgrade to two protocols", sendGet(api+"/", host, "Connection: Upgrade\r\nUpgrade: websocket, h2c\r\n"), 403},
}

var methodsAndPaths = []attack{
	{"another method", sendOther("POST", "/v1/x"), 403},
	{"a method in small letters", sendOther("get", "/v1/x"), 403},
	{"another path", sendOther("GET", "/v2/x"), 403},
	{"a path above", sendOther("GET", "/v1"), 403},
	{"dots", sendOther("GET", "/v1/../v2"), 403},
	{"escaped dots", sendOther("GET", "/v1/%2e%2e/v2"), 403},
	{"an escaped slash", sendOther("GET", "/v1/..%2fv2"), 403},
	{"twice escaped dots", sendOther("GET", "/v1/%252e%252e/v2"), 403},
	{"dots with a parameter", sendOther("GET", "/v1/..;/v2"), 403},
	{"two slashes", sendOther("GET", "//v1/x"), 403},
	{"an escaped backslash", sendOther("GET", "/v1/..%5cv2"), 403},
	{"an escaped NUL", sendOther("GET", "/v1/x%00"), 403},
	{"a path that cannot be decoded", sendOther("GET", "/v1/%zz"), 400},
}

var connects = []attack{
	{"CONNECT to another host", sendConnect("evil.example:HTTPS"), 403},
	{"CONNECT to another port", sendConnect("api.example:22"), 403},
	{"CONNECT to an address", sendConnect("127.0.0.1:HTTPS"), 403},
	{"CONNECT to a number", sendConnect("2130706433:HTTPS"), 403},
	{"CONNECT without a port", sendConnect("api.example"), 400},
	{"CONNECT to port 0", sendConnect("api.example:0"), 403},
	{"CONNECT with a path", sendConnect("api.example:HTTPS/x"), 403},
	{"CONNECT to a URL", sendConnect("https://api.example:HTTPS"), 403},
	{"CONNECT with a body",
		"CONNECT api.example:HTTPS HTTP/1.1\r\nHost: api.example:HTTPS\r\nContent-Length: 3\r\n\r\nabc", 400},
	{"CONNECT to where only a path is allowed, inside TLS", sendConnect("limited.example:HTTPS"), 403},
}

// The program may reach api.example by HTTP and HTTPS and, with GET, the path
// /v1/* of other.example. HTTP_ and HTTPS stand for the ports of the servers. No
// attack may reach a server.
func TestProxy_attacks(t *testing.T) {
	tests := slices.Concat(destinations, fronting, smuggling, methodsAndPaths, connects)
	w := open(t, egress.ProxyConfig{}, []string{"http://api.example:HTTP_", "https://api.example:HTTPS",
		"GET http://other.example:HTTP_/v1/*", "GET https://limited.example:HTTPS/v1/*", "home.example:HTTP_"}, nil)
	if len(tests) < 60 {
		t.Errorf("%d attacks, want 60", len(tests))
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resp, body := w.raw(tt.send)
			if resp.StatusCode != tt.status || resp.Header.Get("X-Haft-Refused") == "" {
				t.Errorf("%s: %q, want %d of the proxy", resp.Status, body, tt.status)
			}
			if strings.Contains(body, "10.0.0.7") {
				t.Errorf("the answer tells an address: %q", body)
			}
			r := w.records(1)
			if last := r[len(r)-1]; last.Outcome == egress.OutcomeOK {
				t.Errorf("record %+v", last)
			}
		})
	}
	w.zone.set(func() {
		if n := w.zone.asked["evil.example"]; n != 0 {
			t.Errorf("a name that nobody may reach was looked up %d times", n)
		}
	})
	if n := len(w.served()); n != 0 {
		t.Errorf("%d requests reached a server: %s %s", n, w.served()[0].Method, w.served()[0].URL)
	}
	if resp, body := w.raw(
		"GET http://other.example:HTTP_/v1/x HTTP/1.1\r\nHost: other.example:HTTP_\r\n\r\n"); resp.StatusCode != 200 {
		t.Errorf("what is allowed does not work: %q", body)
	}
}

// What the server gets has none of what was for the proxy.
func TestProxy_strips_what_was_for_it(t *testing.T) {
	w := open(t, egress.ProxyConfig{}, []string{"api.example:HTTP_"}, nil)
	resp, _ := w.raw("GET http://API.example.:HTTP_/a%2Fb?q=%20 HTTP/1.1\r\nHost: api.EXAMPLE:HTTP_\r\nConnection: " +
		"close, X-Secret-Hop\r\nX-Secret-Hop: 1\r\nKeep-Alive: 3\r\n" +
		"Proxy-Authorization: Basic eDp5\r\nProxy-Connection: keep-alive\r\nTE: gzip\r\nX-Kept: 1\r\n\r\n")
	if resp.StatusCode != 200 {
		t.Fatal(resp.Status)
	}
	got := w.served()[0]
	for _, h := range []string{"Connection", "X-Secret-Hop", "Keep-Alive", "Proxy-Authorization", "Proxy-Connection",
		"Te", "User-Agent", "Via", "X-Forwarded-For", "Accept-Encoding"} {
		if v, ok := got.Header[h]; ok {
			t.Errorf("the server got %s: %q", h, v)
		}
	}
	if got.Header.Get("X-Kept") != "1" || got.Host != "api.example:"+w.http || got.RequestURI != "/a%2Fb?q=%20" {
		t.Errorf("the server got %s %s %v", got.Host, got.RequestURI, got.Header)
	}
}

// tunnel opens a tunnel by CONNECT.
func tunnel(t *testing.T, w *world, authority string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", w.addr)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(10 * time.Second)) // how long some attacks wait for an answer
	fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", authority, authority)
	var head []byte
	for b := make([]byte, 1); !bytes.HasSuffix(head, []byte("\r\n\r\n")); head = append(head, b[0]) {
		if _, err := io.ReadFull(c, b); err != nil {
			t.Fatalf("%q: %v", head, err)
		}
	}
	if !strings.HasPrefix(string(head), "HTTP/1.1 200 ") {
		t.Fatalf("%q", head)
	}
	return c
}

func TestProxy_attacks_inside_tunnels(t *testing.T) {
	ech := &tls.Config{ServerName: "api.example", EncryptedClientHelloConfigList: echList(t),
		MinVersion: tls.VersionTLS13}
	tests := []struct {
		name string
		do   func(c net.Conn) error // nil: it went through
		rule string
	}{
		{"another name", shake(&tls.Config{ServerName: "evil.example", InsecureSkipVerify: true}), egress.RuleFronting},
		{"a name below", shake(&tls.Config{ServerName: "x.api.example", InsecureSkipVerify: true}),
			egress.RuleFronting},
		{"no name", shake(&tls.Config{InsecureSkipVerify: true}), egress.RuleFronting},
		{"an address for a name", shake(&tls.Config{ServerName: "127.0.0.1", InsecureSkipVerify: true}),
			egress.RuleFronting},
		{"a hidden name", shake(ech), egress.RuleEncrypted},
		{"plain HTTP", say("GET / HTTP/1.1\r\nHost: api.example\r\n\r\n"), egress.RulePlain},
		{"SSH", say("SSH-2.0-OpenSSH_9\r\n"), egress.RulePlain},
		{"binary", say("\x00\x01\x02\x03"), egress.RulePlain},
		{"TLS that is none", say("\x16\x03\x01\x00\x05hello"), ""},
		{"a record that never ends", say("\x16\x03\x01\xff\xff" + strings.Repeat("x", 1<<10)), ""},
		{"SSL 2", say("\x80\x2e\x01\x00\x02"), egress.RulePlain},
	}
	w := open(t, egress.ProxyConfig{}, []string{"https://api.example:HTTPS"}, nil)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := tunnel(t, w, "api.example:"+w.https)
			defer c.Close()
			if err := tt.do(c); err == nil {
				t.Error("it went through")
			}
			c.Close()
			r := w.records(1)
			last := r[len(r)-1]
			if last.Outcome == egress.OutcomeOK ||
				tt.rule != "" && (last.Refusal == nil || last.Refusal.Rule != tt.rule) {
				t.Errorf("record %+v, want rule %q", last, tt.rule)
			}
		})
	}
	if n := len(w.served()); n != 0 {
		t.Errorf("%d requests reached a server", n)
	}
	for name, name2 := range map[string]string{"the right name": "api.example", "in capitals": "API.example"} {
		c := tunnel(t, w, "API.example.:"+w.https)
		if err := shake(&tls.Config{ServerName: name2, RootCAs: w.roots})(c); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		c.Close()
	}
}

// A hello that comes byte by byte, or in many records, is one hello.
func TestProxy_reads_a_hello_in_pieces(t *testing.T) {
	w := open(t, egress.ProxyConfig{}, []string{"https://api.example:HTTPS"}, nil)
	for _, name := range []string{"api.example", "evil.example"} {
		c := tunnel(t, w, "api.example:"+w.https)
		err := shake(&tls.Config{ServerName: name, RootCAs: w.roots})(&dribble{Conn: c})
		if (err == nil) != (name == "api.example") {
			t.Errorf("%s: %v", name, err)
		}
		c.Close()
	}
}

// dribble sends its first record as many small ones.
type dribble struct {
	net.Conn
	done bool
}

func (d *dribble) Write(b []byte) (int, error) {
	if d.done {
		return d.Conn.Write(b)
	}
	d.done = true
	for rest := b[5:]; len(rest) > 0; {
		n := min(len(rest), 50)
		if _, err := d.Conn.Write(append([]byte{0x16, 3, 1, 0, byte(n)}, rest[:n]...)); err != nil {
			return 0, err
		}
		rest = rest[n:]
	}
	return len(b), nil
}

// shake does a TLS handshake.
func shake(cfg *tls.Config) func(net.Conn) error {
	return func(c net.Conn) error { return tls.Client(c, cfg).HandshakeContext(context.Background()) }
}

// say sends a text and wants a 200 back, or anything that is not the end.
func say(text string) func(net.Conn) error {
	return func(c net.Conn) error {
		if _, err := io.WriteString(c, text); err != nil {
			return err
		}
		if cw, ok := c.(*net.TCPConn); ok {
			_ = cw.CloseWrite()
		}
		b, err := io.ReadAll(c)
		if resp, rerr := http.ReadResponse(bufio.NewReader(bytes.NewReader(b)), nil); rerr == nil {
			resp.Body.Close()
			return fmt.Errorf("status %d", resp.StatusCode)
		}
		if err == nil {
			err = fmt.Errorf("ended after %d bytes", len(b))
		}
		return err
	}
}

func TestProxy_SOCKS5_attacks(t *testing.T) {
	w := open(t, egress.ProxyConfig{}, []string{"https://api.example:HTTPS"}, nil)
	p, err := strconv.Atoi(w.https)
	if err != nil {
		t.Fatal(err)
	}
	port := string([]byte{byte(p >> 8), byte(p)})
	name := func(s string) string { return "\x03" + string([]byte{byte(len(s))}) + s + port }
	tests := []struct {
		name, send string
		code       byte // of the reply
	}{
		{"another host", "\x05\x01\x00" + name("evil.example"), 2},
		{"a name with NUL", "\x05\x01\x00" + name("evil.example\x00.api.example"), 2},
		{"a name with a slash", "\x05\x01\x00" + name("evil.example/.api.example"), 2},
		{"an empty name", "\x05\x01\x00" + name(""), 2},
		{"loopback", "\x05\x01\x00\x01\x7f\x00\x00\x01" + port, 2},
		{"loopback as text", "\x05\x01\x00" + name("127.0.0.1"), 2},
		{"loopback in hexadecimal", "\x05\x01\x00" + name("0x7f.1"), 2},
		{"loopback, IPv6", "\x05\x01\x00\x04" + strings.Repeat("\x00", 15) + "\x01" + port, 2},
		{"loopback, mapped", "\x05\x01\x00\x04" + strings.Repeat("\x00", 10) + "\xff\xff\x7f\x00\x00\x01" + port, 2},
		{"metadata", "\x05\x01\x00\x01\xa9\xfe\xa9\xfe" + port, 2},
		{"BIND", "\x05\x02\x00" + name("api.example"), 7},
		{"UDP", "\x05\x03\x00" + name("api.example"), 7},
		{"an unknown command", "\x05\x09\x00" + name("api.example"), 7},
		{"an unknown kind of address", "\x05\x01\x00\x09", 8},
		{"another version", "\x04\x01\x00" + name("api.example"), 1},
		{"no length of a name", "\x05\x01\x00\x03", 1},
		{"half an address", "\x05\x01\x00\x01\x7f\x00", 1},
		{"half a request", "\x05\x01", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := net.Dial("tcp", w.addr)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(3 * time.Minute))
			_, _ = io.WriteString(c, "\x05\x01\x00"+tt.send)
			_ = c.(*net.TCPConn).CloseWrite()
			var b [4]byte
			if _, err := io.ReadFull(c, b[:]); err != nil || b[1] != 0 {
				t.Fatalf("greeting and reply %v: %v", b, err)
			}
			if b[3] != tt.code {
				t.Errorf("reply %d, want %d", b[3], tt.code)
			}
			w.records(1)
		})
	}
	for name, send := range map[string]string{"no method that we know": "\x05\x01\x01",
		"SOCKS4": "\x04\x01\x00\x50\x7f\x00\x00\x01\x00"} {
		c, err := net.Dial("tcp", w.addr)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, send)
		b, _ := io.ReadAll(c)
		c.Close()
		if len(b) > 0 && b[0] == 5 && b[1] != 0xff || len(b) > 1 && b[1] == 0x5a {
			t.Errorf("%s: %v", name, b)
		}
	}
	if n := len(w.served()); n != 0 {
		t.Errorf("%d requests reached a server", n)
	}
}

// Where plain TCP is allowed, a program that speaks HTTP or TLS is still held to
// the name that it asked for, and any other passes.
func TestProxy_attacks_inside_plain_tunnels(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, echo, _ := net.SplitHostPort(l.Addr().String())
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.Copy(c, c)
			c.Close()
		}
	}()
	w := open(t, egress.ProxyConfig{}, []string{"api.example:HTTP_", "api.example:HTTPS", "api.example:" + echo}, nil)
	for send, want := range map[string]string{
		"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n":                                                " 403 ",
		"GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n":                             " 400 ",
		"GET / HTTP/1.1\r\nHost: api.example:HTTP_\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n": " 400 ",
		"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n":                         " 400 ",
		"GET / HTTP/1.1\r\nHost: api.example:HTTP_\r\n\r\nGET / HTTP/1.1\r\nHost: evil.example\r\nConnection: " +
			"close\r\n\r\n": "served api.example:HTTP_ /HTTP/1.1 403 ",
	} {
		c := tunnel(t, w, "api.example:"+w.http)
		_, _ = io.WriteString(c, w.ports(send))
		_ = c.(*net.TCPConn).CloseWrite() // or it would be kept for a next request
		b, _ := io.ReadAll(c)
		if !strings.Contains(string(b), w.ports(want)) {
			t.Errorf("%q: %q, want %q", send, b, want)
		}
		c.Close()
	}
	for _, text := range []string{"GET key\r\n", "G", "SSH-2.0-x\r\n", "\x00\x01", "OPTIONS icap://x ICAP/1.0\r\n"} {
		c := tunnel(t, w, "api.example:"+echo)
		_, _ = io.WriteString(c, text)
		_ = c.(*net.TCPConn).CloseWrite()
		if b, err := io.ReadAll(c); string(b) != text {
			t.Errorf("%q came back as %q, %v", text, b, err)
		}
		c.Close()
	}
	c := tunnel(t, w, "api.example:"+w.https)
	defer c.Close()
	if err := shake(&tls.Config{ServerName: "evil.example", InsecureSkipVerify: true})(c); err == nil {
		t.Error("a hello for another server went through")
	}
	c.Close()
	for range 100 {
		if slices.ContainsFunc(w.records(1), func(r egress.Connection) bool {
			return r.Refusal != nil && r.Refusal.Rule == egress.RuleFronting && r.Scheme == egress.HTTPS
		}) {
			break
		}
	}
	c = tunnel(t, w, "api.example:"+w.https)
	defer c.Close()
	if err := shake(&tls.Config{ServerName: "api.example", RootCAs: w.roots})(c); err != nil {
		t.Error(err)
	}
}

// Inspection that nobody can do is not left out in silence.
func TestProxy_inspects_or_refuses(t *testing.T) {
	w := open(t, egress.ProxyConfig{Inspect: true}, []string{"https://api.example:HTTPS"}, nil)
	if resp, body := w.raw(sendConnect("api.example:HTTPS")); resp.StatusCode != 403 ||
		resp.Header.Get("X-Haft-Refused") != egress.RuleInside {
		t.Errorf("%s %q", resp.Status, body)
	}
}
