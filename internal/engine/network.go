package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"haft"
	"haft/executor"
	"haft/internal/callenv"
	"haft/internal/egress/route"
	"haft/sandbox"
)

// An egressPlanner decides what calls reach, and gives them the egress route.
type egressPlanner struct {
	cfg   *Config
	calls *callTable
	env   *callenv.Builder
	plan  *route.Planner
}

// maxConnections is how many connections of a call the audit keeps.
const maxConnections = 100

// egressFor decides what a call may reach.
func (n *egressPlanner) egressFor(ctx context.Context, ex *execution) (route.Plan, error) {
	plan, err := n.plan.Plan(ctx, route.Subject{Org: ex.call.Principal.Org, Version: ex.tool.Tool.Version,
		Default: ex.place.Config.Network, Binds: len(ex.env.Bound) > 0, Named: ex.env.NamedHosts(string(ex.call.Args)),
		Decision: ex.decision})
	if r, ok := errors.AsType[*route.Refusal](err); ok {
		err = noEgress(r.Kind, r.Message)
	}
	return plan, err
}

// noEgress refuses a call for what it wants to reach.
func noEgress(kind haft.FailureKind, message string) error {
	return refuse(haft.StatusDenied, kind, haft.RetryNever, message)
}

// openEgress gives the call the egress route that egressFor lets it have.
func (n *egressPlanner) openEgress(ctx context.Context, ex *execution, req *executor.Request) error {
	plan, err := n.egressFor(ctx, ex)
	if err != nil {
		return err
	}
	var j *route.Judge
	switch {
	case plan.Local && n.cfg.Egress != nil:
		ex.here = route.NewLocal(n.calls.ctx, n.cfg.Egress, ex.named(), n.cfg.Logger)
		req.Egress, j = ex.here.Wrap, &ex.here.Judge
		j.Follow(plan.Networks, ex.seen)
	case len(plan.Hosts) > 0:
		j = &route.Judge{}
		j.Follow(plan.Networks, ex.seen)
	}
	if j != nil {
		n.grantNetwork(ex, plan, j)
	}
	if len(plan.Hosts) == 0 {
		req.Bound = ex.env.SetPlaceholders(req.Env, nil, nil)
		for _, name := range ex.tool.Tool.Version.Settings.Secrets {
			ex.noteUnreached(name)
		}
		return nil
	}
	exit, err := n.cfg.Egress.Open(ctx, route.Request{Call: ex.named(), Hosts: plan.Hosts, Bytes: req.Limits.Network,
		Bound: ex.env.BoundList(ex.tool.Tool.Version.Settings.Secrets), Forbids: j.Forbids})
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
	req.Redactor, req.Bound = ex.env.Redactor, ex.env.SetPlaceholders(req.Env, exit.Stand, exit.Unreached)
	req.Network, req.ServeEgress, req.CA = sandbox.NetworkEgress, exit.Session.Serve, exit.CA
	req.Route = fmt.Sprint(plan.Hosts, plan.Networks)
	return nil
}

// closeEgress closes the routes and keeps their connections, for the audit, and
// what was refused, for the model.
func (n *egressPlanner) closeEgress(ex *execution) {
	if ex.session == nil && ex.here == nil {
		return
	}
	ex.connections = append(ex.connections, ex.here.Close()...)
	ex.here = nil
	if ex.session != nil {
		connections, leased := ex.session.Close()
		ex.connections = append(ex.connections, connections...)
		ex.session = nil
		n.env.AddTokens(&ex.env, leased, ex.agent, ex.call.Env)
	}
	var noted []string
	ex.network = haft.Usage{}
	for _, c := range ex.connections {
		ex.network.Network, ex.network.Sent = ex.network.Network+c.Took, ex.network.Sent+c.Up
		ex.network.Received += c.Down
		if c.Refused != "" && !slices.Contains(noted, c.Refused) && len(noted) < 10 {
			noted = append(noted, c.Refused)
			ex.notices = append(ex.notices, "network: "+c.Refused)
		}
	}
}

// keptConnections returns as many connections as the audit keeps.
func (ex *execution) keptConnections() []route.Connection {
	return ex.connections[:min(len(ex.connections), maxConnections)]
}
