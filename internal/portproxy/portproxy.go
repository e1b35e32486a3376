// Package portproxy forwards requests to programs that nobody trusts. What they send must not act
// on the server that forwards it, nor learn who asks.
package portproxy

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// A Proxy forwards one request.
type Proxy struct {
	// Conn is a connection to the program. Who makes the proxy closes it.
	Conn net.Conn
	// Port is the port that the program is asked for.
	Port int
	// Prefix is the beginning of the escaped path that the program does not see.
	Prefix string
	// Hide says which headers of a request stay here, besides those that say who asks.
	Hide func(name string) bool
	// Param is a parameter of the query that stays here.
	Param string
	// Failed answers if the program does not.
	Failed http.HandlerFunc
}

// ServeHTTP implements [http.Handler].
func (p Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	once := &http.Transport{DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: 64 << 10,
		DialContext: func(context.Context, string, string) (net.Conn, error) { return p.Conn, nil }}
	defer once.CloseIdleConnections()
	proxy := &httputil.ReverseProxy{
		Transport: finalOnly{once}, FlushInterval: -1, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo),
		Rewrite:        func(out *httputil.ProxyRequest) { p.rewrite(out.Out) },
		ModifyResponse: confine,
		ErrorHandler:   func(w http.ResponseWriter, r *http.Request, _ error) { p.Failed(w, r) },
	}
	proxy.ServeHTTP(w, r)
}

// finalOnly is a transport that hands on nothing but the final answer: no 1xx answers, whose headers
// nobody confines and which make the proxy forget the headers of the server, and no trailers.
type finalOnly struct{ *http.Transport }

// RoundTrip implements [http.RoundTripper].
func (t finalOnly) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := t.Transport.RoundTrip(r.WithContext(untraced{r.Context()}))
	if err != nil {
		return nil, err //nolint:wrapcheck // nobody sees it
	}
	final := *res // trailers are put into the other one
	final.Trailer = nil
	return &final, nil
}

// untraced is a context without values, so that nobody is told of 1xx answers.
type untraced struct{ context.Context }

// Value implements [context.Context].
func (untraced) Value(any) any { return nil }

// confine leaves headers of an answer that are harmless, and has a browser treat it as a page of
// another origin.
func confine(res *http.Response) error {
	for name := range res.Header {
		if !slices.Contains(harmless, name) {
			res.Header.Del(name)
		}
	}
	res.Header.Set("Content-Security-Policy", "sandbox allow-scripts allow-forms")
	res.Header.Set("X-Content-Type-Options", "nosniff")
	res.Header.Set("Referrer-Policy", "no-referrer")
	return nil
}

// harmless are the headers of an answer that reach the client. Others could act on the server's
// origin, or on a proxy before it, as Set-Cookie and X-Accel-Redirect do.
var harmless = []string{
	"Accept-Ranges", "Allow", "Cache-Control", "Connection", "Content-Disposition", "Content-Encoding",
	"Content-Language", "Content-Length", "Content-Range", "Content-Type", "Date", "Etag", "Expires", "Last-Modified",
	"Location", "Retry-After", "Sec-Websocket-Accept", "Sec-Websocket-Extensions", "Sec-Websocket-Protocol",
	"Transfer-Encoding", "Upgrade", "Vary",
}

// asker are headers that say who asks.
var asker = []string{"Authorization", "Cookie", "Proxy-Authorization", "Forwarded", "X-Api-Key", "X-Access-Token",
	"X-Real-Ip", "Referer", "Origin"}

// rewrite makes a request to the server that of the program.
func (p Proxy) rewrite(r *http.Request) {
	for name := range r.Header {
		if p.Hide(name) || slices.Contains(asker, name) || strings.HasPrefix(name, "X-Forwarded-") {
			r.Header.Del(name)
		}
	}
	r.Host = "localhost:" + strconv.Itoa(p.Port)
	r.URL.Scheme, r.URL.Host = "http", r.Host
	r.URL.RawPath = strings.TrimPrefix(r.URL.EscapedPath(), p.Prefix)
	// An escaped path that does not decode came from no parsed address.
	if plain, err := url.PathUnescape(r.URL.RawPath); err == nil {
		r.URL.Path = plain
	}
	if q := r.URL.Query(); q.Has(p.Param) {
		q.Del(p.Param)
		r.URL.RawQuery = q.Encode()
	}
}
