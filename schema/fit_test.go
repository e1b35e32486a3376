package schema_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"haft"
	"haft/schema"
)

// compiled compiles the text of a schema.
func compiled(t testing.TB, text string) *schema.Compiled {
	t.Helper()
	tree, err := schema.Decode([]byte(text))
	if err != nil {
		t.Fatalf("Decode(%s): %v", text, err)
	}
	c, err := schema.Compile(tree)
	if err != nil {
		t.Fatalf("Compile(%s): %v", text, withMisfits(err))
	}
	return c
}

// withMisfits shows an error with its misfits.
func withMisfits(err error) string {
	if e, ok := err.(*haft.Error); ok {
		return fmt.Sprintf("%s %v", e, e.Misfits)
	}
	return err.Error()
}

// misfitLines writes misfits one by line.
func misfitLines(all []haft.Misfit) string {
	var b strings.Builder
	for _, m := range all {
		fmt.Fprintf(&b, "%s: %s\n", m.Pointer, m.Message)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// treeOf reads JSON.
func treeOf(t testing.TB, text string) any {
	t.Helper()
	v, err := schema.Decode([]byte(text))
	if err != nil {
		t.Fatalf("Decode(%s): %v", text, err)
	}
	return v
}

// textOf writes a tree.
func textOf(t testing.TB, v any) string {
	t.Helper()
	b, err := schema.Encode(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// oneParam makes a schema of one required parameter.
func oneParam(s string) string {
	return `{"type":"object","properties":{"p":` + s + `},"required":["p"]}`
}

func TestFit_coercion(t *testing.T) {
	tests := []struct {
		name, param, given string
		want               string // the value of p, or a message
	}{
		{"text of an integer", `{"type":"integer"}`, `"5"`, `5`},
		{"text of a negative integer", `{"type":"integer"}`, `"-7"`, `-7`},
		{"whole float for an integer", `{"type":"integer"}`, `5.0`, `5`},
		{"exponent for an integer", `{"type":"integer"}`, `12e2`, `1200`},
		{"big integer kept exactly", `{"type":"integer"}`, `"123456789012345678901234567890"`,
			`123456789012345678901234567890`},
		{"text of a number keeps its digits", `{"type":"number"}`, `"2.50"`, `2.50`},
		{"fraction is no integer", `{"type":"integer"}`, `"2.5"`, "must be an integer, is a string"},
		{"leading zero", `{"type":"integer"}`, `"05"`, "must be an integer, is a string"},
		{"spaces", `{"type":"integer"}`, `" 5 "`, "must be an integer, is a string"},
		{"hexadecimal", `{"type":"integer"}`, `"0x5"`, "must be an integer, is a string"},
		{"plus sign", `{"type":"integer"}`, `"+5"`, "must be an integer, is a string"},
		{"out of range", `{"type":"number"}`, `"1e400"`, "must be a number, is a string"},
		{"not a number", `{"type":"number"}`, `"NaN"`, "must be a number, is a string"},
		{"underscore", `{"type":"integer"}`, `"1_000"`, "must be an integer, is a string"},
		{"empty text is no number", `{"type":"integer"}`, `""`, "must be an integer, is a string"},
		{"true", `{"type":"boolean"}`, `"true"`, `true`},
		{"false", `{"type":"boolean"}`, `"false"`, `false`},
		{"Python's True", `{"type":"boolean"}`, `"True"`, "must be a boolean, is a string"},
		{"one is not true", `{"type":"boolean"}`, `1`, "must be a boolean, is a number"},
		{"string stays", `{"type":"string"}`, `"1.10"`, `"1.10"`},
		{"text null stays", `{"type":"string"}`, `"null"`, `"null"`},
		{"text true stays", `{"type":"string"}`, `"true"`, `"true"`},
		{"number is not made a string", `{"type":"string"}`, `5`, "must be a string, is a number"},
		{"boolean is not made a string", `{"type":"string"}`, `true`, "must be a string, is a boolean"},
		{"text of a list", `{"type":"array","items":{"type":"integer"}}`, `"[1,2]"`, `[1,2]`},
		{"text of a list of texts", `{"type":"array","items":{"type":"integer"}}`, `"[\"1\",2]"`, `[1,2]`},
		{"single item is not made a list", `{"type":"array"}`, `5`, "must be an array, is a number"},
		{"comma text is not made a list", `{"type":"array"}`, `"a,b"`, "must be an array, is a string"},
		{"text of an object", `{"type":"object","properties":{"a":{"type":"integer"}}}`, `"{\"a\":\"1\"}"`, `{"a":1}`},
		{"object text for a list", `{"type":"array"}`, `"{}"`, "must be an array, is a string"},
		{"nullable by anyOf", `{"anyOf":[{"type":"integer"},{"type":"null"}]}`, `"5"`, `5`},
		{"nullable by type list", `{"type":["integer","null"]}`, `"5"`, `5`},
		{"text null for a nullable integer", `{"type":["integer","null"]}`, `"null"`, `null`},
		{"null for a nullable", `{"type":["integer","null"]}`, `null`, `null`},
		{"no guess between integer and boolean", `{"type":["integer","boolean"]}`, `"5"`,
			"must be a boolean or an integer, is a string"},
		{"string in a union accepts", `{"anyOf":[{"type":"integer"},{"type":"string"}]}`, `"5"`, `"5"`},
		{"enum of integers", `{"enum":[1,2,3]}`, `"2"`, `2`},
		{"enum of strings and integers", `{"enum":["1",1]}`, `"1"`, `"1"`},
		{"const", `{"const":7}`, `"7"`, `7`},
		{"through a reference", `{"$ref":"#/$defs/n"}`, `"5"`, "5"},
		{"no declared type", `{}`, `"5"`, `"5"`},
		{"required null", `{"type":"integer"}`, `null`, "must be an integer, is null"},
		{"whole float stays for a number", `{"type":"number"}`, `5.0`, `5.0`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := compiled(t, strings.TrimSuffix(oneParam(tt.param), "}")+`,"$defs":{"n":{"type":"integer"}}}`)
			args := treeOf(t, `{"p":`+tt.given+`}`).(*schema.Object)
			before := textOf(t, args)
			out, misfits := c.Fit(args, schema.FitOptions{})
			got := strings.TrimPrefix(misfitLines(misfits), "/p: ")
			if misfits == nil {
				got = textOf(t, out.Value("p"))
			}
			if got != tt.want {
				t.Errorf("Fit(%s) = %s, want %s", tt.given, got, tt.want)
			}
			if after := textOf(t, args); after != before {
				t.Errorf("Fit changed its input from %s to %s", before, after)
			}
		})
	}
}

func TestFit_without_coercion_leaves_values(t *testing.T) {
	c := compiled(t,
		`{"type":"object","properties":{"n":{"type":"integer"},"d":{"type":"string","default":"x"},"o":{"type":"string"}}}`)
	_, misfits := c.Fit(treeOf(t, `{"n":"5"}`).(*schema.Object), schema.FitOptions{NoCoercion: true})
	if got, want := misfitLines(misfits), "/n: must be an integer, is a string"; got != want {
		t.Errorf("misfits = %s, want %s", got, want)
	}
	out, misfits := c.Fit(treeOf(t, `{"n":5.0,"o":null}`).(*schema.Object), schema.FitOptions{NoCoercion: true})
	if misfits != nil || textOf(t, out) != `{"n":5.0,"d":"x"}` {
		t.Errorf("Fit = %s, %v", textOf(t, out), misfits)
	}
}

func TestFit_objects(t *testing.T) {
	tests := []struct {
		name, schema, args, want string // the result, or misfits
	}{
		{"no arguments", `{"type":"object"}`, `{}`, `{}`},
		{"defaults",
			`{"type":"object","properties":{"a":{"type":"integer","default":1},"b":{"default":{"z":1,"a":2}}}}`, `{}`,
			`{"a":1,"b":{"z":1,"a":2}}`},
		{"default through a reference",
			`{"type":"object","properties":{"a":{"$ref":"#/$defs/d"}},"$defs":{"d":{"type":"integer","default":4}}}`,
			`{}`, `{"a":4}`},
		{"default beside a reference",
			`{"type":"object","properties":{"a":{"$ref":"#/$defs/d","default":3}},"$defs":{"d":{"type":"integer","default":4}}}`, `{}`, `{"a":3}`},
		{"nested defaults",
			`{"type":"object","properties":{"o":{"type":"object","properties":{"x":{"type":"integer","default":1}}}}}`,
			`{"o":{}}`, `{"o":{"x":1}}`},
		{"nested object is not invented",
			`{"type":"object","properties":{"o":{"type":"object","properties":{"x":{"default":1}}}}}`, `{}`, `{}`},
		{"defaults within lists",
			`{"type":"object","properties":{"l":{"type":"array","items":{"type":"object","properties":{"x":{"default":1}}}}}}`, `{"l":[{},{"x":2}]}`, `{"l":[{"x":1},{"x":2}]}`},
		{"default that does not fit", `{"type":"object","properties":{"a":{"type":"string","default":null}}}`, `{}`,
			`{}`},
		{"null for an optional", `{"type":"object","properties":{"a":{"type":"string"}}}`, `{"a":null}`, `{}`},
		{"null for an optional with default", `{"type":"object","properties":{"a":{"type":"string","default":"x"}}}`,
			`{"a":null}`, `{"a":"x"}`},
		{"null for a nullable optional",
			`{"type":"object","properties":{"a":{"type":["string","null"],"default":"x"}}}`, `{"a":null}`,
			`{"a":null}`},
		{"null where any value may be", `{"type":"object","properties":{"a":{}}}`, `{"a":null}`, `{"a":null}`},
		{"null for a nested optional",
			`{"type":"object","properties":{"o":{"type":"object","properties":{"x":{"type":"integer"}}}}}`,
			`{"o":{"x":null}}`, `{"o":{}}`},
		{"null for a required", `{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`, `{"a":null}`,
			"/a: must be a string, is null"},
		{"order of the schema", `{"type":"object","properties":{"z":{},"a":{},"m":{"default":1}}}`, `{"a":1,"z":2}`,
			`{"z":2,"a":1,"m":1}`},
		{"unknown argument", `{"type":"object","properties":{"a":{},"b":{}}}`, `{"c":1}`,
			"/c: is not a parameter; known parameters are a, b"},
		{"unknown argument of a tool without any", `{"type":"object"}`, `{"c":1}`,
			"/c: is not a parameter; the tool takes none"},
		{"unknown argument said once", `{"type":"object","properties":{"a":{}},"additionalProperties":false}`,
			`{"c":1}`, "/c: is not a parameter; known parameters are a"},
		{"more arguments allowed", `{"type":"object","properties":{"a":{}},"additionalProperties":{"type":"integer"}}`,
			`{"c":"1","a":2}`, `{"a":2,"c":1}`},
		{"any arguments allowed", `{"type":"object","additionalProperties":true}`, `{"c":"1"}`, `{"c":"1"}`},
		{"arguments by pattern", `{"type":"object","patternProperties":{"^x":{"type":"integer"}}}`, `{"x1":"1","y":2}`,
			"/y: is not a parameter; the tool takes none"},
		{"nested objects follow JSON Schema", `{"type":"object","properties":{"o":{"type":"object"}}}`, `{"o":{"c":1}}`,
			`{"o":{"c":1}}`},
		{"nested object that is closed",
			`{"type":"object","properties":{"o":{"type":"object","properties":{"z":{},"a":{}},"additionalProperties":false}}}`, `{"o":{"c":1}}`, "/o/c: is not a property here; known are z, a"},
		{"root by reference",
			`{"$ref":"#/$defs/A","$defs":{"A":{"type":"object","properties":{"n":{"type":"integer"}}}}}`,
			`{"n":"1","x":1}`, "/x: is not a parameter; known parameters are n"},
		{"root by allOf", `{"allOf":[{"properties":{"n":{"type":"integer"}}},{"properties":{"m":{"default":2}}}]}`,
			`{"n":"1"}`, `{"n":1,"m":2}`},
		{"union of objects by a tag",
			`{"type":"object","properties":{"s":{"oneOf":[{"type":"object","properties":{"k":{"const":"a"},"n":{"type":"integer"}},"required":["k"]},{"type":"object","properties":{"k":{"const":"b"},"n":{"type":"string"}},"required":["k"]}]}}}`, `{"s":{"k":"a","n":"1"}}`, `{"s":{"k":"a","n":1}}`},
		{"union of objects that both fit is left",
			`{"type":"object","properties":{"s":{"anyOf":[{"type":"object","properties":{"x":{"default":1}}},{"type":"object","properties":{"y":{"default":1}}}]}}}`, `{"s":{}}`, `{"s":{}}`},
		{"nullable object",
			`{"type":"object","properties":{"s":{"anyOf":[{"type":"object","properties":{"x":{"default":1}}},{"type":"null"}]}}}`, `{"s":{}}`, `{"s":{"x":1}}`},
		{"recursion",
			`{"$ref":"#/$defs/T","$defs":{"T":{"type":"object","properties":{"n":{"type":"integer"},"t":{"$ref":"#/$defs/T"}}}}}`, `{"t":{"n":"1","t":{"n":"2"}}}`, `{"t":{"n":1,"t":{"n":2}}}`},
		{"every misfit at once",
			`{"type":"object","properties":{"a":{"type":"integer"},"b":{"enum":["x","y"]},"c":{"minimum":3},"d":{}},"required":["a","d"]}`, `{"a":"x","b":"z","c":2,"e":1}`,
			"/a: must be an integer, is a string\n/b: must be one of \"x\", \"y\"\n/c: must be at least 3\n/d: is " +
				"missing\n/e: is not a parameter; known parameters are a, b, c, d"},
		{"draft 7",
			`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"l":{"type":"array","items":[{"type":"integer"},{"type":"boolean"}]}}}`, `{"l":["1","true"]}`, `{"l":[1,true]}`},
		{"tuple",
			`{"type":"object","properties":{"l":{"type":"array","prefixItems":[{"type":"integer"}],"items":{"type":"boolean"}}}}`, `{"l":["1","true"]}`, `{"l":[1,true]}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := compiled(t, tt.schema)
			out, misfits := c.Fit(treeOf(t, tt.args).(*schema.Object), schema.FitOptions{})
			got := misfitLines(misfits)
			if misfits == nil {
				got = textOf(t, out)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Fit(%s) (-want +got):\n%s", tt.args, diff)
			}
		})
	}
}

func TestFit_does_not_share_defaults(t *testing.T) {
	c := compiled(t, `{"type":"object","properties":{"l":{"type":"array","default":[{"a":1}]}}}`)
	first, _ := c.Fit(nil, schema.FitOptions{})
	first.Array("l")[0].(*schema.Object).Set("a", json.Number("2"))
	second, _ := c.Fit(nil, schema.FitOptions{})
	if got, want := textOf(t, second), `{"l":[{"a":1}]}`; got != want {
		t.Errorf("after a caller changed its default: %s, want %s", got, want)
	}
}
