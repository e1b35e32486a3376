package egress_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/net/proxy"

	"haft"
	"haft/internal/egress"
)

// get reads a URL through a client.
func get(t testing.TB, c *http.Client, u string) (reply, string, error) {
	t.Helper()
	resp, err := c.Get(u)
	if err != nil {
		return reply{}, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Status, resp.Header}, string(b), err
}

func TestProxy_HTTP(t *testing.T) {
	w := open(t, egress.ProxyConfig{}, []string{"api.example:HTTP_"}, nil)
	c := w.client(nil)
	for i := range 3 {
		resp, body, err := get(t, c, "http://api.example:"+w.http+"/x")
		if err != nil || resp.StatusCode != 200 || body != "served api.example:"+w.http+" /x" {
			t.Fatalf("request %d: %v, %q", i, err, body)
		}
	}
	resp, body, err := get(t, c, "http://other.example:"+w.http+"/x")
	if err != nil || resp.StatusCode != 403 || !strings.Contains(body, `network: ["other.example:`+w.http+`"]`) {
		t.Fatalf("another host: %v, %d, %q", err, resp.StatusCode, body)
	}
	if strings.Contains(body, "127.0.0.1") {
		t.Errorf("the refusal tells an address: %q", body)
	}
	resp, body, err = get(t, c, "http://api.example:"+w.http+"/y") // the connection goes on after a refusal
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("after a refusal: %v, %q", err, body)
	}
	got := w.records(5)
	want := egress.Connection{Via: "http", Host: "api.example", Scheme: "http", Method: "GET",
		Rule: "api.example:" + w.http, Status: 200, Outcome: "ok"}
	if d := cmp.Diff(want, got[0], cmpopts.IgnoreFields(egress.Connection{}, "Time", "Port", "Up", "Down",
		"Duration")); d != "" {
		t.Errorf("record (-want +got):\n%s", d)
	}
	if got[0].Up < 50 || got[0].Down < 50 || got[0].Duration <= 0 || got[0].Time.IsZero() {
		t.Errorf("record %+v does not count", got[0])
	}
	if got[3].Outcome != "refused" || got[3].Refusal.Rule != egress.RuleNotListed || got[3].Host != "other.example" {
		t.Errorf("record of the refusal: %+v", got[3])
	}
}

func TestProxy_answers_in_JSON_if_the_program_accepts_it(t *testing.T) {
	w := open(t, egress.ProxyConfig{}, nil, nil)
	resp, body := w.raw("GET http://other.example:8080/ HTTP/1.1\r\nHost: other.example:8080\r\nAccept: " +
		"application/json\r\n\r\n")
	var got struct {
		Error struct {
			Code    haft.Code
			Rule    string
			Network []string
		}
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil || resp.StatusCode != 403 {
		t.Fatalf("%d %q: %v", resp.StatusCode, body, err)
	}
	if got.Error.Code != haft.CodeDenied || got.Error.Rule != "not-listed" ||
		!cmp.Equal(got.Error.Network, []string{"other.example:8080"}) {
		t.Errorf("got %+v", got)
	}
	if !strings.Contains(resp.Status, `ask for network: ["other.example:8080"]`) {
		t.Errorf("the reason phrase is %q", resp.Status)
	}
}

func TestProxy_streams_both_ways(t *testing.T) {
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	w := open(t, egress.ProxyConfig{}, []string{"api.example:HTTP_"},
		http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/events":
				_ = http.NewResponseController(rw).EnableFullDuplex()
				for i := range 3 {
					fmt.Fprintf(rw, "event %d\n", i)
					_ = http.NewResponseController(rw).Flush()
					// One byte for each event: nothing is held back. The client may have
					// left when it has the last.
					if _, err := r.Body.Read(make([]byte, 1)); err != nil && err != io.EOF && i < 2 {
						t.Errorf("read: %v", err)
					}
				}
			case "/trailers":
				b, _ := io.ReadAll(r.Body)
				rw.Header().Set("Trailer", "X-Sum")
				_, _ = rw.Write(b)
				rw.Header().Set("X-Sum", fmt.Sprint(len(b), " ", r.Trailer.Get("X-Up")))
			case "/refuse":
				rw.WriteHeader(http.StatusRequestEntityTooLarge)
			default:
				_ = http.NewResponseController(rw).EnableFullDuplex()
				_, _ = io.Copy(rw, r.Body)
			}
		}))
	c := w.client(nil)
	base := "http://api.example:" + w.http
	// with a length, and chunked
	for _, body := range []io.Reader{bytes.NewReader(big), io.MultiReader(bytes.NewReader(big))} {
		resp, err := c.Post(base+"/echo", "text/plain", body)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || !bytes.Equal(got, big) {
			t.Fatalf("echo: %d bytes, %v", len(got), err)
		}
	}
	pr, pw := io.Pipe()
	resp, err := c.Post(base+"/events", "text/plain", pr)
	if err != nil {
		t.Fatal(err)
	}
	br := bufio.NewReader(resp.Body)
	for i := range 3 {
		if line, err := br.ReadString('\n'); line != fmt.Sprintf("event %d\n", i) {
			t.Fatalf("event %d: %q, %v", i, line, err)
		}
		_, _ = pw.Write([]byte("x"))
	}
	pw.Close()
	resp.Body.Close()

	req, _ := http.NewRequest("POST", base+"/trailers", io.MultiReader(strings.NewReader("hello")))
	req.Trailer = http.Header{"X-Up": {"up"}}
	resp, err = c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if string(b) != "hello" || resp.Trailer.Get("X-Sum") != "5 up" {
		t.Errorf("trailers: %q, %v", b, resp.Trailer)
	}

	req, _ = http.NewRequest("PUT", base+"/refuse", bytes.NewReader(big))
	req.Header.Set("Expect", "100-continue")
	resp, err = c.Do(req)
	if err != nil || resp.StatusCode != 413 {
		t.Fatalf("expect: %v, %v", resp, err)
	}
	resp.Body.Close()
}

