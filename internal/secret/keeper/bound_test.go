package keeper

import "testing"

// TestScope_bound pins the associated data: secrets that were written with it cannot be
// read with any other.
func TestScope_bound(t *testing.T) {
	s := Scope{Org: "acme", Kind: KindAgent, ID: "a1"}
	for binding, want := range map[string]string{
		"":   "haft/secret/1\x04acme\x05agent\x02a1\x03KEY",
		"{}": "haft/secret/2\x04acme\x05agent\x02a1\x03KEY\x02{}",
	} {
		if got := string(s.bound("KEY", binding)); got != want {
			t.Errorf("bound(KEY, %q) = %q, want %q", binding, got, want)
		}
	}
}
