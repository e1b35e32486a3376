package mcpserver

import (
	"encoding/json"
	"strings"
	"testing"

	"haft"
)

// Arguments that are larger than any are not looked at: they stay what they are, and the call refuses them.
func TestGiveFiles_bounds_what_it_reads(t *testing.T) {
	tool := haft.Tool{Version: haft.Version{Kind: haft.KindPython, Parameters: json.RawMessage(
		`{"type":"object","properties":{"f":{"type":"string","format":"haft-file"},"more":{}}}`)}}
	for name, tt := range map[string]struct {
		more  string
		files int
	}{
		"few":   {"[1]", 1},
		"many":  {"[1" + strings.Repeat(",1", 100_000) + "]", 0},
		"deep":  {strings.Repeat("[", 2*maxArgDepth) + strings.Repeat("]", 2*maxArgDepth), 0},
		"large": {`"` + strings.Repeat("x", maxArgs) + `"`, 0},
	} {
		text := `{"f":"data:,x","more":` + tt.more + `}`
		c := haft.Call{Args: json.RawMessage(text)}
		complaint, err := new(view).giveFiles(t.Context(), tool, &c)
		if complaint != "" || err != nil || len(c.Files) != tt.files || tt.files == 0 && string(c.Args) != text {
			t.Errorf("%s: %q, %v, %d files", name, complaint, err, len(c.Files))
		}
	}
}
