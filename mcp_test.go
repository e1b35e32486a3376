package haft_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"haft"
)

func TestMCPToolName_is_a_tool_name_and_distinguishes_tools(t *testing.T) {
	seen := map[string]string{}
	for _, tool := range []string{
		"read", "read_text", "read.text", "read text", "read/text", "", "é", "ü", "__proto__", "a__b",
		strings.Repeat("x", 200), strings.Repeat("x", 201), strings.Repeat("x", 57), strings.Repeat("x", 58),
	} {
		name := haft.MCPToolName("files", tool)
		if err := haft.CheckToolName(name); err != nil {
			t.Errorf("MCPToolName(%.10q) = %q: %v", tool, name, err)
		}
		if other, ok := seen[name]; ok {
			t.Errorf("MCPToolName gives %q to %.10q and %.10q", name, tool, other)
		}
		seen[name] = tool
		if got := haft.ServerOf(name); got != "files" {
			t.Errorf("ServerOf(%q) = %q", name, got)
		}
	}
	if got := haft.MCPToolName("files", "read_text"); got != "files__read_text" {
		t.Errorf("MCPToolName of a plain name = %q", got)
	}
}

func TestCheckServerName(t *testing.T) {
	for name, ok := range map[string]bool{
		"files": true, "my-files": true, "a_b": true, "F2": true,
		"": false, "a__b": false, "a_": false, "_a": false, "-a": false, "2a": false, "a.b": false, "a b": false,
		strings.Repeat("n", 32): true, strings.Repeat("n", 33): false,
	} {
		if err := haft.CheckServerName(name); (err == nil) != ok {
			t.Errorf("CheckServerName(%q) = %v, want ok %v", name, err, ok)
		}
	}
}

// TestMCPServer_Origin_after_reload: what is empty when a server is added is absent when
// it is read again, and that is no other server.
func TestMCPServer_Origin_after_reload(t *testing.T) {
	added := haft.MCPServer{Transport: haft.MCPHTTP, URL: "https://example.com/mcp", Command: []string{},
		Requirements: haft.Requirements{Pip: []string{}, NPM: []string{}}}
	text, err := json.Marshal(added)
	if err != nil {
		t.Fatal(err)
	}
	var read haft.MCPServer
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	if added.Origin() != read.Origin() {
		t.Error("a server has another origin after it was read again")
	}
	read.URL = "https://example.com/other"
	if added.Origin() == read.Origin() || added.Audience() != read.Audience() {
		t.Error("another path is another server at the same origin")
	}
}

func TestMCPServer_Audience(t *testing.T) {
	at := func(url string) string { return haft.MCPServer{URL: url}.Audience() }
	base := at("https://example.com/mcp")
	for _, same := range []string{"https://example.com:443/", "https://EXAMPLE.com/mcp?x=1", "HTTPS://example.com./a"} {
		if at(same) != base {
			t.Errorf("%s is at %s, want %s", same, at(same), base)
		}
	}
	for _, other := range []string{"http://example.com/mcp", "https://example.com:8443/mcp",
		"https://example.com.evil/", "https://evil/https://example.com"} {
		if at(other) == base {
			t.Errorf("%s is at %s", other, base)
		}
	}
}

// audienceChange changes a field of a command.
type audienceChange struct {
	change func(*haft.MCPServer)
	keeps  bool // the command can send or write its credentials to the same places
}

// commandAudience says of every field of a server what a change of it does to the
// credentials of a command. A new field needs a line here.
func commandAudience() map[string]audienceChange {
	return map[string]audienceChange{
		"ID":        {func(s *haft.MCPServer) { s.ID = "x" }, true},
		"Org":       {func(s *haft.MCPServer) { s.Org = "x" }, true}, // stored by organisation
		"Name":      {func(s *haft.MCPServer) { s.Name = "x" }, true},
		"Transport": {func(s *haft.MCPServer) { s.Transport = haft.MCPHTTP }, false},
		"Command":   {func(s *haft.MCPServer) { s.Command = []string{"npx", "b"} }, false},
		"URL":       {func(s *haft.MCPServer) { s.URL = "https://example.com/" }, false},
		"Headers":   {func(s *haft.MCPServer) { s.Headers = map[string]string{"A": "b"} }, true},
		// Which values are stored is not known here: see upstreams.sealed of package app.
		"Env":     {func(s *haft.MCPServer) { s.Env = map[string]string{"A": "b"} }, true},
		"OAuth":   {func(s *haft.MCPServer) { s.OAuth = &haft.MCPOAuth{} }, true},
		"Network": {func(s *haft.MCPServer) { s.Network = append(s.Network, "evil.example") }, false},
		"Mounts": {func(
			s *haft.MCPServer) {
			s.Mounts = []haft.MCPMount{{Dir: "/a", Inside: "/b", Writable: true}}
		}, false},
		"Requirements": {func(s *haft.MCPServer) { s.Requirements.NPM = []string{"evil"} }, false},
		"Limits":       {func(s *haft.MCPServer) { s.Limits.Memory = 1 << 20 }, true},
		"Connect":      {func(s *haft.MCPServer) { s.Connect = 1 }, true},
		"List":         {func(s *haft.MCPServer) { s.List = 1 }, true},
		"Disabled":     {func(s *haft.MCPServer) { s.Disabled = true }, true},
		"State":        {func(s *haft.MCPServer) { s.State.Tools = 1 }, true},
		"Created":      {func(s *haft.MCPServer) { s.Created = time.Now() }, true},
		"Updated":      {func(s *haft.MCPServer) { s.Updated = time.Now() }, true},
		"If":           {func(s *haft.MCPServer) { s.If = "x" }, true},
	}
}

func TestMCPServer_Audience_of_a_command(t *testing.T) {
	base := func() haft.MCPServer {
		return haft.MCPServer{Transport: haft.MCPStdio, Command: []string{"npx", "a"},
			Network: []string{"a.example", "b.example"},
			Mounts:  []haft.MCPMount{{Dir: "/a", Inside: "/b"}, {Dir: "/c"}}}
	}
	for f := range reflect.TypeFor[haft.MCPServer]().Fields() {
		field, ok := commandAudience()[f.Name]
		if !ok {
			t.Errorf("commandAudience says nothing of %s", f.Name)
			continue
		}
		s := base()
		field.change(&s)
		if reflect.DeepEqual(s, base()) {
			t.Errorf("%s was not changed", f.Name)
		}
		if keeps := s.Audience() == base().Audience(); keeps != field.keeps {
			t.Errorf("another %s keeps the audience: %v, want %v", f.Name, keeps, field.keeps)
		}
	}
	same := base()
	slices.Reverse(same.Network)
	slices.Reverse(same.Mounts)
	same.Mounts[0].Inside = "/c"
	if same.Audience() != base().Audience() {
		t.Error("the same hosts and mounts, written otherwise, are another audience")
	}
	none, empty := haft.MCPServer{Command: []string{"a"}},
		haft.MCPServer{Command: []string{"a"}, Network: []string{}, Mounts: []haft.MCPMount{}}
	if none.Audience() != empty.Audience() {
		t.Error("no hosts and an empty list of them are two audiences")
	}
}
