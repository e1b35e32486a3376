package requirement_test

import (
	"strconv"
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
		"after plain lines": {"r'''Docs.\nsend()\n'''\nimport os  # why\n\nURL: str = \"a\"\nN = -1.5\n\ndef g(a,\n" +
			"      b=1,\n) -> dict[str, int]:\n    send()\n\nasync def f(c: str = \"d\"):\n    import x", "", "", true},
		"another file of the tool": {"import helper\ndef f():\n    import x",
			inside + "  File \"helper.py\", line 1, in <module>\n", "", false},
		"loaded by another file": {"import x\ndef f(): pass", strings.ReplaceAll(inside, "in f", "in <module>") +
			"  File \"helper.py\", line 3, in <module>\n", "", false},
		"at load, after a call": {"send()\nimport x", strings.ReplaceAll(inside, "in f", "in <module>"), "", false},
		"at load, in a branch": {"if send():\n    import x", strings.ReplaceAll(inside, "in f", "in <module>"), "",
			false},
		"a call at top level":     {"send()\ndef f():\n    import x", "", "", false},
		"a call of a constant":    {"N = send()\ndef f():\n    import x", "", "", false},
		"a call in a list":        {"N = [\n  send()\n]\ndef f():\n    import x", "", "", false},
		"a call in a class":       {"class C:\n    send()\ndef f():\n    import x", "", "", false},
		"a call by a decorator":   {"@send\ndef g(): pass\ndef f():\n    import x", "", "", false},
		"a call in a head":        {"def g(a=send()): pass\ndef f():\n    import x", "", "", false},
		"a call in a long head":   {"def g(a=\")\",\n  b=send()): pass\ndef f():\n    import x", "", "", false},
		"a call after a text":     {"def g():\n    a = '''\n'''\nsend()\ndef f():\n    import x", "", "", false},
		"a call after the docs":   {"'''D.\n'''; send()\ndef f():\n    import x", "", "", false},
		"a call in a comment":     {"# why\rsend()\ndef f():\n    import x", "", "", false},
		"a call behind an import": {"import os; send()\ndef f():\n    import x", "", "", false},
		"JavaScript":              {"function f() {\n    import x", "", haft.KindJavaScript, false},
	} {
		trace := tt.trace
		if trace == "" {
			trace = inside
		}
		line := strings.Count(tt.source[:strings.Index(tt.source, "import x")], "\n") + 1
		if name == "called by it" {
			line = 2
		}
		trace = strings.ReplaceAll(trace, "LINE", strconv.Itoa(line))
		kind := tt.kind
		if kind == "" {
			kind = haft.KindPython
		}
		if got := (requirement.Missing{Module: "x"}).Harmless(kind, tt.source, "f", trace); got != tt.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}
