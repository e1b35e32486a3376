package egress

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"haft"
)

// viaTimeout bounds how long a proxy may take to answer.
const viaTimeout = 30 * time.Second

// dialVia connects to address through the proxy that the operator named. The proxy
// looks names up, so that only the name can be checked here.
func (g *Guard) dialVia(ctx context.Context, host, address string) (net.Conn, error) {
	if _, r := g.refuseHost(host); r != nil {
		return nil, r.err()
	}
	ctx, cancel := context.WithTimeout(ctx, viaTimeout)
	defer cancel()
	away := func(err error) error {
		return &haft.Error{Code: haft.CodeUnavailable, Message: "the proxy that is configured cannot be used", Err: err}
	}
	conn, err := g.dialProxy(ctx)
	if err != nil {
		return nil, away(err)
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	left, err := connectVia(conn, g.cfg.Via, address)
	if err == nil && !stop() {
		err = context.Cause(ctx)
	}
	if err != nil {
		conn.Close()
		return nil, away(err)
	}
	return &replayed{Conn: conn, first: left}, nil
}

// dialProxy connects to the proxy itself.
func (g *Guard) dialProxy(ctx context.Context) (net.Conn, error) {
	via := g.cfg.Via
	port := via.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[via.Scheme]
	}
	to := net.JoinHostPort(via.Hostname(), port)
	if via.Scheme == "https" {
		d := tls.Dialer{NetDialer: &g.dialer, Config: &tls.Config{ServerName: via.Hostname(),
			MinVersion: tls.VersionTLS12}}
		return d.DialContext(ctx, "tcp", to)
	}
	if via.Scheme != "http" {
		return nil, errors.New("the scheme of a proxy is http or https")
	}
	return g.dialer.DialContext(ctx, "tcp", to)
}

// connectVia makes the proxy connect to address. It returns the bytes that the proxy sent
// after its answer.
func connectVia(conn net.Conn, via *url.URL, address string) (*bytes.Reader, error) {
	req := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: address}, Host: address,
		Header: http.Header{}}
	if u := via.User; u != nil {
		password, _ := u.Password()
		req.Header.Set("Proxy-Authorization", "Basic "+
			base64.StdEncoding.EncodeToString([]byte(u.Username()+":"+password)))
	}
	if err := req.Write(conn); err != nil {
		return nil, err
	}
	r := bufio.NewReaderSize(conn, maxHead)
	// The answer to CONNECT has no body, and that of a refusal ends with the connection.
	resp, err := http.ReadResponse(r, req) //nolint:bodyclose // to close it would be to read it
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the proxy answers with status %d", resp.StatusCode)
	}
	left, err := r.Peek(r.Buffered())
	return bytes.NewReader(left), err
}
