package secret_test

import (
	"slices"
	"strings"
	"testing"

	"haft/internal/secret"
)

func TestReferences(t *testing.T) {
	for text, want := range map[string][]string{
		"": nil, "Bearer {{ KEY }}": {"KEY"}, "{{A}}{{ B }}{{\tA }}": {"A", "B"}, "{{ {{ X }} }}": {"X"},
		"{ {KEY} }": nil, "{{ A-B }}": nil, "{{ 1A }}": nil, "{{ }}": nil, "{{" + strings.Repeat("A", 129) + "}}": nil,
	} {
		if got := secret.References(text); !slices.Equal(got, want) {
			t.Errorf("References(%q) = %q, want %q", text, got, want)
		}
	}
	if got := secret.ExpandReferences("a {{ X }}{{Y}} {{}}", strings.ToLower); got != "a xy {{}}" {
		t.Errorf("got %q", got)
	}
}
