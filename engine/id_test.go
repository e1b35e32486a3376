package engine_test

import (
	"testing"

	"haft/engine"
)

func TestNewCallID_rises_and_cannot_be_guessed(t *testing.T) {
	a, b := engine.NewCallID(), engine.NewCallID()
	if len(a) != 32 || a == b || a[:7] != b[:7] && a > b {
		t.Errorf("ids %s and %s", a, b)
	}
	if a[12:] == b[12:] {
		t.Error("the random part is the same")
	}
}
