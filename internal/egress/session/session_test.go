package session_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"

	"haft"
	"haft/internal/egress"
	"haft/internal/egress/route"
	"haft/internal/egress/session"
)

// A call sends and receives as many bytes as its limit says, over all its connections together, and is told
// what stopped it.
func TestOpener_bounds_bytes(t *testing.T) {
	const size = 256 << 10
	var mu sync.Mutex
	got := map[string]int{} // by case: a server may still be reading what the case before has sent
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body) // a cut body is what is tested
		mu.Lock()
		got[r.Header.Get("X-Case")] += int(n)
		mu.Unlock()
		if r.Method == http.MethodGet {
			_, _ = w.Write(make([]byte, size)) // likewise
		}
	}))
	defer server.Close()
	o := &session.Opener{Guard: egress.New(egress.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}),
		Logger: slog.New(slog.DiscardHandler)}
	for _, c := range []struct {
		name, method string
		most         int64
		whole        bool
	}{
		{"received, default", http.MethodGet, 0, true},
		{"received, within", http.MethodGet, 3 * size, true},
		{"received", http.MethodGet, size / 2, false},
		{"received in two", http.MethodGet, size * 3 / 2, false},
		{"sent, default", http.MethodPost, 0, true},
		{"sent", http.MethodPost, size / 2, false},
		{"sent in two", http.MethodPost, size * 3 / 2, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			way, err := o.Open(t.Context(), route.Request{Call: haft.Call{ID: "c"}, Bytes: c.most,
				Hosts: []string{strings.TrimPrefix(server.URL, "http://")}})
			if err != nil {
				t.Fatal(err)
			}
			var served sync.WaitGroup
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
				Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: "proxy"}),
				DialContext: func(context.Context, string, string) (net.Conn, error) {
					near, far := net.Pipe()
					served.Go(func() { way.Session.Serve(t.Context(), far) })
					return near, nil
				}}}
			received, whole := int64(0), true
			for range 2 {
				body := bytes.NewReader(make([]byte, size))
				req, err := http.NewRequestWithContext(t.Context(), c.method, server.URL, body)
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("X-Case", c.name)
				if c.method == http.MethodGet {
					req.Body, req.ContentLength = nil, 0
				}
				res, err := client.Do(req)
				if err != nil {
					whole = false
					continue
				}
				n, err := io.Copy(io.Discard, res.Body)
				received += n
				whole = whole && err == nil && res.StatusCode == http.StatusOK
				if err := res.Body.Close(); err != nil {
					t.Error(err)
				}
			}
			served.Wait()
			connections, _ := way.Session.Close()
			said := ""
			for _, made := range connections {
				said += made.Refused
			}
			mu.Lock()
			defer mu.Unlock()
			if whole != c.whole || strings.Contains(said, "network_bytes") == c.whole {
				t.Errorf("all of it: %t, and it was told %q", whole, said)
			}
			if c.most > 0 && (received > c.most || int64(got[c.name]) > c.most) {
				t.Errorf("%d bytes came, %d were sent, %d is the most", received, got[c.name], c.most)
			}
		})
	}
}
