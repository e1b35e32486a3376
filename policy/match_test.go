package policy_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"haft"
	"haft/policy"
)

// TestFind_long checks that a text that is read step by step gives the matches that
// it gives as a whole.
func TestFind_long(t *testing.T) {
	patterns := []string{
		`needle`, `(?i)NEEDLE`, `\bneed`, `\Beedle`, `^a`, `(?m)^n\w+`, `(?m)needle$`, `a+`, `[^x]+x`, `é.`,
		`(?s)need.*le`,
		`ne(ed|x)le|q`, `\b`, `a|ab`, `ab|a`, `\x{1F600}`, `needle\z`, `\An`, `.`,
	}
	units := []string{"needle", "a", "ab ", "x\nneedle\n", "é!", "😀", "\xff\xfe", "-", " n"}
	for _, pattern := range patterns {
		for _, unit := range units {
			text := strings.Repeat(unit, policy.Direct/len(unit)/2+1)
			text += strings.Repeat("-", 400) + unit + strings.Repeat(".", policy.Direct-len(text)) + unit
			got, err := policy.FindAll(t.Context(), pattern, text)
			if err != nil {
				t.Fatal(err)
			}
			want := regexp.MustCompile(pattern).FindAllStringIndex(text, 10_000)
			full := len(want) >= 10_000
			want = slices.DeleteFunc(want, func(at []int) bool { return at[0] == at[1] })
			if full && len(want) > 0 {
				want[len(want)-1][1] = len(text)
			}
			if len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
				t.Errorf("%s in %q: %d matches, want %d", pattern, unit, len(got), len(want))
			}
		}
	}
}

// ending is a context that ends when it was asked so often.
type ending struct {
	context.Context
	asks *int
	most int
}

func (e ending) Err() error {
	if *e.asks++; *e.asks > e.most {
		return context.DeadlineExceeded
	}
	return nil
}

// TestScreen_ends checks that no filter goes on when nobody waits any more: in one
// long text, between patterns, and between the parts of a value.
func TestScreen_ends(t *testing.T) {
	p := compiled(t, "version: 1\nfilters:\n  - {id: a, on: output, action: mask, pattern: '[a-c]+[78]'}\n  - {id: "+
		"b, on: output, action: mask, pattern: '[a-c]+[89]'}\n")
	long := strings.Repeat("abc ", 1<<18)
	list := `["` + strings.Repeat(`ab","`, 1<<16) + `"]`
	for name, run := range map[string]func(ctx context.Context, s *policy.Screen) error{
		"a long text": func(ctx context.Context, s *policy.Screen) error {
			_, err := s.Text(ctx, "stdout",
				long)
			return err
		},
		"many texts": func(ctx context.Context, s *policy.Screen) error {
			_, err := s.JSON(ctx,
				[]byte(list))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			asks := 0
			all := ending{t.Context(), &asks, 1 << 30}
			if err := run(all, p.Screen(policy.Request{}, policy.Output)); err != nil {
				t.Fatal(err)
			}
			whole := asks
			asks = 0
			err := run(ending{t.Context(), &asks, whole / 10}, p.Screen(policy.Request{}, policy.Output))
			if err == nil {
				t.Fatal("it went on to the end")
			}
			if asks > whole/10+8 {
				t.Errorf("the context was asked %d times after it ended, of %d in all", asks-whole/10, whole)
			}
		})
	}
}

// TestScreen_bounded checks that the texts of one call together are bounded.
func TestScreen_bounded(t *testing.T) {
	p := compiled(t, "version: 1\nfilters:\n  - {id: a, on: output, action: mask, pattern: 'needle'}\n")
	s := p.Screen(policy.Request{}, policy.Output)
	part := strings.Repeat("x", policy.MaxScreened/4)
	for i := range 5 {
		_, err := s.Text(t.Context(), "stdout", part)
		if over := i == 4; over != errors.Is(err, policy.ErrTooMuch) {
			t.Fatalf("part %d: %v", i, err)
		}
	}
	if p.Screen(policy.Request{}, policy.Input) != nil {
		t.Error("there is a screen without a filter")
	}
}

// TestScreen_masksBounded checks that what is masked does not grow without bound.
func TestScreen_masksBounded(t *testing.T) {
	p := compiled(t, "version: 1\nfilters:\n  - {id: a, on: output, action: mask, pattern: 'x'}\n")
	out, err := p.Screen(policy.Request{}, policy.Output).Text(t.Context(), "stdout", strings.Repeat("x", 8<<20))
	if err != nil || strings.ContainsRune(strings.ReplaceAll(out.Text, "[masked by a]", ""), 'x') ||
		len(out.Text) > 1<<20 {
		t.Errorf("8 MiB of matches became %d bytes: %v", len(out.Text), err)
	}
}

