package client_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"haft"
	"haft/client"
	"haft/internal/auth"
	"haft/internal/auth/authtest"
)

// A cutter is a way to a server that is cut now and then.
type cutter struct {
	to    string
	cuts  atomic.Int64
	mu    sync.Mutex
	conns []net.Conn
	wg    sync.WaitGroup
}

// start listens until the test ends.
func (c *cutter) start(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.wg.Go(func() {
		for {
			in, err := ln.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", c.to)
			if err != nil {
				in.Close()
				continue
			}
			c.mu.Lock()
			c.conns = append(c.conns, in, out)
			c.mu.Unlock()
			c.wg.Go(func() { _, _ = io.Copy(out, in); out.Close() })
			c.wg.Go(func() { _, _ = io.Copy(in, out); in.Close() })
		}
	})
	t.Cleanup(func() { ln.Close(); c.all(); c.wg.Wait() })
	return "http://" + ln.Addr().String()
}

// all cuts what there is.
func (c *cutter) all() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		conn.Close()
		c.cuts.Add(1)
	}
	c.conns = nil
}

// answering starts a server that answers by a function.
func answering(t *testing.T, f http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return s.URL
}

// quick retries without waiting.
var quick = haft.Backoff{Strategy: haft.Constant, Tries: 3, Initial: haft.Millis(time.Millisecond)}

func TestNew_refuses_what_would_be_a_mistake(t *testing.T) {
	const key = "haft_aaaaaaaaaaaa_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbntejriy"
	for name, cfg := range map[string]client.Config{
		"nothing": {}, "no scheme": {URL: "haft.example.com"}, "another scheme": {URL: "ftp://haft.example.com"},
		"a password": {URL: "https://ann:pw@haft.example.com"}, "a query": {URL: "https://haft.example.com/?x=1"},
		"a key with a line":              {URL: "https://haft.example.com", Key: "a\r\nX: y"},
		"a token that others could read": {URL: "http://haft.example.com", Key: "eyJ.token"},
		"a token that should sign":       {URL: "https://haft.example.com", Key: "eyJ.token", Sign: true},
		"too many tries":                 {URL: "https://haft.example.com", Retry: haft.Backoff{Tries: 1000}},
	} {
		if _, err := client.New(cfg); haft.CodeOf(err) != haft.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		} else if strings.Contains(err.Error(), "pw") {
			t.Errorf("%s repeats a password: %v", name, err)
		}
	}
	c := dial(t, client.Config{URL: "http://haft.example.com/prefix/", Key: key})
	if text := fmt.Sprintf("%v %+v %#v", c, c, c); strings.Contains(text, "bbbbbbb") {
		t.Error("a printed client shows its key")
	}
}

func TestErrors_keep_code_misfits_and_time(t *testing.T) {
	for _, code := range haft.Codes() {
		url := answering(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/problem+json; charset=utf-8")
			w.Header().Set("Retry-After", "2")
			w.WriteHeader(499)
			_ = json.NewEncoder(w).Encode(map[string]any{"code": code, "detail": "words",
				"misfits": []haft.Misfit{{Pointer: "/a", Message: "b"}}})
		})
		_, err := dial(t, client.Config{URL: url, Retry: haft.Backoff{Tries: 1}}).Tool(t.Context(), haft.Principal{},
			"f")
		e, ok := errors.AsType[*haft.Error](err)
		if !ok || e.Code != code || e.Message != "words" || len(e.Misfits) != 1 || e.Misfits[0].Pointer != "/a" ||
			e.RetryAfter.D() != 2*time.Second {
			t.Errorf("%s becomes %+v", code, err)
		}
	}
	for status, code := range map[int]haft.Code{
		301: haft.CodeUnavailable, 400: haft.CodeInvalid, 401: haft.CodeUnauthenticated, 403: haft.CodeDenied,
		404: haft.CodeNotFound,
		413: haft.CodeInvalid, 429: haft.CodeRateLimited, 500: haft.CodeInternal, 502: haft.CodeUnavailable,
		504: haft.CodeUnavailable,
	} {
		url := answering(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "<html>a proxy</html>")
		})
		if _, err := dial(t, client.Config{URL: url, Retry: quick}).Tool(t.Context(), haft.Principal{},
			"f"); haft.CodeOf(err) != code {
			t.Errorf("%d becomes %v, want %s", status, err, code)
		}
	}
}

