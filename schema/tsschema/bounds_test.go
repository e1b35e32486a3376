package tsschema_test

import (
	"strings"
	"testing"

	"haft/schema/tsschema"
)

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
