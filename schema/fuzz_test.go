package schema_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"haft"
	"haft/schema"
)

// FuzzReadArguments: any text is an object that survives being written and read
// again, or an error for the caller that says where.
func FuzzReadArguments(f *testing.F) {
	for _, s := range []string{
		`{"a":1}`, `"{\"a\":\"}{\"}"`, "```json\n{\"a\":[1e5,null]}\n```", `null`, "\ufeff{}", `{"a":1e400}`,
		`{"a":"\ud83d\ude00"}`, "x ```{}``` y",
		`{"a":-0.0}`, `{"a":{"a":{"a":[[[[]]]]}}}`, `{"a":1,"a":2}`, `{'a':True}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		o, err := schema.ReadArguments(text)
		if err != nil {
			if haft.CodeOf(err) != haft.CodeInvalid || haft.MessageOf(err) == "" ||
				!utf8.ValidString(haft.MessageOf(err)) {
				t.Errorf("ReadArguments(%q) = %v", text, err)
			}
			return
		}
		b, err := schema.Encode(o)
		if err != nil || !json.Valid(b) {
			t.Fatalf("Encode: %s, %v", b, err)
		}
		again, err := schema.ReadArguments(b)
		if err != nil {
			t.Fatalf("ReadArguments(%s), its own output: %v", b, err)
		}
		if b2, _ := schema.Encode(again); string(b2) != string(b) {
			t.Errorf("read again: %s, was %s", b2, b)
		}
		if _, err := schema.Decode(b); err != nil {
			t.Errorf("Decode(%s): %v", b, err)
		}
	})
}

// fuzzSchemas are what FuzzFit holds arguments against, beside what it invents.
var fuzzSchemas = []string{
	`{"type":"object","properties":{"i":{"type":"integer","minimum":3},"n":{"type":"number"},"b":{"type":"boolean"},"s":{"type":"string","pattern":"^a"},"l":{"type":"array","items":{"type":"integer"},"uniqueItems":true},"o":{"type":"object","properties":{"x":{"type":["integer","null"],"default":1}},"additionalProperties":false},"e":{"enum":[1,"a",null]}},"required":["i"]}`,
	`{"$ref":"#/$defs/T","$defs":{"T":{"type":"object","properties":{"v":{"anyOf":[{"type":"integer"},{"type":"null"}]},"t":{"oneOf":[{"$ref":"#/$defs/T"},{"type":"array","items":{"$ref":"#/$defs/T"}}]}},"additionalProperties":{"type":"string","format":"date-time"}}}}`,
	`{"type":"object","properties":{"s":{"anyOf":[{"type":"object","properties":{"k":{"const":"a"},"n":{"type":"integer"}},"required":["k"]},{"type":"object","properties":{"k":{"const":"b"}},"required":["k"]}]}},"patternProperties":{"^x":{"multipleOf":0.5}},"propertyNames":{"maxLength":9}}`,
}

// canary is put into every string of the arguments; no misfit may hold it.
const canary = "§canary7391§"

// mark puts the canary into every string value. Keys are part of pointers.
func mark(v any) any {
	switch v := v.(type) {
	case *schema.Object:
		o := &schema.Object{}
		for _, k := range v.Keys() {
			o.Set(k, mark(v.Value(k)))
		}
		return o
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = mark(v[i])
		}
		return list
	case string:
		return v + canary
	}
	return v
}

// FuzzFit: no schema and no arguments make it panic; what fits passes
// Check; the input stays; no misfit tells a value.
func FuzzFit(f *testing.F) {
	args := []string{
		`{"i":"5","n":"2.5","b":"true","s":"abc","l":"[1,2]","o":"{\"x\":null}","e":"1"}`, `{"i":1e400}`,
		`{"v":"5","t":[{"v":null},{"t":{}}],"z":"2026-01-31T10:00:00"}`,
		`{"s":{"k":"a","n":"1"},"x1":"0.25"}`, `{"unknown":1}`, `{"i":5.0,"b":null}`,
		`{"s":1.50,"b":1,"l":"(1, 'it\\'s', None,)","o":"{'x': {\"y\": True}}"}`,
	}
	for _, s := range fuzzSchemas {
		for _, a := range args {
			f.Add(s, a)
		}
	}
	f.Add(`{"allOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"}],"$defs":{"a":{"properties":{"p":{"$ref":"#"}}}}}`,
		`{"p":{"p":{}}}`)
	f.Add(`{"$id":"http://x/y","properties":{"a":{"$ref":"y#/properties/b"},"b":{"if":true,"then":{"minLength":1}}}}`,
		`{"a":""}`)
	f.Fuzz(func(t *testing.T, schemaText, argText string) {
		tree, err := schema.Decode([]byte(schemaText))
		if err != nil {
			return
		}
		c, err := schema.Compile(tree)
		if err != nil {
			if haft.CodeOf(err) != haft.CodeInvalid {
				t.Errorf("Compile(%s) = %v", schemaText, err)
			}
			return
		}
		args, err := schema.ReadArguments([]byte(argText))
		if err != nil {
			return
		}
		before := textOf(t, args)
		for _, opts := range []schema.FitOptions{{}, {NoCoercion: true}, {Python: true}} {
			out, misfits := c.Fit(args, opts)
			if textOf(t, args) != before {
				t.Fatalf("Fit changed its input: %s", before)
			}
			if misfits == nil {
				if bad := c.Check(out); bad != nil {
					t.Errorf("schema %s: %s fits, but Check says %v", schemaText, textOf(t, out), bad)
				}
				continue
			}
			for _, m := range misfits {
				if m.Message == "" || !utf8.ValidString(m.Message) || len(m.Message) > 1<<14 {
					t.Errorf("schema %s: misfit %q", schemaText, m)
				}
			}
		}
		if strings.Contains(schemaText, "7391") || strings.Contains(argText, "7391") {
			return
		}
		_, misfits := c.Fit(mark(args).(*schema.Object), schema.FitOptions{})
		for _, m := range misfits {
			if strings.Contains(m.Message, "7391") || strings.Contains(m.Pointer, "7391") {
				t.Errorf("schema %s, arguments %s: the misfit tells the value: %v", schemaText, argText, m)
			}
		}
	})
}
