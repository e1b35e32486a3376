package schema_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"haft/schema"
)

// names are few, so that schemas and arguments meet.
var names = rapid.SampledFrom([]string{"a", "b", "c"})

// drawSchema draws a schema that compiles.
func drawSchema(t *rapid.T, depth int) *schema.Object {
	number := func() json.Number { return json.Number(fmt.Sprint(rapid.IntRange(-3, 9).Draw(t, "number"))) }
	kinds := []string{"integer", "number", "boolean", "string", "null", "enum", "any", "format"}
	if depth > 0 {
		kinds = append(kinds, "array", "object", "object", "anyOf", "oneOf", "allOf", "list", "ref", "tuple", "not")
	}
	var s *schema.Object
	switch kind := rapid.SampledFrom(kinds).Draw(t, "kind"); kind {
	case "enum":
		s = schema.Obj("enum", []any{number(), "5", true})
	case "any":
		s = schema.Obj()
	case "format":
		s = schema.Obj("type", "string", "format", "date")
	case "array":
		s = schema.Obj("type", "array", "items", drawSchema(t, depth-1), "minItems", json.Number("1"))
	case "tuple":
		s = schema.Obj("type", "array", "prefixItems", []any{drawSchema(t, depth-1), drawSchema(t, depth-1)})
	case "object":
		s = drawObject(t, depth)
	case "anyOf", "oneOf", "allOf":
		s = schema.Obj(kind, []any{drawSchema(t, depth-1), drawSchema(t, depth-1)})
	case "not":
		s = schema.Obj("not", drawSchema(t, depth-1))
	case "list":
		s = schema.Obj("type", []any{"integer", rapid.SampledFrom([]string{"null", "boolean", "string"}).Draw(t, "or")})
	case "ref":
		s = schema.Obj("type", "object", "properties", schema.Obj("a", schema.Obj("$ref", "#")))
	default:
		s = schema.Obj("type", kind)
		if kind == "integer" || kind == "number" {
			s.Set("minimum", number())
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "default") == 0 {
		s.Set("default", drawValue(t, 1))
	}
	return s
}

// drawObject draws a schema of objects.
func drawObject(t *rapid.T, depth int) *schema.Object {
	props := schema.Obj()
	for range rapid.IntRange(0, 3).Draw(t, "properties") {
		props.Set(names.Draw(t, "name"), drawSchema(t, depth-1))
	}
	s := schema.Obj("type", "object", "properties", props)
	if rapid.Bool().Draw(t, "required") {
		s.Set("required", []any{names.Draw(t, "name")})
	}
	switch rapid.IntRange(0, 2).Draw(t, "more") {
	case 0:
		s.Set("additionalProperties", false)
	case 1:
		s.Set("additionalProperties", drawSchema(t, depth-1))
	}
	return s
}

// drawValue draws a value. Its texts hold the canary, or look like other types.
func drawValue(t *rapid.T, depth int) any {
	most := 5
	if depth > 0 {
		most = 8
	}
	switch rapid.IntRange(0, most).Draw(t, "value") {
	case 0:
		return nil
	case 1:
		return rapid.Bool().Draw(t, "boolean")
	case 2:
		return json.Number(
			rapid.SampledFrom([]string{"0", "5", "5.0", "-1", "2.5", "1e2", "12345678901234567890"}).Draw(t, "number"))
	case 3:
		return rapid.SampledFrom([]string{"5", "2.50", "true", "null", "05", " 5", "[1]", `{"a":"5"}`,
			`["` + canary + `"]`, "2026-01-31"}).Draw(t, "text")
	case 4, 5:
		return canary
	case 6:
		list := []any{}
		for range rapid.IntRange(0, 3).Draw(t, "items") {
			list = append(list, drawValue(t, depth-1))
		}
		return list
	}
	return drawArguments(t, depth-1)
}

// drawArguments draws an object.
func drawArguments(t *rapid.T, depth int) *schema.Object {
	o := schema.Obj()
	for range rapid.IntRange(0, 3).Draw(t, "arguments") {
		o.Set(names.Draw(t, "name"), drawValue(t, depth))
	}
	return o
}

// Whatever schema and arguments: what fits passes Check, the input stays, the
// answer is always the same, coercion only ever helps, and no misfit tells a
// value.
func TestFit_promises(t *testing.T) {
	var fitted, refused, coerced int
	rapid.Check(t, func(t *rapid.T) {
		root := drawObject(t, 3)
		c, err := schema.Compile(root)
		if err != nil {
			if !strings.Contains(err.Error(), "cannot be decided") { // an allOf of # is possible
				t.Fatalf("Compile: %v", withMisfits(err))
			}
			return
		}
		args := drawArguments(t, 3)
		before, _ := schema.Encode(args)
		out, misfits := c.Fit(args, schema.FitOptions{})
		strict, strictMisfits := c.Fit(args, schema.FitOptions{NoCoercion: true})
		if after, _ := schema.Encode(args); string(after) != string(before) {
			t.Fatalf("Fit changed its input from %s to %s", before, after)
		}
		if _, again := c.Fit(args, schema.FitOptions{}); misfitLines(again) != misfitLines(misfits) {
			t.Fatalf("Fit said\n%s\nand then\n%s", misfitLines(misfits), misfitLines(again))
		}
		for _, m := range append(misfits, strictMisfits...) {
			if strings.Contains(m.Message+m.Pointer, "7391") {
				t.Fatalf("the misfit tells the value: %v", m)
			}
		}
		switch {
		case misfits == nil:
			fitted++
			if bad := c.Check(out); bad != nil {
				t.Fatalf("it fits, but Check says %v", bad)
			}
			if strictMisfits != nil {
				coerced++
			}
		default:
			refused++
			if strictMisfits == nil {
				strictText, _ := schema.Encode(strict)
				t.Fatalf("without coercion it fits as %s, with it not: %s", strictText, misfitLines(misfits))
			}
		}
	})
	if fitted == 0 || refused == 0 {
		t.Errorf("%d fitted, %d refused: the test says nothing", fitted, refused)
	}
	t.Logf("%d fitted (%d only by coercion), %d refused", fitted, coerced, refused)
}
