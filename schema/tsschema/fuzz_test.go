package tsschema_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"haft/schema"
	"haft/schema/tsschema"
)

// FuzzDerive holds that no source makes Derive fail in a way that is not the
// source's fault, and that what comes out can be written and read.
func FuzzDerive(f *testing.F) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, s := range a.Files {
			if s.Name == "tool.ts" || s.Name == "tool.js" {
				f.Add(s.Data, s.Name == "tool.js")
			}
		}
	}
	f.Fuzz(func(t *testing.T, source []byte, js bool) {
		r, err := tsschema.Derive(t.Context(), source,
			tsschema.Config{JavaScript: js, Options: schema.Options{DescriptionsOptional: true}})
		if err != nil {
			var e *schema.SourceError
			if !errors.As(err, &e) {
				t.Fatalf("error = %v, want a *schema.SourceError", err)
			}
			if e.Line < 0 || e.Column < 0 || e.Message == "" {
				t.Errorf("error = %#v", e)
			}
			return
		}
		text, err := schema.Encode(schema.Obj("parameters", r.Parameters, "returns", r.Returns))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := schema.Decode(text); err != nil {
			t.Errorf("%v in %s", err, text)
		}
		if r.Name == "" || r.Export == "" {
			t.Errorf("result = %+v", r)
		}
	})
}
