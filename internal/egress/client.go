package egress

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"haft"
)

// TLS says how servers are verified. The zero value is the system's way.
type TLS struct {
	// Roots are the authorities to trust; nil means the system's.
	Roots *x509.CertPool
}

// config returns the settings of a client.
func (t *TLS) config() *tls.Config {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if t != nil {
		c.RootCAs = t.Roots
	}
	return c
}

// transport returns a transport that connects through the guard only.
func (g *Guard) transport() *http.Transport {
	return &http.Transport{
		Proxy:                  nil, // the environment's proxy would resolve for us
		DialContext:            g.dial,
		TLSClientConfig:        g.cfg.TLS.config(),
		TLSHandshakeTimeout:    10 * time.Second,
		ExpectContinueTimeout:  time.Second,
		ResponseHeaderTimeout:  g.cfg.Timeout,
		MaxResponseHeaderBytes: g.cfg.MaxHeaderBytes,
		MaxIdleConns:           64,
		MaxIdleConnsPerHost:    8,
		IdleConnTimeout:        30 * time.Second,
		ForceAttemptHTTP2:      true,
	}
}

// Client returns the client that goes through the guard: http and https only,
// every redirect checked again, credentials dropped when the host changes, header
// and body bounded. All callers share it and may copy it, not change it.
func (g *Guard) Client() *http.Client { return g.client() }

// CloseIdle closes the connections that the client keeps for later.
func (g *Guard) CloseIdle() { g.client().CloseIdleConnections() }

// newClient makes the client.
func (g *Guard) newClient() *http.Client {
	return &http.Client{
		Transport:     &checked{guard: g, next: g.transport()},
		CheckRedirect: g.redirect,
		Timeout:       g.cfg.Timeout,
	}
}

// credentialHeaders are the headers that are meant for one host only.
var credentialHeaders = []string{"Authorization", "Cookie", "Cookie2", "Proxy-Authorization", "Www-Authenticate",
	"X-Api-Key", "X-Auth-Token"}

// redirect decides whether the client follows a redirect. The transport checks the
// destination, as it does for every request.
func (g *Guard) redirect(req *http.Request, via []*http.Request) error {
	from := via[len(via)-1].URL
	refuse := func(rule, reason string) error {
		r := &Refusal{Host: req.URL.Hostname(), Rule: rule, Reason: reason}
		return r.err()
	}
	if len(via) > g.cfg.Redirects {
		return refuse(RuleRedirects, fmt.Sprintf("more than %d redirects", max(g.cfg.Redirects, 0)))
	}
	if from.Scheme == "https" && req.URL.Scheme != "https" && !g.cfg.Downgrade {
		return refuse(RuleScheme, "the redirect leads from https to a connection that anyone can read")
	}
	for _, v := range append(via[1:len(via):len(via)], req) {
		// Once elsewhere, never again: the way back is not trusted either
		// (CVE-2024-45336).
		if origin(v.URL) != origin(via[0].URL) {
			for _, h := range credentialHeaders {
				req.Header.Del(h)
			}
			req.URL.User = nil
		}
	}
	return nil
}

// origin returns scheme, host and port of u.
func origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + u.Hostname() + ":" + port
}

// checked is a transport that checks the URL before it sends anything.
type checked struct {
	guard *Guard
	next  *http.Transport
}

// RoundTrip implements [http.RoundTripper].
func (c *checked) RoundTrip(req *http.Request) (*http.Response, error) {
	refused := func(r *Refusal) error {
		if req.Body != nil {
			req.Body.Close()
		}
		return r.err()
	}
	if s := req.URL.Scheme; s != "http" && s != "https" {
		return nil, refused(&Refusal{Host: req.URL.Hostname(), Rule: RuleScheme,
			Reason: "only http and https are fetched"})
	}
	if _, r := c.guard.refuseHost(req.URL.Hostname()); r != nil {
		return nil, refused(r)
	}
	send := c.next.RoundTrip
	if c.guard.cfg.Mock != nil {
		send = func(req *http.Request) (*http.Response, error) { return c.guard.mocked(req, c.next) }
	}
	resp, err := send(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		resp.Body = &bounded{ReadCloser: resp.Body, left: c.guard.cfg.MaxBytes, most: c.guard.cfg.MaxBytes}
	}
	return resp, nil
}

// CloseIdleConnections is what [http.Client.CloseIdleConnections] calls.
func (c *checked) CloseIdleConnections() { c.next.CloseIdleConnections() }

// bounded is a body that fails when it is too long. A short read would look like the whole
// body.
type bounded struct {
	io.ReadCloser
	left, most int64
}

// Read implements [io.Reader].
func (b *bounded) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	if int64(n) > b.left {
		n = int(b.left)
		b.left = 0
		r := &Refusal{Rule: RuleLimit, Reason: fmt.Sprintf("the answer is longer than %d bytes", b.most)}
		return n, &haft.Error{Code: haft.CodeDenied, Message: r.Message(), Err: r}
	}
	b.left -= int64(n)
	return n, err
}
