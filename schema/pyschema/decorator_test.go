package pyschema_test

import (
	"encoding/json"
	"strings"
	"testing"

	"haft/schema"
	"haft/schema/pyschema"
)

// The arguments of Haft's own decorator are settings; those of other decorators are not.
func TestDerive_reads_the_decorator(t *testing.T) {
	const body = "\ndef f() -> int:\n    \"\"\"Do it.\"\"\"\n    return 1\n"
	tests := []struct{ name, source, settings, refused string }{
		{"settings", "import haft\n@haft.tool(approval=True, timeout=0.5, memory='64MiB', retry=3, network=['a.test'])",
			`{"limits":{"memory_bytes":67108864,"wall_ms":500},"network":["a.test"],"requires_approval":true,` +
				`"retry":{"tries":3}}`, ""},
		{"another name", "from haft import tool as t\n@t(requires_approval=False)", `{"requires_approval":false}`, ""},
		{"a constant", "import haft\nMOST = 2 * 5\n@haft.tool(timeout=MOST)", `{"limits":{"wall_ms":10000}}`, ""},
		{"its own name", "import haft\n@haft.tool(name='f')", "null", ""},
		{"no arguments", "import haft\n@haft.tool()", "null", ""},
		{"another library", "from langchain_core.tools import tool\n@tool('f', return_direct=True)", "null", ""},
		{"a typing mistake", "import haft\n@haft.tool(require_approval=True)", "", "line 2, column 29: function f: " +
			"require_approval is no setting of a tool"},
		{"a type", "import haft\n@haft.tool(requires_approval='no')", "", "requires_approval is of another type"},
		{"seconds", "import haft\n@haft.tool(timeout='2')", "", "timeout is a number of seconds"},
		{"no time", "import haft\n@haft.tool(timeout=0)", "", "timeout is a number of seconds"},
		{"memory", "import haft\n@haft.tool(memory='much')", "", "memory is a number of bytes"},
		{"code", "import haft, os\n@haft.tool(network=[os.environ['X']])", "", "network is no literal value"},
		{"stars", "import haft\n@haft.tool(**{'timeout': 2})", "", "one by one"},
		{"a position", "import haft\n@haft.tool('f')", "", "by name"},
		{"elsewhere", "import haft\n@haft.tool(tags=['a'])", "", "add it with --tag"},
		{"deep", "import haft\n@haft.tool(limits={'wall': 2})", "", "limits is of another type"},
	}
	p := needPython(t)[0]
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sig, err := pyschema.Derive(t.Context(), fresh(p), []byte(tt.source+body), schema.Options{})
			if tt.refused != "" {
				if err == nil || !strings.Contains(err.Error(), tt.refused) {
					t.Errorf("Derive = %v, want %q", err, tt.refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got, err := json.Marshal(sig.Settings); err != nil || string(got) != tt.settings {
				t.Errorf("settings = %s, %v, want %s", got, err, tt.settings)
			}
		})
	}
}