func TestProxy_asks_the_program_to_go_on(t *testing.T) {
	w := open(t, egress.ProxyConfig{}, []string{"api.example:HTTP_"}, nil)
	c, err := net.Dial("tcp", w.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(3 * time.Minute))
	fmt.Fprintf(c, "POST http://api.example:%s/ HTTP/1.1\r\nHost: api.example:%s\r\nContent-Length: 5\r\nExpect: "+
		"100-continue\r\n\r\n", w.http, w.http)
	br := bufio.NewReader(c)
	line, err := br.ReadString('\n')
	if err != nil || line != "HTTP/1.1 100 Continue\r\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if line, _ = br.ReadString('\n'); line != "\r\n" {
		t.Fatalf("%q", line)
	}
	fmt.Fprint(c, "hello")
	resp, err := http.ReadResponse(br, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, _ := io.ReadAll(resp.Body); !strings.HasPrefix(string(b), "hello") {
		t.Errorf("%q", b)
	}
}

func TestProxy_CONNECT(t *testing.T) {
	w := open(t, egress.ProxyConfig{}, []string{"https://api.example:HTTPS", "https://xn--bcher-kva.example:HTTPS",
		"https://home.example:HTTPS"}, nil)
	c := w.client(w.roots)
	if _, body, err := get(t, c, "https://api.example:"+w.https+"/x"); err != nil ||
		body != "served api.example:"+w.https+" /x" {
		t.Fatalf("%v, %q", err, body)
	}
	if _, _, err := get(t, c, "https://bücher.example:"+w.https+"/x"); err != nil {
		t.Errorf("an international name: %v", err)
	}
	_, _, err := get(t, c, "https://other.example:"+w.https+"/x")
	if err == nil || !strings.Contains(err.Error(), `ask for network: ["other.example:`) {
		t.Errorf("another host: %v", err)
	}
	_, _, err = get(t, c, "https://home.example:"+w.https+"/x")
	if err == nil || !strings.Contains(err.Error(), "not public (private)") ||
		strings.Contains(err.Error(), "10.0.0.7") {
		t.Errorf("a private host: %v", err)
	}
	c.CloseIdleConnections()
	for _, r := range w.records(4) {
		if r.Via != "connect" || r.Host == "" || r.Outcome == "ok" &&
			(r.Scheme != "https" || r.Up == 0 || r.Down == 0 || r.Rule == "") {
			t.Errorf("record %+v", r)
		}
	}
}

func TestProxy_SOCKS5(t *testing.T) {
	w := open(t, egress.ProxyConfig{}, []string{"https://api.example:HTTPS", "api.example:HTTP_", "down.example:9"},
		nil)
	for name, auth := range map[string]*proxy.Auth{"without a name": nil, "with a name": {User: "u", Password: "p"}} {
		t.Run(name, func(t *testing.T) {
			d, err := proxy.SOCKS5("tcp", w.addr, auth, proxy.Direct)
			if err != nil {
				t.Fatal(err)
			}
			tr := &http.Transport{DialContext: d.(proxy.ContextDialer).DialContext,
				TLSClientConfig: &tls.Config{RootCAs: w.roots}}
			defer tr.CloseIdleConnections()
			c := &http.Client{Transport: tr}
			for _, u := range []string{"https://api.example:" + w.https, "http://api.example:" + w.http} {
				if resp, body, err := get(t, c, u); err != nil || resp.StatusCode != 200 {
					t.Errorf("%s: %v, %q", u, err, body)
				}
			}
			if _, _, err := get(t, c, "http://other.example:"+w.http); err == nil ||
				!strings.Contains(err.Error(), "not allowed by ruleset") {
				t.Errorf("another host: %v", err)
			}
			if _, _, err := get(t, c, "http://down.example:9"); err == nil ||
				!strings.Contains(err.Error(), "host unreachable") {
				t.Errorf("a host that is down: %v", err)
			}
		})
	}
}

