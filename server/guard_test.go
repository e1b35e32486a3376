package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"haft"
	"haft/executor"
	"haft/server"
)

func TestGuard_refuses_names_and_pages_that_are_not_ours(t *testing.T) {
	loopback := setup(t, nil)
	named := setup(t, func(c *server.Config) {
		c.Hosts, c.Origins = []string{"haft.example.com"}, []string{"https://console.example.com"}
	})
	own := strings.TrimPrefix(loopback.http.URL, "http://")
	for _, c := range []struct {
		name         string
		w            *world
		host, origin string
		want         int
	}{
		{"loopback address", loopback, own, "", 200},
		{"localhost", loopback, "localhost:7717", "", 200},
		{"ipv6 loopback", loopback, "[::1]:7717", "", 200},
		{"rebound name", loopback, "attacker.example:7717", "", 421},
		{"name that ends like ours", loopback, "notlocalhost", "", 421},
		{"public address", loopback, "192.0.2.1", "", 421},
		{"own page", loopback, own, "http://" + own, 200},
		{"page of another port", loopback, own, "http://127.0.0.1:1", 403},
		{"page of a stranger", loopback, own, "https://attacker.example", 403},
		{"sandboxed page", loopback, own, "null", 403},
		{"file of this machine", loopback, own, "file://" + own, 403},
		{"configured name", named, "HAFT.example.com:443", "", 200},
		{"loopback where names are configured", named, "127.0.0.1", "", 421},
		{"configured page", named, "haft.example.com", "https://console.example.com", 200},
		{"configured page without tls", named, "haft.example.com", "http://console.example.com", 403},
	} {
		t.Run(c.name, func(t *testing.T) {
			headers := []string{"Host", c.host}
			if c.origin != "" {
				headers = append(headers, "Origin", c.origin)
			}
			for _, path := range []string{"/v1/tools", "/healthz"} {
				a := c.w.ask(user, "GET", path, "", headers...)
				if a.status != c.want {
					t.Errorf("%s: %d %s, want %d", path, a.status, a.body, c.want)
				}
				if a.header.Get("Access-Control-Allow-Origin") != "" {
					t.Error("there is CORS")
				}
			}
		})
	}
}

func TestNew_refuses_settings_that_mean_nothing(t *testing.T) {
	w := setup(t, nil)
	for _, cfg := range []server.Config{{Hosts: []string{"*"}}, {Hosts: []string{"a/b"}}, {Origins: []string{"*"}},
		{Origins: []string{"https://a/b"}}} {
		if _, err := server.New(w.engine, people{}, cfg); haft.CodeOf(err) != haft.CodeInvalid {
			t.Errorf("New(%v) = %v", cfg.Hosts, err)
		}
	}
	if _, err := server.New(nil, people{}, server.Config{}); err == nil {
		t.Error("a server without a service")
	}
}

func TestBody_bounds(t *testing.T) {
	w := setup(t, func(c *server.Config) { c.MaxBody, c.ReadTimeout = 1000, 300*time.Millisecond })
	w.tool("f", "")
	big := `{"tool":"f","args":{"path":"` + strings.Repeat("x", 2000) + `"}}`
	if p := problemOf(t, w.must(413, user, "POST", "/v1/calls", big)); p.Code != haft.CodeInvalid {
		t.Errorf("got %+v", p)
	}
	t.Run("without a length", func(t *testing.T) {
		r, err := http.NewRequestWithContext(t.Context(), "POST", w.http.URL+"/v1/calls",
			io.MultiReader(strings.NewReader(big)))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+user)
		res, err := w.http.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != 413 {
			t.Errorf("got %d", res.StatusCode)
		}
	})
	t.Run("slow", func(t *testing.T) {
		conn, err := net.Dial("tcp", w.http.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "POST /v1/calls HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+
			"%s\r\nContent-Length: 500\r\n\r\n{\"tool\"", user)
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != 408 {
			t.Errorf("got %d", res.StatusCode)
		}
	})
	t.Run("of a stranger is not read", func(t *testing.T) {
		conn, err := net.Dial("tcp", w.http.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprint(conn, "POST /v1/calls HTTP/1.1\r\nHost: localhost\r\nContent-Length: 500\r\n\r\n")
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != 401 {
			t.Errorf("got %d", res.StatusCode)
		}
	})
	t.Run("deep", func(t *testing.T) {
		w.must(200, user, "POST", "/v1/calls", `{"tool":"f","args":`+strings.Repeat("[", 199)+strings.Repeat("]", 199)+
			`}`)
		p := problemOf(t, w.must(422, user, "POST", "/v1/calls",
			`{"tool":"f","args":`+strings.Repeat("[", 400)+strings.Repeat("]", 400)+`}`))
		if len(p.Misfits) != 1 || !strings.HasPrefix(p.Misfits[0].Pointer, "/args/0/0/") ||
			len(p.Misfits[0].Pointer) > 200 {
			t.Errorf("got %+v", p.Misfits)
		}
	})
}

