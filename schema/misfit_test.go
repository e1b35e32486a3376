package schema_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"haft/schema"
)

func TestCheck_messages(t *testing.T) {
	animals := `{"oneOf":[{"$ref":"#/$defs/Cat"},{"$ref":"#/$defs/Dog"}],"$defs":{
		"Cat":{"type":"object","properties":{"kind":{"const":"cat"},"lives":{"type":"integer"}},"required":["kind","lives"]},
		"Dog":{"type":"object","properties":{"kind":{"const":"dog"},"barks":{"type":"boolean"}},"required":["kind","barks"]}}}`
	tests := []struct{ name, schema, value, want string }{
		{"type", `{"type":"integer"}`, `"x"`, ": must be an integer, is a string"},
		{"types", `{"type":["string","null","number"]}`, `[]`, ": must be a number, a string or null, is an array"},
		{"missing", `{"required":["a","b/c"]}`, `{}`, "/a: is missing\n/b~1c: is missing"},
		{"enum", `{"enum":["a",1,null,true]}`, `2`, `: must be one of "a", 1, null, true`},
		{"enum of one", `{"enum":["a"]}`, `2`, `: must be "a"`},
		{"enum of objects", `{"enum":[{"a":1},[1]]}`, `2`, ": must be one of a certain object, a certain array"},
		{"long enum", `{"enum":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22]}`, `0`,
			": must be one of 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, and 2 more"},
		{"const", `{"const":"a"}`, `"b"`, `: must be "a"`},
		{"minimum", `{"minimum":3}`, `2`, ": must be at least 3"},
		{"maximum", `{"maximum":2.5}`, `3`, ": must be at most 2.5"},
		{"exclusive bounds", `{"allOf":[{"exclusiveMinimum":3},{"exclusiveMaximum":3}]}`, `3`,
			": must be greater than 3\n: must be less than 3"},
		{"multiple", `{"multipleOf":0.5}`, `0.3`, ": must be a multiple of 0.5"},
		{"large numbers are exact", `{"maximum":9007199254740993}`, `9007199254740994`,
			": must be at most 9007199254740993"},
		{"length", `{"minLength":3}`, `"é"`, ": must have at least 3 characters, has 1"},
		{"longest", `{"maxLength":1}`, `"ab"`, ": must have at most 1 character, has 2"},
		{"pattern", `{"pattern":"^a+$"}`, `"b"`, ": must match the pattern ^a+$"},
		{"items", `{"minItems":2,"items":{"type":"integer"}}`, `["x"]`,
			": must have at least 2 items, has 1\n/0: must be an integer, is a string"},
		{"items are in order of number", `{"items":{"type":"integer"}}`, `[1,1,"",1,1,1,1,1,1,1,"",1]`,
			"/2: must be an integer, is a string\n/10: must be an integer, is a string"},
		{"too many items", `{"$schema":"http://json-schema.org/draft-07/schema#","items":[{}],"additionalItems":false}`,
			`[1,2,3]`, ": has 2 items too many"},
		{"unique", `{"uniqueItems":true}`, `[1,2,1]`, ": must not hold equal items; items 0 and 2 are equal"},
		{"contains", `{"contains":{"type":"string"}}`, `[1]`, ": holds too few items of the kind that must be there"},
		{"number of properties", `{"minProperties":2}`, `{}`, ": must have at least 2 properties, has 0"},
		{"more properties", `{"properties":{"b":{},"a":{}},"additionalProperties":false}`, `{"x":1}`,
			"/x: is not a property here; known are b, a"},
		{"unevaluated properties", `{"properties":{"a":{}},"unevaluatedProperties":false}`, `{"x":1}`,
			"/x: is not a property here"},
		{"forbidden property", `{"properties":{"a":false}}`, `{"a":1}`, "/a: must not be given"},
		{"dependent", `{"dependentRequired":{"a":["b"]}}`, `{"a":1}`,
			`/b: is missing; it is required when "a" is given`},
		{"not", `{"not":{"type":"string"}}`, `"x"`, ": is what the schema excludes"},
		{"names", `{"properties":{"m":{"propertyNames":{"pattern":"^[a-z]+$","maxLength":2}}}}`, `{"m":{"A1B":1}}`,
			"/m/A1B: is not an acceptable name: it must have at most 2 characters, has 3; it must match the pattern " +
				"^[a-z]+$"},
		{"nullable", `{"anyOf":[{"type":"integer"},{"type":"null"}]}`, `"x"`,
			": must be an integer or null, is a string"},
		{"nullable that has the type", `{"anyOf":[{"type":"integer","minimum":3},{"type":"null"}]}`, `1`,
			": must be at least 3"},
		{"union of values", `{"anyOf":[{"const":"a"},{"const":"b"},{"enum":["c","d"]}]}`, `"x"`,
			`: must be one of "a", "b", "c", "d"`},
		{"tagged union", animals, `{"kind":"cat","lives":"nine"}`, "/lives: must be an integer, is a string"},
		{"tagged union of the other", animals, `{"kind":"dog"}`, "/barks: is missing"},
		{"tag of none", animals, `{"kind":"cow","lives":9}`,
			": fits none of: Cat, Dog; the nearest is Cat\n/kind: must be \"cat\""},
		{"wrong type for a union of models", animals, `5`, ": must be an object, is a number"},
		{"two fit", `{"oneOf":[{"title":"Small","maximum":10},{"title":"Positive","minimum":0},{"type":"string"}]}`,
			`5`, ": fits more than one of: Small, Positive"},
		{"nested union",
			`{"properties":{"p":{"anyOf":[{"type":"array","items":{"anyOf":[{"type":"integer"},{"type":"null"}]}},{"type":"null"}]}}}`, `{"p":[1,"x"]}`, "/p/1: must be an integer or null, is a string"},
		{"conditional", `{"if":{"properties":{"a":{"const":1}}},"then":{"required":["b"]}}`, `{"a":1}`,
			"/b: is missing"},
		{"said once", `{"allOf":[{"required":["a"]},{"required":["a"]}]}`, `{}`, "/a: is missing"},
		{"name that is long and wild", `{"additionalProperties":false}`,
			`{"` + strings.Repeat("x", 100) + `":1,"a\nb\u001b[31m":2}`,
			"/" + `a\u000ab\u001b[31m: is not a property here` + "\n/" + strings.Repeat("x", 64) +
				"…: is not a property here"},
		{"number out of range", `{}`, `{"a":[1e999]}`, "/a/0: is a number out of range"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := compiled(t, tt.schema)
			if diff := cmp.Diff(tt.want, misfitLines(c.Check(treeOf(t, tt.value)))); diff != "" {
				t.Errorf("Check(%s) (-want +got):\n%s", tt.value, diff)
			}
		})
	}
}

