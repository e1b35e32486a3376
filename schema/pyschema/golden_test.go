package pyschema_test

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"haft/internal/goldentest"
	"haft/schema"
	"haft/schema/pyschema"
)

// TestDerive_golden runs testdata/*.txtar with the oldest and the newest Python.
// A case has tool.py, and schema.json or error; "…" in error stands for any text.
// The section options may name a function and make descriptions optional.
func TestDerive_golden(t *testing.T) {
	for _, p := range needPython(t) {
		t.Run("python"+p.String(), func(t *testing.T) {
			if !goldentest.Updating() {
				t.Parallel()
			}
			read := newLasting(t, p).read
			goldentest.Run(t, "testdata", 150, func(t *testing.T, f *goldentest.File) { golden(t, p, read, f) })
		})
	}
}

func golden(t *testing.T, p python, read pyschema.Reader, f *goldentest.File) {
	if !p.atLeast(needs(f.Comment)) {
		t.Skipf("MISSING: Python 3.%d for syntax that %s does not have", needs(f.Comment), p)
	}
	sig, err := pyschema.Derive(t.Context(), read, []byte(f.Text("tool.py")), options(t, f.Text("options")))
	made := ""
	if err == nil {
		made = show(t, sig)
		compiles(t, sig)
	}
	f.ExpectResult(t, made, err, matches)
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
