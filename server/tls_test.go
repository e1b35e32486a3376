package server_test

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"haft/server"
)

// A server that listens on a Unix socket first answers HTTP/2 over TLS.
func TestServe_TLS_beside_a_socket(t *testing.T) {
	w := setup(t, nil)
	like := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate
	defer like.Close()
	s, err := server.New(w.engine, people{}, server.Config{TLS: &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: like.TLS.Certificates}})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 2)
	listen := func(network, address string) net.Addr {
		ln, err := new(net.ListenConfig).Listen(t.Context(), network, address)
		if err != nil {
			t.Fatal(err)
		}
		go func() { served <- s.Serve(ln) }()
		return ln.Addr()
	}
	get := func(c *http.Client, url string) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		return res
	}
	socket := listen("unix", filepath.Join(t.TempDir(), "socket"))
	over := &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, socket.Network(), socket.String())
		}}
	get(&http.Client{Transport: over}, "http://127.0.0.1/healthz") // it is served now
	trusting := like.Client()
	trusting.Transport.(*http.Transport).ForceAttemptHTTP2 = true
	at := listen("tcp", "127.0.0.1:0").String()
	if res := get(trusting, "https://"+at+"/healthz"); res.StatusCode != http.StatusOK || res.ProtoMajor != 2 {
		t.Errorf("over TLS it answers %s by %s", res.Status, res.Proto)
	}
	trusting.CloseIdleConnections()
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	for range cap(served) {
		if err := <-served; err != nil {
			t.Error(err)
		}
	}
}
