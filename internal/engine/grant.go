package engine

import (
	"context"
	"slices"

	"haft"
	"haft/internal/callenv"
	"haft/internal/egress/route"
	"haft/policy"
)

// A grant is what a call that runs was given besides the permission to run. When
// permissions change, [authorizer.stillGranted] holds it against what a fresh call would be
// given. Only the goroutine of the execution writes it, with callTable.mu held.
type grant struct {
	digest string     // the version that runs; "" until the arguments are final
	level  haft.Level // the isolation that was demanded of the sandbox
	// hosts are those that the sandbox reaches, as tool or organisation name them, and
	// bound the secrets for which a built-in tool is given hosts.
	hosts []string
	bound map[string]callenv.Bound
	judge *route.Judge // of its connections; nil while it can make none
	here  *route.Local // of a built-in tool; nil if it has none
}

// grantVersion notes the version that runs from now on, and how well it has to be
// isolated.
func (au *authorizer) grantVersion(ex *execution) {
	level := au.isolation(ex)
	au.calls.mu.Lock()
	defer au.calls.mu.Unlock()
	ex.final, ex.granted.digest, ex.granted.level = ex.args, ex.tool.Tool.Version.Digest, level
}

// grantNetwork notes what the call reaches from now on. It does so before the route
// is opened: a review that does not see it comes before [authorizer.outdated] is asked.
func (n *egressPlanner) grantNetwork(ex *execution, plan route.Plan, j *route.Judge) {
	n.calls.mu.Lock()
	defer n.calls.mu.Unlock()
	ex.granted.hosts, ex.granted.bound, ex.granted.judge, ex.granted.here = plan.Hosts, ex.env.Bound, j, ex.here
}

// stillGranted returns a [*withdrawal] if a call that runs was given more than it would
// be given now: hosts that tool, organisation or policy do not let it reach any more,
// open connections of a built-in tool that a rule forbids now, or less isolation than is
// demanded now. Otherwise the connections that it makes from now on are held against the
// rules of now. The probe is the call as if it came now, with a decision that lets it run;
// its seen says how many changes there were before its rules were read.
func (au *authorizer) stillGranted(ctx context.Context, probe *execution, g grant) error {
	if len(g.bound) > 0 {
		probe.env.Bound = g.bound // with what was fetched for the call, which nobody asks for again
	}
	plan, err := au.egress.egressFor(ctx, probe)
	if err != nil {
		return withdrawn(err)
	}
	if level := au.isolation(probe); !g.level.AtLeast(level) {
		return &withdrawal{"the call has to run with the isolation " + string(level) + " now"}
	}
	for _, entry := range g.hosts {
		if !slices.ContainsFunc(plan.Hosts, func(have string) bool { return au.egress.plan.Covers(have, entry) }) {
			return &withdrawal{"the call may not reach " + entry + " any more"}
		}
	}
	if g.judge == nil {
		return nil
	}
	was := g.judge.Follow(plan.Networks, probe.seen)
	if rule := policy.Narrower(was, plan.Networks); rule != "" && g.here.Opened() {
		return &withdrawal{"the rule " + rule + " of the policy forbids connections that the call could make before"}
	}
	return nil
}
