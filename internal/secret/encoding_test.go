package secret_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"haft/internal/secret"
)

// encodings are ways in which a program writes a value. before and after are what
// stands around it in what is encoded.
var encodings = map[string]func(v, before, after string) string{
	"raw":              func(v, _, _ string) string { return v },
	"upper":            func(v, _, _ string) string { return strings.ToUpper(v) },
	"lower":            func(v, _, _ string) string { return strings.ToLower(v) },
	"json":             func(v, _, _ string) string { return inJSON(v) },
	"json twice":       func(v, _, _ string) string { return inJSON(inJSON(v)) },
	"json three times": func(v, _, _ string) string { return inJSON(inJSON(inJSON(v))) },
	"json \\u":         func(v, _, _ string) string { return everyRune(v, `\u%04x`) },
	"json \\U upper":   func(v, _, _ string) string { return everyRune(v, `\u%04X`) },
	"json solidus":     func(v, _, _ string) string { return strings.ReplaceAll(inJSON(v), "/", `\/`) },
	"repr":             func(v, _, _ string) string { return everyByte(v, `\x%02x`) },
	"octal":            func(v, _, _ string) string { return everyByte(v, `\%03o`) },
	"query":            func(v, _, _ string) string { return url.QueryEscape(v) },
	"path":             func(v, _, _ string) string { return url.PathEscape(v) },
	"query twice":      func(v, _, _ string) string { return url.QueryEscape(url.QueryEscape(v)) },
	"query lower":      func(v, _, _ string) string { return everyByte(v, "%%%02x") },
	"query upper":      func(v, _, _ string) string { return everyByte(v, "%%%02X") },
	"query in json":    func(v, _, _ string) string { return inJSON(url.QueryEscape(v)) },
	"html":             func(v, _, _ string) string { return html.EscapeString(v) },
	"html decimal":     func(v, _, _ string) string { return everyRune(v, "&#%d;") },
	"html hex":         func(v, _, _ string) string { return everyRune(v, "&#x%X;") },
	"hex":              func(v, a, b string) string { return hex.EncodeToString([]byte(a + v + b)) },
	"HEX":              func(v, a, b string) string { return strings.ToUpper(hex.EncodeToString([]byte(a + v + b))) },
	"base64":           func(v, a, b string) string { return base64.StdEncoding.EncodeToString([]byte(a + v + b)) },
	"base64 raw":       func(v, a, b string) string { return base64.RawStdEncoding.EncodeToString([]byte(a + v + b)) },
	"base64 url":       func(v, a, b string) string { return base64.URLEncoding.EncodeToString([]byte(a + v + b)) },
	"base64 lines": func(v, a, b string) string {
		return lines(base64.StdEncoding.EncodeToString([]byte(a+v+b)), 76,
			"\n")
	},
	"base64 lines of mail": func(v, a, b string) string {
		return lines(base64.StdEncoding.EncodeToString([]byte(a+v+b)), 76, "\r\n")
	},
	"base64 lines in json": func(v, a, b string) string {
		return inJSON(lines(base64.StdEncoding.EncodeToString([]byte(a+v+b)), 76, "\n"))
	},
	"hex lines": func(v, a, b string) string { return lines(hex.EncodeToString([]byte(a+v+b)), 60, "\n") },
	"base64 in a query": func(v, a, b string) string {
		return url.QueryEscape(base64.StdEncoding.EncodeToString([]byte(a + v + b)))
	},
	"folded": func(v, _, _ string) string { return lines(v, 20, "\n") },
}

func inJSON(v string) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(raw[1 : len(raw)-1])
}

func everyByte(v, format string) string {
	var b strings.Builder
	for i := range len(v) {
		fmt.Fprintf(&b, format, v[i])
	}
	return b.String()
}

func everyRune(v, format string) string {
	var b strings.Builder
	for _, r := range v {
		if format[0] == '\\' && r > 0xffff {
			b.WriteString(inSurrogates(r, format))
			continue
		}
		fmt.Fprintf(&b, format, r)
	}
	return b.String()
}

func inSurrogates(r rune, format string) string {
	r -= 0x10000
	return fmt.Sprintf(format+format, 0xd800+r>>10, 0xdc00+r&0x3ff)
}

func lines(v string, width int, end string) string {
	var b strings.Builder
	for len(v) > width {
		b.WriteString(v[:width] + end)
		v = v[width:]
	}
	return b.String() + v
}

