package bashschema_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"haft/internal/goldentest"
	"haft/schema"
	"haft/schema/bashschema"
)

// TestDerive_golden runs testdata/*.txtar. A case has tool.sh, and schema.json or
// error. The section options may name the tool and make descriptions optional.
func TestDerive_golden(t *testing.T) {
	goldentest.Run(t, "testdata", 12, func(t *testing.T, f *goldentest.File) {
		r, err := bashschema.Derive(t.Context(), []byte(f.Text("tool.sh")), options(t, f.Text("options")))
		made := ""
		if err == nil {
			made = show(t, r)
		}
		f.ExpectResult(t, made, err, nil)
	})
}

// options reads "function: f", "name: n" and "descriptions: optional".
func options(t *testing.T, text string) bashschema.Config {
	var o bashschema.Config
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

// show writes a result as a person reads it.
func show(t *testing.T, r *bashschema.Result) string {
	o := schema.Obj("name", r.Name, "description", r.Description, "parameters", r.Parameters)
	if r.Returns != nil {
		o.Set("returns", r.Returns)
	}
	if r.ReturnsText != "" {
		o.Set("returns_text", r.ReturnsText)
	}
	if r.Output != "" {
		o.Set("output", r.Output)
	}
	text, err := schema.Encode(o)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, text, "", "  "); err != nil {
		t.Fatal(err)
	}
	return b.String() + "\n"
}

func TestVariable(t *testing.T) {
	if got, want := bashschema.Variable("max_depth"), "ARG_MAX_DEPTH"; got != want {
		t.Errorf("variable = %q, want %q", got, want)
	}
}

func TestDerive_hostile_source(t *testing.T) {
	n := schema.MaxSource
	for name, source := range map[string]string{
		"too large":      strings.Repeat("# x\n", n),
		"binary":         "#!/bin/sh\n# \x00",
		"latin-1":        "# Gr\xfc\xdfe",
		"many args":      "# tool: t\n# T.\n# Args:\n" + strings.Repeat("#   a (string): A.\n", 50_000),
		"different args": "# tool: t\n# T.\n# Args:\n" + manyArgs(10_000),
		"deep array":     "# tool: t\n# T.\n# Args:\n#   a (" + strings.Repeat("array of ", 100_000) + "string): A.\n",
		"brackets":       "# tool: t\n# T.\n# Args:\n#   a " + strings.Repeat("(", n-100),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := bashschema.Derive(t.Context(), []byte(source), bashschema.Config{})
			var e *schema.SourceError
			if !errors.As(err, &e) || e.Line < 1 || e.Column < 1 {
				t.Fatalf("error = %v, want a *schema.SourceError with its place", err)
			}
			if len(err.Error()) > 10_000 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

// manyArgs writes n parameters of different names.
func manyArgs(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("#   a" + strings.Repeat("a", i%60) + "_" + string(rune('a'+i/60%26)) +
			string(rune('a'+i/1560%26)) + " (string): A.\n")
	}
	return b.String()
}

func TestDerive_example_of_the_documentation(t *testing.T) {
	text, err := os.ReadFile("../../docs/tools-bash.md")
	if err != nil {
		t.Fatal(err)
	}
	golden, err := os.ReadFile("testdata/readme_example.txtar")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(golden), "-- tool.sh --\n")
	source, _, _ := strings.Cut(rest, "-- schema.json --")
	if !strings.Contains(string(text), strings.TrimSpace(source)) {
		t.Error("docs/tools-bash.md does not show the source of testdata/readme_example.txtar")
	}
}

// FuzzDerive holds that a source can only fail by its own fault, and that what
// comes out can be written and read.
func FuzzDerive(f *testing.F) {
	for _, file := range goldentest.Files(f, "testdata", 12) {
		f.Add([]byte(file.Text("tool.sh")))
	}
	f.Fuzz(func(t *testing.T, source []byte) {
		r, err := bashschema.Derive(t.Context(), source,
			bashschema.Config{Options: schema.Options{DescriptionsOptional: true}})
		if err != nil {
			var e *schema.SourceError
			if !errors.As(err, &e) || e.Line < 1 || e.Column < 1 || e.Message == "" {
				t.Fatalf("error = %#v, want a *schema.SourceError with its place", err)
			}
			return
		}
		text, err := schema.Encode(r.Parameters)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := schema.Decode(text); err != nil {
			t.Errorf("%v in %s", err, text)
		}
		if r.Name == "" {
			t.Error("the tool has no name")
		}
	})
}
