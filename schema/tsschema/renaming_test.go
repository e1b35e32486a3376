package tsschema_test

import (
	"fmt"
	"strings"
	"testing"

	"haft/schema/tsschema"
)

func TestNamesAreCheap(t *testing.T) {
	var numbered, honest strings.Builder
	numbered.WriteString("let y")
	for i := range 1900 {
		fmt.Fprintf(&numbered, ",y%d", i+2)
	}
	numbered.WriteString(";\n" + strings.Repeat("{let y}\n", 25_000))
	for i := range 2500 {
		fmt.Fprintf(&honest, "export function f%d(a: number) {\n  return [a].map((x) => { const y = x + %d; return { y }; })\n}\n", i, i)
	}
	tests := map[string]struct {
		source string
		want   bool
	}{
		"functions, 200 kB":      {honest.String(), true},
		"arrows in arrows":       {strings.Repeat("x=>", 1900) + "1", false},
		"10 arrows in arrows":    {strings.Repeat("x=>", 10) + "1", true},
		"names with numbers":     {numbered.String(), false},
		"scopes in scopes, many": {strings.Repeat(strings.Repeat("{let y;", 100)+strings.Repeat("}", 100)+"\n", 100), false},
		"outside of the bounds":  {strings.Repeat("[", 300), false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tsschema.NamesAreCheap([]byte(tt.source)); got != tt.want {
				t.Errorf("NamesAreCheap = %v, want %v", got, tt.want)
			}
		})
	}
}

func TestCheckBounds(t *testing.T) {
	for source, want := range map[string]string{
		"export function f() {}":                                     "",
		"export const f = " + strings.Repeat("a?(b):c=>", 20) + "1;": "too many conditions with arrow functions",
		strings.Repeat("[", 10_000):                                  "brackets are nested deeper than 256",
		strings.Repeat("!", 10_000):                                  "one statement has more than 4000 words",
		"a\x00":                                                      "zero byte",
	} {
		err := tsschema.CheckBounds([]byte(source))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("CheckBounds(%.20q…) = %v, want %q", source, err, want)
		}
	}
}
