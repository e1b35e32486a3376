package egress

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"haft"
)

// A Mock answers requests instead of their servers: it is for tests of tools. A guard with a
// mock makes no connection and looks up no name, except for [MockRequest.Send]. All other
// checks hold as without it: rules, policy, limits, local names, and the places of secrets.
type Mock struct {
	// Answer returns the response to one request, whose body it need not read. [ErrCut], also
	// from the body of the response, ends the connection. It is called from several goroutines
	// at once.
	Answer func(MockRequest) (*http.Response, error)
	// Real permits Answer to send requests to their real servers.
	Real bool
}

// A Caller is whose requests a guard sends. A call that another one makes has an ID of its own, and
// the same principal.
type Caller struct {
	Call      haft.CallID
	Principal haft.Principal
}

// MockRequest is a request that a [Mock] answers.
type MockRequest struct {
	// Caller is empty if the request belongs to no call.
	Caller
	// Request has the whole URL and a body that is in memory. Where a secret would be put in, it
	// has [SecretText] and neither the value nor the placeholder.
	*http.Request
	// Send sends the request to its real server, with the values of its secrets, and returns the
	// response without them. It is nil unless [Mock.Real] permits it.
	Send func() (*http.Response, error)
}

// SecretText is the text that a [Mock] finds in a request in place of a secret's value.
func SecretText(name string) string { return "${secrets." + name + "}" }

// ErrCut ends the connection of a request at once, as a server that fails does.
var ErrCut = errors.New("the connection was cut by the mock")

// maxMocked is the largest body of a request that a mock gets.
const maxMocked = 8 << 20

// errMocked refuses a connection past the mock.
func errMocked(host string, port uint16) error {
	r := mockedOnly(host, port, "the network is mocked, and no connection leaves this machine")
	return r.err()
}

// mockedOnly is the refusal of what a mock cannot answer.
func mockedOnly(host string, port uint16, reason string) *Refusal {
	return &Refusal{Host: host, Port: port, Rule: RuleMock, Reason: reason}
}

// callerKey is the key of the [Caller] in the context of a request of this process.
type callerKey struct{}

// answer has the mock answer a request.
func (g *Guard) answer(req MockRequest) (*http.Response, error) {
	if _, r := g.refuseHost(req.URL.Hostname()); r != nil {
		return nil, r.err()
	}
	if !g.cfg.Mock.Real {
		req.Send = nil
	}
	resp, err := g.cfg.Mock.Answer(req)
	if err == nil && (resp == nil || resp.StatusCode < 200 || resp.StatusCode > 999) {
		if resp != nil && resp.Body != nil {
			resp.Body.Close()
		}
		return nil, &haft.Error{Code: haft.CodeUnavailable, Message: "the mock has no answer that can be sent"}
	}
	if err != nil {
		return nil, err
	}
	if resp.Body == nil {
		resp.Body = http.NoBody
	}
	if resp.Header == nil {
		resp.Header = http.Header{}
	}
	resp.Request = req.Request
	return resp, nil
}

// readMocked reads a body into memory.
func readMocked(body io.Reader) ([]byte, error) {
	if body == nil {
		return nil, nil
	}
	b, err := io.ReadAll(io.LimitReader(body, maxMocked+1))
	if err == nil && len(b) > maxMocked {
		r := mockedOnly("", 0, fmt.Sprintf("the body of a request to a mock has more than %d bytes", maxMocked))
		err = r.err()
	}
	return b, err
}

// withBody returns req with a body that is in memory.
func withBody(req *http.Request, body []byte) *http.Request {
	req = req.Clone(req.Context())
	req.ContentLength, req.TransferEncoding, req.Trailer = int64(len(body)), nil, nil
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	req.Body = http.NoBody
	if len(body) > 0 {
		req.Body = io.NopCloser(bytes.NewReader(body))
	}
	return req
}

// mocked has the mock answer a request of this process instead of next.
func (g *Guard) mocked(req *http.Request, next http.RoundTripper) (*http.Response, error) {
	if req.Body != nil {
		defer req.Body.Close()
	}
	body, err := readMocked(req.Body)
	if err != nil {
		return nil, err
	}
	caller, _ := req.Context().Value(callerKey{}).(Caller)
	return g.answer(MockRequest{Caller: caller, Request: withBody(req, body), Send: func() (*http.Response, error) {
		return next.RoundTrip(withBody(req, body))
	}})
}

// send sends an allowed request to its server, or has the mock answer it. asked is the request
// without the values of secrets, and out with them.
func (x *exchange) send(asked, out *http.Request, clean *cleaner) (*http.Response, error) {
	g := x.proxy.cfg.Guard
	if g.cfg.Mock == nil {
		return x.proxy.transport.RoundTrip(out)
	}
	body, err := readMocked(out.Body)
	if err != nil {
		return nil, err
	}
	return g.answer(MockRequest{Caller: x.proxy.cfg.Caller, Request: withBody(asked, body),
		Send: func() (*http.Response, error) {
			req := withBody(out, body)
			req.Header.Set("Accept-Encoding", "identity") // a recorded answer can be read
			resp, err := x.proxy.transport.RoundTrip(req)
			if err != nil || clean == nil {
				return resp, err
			}
			plain, err := clean.body(resp)
			if err != nil {
				resp.Body.Close()
				return nil, err
			}
			resp.Body = struct {
				io.Reader
				io.Closer
			}{clean.reader(plain), resp.Body}
			clean.header(resp.Header)
			resp.ContentLength = -1
			return resp, nil
		}})
}

// nameSecrets puts the names of secrets where their values will be put in.
func (b *Broker) nameSecrets(asked *http.Request, names []string) {
	for _, s := range b.cfg.Secrets {
		if slices.Contains(names, s.Name) && s.present(asked) {
			s.put(asked, SecretText(s.Name))
		}
	}
}

// mocked reports whether a mock answers instead of servers.
func (p *Proxy) mocked() bool { return p.cfg.Guard.cfg.Mock != nil }

// planMocked is plan where a mock answers: all TLS is opened, and nothing is passed on unread.
func (p *Proxy) planMocked(t *tunnel, https bool) *Refusal {
	t.opaque, t.plain, t.inside = false, false, https && p.cfg.Broker != nil
	if !t.inside && !t.http {
		return mockedOnly(t.host, t.port, "the network is mocked, and only HTTP and HTTPS can be")
	}
	return p.forbidden(t.host, t.port)
}
