package session_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"haft"
	"haft/executor"
	"haft/internal/session"
	"haft/internal/skiptest"
	"haft/sandbox"
)

// serve starts python -m http.server in a session, and returns when it answers. It is ended with the session.
func serve(t *testing.T, s *session.Session, argv ...string) {
	t.Helper()
	p, err := s.Start(t.Context(), session.Command{Argv: argv})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = p.Wait(context.WithoutCancel(t.Context())) // it ends with the session
	}()
	t.Cleanup(func() { s.Close("the test is over"); <-done })
}

// get asks a port of a session for a path until something listens there.
func get(t *testing.T, s *session.Session, port int, path string) string {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			for deadline := time.Now().Add(time.Minute); ; {
				c, err := s.DialPort(context.WithoutCancel(ctx), port)
				if haft.CodeOf(err) != haft.CodeNotFound || time.Now().After(deadline) {
					return c, err
				}
				select {
				case <-time.After(20 * time.Millisecond):
				case <-s.Ended():
					return nil, s.Why()
				}
			}
		}}}
	res, err := client.Get("http://localhost" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// withPorts returns a session whose code may listen on TCP ports, which needs a bound on their memory.
func withPorts(t *testing.T, m *session.Manager, user string) *session.Session {
	t.Helper()
	s := open(t, m, session.Options{Request: executor.Request{Principal: haft.Principal{Org: "acme", User: user}}})
	if text, _ := code(t, s, "python", "import socket\ntry: kind = socket.socket().close()\n"+
		"except OSError as e: kind = e\nstr(kind)"); text != "None" {
		t.Skip("the memory of sockets is not bounded here: " + text)
	}
	return s
}

func TestSession_tcp_ports(t *testing.T) {
	m := setup(t, session.Config{})
	s := withPorts(t, m, "alice")
	code(t, s, "bash", "echo hello > page.txt")
	serve(t, s, "python3", "-m", "http.server", "8000")
	if body := get(t, s, 8000, "/page.txt"); body != "hello\n" {
		t.Errorf("port 8000 says %q", body)
	}
	if text, _ := code(t, s, "python", "import urllib.request\n"+
		"urllib.request.urlopen('http://localhost:8000/page.txt').read().decode()"); !strings.Contains(text, "hello") {
		t.Errorf("code of the session gets %s", text)
	}
	if _, err := s.DialPort(t.Context(), sandbox.EgressPort); haft.CodeOf(err) != haft.CodeInvalid {
		t.Errorf("the port of egress: %v", err)
	}
}

// A server of Node.js, which prefers IPv6, is reached too.
func TestSession_tcp_ports_of_node(t *testing.T) {
	s := withPorts(t, setup(t, session.Config{}), "alice")
	if text, _ := code(t, s, "bash", "command -v node || true"); strings.TrimSpace(text) == "" {
		_, out := runCode(t, s, "bash", "command -v node || true")
		if strings.TrimSpace(out) == "" {
			skiptest.Lacking(t, "node", "there is no Node.js in the session")
		}
	}
	serve(t, s, "node", "-e", "require('http').createServer((q, r) => r.end('node')).listen(3000)")
	if body := get(t, s, 3000, "/"); body != "node" {
		t.Errorf("port 3000 says %q", body)
	}
}

// Ports of a session are its own: no other session, and nobody on the host, comes to them by the network,
// and its code does not come out.
func TestSession_tcp_ports_are_its_own(t *testing.T) {
	m := setup(t, session.Config{})
	a, b := withPorts(t, m, "alice"), withPorts(t, m, "bob")
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	met := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			err = errors.Join(errors.New("something came from a session"), c.Close())
		}
		met <- err
	}()
	port := l.Addr().(*net.TCPAddr).Port
	host := "127.0.0.1"
	if c, err := net.Dial("udp4", "192.0.2.1:9"); err == nil { // which sends nothing
		host = c.LocalAddr().(*net.UDPAddr).IP.String()
		_ = c.Close()
	}
	if text, _ := code(t, a, "python", fmt.Sprintf(`
import socket
def reach(host, port, kind=socket.SOCK_STREAM, family=socket.AF_INET):
    try:
        s = socket.socket(family, kind); s.settimeout(5); s.connect((host, port)); return 'reached'
    except OSError as e: return type(e).__name__
mine = socket.socket(); mine.bind(('0.0.0.0', 8765)); mine.listen()
[reach(h, p) for h, p in [('127.0.0.1', %[1]d), (%[2]q, %[1]d), ('1.1.1.1', 443), ('169.254.169.254', 80), ('0.0.0.0', %[1]d)]
 ] + [reach('1.1.1.1', 53, socket.SOCK_DGRAM), reach('::1', %[1]d, family=socket.AF_INET6), reach('127.0.0.1', 8765)]`,
		port, host)); strings.Count(text, "reached") != 1 || !strings.HasSuffix(text, "'reached']") {
		t.Errorf("code of a session reaches %s", text)
	}
	if text, _ := code(t, b, "python", "import socket\n"+
		"try: socket.create_connection(('127.0.0.1', 8765), 5); r = 'reached'\n"+
		"except OSError as e: r = type(e).__name__\nr"); !strings.Contains(text, "ConnectionRefused") {
		t.Errorf("another session: %s", text)
	}
	if _, err := b.DialPort(t.Context(), 8765); haft.CodeOf(err) != haft.CodeNotFound {
		t.Errorf("the port of another session: %v", err)
	}
	select {
	case err := <-met:
		t.Error(err)
	default:
	}
}
