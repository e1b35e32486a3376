package haft_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"haft"
)

func TestReaction_Check(t *testing.T) {
	raw := func(s string) json.RawMessage { return json.RawMessage(s) }
	for name, tt := range map[string]struct {
		r  haft.Reaction
		ok bool
	}{
		"again":         {haft.Reaction{Args: raw(`{}`)}, true},
		"value":         {haft.Reaction{Types: []string{"ValueError"}, Value: raw(`null`)}, true},
		"disable":       {haft.Reaction{Kinds: []haft.FailureKind{haft.FailBlocked}, Disable: true}, true},
		"nothing":       {haft.Reaction{Types: []string{"ValueError"}}, false},
		"two":           {haft.Reaction{Args: raw(`{}`), Value: raw(`1`)}, false},
		"no object":     {haft.Reaction{Args: raw(`[]`)}, false},
		"broken object": {haft.Reaction{Args: raw(`{"a":`)}, false},
		"broken value":  {haft.Reaction{Value: raw(`x`)}, false},
		"large value":   {haft.Reaction{Value: raw(`"` + strings.Repeat("x", haft.MaxReactionBytes) + `"`)}, false},
		"no kind":       {haft.Reaction{Kinds: []haft.FailureKind{"odd"}, Disable: true}, false},
		"empty type":    {haft.Reaction{Types: []string{""}, Disable: true}, false},
		"many types": {haft.Reaction{Types: slices.Repeat([]string{"A"}, haft.MaxReactionNames+1), Disable: true},
			false},
	} {
		if err := tt.r.Check(); (err == nil) != tt.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestReaction_After(t *testing.T) {
	value := haft.Failure{Kind: haft.FailException, Type: "app.errors.ValueError"}
	for _, tt := range []struct {
		r    haft.Reaction
		f    haft.Failure
		want bool
	}{
		{haft.Reaction{}, value, true},
		{haft.Reaction{Types: []string{"ValueError"}}, value, true},
		{haft.Reaction{Types: []string{"app.errors.ValueError"}}, value, true},
		{haft.Reaction{Types: []string{"other.ValueError", "Error"}}, value, false},
		{haft.Reaction{Kinds: []haft.FailureKind{haft.FailTimeout}, Types: []string{"ValueError"}}, value, false},
		{haft.Reaction{Types: []string{"ValueError"}}, haft.Failure{Kind: haft.FailTimeout, Type: "ValueError"}, false},
	} {
		if got := tt.r.After(tt.f); got != tt.want {
			t.Errorf("%+v after %+v: %t", tt.r, tt.f, got)
		}
	}
}
