package app

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"

	"haft"
	"haft/internal/egress"
	"haft/internal/engine"
	"haft/internal/oauth"
	"haft/internal/secret"
)

// gate makes the ways out of sandboxes: a proxy for each call.
type egressGuard struct {
	guard  *egress.Guard
	logger *slog.Logger
	tokens *tokens // nil where no secrets are kept
}

var _ engine.EgressGuard = (*egressGuard)(nil)

// Open implements [engine.Gate].
func (g *egressGuard) Open(ctx context.Context, w engine.EgressRequest) (*engine.EgressRoute, error) {
	p := &egressSession{logger: g.logger, tell: w.Record, forbid: forbidding(w.Forbids)}
	if w.Here {
		return &engine.EgressRoute{Passage: p, Wrap: egress.Scope{Forbid: p.forbid, Record: p.record}.Wrap}, nil
	}
	var rules egress.Rules
	for _, h := range w.Hosts {
		rule := egress.Full()
		if h != "full" {
			var err error
			if rule, err = egress.ParseRule(h); err != nil {
				return nil, err
			}
		}
		rules = append(rules, rule)
	}
	exit := &engine.EgressRoute{Passage: p, Stand: map[string]string{}, Failed: map[string]error{}}
	secrets, err := g.bind(ctx, w, rules, p, exit)
	if err != nil {
		return nil, err
	}
	// The broker opens TLS where a secret belongs inside, or where a rule is about
	// methods or paths.
	broker, err := egress.NewBroker(egress.BrokerConfig{Secrets: secrets})
	if err != nil {
		return nil, err
	}
	exit.CA, exit.Leased = broker.CAPEM(), p.leased
	p.proxy = egress.NewProxy(egress.ProxyConfig{
		Guard: g.guard, Rules: rules, Forbid: p.forbid, Broker: broker, Record: p.record, Logger: g.logger,
	})
	return exit, nil
}

// forbidding makes refusals of the rules that forbid a destination.
func forbidding(forbids func(host string, port uint16) string) func(string, uint16) *egress.Refusal {
	if forbids == nil {
		return nil
	}
	return func(host string, port uint16) *egress.Refusal {
		if rule := forbids(host, port); rule != "" {
			return egress.NotByPolicy(rule, host, port)
		}
		return nil
	}
}

// bind makes what the broker puts in: all that can get somewhere, and of the rest
// as many as it takes, so that it notices those that strayed.
func (g *egressGuard) bind(ctx context.Context, w engine.EgressRequest, rules egress.Rules, p *egressSession,
	exit *engine.EgressRoute) ([]egress.Secret, error) {
	var here, elsewhere []egress.Secret
	for _, b := range w.Bound {
		s, err := toBroker(b.Name, b.To)
		if err != nil {
			return nil, fmt.Errorf("the secret %s: %w", b.Name, err)
		}
		reached := s.Hosts.Meet(rules)
		like := b.Value
		s.Value = func(context.Context) (string, error) { return b.Value.Reveal(), nil }
		if b.To.OAuth != nil {
			like = secret.Value{}
			s.Value = func(ctx context.Context) (string, error) {
				token, err := g.exchange(ctx, w.Call.Principal.Org, p, b)
				p.lease(b.Name, token)
				return token.Reveal(), err
			}
			if reached {
				if like, err = g.exchange(ctx, w.Call.Principal.Org, p, b); err != nil {
					exit.Failed[b.Name] = err
				}
				p.lease(b.Name, like)
			}
		}
		s.Placeholder = secret.Placeholder(like.Reveal())
		exit.Stand[b.Name] = s.Placeholder
		if reached {
			here = append(here, s)
		} else {
			elsewhere = append(elsewhere, s)
			exit.Unreached = append(exit.Unreached, b.Name)
		}
	}
	if len(here) > egress.MaxBound {
		return nil, &haft.Error{Code: haft.CodeInvalid,
			Message: fmt.Sprintf("the hosts of the tool have more than %d bound secrets", egress.MaxBound)}
	}
	return append(here, elsewhere[:min(len(elsewhere), egress.MaxBound-len(here))]...), nil
}

// exchange returns a token for a bound secret, if the call may reach where it is to be
// had. That is asked here, before anybody else who wants the token hears of it.
func (g *egressGuard) exchange(ctx context.Context, org string, p *egressSession,
	b engine.Bound) (secret.Value, error) {
	u, err := url.Parse(b.To.OAuth.TokenURL)
	if err != nil || u.Hostname() == "" {
		return secret.Value{}, &haft.Error{Code: haft.CodeInvalid,
			Message: "the address of the token endpoint cannot be read"}
	}
	port, err := strconv.ParseUint(cmp.Or(u.Port(), "443"), 10, 16)
	if err != nil {
		return secret.Value{}, &haft.Error{Code: haft.CodeInvalid,
			Message: "the address of the token endpoint cannot be read", Err: err}
	}
	if p.forbid != nil {
		if r := p.forbid(u.Hostname(), uint16(port)); r != nil {
			p.record(egress.Connection{Host: u.Hostname(), Port: uint16(port), Method: http.MethodPost,
				Outcome: egress.OutcomeRefused, Refusal: r})
			return secret.Value{}, &haft.Error{Code: haft.CodeDenied,
				Message: "the token endpoint may not be reached: " + r.Message(), Err: r}
		}
	}
	return g.tokens.token(p.scoped(ctx), org, b)
}

