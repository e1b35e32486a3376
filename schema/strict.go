package schema

import (
	"fmt"
	"slices"
	"strings"

	"haft"
)

// A strictMode is what one vendor's strict mode allows.
type strictMode struct {
	// nullable asks for every property to be required; those that were not
	// become nullable.
	nullable bool
	// keywords may stand in a schema; others are left out, and what they said
	// about values goes into the description.
	keywords []string
	// formats are the values of format.
	formats []string
}

// openAIStrict is the "Supported schemas" section of OpenAI's structured outputs
// guide (see health.go).
var openAIStrict = strictMode{
	nullable: true,
	keywords: []string{
		"type", "title", "description", "properties", "required", "additionalProperties", "items", "anyOf",
		"enum", "const", "$ref", "$defs", "definitions", "pattern", "format", "multipleOf",
		"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems",
	},
	formats: []string{"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"},
}

// anthropicStrict is the "JSON Schema limitations" section of Anthropic's
// structured outputs guide (platform.claude.com/docs/en/build-with-claude/structured-outputs).
// Optional properties stay optional there: unions, which nullable ones would be,
// are limited to 16 in a request.
var anthropicStrict = strictMode{
	keywords: []string{
		"type", "title", "description", "properties", "required", "additionalProperties", "items", "anyOf",
		"enum", "const", "$ref", "$defs", "definitions", "format", "default",
	},
	formats: []string{"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"},
}

// told are the keywords whose meaning a description can carry.
var told = []string{
	"default", "examples", "format", "pattern", "minLength", "maxLength", "minimum", "maximum",
	"exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minItems", "maxItems", "uniqueItems",
	"minProperties", "maxProperties", "contentEncoding", "contentMediaType",
}

// Strict converts the parameters of a tool to OpenAI's strict mode: objects are
// closed, every property is required, and those that were optional, at any depth,
// admit null. Keywords that strict mode refuses move into the description.
//
// Objects that name their properties and do not say whether there may be others
// are closed first. It returns false, and the parameters as they were, where
// [Health] does not call them fit for strict mode even then, or where they allow
// other properties explicitly. Its argument is never changed.
func Strict(parameters *Object) (*Object, bool) {
	return toStrict(parameters, openAIStrict)
}

func toStrict(parameters *Object, mode strictMode) (*Object, bool) {
	c, ok := closed(parameters)
	if !ok || Health(c).Status != haft.HealthStrict {
		c, _ = Clone(parameters).(*Object)
		return c, false
	}
	if !c.Has("properties") {
		c.Set("properties", &Object{})
	}
	return mode.schema(c), true
}

// closed copies a schema with its objects closed where they name their properties
// and do not say whether there may be others. It fails on what is too deep.
func closed(parameters *Object) (*Object, bool) {
	if deep(parameters, MaxDepth) {
		return nil, false
	}
	var walk func(keyword string, v any) (any, error)
	walk = func(keyword string, v any) (any, error) {
		o, ok := v.(*Object)
		if !ok {
			return Clone(v), nil
		}
		c, err := mapSubs(o, walk)
		if err != nil {
			return nil, err
		}
		properties := c.Object("properties")
		// A union beside properties may name more of them.
		named := properties != nil && properties.Len() > 0 && !c.Has("anyOf") && !c.Has("$ref")
		if !c.Has("additionalProperties") && (named || keyword == "" && isType(c, "object")) {
			c.Set("additionalProperties", false)
		}
		return c, nil
	}
	v, err := walk("", parameters)
	c, ok := v.(*Object)
	return c, ok && err == nil
}

// schema converts o, which it may change.
func (m strictMode) schema(o *Object) *Object {
	c, err := mapSubs(o, func(_ string, v any) (any, error) {
		if s, ok := v.(*Object); ok {
			return m.schema(s), nil
		}
		return v, nil
	})
	if err != nil {
		return o // mapSubs returns only errors of the function above
	}
	c = m.trim(c)
	if isType(c, "object") {
		m.object(c)
	}
	if c.Has("$ref") && c.Len() > 1 && !c.Has("type") && !c.Has("anyOf") {
		// OpenAI accepts no keyword beside $ref.
		ref := Obj("$ref", c.Value("$ref"))
		c.Delete("$ref")
		c.Set("anyOf", []any{ref})
	}
	return c
}

// object closes an object, and makes all of its properties required.
func (m strictMode) object(o *Object) {
	o.Set("additionalProperties", false)
	properties := o.Object("properties")
	if properties == nil {
		return
	}
	required := names(o.Array("required"))
	if m.nullable {
		for _, name := range properties.Keys() {
			if p := properties.Object(name); p != nil && !slices.Contains(required, name) {
				properties.Set(name, nullable(p))
			}
		}
		required = properties.Keys()
	}
	o.Set("required", anys(required))
}

// trim copies o without what the mode does not allow.
func (m strictMode) trim(o *Object) *Object {
	c := &Object{}
	var notes []string
	for _, k := range o.Keys() {
		v := o.Value(k)
		format, isFormat := v.(string)
		isFormat = isFormat && k == "format"
		if slices.Contains(m.keywords, k) && (!isFormat || slices.Contains(m.formats, format)) {
			c.Set(k, v)
		} else if n := note(k, v); n != "" {
			notes = append(notes, n)
		}
	}
	describe(c, notes)
	return c
}

// note says in words what keyword k says about values, or nothing.
func note(k string, v any) string {
	if !slices.Contains(told, k) || v == nil {
		return ""
	}
	text, err := Encode(v)
	if err != nil || len(text) > 200 {
		return ""
	}
	return k + ": " + string(text)
}

// describe adds notes to the description of o.
func describe(o *Object, notes []string) {
	if len(notes) == 0 {
		return
	}
	text := "(" + strings.Join(notes, ", ") + ")"
	if d := o.String("description"); d != "" {
		text = d + " " + text
	}
	o.Set("description", text)
}

// nullable makes p admit null, if it does not already. It may change p.
func nullable(p *Object) *Object {
	if p.Has("const") {
		c := Obj("anyOf", []any{p, Obj("type", "null")})
		if d := p.String("description"); d != "" {
			p.Delete("description")
			c.Set("description", d)
		}
		if p.Value("const") == nil {
			return p
		}
		return c
	}
	if p.Has("$ref") {
		return Obj("anyOf", []any{p, Obj("type", "null")})
	}
	switch t := p.Value("type").(type) {
	case string:
		if t != "null" {
			p.Set("type", []any{t, "null"})
		}
	case []any:
		if !slices.Contains(t, any("null")) {
			p.Set("type", append(slices.Clone(t), "null"))
		}
	}
	if list := p.Array("anyOf"); list != nil && !slices.ContainsFunc(list, admitsNull) {
		p.Set("anyOf", append(slices.Clone(list), Obj("type", "null")))
	}
	if list := p.Array("enum"); list != nil && !slices.Contains(list, nil) {
		p.Set("enum", append(slices.Clone(list), nil))
	}
	return p
}

// admitsNull reports whether v is a schema whose type says so.
func admitsNull(v any) bool {
	o, ok := v.(*Object)
	return ok && slices.Contains(typesOf(o), "null")
}

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