func TestBody_that_is_not_what_was_signed_changes_nothing(t *testing.T) {
	w := setup(t, nil)
	w.must(401, "acme/root/admin//signed", "POST", "/v1/tools", draft("f", ""))
	w.must(404, admin, "GET", "/v1/tools/f", "")
}

// sendRaw sends text as it is, and returns the status of what is answered.
func sendRaw(address, text string) (status int, err error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, text); err != nil {
		return 0, err
	}
	if err := conn.SetReadDeadline(time.Now().Add(3 * time.Minute)); err != nil {
		return 0, err
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, err
	}
	return res.StatusCode, res.Body.Close()
}

func TestServe_bounds_headers_and_connections_and_drains(t *testing.T) {
	w := setup(t, nil)
	w.tool("f", "")
	s, err := server.New(w.engine, people{}, server.Config{MaxHeader: 4096, ReadTimeout: 2 * time.Second,
		Connections: 2})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	send := func(text string) (int, error) { return sendRaw(ln.Addr().String(), text) }
	if status, err := send("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 20_000) +
		"\r\n\r\n"); err != nil || status != 431 {
		t.Errorf("headers that are too large: %d, %v", status, err)
	}
	// Slow loris: the connection is closed without an answer, or with 408.
	if status, err := send("GET /healthz HTTP/1.1\r\nHost: loc"); err == nil && status == 200 {
		t.Errorf("half a header is answered with %d", status)
	}
	// Two that say nothing take all places, and give them back.
	for range 2 {
		idle, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer idle.Close()
	}
	if status, err := send("GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"); err != nil ||
		status != 200 {
		t.Errorf("behind two silent connections: %d, %v", status, err)
	}

	began, release := make(chan struct{}), make(chan struct{})
	w.set(func(ctx context.Context, req executor.Request) (*haft.Result, error) {
		close(began)
		<-release
		return echo(ctx, req)
	})
	answered := make(chan int, 1)
	call := func() {
		body := `{"tool":"f"}`
		status, err := send(fmt.Sprintf("POST /v1/calls HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+
			"%s\r\nContent-Length: %d\r\n\r\n%s", user, len(body), body))
		if err != nil {
			status = 0
		}
		answered <- status
	}
	// The connection of the last request may not be closed yet: until it is, the source has all that it may have.
	for runs := false; !runs; {
		go call()
		select {
		case <-began:
			runs = true
		case status := <-answered:
			if status != http.StatusServiceUnavailable {
				t.Fatalf("the call was answered with %d before it ran", status)
			}
		}
	}
	done := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		done <- s.Shutdown(ctx)
	}()
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
	close(release)
	if err := <-done; err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	if got := <-answered; got != 200 {
		t.Errorf("a request that was being answered got %d", got)
	}
}

// broken is a service that panics, or fails in a way that nobody may be told.
type broken struct {
	haft.Service
	panics bool
}

func (b broken) Tool(context.Context, haft.Principal, string) (*haft.Tool, error) {
	if b.panics {
		panic(errBroken)
	}
	return nil, errBroken
}

