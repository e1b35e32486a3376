package secret_test

import (
	"encoding/base64"
	"encoding/hex"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"
	"time"

	"haft/internal/secret"
	"haft/internal/skiptest"
)

// worst are texts that are made to take long: of what is nearly a value, or made of
// escapes.
func worst(named []secret.Named) map[string][]byte {
	rng := rand.New(rand.NewPCG(3, 3))
	const size = 1 << 20
	build := func(each func(value string) string) []byte {
		var b strings.Builder
		for b.Len() < size {
			b.WriteString(each(named[rng.IntN(len(named))].Value.Reveal()))
		}
		return []byte(b.String())
	}
	less := func(v string) string { return v[:len(v)-1] + "~" }
	return map[string][]byte{
		"all but the last byte": build(less),
		"any beginning":         build(func(v string) string { return v[:1+rng.IntN(len(v)-1)] }),
		"the first eight bytes": build(func(v string) string { return v[:8] }),
		"base64 of all but the last byte": build(func(
			v string) string {
			return base64.StdEncoding.EncodeToString([]byte(less(v)))
		}),
		"hex of all but the last byte": build(func(v string) string { return hex.EncodeToString([]byte(less(v))) }),
		"broken lines of it":           build(func(v string) string { return lines(less(v), 7, "\n") }),
		"escaped bytes":                build(func(v string) string { return everyByte(less(v), "%%%02x") }),
		"escaped text": build(func(
			v string) string {
			return url.QueryEscape(`{"name": "some text", "more": ["of", "it"]}`)
		}),
		"escaped characters": build(func(
			v string) string {
			return everyRune("Grüße aus Köln", `\u%04x`)
		}),
		"json in json in json": build(func(
			v string) string {
			return inJSON(inJSON(`{"name": "some text", "more": ["of", "it"]}`))
		}),
		"line breaks": build(func(string) string { return "\r\n" }),
		"backslashes": build(func(string) string { return `\` }),
		"values":      build(func(v string) string { return v + " " }),
	}
}

// A text costs no more if the value that it nearly is, again and again, is longer: the
// time is linear in the text, not the product of both lengths.
func TestStream_takes_linear_time(t *testing.T) {
	const size = 128 << 10
	fastest := func(unit string, length int) time.Duration {
		value := strings.Repeat(unit, length/len(unit)) + "!"
		r := secret.NewRedactor(secret.Config{Values: []secret.Named{{Name: "V", Value: secret.New(value)}},
			Formats: true})
		text := []byte(strings.Repeat(strings.TrimSuffix(value, "!")+"?", size/length))
		best := time.Hour
		for range 3 {
			before := processorTime(t)
			s := r.NewStream(func([]byte) {})
			_, _ = s.Write(text)
			_ = s.Close()
			best = min(best, processorTime(t)-before)
		}
		return best
	}
	units := []string{"aa", "&#97;", "ab", "a%z", "a%61", "a\n", `a\q`, `a\\`, "%61", "&amp;"}
	if skiptest.Race {
		units = units[:2]
	}
	for _, unit := range units {
		short, long := fastest(unit, 1<<10), fastest(unit, 32<<10)
		if long > 10*short+20*time.Millisecond {
			t.Errorf("%q: a value of 1 KiB takes %v, one of 32 KiB %v", unit, short, long)
		}
	}
}

// A write of one byte costs no more if the stream holds back much text.
func TestStream_takes_linear_time_for_short_writes(t *testing.T) {
	fastest := func(length int) time.Duration {
		value := strings.Repeat("a", length) + "!"
		r := secret.NewRedactor(secret.Config{Values: []secret.Named{{Name: "V", Value: secret.New(value)}}})
		s := r.NewStream(func([]byte) {})
		_, _ = s.Write([]byte(value[:length]))
		best := time.Hour
		for range 3 {
			before := processorTime(t)
			for range 5_000 {
				_, _ = s.Write([]byte("a"))
			}
			best = min(best, processorTime(t)-before)
		}
		return best
	}
	if short, long := fastest(1<<10), fastest(512<<10); long > 10*short+50*time.Millisecond {
		t.Errorf("holding 1 KiB takes %v, holding 512 KiB %v", short, long)
	}
}
