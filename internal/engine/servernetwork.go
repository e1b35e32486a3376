package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"haft"
	"haft/internal/audit"
	"haft/internal/store"
	"haft/policy"
)

// serverNetworks are the rules that bound what an MCP server reaches besides the calls
// of its tools: its command while it runs, and what Haft sends to its address to list
// tools or log in. They are those that match the organisation without a user, for the
// server by its name or for all of its tools.
func (e *Engine) serverNetworks(ctx context.Context, s haft.MCPServer) ([]policy.Network, error) {
	rules, err := e.policyOf(ctx, s.Org)
	if err != nil {
		return nil, err
	}
	var all []policy.Network
	for _, name := range []string{s.Name, s.Name + haft.MCPSeparator + "*"} {
		// as the registry keeps them
		tool := haft.Tool{Org: s.Org, Name: name, Category: "mcp", Tags: []string{"mcp:" + s.Name},
			Version: haft.Version{Kind: haft.KindMCP, Server: s.ID}}
		networks, err := rules.Networks(policy.Request{Principal: haft.Principal{Org: s.Org}, Tool: tool,
			Args: json.RawMessage("{}")})
		if err != nil {
			return nil, err
		}
		all = append(all, networks...)
	}
	return all, nil
}

// ServerForbids returns the rule by which an MCP server may not reach a host and port
// now, or "". Where the policy cannot be had, nothing may be reached.
func (e *Engine) ServerForbids(ctx context.Context, s haft.MCPServer, host string, port uint16) (rule string) {
	networks, err := e.serverNetworks(ctx, s)
	if err != nil {
		e.cfg.Logger.Error("the policy for the network of an MCP server cannot be evaluated", "org", s.Org, "server",
			s.Name, "error", err)
		return "that cannot be evaluated"
	}
	return policy.Forbids(networks, host, port)
}

// CheckServerNetwork reports why policy does not let an MCP server have the network
// that it is defined with, or be at its address.
func (e *Engine) CheckServerNetwork(ctx context.Context, s haft.MCPServer) error {
	networks, err := e.serverNetworks(ctx, s)
	if err != nil {
		return err
	}
	if len(networks) == 0 {
		if slices.Contains(s.Network, networkFull) {
			return &haft.Error{Code: haft.CodeDenied,
				Message: "the MCP server wants every host, which a rule of the policy has to allow: network: [\"*\"]"}
		}
		return nil
	}
	refused, err := e.serverBeyond(s, policy.Decision{Networks: networks})
	if err != nil {
		return err
	}
	if len(refused) > 0 {
		return &haft.Error{Code: haft.CodeDenied, Message: fmt.Sprintf("policy does not let the MCP server %s reach %s",
			s.Name, strings.Join(refused, ", "))}
	}
	return nil
}

// serverBeyond returns the hosts of a server that a decision does not let it reach.
func (e *Engine) serverBeyond(s haft.MCPServer, d policy.Decision) ([]string, error) {
	hosts, err := e.serverHosts(s)
	if err != nil {
		return nil, err
	}
	_, refused := d.Reach(hosts)
	return refused, nil
}

// serverHosts are the hosts that a server can reach: those of its command, or where it
// is.
func (e *Engine) serverHosts(s haft.MCPServer) ([]string, error) {
	if s.Transport == haft.MCPStdio {
		if len(s.Network) > 0 && e.cfg.Egress == nil {
			return nil, &haft.Error{Code: haft.CodeInvalid, Message: "a network of named hosts cannot be given here"}
		}
		return e.hostsOf(s.Network)
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
func (e *Engine) fitServer(ctx context.Context, ex *execution) error {
	if len(ex.decision.Networks) == 0 {
		return nil
	}
	s, err := e.store.MCPServer(ctx, ex.call.Principal.Org, ex.tool.Tool.Version.Server)
	if err != nil {
		return err
	}
	refused, err := e.serverBeyond(*s, ex.decision)
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

// ServerContacts is connections of an MCP server to one place.
type ServerConnections struct {
	Connection
	// Count is how many there were. 0 means that more went over those that an earlier
	// entry tells of.
	Count int `json:"count"`
}

// LogServerContacts writes to the audit where an MCP server was connected to, or was
// refused. More is how many connections are left out.
func (e *Engine) LogServerConnections(ctx context.Context, s haft.MCPServer, list []ServerConnections, more int) error {
	body := struct {
		Server      string              `json:"server"`
		ID          string              `json:"id"`
		Connections []ServerConnections `json:"connections"`
		More        int                 `json:"left_out,omitempty"`
	}{s.Name, s.ID, list, more}
	raw, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode an entry of the audit: %w", err)
	}
	actor := haft.Principal{Org: s.Org, User: "mcp:" + s.Name}
	entry := audit.Entry{Org: s.Org, Time: time.Now(), Kind: "mcp_server.connections", Actor: actor, Body: raw}
	return e.store.Commit(ctx, store.Batch{Audit: []audit.Entry{entry}})
}
