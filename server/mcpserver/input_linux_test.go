package mcpserver_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"haft"
	"haft/server/mcpserver"
)

// A client can send a file in an argument: as a data URI, or as the content block that it has. The record of the
// call has neither.
func TestServer_files_in_arguments(t *testing.T) {
	h := build(t, mcpserver.Config{})
	ann := visit(t, h.url, "ann", nil)
	h.put(t, people["ann"], "import haft\ndef size(f: haft.File | None = None, raw: bytes | None = None, "+
		"many: list[haft.File] = []) -> list:\n    \"\"\"Measures.\n\n    Args:\n        f: A file.\n"+
		"        raw: Another.\n"+
		"        many: More.\n    \"\"\"\n"+
		"    return [f and f.name, f and f.read().decode(), raw and raw.decode(), [m.name for m in many]]\n")
	block := func(kind string, fields map[string]any) map[string]any {
		fields["type"] = kind
		return fields
	}
	for name, tt := range map[string]struct {
		args map[string]any
		want string
	}{
		"data URI":        {map[string]any{"f": "data:text/csv;base64,aGk="}, `["file.csv","hi",null,[]]`},
		"percent":         {map[string]any{"f": "DATA:,a%20b"}, `["file","a b",null,[]]`},
		"name":            {map[string]any{"f": "data:image/png;name=a%2Fb%2Fme.png;base64,aGk"}, `["me.png","hi",null,[]]`},
		"hidden name":     {map[string]any{"f": "data:image/png;name=.bashrc;base64,aGk"}, `["file.png","hi",null,[]]`},
		"path in a name":  {map[string]any{"f": "data:;name=..%2F..;base64,aGk"}, `["file","hi",null,[]]`},
		"bytes":           {map[string]any{"raw": "data:;base64,aGk="}, `[null,null,"hi",[]]`},
		"bytes in base64": {map[string]any{"raw": "aGk="}, `[null,null,"hi",[]]`},
		"blob": {map[string]any{"f": block("resource", map[string]any{"resource": map[string]any{
			"uri": "file:///home/me/a.bin?x", "blob": "aGk="}})}, `["a.bin","hi",null,[]]`},
		"text": {map[string]any{"f": block("resource", map[string]any{"resource": map[string]any{
			"uri": "note://x", "text": "hi"}})}, `["file.txt","hi",null,[]]`},
		"list": {map[string]any{"many": []any{"data:image/gif,x", block("image", map[string]any{
			"data": "aGk=", "mimeType": "image/png"})}}, `[null,null,null,["file.gif","file.png"]]`},
		"no base64":   {map[string]any{"f": "data:;base64,!!"}, "/f: expected content in base64"},
		"no comma":    {map[string]any{"many": []any{"data:x"}}, "/many/0: expected a data URI"},
		"link":        {map[string]any{"f": block("resource_link", map[string]any{"uri": "file:///etc/passwd"})}, "/f"},
		"address":     {map[string]any{"f": "file:///etc/passwd"}, "/f: expected the id of a file"},
		"no resource": {map[string]any{"f": block("resource", map[string]any{"resource": 1})}, "/f"},
		"too many":    {map[string]any{"many": slices.Repeat([]any{"data:,x"}, 17)}, "/many/16: expected at most"},
	} {
		res, err := ann.CallTool(t.Context(), &mcp.CallToolParams{Name: "size", Arguments: tt.args})
		if err != nil || !strings.Contains(said(res), tt.want) {
			t.Errorf("%s: %.300s, %v, want %q", name, said(res), err, tt.want)
		}
		if id, ok := res.Meta["haft/call"].(string); ok && name == "data URI" {
			rec, err := h.API.Record(t.Context(), people["ann"], haft.CallID(id))
			if err != nil || !strings.HasPrefix(string(rec.Call.Args), `{"f":"given/1/file.csv"`) {
				t.Errorf("record %s, %v", rec.Call.Args, err)
			}
		}
	}
}
