package engine

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"strings"

	"haft"
	"haft/policy"
)

// serverBeyond returns the hosts of a server that a decision does not let it reach.
func (n *egressPlanner) serverBeyond(s haft.MCPServer, d policy.Decision) ([]string, error) {
	hosts, err := n.ServerHosts(s)
	if err != nil {
		return nil, err
	}
	_, refused := d.Reach(hosts)
	return refused, nil
}

// ServerHosts are the hosts that a server can reach: those of its command, or where it
// is.
func (n *egressPlanner) ServerHosts(s haft.MCPServer) ([]string, error) {
	if s.Transport == haft.MCPStdio {
		if len(s.Network) > 0 && n.cfg.Egress == nil {
			return nil, &haft.Error{Code: haft.CodeInvalid, Message: "a network of named hosts cannot be given here"}
		}
		return n.hostsOf(s.Network)
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
// rules allow this call. What the server does for one call cannot be told from what it
// does for another, so its whole network has to fit.
func (n *egressPlanner) fitServer(ctx context.Context, ex *execution) error {
	if len(ex.decision.Networks) == 0 {
		return nil
	}
	s, err := n.store.MCPServer(ctx, ex.call.Principal.Org, ex.tool.Tool.Version.Server)
	if err != nil {
		return err
	}
	refused, err := n.serverBeyond(*s, ex.decision)
	if err != nil {
		return noEgress(haft.FailDenied, "the network of the MCP server cannot be read: "+haft.MessageOf(err))
	}
	if len(refused) > 0 {
		return noEgress(haft.FailDenied,
			fmt.Sprintf("policy does not let the tool reach %s, which its MCP server %s can reach; "+
				"a server cannot be given another network for one tool: narrow that of the server, or widen the rule",
				strings.Join(refused, ", "), s.Name))
	}
	return nil
}
