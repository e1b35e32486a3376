package mcpserver

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"haft"
)

// codeMode is the tool whose code calls other tools.
const codeMode = "run_code_with_tools"

// Bounds on the stubs in its description, in bytes.
const (
	maxStubs = 6 << 10
	maxAbout = 80
)

// stubs are the tools that code may call, as signatures of Python: a model that sees
// them need not ask.
func (v *view) stubs(ctx context.Context) (string, error) {
	var b strings.Builder
	left := 0
	for t, err := range v.tools(ctx, "") {
		if err != nil {
			return "", err
		}
		if t.Name == codeMode {
			continue
		}
		if line := stub(t); left == 0 && b.Len()+len(line) <= maxStubs {
			b.WriteString(line)
		} else {
			left++
		}
	}
	switch {
	case b.Len() == 0:
		return "", nil
	case left > 0:
		b.WriteString("# and more: list(tools), or find_tools\n")
	}
	return "\n\nThe tools, in Python:\n" + b.String(), nil
}

// stub is one tool as a signature.
func stub(t haft.Tool) string {
	var s struct {
		Properties json.RawMessage `json:"properties"`
		Required   []string        `json:"required"`
	}
	if json.Unmarshal(t.Version.Parameters, &s) != nil {
		return ""
	}
	var params []string
	d := json.NewDecoder(bytes.NewReader(s.Properties))
	if _, err := d.Token(); err == nil {
		for d.More() {
			name, err := d.Token()
			var p json.RawMessage
			if err != nil || d.Decode(&p) != nil {
				break
			}
			text, _ := name.(string)
			param := text + ": " + hint(p)
			if !slices.Contains(s.Required, text) {
				param += " = ..."
			}
			params = append(params, param)
		}
	}
	about, _, _ := strings.Cut(t.Version.Description, "\n")
	about = strings.ToValidUTF8(about[:min(len(about), maxAbout)], "")
	return "def " + t.Name + "(" + strings.Join(params, ", ") + ") -> " + hint(t.Version.Returns) + ": ...  # " +
		about + "\n"
}

// hint is a schema as a type of Python, roughly.
func hint(raw json.RawMessage) string {
	var s struct {
		Type  any             `json:"type"`
		Items json.RawMessage `json:"items"`
	}
	if json.Unmarshal(raw, &s) != nil {
		return "Any"
	}
	if s.Type == "array" {
		return "list[" + hint(s.Items) + "]"
	}
	name, _ := s.Type.(string)
	return cmp.Or(pythonTypes[name], "Any")
}

// pythonTypes are the types of Python for those of JSON Schema.
var pythonTypes = map[string]string{"string": "str", "integer": "int", "number": "float", "boolean": "bool",
	"object": "dict", "null": "None"}
