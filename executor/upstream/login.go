package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"

	"haft"
	"haft/internal/secret"
)

// A login waits for a person.
//
//	caller            Pool                   authorisation server        person
//	  │ Login ─────────►│ discover, register ─────►│                        │
//	  │◄────────── link │                          │                        │
//	  │ ─────────────── link ──────────────────────────────────────────────►│
//	  │                 │                          │◄─────────────── agrees │
//	  │◄───────── redirect: code, state, iss ──────│                        │
//	  │ Finish ────────►│ exchange, with verifier ►│                        │
//	  │                 │ keep, encrypted          │                        │
type login struct {
	account *account
	who     haft.Principal
	// The server as it was when the login began. The account has its current state.
	origin   string
	settings haft.MCPOAuth
	asked    *challenge

	state    string
	resource string           // that the login is for
	link     chan string      // gets the link for the person
	answer   chan loginAnswer // gets the answer of the person
	done     chan struct{}    // closed at the end
	err      error
}

// A loginAnswer is the answer of a person.
type loginAnswer struct {
	result *auth.AuthorizationResult
	err    error
}

// loginEnd is how long the end of a login may take once the person has answered.
const loginEnd = time.Minute

// Login begins a login of the principal who at a server. It returns the link that a person has to open,
// or "" if the server needs no login. Redirect is the caller's address to which the
// authorisation server sends the person afterwards; the caller then passes the parameters
// to Finish. The address must be on this machine or use https.
func (p *Pool) Login(ctx context.Context, who haft.Principal, ref, redirect string,
	vars []secret.Named) (string, error) {
	if p.cfg.Vault == nil || p.cfg.Client == nil {
		return "", &haft.Error{Code: haft.CodeUnavailable, Message: "logins are not kept here"}
	}
	if err := checkRedirect(redirect); err != nil {
		return "", err
	}
	to, err := p.resolve(ctx, who, ref, vars)
	if err != nil {
		return "", err
	}
	if to.server.Transport == haft.MCPStdio {
		return "", &haft.Error{Code: haft.CodeInvalid,
			Message: "the server is a command: it has no login, but may have variables"}
	}
	a := p.account(to)
	asked := a.challenge()
	if asked != nil && originOf(asked.url) != to.server.Audience() {
		asked = nil // by the server at its previous address
	}
	if asked == nil {
		s, err := p.acquire(ctx, to)
		if err == nil {
			s.slot.release(true)
		} else if !NeedsLogin(err) {
			return "", Coded(err)
		}
		if asked = a.challenge(); asked == nil {
			return "", nil
		}
		if originOf(asked.url) != to.server.Audience() {
			return "", &haft.Error{Code: haft.CodeConflict,
				Message: "the address of the server was changed meanwhile: begin again"}
		}
	}
	l := &login{account: a, who: who, origin: to.server.Audience(), asked: asked, link: make(chan string, 1),
		answer: make(chan loginAnswer, 1), done: make(chan struct{})}
	if to.server.OAuth != nil {
		l.settings = *to.server.OAuth
	}
	if !p.spawn(func() { p.runLogin(l, redirect) }) {
		return "", errClosed
	}
	select {
	case link := <-l.link:
		return link, nil
	case <-l.done:
		return "", loginFailed(l.err)
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// originOf returns the origin of an address, or "".
func originOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return haft.URLOrigin(u)
}

// challenge returns the answer with which the server asked for a login, or nil.
func (a *account) challenge() *challenge {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked
}

// loginFailed returns the error of a login for callers.
func loginFailed(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*haft.Error](err); ok {
		return err
	}
	return &haft.Error{Code: haft.CodeUnavailable,
		Message: "the login at the MCP server failed: its authorisation server cannot be used", Err: err}
}

// checkRedirect refuses addresses to which no code may be sent.
func checkRedirect(redirect string) error {
	u, err := url.Parse(redirect)
	switch {
	case err != nil || u.Host == "" || u.Fragment != "" || u.User != nil:
	case u.Scheme == "https":
		return nil
	case u.Scheme == "http" && (u.Hostname() == "localhost" || u.Hostname() == "127.0.0.1" || u.Hostname() == "::1"):
		return nil
	}
	return &haft.Error{Code: haft.CodeInvalid, Message: "the redirect is not an address of this machine or with https"}
}

// runLogin runs a login to its end.
func (p *Pool) runLogin(l *login, redirect string) {
	defer close(l.done)
	ctx, cancel := context.WithTimeout(p.ctx, p.cfg.LoginFor)
	defer cancel()
	defer p.forget(l)
	handler, err := p.handler(l, redirect)
	if err != nil {
		l.err = err
		return
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.asked.url, nil)
	if err != nil {
		l.err = fmt.Errorf("read the address of the server: %w", err)
		return
	}
	header := http.Header{"Www-Authenticate": l.asked.header}
	resp := &http.Response{StatusCode: l.asked.status, Header: header, Body: http.NoBody, Request: req}
	if l.err = handler.Authorize(ctx, req, resp); l.err == nil {
		l.account.mu.Lock()
		if l.account.asked == l.asked { // else the server has asked for another login
			l.account.asked = nil
		}
		l.account.mu.Unlock()
	}
}

