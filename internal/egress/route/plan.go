package route

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"haft"
	"haft/policy"
)

// Servers has the MCP servers of organisations.
type Servers interface {
	MCPServer(ctx context.Context, org, name string) (*haft.MCPServer, error)
}

// A Planner decides what calls may reach.
type Planner struct {
	guard   Guard
	servers Servers
}

// NewPlanner makes a planner. Without a guard, calls that want a network are refused.
func NewPlanner(guard Guard, servers Servers) *Planner { return &Planner{guard, servers} }

// A Subject is a call as far as it matters for what it may reach.
type Subject struct {
	Org      string
	Version  haft.Version    // of its tool
	Default  []string        // the hosts of a script that names none, by its organisation
	Binds    bool            // it has bound secrets
	Named    []string        // the hosts of the bound secrets that its arguments name
	Decision policy.Decision // that lets it run
}

// A Plan is what one call may reach.
type Plan struct {
	// Hosts are those that its sandbox reaches, as tool or organisation name them.
	// None means that it has no network.
	Hosts []string
	// Local says that it sends requests from this process.
	Local bool
	// Networks are the rules that bound every connection of it.
	Networks []policy.Network
}

// A Refusal is the error about a call that wants to reach more than it may.
type Refusal struct {
	Kind    haft.FailureKind
	Message string
}

// Error returns the message.
func (r *Refusal) Error() string { return r.Message }

// Plan decides what a call may reach, of whatever kind its tool is, from the
// settings of the tool, the sandbox configuration of its organisation, and the rules of the
// policy about the network. It is the one place where that is decided. A call
// that wants more than it may have is refused with a [*Refusal]: nothing is weakened in silence.
//
//	a script              the hosts that the tool names, or its organisation if it names none
//	a built-in tool       all public hosts; with bound secrets, those that the tool names for them, or, if it names
//	                      "full", the hosts of the secrets that the arguments name
//	a tool of an MCP      no more than the policy lets the server reach, since the connections of a
//	server                server cannot be assigned to calls: see [Planner.ServerHosts]
//
// A fallback and a call that code makes are calls of their own, and decided here too.
func (p *Planner) Plan(ctx context.Context, s Subject) (Plan, error) {
	plan := Plan{Networks: s.Decision.Networks}
	switch s.Version.Kind {
	case haft.KindMCP:
		return plan, p.fitServer(ctx, s)
	case haft.KindBuiltin:
		if plan.Local = true; s.Binds {
			plan.Hosts = s.Version.Settings.Network
		}
		if slices.Contains(plan.Hosts, NetworkFull) {
			plan.Hosts = s.Named
		}
	default:
		if plan.Hosts = s.Version.Settings.Network; len(plan.Hosts) == 0 {
			plan.Hosts = s.Default
		}
	}
	if len(plan.Hosts) == 0 {
		return plan, nil
	}
	if p.guard == nil {
		return plan, &Refusal{haft.FailIsolation, "a network of named hosts cannot be given here"}
	}
	hosts, err := p.hostsOf(plan.Hosts)
	if err != nil {
		return plan, &Refusal{haft.FailDenied, "the network of the tool cannot be read: " + haft.MessageOf(err)}
	}
	if slices.Contains(plan.Hosts, NetworkFull) && len(plan.Networks) == 0 {
		return plan, &Refusal{haft.FailDenied,
			"the tool wants every host, which a rule of the policy has to allow: network: [\"*\"]"}
	}
	if _, refused := s.Decision.Reach(hosts); len(refused) > 0 {
		return plan, &Refusal{haft.FailDenied, "policy does not let the tool reach " + strings.Join(refused, ", ")}
	}
	return plan, nil
}

// hostsOf returns which hosts entries of a network are about, for policy.
func (p *Planner) hostsOf(entries []string) ([]string, error) {
	hosts := make([]string, len(entries))
	for i, entry := range entries {
		if entry == NetworkFull {
			hosts[i] = "*"
			continue
		}
		var err error
		if hosts[i], err = p.guard.Host(entry); err != nil {
			return nil, err
		}
	}
	return hosts, nil
}

// Covers reports whether an entry of a tool's network is within another: it is the
// same, or the other is a host with all its paths and methods.
func (p *Planner) Covers(have, entry string) bool {
	if have == NetworkFull || have == entry {
		return true
	}
	if p.guard == nil || entry == NetworkFull {
		return false
	}
	host, err := p.guard.Host(entry)
	whole, wholeErr := p.guard.Host(have)
	return err == nil && wholeErr == nil && whole == have && whole == host
}

// ServerHosts are the hosts that an MCP server can reach: those of its command, or where it
// is.
func (p *Planner) ServerHosts(s haft.MCPServer) ([]string, error) {
	if s.Transport == haft.MCPStdio {
		if len(s.Network) > 0 && p.guard == nil {
			return nil, &haft.Error{Code: haft.CodeInvalid, Message: "a network of named hosts cannot be given here"}
		}
		return p.hostsOf(s.Network)
	}
	u, err := url.Parse(s.URL)
	if err != nil || u.Hostname() == "" {
		return nil, &haft.Error{Code: haft.CodeInvalid, Message: "the address of the server cannot be read"}
	}
	host := u.Hostname()
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return []string{host + ":" + cmp.Or(u.Port(), map[string]string{"http": "80"}[u.Scheme], "443")}, nil
}

// fitServer refuses a call of a tool of an MCP server that can reach more than the
// rules allow this call. The connections of a server cannot be assigned to one call or
// another, so its whole network has to fit.
func (p *Planner) fitServer(ctx context.Context, c Subject) error {
	if len(c.Decision.Networks) == 0 {
		return nil
	}
	s, err := p.servers.MCPServer(ctx, c.Org, c.Version.Server)
	if err != nil {
		return err
	}
	hosts, err := p.ServerHosts(*s)
	if err != nil {
		return &Refusal{haft.FailDenied, "the network of the MCP server cannot be read: " + haft.MessageOf(err)}
	}
	if _, refused := c.Decision.Reach(hosts); len(refused) > 0 {
		return &Refusal{haft.FailDenied,
			fmt.Sprintf("policy does not let the tool reach %s, which its MCP server %s can reach; "+
				"a server cannot be given another network for one tool: narrow that of the server, or widen the rule",
				strings.Join(refused, ", "), s.Name)}
	}
	return nil
}
