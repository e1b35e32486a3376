package secret_test

import (
	"fmt"
	"strings"
	"testing"

	"haft/internal/secret"
)

// A value that lies in several parts of a text, each of which goes out by itself, is
// not handed out, wherever it is cut and however it is escaped.
func TestStream_Break_finds_what_lies_in_two_parts(t *testing.T) {
	const value = "sk-live-Real1234567890"
	escaped := ""
	for i := range len(value) {
		escaped += fmt.Sprintf(`\u%04x`, value[i])
	}
	r := secret.NewRedactor(
		secret.Config{Values: []secret.Named{{Name: "KEY", Value: secret.New(value), Mask: "PLACEHOLDER"}}})
	for form, most := range map[string]int{value: 3, strings.ToUpper(value): 3, fmt.Sprintf("%x", value): 3,
		escaped: 4*6 - 1} {
		text := "before " + form + " after"
		for first := range len(text) {
			for _, second := range []int{first + 1, first + 3, len(text)} {
				var parts []string
				var b strings.Builder
				s := r.NewStream(func(p []byte) { b.Write(p) })
				for _, part := range []string{text[:first], text[first:min(second, len(text))],
					text[min(second, len(text)):]} {
					_, _ = s.Write([]byte(part))
					s.Break()
					parts = append(parts, b.String())
					b.Reset()
				}
				if !s.Found() {
					t.Fatalf("cut at %d and %d: nothing was found in %q", first, second, text)
				}
				if err := s.Close(); err != nil || b.Len() > 0 {
					t.Fatalf("cut at %d: %q comes after the last part, %v", first, b.String(), err)
				}
				all := strings.Join(parts, "")
				if !strings.HasPrefix(all, "before ") || !strings.HasSuffix(all, " after") {
					t.Fatalf("cut at %d and %d: %q lost what is no secret", first, second, parts)
				}
				if rest := strings.TrimSuffix(strings.TrimPrefix(all, "before "), " after"); strings.HasPrefix(rest,
					form[:most+1]) || strings.Contains(rest, form[len(form)-4:]) {
					t.Fatalf("cut at %d and %d: %q holds a part of the value", first, second, parts)
				}
			}
		}
	}
}

// A text without values passes through breaks as it is, and each part is whole.
func TestStream_Break_hands_out_everything(t *testing.T) {
	r := secret.NewRedactor(
		secret.Config{Values: []secret.Named{{Name: "KEY", Value: secret.New("sk-live-Real1234567890")}}})
	var b strings.Builder
	s := r.NewStream(func(p []byte) { b.Write(p) })
	for _, part := range []string{"hello s", "sk", "sk-", `a\`, "u0041", "", "%", "&amp", "日本", "end"} {
		b.Reset()
		_, _ = s.Write([]byte(part))
		s.Break()
		if b.String() != part {
			t.Errorf("%q became %q", part, b.String())
		}
	}
	if s.Found() {
		t.Error("something was found")
	}
}

func TestRedactor_undoes_named_entities(t *testing.T) {
	r := secret.NewRedactor(
		secret.Config{Values: []secret.Named{{Name: "KEY", Value: secret.New("sk_live.Real:1234@x!")}}})
	for _, text := range []string{"sk&lowbar;live&period;Real&colon;1234&commat;x&excl;",
		"sk&UnderBar;live.Real:1234@x!", "sk&#95;live&#x2e;Real:1234@x!"} {
		if got := r.Text("<b>" + text + "</b>"); got != "<b>[redacted:KEY]</b>" {
			t.Errorf("%s became %s", text, got)
		}
	}
}

// Wherever a text pauses, Release hands out no more than three bytes of a value, and nothing
// that is no secret is lost.
func TestStream_Release_keeps_values_back(t *testing.T) {
	const value = "sk-live-Real1234567890"
	r := secret.NewRedactor(
		secret.Config{Values: []secret.Named{{Name: "KEY", Value: secret.New(value), Mask: "MASK"}}})
	for _, form := range []string{value, strings.ToUpper(value), fmt.Sprintf("%x", value)} {
		text := "before\n" + form + " after\n"
		for first := range len(text) {
			var b strings.Builder
			s := r.NewLineStream(func(p []byte) { b.Write(p) })
			for i := range len(text) { // byte by byte from the first pause on
				if i >= first {
					_, _ = s.Write([]byte(text[i : i+1]))
					s.Release()
				} else if i == 0 {
					_, _ = s.Write([]byte(text[:first]))
					s.Release()
				}
			}
			if err := s.Close(); err != nil || !s.Found() {
				t.Fatalf("pause at %d: %v, found is %t", first, err, s.Found())
			}
			rest, whole := strings.CutSuffix(strings.TrimPrefix(b.String(), "before\n"), "MASK after\n")
			if !whole || len(rest) > 3 || !strings.HasPrefix(form, rest) {
				t.Fatalf("pause at %d: %q", first, b.String())
			}
		}
	}
}

// Of a short value less than half is handed out.
func TestStream_hands_out_less_than_half_of_a_value(t *testing.T) {
	for _, value := range []string{"q7x9", "q7x9z", "q7x9zk", "q7x9zk2w"} {
		r := secret.NewRedactor(secret.Config{Values: []secret.Named{{Name: "PIN", Value: secret.New(value)}}})
		for name, pause := range map[string]func(*secret.Stream){
			"Release": (*secret.Stream).Release, "Break": (*secret.Stream).Break,
		} {
			for n := range len(value) {
				var b strings.Builder
				s := r.NewLineStream(func(p []byte) { b.Write(p) })
				_, _ = s.Write([]byte(value[:n]))
				pause(s)
				if shown := strings.Trim(b.String(), "*"); len(shown) > 3 || 2*len(shown) >= len(value) {
					t.Errorf("%s after %d of %d bytes hands out %q", name, n, len(value), b.String())
				}
			}
		}
	}
}
