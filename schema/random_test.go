package schema_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"haft"
	"haft/schema"
)

// gen makes random schemas that fit together: references lead to definitions,
// which may contain themselves, and compositions stand within each other. Plain
// ones have only what strict mode knows.
type gen struct {
	*rand.Rand
	plain bool
}

func (g gen) root() *schema.Object {
	o := g.object(3)
	o.Set("type", "object")
	defs := &schema.Object{}
	for i := range 4 {
		defs.Set(fmt.Sprintf("D%d", i), g.schema(2))
	}
	keyword := "$defs"
	if g.IntN(4) == 0 && !g.plain {
		keyword = "definitions"
	}
	o.Set(keyword, defs)
	return o
}

func (g gen) schema(depth int) any {
	if depth == 0 {
		return g.leaf()
	}
	kinds := 12
	if g.plain {
		kinds = 6
	}
	switch g.IntN(kinds) {
	case 0, 1, 2:
		return g.object(depth - 1)
	case 3:
		return schema.Obj("type", "array", "items", g.schema(depth-1))
	case 4, 5:
		return g.list("anyOf", depth)
	case 6:
		return g.list("allOf", depth)
	case 7:
		return g.list("oneOf", depth)
	case 8:
		return schema.Obj("if", g.schema(depth-1), "then", g.schema(depth-1))
	}
	return g.leaf()
}

func (g gen) list(keyword string, depth int) *schema.Object {
	var list []any
	for range 1 + g.IntN(3) {
		list = append(list, g.schema(depth-1))
	}
	o := &schema.Object{}
	if g.IntN(4) == 0 && !g.plain {
		o = g.object(depth - 1)
	}
	return o.Set(keyword, list)
}

func (g gen) object(depth int) *schema.Object {
	o := &schema.Object{}
	if g.IntN(4) > 0 {
		o.Set("type", "object")
	}
	properties := &schema.Object{}
	var required []any
	for i := range g.IntN(3) {
		name := string(rune('a' + i))
		properties.Set(name, g.schema(depth))
		if g.IntN(2) == 0 {
			required = append(required, name)
		}
	}
	if g.IntN(6) > 0 || g.plain {
		properties.Set("z", schema.Obj("type", "string", "default", "x"))
		o.Set("properties", properties).Set("required", required)
	}
	if g.plain {
		return o
	}
	switch g.IntN(6) {
	case 0:
		o.Set("additionalProperties", true)
	case 1:
		o.Set("additionalProperties", false)
	case 2:
		o.Set("additionalProperties", g.leaf())
	}
	return o
}

func (g gen) leaf() any {
	if g.plain {
		return []any{
			schema.Obj("type", "string", "minLength", 1), schema.Obj("enum", []any{"x", "y"}),
			schema.Obj("type", "string", "const", "x"),
			schema.Obj("type", []any{"integer", "null"}),
			schema.Obj("$ref", fmt.Sprintf("#/$defs/D%d", g.IntN(4)), "description", "beside"),
			schema.Obj("$ref", fmt.Sprintf("#/$defs/D%d", g.IntN(4))),
			schema.Obj("type", "string", "enum", []any{"x", "y"}),
		}[g.IntN(7)]
	}
	simple := []any{
		schema.Obj("type", "string"), schema.Obj("type", "string", "format", "uuid"),
		schema.Obj("type", "integer", "minimum", 1),
		schema.Obj("type", []any{"string", "null"}), schema.Obj("enum", []any{"x", "y"}), schema.Obj("const", 1),
		&schema.Object{},
		true, false, schema.Obj("type", "null"), schema.Obj("type", "object"), schema.Obj("required", []any{"a"}),
	}
	switch g.IntN(8) {
	case 0, 1:
		return schema.Obj("$ref", fmt.Sprintf("#/$defs/D%d", g.IntN(4)))
	case 2:
		return schema.Obj("$ref", fmt.Sprintf("#/$defs/D%d", g.IntN(4)), "description", "beside", "type", "object")
	case 3:
		if g.IntN(3) == 0 {
			return schema.Obj("$ref", []string{"#", "#/properties/a", "#/definitions/D1"}[g.IntN(3)])
		}
	}
	return simple[g.IntN(len(simple))]
}

