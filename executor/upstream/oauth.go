package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"haft"
)

// needLogin says that a person has to let Haft act for him.
type needLogin struct{ server string }

// Error implements error. It is for callers too.
func (n *needLogin) Error() string {
	return "the MCP server " + n.server + " wants a login: a person has to agree first, with: haft mcp-server login " +
		n.server
}

// NeedsLogin reports whether err says that a person has to log in.
func NeedsLogin(err error) bool {
	_, ok := errors.AsType[*needLogin](err)
	return ok
}

// An owner is whose login at a server something is. Tokens of people are never
// shared; without a user they are the organisation's.
type owner struct{ org, server, user string }

// A grant is what a person granted, as it is kept, encrypted.
type grant struct {
	Access  string    `json:"access_token"`
	Refresh string    `json:"refresh_token,omitempty"`
	Expiry  time.Time `json:"expiry,omitzero"`
	// What is needed to refresh it.
	ClientID     string   `json:"client_id"`
	ClientSecret string   `json:"client_secret,omitempty"`
	TokenURL     string   `json:"token_url"`
	InHeader     bool     `json:"basic,omitempty"`
	Resource     string   `json:"resource,omitempty"`
	Scopes       []string `json:"scopes,omitempty"`
	// Origin is scheme, host and port of the server that it is for.
	Origin string `json:"origin,omitempty"`
}

// isFor reports whether a grant is for a server as it is now. Those that were kept
// before there was an origin name the resource that they are for (RFC 8707).
func (g *grant) isFor(s haft.MCPServer) bool {
	origin := g.Origin
	if u, err := url.Parse(g.Resource); origin == "" && err == nil {
		origin = haft.URLOrigin(u)
	}
	return origin != "" && origin == s.Audience()
}

// early is how long before its end a token is refreshed.
const early = 30 * time.Second

// A challenge is what a server said when it wanted a login.
type challenge struct {
	url    string
	status int
	header []string // WWW-Authenticate
}

// An account is somebody's login at a server.
type account struct {
	pool   *Pool
	owner  owner
	server haft.MCPServer
	client *http.Client // for authorisation servers

	refreshing sync.Mutex // held while a token is refreshed; before mu

	mu    sync.Mutex
	read  bool
	grant *grant
	asked *challenge
}

// account returns that of who wants a server.
func (p *Pool) account(w wanted) *account {
	o := owner{w.server.Org, w.server.ID, w.who.Owner()}
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.accounts[o]
	if a == nil {
		a = &account{pool: p, owner: o, client: loginClient(p.client(w))}
		if len(p.accounts) > 4*p.cfg.Sessions { // they are read again when they are needed
			clear(p.accounts)
		}
		p.accounts[o] = a
	}
	a.mu.Lock()
	a.server = w.server
	a.mu.Unlock()
	return a
}

// loginClient is for authorisation servers. What is posted there, such as refresh
// tokens and the client's secret, is for the address that it was posted to: a redirect
// is followed only within its origin, and never with a body.
func loginClient(c *http.Client) *http.Client {
	if c == nil {
		return nil
	}
	own := *c
	own.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		first := via[0]
		bare := first.Method == http.MethodGet || first.Method == http.MethodHead
		if len(via) > 5 || !bare || haft.URLOrigin(req.URL) != haft.URLOrigin(first.URL) {
			return http.ErrUseLastResponse
		}
		if c.CheckRedirect != nil {
			return c.CheckRedirect(req, via)
		}
		return nil
	}
	return &own
}

