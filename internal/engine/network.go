package engine

import (
	"context"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"

	"haft"
	"haft/executor"
	"haft/internal/callenv"
	"haft/internal/secret"
	"haft/internal/store"
	"haft/policy"
	"haft/sandbox"
)

// An egressPlanner decides what calls reach, and gives them the connection.
type egressPlanner struct {
	cfg   *Config
	store *store.Store
	calls *callTable
	env   *callenv.Builder
}

// NetworkFull is how a tool asks for every public host. Policy must name it.
const NetworkFull = "full"

// An EgressGuard makes the ways out of sandboxes.
type EgressGuard interface {
	// Open makes the way out of one call.
	Open(ctx context.Context, w EgressRequest) (*EgressRoute, error)
	// Host returns which hosts an entry of a tool's network is about, for policy.
	Host(entry string) (string, error)
}

// An EgressRequest is where one call wants to go.
type EgressRequest struct {
	Call haft.Call
	// Hosts are what it may reach, as the tool names them.
	Hosts []string
	// Bound are secrets that are put in on the way, the most wanted first.
	Bound []callenv.Bound
	// Forbids returns the rule of the policy by which a host and port may not be
	// reached all the same, or "". It is asked for every connection. Nil forbids nothing.
	Forbids func(host string, port uint16) (rule string)
	// Here says that the tool runs in this process: it is given a way to send requests
	// to every host that the policy does not forbid, and Hosts and Bound do not count.
	Here bool
	// Record is told of each connection, for what lasts longer than a call. Nil means
	// that the session keeps them until it is closed.
	Record func(Connection)
}

// An EgressRoute is a way out that was made.
type EgressRoute struct {
	Session EgressSession
	// Wrap bounds and records requests of this process; nil unless the way is Here.
	Wrap func(next http.RoundTripper) http.RoundTripper
	// CA has certificates that the call's programs have to trust; nil if none.
	CA []byte
	// Stand is what programs are given instead of bound secrets, by name.
	Stand map[string]string
	// Leased are tokens that bound secrets were exchanged for, and Failed says why
	// that could not be done.
	Leased []secret.Named
	Failed map[string]error
	// Unreached are bound secrets whose hosts are not among those of the way.
	Unreached []string
}

// An EgressSession is the way out of one call, and of no other.
type EgressSession interface {
	// Serve serves one connection of the sandbox, and returns when it is over.
	Serve(ctx context.Context, conn net.Conn)
	// Refused reports whether a connection was refused.
	Refused() bool
	// Close ends the session and tells what went through it, and which tokens were
	// fetched for it.
	Close() ([]Connection, []secret.Named)
}

// A Connection is one connection that a call made, or was refused.
type Connection struct {
	// To is where: host and port, and the method where it is known.
	To string `json:"to"`
	// Rule is what allowed it.
	Rule string `json:"rule,omitempty"`
	// Refused says why it was not made, and what to ask for.
	Refused string      `json:"refused,omitempty"`
	Secrets []string    `json:"secrets,omitempty"`
	Up      int64       `json:"up"`
	Down    int64       `json:"down"`
	Took    haft.Millis `json:"took_ms"`
}

// maxConnections is how many connections of a call the audit keeps.
const maxConnections = 100

// An egressPlan is what one call may reach.
type egressPlan struct {
	// hosts are those that its sandbox reaches, as tool or organisation name them.
	// None means that it has no network.
	hosts []string
	// here says that it sends requests from this process.
	here bool
	// networks are the rules that bound every connection of it.
	networks []policy.Network
}

// egressFor decides what a call may reach, of whatever kind its tool is, from the
// settings of the tool, what its organisation says of sandboxes, and the rules of the
// policy that speak of the network. It is the one place where that is decided. A call
// that wants more than it may have is refused: nothing is weakened in silence.
//
//	a script              the hosts that the tool names, or its organisation if it names none
//	a built-in tool       all public hosts; with bound secrets, those that the tool names for them
//	a tool of an MCP      no more than the policy lets the server reach, which cannot be
//	server                told apart by call: see [Engine.ServerHosts]
//
// A fallback and a call that code makes are calls of their own, and decided here too.
func (n *egressPlanner) egressFor(ctx context.Context, ex *execution) (egressPlan, error) {
	v := ex.tool.Tool.Version
	plan := egressPlan{networks: ex.decision.Networks}
	switch v.Kind {
	case haft.KindMCP:
		return plan, n.fitServer(ctx, ex)
	case haft.KindBuiltin:
		if plan.here = true; len(ex.env.Bound) > 0 {
			plan.hosts = v.Settings.Network
		}
	default:
		if plan.hosts = v.Settings.Network; len(plan.hosts) == 0 {
			plan.hosts = ex.config.Network
		}
	}
	if len(plan.hosts) == 0 {
		return plan, nil
	}
	if n.cfg.Egress == nil {
		return plan, noEgress(haft.FailIsolation, "a network of named hosts cannot be given here")
	}
	hosts, err := n.hostsOf(plan.hosts)
	if err != nil {
		return plan, noEgress(haft.FailDenied, "the network of the tool cannot be read: "+haft.MessageOf(err))
	}
	if slices.Contains(plan.hosts, NetworkFull) && len(plan.networks) == 0 {
		return plan,
			noEgress(haft.FailDenied,
				"the tool wants every host, which a rule of the policy has to allow: network: [\"*\"]")
	}
	if _, refused := ex.decision.Reach(hosts); len(refused) > 0 {
		return plan, noEgress(haft.FailDenied, "policy does not let the tool reach "+strings.Join(refused, ", "))
	}
	return plan, nil
}

