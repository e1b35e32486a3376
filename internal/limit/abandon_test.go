package limit_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"haft/internal/limit"
)

// A call that was next for a key leaves while its tenant has no room: the next of
// the tenant takes its place.
func TestEnter_one_who_was_next_for_a_key_and_leaves_is_replaced(t *testing.T) {
	l := limit.New(limit.Config{Running: 10, PerTenant: 1})
	b := join(t, l, "b", one("k"))
	next := join(t, l, "a", one("k"))
	after := join(t, l, "a", one("k"), one("other"))
	a := join(t, l, "a")
	leave(t, l, b)
	leave(t, l, next)
	leave(t, l, a)
	if !after.Running() {
		t.Error("the one behind it waits for nothing")
	}
	leave(t, l, after)
	if !l.Empty() {
		t.Errorf("something is left: %+v", l.Stats())
	}
}

// When the first of those who need the same leaves, they lose its place.
func TestEnter_one_who_leaves_takes_its_place_along(t *testing.T) {
	l := limit.New(limit.Config{Running: 1})
	first := join(t, l, "a")
	gone := join(t, l, "a", one("x"))
	waiting := map[string]*limit.Grant{
		"second": join(t, l, "a", one("y")),
		"third":  join(t, l, "a", one("x")),
	}
	leave(t, l, gone)
	if diff := cmp.Diff([]string{"second", "third"}, order(t, l, first, waiting)); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}
