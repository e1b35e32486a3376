package policy

import (
	"path"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"haft"
)

// An mcpRule is one entry of the section mcp: which organisations may have MCP
// servers that are commands of this machine, and which directories those may see.
type mcpRule struct {
	orgs     names
	commands []string
	mounts   []string
}

// mcp reads one entry of the section.
func (c *compiler) mcp(n ast.Node) {
	var r mcpRule
	c.object(n, "an entry of mcp", map[string]field{
		"orgs":     func(n ast.Node) { r.orgs = c.texts(n, "orgs") },
		"commands": func(n ast.Node) { r.commands = c.texts(n, "commands") },
		"mounts":   func(n ast.Node) { r.mounts = c.texts(n, "mounts") },
	})
	if len(r.orgs) == 0 {
		c.fail(n, "an entry of mcp says for which orgs it is")
	}
	for _, m := range r.mounts {
		if m != "*" && (!path.IsAbs(m) || path.Clean(m) != m) {
			c.fail(n, "a mount is a clean absolute path, or * for all")
		}
	}
	c.layer.mcp = append(c.layer.mcp, r)
}

// mcpRules are the entries of the server's document. What an organisation writes
// itself gives it nothing: the machine is not its own.
func (p *Policy) mcpRules() []mcpRule {
	var list []mcpRule
	if p == nil {
		return nil
	}
	for _, l := range p.layers {
		if !l.forced {
			list = append(list, l.mcp...)
		}
	}
	return list
}

// MayRun reports why an organisation may not have an MCP server that is this
// command, by the name or path of its program.
func (p *Policy) MayRun(org, program string) error {
	if strings.Contains(program, "/") && (!path.IsAbs(program) || path.Clean(program) != program) {
		// A pattern is held against what runs: /opt/tools/../../bin/bash is not in /opt/tools.
		return &haft.Error{Code: haft.CodeDenied,
			Message: "the program of an MCP server is a name, or a clean absolute path"}
	}
	for _, r := range p.mcpRules() {
		run := func(pattern string) bool { return glob(pattern, program) }
		if r.orgs.match(org) && slices.ContainsFunc(r.commands, run) {
			return nil
		}
	}
	return &haft.Error{Code: haft.CodeDenied, Message: "the policy of the server does not let this organisation run " +
		"MCP servers with that command: see mcp in the policy"}
}

// MayMount reports why the command of an MCP server of an organisation may not see
// a directory of the host.
func (p *Policy) MayMount(org, dir string) error {
	for _, r := range p.mcpRules() {
		everything := slices.Contains(r.mounts, "*") || slices.Contains(r.mounts, "/")
		if r.orgs.match(org) && (everything || r.coversPath(dir)) {
			return nil
		}
	}
	return &haft.Error{Code: haft.CodeDenied,
		Message: "the policy of the server does not let this organisation mount that directory: see mcp in the policy"}
}

// OthersMount reports whether a path of the host lies in a directory that the policy gives
// to other organisations, by name, and not to this one: they decide what is there. Who may
// mount everything is given nothing by name.
func (p *Policy) OthersMount(org, name string) bool {
	others := false
	for _, r := range p.mcpRules() {
		if r.coversPath(name) && r.orgs.match(org) {
			return false
		}
		others = others || r.coversPath(name)
	}
	return others
}

// coversPath reports whether a path is a mount of the rule, or lies in one, other than the
// whole of the machine.
func (r mcpRule) coversPath(name string) bool {
	return slices.ContainsFunc(r.mounts, func(m string) bool {
		return m != "*" && m != "/" && (m == name || strings.HasPrefix(name, m+"/"))
	})
}
