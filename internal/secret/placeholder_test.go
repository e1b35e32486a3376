package secret_test

import (
	"encoding/hex"
	"strings"
	"testing"

	"haft/internal/secret"
)

func TestPlaceholder_has_the_shape_of_the_secret(t *testing.T) {
	for _, like := range []string{
		"sk-ant-api03-abcDEF123456789012345-xyz", "ghp_0123456789abcdefABCDEF0123456789abcd", "AKIAIOSFODNN7EXAMPLE",
		"0123456789abcdef0123456789abcdef",
		"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk",
		"p@ss w0rd/with+odd=chars&more",
	} {
		got := secret.Placeholder(like)
		if len(got) != len(like) || got == like || got == secret.Placeholder(like) {
			t.Errorf("Placeholder(%q) = %q", like, got)
		}
		kind := func(c byte) int {
			switch {
			case c >= 'a' && c <= 'z':
				return 'a'
			case c >= 'A' && c <= 'Z':
				return 'A'
			case c >= '0' && c <= '9':
				return '0'
			}
			return int(c)
		}
		for i := range min(len(like), len(got)) {
			if kind(like[i]) != kind(got[i]) {
				t.Errorf("Placeholder(%q) = %q differs in kind at %d", like, got, i)
			}
		}
	}
	for like, prefix := range map[string]string{"ghp_0123456789abcdefABCDEF": "ghp_", "AKIAIOSFODNN7EXAMPLE": "AKIA",
		"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dBjftJeZ4CVP": "eyJhbGciOiJIUzI1NiJ9."} {
		if got := secret.Placeholder(like); !strings.HasPrefix(got, prefix) {
			t.Errorf("Placeholder(%q) = %q", like, got)
		}
	}
	if _, err := hex.DecodeString(secret.Placeholder("0123456789abcdef0123456789abcdef")); err != nil {
		t.Error(err)
	}
	for _, short := range []string{"", "x", "1234", "----", "++++++++++++++++++++", "p@$$!"} {
		if got := secret.Placeholder(short); len(got) < 16 || strings.ContainsAny(got, "-+@$!") {
			t.Errorf("Placeholder(%q) = %q can be guessed", short, got)
		}
	}
}
