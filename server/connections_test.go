package server_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"haft"
	"haft/server"
)

// bounded is a server whose bounds on connections are small, on all loopback addresses.
func bounded(t *testing.T, change func(*server.Config)) (w *world, address string) {
	t.Helper()
	w = setup(t, func(c *server.Config) {
		c.Connections, c.PerSource, c.Silent, c.Reserve, c.Streams, c.OrgStreams = 40, 20, 8, 2, 3, 5
		if change != nil {
			change(c)
		}
	})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- w.server.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		check(t, w.server.Shutdown(ctx))
		check(t, <-served)
	})
	return w, ln.Addr().String()
}

// from dials from a loopback address.
func dialFrom(t *testing.T, source, address string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}, Timeout: 10 * time.Second}
	conn, err := d.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// asked sends a request over a connection and returns the status and headers of the
// answer, or 0 if there was none.
func asked(t *testing.T, conn net.Conn, who, path, more string) (int, http.Header) {
	t.Helper()
	_ = conn.SetDeadline(time.Now().Add(3 * time.Minute))
	if who != "" {
		more = "Authorization: Bearer " + who + "\r\n" + more
	}
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n", path, more)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, nil
	}
	if res.Close {
		res.Header.Set("Connection", "close") // which the reader of answers took out
	}
	return res.StatusCode, res.Header
}

const operatorWho = operator

func TestConnections_silent_ones_block_nobody(t *testing.T) {
	for name, source := range map[string]func(i int) string{
		"one address":    func(int) string { return "127.0.0.1" },
		"many addresses": func(i int) string { return fmt.Sprintf("127.0.%d.%d", 1+i/200, 1+i%200) },
	} {
		for kind, say := range map[string]string{"nothing": "", "half a request": "GET / HTTP/1.1\r\nHost: local"} {
			t.Run(name+" "+kind, func(t *testing.T) {
				_, address := bounded(t, nil)
				for i := range 200 {
					conn := dialFrom(t, source(i), address)
					if _, err := io.WriteString(conn, say); err != nil {
						t.Logf("a stranger was cut: %v", err)
					}
				}
				// Whoever speaks is served: also from the address of the attacker, and also
				// without any credential.
				for _, path := range []string{"/healthz", "/readyz", "/v1/whoami"} {
					if status, _ := asked(t, dialFrom(t, "127.0.0.1", address), operatorWho, path, ""); status != 200 {
						t.Errorf("%s: %d", path, status)
					}
				}
				if status, _ := asked(t, dialFrom(t, "127.9.9.9", address), "acme/ann/user", "/v1/whoami",
					""); status != 200 {
					t.Errorf("another address: %d", status)
				}
			})
		}
	}
}

// TestConnections_in_use_leave_a_reserve: tenants have every connection in use.
func TestConnections_in_use_leave_a_reserve(t *testing.T) {
	_, address := bounded(t, func(c *server.Config) {
		c.Streams, c.OrgStreams = 1000, 1000
		c.Mounts = map[string]http.Handler{"/other": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if server.Busy(r) != nil {
				w.WriteHeader(http.StatusTeapot)
			}
		})}
	})
	if status, _ := asked(t, dialFrom(t, "127.0.3.1", address), "token", "/other", ""); status != 200 {
		t.Errorf("another right, before: %d", status)
	}
	for i := range 40 {
		conn := dialFrom(t, fmt.Sprintf("127.0.1.%d", 1+i), address)
		if status, _ := asked(t, conn, "acme/ann/user", "/v1/events", ""); status != 200 {
			t.Fatalf("stream %d: %d", i, status)
		}
	}
	for range 5 { // strangers on the reserve, who say nothing
		dialFrom(t, "127.0.2.1", address)
	}
	// A place on the reserve is free a moment after the one before has its answer.
	ask := func(who, path string) (status int, h http.Header) {
		for deadline := time.Now().Add(time.Minute); status == 0 && time.Now().Before(deadline); {
			status, h = asked(t, dialFrom(t, "127.0.3.1", address), who, path, "")
		}
		return status, h
	}
	for who, want := range map[string]int{operatorWho: 200, "acme/ann/user": 503, "acme/root/admin": 503,
		"nonsense": 401} {
		status, h := ask(who, "/v1/whoami")
		if status != want || want == 503 && h.Get("Retry-After") == "" || h.Get("Connection") != "close" {
			t.Errorf("%s: %d %v, want %d", who, status, h, want)
		}
	}
	if status, h := ask("", "/openapi.json"); status != 503 || h.Get("Retry-After") == "" {
		t.Errorf("a stranger: %d %v", status, h)
	}
	if status, _ := ask("token", "/other"); status != http.StatusTeapot {
		t.Errorf("another right: %d", status)
	}
	if status, _ := ask("", "/healthz"); status != 200 {
		t.Errorf("a probe: %d", status)
	}
}

// TestConnections_per_source: one address has its share, and another its own.
func TestConnections_per_source(t *testing.T) {
	_, address := bounded(t, func(c *server.Config) { c.Streams, c.OrgStreams = 1000, 1000 })
	for i := range 20 {
		if status, _ := asked(t, dialFrom(t, "127.0.1.1", address), "acme/ann/user", "/v1/events", ""); status != 200 {
			t.Fatalf("stream %d: %d", i, status)
		}
	}
	if status, _ := asked(t, dialFrom(t, "127.0.1.1", address), "acme/ann/user", "/v1/whoami", ""); status != 503 {
		t.Errorf("one more of the address: %d", status)
	}
	if status, _ := asked(t, dialFrom(t, "127.0.1.2", address), "acme/ann/user", "/v1/whoami", ""); status != 200 {
		t.Errorf("another address: %d", status)
	}
}

