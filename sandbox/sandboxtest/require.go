package sandboxtest

import (
	"testing"

	"haft/internal/skiptest"
)

// Require skips a test because thing is missing, or fails it if that is required: see
// [skiptest.Lacking].
func Require(t testing.TB, thing, reason string) {
	t.Helper()
	skiptest.Lacking(t, thing, reason)
}

// Required reports whether HAFT_REQUIRE names thing.
func Required(thing string) bool { return skiptest.Required(thing) }