func TestProxy_lets_the_server_speak_first_where_TCP_is_allowed(t *testing.T) {
	port, _ := listen(t)
	w := open(t, egress.ProxyConfig{}, []string{"api.example:" + port}, nil)
	d, err := proxy.SOCKS5("tcp", w.addr, nil, proxy.Direct)
	if err != nil {
		t.Fatal(err)
	}
	c, err := d.Dial("tcp", "api.example:"+port)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if b, err := io.ReadAll(c); string(b) != "hello" {
		t.Errorf("%q, %v", b, err)
	}
	c.Close()
	if r := w.records(1)[0]; r.Scheme != "tcp" || r.Outcome != "ok" || r.Via != "socks" {
		t.Errorf("record %+v", r)
	}
}

// upgrade asks for a WebSocket and returns the status line and what is echoed.
func upgrade(t *testing.T, w *world, path string) (status, echo string) {
	t.Helper()
	c, err := net.Dial("tcp", w.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(3 * time.Minute))
	fmt.Fprintf(c, "GET http://api.example:%s%s HTTP/1.1\r\nHost: api.example:%s\r\nConnection: Upgrade\r\nUpgrade: "+
		"websocket\r\n\r\n", w.http, path, w.http)
	br := bufio.NewReader(c)
	status, _ = br.ReadString('\n')
	if !strings.Contains(status, " 101 ") {
		return status, ""
	}
	for {
		if l, err := br.ReadString('\n'); err != nil || l == "\r\n" {
			break
		}
	}
	fmt.Fprint(c, "ping")
	b := make([]byte, 4)
	_, _ = io.ReadFull(br, b)
	return status, string(b)
}

func TestProxy_changes_protocols_only_for_rules_without_limits(t *testing.T) {
	echo := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "websocket" {
			t.Error("the server was not asked to upgrade")
			return
		}
		c, brw, err := http.NewResponseController(rw).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		fmt.Fprint(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		b := make([]byte, 4)
		_, _ = io.ReadFull(brw, b)
		_, _ = c.Write(b)
	})
	w := open(t, egress.ProxyConfig{}, []string{"http://api.example:HTTP_"}, echo)
	if status, got := upgrade(t, w, "/ws"); got != "ping" {
		t.Errorf("%q, %q", status, got)
	}
	w = open(t, egress.ProxyConfig{}, []string{"GET http://api.example:HTTP_/ws"}, echo)
	if status, _ := upgrade(t, w, "/ws"); !strings.Contains(status, " 403 ") {
		t.Errorf("with a rule for a path: %q", status)
	}
	if r := w.records(1)[0]; r.Refusal == nil || r.Refusal.Rule != egress.RuleUpgrade {
		t.Errorf("record %+v", r)
	}
}

func TestProxy_limits_bytes(t *testing.T) {
	w := open(t, egress.ProxyConfig{Limits: egress.Limits{BytesUp: 20 << 10, BytesDown: 20 << 10}},
		[]string{"api.example:HTTP_"}, nil)
	resp, err := w.client(nil).Post("http://api.example:"+w.http+"/", "text/plain",
		bytes.NewReader(make([]byte, 1<<20)))
	if err == nil {
		_, err = io.ReadAll(resp.Body)
		resp.Body.Close()
	}
	if err == nil && resp.StatusCode == 200 {
		t.Error("a long body went through")
	}
	if r := w.records(1)[0]; r.Refusal == nil || r.Refusal.Rule != egress.RuleLimit {
		t.Errorf("record %+v", r)
	}
}

func TestProxy_limits_bytes_of_answers(t *testing.T) {
	w := open(t, egress.ProxyConfig{Limits: egress.Limits{BytesDown: 20 << 10}}, []string{"api.example:HTTP_"},
		http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write(make([]byte, 1<<20)) }))
	resp, err := w.client(nil).Get("http://api.example:" + w.http + "/") //nolint:noctx // of the client
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err == nil || len(got) > 20<<10 {
		t.Errorf("%d bytes arrived (%v), want at most 20 KiB and an error", len(got), err)
	}
	if r := w.records(1)[0]; r.Refusal == nil || r.Refusal.Rule != egress.RuleLimit {
		t.Errorf("record %+v", r)
	}
}

