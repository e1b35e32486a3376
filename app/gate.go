package app

import (
	"context"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"sync"

	"haft"
	"haft/egress"
	"haft/engine"
)

// gate makes the ways out of sandboxes: a proxy for each call.
type gate struct {
	guard  *egress.Guard
	logger *slog.Logger
}

var _ engine.Gate = (*gate)(nil)

// Open implements [engine.Gate].
func (g *gate) Open(_ haft.Call, hosts []string) (engine.Passage, error) {
	var rules egress.Rules
	for _, h := range hosts {
		rule := egress.Full()
		if h != "full" {
			var err error
			if rule, err = egress.ParseRule(h); err != nil {
				return nil, err
			}
		}
		rules = append(rules, rule)
	}
	// The broker opens TLS where a rule is about methods or paths.
	broker, err := egress.NewBroker(egress.BrokerConfig{})
	if err != nil {
		return nil, err
	}
	p := &passage{ca: broker.CAPEM(), logger: g.logger}
	p.proxy = egress.NewProxy(egress.ProxyConfig{Guard: g.guard, Rules: rules, Broker: broker, Record: p.record, Logger: g.logger})
	return p, nil
}

// Host implements [engine.Gate].
func (g *gate) Host(entry string) (string, error) {
	rule, err := egress.ParseRule(entry)
	if err != nil {
		return "", err
	}
	return rule.Host(), nil
}

// passage is the proxy of one call.
type passage struct {
	proxy  *egress.Proxy
	ca     []byte
	logger *slog.Logger

	mu       sync.Mutex
	contacts []engine.Contact
}

// Serve implements [engine.Passage].
func (p *passage) Serve(ctx context.Context, conn net.Conn) {
	if err := p.proxy.ServeConn(ctx, conn); err != nil {
		p.logger.Debug("a connection of a sandbox ended", "error", err) // its record says why
	}
}

// CA implements [engine.Passage].
func (p *passage) CA() []byte { return p.ca }

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
		contact.Refused = c.Refusal.Error()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.contacts = append(p.contacts, contact)
}

// Refused implements [engine.Passage].
func (p *passage) Refused() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.contacts, func(c engine.Contact) bool { return c.Refused != "" })
}

// Close implements [engine.Passage].
func (p *passage) Close() []engine.Contact {
	p.proxy.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.contacts
}

// CheckNetwork reports why an entry of a tool's network cannot be read.
func CheckNetwork(entry string) error {
	_, err := egress.ParseRule(entry)
	return err
}
