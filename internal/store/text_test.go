package store_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"haft/internal/store"
)

// TestColumn: what is kept is text that every database takes, and two texts are
// never kept alike.
func TestColumn(t *testing.T) {
	texts := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()),
		func(b []byte) string { return string(b) }),
		rapid.Map(rapid.String(), func(s string) string { return strings.Repeat(s+"x", 300) }))
	rapid.Check(t, func(t *rapid.T) {
		a := texts.Draw(t, "a")
		b := rapid.OneOf(texts, rapid.Just(a), rapid.Just(store.Column(a)), rapid.Just(a+"\x00")).Draw(t, "b")
		kept := store.Column(a)
		if !utf8.ValidString(kept) || strings.ContainsRune(kept, 0) || len(kept) > store.MaxColumn {
			t.Fatalf("%q is kept as %q", a, kept)
		}
		if (a == b) != (kept == store.Column(b)) {
			t.Fatalf("%q and %q are kept as %q and %q", a, b, kept, store.Column(b))
		}
	})
}
