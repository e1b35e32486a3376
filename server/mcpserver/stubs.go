package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
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
	needed := map[string]bool{}
	for _, name := range s.Required {
		needed[name] = true
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
			if text += ": " + hint(p); !needed[strings.SplitN(text, ":", 2)[0]] {
				text += " = ..."
			}
			params = append(params, text)
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
	switch s.Type {
	case "string":
		return "str"
	case "integer":
		return "int"
	case "number":
		return "float"
	case "boolean":
		return "bool"
	case "array":
		return "list[" + hint(s.Items) + "]"
	case "object":
		return "dict"
	case "null":
		return "None"
	}
	return "Any"
}
