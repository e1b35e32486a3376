package schemacase

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"

	"haft/internal/jsontree"
	"haft/schema"
)

// mistake changes arguments in one place such that they do not fit any more, not even after the
// conversions that every call gets.
func (g *Generator) mistake(r *rand.Rand, args *schema.Object) (Case, bool) {
	for range tries {
		wrong := schema.Clone(args).(*schema.Object)
		why := g.change(r, wrong)
		if _, misfits := g.compiled.Fit(wrong, schema.FitOptions{}); len(misfits) > 0 {
			return makeCase(Invalid, wrong, why), true
		}
	}
	return Case{}, false
}

// change makes one change and says which.
func (g *Generator) change(r *rand.Rand, args *schema.Object) string {
	var paths [][]string
	for path := range jsontree.All(args) {
		paths = append(paths, slices.Clone(path))
	}
	path := paths[r.IntN(len(paths))]
	place := strings.Join(path, ".")
	if len(path) == 0 {
		args.Set("unknown_argument", "x")
		return "unknown_argument is no parameter"
	}
	if parent, _ := jsontree.At(args, path[:len(path)-1]); r.IntN(3) == 0 {
		if o, ok := parent.(*schema.Object); ok {
			o.Delete(path[len(path)-1])
			return place + " is missing"
		}
	}
	wrong := []any{
		nil, true, json.Number("-1"), json.Number("1e308"), json.Number("0.1"), json.Number("99999999999999999999"), "",
		"not one of them", strings.Repeat("x", maxString), []any{}, []any{nil}, schema.Obj(), schema.Obj("a", nil),
	}
	v := wrong[r.IntN(len(wrong))]
	jsontree.Set(args, path, v)
	return place + " is a wrong " + schema.TypeName(v)
}

// malformed returns text that is nearly the arguments, as models send it now and then.
func malformed(r *rand.Rand, args *schema.Object) Case {
	text := string(makeCase(Malformed, args, "").Args)
	for _, c := range []struct{ why, text string }{
		{"the text is cut", text[:r.IntN(len(text))]},
		{"a comma stands before the end", text[:len(text)-1] + ",}"},
		{"the quotes are single", strings.ReplaceAll(text, `"`, "'")},
		{"it is a list", "[" + text + "]"},
		{"it is text, not an object", `"arguments"`},
		{"it is null", "null"},
		{"there is something behind the end", text + " }"},
		{"it is in a code fence", "```json\n" + text + "\n"},
		{"it is deeper than anybody reads", strings.Repeat(`{"a":`, 20_000)},
		{"it is no UTF-8", `{"a":"` + "\xff\xfe" + `"}`},
	}[r.IntN(10):] {
		if !json.Valid([]byte(c.text)) || !strings.HasPrefix(c.text, "{") {
			return Case{Kind: Malformed, Args: json.RawMessage(c.text), Why: c.why}
		}
	}
	return Case{Kind: Malformed, Args: json.RawMessage("{"), Why: "the text is cut"}
}
