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
	"haft/internal/egress/session"
	"haft/internal/engine"
	"haft/internal/mcp/command"
	"haft/internal/secret"
	"haft/internal/service"
)

// Bounds of what the audit is told of the connections of an MCP server.
const (
	// logEvery is how long connections are gathered for one entry.
	logEvery = 30 * time.Second
	// maxPlaces is how many different places one entry names.
	maxPlaces = 100
	// logTime bounds how long writing an entry may take.
	logTime = 10 * time.Second
)

// errNotYet refuses what nobody can decide yet.
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

// route makes the way out of the command of an MCP server: to the hosts that it was
// given, as far as the policy of its organisation allows, when it starts and at each
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
	exit, err := u.cfg.Egress.Open(ctx, engine.EgressRequest{
		Call: haft.Call{Tool: s.Name, Principal: haft.Principal{Org: s.Org}}, Hosts: s.Network, Record: log.ended,
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

// egress is [upstream.Config.Egress]: what Haft itself sends for a server, to its
// address or to others that it names, is bound by the policy of its organisation.
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

// serverLogs gathers the connections of MCP servers, and writes them to the audit
// from time to time, so that neither it nor memory grows with their number.
type serverLogs struct {
	write func(ctx context.Context, s haft.MCPServer, list []service.ServerConnections, more int) error
	fail  func(s haft.MCPServer, err error)
	every time.Duration

	mu  sync.Mutex
	all map[*connectionLog]bool // that have something to write
}

// newLogs makes one that writes to the audit.
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

// connectionLog gathers the connections of one server.
type connectionLog struct {
	to       *serverLogs
	server   haft.MCPServer
	redactor *secret.Redactor

	mu    sync.Mutex
	list  []service.ServerConnections
	more  int
	timer *time.Timer
}

// of returns the log of a server. What is secret of it is kept out: programs choose the
// names of the hosts that they ask for.
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

// begun notes a connection that has begun and may last.
func (l *connectionLog) begun(c engine.Connection) { l.add(c, 1) }

// ended notes a connection that nothing was noted of before.
func (l *connectionLog) ended(c engine.Connection) { l.add(c, 1) }

// over notes the end of a connection: of one whose beginning was noted, only how much
// went over it is new.
func (l *connectionLog) over(c engine.Connection, noted bool) {
	if noted {
		l.add(c, 0)
		return
	}
	l.add(c, 1)
}

// add adds connections to a place to what is to be written.
func (l *connectionLog) add(c engine.Connection, count int) {
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

// flush writes what was gathered.
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

// flushAll writes what was gathered of every server.
func (c *serverLogs) flushAll() {
	c.mu.Lock()
	logs := slices.Collect(maps.Keys(c.all))
	c.mu.Unlock()
	for _, l := range logs {
		l.flush()
	}
}
