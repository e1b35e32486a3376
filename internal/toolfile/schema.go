package toolfile

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"haft"
	"haft/internal/jsontree"
	"haft/schema"
)

// ReadSchema reads a schema that was written by hand or by another program: a tool
// in the form of a vendor, or a bare schema of arguments. Its parameters are as
// they stand in the file.
func ReadSchema(name string) (sig *schema.Signature, definition bool, err error) {
	text, err := ReadBounded(name, schema.MaxBytes)
	if err != nil {
		return nil, false, wrong(fmt.Errorf("read the schema: %w", err))
	}
	tree, err := schema.Decode(text)
	if err != nil {
		se, _ := errors.AsType[*schema.SyntaxError](err)
		line, column := jsontree.Position(text, se.Offset)
		return nil, false, &schema.SourceError{Line: line, Column: column, Message: se.Message}
	}
	sig = &schema.Signature{Name: strings.TrimSuffix(filepath.Base(name), filepath.Ext(name))}
	o, ok := tree.(*schema.Object)
	if !ok {
		return nil, false, &schema.SourceError{Line: 1, Column: 1, Message: "a schema of arguments is an object"}
	}
	if f := o.Object("function"); f != nil {
		o = f // the form of chat completions
	}
	sig.Parameters = o
	for _, key := range []string{"parameters", "input_schema", "inputSchema"} {
		if p := o.Object(key); p != nil {
			sig.Parameters, sig.Description, definition = p, o.String("description"), true
			if n := o.String("name"); n != "" {
				sig.Name = n
			}
		}
	}
	return sig, definition, nil
}

// Health says whether vendors accept parameters. Those of a tool they are given closed: its source, or
// what haft schema printed of it, says nothing about other properties.
func Health(parameters *schema.Object, tool bool) haft.SchemaHealth {
	if strict, ok := schema.Strict(parameters); tool && ok {
		parameters = strict
	}
	return schema.Health(parameters)
}

// HealthOf is [Health] of a kept tool, as haft schema --check says it.
func HealthOf(t haft.Tool) haft.SchemaHealth {
	tree, err := schema.Decode(t.Version.Parameters)
	if o, ok := tree.(*schema.Object); ok && err == nil {
		return Health(o, true)
	}
	return t.Version.Health
}

// NotStrict says, in lines, why parameters have no strict form; none if they have one.
func NotStrict(parameters *schema.Object, form schema.Form) []string {
	if _, ok := schema.Strict(parameters); !ok {
		lines := []string{"warning: the schema has no strict form, and is printed without one"}
		for _, r := range schema.Health(parameters).Reasons {
			lines = append(lines, "  "+r.String())
		}
		return lines
	}
	if form == schema.FormGemini || form == schema.FormMCP {
		return []string{"note: " + string(form) + " has no strict form"}
	}
	return nil
}