// A call that came too early is a result, as it is without a server in between; any
// other answer with that status is an error.
func TestCalls_that_come_too_early_have_a_result(t *testing.T) {
	kind := "application/json"
	url := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Retry-After", "2")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w,
			`{"call_id":"c_1","status":"rate_limited","error":{"kind":"rate_limited","retry_after_ms":1500}}`)
	})
	c := dial(t, client.Config{URL: url, Retry: quick})
	call := haft.Call{Tool: "f", IdempotencyKey: "k"}
	res, err := c.Call(t.Context(), call)
	if err != nil || res.Status != haft.StatusRate || res.Error.RetryAfter.D() != 1500*time.Millisecond {
		t.Errorf("Call: %+v, %v", res, err)
	}
	if rec, err := c.Submit(t.Context(), call); err != nil || rec.Status != haft.StatusRate || rec.Result == nil {
		t.Errorf("Submit: %+v, %v", rec, err)
	}
	if _, err := c.Tool(t.Context(), haft.Principal{}, "f"); haft.CodeOf(err) != haft.CodeRateLimited {
		t.Errorf("Tool: %v", err)
	}
	kind = "text/html" // a proxy's
	_, err = c.Call(t.Context(), call)
	if e, ok := errors.AsType[*haft.Error](err); !ok || e.Code != haft.CodeRateLimited ||
		e.RetryAfter.D() != 2*time.Second {
		t.Errorf("Call through a proxy that refuses: %v", err)
	}
}

