package upstream

import (
	"context"
	"encoding/json"
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

// An owner is who is logged in at a server. Tokens of people are never shared; without a
// user they belong to the organisation.
type owner struct{ org, server, user string }

// A grant is the content of an encrypted record of the [Vault].
type grant struct {
	Access  string    `json:"access_token"`
	Refresh string    `json:"refresh_token,omitempty"`
	Expiry  time.Time `json:"expiry,omitzero"`
	// The rest is needed to refresh it.
	ClientID     string   `json:"client_id"`
	ClientSecret string   `json:"client_secret,omitempty"`
	TokenURL     string   `json:"token_url"`
	InHeader     bool     `json:"basic,omitempty"`
	Resource     string   `json:"resource,omitempty"`
	Scopes       []string `json:"scopes,omitempty"`
	// Origin is the scheme, host and port of the server that the grant is for.
	Origin string `json:"origin,omitempty"`
}

// isFor reports whether a grant is for a server at its current address. Grants that were
// stored before the field Origin existed name their resource (RFC 8707).
func (g *grant) isFor(s haft.MCPServer) bool {
	origin := g.Origin
	if u, err := url.Parse(g.Resource); origin == "" && err == nil {
		origin = haft.URLOrigin(u)
	}
	return origin != "" && origin == s.Audience()
}

// refreshMargin is how long before its end a token is refreshed.
const refreshMargin = 30 * time.Second

// A challenge is the answer with which a server asked for a login.
type challenge struct {
	url    string
	status int
	header []string // WWW-Authenticate
}

// An account is the login of one owner at a server.
type account struct {
	pool   *Pool
	owner  owner
	server haft.MCPServer
	client *http.Client // for authorisation servers

	refreshing sync.Mutex // held while a token is refreshed; before mu

	mu    sync.Mutex
	read  bool
	grant *grant
	asked *challenge // the last one
}

// account returns the account of the caller of a target.
func (p *Pool) account(to target) *account {
	o := owner{to.server.Org, to.server.ID, to.who.Owner()}
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.accounts[o]
	if a == nil {
		a = &account{pool: p, owner: o, client: loginClient(p.client(to))}
		if len(p.accounts) > 4*p.cfg.Sessions { // they are read again on their next use
			clear(p.accounts)
		}
		p.accounts[o] = a
	}
	a.mu.Lock()
	a.server = to.server
	a.mu.Unlock()
	return a
}

// loginClient returns a client for authorisation servers. A body, such as one with a
// refresh token or the client's secret, is only for the address that it is posted to: the
// client follows a redirect only within its origin, and never with a body.
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

// current returns the stored grant, or nil. A grant for another origin is not used: the
// address of the server was changed.
func (a *account) current(ctx context.Context) (*grant, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.read {
		raw, err := a.pool.cfg.Vault.Grant(ctx, a.owner.org, a.owner.server, a.owner.user)
		if err == nil {
			a.grant = &grant{}
			err = json.Unmarshal(raw, a.grant)
		}
		if err != nil && haft.CodeOf(err) != haft.CodeNotFound {
			a.grant = nil
			return nil, fmt.Errorf("read the grant: %w", err)
		}
		a.read = true
	}
	if a.grant == nil || !a.grant.isFor(a.server) {
		return nil, nil
	}
	return a.grant, nil
}

// accessToken returns the token that requests are sent with, or "". A token for another
// origin is not sent, but returned all the same, to be redacted.
func (a *account) accessToken() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.grant == nil {
		return ""
	}
	return a.grant.Access
}

// store stores a grant; nil removes it.
func (a *account) store(ctx context.Context, g *grant) error {
	var raw []byte
	if g != nil {
		var err error
		if raw, err = json.Marshal(g); err != nil {
			return fmt.Errorf("encode the grant: %w", err)
		}
	}
	if err := a.pool.cfg.Vault.PutGrant(ctx, a.owner.org, a.owner.server, a.owner.user, raw); err != nil {
		return fmt.Errorf("store the grant: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.read, a.grant = true, g
	return nil
}

// token returns an access token that is valid for a while, or "" if there is none. If it
// is the stale one, which the server refused, token gets a new one.
func (a *account) token(ctx context.Context, stale string) (string, error) {
	g, err := a.current(ctx)
	if err != nil || g == nil {
		return "", err
	}
	fresh := func(g *grant) bool {
		return g.Access != stale && (g.Expiry.IsZero() || time.Until(g.Expiry) > refreshMargin)
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
	if next == nil { // the grant was revoked
		return "", a.store(ctx, nil)
	}
	return next.Access, a.store(ctx, next)
}

// maxToken bounds an answer of an authorisation server.
const maxToken = 1 << 20

// refresh gets a new access token (RFC 6749 §6, with the resource of RFC 8707). It returns
// nil if the grant is no longer valid. The oauth2 package cannot send the resource.
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
		return nil, nil // such as invalid_grant: a person has to agree again
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
	if got.Refresh != "" { // refresh tokens may be for one use only
		next.Refresh = got.Refresh
	}
	if got.Expires > 0 && got.Expires < 1e9 {
		next.Expiry = time.Now().Add(time.Duration(got.Expires * float64(time.Second)))
	}
	return &next, nil
}

// setChallenge keeps the answer with which the server asked for a login.
func (a *account) setChallenge(req *http.Request, resp *http.Response) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = &challenge{url: req.URL.String(), status: resp.StatusCode,
		header: slices.Clone(resp.Header.Values("WWW-Authenticate"))}
}

// A bearerTransport adds the token of an account to requests to a server.
type bearerTransport struct {
	next    http.RoundTripper
	account *account
	// refused says that the server asked for a login: the SDK then tries other ways, and
	// returns the error of the last one.
	refused atomic.Bool
}

// needLogin returns the error of a request for which a login is needed.
func (b *bearerTransport) needLogin() error {
	b.refused.Store(true)
	b.account.mu.Lock()
	defer b.account.mu.Unlock()
	return needLogin(b.account.server.Name)
}

// RoundTrip implements [http.RoundTripper].
func (b *bearerTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Header.Get("Authorization") != "" { // requests to other origins do not get here
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
		b.account.setChallenge(sent, resp)
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxToken)) // so that the connection can be reused
		_ = resp.Body.Close()
		if token == "" || try > 0 || resp.StatusCode != http.StatusUnauthorized ||
			req.Body != nil && req.GetBody == nil {
			return nil, b.needLogin()
		}
		// The token may have been ended early.
		if token, err = b.account.token(req.Context(), token); err != nil {
			return nil, err
		}
		if token == "" {
			return nil, b.needLogin()
		}
	}
}

// wantsLogin reports whether an answer means that a person has to agree, or to agree to
// more scopes.
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
