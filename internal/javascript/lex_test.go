package javascript_test

import (
	"strings"
	"testing"

	"haft/internal/javascript"
)

// TestScan_hidden_depth: code that esbuild reads must count for the bounds,
// whatever it looks like. 250 kB of "!" in it ended the process.
func TestScan_hidden_depth(t *testing.T) {
	deep := strings.Repeat("!", 5000) + "1"
	tests := map[string]string{
		"after an object":                   "x = {}\n/ " + deep + " / 1",
		"after a block":                     "{} /\"/;" + deep + "/\"/",
		"after a block, over lines":         "{} /`/;\n" + deep + "/`/",
		"after a member like a keyword":     "x.return / " + deep + " / 1",
		"after a method like a keyword":     "x.if(1) / " + deep + " / 1",
		"after an awaited value":            "await (1) / " + deep + " / 1",
		"after a name like a keyword":       "of = 1; of / " + deep + " / 1",
		"after the mark of TypeScript":      "x! / " + deep + " / 1",
		"after type arguments":              "f<T> / " + deep + " / 1",
		"after ++":                          "++/\"/.x;" + deep + "/\"/",
		"after a name beyond ASCII":         "return\u00b7 / " + deep + " / 1",
		"after an escaped name":             `\u{61}return / ` + deep + " / 1",
		"after an import without semicolon": "import 'x'\n/\"/;" + deep + "/\"/",
		"after a hexadecimal number":        "x=0xe+/\"/;" + deep + ";/\"/",
		"after U+2028 in a comment":         "// \u2028" + deep,
		"after a carriage return in #!":     "#!\r" + deep,
		"in a comment of HTML":              "<!-- /*\n" + deep + "\n<!-- */",
		"after the end of one":              "\n--> /*\n" + deep + "\n--> */",
		"in small pieces":                   strings.Repeat("x = of / -1 /\n", 5000) + "1",
	}
	for name, source := range tests {
		t.Run(name, func(t *testing.T) {
			if _, bad := javascript.Scan([]byte(source)); bad == nil {
				t.Errorf("Scan(%.40q) has no problem", source)
			}
		})
	}
}

// TestScan_slashes: what people write is read.
func TestScan_slashes(t *testing.T) {
	for _, source := range []string{
		"if (!/[\"'`]/.test(x)) y = a / b; // c", "return /\"/.test(x)", "x = a\n  / b\n  / c", "while (n --> 0) x()",
		"for await (const x of y) /\"/.test(x)", "function* g() { yield /}/; }", "if (x) {}\n/a\"/.test(y)",
		"x = a! / b", "x = i++ / 2", "`${a} / ${b} // \"`", "f(<T>/\"/)", "x = 0xe+1 / 2", "typeof /'/",
		"a = b ? /'/ : /\"/",
	} {
		if _, bad := javascript.Scan([]byte(source)); bad != nil {
			t.Errorf("Scan(%q): %v", source, bad)
		}
	}
}
