package sandboxtest

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// Require skips a test because thing is missing, for the given reason. If the
// environment variable HAFT_REQUIRE names the thing in its list, as in CI, the
// test fails instead: a suite that skips quietly is worse than none.
func Require(t testing.TB, thing, reason string) {
	t.Helper()
	if Required(thing) {
		t.Fatalf("%s is required by HAFT_REQUIRE, but: %s", thing, reason)
	}
	t.Skipf("SKIPPED for want of %s: %s", thing, reason)
}

// Required reports whether HAFT_REQUIRE names thing.
func Required(thing string) bool {
	return slices.Contains(strings.FieldsFunc(os.Getenv("HAFT_REQUIRE"), func(r rune) bool {
		return r == ',' || r == ' '
	}), thing)
}
