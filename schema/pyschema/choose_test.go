package pyschema_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"haft/schema"
	"haft/schema/pyschema"
)

func TestDeriver_Tools(t *testing.T) {
	const one, two = "def one():\n    'One.'\n", "def two():\n    'Two.'\n"
	tests := []struct {
		name, source string
		want         string // names, or the error
	}{
		{"documented", one + two, "one two"},
		{"undocumented_helper", one + "def helper():\n    pass\n", "one"},
		{"private_helper", one + "def _helper():\n    'Help.'\n", "one"},
		{"only_undocumented", "def one():\n    pass\n", "one"},
		{"several_undocumented", "def one():\n    pass\ndef two():\n    pass\n",
			"f.py: 2 functions can be the tool, and none of them is documented: one, two: document those that are " +
				"tools, " +
				"or name one, such as f.py:one"},
		{"decorated", "from haft import tool\n@tool\n" + one + two + "@tool(name='x')\ndef three():\n    " +
			"pass\n", "one three"},
		{"haft_dotted", "import haft\n@haft.tool\n" + one + two, "one"},
		{"fastmcp", "from mcp.server.fastmcp import FastMCP\nmcp = " +
			"FastMCP('x')\n" + one + "@mcp.tool()\n" + two, "two"},
		{"langchain", "from langchain_core.tools import tool\n" + one + "@tool('name')\n" + two, "two"},
		{"renamed_by_import", "from langchain_core.tools import tool as lc\n" + one + "@lc\n" + two, "two"},
		{"renamed_module", "import haft as h\nmake = h\n" + one + "@h.tool\n" + two, "two"},
		{"private_and_decorated", "@tool\ndef _one():\n    pass\n" + two, "_one"},
		{"overloads", "import typing\n@typing.overload\n" + one + one + two, "one two"},
		{"alternatives", "try:\n    import x\n    def one():\n        'A.'\nexcept ImportError:\n    def one():\n  " +
			"      'B.'\n" +
			two, "one two"},
		{"nested_and_methods", "class A:\n    def m(self):\n        'M.'\ndef one():\n    'One.'\n    def " +
			"inner():\n        'I.'\n",
			"one"},
		{"none", "x = 1\n", "f.py: line 1, column 1: the source has no function at its top level: a tool is a def " +
			"or async def " +
			"that is not indented"},
		{"syntax", "def (:\n", "f.py: line 1, column 5: invalid syntax"},
	}
	read := newLasting(t, needPython(t)[0]).read
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			d := pyschema.Deriver{Read: read}
			names, err := d.Tools(t.Context(), []byte(test.source))
			got := strings.Join(names, " ")
			if err != nil {
				got = schema.InFile("f.py", err).Error()
			}
			if !strings.HasPrefix(got, test.want) || err == nil && got != test.want {
				t.Errorf("Tools = %q, want %q", got, test.want)
			}
		})
	}
}

func TestDeriver_Derive_takes_one_tool(t *testing.T) {
	read := newLasting(t, needPython(t)[0]).read
	const helper = "def helper():\n    pass\n"
	for _, test := range []struct {
		source, options string
		one             bool
		want            string
	}{
		{"def a():\n    'A.'\n" + helper, "", true, "a"},
		{"def a():\n    'A.'\ndef b():\n    'B.'\n", "", true, "FILE: 2 functions are tools: a, b: name one, such " +
			"as FILE:a"},
		{"def a():\n    'A.'\ndef b():\n    'B.'\n", "a", true, "a"},
		{"def a():\n    'A.'\ndef b():\n    'B.'\n", "", false, "b"},
		{"def a():\n    'A.'\ndef a():\n    'B.'\n", "", true,
			"line 3, column 1: function a: the function is defined twice, in line 1 and in line 3: give each its " +
				"own name"},
	} {
		sig, err := (&pyschema.Deriver{Read: read}).Derive(t.Context(), []byte(test.source),
			schema.Options{Function: test.options, OneTool: test.one})
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = sig.Name
		}
		if got != test.want {
			t.Errorf("Derive(%q, %q, %v) = %q, want %q", test.source, test.options, test.one, got, test.want)
		}
	}
}

func TestDeriver_Derive_warns_of_contradictions(t *testing.T) {
	read := newLasting(t, needPython(t)[0]).read
	const other = "parameter a: the docstring gives it another type than its annotation, which counts: correct one " +
		"of them"
	for _, test := range []struct {
		name, annotation, doc string
		want                  []string
	}{
		{"google", "a: str", "Args:\n        a (int): One.", []string{other}},
		{"google_same", "a: str", "Args:\n        a (str): One.", nil},
		{"google_optional", "a: int | None = None", "Args:\n        a (int, optional): One.", nil},
		{"google_words", "a: 'list[str]'", "Args:\n        a (list[str] or None): One.", nil},
		{"unknown_word", "a: str", "Args:\n        a (Path): One.", nil},
		{"untyped", "a: object", "Args:\n        a (int): One.", nil},
		{"numpy", "a: bool", "Parameters\n    ----------\n    a : int\n        One.", []string{other}},
		{"rest", "a: bool", ":param int a: One.", []string{other}},
		{"rest_type", "a: bool", ":param a: One.\n    :type a: int", []string{other}},
		{"not_there", "a: int", "Args:\n        a: One.\n        b: Two.",
			[]string{"parameter b: the docstring describes it, and the function does not have it: remove it, or " +
				"rename it"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			source := "def f(" + test.annotation + "):\n    \"\"\"Do it.\n\n    " + test.doc + "\n    \"\"\"\n"
			sig, err := (&pyschema.Deriver{Read: read}).Derive(t.Context(), []byte(source), schema.Options{})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, w := range sig.Warnings {
				_, text, _ := strings.Cut(w.Error(), "function f: ")
				got = append(got, text)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDeriver_Derive_lists_what_is_undocumented(t *testing.T) {
	read := newLasting(t, needPython(t)[0]).read
	for source, want := range map[string]string{
		"def f(a: int):\n    pass\n": "line 1, column 1: function f: the function has no docstring: say in one " +
			"what the tool does, and " +
			"describe its parameters. Write:\n    \"\"\"What the tool does.\n\n    Args:\n        a: What a is.\n  " +
			"  \"\"\"",
		"def f(a: int):\n    'Do it.'\n": "line 1, column 7: function f: parameter a: it has no description: " +
			"describe it in the " +
			"docstring. Write:\n    Args:\n        a: What a is.",
		"def f(a: int, b: int):\n    '''Do it.\n\n    :param a: One.\n    '''\n": "line 1, column 15: function f: " +
			"parameter b: it has " +
			"no description: describe it in the docstring. Write:\n    :param b: What b is.",
		"def f(a: int):\n    '''Do it.\n\n    Args:\n        a: One.\n    '''\n": "",
	} {
		sig, err := (&pyschema.Deriver{Read: read}).Derive(t.Context(), []byte(source),
			schema.Options{DescriptionsOptional: true})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, e := range sig.Undocumented {
			got += e.Error()
		}
		if got != want {
			t.Errorf("Undocumented of %q:\n%s\nwant:\n%s", source, got, want)
		}
	}
}