// noEgress refuses a call for what it wants to reach.
func noEgress(kind haft.FailureKind, message string) error {
	return refuse(haft.StatusDenied, kind, haft.RetryNever, message)
}

// hostsOf returns which hosts entries of a network are about, for policy.
func (n *egressPlanner) hostsOf(entries []string) ([]string, error) {
	hosts := make([]string, len(entries))
	for i, entry := range entries {
		if entry == NetworkFull {
			hosts[i] = "*"
			continue
		}
		var err error
		if hosts[i], err = n.cfg.Egress.Host(entry); err != nil {
			return nil, err
		}
	}
	return hosts, nil
}

// openEgress gives the call the way out that [Engine.egressFor] lets it have.
func (n *egressPlanner) openEgress(ctx context.Context, ex *execution, req *executor.Request) error {
	plan, err := n.egressFor(ctx, ex)
	if err != nil {
		return err
	}
	var j *judge
	switch {
	case plan.here && n.cfg.Egress != nil:
		ex.here = &localSession{egress: n, execution: ex}
		req.Egress, j = ex.here.wrap, &ex.here.judge
		j.follow(plan.networks, ex.seen)
	case len(plan.hosts) > 0:
		j = &judge{}
		j.follow(plan.networks, ex.seen)
	}
	if j != nil {
		n.grantNetwork(ex, plan, j)
	}
	if len(plan.hosts) == 0 {
		req.Bound = ex.env.SetPlaceholders(req.Env, nil, nil)
		for _, name := range ex.tool.Tool.Version.Settings.Secrets {
			ex.noteUnreached(name)
		}
		return nil
	}
	exit, err := n.cfg.Egress.Open(ctx, EgressRequest{Call: ex.named(), Hosts: plan.hosts,
		Bound: ex.env.BoundList(ex.tool.Tool.Version.Settings.Secrets), Forbids: j.forbids})
	if err != nil {
		return noEgress(haft.FailIsolation, "the network of the tool cannot be given: "+haft.MessageOf(err))
	}
	ex.session = exit.Session
	if ctx.Err() != nil {
		n.closeEgress(ex)
		return context.Cause(ctx)
	}
	if err := ex.failOnMissingTokens(exit.Failed); err != nil {
		n.closeEgress(ex)
		return err
	}
	for _, name := range exit.Unreached {
		ex.noteUnreached(name)
	}
	n.env.AddTokens(&ex.env, exit.Leased, ex.agent, ex.call.Env)
	req.Bound = ex.env.SetPlaceholders(req.Env, exit.Stand, exit.Unreached)
	req.Network, req.ServeEgress, req.CA = sandbox.NetworkEgress, exit.Session.Serve, exit.CA
	return nil
}

// A localSession is the way out of a built-in tool. It is made when the tool first wants
// it, since most do not.
type localSession struct {
	egress    *egressPlanner
	execution *execution // read until the session is over
	judge     judge

	mu   sync.Mutex
	exit *EgressRoute
	over bool
}

// wrap is [executor.Request.Egress].
func (h *localSession) wrap(next http.RoundTripper) http.RoundTripper {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.exit == nil && !h.over {
		exit, err := h.egress.cfg.Egress.Open(h.egress.calls.ctx,
			EgressRequest{Call: h.execution.named(), Forbids: h.judge.forbids, Here: true})
		if err != nil {
			h.egress.cfg.Logger.Error("the network of a built-in tool cannot be given", "call", h.execution.call.ID,
				"error", err)
			return closedSession{}
		}
		h.exit = exit
	}
	if h.over {
		return closedSession{}
	}
	return h.exit.Wrap(next)
}

// opened reports whether the tool has asked for the way out.
func (h *localSession) opened() bool {
	if h == nil {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.exit != nil
}

// refused reports whether a request was refused.
func (h *localSession) refused() bool {
	if h == nil {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.exit != nil && h.exit.Session.Refused()
}

// close ends the session and tells what went through it.
func (h *localSession) close() []Connection {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over = true; h.exit == nil {
		return nil
	}
	connections, _ := h.exit.Session.Close()
	return connections
}

// A closedSession lets nothing out.
type closedSession struct{}

// RoundTrip implements [http.RoundTripper].
func (closedSession) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		req.Body.Close()
	}
	return nil, &haft.Error{Code: haft.CodeDenied, Message: "the call has no network any more"}
}

// closeEgress closes the ways out and keeps what went through them, for the audit, and
// what was refused, for the model.
func (n *egressPlanner) closeEgress(ex *execution) {
	if ex.session == nil && ex.here == nil {
		return
	}
	ex.connections = append(ex.connections, ex.here.close()...)
	ex.here = nil
	if ex.session != nil {
		connections, leased := ex.session.Close()
		ex.connections = append(ex.connections, connections...)
		ex.session = nil
		n.env.AddTokens(&ex.env, leased, ex.agent, ex.call.Env)
	}
	var told []string
	for _, c := range ex.connections {
		if c.Refused != "" && !slices.Contains(told, c.Refused) && len(told) < 10 {
			told = append(told, c.Refused)
			ex.notices = append(ex.notices, "network: "+c.Refused)
		}
	}
}

// keptConnections returns as many connections as the audit keeps.
func (ex *execution) keptConnections() []Connection {
	return ex.connections[:min(len(ex.connections), maxConnections)]
}
