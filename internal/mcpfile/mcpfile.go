// Package mcpfile reads the files in which desktop clients list MCP servers.
package mcpfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"haft"
)

// fileServer is a server as desktop clients write it: Claude, Cursor, VS Code and
// others agree on most of it.
type fileServer struct {
	Type      string            `json:"type"`
	Transport string            `json:"transport"`
	Command   string            `json:"command"`
	Args      []string          `json:"args"`
	Env       map[string]string `json:"env"`
	URL       string            `json:"url"`
	ServerURL string            `json:"serverUrl"`
	Headers   map[string]string `json:"headers"`
	Disabled  bool              `json:"disabled"`
}

// Parse reads the servers of such a file, in the order of their names.
func Parse(raw []byte) ([]haft.MCPServer, error) {
	var doc struct {
		MCPServers map[string]fileServer `json:"mcpServers"`
		Servers    map[string]fileServer `json:"servers"` // of VS Code
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, fmt.Errorf("it is not JSON with mcpServers: %w", err)
	}
	all := doc.MCPServers
	if len(all) == 0 {
		all = doc.Servers
	}
	if len(all) == 0 {
		return nil, errors.New("it has no mcpServers")
	}
	var list []haft.MCPServer
	taken := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		f := all[name]
		s := haft.MCPServer{Name: serverName(name), Env: variables(f.Env), Headers: variables(f.Headers), URL: f.URL,
			Disabled: f.Disabled}
		if s.URL == "" {
			s.URL = f.ServerURL
		}
		if f.Command != "" {
			s.Command = append([]string{f.Command}, f.Args...)
		}
		switch strings.ToLower(f.Type + f.Transport) {
		case "sse":
			s.Transport = haft.MCPSSE
		case "http", "streamable-http", "streamablehttp":
			s.Transport = haft.MCPHTTP
		}
		if taken[s.Name] {
			return nil, fmt.Errorf("two servers of the file would be called %s here", s.Name)
		}
		taken[s.Name] = true
		list = append(list, s)
	}
	return list, nil
}

// serverName makes a name of a server of one that a person gave it.
func serverName(name string) string {
	var b strings.Builder
	for _, r := range name {
		switch {
		case r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z':
			b.WriteRune(r)
		default:
			if s := b.String(); s != "" && !strings.HasSuffix(s, "-") {
				b.WriteByte('-')
			}
		}
	}
	s := strings.Trim(b.String(), "-")
	if s == "" || s[0] >= '0' && s[0] <= '9' {
		s = "mcp-" + s
	}
	return strings.Trim(s[:min(len(s), 32)], "-")
}

// reference is how such files name variables: ${NAME}, ${env:NAME}, ${input:name}.
var reference = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\$\{(?:env:|input:)?([A-Za-z_][A-Za-z0-9_-]*)\}`)
})

// variables turns references of such files into ours.
func variables(values map[string]string) map[string]string {
	out := make(map[string]string, len(values))
	for k, v := range values {
		out[k] = reference().ReplaceAllStringFunc(v, func(m string) string {
			return "{{ " + strings.ReplaceAll(reference().FindStringSubmatch(m)[1], "-", "_") + " }}"
		})
	}
	return out
}