// values draws text that nothing but a secret looks like, with all the bytes that
// encoders treat in their own way.
func values() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		n := rapid.IntRange(4, 80).Draw(t, "n")
		return rapid.StringOfN(rapid.RuneFrom([]rune("aZq9_-+/ =\"\\%&<>'\n\té😀~.,:;{}")), n, n,
			-1).Filter(func(s string) bool {
			return len(strings.TrimSpace(s)) >= 8
		}).Draw(t, "value")
	})
}

// chunked writes text to a stream in pieces and returns what comes out.
func chunked(r *secret.Redactor, text string, sizes func() int) string {
	var out bytes.Buffer
	s := r.NewStream(func(p []byte) { out.Write(p) })
	for text != "" {
		n := min(max(sizes(), 0), len(text))
		_, _ = s.Write([]byte(text[:n]))
		text = text[n:]
	}
	_ = s.Close()
	return out.String()
}

func TestRedactor_no_encoding_survives(t *testing.T) {
	for name, encode := range encodings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				value := strings.TrimSpace(values().Draw(t, "v"))
				before := rapid.StringMatching(`[a-z ]{0,8}`).Draw(t, "before")
				after := rapid.StringMatching(`[a-z ]{0,8}`).Draw(t, "after")
				r := secret.NewRedactor(secret.Config{Values: []secret.Named{{Name: "KEY", Value: secret.New(value)}},
					Mask: "#"})
				if len(r.Skipped()) > 0 {
					t.Skip("too short")
				}
				text := "one (" + encode(value, before, after) + ") two"
				got := r.Text(text)
				if !strings.Contains(got, "#") {
					t.Fatalf("value %q as %q: nothing removed", value, text)
				}
				if bare := encode(value, "", ""); strings.Contains(got, bare) {
					t.Fatalf("value %q survives in %q", value, got)
				}
				if !strings.HasPrefix(got, "one (") || !strings.HasSuffix(got, ") two") {
					t.Fatalf("too much removed: %q of %q", got, text)
				}
			})
		})
	}
}

func TestRedactor_any_split_gives_the_same(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var named []secret.Named
		var all []string
		for i := range rapid.IntRange(1, 5).Draw(t, "values") {
			v := values().Draw(t, "v")
			named = append(named, secret.Named{Name: fmt.Sprint("V", i), Value: secret.New(v)})
			all = append(all, v)
		}
		r := secret.NewRedactor(secret.Config{Values: named, Formats: rapid.Bool().Draw(t, "formats"),
			Personal: rapid.Bool().Draw(t, "personal")})
		names := slices.Sorted(maps.Keys(encodings))
		var text strings.Builder
		for range rapid.IntRange(1, 8).Draw(t, "parts") {
			switch rapid.IntRange(0, 3).Draw(t, "part") {
			case 0:
				text.WriteString(encodings[rapid.SampledFrom(names).Draw(t, "encoding")](
					rapid.SampledFrom(all).Draw(t, "which"), "xy", "z"))
			case 1:
				v := rapid.SampledFrom(all).Draw(t, "which")
				text.WriteString(v[:rapid.IntRange(0, len(v)).Draw(t, "part of it")])
			case 2:
				text.WriteString(rapid.StringOfN(rapid.RuneFrom([]rune("aZq9_-+/ =\"\\%&u04xn\n😀.@")), 0, 30,
					-1).Draw(t, "noise"))
			case 3:
				text.WriteString(rapid.SampledFrom(samples).Draw(t, "sample"))
			}
		}
		want := r.Text(text.String())
		got := chunked(r, text.String(), func() int { return rapid.IntRange(1, 9).Draw(t, "size") })
		if got != want {
			t.Fatalf("text %q\n in pieces %q\n as a whole %q", text.String(), got, want)
		}
	})
}

var samples = []string{
	"ghp_0123456789abcdefghijABCDEFGHIJ012345", "password: hunter22 ", "mail someone@example.org now",
	"postgres://u:pw@host/db",
	"-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n-----END PRIVATE KEY-----\n",
	"4111 1111 1111 1111", "DE89 3704 0044 0532 0130 00", "+49 30 901820",
	"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
	"Authorization: Bearer abcdefghijklmnopqrstuvwxyz", "sk-", "://", "-----BEGIN PRIVATE KEY-----",
}
