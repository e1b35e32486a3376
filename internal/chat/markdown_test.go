package chat

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// render renders a text that arrives in pieces.
func render(colour bool, width int, pieces ...string) string {
	var b bytes.Buffer
	m := newMarkdown(&b, textGutter, plain, colour, func() int { return width })
	for _, p := range pieces {
		m.add(p)
	}
	m.close()
	return b.String()
}

// marked makes the styles of a rendered text readable, and removes the gutter.
func marked(s string) string {
	s = strings.ReplaceAll(s, "\x1b[2m"+textGutter+"\x1b[0m", "")
	for from, to := range map[string]string{"\x1b[0m": "<>", "\x1b[0;1m": "<b>", "\x1b[0;3m": "<i>",
		"\x1b[0;36m": "<c>", "\x1b[0;4m": "<u>", "\x1b[0;2m": "<d>", "\x1b[0;1;3m": "<bi>", "\x1b[0;1;36m": "<bc>"} {
		s = strings.ReplaceAll(s, from, to)
	}
	return s
}

var rendered = []struct{ name, text, want string }{
	{"text", "Hello, world", "Hello, world\n"},
	{"lines stay", "a\nb\r\nc", "a\nb\nc\n"},
	{"empty lines become one", "\n\na\n\n\n\nb\n\n\n", "a\n\nb\n"},
	{"heading", "## Big *one*\ntext", "<b>Big<> <bi>one<>\ntext\n"},
	{"no heading", "#tag and a # b", "#tag and a # b\n"},
	{"bold", "a **b c** d", "a <b>b c<> d\n"},
	{"italic", "a *b* _c_ d", "a <i>b c<> d\n"},
	{"both", "***a*** b", "<bi>a<> b\n"},
	{"stars that are none", "2 * 3 ** 4 snake_case_name", "2 * 3 ** 4 snake_case_name\n"},
	{"emphasis ends with the paragraph", "**a\n\nb", "<b>a<>\n\nb\n"},
	{"escaped", `\*a\* \n`, `*a* \n` + "\n"},
	{"code", "run `a *b* c` now", "run <c>a *b* c<> now\n"},
	{"code with a backtick", "``a`b`` c", "<c>a`b<> c\n"},
	{"list", "- a\n* b\n  + c\n12. d", "<d>• <>a\n<d>• <>b\n  <d>• <>c\n<d>12. <>d\n"},
	{"quote", "> a *b*\n>c", "<d>┃ <>a <i>b<>\n<d>┃ <>c\n"},
	{"no code within a quote", "> ```\n> a\n\nb", "<d>┃ <>\n<d>┃ <c>a<>\n\nb\n"},
	{"rule", "---\na", "<d>" + strings.Repeat("─", 18) + "<>\na\n"},
	{"link", "[the **page**](https://a.example/x_y*w*)", "[the <b>page<>](<u>https://a.example/x_y*w*<>)\n"},
	{"address", "at https://a.example/a_b_`c` ok", "at <u>https://a.example/a_b_`c`<> ok\n"},
	{"block of code", "```go\nif *a* {\n\n}\n```\nb", "<d>go<>\n<c>if *a* {<>\n\n<c>}<>\nb\n"},
	{"block with a longer fence", "````\n```\n````\nb", "<c>```<>\nb\n"},
	{"block without an end", "~~~\na\n~~", "<c>a<>\n<c>~~<>\n"},
	{"wrapped", strings.Repeat("word ", 9), "word word word word word word word\nword word\n"},
	{"wrapped list", "- " + strings.Repeat("word ", 8), ""},
	{"long word", strings.Repeat("x", 40), strings.Repeat("x", 37) + "\nxxx\n"},
	{"wide", strings.Repeat("漢", 20), strings.Repeat("漢", 18) + "\n漢漢\n"},
	{"bold and wide", "**漢字**です", "<b>漢字<>です\n"},
	{"control characters", "a\x1b[31mb\u009b2J\u202e\x7f", `a\x1b[31mb\u009b2J\u202e\x7f` + "\n"},
	{"invalid", "a\xffb\xe2\x82", "a\ufffdb\ufffd\ufffd\n"},
	{"marks without end", "a" + strings.Repeat("\u0301", 50), "a" + strings.Repeat("\u0301", maxMarks) + "\n"},
	{"tabs", "```\na\tb\n```", "<c>a    b<>\n"},
}

func TestMarkdown(t *testing.T) {
	for _, c := range rendered {
		t.Run(c.name, func(t *testing.T) {
			whole := render(true, 40, c.text)
			if c.want != "" && marked(whole) != c.want {
				t.Errorf("got  %q\nwant %q", marked(whole), c.want)
			}
			checkOutput(t, whole, 40)
			checkSplits(t, c.text, 40)
		})
	}
}