// TestScreen_keys checks that a key is cleaned before it is cut for a finding.
func TestScreen_keys(t *testing.T) {
	p := compiled(t, "version: 1\nfilters:\n  - {id: a, on: output, action: warn, pattern: 'needle'}\n")
	s := p.Screen(policy.Request{}, policy.Output)
	value := strings.Repeat("s3cr", 100)
	s.Clean = func(text string) string { return strings.ReplaceAll(text, value, "[redacted]") }
	out, err := s.JSON(t.Context(), []byte(`{"`+value+`": "needle"}`))
	if err != nil || len(out.Findings) != 1 || strings.Contains(out.Findings[0].String(), "s3cr") {
		t.Errorf("%v, %v", out.Findings, err)
	}
}

// TestCompile_costly checks that patterns that cost too much are refused when they are
// written, and that those which are kept already still hold.
func TestCompile_costly(t *testing.T) {
	for name, doc := range map[string]string{
		"a count":        "  - {id: a, on: output, action: mask, pattern: '[a-z]{1000}!'}\n",
		"nested counts":  "  - {id: a, on: output, action: mask, pattern: '((ab?){30}c?){30}'}\n",
		"optional parts": "  - {id: a, on: output, action: mask, pattern: '(x?y?z?){400}q'}\n",
		"many in a row": "  - {id: a, on: output, action: mask, pattern: '" + strings.Repeat(".{0,100}", 12) +
			"q'}\n",
		"many of them": lines("  - {id: r%d, on: input, action: warn, pattern: 'a[bc]{90}'}\n", 60),
		"wide classes": lines("  - {id: r%d, on: input, action: warn, pattern: '\\pL{200}x'}\n", 30),
		"alternatives": "  - {id: a, on: output, action: mask, pattern: '(" + strings.Repeat("ab?|", 90) +
			"c){10}'}\n",
		"behind each two": "  - {id: a, on: output, action: mask, pattern: '(a{0,500})(b{0,500})c'}\n",
	} {
		text := []byte("version: 1\nfilters:\n" + doc)
		_, err := policy.Compile(text)
		if haft.CodeOf(err) != haft.CodeInvalid || !strings.Contains(haft.MessageOf(err), "steps") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := policy.CompileKept(text); err != nil {
			t.Errorf("%s, which is kept: %v", name, err)
		}
	}
	ordinary := "version: 1\nfilters:\n" +
		lines("  - {id: r%d, on: output, action: mask, pattern: "+
			"'\\b[A-Za-z0-9._%%+-]+@[A-Za-z0-9.-]+\\.[A-Za-z]{2,10}\\b'}\n", 50)
	if _, err := policy.Compile([]byte(ordinary)); err != nil {
		t.Errorf("fifty ordinary patterns: %v", err)
	}
}

// BenchmarkScreen measures what a byte costs, in long texts.
func BenchmarkScreen(b *testing.B) {
	worst := lines("  - {id: w%d, on: output, action: mask, pattern: '(a?){240}[b%[1]d]z'}\n", 5)
	for name, doc := range map[string]string{
		"literal": "  - {id: a, on: output, action: mask, pattern: 'needle[0-9]+'}\n",
		"email":   "  - {id: a, on: output, action: mask, pattern: '[A-Za-z0-9._-]+@[A-Za-z0-9.-]+'}\n",
		"digits":  "  - {id: a, on: output, action: mask, pattern: '[0-9]{4}[0-9 -]{4,12}[0-9]{4}'}\n",
		"worst":   worst,
	} {
		b.Run(name, func(b *testing.B) {
			p, err := policy.CompileKept([]byte("version: 1\nfilters:\n" + doc))
			if err != nil {
				b.Fatal(err)
			}
			text := strings.Repeat("The quick brown fox jumps over 13 lazy dogs. ", 1<<8) + "needle @"
			if name == "worst" {
				text = strings.Repeat("a", 1<<12) + "z needle @"
			}
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				_, _ = p.Screen(policy.Request{}, policy.Output).Text(b.Context(), "stdout", text)
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(len(text)), "µs/byte")
		})
	}
}

// compiled compiles a document.
func compiled(t *testing.T, text string) *policy.Policy {
	t.Helper()
	p, err := policy.Compile([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// lines writes a line n times, with its number.
func lines(format string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}