// handler returns the SDK's OAuth flow for a login. It discovers the details of the server.
func (p *Pool) handler(l *login, redirect string) (*auth.AuthorizationCodeHandler, error) {
	a := l.account
	a.mu.Lock()
	settings, had := l.settings, a.grant
	if had != nil && had.Origin != l.origin {
		had = nil
	}
	a.mu.Unlock()
	stepUp := l.asked.status == http.StatusForbidden // the server wants more scopes than it was granted
	cfg := &auth.AuthorizationCodeHandlerConfig{
		RedirectURL: redirect, Client: a.client, RequestRefreshToken: true,
		AuthorizationCodeFetcher: l.fetch,
		ScopeFilter: func(discovered []string) []string {
			scopes, more := slices.Clone(discovered), []string(nil)
			if len(settings.Scopes) > 0 {
				scopes, more = slices.Clone(settings.Scopes), discovered
			}
			if had != nil {
				more = slices.Concat(more, had.Scopes)
			}
			for _, s := range more {
				if stepUp && !slices.Contains(scopes, s) {
					scopes = append(scopes, s)
				}
			}
			return scopes
		},
		DynamicClientRegistrationConfig: &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
			ClientName: "Haft", RedirectURIs: []string{redirect},
			GrantTypes: []string{"authorization_code", "refresh_token"}, ResponseTypes: []string{"code"},
		}},
		NewTokenSource: l.granted,
	}
	if p.cfg.ClientMetadata != "" {
		cfg.ClientIDMetadataDocumentConfig = &auth.ClientIDMetadataDocumentConfig{URL: p.cfg.ClientMetadata}
	}
	if settings.ClientID != "" {
		cfg.PreregisteredClient = &oauthex.ClientCredentials{ClientID: settings.ClientID}
		if settings.ClientSecret != "" {
			cfg.PreregisteredClient.ClientSecretAuth = &oauthex.ClientSecretAuth{ClientSecret: settings.ClientSecret}
		}
	}
	return auth.NewAuthorizationCodeHandler(cfg)
}

// fetch returns the link to the caller of Login, and waits for the answer of the person.
func (l *login) fetch(ctx context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
	u, err := url.Parse(args.URL)
	if err != nil || u.Query().Get("state") == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, &haft.Error{Code: haft.CodeUnavailable,
			Message: "the authorisation server names no address that a person could open"}
	}
	if r := u.Query().Get("resource"); r != "" && originOf(r) != l.origin {
		return nil, &haft.Error{Code: haft.CodeDenied,
			Message: "the server wants a login for another resource than itself"}
	}
	p := l.account.pool
	p.mu.Lock()
	l.state = u.Query().Get("state")
	p.logins[l.state] = l
	p.mu.Unlock()
	l.resource = u.Query().Get("resource")
	l.link <- args.URL
	select {
	case a := <-l.answer:
		return a.result, a.err
	case <-ctx.Done():
		return nil, &haft.Error{Code: haft.CodeUnavailable, Message: "nobody answered the login in time"}
	}
}

// forget removes a login, so that its state can no longer be used.
func (p *Pool) forget(l *login) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.state != "" {
		delete(p.logins, l.state)
	}
}

// granted stores the grant.
func (l *login) granted(ctx context.Context, cfg *oauth2.Config, t *oauth2.Token) (oauth2.TokenSource, error) {
	g := &grant{
		Access: t.AccessToken, Refresh: t.RefreshToken, Expiry: t.Expiry, ClientID: cfg.ClientID,
		ClientSecret: cfg.ClientSecret,
		TokenURL:     cfg.Endpoint.TokenURL, InHeader: cfg.Endpoint.AuthStyle == oauth2.AuthStyleInHeader,
		Resource: l.resource, Scopes: cfg.Scopes, Origin: l.origin,
	}
	if scope, ok := t.Extra("scope").(string); ok && scope != "" {
		g.Scopes = strings.Fields(scope)
	}
	if err := l.account.store(ctx, g); err != nil {
		return nil, err
	}
	return oauth2.StaticTokenSource(t), nil
}

// Finish ends the login that an answer is for. It must be called for the principal who
// began it: otherwise, somebody else who has the state could make a stranger log in for
// him. Each state can be used for one answer.
func (p *Pool) Finish(ctx context.Context, who haft.Principal, a haft.MCPAnswer) error {
	p.mu.Lock()
	l := p.logins[a.State]
	if l == nil || a.State == "" {
		p.mu.Unlock()
		return &haft.Error{Code: haft.CodeNotFound,
			Message: "no login waits for this answer: it was answered already, or took too long"}
	}
	if l.who.Org != who.Org || l.who.Owner() != who.Owner() || l.who.Agent != who.Agent {
		p.mu.Unlock()
		return &haft.Error{Code: haft.CodeDenied, Message: "the login is somebody else's"}
	}
	delete(p.logins, a.State)
	p.mu.Unlock()
	if a.Error != "" || a.Code == "" {
		l.answer <- loginAnswer{err: &haft.Error{Code: haft.CodeDenied, Message: "the login was not agreed to"}}
	} else {
		l.answer <- loginAnswer{result: &auth.AuthorizationResult{Code: a.Code, State: a.State, Iss: a.Issuer}}
	}
	t := time.NewTimer(loginEnd)
	defer t.Stop()
	select {
	case <-l.done:
		return loginFailed(l.err)
	case <-t.C:
		return &haft.Error{Code: haft.CodeUnavailable, Message: "the authorisation server does not answer"}
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Logout removes the grant of the principal who.
func (p *Pool) Logout(ctx context.Context, who haft.Principal, server haft.MCPServer) error {
	if p.cfg.Vault == nil {
		return nil
	}
	return p.account(target{server: server, who: who}).store(ctx, nil)
}
