package schema_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"haft"
	"haft/schema"
)

// seed adds the schemas of the golden files.
func seed(f *testing.F) {
	f.Helper()
	files, err := filepath.Glob("testdata/*/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, part := range txtar.Parse(text).Files {
			if part.Name == "schema.json" && len(part.Data) < 4000 {
				f.Add([]byte(part.Data))
			}
		}
	}
}

// FuzzHealth holds the verdict and the strict conversion to each other.
func FuzzHealth(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := schema.Decode(text)
		if err != nil {
			return
		}
		before := encode(t, v)
		h := schema.Health(v)
		if len(h.Reasons) > 100 || (h.Status == haft.HealthStrict) != (len(h.Reasons) == 0) {
			t.Fatalf("%s has %d reasons", h.Status, len(h.Reasons))
		}
		o, ok := v.(*schema.Object)
		if !ok {
			return
		}
		strict, ok := schema.Strict(o)
		if h.Status == haft.HealthStrict && !ok {
			t.Fatalf("%s cannot be converted: %s", h.Status, text)
		}
		if got := schema.Health(strict); ok && got.Status != haft.HealthStrict {
			t.Fatalf("Strict(%s) = %s, which is %v", text, encode(t, strict), got)
		}
		if again, _ := schema.Strict(strict); encode(t, again) != encode(t, strict) {
			t.Fatalf("Strict twice: %s becomes %s", encode(t, strict), encode(t, again))
		}
		sig := &schema.Signature{Name: "f", Parameters: o}
		for _, form := range schema.Forms() {
			if _, err := schema.Render(sig, form, true); err != nil && haft.CodeOf(err) != haft.CodeInvalid {
				t.Fatalf("Render(%s, %s): %v", text, form, err)
			}
		}
		if after := encode(t, v); after != before {
			t.Fatalf("%s became %s", before, after)
		}
	})
}

// FuzzNormalize holds normalizing to its promises: it ends, it is bounded, twice
// is the same as once, and its references lead somewhere.
func FuzzNormalize(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := schema.Decode(text)
		if err != nil {
			return
		}
		before := encode(t, v)
		once, err := schema.Normalize(v, schema.NormalizeOptions{})
		if after := encode(t, v); after != before {
			t.Fatalf("%s became %s", before, after)
		}
		if err != nil {
			if haft.CodeOf(err) != haft.CodeInvalid {
				t.Fatal(err)
			}
			return
		}
		out := encode(t, once)
		if len(out) > 4*schema.MaxBytes {
			t.Fatalf("%d bytes became %d", len(text), len(out))
		}
		if _, err := schema.Decode([]byte(out)); err != nil {
			t.Fatalf("%s became %s: %v", text, out, err)
		}
		twice, err := schema.Normalize(once, schema.NormalizeOptions{})
		if err != nil {
			t.Fatalf("%s, normalized to %s: %v", text, out, err)
		}
		if got := encode(t, twice); got != out {
			t.Fatalf("%s became %s and then %s", text, out, got)
		}
		if sig, err := schema.FromArgsSchema("f", "", v); err == nil && sig.Parameters.Value("type") != "object" {
			t.Fatalf("FromArgsSchema(%s) is not an object schema", text)
		}
	})
}
