package javascript_test

import (
	"fmt"
	"strings"
	"testing"

	"haft/internal/javascript"
)

func TestNamesAreCheap(t *testing.T) {
	var numbered, honest strings.Builder
	numbered.WriteString("let y")
	for i := range 1900 {
		fmt.Fprintf(&numbered, ",y%d", i+2)
	}
	numbered.WriteString(";\n" + strings.Repeat("{let y}\n", 25_000))
	for i := range 2500 {
		fmt.Fprintf(&honest, "export function f%d(a: number) {\n  return [a].map((x) => { const y = x + %d; return "+
			"{ y }; })\n}\n", i, i)
	}
	tests := map[string]struct {
		source string
		want   bool
	}{
		"functions, 200 kB":   {honest.String(), true},
		"arrows in arrows":    {strings.Repeat("x=>", 1900) + "1", false},
		"10 arrows in arrows": {strings.Repeat("x=>", 10) + "1", true},
		"names with numbers":  {numbered.String(), false},
		"scopes in scopes, many": {strings.Repeat(strings.Repeat("{let y;", 100)+strings.Repeat("}", 100)+"\n", 100),
			false},
		"outside of the bounds": {strings.Repeat("[", 300), false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s, bad := javascript.Scan([]byte(tt.source))
			if got := bad == nil && s.NamesAreCheap(); got != tt.want {
				t.Errorf("NamesAreCheap = %v, want %v", got, tt.want)
			}
		})
	}
}
