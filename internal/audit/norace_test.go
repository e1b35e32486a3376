//go:build !race

package audit_test

// slow is true where the exhaustive test would take minutes.
const slow = false
