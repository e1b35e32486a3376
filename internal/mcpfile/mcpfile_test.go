package mcpfile

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"haft"
)

func TestParse(t *testing.T) {
	got, err := Parse([]byte(`{"mcpServers": {
		"My Files!": {"command": "npx", "args": ["-y", "x"], "env": {"KEY": "${env:API_KEY}"}},
		"9 lives": {"type": "sse", "url": "https://a.example/sse", "headers": {"Authorization": "Bearer ${input:my-token}"}, "disabled": true}
	}, "other": 1}`))
	if err != nil {
		t.Fatal(err)
	}
	want := []haft.MCPServer{
		{Name: "mcp-9-lives", Transport: haft.MCPSSE, URL: "https://a.example/sse",
			Headers: map[string]string{"Authorization": "Bearer {{ my_token }}"}, Env: map[string]string{},
			Disabled: true},
		{Name: "My-Files", Command: []string{"npx", "-y", "x"}, Env: map[string]string{"KEY": "{{ API_KEY }}"},
			Headers: map[string]string{}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("the servers differ (-want +got):\n%s", d)
	}
	for _, bad := range []string{``, `[]`, `{}`, `{"mcpServers": {}}`, `{"mcpServers": {"a b": {}, "a-b": {}}}`} {
		if _, err := Parse([]byte(bad)); err == nil {
			t.Errorf("%s is read", bad)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`{"mcpServers": {"a": {"command": "x"}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		list, err := Parse([]byte(text))
		if err != nil {
			return
		}
		for _, s := range list {
			if err := haft.CheckServerName(s.Name); err != nil {
				t.Errorf("a server is called %q: %v", s.Name, err)
			}
			if strings.Contains(s.Name, haft.MCPSeparator) {
				t.Errorf("the name %q has the separator", s.Name)
			}
		}
	})
}