// TestConnections_of_a_proxy: its connections are those of many, and count by what it
// says of them.
func TestConnections_of_a_proxy(t *testing.T) {
	_, address := bounded(t, func(c *server.Config) {
		c.PerSource, c.Streams, c.OrgStreams = 3, 1000, 1000
		c.Proxies = []netip.Prefix{netip.MustParsePrefix("127.0.1.1/32")}
	})
	ask := func(source, path string) int {
		status, _ := asked(t, dialFrom(t, "127.0.1.1", address), "acme/ann/user", path,
			"X-Forwarded-For: "+source+"\r\n")
		return status
	}
	for i := range 3 {
		if status := ask("198.51.100.7", "/v1/events"); status != 200 {
			t.Fatalf("stream %d: %d", i, status)
		}
		if status := ask(fmt.Sprintf("2001:db8::%d", i), "/v1/events"); status != 200 {
			t.Fatalf("stream %d of one network: %d", i, status)
		}
	}
	for source, want := range map[string]int{"198.51.100.7": 503, "2001:db8::99": 503, "198.51.100.8": 200,
		"2001:db8:0:1::1": 200} {
		if status := ask(source, "/v1/whoami"); status != want {
			t.Errorf("%s: %d, want %d", source, status, want)
		}
	}
}

func TestStreams_are_bounded_by_credential_and_organisation(t *testing.T) {
	_, address := bounded(t, nil)
	open := func(who string) (int, net.Conn) {
		conn := dialFrom(t, "127.0.0.1", address)
		status, _ := asked(t, conn, who, "/v1/events", "")
		return status, conn
	}
	var last net.Conn
	for i := range 3 {
		var status int
		if status, last = open("acme/ann/user"); status != 200 {
			t.Fatalf("stream %d: %d", i, status)
		}
	}
	if status, _ := open("acme/ann/user"); status != 429 {
		t.Errorf("one more of the credential: %d", status)
	}
	for i := range 2 {
		if status, _ := open("acme/bob/user"); status != 200 {
			t.Fatalf("stream %d of another: %d", i, status)
		}
	}
	if status, _ := open("acme/eve/user"); status != 429 {
		t.Errorf("one more of the organisation: %d", status)
	}
	if status, _ := open("other/ann/user"); status != 200 {
		t.Errorf("another organisation: %d", status)
	}
	check(t, last.Close())
	for end := time.Now().Add(time.Minute); ; {
		if status, _ := open("acme/eve/user"); status == 200 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("a stream that has ended still counts")
		}
		<-time.After(10 * time.Millisecond)
	}
}

// TestConnections_many_at_once: a client may open many connections in one moment.
func TestConnections_many_at_once(t *testing.T) {
	_, address := bounded(t, nil)
	conns := make([]net.Conn, 20)
	for i := range conns {
		conns[i] = dialFrom(t, "127.0.0.1", address)
	}
	for i, conn := range conns {
		if status, _ := asked(t, conn, "acme/ann/user", "/v1/whoami", ""); status != 200 {
			t.Errorf("connection %d: %d", i, status)
		}
	}
}

// rechecking is an authenticator whose credentials can be withdrawn.
type rechecking struct {
	people
	gone map[string]string
}

// Recheck implements [server.Rechecker].
func (r rechecking) Recheck(_ context.Context, who server.Identity) (server.Identity, error) {
	if why := r.gone[who.Principal.User]; why != "" {
		return who, &haft.Error{Code: haft.CodeUnauthenticated, Message: why}
	}
	return who, nil
}

// pipes is a listener whose connections have no buffer: who does not read blocks whoever
// writes.
type pipes chan net.Conn

// Accept implements [net.Listener].
func (p pipes) Accept() (net.Conn, error) {
	conn, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}

// Close implements [net.Listener].
func (p pipes) Close() error { close(p); return nil }

// Addr implements [net.Listener].
func (p pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// TestChanged_cuts_a_reader_that_does_not_read: its stream ends though nothing can be
// written to it, long before the time that a write may take.
func TestChanged_cuts_a_reader_that_does_not_read(t *testing.T) {
	auth := rechecking{gone: map[string]string{}}
	w := setup(t, nil)
	s, err := server.New(w.engine, auth, server.Config{Events: w.engine, Heartbeat: time.Millisecond,
		WriteTimeout: time.Hour})
	check(t, err)
	ln := make(pipes, 1)
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	client, conn := net.Pipe()
	defer client.Close()
	ln <- conn
	if status, _ := asked(t, client, "acme/mallory/user", "/v1/events", ""); status != 200 {
		t.Fatal(status)
	}
	auth.gone["mallory"] = "the API key was removed"
	s.Changed("acme")
	// Nobody reads what the client sends either: this ends when the connection does.
	_ = client.SetWriteDeadline(time.Now().Add(3 * time.Minute))
	if _, err := client.Write(make([]byte, 1<<10)); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("the connection is still there: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	check(t, s.Shutdown(ctx))
	check(t, <-served)
}
