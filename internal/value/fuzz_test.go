package value_test

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"haft"
	"haft/internal/value"
)

// FuzzCut: the result is valid JSON within the limit, whatever comes.
func FuzzCut(f *testing.F) {
	for _, s := range []string{`"abc"`, `{"a":[1,2,3]}`, `"é\ud83d\ude00"`, "\xff", `nul`, ``, ` [1, 2] `, `"\ud800"`} {
		f.Add([]byte(s), 3)
		f.Add([]byte(s), 0)
	}
	f.Add([]byte(
		`"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"`), 100)
	f.Fuzz(func(t *testing.T, raw []byte, maxChars int) {
		got, left := value.Cut(raw, maxChars)
		checkCut(t, string(raw), maxChars, got, left)
		if left < 0 {
			t.Errorf("Cut leaves out %d", left)
		}
		again, more := value.Cut(got, maxChars)
		if more != 0 || string(again) != string(got) {
			t.Errorf("Cut(%q, %d) = %q, and that is cut again to %q", raw, maxChars, got, again)
		}
	})
}

// FuzzRead: any text is a value that Check accepts, or an error for the caller.
func FuzzRead(f *testing.F) {
	for _, s := range []string{`{"a":1}`, "x ```json\n[1]\n``` y", "1. a\n2. b", "42", "yes", "[INFO] {\"a\":1}",
		"\ufeff[]", "[1,{", "```\n{}\n```\n```\n{}\n```"} {
		for i := range haft.OutputTypes() {
			f.Add(s, i)
		}
	}
	f.Fuzz(func(t *testing.T, text string, typ int) {
		types := append(haft.OutputTypes(), haft.OutputAny)
		got, err := value.Read(text, types[uint(typ)%uint(len(types))])
		if err != nil {
			if haft.CodeOf(err) != haft.CodeInvalid || !utf8.ValidString(haft.MessageOf(err)) {
				t.Errorf("Read(%q) = %v", text, err)
			}
			return
		}
		if !json.Valid(got) {
			t.Fatalf("Read(%q) = %q, which is not JSON", text, got)
		}
		if err := value.Check(got, 64<<20); err != nil {
			t.Errorf("Check(Read(%q)): %v", text, err)
		}
	})
}
