package app

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"sync"

	"haft"
	"haft/egress"
	"haft/engine"
	"haft/oauth"
	"haft/secret"
)

// gate makes the ways out of sandboxes: a proxy for each call.
type gate struct {
	guard  *egress.Guard
	logger *slog.Logger
	tokens *tokens // nil where no secrets are kept
}

var _ engine.Gate = (*gate)(nil)

// Open implements [engine.Gate].
func (g *gate) Open(ctx context.Context, w engine.Way) (*engine.Exit, error) {
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
	p := &passage{logger: g.logger}
	exit := &engine.Exit{Passage: p, Stand: map[string]string{}, Failed: map[string]error{}}
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
	p.proxy = egress.NewProxy(egress.ProxyConfig{Guard: g.guard, Rules: rules, Broker: broker, Record: p.record, Logger: g.logger})
	return exit, nil
}

// bind makes what the broker puts in: all that can get somewhere, and of the rest
// as many as it takes, so that it notices those that strayed.
func (g *gate) bind(ctx context.Context, w engine.Way, rules egress.Rules, p *passage, exit *engine.Exit) ([]egress.Secret, error) {
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
				token, err := g.tokens.token(ctx, w.Call.Principal.Org, b)
				p.lease(b.Name, token)
				return token.Reveal(), err
			}
			if reached {
				if like, err = g.tokens.token(ctx, w.Call.Principal.Org, b); err != nil {
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
		return nil, &haft.Error{Code: haft.CodeInvalid, Message: fmt.Sprintf("the hosts of the tool have more than %d bound secrets", egress.MaxBound)}
	}
	return append(here, elsewhere[:min(len(elsewhere), egress.MaxBound-len(here))]...), nil
}

// toBroker makes a secret of the broker of a binding, without a value.
func toBroker(name string, b *secret.Binding) (egress.Secret, error) {
	hosts, err := egress.ParseRules(b.Hosts)
	if err != nil {
		return egress.Secret{}, err
	}
	return egress.Secret{Name: name, Hosts: hosts, Place: egress.Place{Header: b.Header, Prefix: b.Prefix, Query: b.Query, Basic: b.Basic}}, nil
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
func (g *gate) Host(entry string) (string, error) {
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
type passage struct {
	proxy  *egress.Proxy
	logger *slog.Logger

	mu       sync.Mutex
	contacts []engine.Contact
	leased   []secret.Named // tokens
}

// lease remembers a token of the call.
func (p *passage) lease(name string, token secret.Value) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if token.IsZero() || slices.ContainsFunc(p.leased, func(l secret.Named) bool { return l.Value.Equal(token) }) {
		return
	}
	p.leased = append(p.leased, secret.Named{Name: name, Value: token})
}

// Serve implements [engine.Passage].
func (p *passage) Serve(ctx context.Context, conn net.Conn) {
	if err := p.proxy.ServeConn(ctx, conn); err != nil {
		p.logger.Debug("a connection of a sandbox ended", "error", err) // its record says why
	}
}

// record keeps what the proxy tells.
func (p *passage) record(c egress.Connection) {
	to := c.Host
	if c.Port != 0 {
		to = net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port)))
	}
	if c.Method != "" {
		to = c.Method + " " + to
	}
	contact := engine.Contact{To: to, Rule: c.Rule, Secrets: c.Secrets, Up: c.Up, Down: c.Down, Took: haft.Millis(c.Duration)}
	if c.Refusal != nil {
		contact.Refused = c.Refusal.Message()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.contacts) < maxPassageContacts {
		p.contacts = append(p.contacts, contact)
	}
}

// Refused implements [engine.Passage].
func (p *passage) Refused() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.contacts, func(c engine.Contact) bool { return c.Refused != "" })
}

// Close implements [engine.Passage].
func (p *passage) Close() ([]engine.Contact, []secret.Named) {
	p.proxy.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.contacts, p.leased
}

// CheckNetwork reports why an entry of a tool's network cannot be read.
func CheckNetwork(entry string) error {
	_, err := egress.ParseRule(entry)
	return err
}
