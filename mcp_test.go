package haft_test

import (
	"encoding/json"
	"strings"
	"testing"

	"haft"
)

func TestMCPToolName_is_a_tool_name_and_tells_tools_apart(t *testing.T) {
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
	added := haft.MCPServer{Transport: haft.MCPHTTP, URL: "https://example.com/mcp", Command: []string{}, Requirements: haft.Requirements{Pip: []string{}, NPM: []string{}}}
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
	for _, other := range []string{"http://example.com/mcp", "https://example.com:8443/mcp", "https://example.com.evil/", "https://evil/https://example.com"} {
		if at(other) == base {
			t.Errorf("%s is at %s", other, base)
		}
	}
	run := haft.MCPServer{Transport: haft.MCPStdio, Command: []string{"npx", "a"}}
	if run.Audience() == (haft.MCPServer{Transport: haft.MCPStdio, Command: []string{"npx", "b"}}).Audience() || run.Audience() == "" {
		t.Error("two commands have the same audience")
	}
}