// toBroker makes a secret of the broker of a binding, without a value.
func toBroker(name string, b *secret.Binding) (egress.Secret, error) {
	hosts, err := egress.ParseBinding(b.Hosts)
	if err != nil {
		return egress.Secret{}, err
	}
	return egress.Secret{Name: name, Hosts: hosts,
		Place: egress.Place{Header: b.Header, Prefix: b.Prefix, Query: b.Query, Basic: b.Basic}}, nil
}

// checkBinding reports, as an error with [haft.CodeInvalid], why a value cannot be
// bound so.
func checkBinding(name string, v secret.Value, b *secret.Binding) error {
	if b == nil || len(b.Hosts) == 0 {
		return nil
	}
	s, err := toBroker(name, b)
	if err != nil {
		return err
	}
	s.Placeholder = secret.Placeholder("")
	s.Value = func(context.Context) (string, error) { return "", nil }
	if b.OAuth == nil {
		return s.Check(v.Reveal())
	}
	if err := s.Check(""); err != nil {
		return err
	}
	return oauth.Check(*b.OAuth, false)
}

// Host implements [engine.Gate].
func (g *egressGuard) Host(entry string) (string, error) {
	rule, err := egress.ParseRule(entry)
	if err != nil {
		return "", err
	}
	return rule.Host(), nil
}

// maxPassageContacts is how many connections a passage remembers: that of a server
// lasts.
const maxPassageContacts = 10_000

// passage is the proxy of one call.
type egressSession struct {
	proxy  *egress.Proxy // nil if the tool runs in this process
	logger *slog.Logger
	forbid func(host string, port uint16) *egress.Refusal // nil if no rule speaks
	tell   func(engine.Connection)                        // nil if contacts are kept

	mu       sync.Mutex
	contacts []engine.Connection
	leased   []secret.Named // tokens
}

// lease remembers a token of the call.
func (p *egressSession) lease(name string, token secret.Value) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if token.IsZero() || slices.ContainsFunc(p.leased, func(l secret.Named) bool { return l.Value.Equal(token) }) {
		return
	}
	p.leased = append(p.leased, secret.Named{Name: name, Value: token})
}

// scopeKey is where a context has the scope of a call.
type scopeKey struct{}

// scoped returns a context whose requests to servers of tokens are among those of the
// call: an organisation says where such a server is, not the operator.
func (p *egressSession) scoped(ctx context.Context) context.Context {
	return context.WithValue(ctx, scopeKey{}, egress.Scope{Forbid: p.forbid, Record: p.record})
}

// byScope sends requests within the scope that their contexts have, and no others.
type byScope struct{ next http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (b byScope) RoundTrip(req *http.Request) (*http.Response, error) {
	scope, ok := req.Context().Value(scopeKey{}).(egress.Scope)
	if !ok {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, &haft.Error{Code: haft.CodeDenied, Message: "the exchange of a secret belongs to no call"}
	}
	return scope.Wrap(b.next).RoundTrip(req)
}

// Serve implements [engine.Passage].
func (p *egressSession) Serve(ctx context.Context, conn net.Conn) {
	if p.proxy == nil {
		conn.Close()
		return
	}
	if err := p.proxy.ServeConn(ctx, conn); err != nil {
		p.logger.Debug("a connection of a sandbox ended", "error", err) // its record says why
	}
}

// record keeps what the proxy tells.
func (p *egressSession) record(c egress.Connection) {
	contact := contactOf(c)
	if p.tell != nil {
		p.tell(contact)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.contacts) < maxPassageContacts {
		p.contacts = append(p.contacts, contact)
	}
}

// contactOf says of a connection what the audit keeps.
func contactOf(c egress.Connection) engine.Connection {
	to := c.Host
	if c.Port != 0 {
		to = net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port)))
	}
	if c.Method != "" {
		to = c.Method + " " + to
	}
	contact := engine.Connection{To: to, Rule: c.Rule, Secrets: c.Secrets, Up: c.Up, Down: c.Down,
		Took: haft.Millis(c.Duration)}
	if c.Refusal != nil {
		contact.Refused = c.Refusal.Message()
	}
	return contact
}

// Refused implements [engine.Passage].
func (p *egressSession) Refused() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.contacts, func(c engine.Connection) bool { return c.Refused != "" })
}

// Close implements [engine.Passage].
func (p *egressSession) Close() ([]engine.Connection, []secret.Named) {
	if p.proxy != nil {
		p.proxy.Close()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.contacts, p.leased
}

// CheckNetwork reports why an entry of a tool's network cannot be read.
func CheckNetwork(entry string) error {
	_, err := egress.ParseRule(entry)
	return err
}