func TestFaults_are_logged_and_not_shown(t *testing.T) {
	for _, panics := range []bool{false, true} {
		log := &buffer{}
		s, err := server.New(broken{nil, panics}, people{}, server.Config{Logger: logger(log)})
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest("GET", "http://localhost/v1/tools/f", nil)
		r.Header.Set("Authorization", "Bearer "+user)
		rec := httptest.NewRecorder()
		func() {
			defer func() {
				if crash := recover(); panics != (crash == http.ErrAbortHandler) { //nolint:errorlint // it is that value
					t.Errorf("recovered %v", crash)
				}
			}()
			s.Handler().ServeHTTP(rec, r)
		}()
		if p := problemOf(t, answer{rec.Code, rec.Header(), rec.Body.Bytes()}); p.Code != haft.CodeInternal ||
			p.Detail != "internal error" {
			t.Errorf("told %+v", p)
		}
		if !strings.Contains(log.String(), canary) ||
			!strings.Contains(log.String(), rec.Header().Get("X-Request-Id")) {
			t.Errorf("the log has not why: %s", log)
		}
	}
}

func TestProbes(t *testing.T) {
	var fail error
	tries := 0
	w := setup(t, func(c *server.Config) {
		c.Health = health(func() error { tries++; return fail })
	})
	w.must(200, nobody, "GET", "/healthz", "")
	for range 5 {
		w.must(200, nobody, "GET", "/readyz", "")
	}
	if tries != 1 {
		t.Errorf("the canary was called %d times within a second", tries)
	}
	w.must(200, nobody, "GET", "/metrics", "")
	if a := w.must(401, nobody, "GET", "/metrics", "", "X-Forwarded-For", "192.0.2.1"); strings.Contains(string(a.body),
		"haft_calls") {
		t.Error("measures for anybody")
	}
	w.must(403, admin, "GET", "/metrics", "", "X-Forwarded-For", "192.0.2.1")
	w.must(200, operator, "GET", "/metrics", "", "X-Forwarded-For", "192.0.2.1")
	w.server.Leave()
	w.must(503, nobody, "GET", "/readyz", "")
	w.must(200, nobody, "GET", "/healthz", "")
}

func TestReadyz_says_that_the_canary_fails(t *testing.T) {
	w := setup(t, func(c *server.Config) { c.Health = health(func() error { return errBroken }) })
	if a := w.must(503, nobody, "GET", "/readyz", ""); strings.Contains(string(a.body), canary) {
		t.Errorf("told why: %s", a.body)
	}
}

