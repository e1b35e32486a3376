package secret_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"haft/internal/secret"
)

// redactorOf returns the redactor of name, value pairs.
func redactorOf(pairs ...string) *secret.Redactor {
	var named []secret.Named
	for i := 0; i < len(pairs); i += 2 {
		named = append(named, secret.Named{Name: pairs[i], Value: secret.New(pairs[i+1])})
	}
	return secret.NewRedactor(secret.Config{Values: named})
}

func TestRedactor_values(t *testing.T) {
	tests := []struct {
		name   string
		values []string
		in     string
		want   string
	}{
		{"none", nil, "text", "text"},
		{"one", []string{"K", "hunter2"}, "it is hunter2!", "it is [redacted:K]!"},
		{"twice, side by side", []string{"K", "hunter2"}, "hunter2hunter2", "[redacted:K][redacted:K]"},
		{"case", []string{"K", "Hunter2"}, "HUNTER2 hunter2 hUnTeR2", "[redacted:K] [redacted:K] [redacted:K]"},
		{"the longest wins", []string{"A", "secret", "B", "secret-long"}, "secret-long secret-lo",
			"[redacted:B] [redacted:A]-lo"},
		{"one within another", []string{"A", "cdef", "B", "abcdefgh"}, "abcdefgh xcdefx",
			"[redacted:B] x[redacted:A]x"},
		{"overlapping", []string{"A", "abcdef", "B", "defghijk"}, "-abcdefghijk-", "-[redacted:B]-"},
		{"overlapping itself", []string{"A", "abab"}, "xababababx", "x[redacted:A]x"},
		{"space around the value", []string{"A", "  hunter2\n"}, "hunter2 and", "[redacted:A] and"},
		{"empty and short ones", []string{"A", "", "B", "abc", "C", "    a  "}, "abc a", "abc a"},
		{"the first of two names", []string{"A", "hunter2", "B", "hunter2"}, "hunter2", "[redacted:A]"},
		{"unicode", []string{"A", "pässwörd-😀"}, "PÄSSWÖRD-😀 pässwörd-😀 é", "[redacted:A] [redacted:A] é"},
		{"bytes that are no text", []string{"A", "\xff\xfe\x00\x01"}, "a\xff\xfe\x00\x01b\xff", "a[redacted:A]b\xff"},
		{"lines", []string{"A", "line one\nline two"}, "line one\nline two|line one\\nline two|line one\r\nline two",
			"[redacted:A]|[redacted:A]|[redacted:A]"},
		{"what looks like the mask", []string{"A", "redacted"}, "redacted x", "*** x"},
		{"a value that is its name", []string{"password", "password"}, "a password", "a [redacted]"},
		{"a value that is a mask", []string{"A", "[redacted:A]", "B", "hunter2"}, "[redacted:A] hunter2",
			"[redacted] [redacted:B]"},
		{"a name that cannot be printed", []string{"a\"\n<é", "hunter2"}, "hunter2", "[redacted:a__<]"},
		{"mixed escapes", []string{"K", `a"b/c d&e`}, `a\"b\/c%20d&amp;e a\u0022b%2fc+d\u0026e`,
			"[redacted:K] [redacted:K]"},
		{"an escape before it", []string{"K", "nfoobar"}, `\nfoobar`, `\[redacted:K]`},
		{"shell", []string{"K", "a b$c!d"}, `a\ b\$c\!d`, "[redacted:K]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := redactorOf(tt.values...)
			want := strings.ReplaceAll(tt.want, "a__<", "a____")
			if got := r.Text(tt.in); got != want {
				t.Errorf("Text(%q)\n got %q\nwant %q", tt.in, got, want)
			}
			if got := chunked(r, tt.in, func() int { return 1 }); got != want {
				t.Errorf("byte by byte %q\n got %q\nwant %q", tt.in, got, want)
			}
		})
	}
}

func TestRedactor_skips_what_would_destroy_the_text(t *testing.T) {
	r := secret.NewRedactor(secret.Config{Values: []secret.Named{
		{Name: "short", Value: secret.New("abc")}, {Name: "none"}, {Name: "blank", Value: secret.New("   \n  ")},
		{Name: "good", Value: secret.New("abcd")},
		{Name: "huge", Value: secret.New(strings.Repeat("x", secret.MaxValue+1))},
	}})
	if got := fmt.Sprint(r.Skipped()); got != "[short blank huge]" {
		t.Errorf("Skipped = %s", got)
	}
}

