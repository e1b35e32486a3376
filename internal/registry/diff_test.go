package registry_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"haft"
	"haft/internal/registry"
)

// compare compares the schemas of arguments.
func compare(old, new string) []string {
	return registry.Changes(haft.Version{Parameters: json.RawMessage(old)},
		haft.Version{Parameters: json.RawMessage(new)})
}

func TestChanges(t *testing.T) {
	object := func(required, properties string) string {
		return fmt.Sprintf(`{"type":"object","properties":{%s},"required":[%s]}`, properties, required)
	}
	tests := []struct {
		name     string
		old, new string
		want     []string
	}{
		{"equal", object(`"a"`, `"a":{"type":"string"}`), object(`"a"`, `"a":{"type":"string"}`), nil},
		{"only words", object("", `"a":{"type":"string","description":"x"}`),
			object("", `"a":{"description":"y","type":"string"}`), nil},
		{"words in a default", object("", `"a":{"default":{"title":"x"}}`), object("", `"a":{"default":{"title":"y"}}`),
			[]string{`/a: default is {"title":"y"} now, it was {"title":"x"}`}},
		{"a property called description", object("", `"description":{"type":"string"}`), object("", ``),
			[]string{"/description: removed"}},
		{"added", object("", ""), object(`"b"`, `"a":{},"b":{}`),
			[]string{"/a: new and optional", "/b: new and required"}},
		{"removed", object("", `"a":{}`), object("", ""), []string{"/a: removed"}},
		{"required", object("", `"a":{}`), object(`"a"`, `"a":{}`), []string{"/a: required now"}},
		{"optional", object(`"a"`, `"a":{}`), object("", `"a":{}`), []string{"/a: not required any more"}},
		{"type", object("", `"a":{"type":"string"}`), object("", `"a":{"type":["null","integer"]}`),
			[]string{"/a: the type is integer or null now, it was string"}},
		{"order of types", object("", `"a":{"type":["null","integer"]}`), object("", `"a":{"type":["integer","null"]}`),
			[]string{"/: another form of the schema"}},
		{"narrowed", object("", `"a":{"enum":["x","y",1]}`), object("", `"a":{"enum":["x"]}`),
			[]string{`/a: does not allow "y", 1 any more`}},
		{"widened", object("", `"a":{"const":"x"}`), object("", `"a":{"enum":["x","y"]}`),
			[]string{`/a: allows "y" too now`}},
		{"enum is new", object("", `"a":{"type":"string"}`), object("", `"a":{"type":"string","enum":["x"]}`),
			[]string{`/a: allows only "x" now`}},
		{"enum is gone", object("", `"a":{"type":"string","enum":["x"]}`), object("", `"a":{"type":"string"}`),
			[]string{`/a: allows more than "x" now`}},
		{"bounds", object("", `"a":{"minimum":1,"maximum":5}`), object("", `"a":{"minimum":2,"default":3}`),
			[]string{"/a: minimum is 2 now, it was 1", "/a: no maximum any more", "/a: default is 3 now"}},
		{"nested", object("", `"a":{"type":"object","properties":{"b/c":{"type":"array","items":{"type":"string"}}}}`),
			object("",
				`"a":{"type":"object","properties":{"b/c":{"type":"array","items":{"type":"number"}}},"required":["b/c"]}`),
			[]string{"/a/b~1c: required now", "/a/b~1c/*: the type is number now, it was string"}},
		{"closed", `{"type":"object"}`, `{"type":"object","additionalProperties":false}`,
			[]string{"/: no other properties are allowed now"}},
		{"opened", `{"additionalProperties":false}`, `{}`, []string{"/: other properties are allowed now"}},
		{"others", `{"additionalProperties":{"type":"string"}}`, `{"additionalProperties":{"type":"number"}}`,
			[]string{"/*: the type is number now, it was string"}},
		{"options", `{"anyOf":[{"type":"string"}]}`, `{"anyOf":[{"type":"string"},{"type":"null"}]}`,
			[]string{"/: anyOf has 2 parts now, it had 1"}},
		{"tuple", `{"prefixItems":[{"type":"string"}]}`, `{"prefixItems":[{"type":"null"}]}`,
			[]string{"/0: the type is null now, it was string"}},
		{"through a reference", `{"$defs":{"d":{"type":"string"}},"properties":{"a":{"$ref":"#/$defs/d"}}}`,
			`{"$defs":{"d":{"type":"number"}},"properties":{"a":{"$ref":"#/$defs/d"}}}`,
			[]string{"/a: the type is number now, it was string"}},
		{"inlined reference", `{"$defs":{"d":{"type":"string"}},"properties":{"a":{"$ref":"#/$defs/d"}}}`,
			`{"properties":{"a":{"type":"string"}}}`, []string{"/: another form of the schema"}},
		{"contains itself", `{"properties":{"next":{"$ref":"#"},"v":{"type":"string"}}}`,
			`{"properties":{"next":{"$ref":"#"},"v":{"type":"number"}}}`,
			[]string{"/next/v: the type is number now, it was string", "/v: the type is number now, it was string"}},
		{"something that has no words", `{"not":{"type":"null"}}`, `{"not":{"type":"string"}}`,
			[]string{"/: another form of the schema"}},
		{"anchors are not followed", `{"properties":{"a":{"$ref":"#x"}}}`, `{"properties":{"a":{"$ref":"#y"}}}`,
			[]string{"/a: the schema is another"}},
		{"booleans", `{"properties":{"a":true}}`, `{"properties":{"a":false}}`, []string{"/a: the schema is another"}},
		{"broken", `{`, `{}`, []string{"/: the schemas cannot be compared"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, compare(tt.old, tt.new)); diff != "" {
				t.Errorf("Changes(%s, %s) (-want +got):\n%s", tt.old, tt.new, diff)
			}
		})
	}
}