func TestCheck_formats(t *testing.T) {
	tests := []struct{ format, good, bad string }{
		{"date-time", "2026-01-31T10:00:00Z 2026-01-31T10:00:00.5+01:00 2026-01-31T10:00:00 2026-01-31T10:00 " +
			"2026-01-31T23:59:60Z", "2026-01-31 2026-02-30T10:00:00Z 10:00:00 2026-01-31T25:00:00Z " +
			"2026-01-31T10:00:00,5Z 2026-01-31T10 2026-01-31T10:60:00"},
		{"date", "2026-01-31", "2026-02-30 31.1.2026"},
		{"time", "10:00:00 10:00:00.25 10:00:00Z 10:00:00+02:00 10:00", "10 7:00 25:00:00 10:60:00 10:00:00,5"},
		{"duration", "PT5S P1DT2H3M4.5S -PT5S +PT5S P3W P1W2D PT1.5H P1Y2M PT0S", "P PT 5S P1DT -P P1S"},
		{"uuid", "123e4567-e89b-12d3-a456-426614174000 123E4567E89B12D3A456426614174000 " +
			"urn:uuid:123e4567-e89b-12d3-a456-426614174000 {123e4567-e89b-12d3-a456-426614174000}",
			"123e4567 123e4567-e89b12d3a456426614174000 {123e4567-e89b-12d3-a456-426614174000 " +
				"g23e4567-e89b-12d3-a456-426614174000"},
		{"email", "a@example.com ü@example.com", "a @example.com a@ a@b@example.com <a@example.com>"},
		{"uri", "https://example.com/x", "x"},
		{"ipv4", "127.0.0.1", "127.0.0"},
		{"path", "anything", ""},
	}
	for _, tt := range tests {
		c := compiled(t, fmt.Sprintf(`{"format":%q}`, tt.format))
		for _, v := range strings.Fields(tt.good) {
			if got := c.Check(v); got != nil {
				t.Errorf("%s: Check(%q) = %v, want none", tt.format, v, got)
			}
		}
		for _, v := range strings.Fields(tt.bad) {
			got := c.Check(v)
			if len(got) != 1 {
				t.Errorf("%s: Check(%q) = %v, want one", tt.format, v, got)
			}
		}
	}
}