// checkSplits renders a text cut in two at every byte, and byte by byte.
func checkSplits(t *testing.T, text string, width int) {
	t.Helper()
	for _, colour := range []bool{true, false} {
		whole := render(colour, width, text)
		var bytes []string
		for i := range len(text) {
			bytes = append(bytes, text[i:i+1])
			if got := render(colour, width, text[:i], text[i:]); got != whole {
				t.Fatalf("cut at %d: %q\nwhole: %q", i, got, whole)
			}
		}
		if got := render(colour, width, bytes...); got != whole {
			t.Fatalf("byte by byte: %q\nwhole: %q", got, whole)
		}
	}
}

// ours are the only sequences that the renderer writes.
var ours = regexp.MustCompile("\x1b\\[[0-9]+(;[0-9]+)*m")

// checkOutput checks that each line is behind the gutter, fits, and has no control characters.
func checkOutput(t *testing.T, out string, width int) {
	t.Helper()
	out = ours.ReplaceAllString(out, "")
	if out != "" && !strings.HasSuffix(out, "\n") || !utf8.ValidString(out) {
		t.Errorf("the output ends within a line, or is not UTF-8: %q", out)
	}
	for line := range strings.Lines(out) {
		line = strings.TrimSuffix(line, "\n")
		if !strings.HasPrefix(line, textGutter) {
			t.Errorf("a line leaves the gutter: %q", line)
		}
		var c cleaner
		cols := 0
		for _, r := range line {
			if _, n := c.rune(r); n > 0 {
				cols += n
			}
			if r != '\u200c' && r != '\u200d' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
				t.Errorf("%U is shown in %q", r, line)
			}
		}
		if cols >= max(width, minText) {
			t.Errorf("a line has %d columns: %q", cols, line)
		}
	}
}

func TestMarkdown_lists(t *testing.T) {
	got := render(false, 24, "1. one two three four five\n   - six seven eight nine ten\n> > quoted text that is long")
	want := "│ 1. one two three four\n│    five\n│    • six seven eight\n│      nine ten\n" +
		"│ ┃ ┃ quoted text that\n│     is long\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestMarkdown_without_colours_keeps_the_markers(t *testing.T) {
	got := render(false, 80, "# a\n**b** `c`")
	if want := "│ # a\n│ **b** `c`\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestMarkdown_shows_a_word_when_it_ends(t *testing.T) {
	var b bytes.Buffer
	m := newMarkdown(&b, textGutter, plain, false, func() int { return 80 })
	for _, step := range []struct{ add, want string }{
		{"Hel", ""}, {"lo ", "│ Hello"}, {"wor", ""}, {"ld\n", " world\n"}, {"漢", "│ 漢"}, {"x", ""},
	} {
		b.Reset()
		if m.add(step.add); b.String() != step.want {
			t.Errorf("%q writes %q, want %q", step.add, b.String(), step.want)
		}
	}
}

func TestMarkdown_holds_little_back(t *testing.T) {
	for _, text := range []string{"", "```\n"} {
		var b bytes.Buffer
		m := newMarkdown(&b, textGutter, plain, true, func() int { return 80 })
		m.add(text)
		for range 10 * maxWord {
			m.add("`")
			if len(m.word) > maxWord || text != "" && len(m.word) > longFence {
				t.Fatalf("%d characters are held back after %q", len(m.word), text)
			}
		}
	}
}

func TestColumns(t *testing.T) {
	for text, want := range map[string]int{"a": 1, "é": 1, "e\u0301": 1, "漢": 2, "❤\ufe0f": 2, "👩\u200d👧": 4, "🇩🇪": 4,
		"\x1b": 4, "\u202e": 6} {
		var c cleaner
		got := 0
		for _, r := range text {
			_, n := c.rune(r)
			got += n
		}
		if got != want {
			t.Errorf("%q has %d columns, want %d", text, got, want)
		}
	}
	for _, line := range wrap(strings.Repeat("é ", 100), 30) {
		if n := len([]rune(line)); n > 20 {
			t.Errorf("a line has %d characters, which may be wide", n)
		}
	}
	got := strings.Join(wrap("one two three four five six seven", 20), "|")
	if want := "one two three four |five six seven"; got != want {
		t.Errorf("wrapped: %q, want %q", got, want)
	}
}

func FuzzMarkdown(f *testing.F) {
	for _, c := range rendered {
		f.Add(c.text, 40, uint(7))
	}
	f.Add("#\ta\n>\tb", 40, uint(1))
	f.Add("```\n\u200d\ufe0f❤️\ufe0f\n", 10, uint(3))
	f.Add("- > 1. x\n>>>>>>>>>>>>>>>>>>>>>>>>>>>>> 123456789. y", 10, uint(3))
	f.Fuzz(func(t *testing.T, text string, width int, cut uint) {
		if len(text) > 4000 {
			return
		}
		width = min(max(width, -1), 200)
		at := int(cut % uint(len(text)+1))
		for _, colour := range []bool{true, false} {
			whole := render(colour, width, text)
			checkOutput(t, whole, width)
			if got := render(colour, width, text[:at], text[at:]); got != whole {
				t.Errorf("cut at %d: %q\nwhole: %q", at, got, whole)
			}
			if !colour && strings.ContainsRune(whole, 0x1b) {
				t.Error("there is a sequence without colours")
			}
		}
	})
}