func TestChanges_of_the_value(t *testing.T) {
	v := func(returns string) haft.Version {
		return haft.Version{Parameters: json.RawMessage(`{}`), Returns: json.RawMessage(returns)}
	}
	for _, tt := range []struct {
		old, new string
		want     []string
	}{
		{``, `{"type":"string"}`, []string{"returns /: there is a schema now"}},
		{`{"type":"string"}`, ``, []string{"returns /: there is no schema any more"}},
		{`{"type":"string"}`, `{"type":"null"}`, []string{"returns /: the type is null now, it was string"}},
	} {
		if diff := cmp.Diff(tt.want, registry.Changes(v(tt.old), v(tt.new))); diff != "" {
			t.Errorf("Changes(%s, %s) (-want +got):\n%s", tt.old, tt.new, diff)
		}
	}
}

func TestChanges_is_bounded(t *testing.T) {
	many := func(typ string) string {
		var b strings.Builder
		for i := range 300 {
			fmt.Fprintf(&b, `"p%d":{"type":%q},`, i, typ)
		}
		return `{"properties":{` + strings.TrimSuffix(b.String(), ",") + `}}`
	}
	got := compare(many("string"), many("null"))
	if len(got) != 101 || got[100] != "and 200 more changes" {
		t.Errorf("300 changes: %d lines, the last is %q", len(got), got[len(got)-1])
	}
	// Each definition uses the next one twice: the tree has 2^40 leaves.
	var b strings.Builder
	for i := range 40 {
		fmt.Fprintf(&b, `"d%d":{"properties":{"a":{"$ref":"#/$defs/d%d"},"b":{"$ref":"#/$defs/d%d"}}},`, i, i+1, i+1)
	}
	wide := func(typ string) string {
		return `{"$defs":{` + b.String() + `"d40":{"type":"` + typ + `"}},"$ref":"#/$defs/d0"}`
	}
	if got := compare(wide("string"), wide("null")); len(got) == 0 || len(got) > 101 {
		t.Errorf("a wide schema: %d lines", len(got))
	}
}

// anySchema draws a schema of arguments.
func anySchema(depth int) *rapid.Generator[map[string]any] {
	return rapid.Custom(func(t *rapid.T) map[string]any {
		m := map[string]any{}
		switch kind := rapid.IntRange(0, 6).Draw(t, "kind"); {
		case kind == 0:
			m["enum"] = rapid.SliceOfN(rapid.SampledFrom([]any{"a", "b", 1, nil, true}), 1, 3).Draw(t, "enum")
		case kind == 1:
			m["type"] = rapid.SliceOfN(rapid.SampledFrom([]string{"string", "number", "null"}), 1, 3).Draw(t, "types")
		case kind <= 3 && depth > 0:
			p := map[string]any{}
			for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c", "~/"}), 0, 3,
				rapid.ID).Draw(t, "names") {
				p[name] = anySchema(depth-1).Draw(t, name)
			}
			m["type"], m["properties"] = "object", p
			m["required"] = rapid.SliceOfDistinct(rapid.SampledFrom([]string{"a", "b"}), rapid.ID).Draw(t, "required")
			if rapid.Bool().Draw(t, "closed") {
				m["additionalProperties"] = false
			}
		case kind == 4 && depth > 0:
			m["type"], m["items"] = "array", anySchema(depth-1).Draw(t, "items")
		case kind == 5 && depth > 0:
			m["anyOf"] = rapid.SliceOfN(anySchema(depth-1), 1, 3).Draw(t, "anyOf")
		default:
			m["type"] = rapid.SampledFrom([]string{"string", "integer", "boolean"}).Draw(t, "type")
			m["minimum"] = rapid.IntRange(0, 3).Draw(t, "minimum")
		}
		if rapid.Bool().Draw(t, "described") {
			m["description"] = rapid.SampledFrom([]string{"x", "y"}).Draw(t, "description")
		}
		return m
	})
}

// The diff of equal schemas is empty, and that of others is not.
func TestChanges_properties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := anySchema(3).Draw(t, "a"), anySchema(3).Draw(t, "b")
		x, y := text(a), text(b)
		if got := compare(x, x); len(got) > 0 {
			t.Fatalf("Changes(%s, itself) = %q", x, got)
		}
		strip(a)
		strip(b)
		if same := text(a) == text(b); same != (len(compare(x, y)) == 0) {
			t.Fatalf("Changes(%s, %s) = %q, same %v", x, y, compare(x, y), same)
		}
	})
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// strip removes descriptions, none of which is a property here.
func strip(m map[string]any) {
	delete(m, "description")
	for _, v := range m {
		switch v := v.(type) {
		case map[string]any:
			strip(v)
		case []map[string]any:
			for _, x := range v {
				strip(x)
			}
		}
	}
}