func TestProxy_limits_requests(t *testing.T) {
	w := open(t, egress.ProxyConfig{Limits: egress.Limits{Requests: 2}}, []string{"api.example:HTTP_"}, nil)
	c := w.client(nil)
	for i, want := range []int{200, 200, 429, 429} {
		resp, body, err := get(t, c, "http://api.example:"+w.http+"/")
		if err != nil || resp.StatusCode != want {
			t.Errorf("request %d: %v, %q, want %d", i, err, body, want)
		}
	}
	if n := len(w.records(2)); n != 2 {
		t.Errorf("%d records, want 2", n)
	}
}

func TestProxy_limits_connections(t *testing.T) {
	p := egress.NewProxy(egress.ProxyConfig{Limits: egress.Limits{Conns: 1}})
	a, b := net.Pipe()
	defer b.Close()
	done := make(chan error, 1)
	go func() { done <- p.ServeConn(t.Context(), a) }()
	if _, err := b.Write([]byte("G")); err != nil { // it is being served now
		t.Fatal(err)
	}
	c, d := net.Pipe()
	defer d.Close()
	if err := p.ServeConn(t.Context(), c); haft.CodeOf(err) != haft.CodeRateLimited {
		t.Errorf("one too many: %v", err)
	}
	if _, err := d.Read(make([]byte, 1)); err == nil {
		t.Error("it was not closed")
	}
	b.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestProxy_gives_up_on_those_who_rest(t *testing.T) {
	w := open(t, egress.ProxyConfig{Limits: egress.Limits{Idle: 50 * time.Millisecond}},
		[]string{"tcp://api.example:HTTPS"}, nil)
	for name, first := range map[string]string{
		"silent": "", "half a head": "GET http://api.example/ HT",
		"a tunnel": "CONNECT api.example:HTTPS HTTP/1.1\r\nHost: api.example:HTTPS\r\n\r\n", "half a greeting": "\x05",
	} {
		c, err := net.Dial("tcp", w.addr)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, w.ports(first))
		_ = c.SetDeadline(time.Now().Add(3 * time.Minute))
		if _, err := io.ReadAll(c); err != nil {
			t.Errorf("%s: %v, want the end", name, err)
		}
		c.Close()
	}
}

func TestProxy_ends_with_its_context(t *testing.T) {
	started := make(chan struct{})
	gone := make(chan struct{})
	w := open(t, egress.ProxyConfig{}, []string{"api.example:HTTP_"},
		http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			close(started)
			<-r.Context().Done()
			close(gone)
		}))
	a, b := net.Pipe()
	defer b.Close()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.proxy.ServeConn(ctx, a) }()
	if _, err := fmt.Fprintf(b, "GET http://api.example:%s/ HTTP/1.1\r\nHost: api.example:%s\r\n\r\n", w.http,
		w.http); err != nil {
		t.Fatal(err)
	}
	<-started
	cancel()
	<-done
	<-gone
}

func TestProxy_stops_a_request_whose_program_is_gone(t *testing.T) {
	started := make(chan struct{})
	gone := make(chan struct{})
	w := open(t, egress.ProxyConfig{}, []string{"api.example:HTTP_"},
		http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			close(started)
			<-r.Context().Done()
			close(gone)
		}))
	c, err := net.Dial("tcp", w.addr)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(c, "GET http://api.example:%s/ HTTP/1.1\r\nHost: api.example:%s\r\n\r\n", w.http, w.http)
	<-started
	c.Close()
	<-gone
}

func TestProxy_hammer(t *testing.T) {
	w := open(t, egress.ProxyConfig{Limits: egress.Limits{Conns: 8}},
		[]string{"api.example:HTTP_", "https://api.example:HTTPS"}, nil)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			c := w.client(w.roots)
			defer c.CloseIdleConnections()
			for j := range 10 {
				u := "http://api.example:" + w.http
				if (i+j)%2 == 0 {
					u = "https://api.example:" + w.https
				}
				resp, err := c.Post(u+"/x", "text/plain", strings.NewReader(strings.Repeat("x", j*1000)))
				if err != nil {
					t.Error(err)
					return
				}
				b, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || len(b) < j*1000 {
					t.Errorf("%d bytes, %v", len(b), err)
				}
				c.CloseIdleConnections() // so that others get a turn
			}
		})
	}
	wg.Wait()
}
