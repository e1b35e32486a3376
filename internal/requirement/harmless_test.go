package requirement_test

import (
	"strings"
	"testing"

	"haft"
	"haft/internal/requirement"
)

// A call is made again only if nothing but imports can have run before.
func TestMissing_Harmless(t *testing.T) {
	inside := "Traceback (most recent call last):\n  File \"tool.py\", line LINE, in f\n    import x\n"
	for name, tt := range map[string]struct {
		source string // the import that fails is of x
		trace  string
		kind   haft.Kind
		want   bool
	}{
		"at load": {"import x\ndef f(): pass",
			strings.ReplaceAll(inside, "in f", "in <module>"), "", true},
		"first": {"def f():\n    import x\n    return 1", "", "", true},
		"among imports": {"def f(a: int,\n      b=1) -> str:\n    import os\n    from y import z\n    import x",
			"", "", true},
		"after its docs": {"def f():\n    \"\"\"Docs.\n\n    print(1)\n    \"\"\"\n    # why\n    import x",
			"", "", true},
		"after short docs":   {"async def f():\n    r'''Docs.'''\n\n    import x", "", "", true},
		"after a call":       {"def f():\n    send()\n    import x", "", "", false},
		"after docs, a call": {"def f():\n    \"\"\"Docs.\"\"\"; send()\n    import x", "", "", false},
		"docs twice": {"def f():\n    \"\"\"D.\"\"\"\n    \"\"\"%s\"\"\" % send()\n    import x",
			"", "", false},
		"behind an import": {"def f():\n    import os; os.remove('a')\n    import x", "", "", false},
		"in a branch":      {"def f():\n    if send():\n        import x", "", "", false},
		"decorated":        {"@wrap\ndef f():\n    import x", "", "", false},
		"in another": {"def g():\n    import x\ndef f():\n    g()",
			strings.ReplaceAll(inside, "in f", "in g"), "", false},
		"called by it":      {"def f():\n    g()\ndef g():\n    import x", "", "", false},
		"no traceback":      {"def f():\n    import x", "none", "", false},
		"beyond the source": {"def f():\n    import x", strings.ReplaceAll(inside, "LINE", "99"), "", false},
		"on its line":       {"def f(): import x", "", "", false},
		"JavaScript":        {"function f() {\n    import x", "", haft.KindJavaScript, false},
	} {
		trace := tt.trace
		if trace == "" {
			trace = inside
		}
		line := strings.Count(tt.source[:strings.Index(tt.source, "import x")], "\n") + 1
		if name == "called by it" {
			line = 2
		}
		trace = strings.ReplaceAll(trace, "LINE", string(rune('0'+line)))
		kind := tt.kind
		if kind == "" {
			kind = haft.KindPython
		}
		if got := (requirement.Missing{Module: "x"}).Harmless(kind, tt.source, "f", trace); got != tt.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}