func TestRedactor_nil_and_empty_cost_nothing(t *testing.T) {
	for _, r := range []*secret.Redactor{nil, secret.NewRedactor(secret.Config{})} {
		raw := json.RawMessage(`{"a":"b\n"}`)
		text := strings.Repeat("x", 10)
		if n := leastAllocs(func() {
			r.Text(text)
			r.JSON(raw)
		}); n != 0 {
			t.Errorf("%v allocations", n)
		}
		if got := chunked(r, "a\xc3", func() int { return 1 }); got != "a\xc3" {
			t.Errorf("got %q", got)
		}
	}
	r := redactorOf("K", "hunter2")
	raw := json.RawMessage(`{"a":"b","c":[1,2,3]}`)
	if n := leastAllocs(func() { r.JSON(raw) }); n > 0 {
		t.Errorf("clean JSON: %v allocations", n)
	}
	raw = json.RawMessage(`{"a":"it is \"b\"\n","c":["\\",2,3]}`)
	if n := leastAllocs(func() { r.JSON(raw) }); n > 0 {
		t.Errorf("clean JSON with escapes: %v allocations", n)
	}
	text := "one \"two\"\\n\nthree %20 &amp; four\n"
	if n := leastAllocs(func() { r.Text(text) }); n > 0 {
		t.Errorf("clean text: %v allocations", n)
	}
}

func TestRedactor_mask(t *testing.T) {
	r := secret.NewRedactor(secret.Config{Values: []secret.Named{{Name: "K", Value: secret.New("hunter2")}},
		Mask: "<{name}|{name}>"})
	if got := r.Text("a hunter2"); got != "a <K|K>" {
		t.Errorf("got %q", got)
	}
}

func TestRedactor_JSON(t *testing.T) {
	r := redactorOf("K", `hunter"2`, "N", "12345678", "L", "nfoobar", "D", `{"a":1,"b":2}`, "T", "true")
	tests := []struct{ name, in, want string }{
		{"clean", `{"a":"b\n","c":[1.5e3,null]}`, ""},
		{"string", `{"a":"x hunter\"2 y"}`, `{"a":"x [redacted:K] y"}`},
		{"escaped", `["h\u0075nter\u00222"]`, `["[redacted:K]"]`},
		{"key", `{"hunter\"2":1}`, `{"[redacted:K]":1}`},
		{"number", `[12345678, 12345678.5, -912345678e0, 1234567]`,
			`["[redacted:N]", "[redacted:N].5", "-9[redacted:N]e0", 1234567]`},
		{"literal", `{"x":true,"y":false}`, `{"x":"[redacted:T]","y":false}`},
		{"json in json", `{"a":"{\"b\":\"hunter\\\"2\"}"}`, `{"a":"{\"b\":\"[redacted:K]\"}"}`},
		{"an escape that looks like it", `{"a":"\nfoobar"}`, ""},
		{"and one that is it", `{"a":"\\nfoobar"}`, `{"a":"\\[redacted:L]"}`},
		{"over several tokens", ` {"a":1,"b":2} `, `"[redacted:D]"`},
		{"base64", `"` + base64.StdEncoding.EncodeToString([]byte(`--hunter"2--`)) + `"`, `"LS1[redacted:K]i0t"`},
		{"html characters stay", `["<&> hunter\"2"]`, `["<&> [redacted:K]"]`},
		{"no JSON", `{"a": hunter"2`, `"[redacted:K]"`},
		{"empty", ``, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := tt.want
			if want == "" {
				want = tt.in
			}
			got, changed := r.JSON(json.RawMessage(tt.in))
			if string(got) != want || changed != (tt.want != "") {
				t.Errorf("JSON(%s) = %s, %v\nwant %s", tt.in, got, changed, want)
			}
		})
	}
}

