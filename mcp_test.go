package haft_test

import (
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
