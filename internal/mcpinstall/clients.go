// Package mcpinstall writes Haft into the configuration of MCP clients and removes it again. It edits
// the text of a configuration, so that comments and the entries of others stay as they are.
package mcpinstall

import (
	"encoding/json"
	"path"
	"slices"
	"strings"

	"haft"
)

// A Client is a program that uses MCP servers.
type Client struct {
	// Name is what the command line calls it, and Title what people do.
	Name, Title string
	// group is the member of the configuration that has the servers.
	group string
	// project says that the configuration belongs to a directory of a project.
	project bool
	// file is the configuration below the home directory or the project, by operating system; ""
	// stands for all others.
	file map[string]string
	// more are further members of an entry.
	more map[string]string
}

// Clients lists the clients that are known.
func Clients() []Client {
	return []Client{
		{Name: "claude", Title: "Claude Desktop", group: "mcpServers", file: map[string]string{
			"darwin": "Library/Application Support/Claude/claude_desktop_config.json",
			"":       ".config/Claude/claude_desktop_config.json"}},
		{Name: "claude-code", Title: "Claude Code", group: "mcpServers", project: true,
			file: map[string]string{"": ".mcp.json"}, more: map[string]string{"type": "stdio"}},
		{Name: "cursor", Title: "Cursor", group: "mcpServers", file: map[string]string{"": ".cursor/mcp.json"}},
		{Name: "vscode", Title: "VS Code", group: "servers", project: true,
			file: map[string]string{"": ".vscode/mcp.json"}, more: map[string]string{"type": "stdio"}},
		{Name: "windsurf", Title: "Windsurf", group: "mcpServers",
			file: map[string]string{"": ".codeium/windsurf/mcp_config.json"}},
		{Name: "zed", Title: "Zed", group: "context_servers", file: map[string]string{"": ".config/zed/settings.json"},
			more: map[string]string{"source": "custom"}},
	}
}

// Find returns the client of a name.
func Find(name string) (Client, error) {
	all := Clients()
	i := slices.IndexFunc(all, func(c Client) bool { return c.Name == name })
	if i >= 0 {
		return all[i], nil
	}
	var names []string
	for _, c := range all {
		names = append(names, c.Name)
	}
	return Client{}, &haft.Error{Code: haft.CodeInvalid,
		Message: "the client is not known: name one of " + strings.Join(names, ", ")}
}

// A Place says where configurations are.
type Place struct {
	OS   string // as runtime.GOOS
	Home string
	// Config is $XDG_CONFIG_HOME, or empty.
	Config  string
	Project string
}

// find returns the directory that the configuration of a client is below, and its path there.
func (at Place) find(c Client) (base, name string) {
	name, ok := c.file[at.OS]
	if !ok {
		name = c.file[""]
	}
	if c.project {
		return at.Project, name
	}
	if rest, ok := strings.CutPrefix(name, ".config/"); ok && path.IsAbs(at.Config) {
		return at.Config, rest
	}
	return at.Home, name
}

// An Entry is how a client starts Haft.
type Entry struct {
	Command string   `json:"command"`
	Args    []string `json:"args"`
}

// value returns the entry as the client writes it.
func (c Client) value(e Entry) any {
	return struct {
		Type   string `json:"type,omitempty"`
		Source string `json:"source,omitempty"`
		Entry
	}{c.more["type"], c.more["source"], e}
}

// readEntry reads an entry of a configuration. It is empty if the entry has another form.
func readEntry(text []byte) Entry {
	var e Entry
	if json.Unmarshal(text, &e) != nil {
		return Entry{}
	}
	return e
}

// isOurs reports whether an entry of a configuration starts haft mcp, as e does or from another place.
func isOurs(text []byte, e Entry) bool {
	old := readEntry(text)
	return (path.Base(old.Command) == "haft" || old.Command == e.Command) && len(old.Args) > 0 && old.Args[0] == "mcp"
}
