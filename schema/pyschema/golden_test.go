package pyschema_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"haft/schema"
	"haft/schema/pyschema"
)

var update = flag.Bool("update", false, "write what comes out into testdata")

// TestDerive_golden runs testdata/*.txtar with the oldest and the newest Python.
// A case has tool.py, and schema.json or error; "…" in error stands for any text.
// The section options may name a function and make descriptions optional.
func TestDerive_golden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 150 {
		t.Errorf("there are %d golden cases, want at least 150", len(files))
	}
	for _, p := range needPython(t) {
		t.Run("python"+p.String(), func(t *testing.T) {
			if !*update {
				t.Parallel()
			}
			read := newLasting(t, p).read
			for _, file := range files {
				t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
					golden(t, p, read, file)
				})
			}
		})
	}
}

func golden(t *testing.T, p python, read pyschema.Reader, file string) {
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !p.atLeast(needs(a.Comment)) {
		t.Skipf("MISSING: Python 3.%d for syntax that %s does not have", needs(a.Comment), p)
	}
	if len(bytes.TrimSpace(a.Comment)) == 0 {
		t.Error("the case does not say what it is about")
	}
	sections := map[string]string{}
	for _, f := range a.Files {
		sections[f.Name] = string(f.Data)
	}
	sig, err := pyschema.Derive(t.Context(), read, []byte(sections["tool.py"]), options(t, sections["options"]))
	name, got := "schema.json", ""
	if err != nil {
		name, got = "error", err.Error()+"\n"
	} else {
		got = show(t, sig)
		compiles(t, sig)
	}
	want, ok := sections[name]
	if ok && matches(want, got) {
		return
	}
	if *update {
		rewrite(t, file, a, name, got)
		return
	}
	if !ok {
		t.Fatalf("got %s:\n%s", name, got)
	}
	t.Errorf("%s (-want +got):\n%s", name, cmp.Diff(want, got))
}

// compiles checks that what we derive is a schema.
func compiles(t *testing.T, sig *schema.Signature) {
	if _, err := schema.Compile(sig.Parameters); err != nil {
		t.Errorf("the schema of the parameters: %v", err)
	}
	if sig.Returns == nil {
		return
	}
	if _, err := schema.Compile(sig.Returns); err != nil {
		t.Errorf("the schema of the value: %v", err)
	}
}

// matches compares, with "…" standing for any text.
func matches(want, got string) bool {
	if want == got {
		return true
	}
	parts := strings.Split(want, "…")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return len(parts) > 1 && regexp.MustCompile(`(?s)^`+strings.Join(parts, `.*`)+`$`).MatchString(got)
}

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

// options reads "function: f" and "descriptions: optional".
func options(t *testing.T, text string) schema.Options {
	var o schema.Options
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "function":
			o.Function = value
		case "descriptions":
			o.DescriptionsOptional = value == "optional"
		default:
			t.Fatalf("unknown option %q", line)
		}
	}
	return o
}

// show writes a signature as a person reads it.
func show(t *testing.T, sig *schema.Signature) string {
	o := schema.Obj("name", sig.Name, "description", sig.Description, "parameters", sig.Parameters)
	if sig.Returns != nil {
		o.Set("returns", sig.Returns)
	}
	if sig.ReturnsText != "" {
		o.Set("returns_text", sig.ReturnsText)
	}
	if sig.Injected != nil {
		o.Set("injected", sig.Injected)
	}
	if sig.Async {
		o.Set("async", true)
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