func TestRedactor_JSON_formats(t *testing.T) {
	r := secret.NewRedactor(secret.Config{Formats: true, Personal: true,
		Values: []secret.Named{{Name: "K", Value: secret.New("hunter2")}}})
	tests := []struct{ name, in, want string }{
		{"password", `{"user":"u","password": "top-se\"cret","x":1}`,
			`{"user":"u","password": "[redacted:password]","x":1}`},
		{"password as a number", `{"password":12345678}`, `{"password":"[redacted:password]"}`},
		{"no password", `{"password":null,"secret":true,"token":""}`, ""},
		{"in an object", `{"secret":{"a":"b"},"api_key":["x"]}`, ""},
		{"within a string", `{"log":"password=top-secret&x\n"}`, `{"log":"password=[redacted:password]&x\n"}`},
		{"json in json", `{"log":"{\"password\":\"top-secret\"}"}`, `{"log":"{\"password\":\"[redacted:password]\"}"}`},
		{"card as a number", `{"card":4111111111111111}`, `{"card":"[redacted:card_number]"}`},
		{"e-mail and value", `["a@example.org","hunter2"]`, `["[redacted:email]","[redacted:K]"]`},
		{"private key",
			`{"private_key":"-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQ\n-----END PRIVATE KEY-----\n","b":2}`, `{"private_key":"[redacted:private_key]\n","b":2}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := tt.want
			if want == "" {
				want = tt.in
			}
			got, changed := r.JSON(json.RawMessage(tt.in))
			if string(got) != want || changed != (tt.want != "") {
				t.Errorf("JSON(%s) = %s, %v\nwant %s", tt.in, got, changed, want)
			}
		})
	}
}

func TestRedactor_JSON_stays_valid_and_clean(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := strings.TrimSpace(values().Draw(t, "v"))
		if len(value) < secret.MinValue {
			t.Skip()
		}
		r := redactorOf("K", value)
		doc := map[string]any{
			"a":          "x" + value + "y",
			value:        []any{value, 1.5, nil, true, rapid.String().Draw(t, "s")},
			"b":          base64.URLEncoding.EncodeToString([]byte("." + value)),
			"c":          map[string]any{"d": hex.EncodeToString([]byte(value))},
			"some noise": rapid.StringOf(rapid.RuneFrom([]rune(`\"/nu0041%&;`))).Draw(t, "n"),
		}
		raw, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		got, changed := r.JSON(raw)
		if !changed || !json.Valid(got) {
			t.Fatalf("JSON(%s) = %s, %v", raw, got, changed)
		}
		var back any
		if err := json.Unmarshal(got, &back); err != nil {
			t.Fatal(err)
		}
		if text := fmt.Sprint(back); strings.Contains(text, value) ||
			strings.Contains(text, hex.EncodeToString([]byte(value))) {
			t.Fatalf("the value %q survives in %s", value, got)
		}
	})
}

func TestRedactor_text_without_secrets_is_unchanged(t *testing.T) {
	r := redactorOf("A", "Zq9~Zq9~", "B", "secret-value-of-some-length", "C", `back\slash%41&amp;`)
	rapid.Check(t, func(t *rapid.T) {
		raw := rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")
		text := string(raw) + rapid.StringOf(rapid.RuneFrom([]rune(`\%&u0041x;#amp`+"\n\r é😀"))).Draw(t, "escapes")
		if got := r.Text(text); got != text {
			t.Fatalf("Text(%q) = %q", text, got)
		}
		if got := chunked(r, text, func() int { return rapid.IntRange(1, 5).Draw(t, "n") }); got != text {
			t.Fatalf("in pieces %q = %q", text, got)
		}
	})
}

func TestStream_keeps_characters_whole(t *testing.T) {
	r := redactorOf("K", "hunter2")
	text := strings.Repeat("aé€😀", 5) + "hunter2😀"
	var got []string
	s := r.NewStream(func(p []byte) { got = append(got, string(p)) })
	for i := range len(text) {
		_, _ = s.Write([]byte{text[i]})
	}
	_ = s.Close()
	for _, part := range got {
		if !utf8.ValidString(part) {
			t.Errorf("a part is %q", part)
		}
	}
	if want := strings.ReplaceAll(text, "hunter2", "[redacted:K]"); strings.Join(got, "") != want {
		t.Errorf("got %q", got)
	}
	if n, err := s.Write([]byte("late")); n != 4 || err != nil || s.Close() != nil {
		t.Error("a closed stream takes and drops")
	}
}

func TestStream_gives_text_out_at_once(t *testing.T) {
	r := redactorOf("K", "hunter2 is my password", "L", strings.Repeat("z", 1000))
	var out bytes.Buffer
	s := r.NewStream(func(p []byte) { out.Write(p) })
	_, _ = s.Write([]byte("progress: half of it done.\n"))
	if held := 27 - out.Len(); held > 4 {
		t.Errorf("%d bytes are held back, got %q", held, out.String())
	}
	_ = s.Close()
}

func TestStream_takes_large_writes(t *testing.T) {
	named := manyValues(100)
	r := secret.NewRedactor(secret.Config{Values: named, Formats: true, Personal: true})
	for name, text := range corpora() {
		text = text[:300<<10]
		for i, n := range named {
			at := i * len(text) / len(named)
			copy(text[at:], n.Value.Reveal())
		}
		whole := r.Text(string(text))
		if count := strings.Count(whole, "[redacted:V"); count < len(named) {
			t.Errorf("%s: %d of %d values were removed", name, count, len(named))
		}
		for _, size := range []int{len(text), 100_000, 4096, 777} {
			if got := chunked(r, string(text), func() int { return size }); got != whole {
				t.Errorf("%s: writes of %d give something else", name, size)
			}
		}
	}
}

