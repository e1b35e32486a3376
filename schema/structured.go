package schema

import (
	"fmt"
	"slices"

	"haft"
)

// structuredKeys are the keywords that [Structured] keeps on simple values.
var structuredKeys = []string{
	"type", "description", "title", "enum", "const", "format", "pattern", "minLength", "maxLength",
	"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "default",
}

// Structured converts a tool to the form of OpenAI's structured outputs, with all
// properties required and none made nullable: {"name", "description", "strict",
// "parameters"}. It is an [*haft.Error] if a property is a free-form object, has
// no type or is an array of unknown items.
//
// [Strict] is the kinder conversion; this one is for callers of Letta's.
func Structured(sig *Signature) (*Object, error) {
	parameters := &Object{}
	if sig.Parameters != nil {
		inlined, err := Normalize(sig.Parameters, NormalizeOptions{})
		if err != nil {
			return nil, err
		}
		parameters = inlined
	}
	properties := parameters.Object("properties")
	if properties == nil {
		properties = &Object{}
	}
	converted, err := structuredProperties("", properties)
	if err != nil {
		return nil, err
	}
	result := Obj(
		"type", "object",
		"properties", converted,
		"additionalProperties", false,
		"required", anys(converted.Keys()),
	)
	// Only schemas that contain themselves still need their definitions.
	if defs := selfContainingDefs(parameters); defs.Len() > 0 {
		c, err := structuredProperties("$defs.", defs)
		if err != nil {
			return nil, err
		}
		result.Set("$defs", c)
	}
	return Obj("name", sig.Name, "description", sig.Description, "strict", true, "parameters", result), nil
}

// structuredProperties converts each value of properties.
func structuredProperties(path string, properties *Object) (*Object, error) {
	c := &Object{}
	for _, name := range properties.Keys() {
		v, err := structured(path+name, properties.Value(name))
		if err != nil {
			return nil, err
		}
		c.Set(name, v)
	}
	return c, nil
}

// structured converts one property.
func structured(path string, v any) (*Object, error) {
	o, ok := v.(*Object)
	if !ok {
		o = &Object{}
	}
	refuse := func(problem string) (*Object, error) {
		return nil, &haft.Error{Code: haft.CodeInvalid, Message: fmt.Sprintf("Property %s %s", short(path), problem)}
	}
	switch {
	case o.Has("$ref"):
		return Obj("$ref", o.Value("$ref")), nil
	case o.Has("anyOf"):
		return structuredUnion(path, o)
	case !o.Has("type"):
		return refuse("is missing a type and doesn't have anyOf")
	case o.Value("type") == "object":
		properties := o.Object("properties")
		// Normalize opens an object that said nothing about its properties.
		if properties == nil || properties.Len() == 0 && o.Value("additionalProperties") != false {
			return refuse("of type object is missing properties")
		}
		converted, err := structuredProperties(path+".", properties)
		if err != nil {
			return nil, err
		}
		c := keep(o, "type", "description")
		return c.Set("properties", converted).Set("additionalProperties", false).Set("required", anys(converted.Keys())), nil
	case o.Value("type") == "array":
		if !o.Has("items") {
			return refuse("of type array is missing items")
		}
		items, err := structured(path+".items", o.Value("items"))
		if err != nil {
			return nil, err
		}
		return keep(o, "type", "description").Set("items", items), nil
	}
	return keep(o, structuredKeys...), nil
}

// structuredUnion converts a property with anyOf. Simple types become a list of
// types; others stay a union.
func structuredUnion(path string, o *Object) (*Object, error) {
	if flat := flattened(o); flat != nil {
		return flat, nil
	}
	var list []any
	for i, v := range o.Array("anyOf") {
		c, err := structured(fmt.Sprintf("%s.anyOf[%d]", path, i), v)
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return keep(o, "description", "title", "default").Set("anyOf", list), nil
}

// flattened returns o with its union as a list of types, or nil where that would
// mean something else.
func flattened(o *Object) *Object {
	var types []any
	c := &Object{}
	for _, v := range o.Array("anyOf") {
		option, ok := v.(*Object)
		if !ok {
			return nil
		}
		t := option.String("type")
		if t == "" || t == "object" || t == "array" || slices.Contains(types, any(t)) || option.Has("enum") || option.Has("const") {
			return nil
		}
		types = append(types, t)
		for _, k := range option.Keys() {
			if k == "type" || !slices.Contains(structuredKeys, k) {
				continue
			}
			if c.Has(k) || o.Has(k) {
				if k != "description" && k != "title" {
					return nil
				}
				continue
			}
			c.Set(k, Clone(option.Value(k)))
		}
	}
	flat := Obj("type", types)
	for _, from := range []*Object{keep(o, structuredKeys...), c} {
		for _, k := range from.Keys() {
			if k != "type" {
				flat.Set(k, from.Value(k))
			}
		}
	}
	return flat
}

// keep copies the named keys of o, in its order.
func keep(o *Object, keys ...string) *Object {
	c := &Object{}
	for _, k := range o.Keys() {
		if slices.Contains(keys, k) {
			c.Set(k, Clone(o.Value(k)))
		}
	}
	return c
}

// selfContainingDefs returns the definitions of schemas that contain themselves.
func selfContainingDefs(o *Object) *Object {
	c := &Object{}
	defs := o.Object("$defs")
	g, err := newGraph(o)
	if defs == nil || err != nil {
		return c
	}
	for _, name := range defs.Keys() {
		if g.recursive[canonical([]string{"$defs", name})] {
			c.Set(name, defs.Value(name))
		}
	}
	return c
}
