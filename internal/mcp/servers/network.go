package servers

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"haft"
	"haft/executor/upstream"
	"haft/internal/egress"
	"haft/internal/egress/route"
	"haft/internal/egress/session"
	"haft/internal/mcp/command"
	"haft/internal/secret"
	"haft/internal/service"
)

// Bounds of the audit entries about connections of an MCP server.
const (
	// logEvery is how long connections are collected for one entry.
	logEvery = 30 * time.Second
	// maxPlaces is the number of different destinations in one entry.
	maxPlaces = 100
	// logTime bounds the time for writing an entry.
	logTime = 10 * time.Second
)

// errNotYet is the error while there is no engine yet.
func errNotYet() error {
	return &haft.Error{Code: haft.CodeUnavailable, Message: "commands of MCP servers are not run yet"}
}

// place is [upstream.Config.Place].
func (u *Servers) place(ctx context.Context, s haft.MCPServer, env map[string]string) (*upstream.Place, error) {
	if len(s.Network) == 0 {
		return u.cfg.Commands.Place(ctx, s, env, nil)
	}
	route, err := u.route(ctx, s, env)
	if err != nil {
		return nil, err
	}
	return u.cfg.Commands.Place(ctx, s, env, route)
}

// route opens the egress session of the command of an MCP server: to the hosts of the
// server, as far as the policy of its organisation allows. Policy is checked now and at each
// connection.
func (u *Servers) route(ctx context.Context, s haft.MCPServer, env map[string]string) (*command.Route, error) {
	rules := u.cfg.Rules()
	if rules == nil {
		return nil, errNotYet()
	}
	if err := rules.CheckServerNetwork(ctx, s); err != nil {
		return nil, err
	}
	log := u.logs.of(s, env)
	exit, err := u.cfg.Egress.Open(ctx, route.Request{
		Call: haft.Call{Tool: s.Name, Principal: haft.Principal{Org: s.Org}}, Hosts: s.Network, Record: log.ended,
		Bytes:   s.Limits.Network,
		Forbids: func(host string, port uint16) string { return rules.ServerForbids(u.ctx, s, host, port) },
	})
	if err != nil {
		return nil, err
	}
	return &command.Route{Serve: exit.Session.Serve, CA: exit.CA, Close: func() {
		exit.Session.Close()
		log.flush()
	}}, nil
}

// egress is [upstream.Config.Egress]: requests that Haft itself sends for a server, to its
// address or to others that it names, must be allowed by the policy of its organisation.
func (u *Servers) egress(s haft.MCPServer, headers map[string]string, next http.RoundTripper) http.RoundTripper {
	log := u.logs.of(s, headers)
	return egress.Scope{
		Forbid: egress.ForbidBy(func(host string, port uint16) string {
			rules := u.cfg.Rules()
			if rules == nil {
				return "that is not there yet"
			}
			return rules.ServerForbids(u.ctx, s, host, port)
		}),
		Begun:  func(c egress.Connection) { log.begun(session.ConnectionOf(c)) },
		Record: func(c egress.Connection) { log.over(session.ConnectionOf(c), c.Outcome == egress.OutcomeOK) },
	}.Wrap(next)
}

// serverLogs collects the connections of MCP servers, and writes them to the audit at
// intervals, so that neither the audit nor memory grows with their number.
type serverLogs struct {
	write func(ctx context.Context, s haft.MCPServer, list []service.ServerConnections, more int) error
	fail  func(s haft.MCPServer, err error)
	every time.Duration

	mu  sync.Mutex
	all map[*connectionLog]bool // that have something to write
}

// newLogs returns logs that are written to the audit.
func (u *Servers) newLogs() *serverLogs {
	return &serverLogs{
		every: logEvery, all: map[*connectionLog]bool{},
		write: func(ctx context.Context, s haft.MCPServer, list []service.ServerConnections, more int) error {
			rules := u.cfg.Rules()
			if rules == nil {
				return errNotYet()
			}
			return rules.LogServerConnections(ctx, s, list, more)
		},
		fail: func(s haft.MCPServer, err error) {
			u.cfg.Logger.Error("connections of an MCP server are not in the audit", "org", s.Org, "server",
				s.Name, "error", err)
		},
	}
}

// connectionLog collects the connections of one server.
type connectionLog struct {
	to       *serverLogs
	server   haft.MCPServer
	redactor *secret.Redactor

	mu    sync.Mutex
	list  []service.ServerConnections
	more  int
	timer *time.Timer
}

// of returns the log of a server. It redacts the secrets of the server: programs choose the
// host names that they connect to.
func (c *serverLogs) of(s haft.MCPServer, secrets map[string]string) *connectionLog {
	var values []secret.Named
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		values = append(values, secret.Named{Name: name, Value: secret.New(secrets[name])})
		if _, token, ok := strings.Cut(secrets[name], " "); ok { // Bearer …
			values = append(values, secret.Named{Name: name, Value: secret.New(token)})
		}
	}
	s.Headers, s.Env, s.OAuth = nil, nil, nil
	return &connectionLog{to: c, server: s, redactor: secret.NewRedactor(secret.Config{Values: values, Formats: true})}
}

// begun adds a connection that has begun and may last.
func (l *connectionLog) begun(c route.Connection) { l.add(c, 1) }

// ended adds a connection that begun did not add.
func (l *connectionLog) ended(c route.Connection) { l.add(c, 1) }

// over adds the end of a connection. If begun has added it, only the transferred bytes are
// new.
func (l *connectionLog) over(c route.Connection, noted bool) {
	if noted {
		l.add(c, 0)
		return
	}
	l.add(c, 1)
}

// add adds count connections to the entry that is written next.
func (l *connectionLog) add(c route.Connection, count int) {
	c.To, c.Refused = l.redactor.Text(c.To), l.redactor.Text(c.Refused)
	l.mu.Lock()
	defer l.mu.Unlock()
	at := slices.IndexFunc(l.list, func(o service.ServerConnections) bool {
		return o.To == c.To && o.Rule == c.Rule && o.Refused == c.Refused && slices.Equal(o.Secrets, c.Secrets)
	})
	switch {
	case at >= 0:
		o := &l.list[at]
		o.Count, o.Up, o.Down, o.Took = o.Count+count, o.Up+c.Up, o.Down+c.Down, o.Took+c.Took
	case len(l.list) < maxPlaces:
		l.list = append(l.list, service.ServerConnections{Connection: c, Count: count})
	default:
		l.more += count
	}
	if l.timer == nil {
		l.timer = time.AfterFunc(l.to.every, l.flush)
		l.to.mu.Lock()
		l.to.all[l] = true
		l.to.mu.Unlock()
	}
}

// flush writes the collected connections.
func (l *connectionLog) flush() {
	l.mu.Lock()
	list, more := l.list, l.more
	l.list, l.more = nil, 0
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
	l.to.mu.Lock()
	delete(l.to.all, l)
	l.to.mu.Unlock()
	l.mu.Unlock()
	if len(list) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), logTime) //nolint:forbidigo // it is nobody's request
	defer cancel()
	if err := l.to.write(ctx, l.server, list, more); err != nil {
		l.to.fail(l.server, fmt.Errorf("write the connections of an MCP server to the audit: %w", err))
	}
}

// flushAll writes the collected connections of every server.
func (c *serverLogs) flushAll() {
	c.mu.Lock()
	logs := slices.Collect(maps.Keys(c.all))
	c.mu.Unlock()
	for _, l := range logs {
		l.flush()
	}
}
