// Package session opens the egress session of each call: the way out of its sandbox, through
// a proxy of its own. It implements [route.Guard] with package egress.
package session

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
	"haft/internal/callenv"
	"haft/internal/egress"
	"haft/internal/egress/route"
	"haft/internal/secret"
)

// Tokens exchanges bound secrets for access tokens.
type Tokens interface {
	// Token returns a token for a secret of an organisation. It sends requests by
	// [egress.ByScope].
	Token(ctx context.Context, org string, b callenv.Bound) (secret.Value, error)
}

// An Opener opens egress sessions.
type Opener struct {
	Guard  *egress.Guard
	Logger *slog.Logger
	// Tokens is nil if no secrets are stored.
	Tokens Tokens
}

var _ route.Guard = (*Opener)(nil)

// Open implements [route.Guard].
func (o *Opener) Open(ctx context.Context, w route.Request) (*route.Route, error) {
	p := &session{logger: o.Logger, report: w.Record, forbid: egress.ForbidBy(w.Forbids)}
	if w.Local {
		return &route.Route{Session: p, Wrap: egress.Scope{Forbid: p.forbid, Record: p.record,
			Caller: callerOf(w.Call)}.Wrap}, nil
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
	exit := &route.Route{Session: p, Stand: map[string]string{}, Failed: map[string]error{}}
	secrets, err := o.bind(ctx, w, rules, p, exit)
	if err != nil {
		return nil, err
	}
	// The broker decrypts TLS where it inserts a secret, or where a rule is about methods or
	// paths.
	broker, err := egress.NewBroker(egress.BrokerConfig{Secrets: secrets})
	if err != nil {
		return nil, err
	}
	exit.CA, exit.Leased = broker.CAPEM(), p.leased
	p.proxy = egress.NewProxy(egress.ProxyConfig{
		Guard: o.Guard, Caller: callerOf(w.Call), Rules: rules, Forbid: p.forbid, Broker: broker, Record: p.record,
		Logger: o.Logger, Limits: egress.Limits{BytesUp: w.Bytes, BytesDown: w.Bytes},
	})
	return exit, nil
}

// callerOf returns whose requests those of a call are.
func callerOf(c haft.Call) egress.Caller { return egress.Caller{Call: c.ID, Principal: c.Principal} }

// bind makes the secrets that the broker inserts: all whose hosts the call may reach, and as
// many of the others as fit, so that the broker notices when one of those is sent elsewhere.
func (o *Opener) bind(ctx context.Context, w route.Request, rules egress.Rules, p *session,
	exit *route.Route) ([]egress.Secret, error) {
	var here, elsewhere []egress.Secret
	for _, b := range w.Bound {
		s, err := egress.FromBinding(b.Name, b.To)
		if err != nil {
			return nil, fmt.Errorf("the secret %s: %w", b.Name, err)
		}
		reached := s.Hosts.Meet(rules)
		like := b.Value
		s.Value = func(context.Context) (string, error) { return b.Value.Reveal(), nil }
		if b.To.OAuth != nil {
			like = secret.Value{}
			s.Value = func(ctx context.Context) (string, error) {
				token, err := o.exchange(ctx, w.Call, p, b)
				p.lease(b.Name, token)
				return token.Reveal(), err
			}
			if reached {
				if like, err = o.exchange(ctx, w.Call, p, b); err != nil {
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

// exchange returns a token for a bound secret, if the call may reach the token endpoint. It
// checks that here, before other calls share the result.
func (o *Opener) exchange(ctx context.Context, call haft.Call, p *session,
	b callenv.Bound) (secret.Value, error) {
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
	if o.Tokens == nil {
		return secret.Value{}, &haft.Error{Code: haft.CodeUnavailable, Message: "tokens are not exchanged here"}
	}
	// The organisation chose the token endpoint, not the operator: requests to it count as
	// requests of the call.
	scope := egress.Scope{Forbid: p.forbid, Record: p.record, Caller: callerOf(call)}
	return o.Tokens.Token(scope.Context(ctx), call.Principal.Org, b)
}

// Host implements [route.Guard].
func (o *Opener) Host(entry string) (string, error) {
	rule, err := egress.ParseRule(entry)
	if err != nil {
		return "", err
	}
	return rule.Host(), nil
}

// maxConnections is how many connections a session remembers: the session of a server lasts
// long.
const maxConnections = 10_000

// session is the egress session of one call.
type session struct {
	proxy  *egress.Proxy // nil if the tool runs in this process
	logger *slog.Logger
	forbid func(host string, port uint16) *egress.Refusal // nil if nothing is forbidden
	report func(route.Connection)                         // nil if connections are kept

	mu          sync.Mutex
	connections []route.Connection
	leased      []secret.Named // tokens
}

// lease remembers a token of the call.
func (p *session) lease(name string, token secret.Value) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if token.IsZero() || slices.ContainsFunc(p.leased, func(l secret.Named) bool { return l.Value.Equal(token) }) {
		return
	}
	p.leased = append(p.leased, secret.Named{Name: name, Value: token})
}

// Serve implements [route.Session].
func (p *session) Serve(ctx context.Context, conn net.Conn) {
	if p.proxy == nil {
		conn.Close()
		return
	}
	if err := p.proxy.ServeConn(ctx, conn); err != nil {
		p.logger.Debug("a connection of a sandbox ended", "error", err) // its record says why
	}
}

// record remembers or reports a connection of the proxy.
func (p *session) record(c egress.Connection) {
	made := ConnectionOf(c)
	if p.report != nil {
		p.report(made)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.connections) < maxConnections {
		p.connections = append(p.connections, made)
	}
}

// ConnectionOf converts a connection to its form in the audit.
func ConnectionOf(c egress.Connection) route.Connection {
	to := c.Host
	if c.Port != 0 {
		to = net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port)))
	}
	if c.Method != "" {
		to = c.Method + " " + to
	}
	made := route.Connection{To: to, Rule: c.Rule, Secrets: c.Secrets, Up: c.Up, Down: c.Down,
		Took: haft.Millis(c.Duration)}
	if c.Refusal != nil {
		made.Refused = c.Refusal.Message()
	}
	return made
}

// Refused implements [route.Session].
func (p *session) Refused() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.connections, func(c route.Connection) bool { return c.Refused != "" })
}

// Close implements [route.Session].
func (p *session) Close() ([]route.Connection, []secret.Named) {
	if p.proxy != nil {
		p.proxy.Close()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.connections, p.leased
}
