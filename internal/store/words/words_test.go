package words_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"haft/internal/store/words"
)

// Of a text the first so many words are kept, each with how often it is there, up to a bound.
func TestOfText(t *testing.T) {
	got := words.OfText("tea Tea t " + strings.Repeat("more ", 20))
	if len(got) != 3 || got["tea"] != 2 || got["t"] != 1 || got["more"] != 8 {
		t.Errorf("OfText = %v", got)
	}
	var long strings.Builder
	for i := range 30_000 {
		fmt.Fprintf(&long, "w%d ", i)
	}
	if got := words.OfText(long.String()); len(got) != 1000 || got["w999"] != 1 {
		t.Errorf("a long text has %d words", len(got))
	}
}

func TestSplit(t *testing.T) {
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
		if diff := cmp.Diff(want, words.Split(text, 8)); diff != "" {
			t.Errorf("Split(%q) (-want +got):\n%s", text, diff)
		}
	}
}

// FuzzSplit: any text gives few, short, valid words, which are words themselves.
func FuzzSplit(f *testing.F) {
	f.Add("send_email to SOMEbody 日本語")
	f.Add("\xff\x00İıſK")
	f.Fuzz(func(t *testing.T, text string) {
		list := words.Split(text, 16)
		if len(list) > 16 {
			t.Fatalf("%d words", len(list))
		}
		for _, w := range list {
			if w == "" || !utf8.ValidString(w) || utf8.RuneCountInString(w) > 48 || strings.ContainsAny(w, "\x00 %") {
				t.Errorf("%q is a word", w)
			}
			if strings.HasPrefix(w, string(utf8.RuneError)) {
				t.Errorf("the word %q is not kept as it is", w)
			}
		}
	})
}
