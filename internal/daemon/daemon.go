// Package daemon is what a server that runs for long needs of its machine: a certificate that can be replaced, the
// service manager that waits for it, and a client for the issuers of tokens.
package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// A Certificate is a certificate with its key, which can be read again while the server runs.
type Certificate struct {
	Cert, Key string // their files
	pair      atomic.Pointer[tls.Certificate]
}

// Load reads both files. A pair that cannot be used changes nothing.
func (c *Certificate) Load() (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
	if err != nil {
		return nil, fmt.Errorf("read the certificate: %w", err)
	}
	c.pair.Store(&pair)
	return &pair, nil
}

// Config serves the pair that was loaded last.
func (c *Certificate) Config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return c.pair.Load(), nil
		}}
}

// IssuerClient fetches the keys of issuers. The operator names them, so they may be
// in a private network; they lead nowhere else.
func IssuerClient() *http.Client {
	return &http.Client{
		Timeout:       15 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true,
			DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
			TLSHandshakeTimeout: 5 * time.Second, ResponseHeaderTimeout: 10 * time.Second,
			MaxResponseHeaderBytes: 64 << 10, IdleConnTimeout: 30 * time.Second, MaxIdleConns: 2,
		},
	}
}

// Notify sends the state of the server to the service manager at a socket, as sd_notify(3) does. An empty one means
// that there is none.
func Notify(ctx context.Context, socket, state string) error {
	if socket == "" {
		return nil
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unixgram", socket) // a name that begins with @ is abstract here too
	if err != nil {
		return fmt.Errorf("reach the service manager: %w", err)
	}
	_, err = conn.Write([]byte(state))
	return errors.Join(err, conn.Close())
}
