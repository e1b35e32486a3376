package pyschema_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"haft/schema"
	"haft/schema/pyschema"
)

// What decorators of other libraries say of their tools is read where it is written out. What cannot be used is a
// warning, and never dropped in silence.
func TestDerive_reads_decorators_of_other_libraries(t *testing.T) {
	const (
		fastmcp = "from mcp.server.fastmcp import FastMCP\nmcp = FastMCP('x')\n"
		lc      = "from langchain_core.tools import tool\nfrom pydantic import BaseModel, Field\n"
		in      = "class In(BaseModel):\n    q: str = Field(description='What to look for.')\n"
		plus    = "\ndef plus(q: str) -> str:\n    \"\"\"Say it.\n\n    Args:\n        q: Given.\n    \"\"\"\n"
		bare    = "\ndef plus(q: str) -> str:\n    pass\n"
		short   = "\ndef plus(q: str) -> str:\n    'Say it.'\n"
		same    = "plus|Say it.|Given."
	)
	tests := []struct {
		name, source string
		want         string // name, description and that of q, or the error
		warnings     []string
	}{
		{"fastmcp", fastmcp + "@mcp.tool(name='sum_up', description='Sum up.')" + plus, "sum_up|Sum up.|Given.", nil},
		{"fastmcp_by_position", fastmcp + "@mcp.tool('sum_up')" + plus, "sum_up|Say it.|Given.", nil},
		{"fastmcp_factory", "from fastmcp import FastMCP\ndef _make():\n    return FastMCP()\nmcp = _make()\n" +
			"@mcp.tool(name='sum_up')" + plus, "sum_up|Say it.|Given.", nil},
		{"nothing_said", fastmcp + "@mcp.tool(name=None)" + plus, same, nil},
		{"several_lines", fastmcp + "@mcp.tool(description='''\n    One.\n      Two.\n''')" + plus,
			"plus|One.\n  Two.|Given.", nil},
		{"constant", fastmcp + "NAME = 'sum' + '_up'\n@mcp.tool(NAME)" + plus, "sum_up|Say it.|Given.", nil},
		{"langchain", lc + in + "@tool('search_it', args_schema=In)" + short,
			"search_it|Say it.|What to look for.", nil},
		{"own_description_first", lc + in + "@tool(args_schema=In)" + plus, same, nil},
		{"description_for_a_docstring", lc + in + "@tool(description='Find.', args_schema=In)" + bare,
			"plus|Find.|What to look for.", nil},
		{"schema_written_out", lc + "@tool(args_schema={'type': 'object', 'properties': {'q': {'description': " +
			"'What.'}}})" + short, "plus|Say it.|What.", nil},
		{"inherited_field", lc + in + "class More(In):\n    pass\n@tool(args_schema=More)" + short,
			"plus|Say it.|What to look for.", nil},
		{"still_undocumented", fastmcp + "@mcp.tool(description='Find.')" + bare,
			"line 4, column 1: function plus: the function has no docstring", nil},
		{"haft_description", "import haft\nfrom typing import Annotated\n@haft.tool(description='Find.')\n" +
			"def plus(q: Annotated[str, 'Q.']) -> str:\n    pass\n", "plus|Find.|Q.", nil},
		{"no_name_of_a_tool", "from crewai.tools import tool\n@tool('Sum them up')" + plus, same,
			[]string{"line 2, column 2: function plus: the decorator gives the tool another name, which it cannot " +
				"have: a tool name starts with a letter or _ and holds only letters, digits, _ and -. " +
				"It is called plus"}},
		{"no_literals", fastmcp + "import os\n@mcp.tool(name=os.name, description=f'{os.name}')" + plus,
			same, []string{
				"line 4, column 2: function plus: the name in the decorator is no literal text, and the source is " +
					"read and not run: the tool is called plus",
				"line 4, column 2: function plus: the description in the decorator is no literal text, and the " +
					"source is read and not run: the docstring is taken"}},
		{"schema_elsewhere", lc + "from models import In\n@tool(args_schema=In)" + plus, same,
			[]string{"line 4, column 2: function plus: args_schema is no class of this source: its descriptions are " +
				"not read, describe the parameters in the docstring"}},
		{"field_without_a_parameter", lc + "class In(BaseModel):\n    r: str\n@tool(args_schema=In)" + plus,
			same, []string{"line 5, column 2: function plus: args_schema has the field r, and the " +
				"function does not have such a parameter: a model is shown the parameters of the function"}},
		{"own_decorator", "def tool(kind):\n    return lambda f: f\n@tool('a b')" + plus, same, nil},
		{"own_registry", "class R:\n    def tool(self, name):\n        return lambda f: f\nr = R()\n@r.tool(name='x')" +
			plus, same, nil},
		{"two_of_one_name", fastmcp + "@mcp.tool('two')\ndef one():\n    'One.'\n@mcp.tool('two')" + plus,
			"line 7, column 1: function plus: the functions plus, in line 7, and one, in line 4, are both a tool " +
				"called two", nil},
		{"context", "from fastmcp import FastMCP, Context\nmcp = FastMCP()\n@mcp.tool\ndef plus(q: str, ctx: " +
			"Context) -> str:\n    '''Say it.\n\n    Args:\n        q: Q.\n    '''\n",
			"line 4, column 23: function plus: parameter ctx: the type Context of the module fastmcp is filled in by " +
				"that framework, and Haft has no such context: remove the parameter. haft.progress reports " +
				"progress", nil},
	}
	read := newLasting(t, needPython(t)[0]).read
	resolve := func(context.Context, string, string) (*schema.Object, error) {
		return nil, &schema.SourceError{Message: "add its package to the requirements"}
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := pyschema.Deriver{Read: read, Resolve: resolve}
			sig, err := d.Derive(t.Context(), []byte(tt.source), schema.Options{Function: "plus"})
			if err != nil {
				if !strings.HasPrefix(err.Error(), tt.want) {
					t.Errorf("Derive = %v, want %q", err, tt.want)
				}
				return
			}
			q := sig.Parameters.Object("properties").Object("q").String("description")
			got := strings.Join([]string{sig.Name, sig.Description, q}, "|")
			if got != tt.want || sig.Function != "plus" {
				t.Errorf("Derive = %q, function %q, want %q", got, sig.Function, tt.want)
			}
			var warnings []string
			for _, w := range sig.Warnings {
				warnings = append(warnings, w.Error())
			}
			if diff := cmp.Diff(tt.warnings, warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			again, err := d.Derive(t.Context(), []byte(tt.source), schema.Options{Function: sig.Name})
			if err != nil || again.Function != "plus" {
				t.Errorf("Derive by the name of the tool = %v, %v", again, err)
			}
		})
	}
}
