package service

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"haft"
	"haft/internal/audit"
	"haft/internal/egress/route"
	"haft/internal/store"
	"haft/policy"
)

// serverNetworks are the rules that bound what an MCP server reaches besides the calls
// of its tools: its command while it runs, and what Haft sends to its address to list
// tools or log in. They are those that match the organisation without a user, for the
// server by its name or for all of its tools.
func (u *ServerManager) serverNetworks(ctx context.Context, s haft.MCPServer) ([]policy.Network, error) {
	rules, err := u.decisions.Rules(ctx, s.Org)
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
func (u *ServerManager) ServerForbids(ctx context.Context, s haft.MCPServer, host string, port uint16) (rule string) {
	networks, err := u.serverNetworks(ctx, s)
	if err != nil {
		u.cfg.Logger.Error("the policy for the network of an MCP server cannot be evaluated", "org", s.Org, "server",
			s.Name, "error", err)
		return "that cannot be evaluated"
	}
	return policy.Forbids(networks, host, port)
}

// CheckServerNetwork reports why policy does not let an MCP server have the network
// that it is defined with, or be at its address.
func (u *ServerManager) CheckServerNetwork(ctx context.Context, s haft.MCPServer) error {
	networks, err := u.serverNetworks(ctx, s)
	if err != nil {
		return err
	}
	if len(networks) == 0 {
		if slices.Contains(s.Network, route.NetworkFull) {
			return &haft.Error{Code: haft.CodeDenied,
				Message: "the MCP server wants every host, which a rule of the policy has to allow: network: [\"*\"]"}
		}
		return nil
	}
	hosts, err := u.decisions.ServerHosts(s)
	if err != nil {
		return err
	}
	if _, refused := (policy.Decision{Networks: networks}).Reach(hosts); len(refused) > 0 {
		return &haft.Error{Code: haft.CodeDenied, Message: fmt.Sprintf("policy does not let the MCP server %s reach %s",
			s.Name, strings.Join(refused, ", "))}
	}
	return nil
}

// A ServerConnections is connections of an MCP server to one place.
type ServerConnections struct {
	route.Connection
	// Count is how many there were. 0 means that more went over those that an earlier
	// entry tells of.
	Count int `json:"count"`
}

// LogServerConnections writes to the audit where an MCP server was connected to, or was
// refused. More is how many connections are left out.
func (u *ServerManager) LogServerConnections(ctx context.Context, s haft.MCPServer, list []ServerConnections,
	more int) error {
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
	return u.store.Commit(ctx, store.Batch{Audit: []audit.Entry{entry}})
}