func TestAddresses_that_are_not_there(t *testing.T) {
	w := setup(t, nil)
	for _, path := range []string{"/", "/v2/tools", "/v1/tools/f/../../..", "/v1/tools/f/nothing",
		"/v1/tools/%2e%2e/f/g"} {
		if a := w.ask(user, "GET", path, ""); a.status != 404 || problemOf(t, a).Code != haft.CodeNotFound {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	a := w.must(405, user, "PUT", "/v1/tools", "{}")
	if a.header.Get("Allow") != "GET, POST" {
		t.Errorf("allowed: %q", a.header.Get("Allow"))
	}
}

// from remembers where requests came from.
type from struct {
	people
	seen *netip.Addr
}

func (f from) Authenticate(r *http.Request, source netip.Addr) (server.Identity, error) {
	*f.seen = source
	return f.people.Authenticate(r, source)
}

func TestSource_believes_only_proxies_that_are_named(t *testing.T) {
	w := setup(t, nil)
	for _, c := range []struct{ name, remote, header, want string }{
		{"direct", "192.0.2.9:1", "", "192.0.2.9"},
		{"a stranger says otherwise", "192.0.2.9:1", "198.51.100.1", "192.0.2.9"},
		{"a proxy says", "10.0.0.1:1", "198.51.100.1", "198.51.100.1"},
		{"a stranger says so to a proxy", "10.0.0.1:1", "127.0.0.1, 198.51.100.1", "198.51.100.1"},
		{"two proxies", "10.0.0.1:1", "198.51.100.1, 10.0.0.2", "198.51.100.1"},
		{"nonsense", "10.0.0.1:1", "x, y", "10.0.0.1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var seen netip.Addr
			s, err := server.New(w.engine, from{people{}, &seen},
				server.Config{Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
			if err != nil {
				t.Fatal(err)
			}
			r := httptest.NewRequest("GET", "http://localhost/v1/tools", nil)
			r.RemoteAddr = c.remote
			if c.header != "" {
				r.Header.Set("X-Forwarded-For", c.header)
			}
			s.Handler().ServeHTTP(httptest.NewRecorder(), r)
			if seen.String() != c.want {
				t.Errorf("from %s, want %s", seen, c.want)
			}
		})
	}
}

func TestCodes_are_all_mapped(t *testing.T) {
	seen := map[int]haft.Code{}
	for _, code := range haft.Codes() {
		s, err := server.New(coded{code: code}, people{}, server.Config{})
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest("GET", "http://localhost/v1/tools/f", nil)
		r.Header.Set("Authorization", "Bearer "+user)
		rec := httptest.NewRecorder()
		s.Handler().ServeHTTP(rec, r)
		p := problemOf(t, answer{rec.Code, rec.Header(), rec.Body.Bytes()})
		if p.Code != code || p.Detail != "words" || len(p.Misfits) != 1 || rec.Header().Get("Retry-After") != "2" {
			t.Errorf("%s becomes %+v", code, p)
		}
		if seen[rec.Code] != "" {
			t.Errorf("%s and %s are both %d", code, seen[rec.Code], rec.Code)
		}
		seen[rec.Code] = code
	}
}

// coded is a service that fails with a code.
type coded struct {
	haft.Service
	code haft.Code
}

func (c coded) Tool(context.Context, haft.Principal, string) (*haft.Tool, error) {
	return nil, &haft.Error{Code: c.code, Message: "words", Misfits: []haft.Misfit{{Pointer: "/a", Message: "b"}},
		RetryAfter: haft.Millis(1500 * time.Millisecond), Err: errBroken}
}

func TestWhatIsNotGivenIsNotThere(t *testing.T) {
	w := setup(t, func(c *server.Config) { *c = server.Config{Logger: c.Logger} })
	for _, r := range []struct{ method, path, body string }{
		{"GET", "/v1/audit", ""}, {"GET", "/v1/policies/organisation", ""}, {"POST", "/v1/policies/explain", `{"tool":"f"}`},
		{"GET", "/metrics", ""},
	} {
		if a := w.ask(operator, r.method, r.path, r.body); a.status != 404 {
			t.Errorf("%s %s: %d %s", r.method, r.path, a.status, a.body)
		}
	}
	w.must(200, nobody, "GET", "/readyz", "")
}

func TestMounts_stand_behind_the_guard(t *testing.T) {
	w := setup(t, func(c *server.Config) {
		c.Mounts = map[string]http.Handler{"/other/": http.HandlerFunc(
			func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode("other") })}
	})
	w.must(200, nobody, "GET", "/other/x", "")
	w.must(421, nobody, "GET", "/other/x", "", "Host", "attacker.example")
}

// sandboxHosts are hosts of another handler.
type sandboxHosts struct{ http.HandlerFunc }

// Hosts implements [server.HostHandler].
func (sandboxHosts) Hosts(r *http.Request) bool {
	return strings.HasSuffix(r.Host, ".sandboxes.example")
}

func TestHosts_of_another_handler_stand_behind_the_guard(t *testing.T) {
	w := setup(t, func(c *server.Config) {
		c.ByHost = sandboxHosts{func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode("other") }}
	})
	const host = "3000-i.sandboxes.example"
	if a := w.must(200, nobody, "GET", "/v1/tools", "", "Host", host); !strings.Contains(string(a.body), "other") {
		t.Errorf("the API answers: %s", a.body)
	}
	w.must(403, nobody, "GET", "/", "", "Host", host, "Origin", "https://attacker.example")
	w.must(421, nobody, "GET", "/", "", "Host", "attacker.example")
	w.must(401, nobody, "GET", "/v1/tools", "")
}

func TestServe_a_connection_that_was_idle_is_as_good_as_new(t *testing.T) {
	w := setup(t, func(c *server.Config) { c.WriteTimeout = time.Second })
	w.tool("f", "")
	conn, err := net.Dial("tcp", w.http.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	body := `{"tool":"f"}`
	for i := range 2 {
		fmt.Fprintf(conn, "POST /v1/calls HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nExpect: "+
			"100-continue\r\nContent-Length: %d\r\n\r\n", user, len(body))
		for _, want := range []int{100, 200} {
			res, err := http.ReadResponse(in, nil)
			if err != nil || res.StatusCode != want {
				t.Fatalf("request %d: %v, %v, want %d", i, res, err, want)
			}
			if want == 100 {
				io.WriteString(conn, body)
				continue
			}
			if _, err := io.Copy(io.Discard, res.Body); err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
		}
		<-time.After(1500 * time.Millisecond) // longer than an answer may take
	}
}
