package access

import (
	"net/http/httptest"
	"testing"

	"haft"
	"haft/internal/auth"
	"haft/server"
)

// A client that is told to be an agent is that agent, or is refused.
func TestMCPAgent(t *testing.T) {
	for _, c := range []struct {
		query, header, authorization string
		want                         string
		refused                      bool
	}{
		{"", "", "Bearer k", "", false},
		{"?agent=a", "", "Bearer k", "a", false},
		{"?as=a", "", "Bearer k", "a", false},
		{"?tag=x&tag=y", "a", "Bearer k", "a", false},
		{"", "a", "Bearer k", "a", false},
		{"?agent=a", "a", "Bearer k", "a", false},
		{"?agent=a&as=a", "a", "Bearer k", "a", false},
		{"?agent=a", "b", "Bearer k", "", true},
		{"?agent=a&as=b", "", "Bearer k", "", true},
		{"?as=a", "b", "Bearer k", "", true},
		{"?agent=", "", "Bearer k", "", true},
		{"?agent=", "a", "Bearer k", "", true},
		{"?agent=a&agent=a", "", "Bearer k", "", true},
		{"?Agent=a", "", "Bearer k", "", true},
		{"?agnet=a", "", "Bearer k", "", true},
		{"?agent=a", "", auth.SchemeSigned + " key=k", "a", false},
		{"", "a", auth.SchemeSigned + " key=k", "", true},
		{"?agent=a", "a", "haft-hmac-sha256 key=k", "", true},
	} {
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/mcp"+c.query, nil)
		r.Header.Set("Authorization", c.authorization)
		if c.header != "" {
			r.Header.Set(server.AgentHeader, c.header)
		}
		got, err := mcpAgent(r, r.URL.Query())
		if got != c.want || (err != nil) != c.refused || err != nil && haft.CodeOf(err) != haft.CodeInvalid {
			t.Errorf("%q with %q: %q, %v", c.query, c.header, got, err)
		}
	}
}
