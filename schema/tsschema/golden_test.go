package tsschema_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"haft/schema"
	"haft/schema/tsschema"
)

var update = flag.Bool("update", false, "write what comes out into testdata")

// TestDerive_golden runs testdata/*.txtar. A case has tool.ts or tool.js, and
// schema.json or error. The section options may name a function and make
// descriptions optional.
func TestDerive_golden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 60 {
		t.Errorf("there are %d golden cases, want at least 60", len(files))
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { golden(t, file) })
	}
}

func golden(t *testing.T, file string) {
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(bytes.TrimSpace(a.Comment)) == 0 {
		t.Error("the case does not say what it is about")
	}
	sections := map[string]string{}
	for _, f := range a.Files {
		sections[f.Name] = string(f.Data)
	}
	config := options(t, sections["options"])
	source, ok := sections["tool.ts"]
	if !ok {
		source, config.JavaScript = sections["tool.js"], true
	}
	r, err := tsschema.Derive(t.Context(), []byte(source), config)
	name, got := "schema.json", ""
	if err != nil {
		name, got = "error", err.Error()+"\n"
	} else {
		got = show(t, r)
	}
	want, ok := sections[name]
	switch {
	case ok && want == got:
	case *update:
		rewrite(t, file, a, name, got)
	case !ok:
		t.Fatalf("got %s:\n%s", name, got)
	default:
		t.Errorf("%s (-want +got):\n%s", name, cmp.Diff(want, got))
	}
}

// rewrite puts what came out in the place of what was expected.
func rewrite(t *testing.T, file string, a *txtar.Archive, name, got string) {
	var kept []txtar.File
	for _, f := range a.Files {
		if f.Name != "schema.json" && f.Name != "error" {
			kept = append(kept, f)
		}
	}
	a.Files = append(kept, txtar.File{Name: name, Data: []byte(got)})
	if err := os.WriteFile(file, txtar.Format(a), 0o644); err != nil {
		t.Fatal(err)
	}
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