func TestRandom_schemas_keep_the_promises(t *testing.T) {
	done, strictly := 0, 0
	for seed := range uint64(1000) {
		root := gen{rand.New(rand.NewPCG(seed, 1)), seed%4 == 0}.root()
		before := encode(t, root)
		if p, ok := schema.Strict(root); ok {
			strictly++
			if h := schema.Health(p); h.Status != haft.HealthStrict {
				t.Fatalf("seed %d: Strict(%s) = %s, which is %v", seed, before, encode(t, p), h)
			}
		} else if schema.Health(root).Status == haft.HealthStrict {
			t.Fatalf("seed %d: %s is fit for strict mode and was not converted", seed, before)
		}
		once, err := schema.Normalize(root, schema.NormalizeOptions{})
		if err != nil {
			if haft.CodeOf(err) != haft.CodeInvalid {
				t.Fatalf("seed %d: %v", seed, err)
			}
			continue
		}
		done++
		twice, err := schema.Normalize(once, schema.NormalizeOptions{})
		if err != nil {
			t.Fatalf("seed %d: %s\nbecame %s\nand then: %v", seed, before, encode(t, once), err)
		}
		if encode(t, once) != encode(t, twice) {
			t.Fatalf("seed %d: %s\nbecame %s\nand then %s", seed, before, encode(t, once), encode(t, twice))
		}
		for _, form := range schema.Forms() {
			text, err := schema.Render(&schema.Signature{Name: "f", Parameters: root}, form, true)
			if err != nil && haft.CodeOf(err) != haft.CodeInvalid {
				t.Fatalf("seed %d: %s: %v", seed, form, err)
			} else if err == nil && len(text) > 1<<20 {
				t.Fatalf("seed %d: %s grew to %d bytes", seed, form, len(text))
			}
		}
		if after := encode(t, root); after != before {
			t.Fatalf("seed %d: %s became %s", seed, before, after)
		}
	}
	if done < 250 || strictly < 75 {
		t.Errorf("only %d schemas could be normalized and %d made strict", done, strictly)
	}
}

// value makes a random value of few names and constants, so that some fit.
func (g gen) value(depth int) any {
	if depth > 0 {
		switch g.IntN(3) {
		case 0:
			o := &schema.Object{}
			for _, name := range []string{"a", "b", "z", "other"} {
				if g.IntN(3) == 0 {
					o.Set(name, g.value(depth-1))
				}
			}
			return o
		case 1:
			var list []any
			for range g.IntN(3) {
				list = append(list, g.value(depth-1))
			}
			return list
		}
	}
	return []any{"x", "y", json.Number("1"), json.Number("0"), nil, true}[g.IntN(6)]
}

// Normalizing closes objects and prefers formats, so that it may refuse more. It
// must never accept more.
func TestRandom_normalized_schemas_accept_nothing_new(t *testing.T) {
	checked, accepted := 0, 0
	for seed := range uint64(800) {
		g := gen{rand.New(rand.NewPCG(seed, 2)), seed%2 == 0}
		root := g.root()
		normalized, err := schema.Normalize(root, schema.NormalizeOptions{})
		if err != nil {
			continue
		}
		before, err := schema.Compile(root)
		if err != nil {
			continue
		}
		after, err := schema.Compile(normalized)
		if err != nil {
			t.Fatalf("seed %d: %s\nbecame %s\nwhich does not compile: %v", seed, encode(t, root), encode(t, normalized),
				err)
		}
		checked++
		for range 40 {
			v := g.value(3)
			if len(after.Check(v)) > 0 {
				continue
			}
			accepted++
			if misfits := before.Check(v); len(misfits) > 0 {
				t.Fatalf("seed %d: %s\nbecame %s\nwhich accepts %s: %v", seed, encode(t, root), encode(t, normalized),
					encode(t, v), misfits)
			}
		}
	}
	if checked < 250 || accepted < 250 {
		t.Errorf("only %d schemas and %d values were compared", checked, accepted)
	}
}
