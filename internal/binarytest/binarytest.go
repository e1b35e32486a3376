// Package binarytest builds the haft that tests run as a program of its own.
package binarytest

import (
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"testing"
)

// Build makes the haft to test, with the tags of the test itself: with others, the compiler would make the sandbox
// and the 15 packages that need it once more, and the haft would lack the init that the test's sandboxes have.
func Build(t testing.TB) string {
	t.Helper()
	tags := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "-tags" {
				tags = s.Value
			}
		}
	}
	name := filepath.Join(t.TempDir(), "haft")
	// Without the tables for debuggers, as the tests are linked.
	cmd := exec.CommandContext(t.Context(), "go", "build", "-tags", tags, "-ldflags=-w", "-o", name, "haft/cmd/haft")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build haft: %v\n%s", err, out)
	}
	return name
}
