package builtin

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"haft"
)

// maxAnswerHeader is the longest header of an answer that Outside takes.
const maxAnswerHeader = 256 << 10

// Client returns base within what the call may reach: each of its requests, also those
// of redirects, is held against the rules of the call and recorded. A tool sends
// requests by it or by [Call.Outside], and by nothing else.
func (c Call) Client(base *http.Client) (*http.Client, error) {
	if c.egress == nil {
		return nil, &haft.Error{Code: haft.CodeDenied, Message: "the call has no network"}
	}
	client, next := *base, base.Transport
	if next == nil {
		next = http.DefaultTransport
	}
	client.Transport = c.egress(next)
	return &client, nil
}

// Outside returns a client whose requests take the call's own way out, as those of a
// program in a sandbox do: to the hosts of the tool's network only, with the values
// of bound secrets put in for their placeholders and taken out of the answers, and
// on record. It is nil if the call has no such way. When it was used, end ends its
// connections and waits for them.
func (c Call) Outside(ctx context.Context) (client *http.Client, end func()) {
	if c.serveEgress == nil {
		return nil, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var served sync.WaitGroup
	// The egress session opens TLS with an authority of the call's own, where a secret belongs
	// inside; elsewhere the server shows its own certificate.
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	roots.AppendCertsFromPEM(c.ca)
	transport := &http.Transport{
		Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: "egress.invalid"}), // a name that is never looked up
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			near, far := net.Pipe()
			served.Go(func() { c.serveEgress(ctx, far) })
			return near, nil
		},
		TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    30 * time.Second,
		MaxResponseHeaderBytes: maxAnswerHeader,
		DisableKeepAlives:      true,
	}
	return &http.Client{Transport: transport}, func() {
		cancel()
		transport.CloseIdleConnections()
		served.Wait()
	}
}