// So is a call that a rule forbids. It is not made again.
func TestCalls_that_are_denied_have_a_result(t *testing.T) {
	kind, asked := "application/json", 0
	url := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		asked++
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"call_id":"c_1","status":"permission_denied","error":{"kind":"permission_denied"}}`)
	})
	c := dial(t, client.Config{URL: url, Retry: quick})
	call := haft.Call{Tool: "f", IdempotencyKey: "k"}
	if res, err := c.Call(t.Context(), call); err != nil || res.Status != haft.StatusDenied || asked != 1 {
		t.Errorf("Call: %+v, %v, asked %d times", res, err, asked)
	}
	kind = "application/problem+json"
	if _, err := c.Call(t.Context(), call); haft.CodeOf(err) != haft.CodeDenied {
		t.Errorf("Call that may not be made at all: %v", err)
	}
}

func TestRequests_are_repeated_only_where_that_does_no_harm(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(context.Context, *client.Client) error
		want int64
	}{
		{"look", func(ctx context.Context, c *client.Client) error {
			_, err := c.Tool(ctx, haft.Principal{}, "f")
			return err
		}, 3},
		{"call", func(ctx context.Context, c *client.Client) error {
			_, err := c.Call(ctx, haft.Call{Tool: "f"})
			return err
		}, 1},
		{"call with a key", func(ctx context.Context, c *client.Client) error {
			_, err := c.Call(ctx, haft.Call{Tool: "f", IdempotencyKey: "k"})
			return err
		}, 3},
		{"batch with keys", func(ctx context.Context, c *client.Client) error {
			_, err := c.Batch(ctx, []haft.Call{{Tool: "f", IdempotencyKey: "k"}, {Tool: "f"}})
			return err
		}, 1},
		{"cancel", func(ctx context.Context, c *client.Client) error { return c.Cancel(ctx, haft.Principal{}, "c_1") },
			3},
		{"register", func(ctx context.Context, c *client.Client) error {
			_, err := c.PutTool(ctx, haft.Principal{}, haft.Draft{})
			return err
		}, 1},
		{"remove", func(ctx context.Context, c *client.Client) error {
			return c.RemoveTool(ctx, haft.Principal{}, "f",
				"")
		}, 1},
		{"decide", func(ctx context.Context, c *client.Client) error {
			_, err := c.Decide(ctx, haft.Principal{}, "a_1", haft.Answer{})
			return err
		}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			var asked atomic.Int64
			url := answering(t, func(w http.ResponseWriter, r *http.Request) {
				asked.Add(1)
				_, _ = io.Copy(io.Discard, r.Body)
				panic(http.ErrAbortHandler) // the connection ends without an answer
			})
			err := c.do(t.Context(), dial(t, client.Config{URL: url, Retry: quick}))
			if haft.CodeOf(err) != haft.CodeUnavailable || asked.Load() != c.want {
				t.Errorf("asked %d times, want %d: %v", asked.Load(), c.want, err)
			}
			if errors.Is(err, client.ErrMaybeDone) != (c.want == 1) {
				t.Errorf("may it have been done? %v", err)
			}
		})
	}
}

func TestAnswers_are_bounded(t *testing.T) {
	url := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"name":"`+strings.Repeat("x", 1<<20)+`"}`)
	})
	if _, err := dial(t, client.Config{URL: url, MaxAnswer: 1000}).Tool(t.Context(), haft.Principal{},
		"f"); haft.CodeOf(err) != haft.CodeUnavailable {
		t.Errorf("too large: %v", err)
	}
	url = answering(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"name":3}`) })
	if _, err := dial(t, client.Config{URL: url}).Tool(t.Context(), haft.Principal{},
		"f"); haft.CodeOf(err) != haft.CodeUnavailable {
		t.Errorf("not what was asked for: %v", err)
	}
	url = answering(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		line := bytes.Repeat([]byte("x"), 1<<20)
		for range 20 {
			if _, err := w.Write(append([]byte("data: "), line...)); err != nil {
				return
			}
		}
	})
	for _, err := range dial(t, client.Config{URL: url, Patience: time.Millisecond, Retry: quick}).Watch(t.Context(),
		haft.Principal{}, haft.EventFilter{}, 0) {
		if haft.CodeOf(err) != haft.CodeUnavailable {
			t.Errorf("an event without end: %v", err)
		}
	}
}

func TestPages_are_followed_to_the_end(t *testing.T) {
	var asked []string
	url := answering(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RawQuery)
		next := map[string]string{"": "a", "a": "b"}[r.URL.Query().Get("cursor")]
		_ = json.NewEncoder(w).Encode(map[string]any{"data": []haft.Tool{{Name: r.URL.Query().Get("cursor")}},
			"next_cursor": next})
	})
	c := dial(t, client.Config{URL: url})
	list := c.Tools(t.Context(), haft.Principal{}, haft.ToolFilter{Tag: "x"})
	for range 2 { // a list can be ranged over again
		var got []string
		for tool, err := range list {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, tool.Name)
		}
		if strings.Join(got, "|") != "|a|b" {
			t.Errorf("got %q", got)
		}
	}
	if len(asked) != 6 || !strings.Contains(asked[5], "tag=x") || !strings.Contains(asked[5], "cursor=b") ||
		strings.Contains(asked[3], "cursor") {
		t.Errorf("asked for %q", asked)
	}
}

// Over a connection that others can read the key signs, and is not sent.
func TestKey_signs_where_others_could_read_it(t *testing.T) {
	ring, err := auth.NewKeyring(&authtest.Memory{}, bytes.Repeat([]byte("p"), 32), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, token, err := ring.NewAdminKey(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	a, err := auth.New(auth.Config{Keyring: ring})
	if err != nil {
		t.Fatal(err)
	}
	var headers []string
	serve := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		headers = append(headers, r.Header.Get("Authorization"))
		id, err := a.Admit(r, netip.MustParseAddr("127.0.0.1"))
		if err == nil {
			_, err = io.ReadAll(r.Body)
		}
		if err != nil || id.Principal.Org != "acme" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, `{"call_id":"c_1","status":"success","value":1}`)
	})
	plain := answering(t, serve)
	for _, sign := range []bool{false, true} {
		c := dial(t, client.Config{URL: plain, Key: token.Reveal() + "\n", Sign: sign})
		for range 2 {
			if _, err := c.Call(t.Context(), haft.Call{Tool: "f", Args: json.RawMessage(`{"a":"é/?"}`)}); err != nil {
				t.Errorf("signed %v: %v", sign, err)
			}
		}
	}
	if strings.HasPrefix(headers[0], "HAFT-") || !strings.HasPrefix(headers[2], "HAFT-") ||
		strings.Contains(headers[2], token.Reveal()) {
		t.Errorf("headers %q", headers)
	}
	secure := httptest.NewTLSServer(serve)
	defer secure.Close()
	if _, err := dial(t, client.Config{URL: secure.URL, Key: token.Reveal(), Retry: quick}).Call(t.Context(),
		haft.Call{Tool: "f", IdempotencyKey: "k"}); err == nil {
		t.Error("a server that nobody vouches for is believed")
	}
	trusted := &tls.Config{RootCAs: secure.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}
	if _, err := dial(t, client.Config{URL: secure.URL, Key: token.Reveal(), TLS: trusted}).Call(t.Context(),
		haft.Call{Tool: "f"}); err != nil {
		t.Errorf("over TLS: %v", err)
	}
}

func TestContext_ends_what_is_asked(t *testing.T) {
	arrived, left := make(chan struct{}), make(chan struct{})
	url := answering(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(arrived)
		<-r.Context().Done()
		close(left)
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-arrived; cancel() }()
	_, err := dial(t, client.Config{URL: url}).Call(ctx, haft.Call{Tool: "f"})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a call that was given up: %v", err)
	}
	<-left // the server knows
}

// FuzzStream: whatever a server sends, a watch ends or goes on, and an event that it
// yields has a cursor after the one before.
func FuzzStream(f *testing.F) {
	f.Add("retry: 1000\n\n: heartbeat\nid: 3\n\nid: 4\nevent: tool_completed\ndata: " +
		"{\"cursor\":4,\"seq\":1}\n\nevent: error\ndata: {\"code\":\"conflict\",\"message\":\"gone\"}\n\n")
	f.Add("data: {\ndata: }\n\n")
	f.Add("id: 99999999999999999999\r\n\r\ndata: []\n\n")
	f.Fuzz(func(t *testing.T, stream string) {
		s := httptest.NewServer(
			http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, stream) }))
		defer s.Close()
		c, err := client.New(client.Config{URL: s.URL, Patience: time.Nanosecond, Retry: haft.Backoff{Tries: 1}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		last, n := int64(0), 0
		for e, err := range c.Watch(ctx, haft.Principal{}, haft.EventFilter{}, 0) {
			if err != nil {
				break
			}
			if e.Cursor <= last && last > 0 {
				t.Fatalf("event %d after %d", e.Cursor, last)
			}
			if last, n = e.Cursor, n+1; n > 100 {
				break
			}
		}
	})
}
