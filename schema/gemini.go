package schema

import (
	"encoding/json"
	"slices"
	"strings"
)

// geminiKeys are the fields of Gemini's Schema, "a select subset of an OpenAPI 3.0
// schema object" (ai.google.dev/api/caching#Schema). An unknown field is refused.
// additionalProperties, $ref, $defs, oneOf, allOf and const are not among them.
var geminiKeys = []string{
	"type", "format", "title", "description", "nullable", "enum", "items", "minItems", "maxItems",
	"properties", "required", "minProperties", "maxProperties", "minimum", "maximum",
	"minLength", "maxLength", "pattern", "example", "anyOf", "default",
}

// geminiFormats are the formats that the same page names for each type. The API
// has refused others ("only 'enum' and 'date-time' are supported for STRING type").
var geminiFormats = map[string][]string{
	"string":  {"enum", "date-time"},
	"number":  {"float", "double"},
	"integer": {"int32", "int64"},
}

// geminiTool writes what Gemini takes as a function declaration. A function without
// parameters has none: Gemini refuses objects without properties.
func geminiTool(tool, parameters *Object) error {
	flat, err := Normalize(vendorSchema(parameters), NormalizeOptions{})
	if err != nil {
		return err
	}
	if properties := flat.Object("properties"); properties != nil && properties.Len() > 0 {
		tool.Set("parameters", geminiSchema(without(flat, "$defs")))
	}
	return nil
}

// geminiSchema converts a normalized schema. What Gemini has no field for goes
// into the description.
func geminiSchema(v any) *Object {
	o, ok := v.(*Object)
	if !ok {
		o = &Object{}
	}
	if o.Has("$ref") {
		// Gemini cannot express a schema that contains itself.
		c := Obj("type", "object")
		name := lastStep(o.String("$ref"))
		addNotes(c.Set("description", o.String("description")), []string{"a " + name + " again"})
		return c
	}
	o = geminiUnion(o)
	c := &Object{}
	var notes []string
	for _, k := range o.Keys() {
		v := o.Value(k)
		switch k {
		case "type", "required":
			c.Set(k, v)
		case "properties", "items", "anyOf":
			if p := o.Object(k); k != "properties" || p != nil && p.Len() > 0 {
				nested, _ := mapNested(k, v, func(s sub) any { return geminiSchema(s.value) })
				c.Set(k, nested)
			}
		case "prefixItems":
			c.Set("items", geminiSchema(tupleItems(o)))
		case "enum":
			notes = append(notes, geminiEnum(c, o))
		case "format":
			if slices.Contains(geminiFormats[o.String("type")], o.String(k)) {
				c.Set(k, v)
			} else {
				notes = append(notes, note(k, v))
			}
		case "additionalProperties":
			if s := o.Object(k); s != nil && s.Has("type") {
				notes = append(notes, "values of any key: "+strings.Join(typesOf(s), " or "))
			}
		default:
			if slices.Contains(geminiKeys, k) {
				c.Set(k, Clone(v))
			} else {
				notes = append(notes, note(k, v))
			}
		}
	}
	return geminiFinish(c, notes)
}

// geminiFinish gives a schema what Gemini insists on.
func geminiFinish(c *Object, notes []string) *Object {
	if !c.Has("type") && !c.Has("anyOf") {
		// Any value. There is no type for that.
		c.Set("anyOf", []any{Obj("type", "string"), Obj("type", "number"), Obj("type", "boolean"),
			Obj("type", "object")})
	}
	if c.Value("type") == "array" && !c.Has("items") {
		c.Set("items", geminiSchema(&Object{}))
	}
	if c.Has("required") {
		properties := c.Object("properties")
		required := slices.DeleteFunc(names(c.Array("required")),
			func(name string) bool { return properties == nil || !properties.Has(name) })
		c.Set("required", anys(required))
		if len(required) == 0 {
			c.Delete("required")
		}
	}
	addNotes(c, slices.DeleteFunc(notes, func(n string) bool { return n == "" }))
	return c
}

