package tsschema_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"haft/schema"
	"haft/schema/tsschema"
)

// first returns the first source error in err.
func first(t *testing.T, err error) *schema.SourceError {
	t.Helper()
	var e *schema.SourceError
	if !errors.As(err, &e) {
		t.Fatalf("error = %v, want a *schema.SourceError", err)
	}
	return e
}

func TestDerive_hostile_source_ends_soon_with_an_error(t *testing.T) {
	const n = 64 << 10 // far beyond every bound; only "10 MB" is about the length
	tests := map[string]string{
		"10 MB":            strings.Repeat("// x\n", 2<<20),
		"binary":           "\x7fELF\x02\x01\x01\x00\x00",
		"latin-1":          "/** Gr\xfc\xdfe */ export function f() {}",
		"UTF-16":           "\xff\xfee\x00x\x00",
		"only comments":    "// nothing\n/* here */",
		"only a mark":      "\ufeff",
		"240 kB of arrows": strings.Repeat("x=>", 80_000),
		"240 kB of types":  "type X=" + strings.Repeat("a|", 120_000),
	}
	for _, open := range []string{"(", "[", "{", "!", "x=>", "a?", "a?b:", "if(a)", "if(a);else ", "f(", "`${",
		"typeof ", "a.b", "a=>{", "a=", "- ", "new ", "a:", "do ", "class{x=", "<T>", "a?(b):c=>", "async(", "@a", "a<",
		"/", "\"", "'\\", "/*", "?", "export default ", "export ", "const a="} {
		tests["repeated "+open] = strings.Repeat(open, n/len(open))
	}
	for _, open := range []string{"[", "{a:", "(", "A<", "keyof ", "readonly ", "X extends Y?", "()=>", "`${", "a|",
		"typeof a<", "[...", "new()=>", "A[", "infer T extends ", "-", "?"} {
		tests["repeated in a type "+open] = "type X=" + strings.Repeat(open, (n-10)/len(open))
		tests["repeated in a comment "+open] = "/** @typedef {" + strings.Repeat(open, (n-100)/len(open)) +
			"} X */\nfunction f(){}"
	}
	for name, source := range tests {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			_, err := tsschema.Derive(t.Context(), []byte(source), tsschema.Config{JavaScript: len(name)%2 == 0})
			if e := first(t, err); e.Message == "" || len(e.Error()) > 500 {
				t.Errorf("error = %.600s", e)
			}
			if d := time.Since(start); d > 90*time.Second {
				t.Errorf("it took %v", d)
			}
		})
	}
}

func TestDerive_nesting(t *testing.T) {
	tests := map[string]string{
		"10,000 brackets": "export const x = " + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000) +
			";",
		"10,000 types": "export function f(a: " + strings.Repeat("{a:", 10_000) + "string" +
			strings.Repeat("}", 10_000) + ") {}",
		"100 types": "export function f(a: " + strings.Repeat("{a:", 100) + "string" +
			strings.Repeat("}", 100) + ") {}",
		"schemas put together": "import {z} from 'zod';const A = z.object({" + manyKeys(900) + "});const B = A" +
			strings.Repeat(".merge(A)", 500) + ";export function f(a: z.infer<typeof B>) {}",
		"40 doubled conditions":   "export const f = " + strings.Repeat("a?(b):c=>", 40) + "1;",
		"10,000 arrays of arrays": "export function f(a: string" + strings.Repeat("[]", 10_000) + ") {}",
	}
	for name, source := range tests {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			_, err := tsschema.Derive(t.Context(), []byte(source),
				tsschema.Config{Options: schema.Options{DescriptionsOptional: true}})
			if e := first(t, err); e.Line != 1 || e.Column < 2 {
				t.Errorf("error = %v, want its place in line 1", e)
			}
			if d := time.Since(start); d > 90*time.Second {
				t.Errorf("it took %v", d)
			}
		})
	}
}

// manyKeys writes n properties of an object of zod.
func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "a%d:z.any(),", i)
	}
	return b.String()
}

// Below the bounds the strict parser must come through: if a bound is too wide,
// this test ends with the whole process.
func TestDerive_just_below_the_bounds(t *testing.T) {
	const words = 3_900
	for open, each := range map[string]int{"!": 1, "x=>": 2, "a?": 2, "if(a)": 4, "if(a);else ": 5, "typeof ": 1,
		"a.b.": 4, "a=": 2, "new ": 1, "a?b:": 4, "- ": 1, "a:": 2, "do ": 1, "await ": 1} {
		t.Run(open, func(t *testing.T) {
			start := time.Now()
			_, err := tsschema.Derive(t.Context(),
				[]byte("export const f = () => {};\n"+strings.Repeat(open, words/each)+"a;"),
				tsschema.Config{Options: schema.Options{DescriptionsOptional: true}})
			var e *schema.SourceError
			if err != nil && !errors.As(err, &e) {
				t.Error(err)
			}
			if d := time.Since(start); d > 90*time.Second {
				t.Errorf("it took %v", d)
			}
		})
	}
}

func TestDerive_large_but_honest_source(t *testing.T) {
	var b strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&b, "const v%d = { a: [%d, 2], b: (x: number): string => x > 1 ? `v${x}` : 'no' }\n", i, i)
	}
	b.WriteString("const table = [\n")
	for i := range 2500 {
		fmt.Fprintf(&b, "  %d, [%d, \"text\"],\n", i, i)
	}
	b.WriteString("]\n/**\n * Does it.\n * @param a One.\n */\nexport function tool(a: string) {\n")
	for i := range 1000 {
		fmt.Fprintf(&b, "  if (a === \"%d\") { console.log(a / %d / 2) } else if (a) console.log(a)\n", i, i+1)
	}
	b.WriteString("}\n")
	r, err := tsschema.Derive(t.Context(), []byte(b.String()), tsschema.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Name != "tool" || !r.Parameters.Object("properties").Has("a") {
		t.Errorf("result = %+v", r)
	}
}

func TestDerive_canceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := tsschema.Derive(ctx, []byte("export function f() {}"), tsschema.Config{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v, want %v", err, context.Canceled)
	}
}

func TestDerive_reports_everything_at_once(t *testing.T) {
	_, err := tsschema.Derive(t.Context(), []byte("export function f(a, b: Nowhere, ...c: string[]) {}"),
		tsschema.Config{})
	for _, want := range []string{"it has no description", "parameter a: it has no type",
		"parameter b: the type “Nowhere”", "parameter c: a tool has no rest parameter"} {
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("error = %v\nwant one with %q", err, want)
		}
	}
}

func TestDerive_many_problems_are_cut(t *testing.T) {
	_, err := tsschema.Derive(t.Context(), []byte("/** F. */ export function f("+strings.Repeat("a: X, ", 200)+") {}"),
		tsschema.Config{})
	if n := strings.Count(fmt.Sprint(err), "\n") + 1; n > 20 {
		t.Errorf("there are %d problems, want at most 20", n)
	}
}

func TestDerive_example_of_the_documentation(t *testing.T) {
	text, err := os.ReadFile("../../docs/tools-typescript.md")
	if err != nil {
		t.Fatal(err)
	}
	golden, err := os.ReadFile("testdata/readme_example.txtar")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(golden), "-- tool.ts --\n")
	source, _, _ := strings.Cut(rest, "-- schema.json --")
	if !strings.Contains(string(text), strings.TrimSpace(source)) {
		t.Error("docs/tools-typescript.md does not show the source of testdata/readme_example.txtar")
	}
}
