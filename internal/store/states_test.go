package store_test

import (
	"os"
	"strings"
	"testing"

	"haft/internal/store"
)

// TestStates_are_documented: the page about the states of a call shows the condition by
// which a call is moved.
func TestStates_are_documented(t *testing.T) {
	page, err := os.ReadFile("../../docs/calls.md")
	if err != nil {
		t.Fatal(err)
	}
	_, cond, _ := strings.Cut(store.MoveCondition(), "WHERE ")
	if got := strings.Join(strings.Fields(string(page)), " "); !strings.Contains(got,
		"WHERE "+strings.Join(strings.Fields(cond), " ")) {
		t.Errorf("docs/calls.md does not have this condition:\n%s", cond)
	}
}