// geminiEnum sets the enum of c. Gemini has enums of strings only; for others it returns
// a note.
func geminiEnum(c, o *Object) string {
	var list []any
	for _, v := range o.Array("enum") {
		if s, ok := v.(string); ok {
			list = append(list, s)
		} else if v != nil {
			return geminiChoice(o.Array("enum"))
		}
	}
	if len(list) > 0 {
		c.Set("enum", list)
	}
	return ""
}

// geminiChoice lists the values of an enum.
func geminiChoice(list []any) string {
	var words []string
	for _, v := range list {
		text, err := json.Marshal(v)
		if err != nil || len(words) == 50 {
			break
		}
		words = append(words, string(text))
	}
	return short("one of " + strings.Join(words, ", "))
}

// geminiUnion rewrites o so that it has one type or an anyOf, and null is the
// field nullable.
func geminiUnion(o *Object) *Object {
	c := without(o, "oneOf", "allOf", "const", "not", "if", "then", "else", "dependentSchemas")
	if v := o.Value("const"); o.Has("const") {
		c.Set("enum", []any{v})
	}
	options := slices.Concat(o.Array("anyOf"), o.Array("oneOf"))
	for _, v := range o.Array("allOf") {
		if part, ok := v.(*Object); ok {
			c = geminiBoth(c, part)
		}
	}
	if slices.Contains(o.Array("enum"), nil) {
		c.Set("nullable", true)
	}
	left := slices.DeleteFunc(slices.Clone(options), func(v any) bool { return isNull(v) })
	if len(left) < len(options) {
		c.Set("nullable", true)
	}
	c.Delete("anyOf")
	switch len(left) {
	case 0:
	case 1:
		if only, ok := left[0].(*Object); ok {
			c = geminiBoth(c, geminiUnion(only))
		}
	default:
		c.Set("anyOf", left)
	}
	return geminiTypes(c)
}

// geminiTypes turns a list of types into one type or a union.
func geminiTypes(c *Object) *Object {
	types := typesOf(c)
	if len(types) > 1 && slices.Contains(types, "null") {
		c.Set("nullable", true)
		types = slices.DeleteFunc(types, func(t string) bool { return t == "null" })
	}
	switch {
	case len(types) == 1:
		c.Set("type", types[0])
	case len(types) > 1 && !c.Has("anyOf"):
		var list []any
		for _, t := range types {
			option := without(c, "type", "nullable", "description", "title")
			list = append(list, prefixed("type", t, geminiFor(t, option)))
		}
		c = keep(c, "nullable", "description", "title").Set("anyOf", list)
	case len(types) > 1:
		c.Delete("type")
	}
	return c
}

// geminiFor keeps the keywords that are about values of type t.
func geminiFor(t string, o *Object) *Object {
	about := map[string][]string{
		"string": {"enum", "format", "pattern", "minLength", "maxLength"},
		"number": {"enum", "format", "minimum", "maximum"}, "integer": {"enum", "format", "minimum", "maximum"},
		"array":  {"items", "prefixItems", "minItems", "maxItems"},
		"object": {"properties", "required", "additionalProperties", "minProperties", "maxProperties"},
	}
	return keep(o, about[t]...)
}

// isNull reports whether v is the schema of null.
func isNull(v any) bool {
	o, ok := v.(*Object)
	return ok && o.Value("type") == "null"
}

// geminiBoth adds the keywords of part to o; those of o win, and properties add up.
func geminiBoth(o, part *Object) *Object {
	c := without(o)
	for _, k := range part.Keys() {
		switch {
		case !c.Has(k):
			c.Set(k, part.Value(k))
		case k == "properties" && c.Object(k) != nil && part.Object(k) != nil:
			all := without(c.Object(k))
			mergeMissing(all, part.Object(k))
			c.Set(k, all)
		case k == "required":
			c.Set(k, anys(union(names(c.Array(k)), names(part.Array(k)))))
		}
	}
	return c
}
