package requirement_test

import (
	"testing"

	"haft/internal/requirement"
)

func TestCompare(t *testing.T) {
	for name, c := range map[string]struct {
		compare func(a, b string) (int, bool)
		order   []string
		bad     []string
	}{
		"pip": {requirement.ComparePip, []string{"0", "1.0.dev1", "1.0a1", "1.0rc1", "1.0", "1.0.post1", "1.9", "1.10",
			"1!0.1"}, []string{"", "x", "1.*", "1..2"}},
		"npm": {requirement.CompareNPM, []string{"0", "1.0.0-2.a", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta",
			"1.0.0", "1.9.0", "1.10.0", "99999999999999999999.0.0"},
			[]string{"", "x", "1.2.3.4", "1.2.3-", "1.-1.0", "*"}},
	} {
		for i, a := range c.order {
			for j, b := range c.order {
				got, ok := c.compare(a, b)
				if want := min(max(i-j, -1), 1); !ok || min(max(got, -1), 1) != want {
					t.Errorf("%s: %s and %s are %d, %v; want %d", name, a, b, got, ok, want)
				}
			}
		}
		for _, bad := range c.bad {
			if got, ok := c.compare(bad, "1.0.0"); ok {
				t.Errorf("%s: %q is compared as %d", name, bad, got)
			}
		}
	}
	for _, same := range [][2]string{{"1.0", "1"}, {"1.0+local", "1.0"}} {
		if got, ok := requirement.ComparePip(same[0], same[1]); got != 0 || !ok {
			t.Errorf("%q are %d, %v", same, got, ok)
		}
	}
	if got, ok := requirement.CompareNPM("v1.2.3+build", "1.2.3"); got != 0 || !ok {
		t.Errorf("a build counts: %d, %v", got, ok)
	}
}
