package storetest

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// missing skips a test that lacks something, or fails it if HAFT_REQUIRE names the
// thing in its list, as in CI.
func missing(t testing.TB, thing, reason string) {
	t.Helper()
	if slices.Contains(strings.FieldsFunc(os.Getenv("HAFT_REQUIRE"), func(r rune) bool { return r == ',' || r == ' ' }), thing) {
		t.Fatalf("%s is required by HAFT_REQUIRE, but: %s", thing, reason)
	}
	t.Skipf("%s is missing: %s", thing, reason)
}