func TestCheck_bounds_the_number_of_misfits(t *testing.T) {
	c := compiled(t, `{"items":{"type":"integer"}}`)
	got := c.Check(treeOf(t, "["+strings.Repeat(`"x",`, 199)+`"x"]`))
	if len(got) != 50 || got[49].Message != "and 151 more misfits" {
		t.Errorf("Check gives %d misfits, the last is %v", len(got), got[len(got)-1])
	}
}

// No message repeats a value, wherever it stands and whatever is wrong with it.
func TestCheck_never_reveals_the_value(t *testing.T) {
	const canary = "canary7391"
	schemas := []string{
		`{"type":"integer"}`, `{"type":"null"}`, `{"enum":["a","b"]}`, `{"const":1}`, `{"const":{"a":1}}`,
		`{"enum":[["a"]]}`,
		`{"pattern":"^z$"}`, `{"maxLength":2}`, `{"minLength":99}`, `{"format":"email"}`, `{"format":"date-time"}`,
		`{"format":"uuid"}`, `{"format":"uri"}`, `{"format":"ipv6"}`,
		`{"format":"hostname"}`, `{"format":"json-pointer"}`, `{"format":"regex"}`, `{"format":"uri-template"}`,
		`{"format":"duration"}`, `{"format":"semver"}`,
		`{"not":{}}`, `false`, `{"anyOf":[{"type":"integer"},{"type":"null"}]}`,
		`{"anyOf":[{"const":"x"},{"pattern":"^y"}]}`,
		`{"oneOf":[{},{}]}`, `{"oneOf":[{"maxLength":1},{"const":3}]}`, `{"if":{"type":"string"},"then":{"const":1}}`,
		`{"maximum":1}`, `{"multipleOf":7}`, `{"exclusiveMaximum":1}`, `{"type":"array","items":false}`,
		`{"uniqueItems":true}`,
		`{"contains":{"type":"integer"},"minContains":2}`, `{"additionalProperties":{"type":"integer"}}`,
		`{"maxProperties":0}`, `{"propertyNames":{"maxLength":1}}`,
		`{"contentEncoding":"base64","contentMediaType":"application/json"}`, `{"dependentRequired":{"k":["z"]}}`,
		`{"unevaluatedProperties":false}`,
	}
	values := []string{`"canary7391"`, `["canary7391","canary7391"]`, `{"k":"canary7391"}`, `7391739173917391`,
		`73917391.7391`, `{"k":{"k":["canary7391"]}}`}
	misfits := 0
	for _, s := range schemas {
		for _, wrap := range []string{`%s`, `{"properties":{"p":%s}}`, `{"items":%s}`,
			`{"$ref":"#/$defs/d","$defs":{"d":%s}}`, `{"anyOf":[%s,{"type":"null","title":"N"}]}`, `{"allOf":[%s]}`} {
			c := compiled(t, fmt.Sprintf(wrap, s))
			for _, v := range values {
				for _, in := range []string{v, `{"p":` + v + `}`, `[` + v + `]`} {
					for _, m := range c.Check(treeOf(t, in)) {
						misfits++
						if all := m.Pointer + " " + m.Message; strings.Contains(all, canary) ||
							strings.Contains(all, "7391") {
							t.Errorf("schema %s, value %s: the misfit reveals the value: %s", fmt.Sprintf(wrap, s), in,
								all)
						}
					}
				}
			}
		}
	}
	if misfits < 1000 {
		t.Errorf("only %d misfits were looked at", misfits)
	}
}

func TestFit_never_reveals_the_value(t *testing.T) {
	c := compiled(t,
		`{"type":"object","properties":{"i":{"type":"integer"},"o":{"type":"object","properties":{"x":{"type":"integer"}}},"l":{"type":"array","items":{"type":"boolean"}}}}`)
	for _, args := range []string{
		`{"i":"canary7391"}`, `{"i":"7391.5"}`, `{"unknown":"canary7391"}`, `{"o":"{\"x\":\"canary7391\"}"}`,
		`{"o":"{canary7391"}`, `{"l":"[\"canary7391\"]"}`, `{"l":["canary7391"]}`,
	} {
		_, misfits := c.Fit(treeOf(t, args).(*schema.Object), schema.FitOptions{})
		if len(misfits) == 0 {
			t.Errorf("Fit(%s) has no misfits", args)
		}
		if s := misfitLines(misfits); strings.Contains(s, "7391") {
			t.Errorf("Fit(%s) tells the value: %s", args, s)
		}
	}
}