func TestStream_bounds_what_it_holds(t *testing.T) {
	r := secret.NewRedactor(
		secret.Config{Values: []secret.Named{{Name: "A", Value: secret.New("abab")},
			{Name: "B", Value: secret.New(strings.Repeat("q", 100) + "!")}}, Formats: true, Personal: true})
	const bound = 256 << 10
	for _, unit := range []string{"ab", "q", "\n", "\\", "%", "&", "&#", "\\u", "q\n", "%71", "\\u0071", "eyJa", "a@",
		"4111 ", "-----BEGIN PRIVATE KEY-----", "://a:b", "password=", "1", "A"} {
		most := 0
		s := r.NewStream(func([]byte) {})
		chunk := []byte(strings.Repeat(unit, 4096/len(unit)))
		for range bound/len(chunk) + 4 { // one that holds all holds too much
			_, _ = s.Write(chunk)
			most = max(most, secret.Held(s))
		}
		_ = s.Close()
		if most > bound {
			t.Errorf("%q: %d bytes were held back", unit, most)
		}
	}
}

func TestRedactor_large_sets_and_values(t *testing.T) {
	if testing.Short() {
		t.Skip("takes memory")
	}
	t.Run("a value of 1 MiB", func(t *testing.T) {
		big := strings.Repeat("0123456789abcdef-Q", secret.MaxValue/18)
		r := redactorOf("BIG", big, "K", "hunter2")
		for name, text := range map[string]string{"raw": big, "hex": hex.EncodeToString([]byte(big)),
			"json": inJSON(big)} {
			if got := chunked(r, "<"+text+">hunter2",
				func() int { return 10000 }); got != "<[redacted:BIG]>[redacted:K]" {
				t.Errorf("%s: %d bytes are left", name, len(got))
			}
		}
		if text := big[:1000]; r.Text(text) != text {
			t.Error("a part of a value is not the value")
		}
	})
	t.Run("10,000 values", func(t *testing.T) {
		named := manyValues(10000)
		r := secret.NewRedactor(secret.Config{Values: named})
		for i := 0; i < len(named); i += 97 {
			v := named[i].Value.Reveal()
			for _, text := range []string{v, strings.ToUpper(v), base64.StdEncoding.EncodeToString([]byte("xy" + v)),
				hex.EncodeToString([]byte(v))} {
				if got := r.Text("<" + text + ">"); !strings.Contains(got, "[redacted:"+named[i].Name+"]") {
					t.Fatalf("value %d survives as %q", i, got)
				}
			}
		}
	})
	t.Run("values that share beginnings and ends", func(t *testing.T) {
		var pairs []string
		for i := 4; i < 300; i++ {
			pairs = append(pairs, fmt.Sprint("A", i), strings.Repeat("a", i), fmt.Sprint("B", i),
				strings.Repeat("a", i)+"b")
		}
		r := redactorOf(pairs...)
		if got := r.Text("x" + strings.Repeat("a", 299) + "b aaa"); got != "x[redacted:B299] aaa" {
			t.Errorf("got %q", got)
		}
	})
}

func TestRedactor_is_safe_for_concurrent_use(t *testing.T) {
	r := secret.NewRedactor(secret.Config{Values: manyValues(50), Formats: true, Personal: true})
	v := manyValues(50)[7].Value.Reveal()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 200 {
				text := strings.Repeat("é\n", i) + v + "\\n"
				want := strings.Repeat("é\n", i) + "[redacted:V7]\\n"
				if got := r.Text(text); got != want {
					t.Errorf("got %q", got)
				}
				if got := chunked(r, text, func() int { return 1 + i%7 }); got != want {
					t.Errorf("in pieces %q", got)
				}
			}
		})
	}
	wg.Wait()
}

func FuzzStream(f *testing.F) {
	f.Add("hunter2", `a"b\c`, `x hunter2 y a\"b\\c %68unter2`, uint8(3))
	f.Add("aaaa", "aaab", "aaaaaab\n\naa\naab", uint8(1))
	f.Add(`p%41"q`, "\n\n\n\n", `p%41\"q`, uint8(2))
	f.Fuzz(func(t *testing.T, v, w, text string, size uint8) {
		r := secret.NewRedactor(
			secret.Config{Values: []secret.Named{{Name: "V", Value: secret.New(v)}, {Name: "W", Value: secret.New(w)}},
				Formats: size%2 == 0, Personal: size%3 == 0})
		whole := r.Text(text)
		if got := chunked(r, text, func() int { return 1 + int(size%16) }); got != whole {
			t.Fatalf("in pieces %q\nas a whole %q", got, whole)
		}
		for _, x := range []string{v, w} {
			if x = strings.TrimSpace(x); len(x) >= secret.MinValue && strings.Contains(text, x) &&
				len(r.Skipped()) == 0 && whole == text {
				t.Fatalf("%q survives in %q", x, whole)
			}
		}
		if raw, err := json.Marshal(text); err == nil {
			if out, _ := r.JSON(raw); !json.Valid(out) {
				t.Fatalf("JSON(%s) = %s", raw, out)
			}
		}
	})
}
