package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"haft"
	"haft/server"
)

// portSessions has one session, of ann, whose ports are a server of the test.
type portSessions struct {
	embedded
	addr string
}

// embedded is a name for the interface, which has a method of its own name.
type embedded interface{ haft.Sessions }

// DialPort implements server.PortDialer.
func (s portSessions) DialPort(ctx context.Context, p haft.Principal, id string, port int) (net.Conn, error) {
	if p.Org != "acme" || p.User != "ann" || id != "s" || port != 8000 {
		return nil, &haft.Error{Code: haft.CodeNotFound, Message: "there is no such session"}
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", s.addr)
}

// ATTACKER: code in a session that serves HTTP, and a user who is not its owner.
// WEAKNESS: the page gets the owner's key, acts as a page of Haft in a browser, or steers a proxy.
// VERIFIES: no credential goes in, only harmless headers come out, and others find no session.
func TestPorts(t *testing.T) {
	hostile := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/ws" {
			c, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
			if err != nil {
				return
			}
			kind, data, err := c.Read(r.Context())
			if err == nil {
				err = c.Write(r.Context(), kind, append([]byte("echo "), data...))
			}
			if err != nil {
				t.Error(err)
			}
			_ = c.Close(websocket.StatusNormalClosure, "")
			return
		}
		w.Header().Set("Link", "</evil>; rel=preload")
		w.Header().Set("X-Request-Id", "evil")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("Trailer", "X-Accel-Expires")
		defer w.Header().Set("X-Accel-Expires", "evil")
		for _, h := range []string{"Set-Cookie", "X-Accel-Redirect", "X-Sendfile", "Clear-Site-Data",
			"Www-Authenticate", "Service-Worker-Allowed", "Access-Control-Allow-Origin", "Content-Security-Policy",
			"Strict-Transport-Security"} {
			w.Header().Set(h, "evil")
		}
		w.Header().Set("Content-Type", "text/html")
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s %s %v", r.Method, r.URL, r.Host, body, r.Header)
	}))
	defer hostile.Close()
	w := setup(t, func(c *server.Config) {
		c.Sessions = portSessions{c.Sessions, strings.TrimPrefix(hostile.URL, "http://")}
	})
	a := w.must(200, user, "POST", "/v1/sessions/s/ports/8000/a/b%2Fc?x=1", "hello", "Cookie", "c=1",
		"X-Forwarded-For", "1.2.3.4", "X-Api-Key", "k", "Proxy-Authorization", "p", "Content-Type", "text/plain")
	text := string(a.body)
	if !strings.HasPrefix(text, "POST /a/b%2Fc?x=1 localhost:8000 hello ") {
		t.Errorf("what came in: %s", text)
	}
	for _, secret := range []string{"Authorization", "Cookie", "Forwarded", "Api-Key", "Bearer"} {
		if strings.Contains(text, secret) {
			t.Errorf("%s went into the session: %s", secret, text)
		}
	}
	for name, values := range a.header {
		if values[0] == "evil" {
			t.Errorf("%s came out", name)
		}
	}
	if a.header.Get("Content-Security-Policy") != "sandbox allow-scripts allow-forms" ||
		a.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("headers: %v", a.header)
	}
	traced := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			t.Errorf("an answer %d came out with %v", code, h)
			return nil
		}})
	r, err := http.NewRequestWithContext(traced, http.MethodGet, w.http.URL+"/v1/sessions/s/ports/8000/", nil)
	check(t, err)
	r.Header.Set("Authorization", "Bearer "+user)
	res, err := w.http.Client().Do(r)
	check(t, err)
	_, err = io.Copy(io.Discard, res.Body)
	check(t, errors.Join(err, res.Body.Close()))
	if res.StatusCode != 200 || len(res.Trailer) > 0 || res.Header.Get("X-Request-Id") == "" {
		t.Errorf("status %d, headers %v, trailers %v", res.StatusCode, res.Header, res.Trailer)
	}
	for _, c := range []struct {
		status    int
		who, path string
	}{
		{404, other, "/v1/sessions/s/ports/8000/"}, {404, user, "/v1/sessions/s/ports/8001/"},
		{422, user, "/v1/sessions/s/ports/0/"}, {422, user, "/v1/sessions/s/ports/70000/"},
		{422, user, "/v1/sessions/s/ports/x/"}, {401, nobody, "/v1/sessions/s/ports/8000/"},
	} {
		w.must(c.status, c.who, "GET", c.path, "")
	}
	ctx := t.Context()
	conn, _, err := websocket.Dial(ctx, w.http.URL+"/v1/sessions/s/ports/8000/ws", &websocket.DialOptions{ //nolint:bodyclose // the library's
		HTTPHeader: http.Header{"Authorization": {"Bearer " + user}}, HTTPClient: w.http.Client()})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow() //nolint:errcheck // a test leaves
	check(t, conn.Write(ctx, websocket.MessageText, []byte("hi")))
	if _, data, err := conn.Read(ctx); err != nil || string(data) != "echo hi" {
		t.Errorf("over a WebSocket: %q, %v", data, err)
	}
}
