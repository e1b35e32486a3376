package tsschema_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"haft/internal/goldentest"
	"haft/schema"
	"haft/schema/tsschema"
)

// TestDerive_golden runs testdata/*.txtar. A case has tool.ts or tool.js, and
// schema.json or error. The section options may name a function and make
// descriptions optional.
func TestDerive_golden(t *testing.T) {
	goldentest.Run(t, "testdata", 60, func(t *testing.T, f *goldentest.File) {
		config := options(t, f.Text("options"))
		source, ok := f.Section("tool.ts")
		if !ok {
			source, config.JavaScript = f.Text("tool.js"), true
		}
		r, err := tsschema.Derive(t.Context(), []byte(source), config)
		made := ""
		if err == nil {
			made = show(t, r)
		}
		f.ExpectResult(t, made, err, nil)
	})
}

// options reads "function: f", "name: n" and "descriptions: optional".
func options(t *testing.T, text string) tsschema.Config {
	var o tsschema.Config
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "function":
			o.Function = value
		case "name":
			o.DefaultName = value
		case "descriptions":
			o.DescriptionsOptional = value == "optional"
		default:
			t.Fatalf("unknown option %q", line)
		}
	}
	return o
}

// show writes a result as a person reads it. The call is written as in the
// source: f(a, b), or f(*) where all arguments go in as one object.
func show(t *testing.T, r *tsschema.Result) string {
	var args []string
	for _, a := range r.Call {
		if a.Whole {
			args = append(args, "*")
		} else {
			args = append(args, a.Name)
		}
	}
	o := schema.Obj("name", r.Name, "description", r.Description, "parameters", r.Parameters)
	if r.Returns != nil {
		o.Set("returns", r.Returns)
	}
	if r.ReturnsText != "" {
		o.Set("returns_text", r.ReturnsText)
	}
	if r.Injected != nil {
		o.Set("injected", r.Injected)
	}
	if r.Async {
		o.Set("async", true)
	}
	o.Set("call", r.Export+"("+strings.Join(args, ", ")+")")
	text, err := schema.Encode(o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := schema.Decode(text); err != nil {
		t.Errorf("the schema is no JSON of ours: %v", err)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, text, "", "  "); err != nil {
		t.Fatal(err)
	}
	return b.String() + "\n"
}