// current returns the grant, or nil. One that was for another origin is not used: the
// address of the server was changed.
func (a *account) current(ctx context.Context) (*grant, error) {
	g, err := a.stored(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil || g == nil || !g.isFor(a.server) {
		return nil, err
	}
	return g, nil
}

// stored returns the grant that is kept, or nil.
func (a *account) stored(ctx context.Context) (*grant, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.read {
		return a.grant, nil
	}
	raw, err := a.pool.cfg.Vault.Grant(ctx, a.owner.org, a.owner.server, a.owner.user)
	switch {
	case haft.CodeOf(err) == haft.CodeNotFound:
	case err != nil:
		return nil, fmt.Errorf("read what was granted: %w", err)
	default:
		g := &grant{}
		if err := json.Unmarshal(raw, g); err != nil {
			return nil, fmt.Errorf("read what was granted: %w", err)
		}
		a.grant = g
	}
	a.read = true
	return a.grant, nil
}

// keep stores a grant, or forgets the one there is if g is nil.
func (a *account) keep(ctx context.Context, g *grant) error {
	var raw []byte
	if g != nil {
		var err error
		if raw, err = json.Marshal(g); err != nil {
			return fmt.Errorf("write what was granted: %w", err)
		}
	}
	if err := a.pool.cfg.Vault.PutGrant(ctx, a.owner.org, a.owner.server, a.owner.user, raw); err != nil {
		return fmt.Errorf("keep what was granted: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.read, a.grant = true, g
	return nil
}

// token returns an access token that holds for a while yet, or "" if there is
// none. With a stale one, which the server refused, it gets another.
func (a *account) token(ctx context.Context, stale string) (string, error) {
	g, err := a.current(ctx)
	if err != nil || g == nil {
		return "", err
	}
	fresh := func(g *grant) bool {
		return g.Access != stale && (g.Expiry.IsZero() || time.Until(g.Expiry) > early)
	}
	if fresh(g) {
		return g.Access, nil
	}
	a.refreshing.Lock()
	defer a.refreshing.Unlock()
	if g, err = a.current(ctx); err != nil || g == nil || fresh(g) {
		if g == nil {
			return "", err
		}
		return g.Access, err
	}
	if g.Refresh == "" {
		return "", nil
	}
	next, err := a.refresh(ctx, g)
	if err != nil {
		return "", err
	}
	if next == nil { // it was taken back
		return "", a.keep(ctx, nil)
	}
	return next.Access, a.keep(ctx, next)
}

// maxToken bounds an answer of an authorisation server.
const maxToken = 1 << 20

// refresh gets another access token (RFC 6749 §6, with the resource of RFC 8707).
// It returns nil if the grant does not hold any more.
func (a *account) refresh(ctx context.Context, g *grant) (*grant, error) {
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {g.Refresh}}
	if g.Resource != "" {
		form.Set("resource", g.Resource)
	}
	if !g.InHeader {
		form.Set("client_id", g.ClientID)
		if g.ClientSecret != "" {
			form.Set("client_secret", g.ClientSecret)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, a.pool.cfg.Connect)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.TokenURL, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, fmt.Errorf("refresh a token: %w", err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	if g.InHeader {
		req.SetBasicAuth(url.QueryEscape(g.ClientID), url.QueryEscape(g.ClientSecret))
	}
	resp, err := a.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("refresh a token: %w", err)
	}
	defer resp.Body.Close() // only read
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxToken))
	if err != nil {
		return nil, fmt.Errorf("refresh a token: %w", err)
	}
	var got struct {
		Access  string  `json:"access_token"`
		Refresh string  `json:"refresh_token"`
		Expires float64 `json:"expires_in"`
	}
	switch {
	case resp.StatusCode >= 400 && resp.StatusCode < 500:
		return nil, nil // invalid_grant and the like: a person has to agree again
	case resp.StatusCode != http.StatusOK:
		return nil, &haft.Error{Code: haft.CodeUnavailable,
			Message: "the authorisation server of the MCP server does not answer as it should"}
	}
	if err := json.Unmarshal(raw, &got); err != nil || got.Access == "" {
		return nil, &haft.Error{Code: haft.CodeUnavailable,
			Message: "the authorisation server of the MCP server gives no token"}
	}
	next := *g
	next.Access, next.Expiry = got.Access, time.Time{}
	if got.Refresh != "" { // it may be for one use only
		next.Refresh = got.Refresh
	}
	if got.Expires > 0 && got.Expires < 1e9 {
		next.Expiry = time.Now().Add(time.Duration(got.Expires * float64(time.Second)))
	}
	return &next, nil
}

// ask remembers what the server said when it wanted a login.
func (a *account) ask(req *http.Request, resp *http.Response) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = &challenge{url: req.URL.String(), status: resp.StatusCode,
		header: slices.Clone(resp.Header.Values("WWW-Authenticate"))}
}

// bearer is a transport that adds somebody's token to requests to a server.
type bearer struct {
	next    http.RoundTripper
	account *account
	// refused says that a login was wanted: the SDK then tries other ways, and
	// tells of the last.
	refused atomic.Bool
}

// need notes and returns that a login is wanted.
func (b *bearer) need() error {
	b.refused.Store(true)
	return &needLogin{b.account.name()}
}

// RoundTrip implements [http.RoundTripper].
func (b *bearer) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Header.Get("Authorization") != "" { // requests to other origins do not come here
		return b.next.RoundTrip(req)
	}
	token, err := b.account.token(req.Context(), "")
	if err != nil {
		return nil, err
	}
	for try := 0; ; try++ {
		sent := req
		if token != "" {
			sent = req.Clone(req.Context())
			sent.Header.Set("Authorization", "Bearer "+token)
			if try > 0 {
				if sent.Body, err = req.GetBody(); err != nil {
					return nil, fmt.Errorf("send a request again: %w", err)
				}
			}
		}
		resp, err := b.next.RoundTrip(sent)
		if err != nil || !wantsLogin(resp) {
			return resp, err
		}
		b.account.ask(sent, resp)
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxToken)) // so that the connection can be used again
		_ = resp.Body.Close()
		if token == "" || try > 0 || resp.StatusCode != http.StatusUnauthorized ||
			req.Body != nil && req.GetBody == nil {
			return nil, b.need()
		}
		// It may have ended before its time.
		if token, err = b.account.token(req.Context(), token); err != nil {
			return nil, err
		}
		if token == "" {
			return nil, b.need()
		}
	}
}

// name is the server's.
func (a *account) name() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.server.Name
}

// wantsLogin reports whether an answer means that a person has to agree, or to
// more than he has.
func wantsLogin(resp *http.Response) bool {
	switch resp.StatusCode {
	case http.StatusUnauthorized:
		return true
	case http.StatusForbidden:
		list, err := oauthex.ParseWWWAuthenticate(resp.Header.Values("WWW-Authenticate"))
		return err == nil && slices.ContainsFunc(list, func(c oauthex.Challenge) bool {
			return c.Scheme == "bearer" && c.Params["error"] == "insufficient_scope"
		})
	}
	return false
}
