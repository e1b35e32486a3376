package store_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"haft/internal/store"
)

func TestWords(t *testing.T) {
	for text, want := range map[string][]string{
		"send_email":          {"send", "email"},
		"sendEMail v2":        {"send", "email", "v2"},
		"HTTPServer":          {"httpserver"},
		"Größe, ÜBER!":        {"größe", "über"},
		"日本語 text":            {"日", "本", "語", "text"},
		"":                    nil,
		"--- ' % \x00 \xff":   nil,
		"e\u0301te\u0301":     {"e\u0301te\u0301"},
		"a b c d e f g h i j": {"a", "b", "c", "d", "e", "f", "g", "h"},
	} {
		if diff := cmp.Diff(want, store.Words(text, 8)); diff != "" {
			t.Errorf("Words(%q) (-want +got):\n%s", text, diff)
		}
	}
}

// FuzzWords: any text gives few, short, valid words, which are words themselves.
func FuzzWords(f *testing.F) {
	f.Add("send_email to SOMEbody 日本語")
	f.Add("\xff\x00İıſK")
	f.Fuzz(func(t *testing.T, text string) {
		words := store.Words(text, 16)
		if len(words) > 16 {
			t.Fatalf("%d words", len(words))
		}
		for _, w := range words {
			if w == "" || !utf8.ValidString(w) || utf8.RuneCountInString(w) > 48 || strings.ContainsAny(w, "\x00 %") {
				t.Errorf("%q is a word", w)
			}
			if got := store.Column(w); got != w {
				t.Errorf("the word %q is kept as %q", w, got)
			}
		}
	})
}

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
