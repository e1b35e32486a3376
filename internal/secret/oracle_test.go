package secret_test

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"haft/internal/secret"
	"haft/internal/skiptest"
)

// A text is searched by passing over what holds nothing. These tests compare that
// with two slow ways: with looking at each byte in turn, which must give the same,
// and with an oracle that shares no code with it, and says what must be gone.

// hard draws values and a text that are hard to tell apart, from a seed.
type hard struct {
	*rand.Rand
	values []string
}

// newHard returns what a seed gives.
func newHard(seed uint64) *hard {
	h := &hard{Rand: rand.New(rand.NewPCG(seed, 11))}
	alphabets := []string{
		"ab", "abcdef0123456789", "aA b+-/_", "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_",
		`a\%&b;x41`, "a\n\rb\tc", "\xff\xfe\x00\x80a", ".*+?()[]{}^$|a", "aé😀ü",
	}
	for range 1 + h.IntN(12) {
		letters := []rune(alphabets[h.IntN(len(alphabets))])
		if h.IntN(4) == 0 {
			letters = []rune(alphabets[3])
		}
		n := []int{4, 4, 5, 6, 7, 8, 12, 24, 60}[h.IntN(9)]
		v := make([]rune, n)
		for i := range v {
			v[i] = letters[h.IntN(len(letters))]
		}
		text := string(v)
		if letters[0] == 0xfffd { // the alphabet of bytes
			text = ""
			for range n {
				text += alphabets[6][h.IntN(len(alphabets[6])):][:1]
			}
		}
		if len(h.values) > 0 && h.IntN(3) == 0 { // one that overlaps another
			other := h.values[h.IntN(len(h.values))]
			text = []string{other[:len(other)*2/3] + text, other + text, text + other,
				other[len(other)/3:] + text}[h.IntN(4)]
		}
		h.values = append(h.values, text)
	}
	return h
}

// value returns a value, or nearly one.
func (h *hard) value() string {
	v := h.values[h.IntN(len(h.values))]
	b := []byte(v)
	switch h.IntN(4) {
	case 0:
		b[h.IntN(len(b))] ^= 1 << h.IntN(7)
	case 1:
		b = b[:h.IntN(len(b))]
	}
	return string(b)
}

// text returns a text of values, near misses, their encodings and what is between.
func (h *hard) text() string {
	names := encodingNames()
	var b strings.Builder
	for range h.IntN(30) {
		switch h.IntN(9) {
		case 0, 1, 2:
			b.WriteString(encodings[names[h.IntN(len(names))]](h.value(), "ab"[:h.IntN(3)], "ab"[:h.IntN(3)]))
		case 3:
			b.WriteString(base64.StdEncoding.EncodeToString([]byte("xyz"[:h.IntN(4)] + h.value() + h.value())))
		case 4:
			b.WriteString(encodings[names[h.IntN(len(names))]](encodings[names[h.IntN(len(names))]](h.value(), "", ""),
				"", ""))
		case 5:
			b.WriteString(samples[h.IntN(len(samples))])
		case 6:
			b.WriteString(
				strings.Repeat([]string{"\n", "\r\n", `\`, "%", "&", " ", "a", "%25", `\\`, "&amp;",
					`\u00`}[h.IntN(11)], h.IntN(8)))
		case 7:
			for range h.IntN(40) {
				b.WriteByte("abcdefghij 0123456789\n\"/.,:-_"[h.IntN(29)])
			}
		case 8:
			b.WriteString(h.value())
		}
	}
	return b.String()
}

func encodingNames() []string {
	names := make([]string, 0, len(encodings))
	for name := range encodings {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// check compares what a seed gives.
func checkHard(t testing.TB, seed uint64) {
	t.Helper()
	h := newHard(seed)
	var named []secret.Named
	for i, v := range h.values {
		named = append(named, secret.Named{Name: fmt.Sprint("V", i), Value: secret.New(v)})
	}
	r := secret.NewRedactor(secret.Config{Values: named, Formats: seed%2 == 0, Personal: seed%5 == 0,
		Mask: "\x01{name}\x02"})
	for range 4 {
		text := h.text()
		whole := r.Text(text)
		if slow := secret.ByStep(r, text); whole != slow {
			t.Fatalf("seed %d, values %q, text %q\n got %q\nwant %q", seed, h.values, text, whole, slow)
		}
		most := 1 + h.IntN(40)
		if got := chunked(r, text, func() int { return h.IntN(most + 1) }); got != whole {
			t.Fatalf("seed %d, values %q, text %q\n in pieces %q\nas a whole %q", seed, h.values, text, got, whole)
		}
		for _, v := range h.values {
			if form, found := survives(v, whole); found {
				t.Fatalf("seed %d, values %q, text %q\n%q survives as %q in %q", seed, h.values, text, v, form, whole)
			}
		}
	}
}

// survives is the oracle: it returns a form of a value that is in text.
func survives(value, text string) (form string, found bool) {
	value = strings.TrimSpace(value)
	if len(value) < secret.MinValue {
		return "", false
	}
	forms := []string{value, hex.EncodeToString([]byte(value))}
	for before := range 3 {
		padded := make([]byte, before, before+len(value))
		enc := base64.RawStdEncoding.EncodeToString(append(padded, value...))
		forms = append(forms, enc[(before*8+5)/6:(before+len(value))*8/6])
	}
	alike := strings.NewReplacer("+", " ", "-", " ", "_", "/")
	same := func(s string) string { return alike.Replace(asciiLower(s)) }
	for _, form := range forms {
		if strings.Contains(same(text), same(form)) {
			return form, true
		}
	}
	return "", false
}

func asciiLower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] += 'a' - 'A'
		}
	}
	return string(b)
}

func TestRedactor_gives_what_slow_ways_give(t *testing.T) {
	t.Parallel()
	seeds := uint64(800)
	if skiptest.Race {
		seeds = 50
	}
	for seed := range seeds {
		checkHard(t, seed)
	}
}

func FuzzRedactor(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) { checkHard(t, seed) })
}
