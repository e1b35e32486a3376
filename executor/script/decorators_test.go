package script_test

import (
	"testing"

	"haft"
	"haft/executor/script"
)

// decoratorCases are tools whose decorators are of packages that are not installed.
var decoratorCases = []toolCase{
	{name: "haft", source: "from haft import tool\n@tool\ndef f(): return 1", want: `1`},
	{name: "haft_dotted", source: "import haft\n@haft.tool(name='x')\nasync def f(): return 1", want: `1`},
	{name: "mcp", source: "from mcp.server.fastmcp import FastMCP\nm = FastMCP('x')\n@m.tool()\ndef f(): return " +
		"1\nm.run()",
		want: `1`},
	{name: "fastmcp", source: "import fastmcp\nm = fastmcp.FastMCP()\n@m.tool\ndef f(): return 1", want: `1`},
	{name: "langchain", source: "from langchain_core.tools import tool as t\n@t('x', return_direct=True)\ndef f(): " +
		"return 1",
		want: `1`},
	{name: "more_of_a_package", source: "from fastmcp import FastMCP, Context\ndef f(): return " +
		"1", kind: haft.FailException,
		says: []string{"ModuleNotFoundError", "No module named 'fastmcp'"}},
	{name: "package_that_is_asked_for", source: "try:\n  from langchain_core import messages\n  has = True\n" +
		"except ImportError:\n  has = False\ndef f(): return has", want: `false`},
	{name: "not_imported", source: "def f():\n  try: __import__('mcp')\n  except ImportError: return " +
		"'none'", want: `"none"`},
	{name: "object_with_the_function", source: "class T:\n  def __init__(self, f): self.fn = f\n@T\ndef f(): return 1",
		want: `1`},
	{name: "partial", source: "import functools\n@lambda g: functools.partial(g, 2)\ndef f(n=1): return n", want: `2`},
}

func TestPython_decorators(t *testing.T) {
	x := setup(t, haft.KindPython, script.Config{})
	for _, c := range decoratorCases {
		t.Run(c.name, func(t *testing.T) { c.check(t, x, haft.KindPython) })
	}
}
