package schema

import (
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

// describable are the keywords whose meaning a description can carry.
var describable = []string{
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
	if tooLarge(parameters) != "" {
		return parameters, false
	}
	c := closed(parameters, true)
	if Health(c).Status != haft.HealthStrict {
		c, _ = Clone(parameters).(*Object)
		return c, false
	}
	setMissing(c, "properties", &Object{})
	return mode.schema(c), true
}

// closed copies a schema with its objects closed where they name their properties
// and do not say whether there may be others.
func closed(o *Object, isRoot bool) *Object {
	c := mapSubs(o, func(s sub) any {
		if within, ok := s.value.(*Object); ok {
			return closed(within, false)
		}
		return Clone(s.value)
	})
	properties := c.Object("properties")
	// A union beside properties may name more of them.
	named := properties != nil && properties.Len() > 0 && !c.Has("anyOf") && !c.Has("$ref")
	if named || isRoot && isType(c, "object") {
		setMissing(c, "additionalProperties", false)
	}
	return c
}

// schema converts o, which it may change.
func (m strictMode) schema(o *Object) *Object {
	c := m.trim(mapSubs(o, func(s sub) any {
		if within, ok := s.value.(*Object); ok {
			return m.schema(within)
		}
		return s.value
	}))
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
	addNotes(c, notes)
	return c
}

// note says in words what keyword k says about values, or nothing.
func note(k string, v any) string {
	if !slices.Contains(describable, k) || v == nil {
		return ""
	}
	text, err := Encode(v)
	if err != nil || len(text) > 200 {
		return ""
	}
	return k + ": " + string(text)
}

// addNotes adds notes to the description of o.
func addNotes(o *Object, notes []string) {
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
	if p.Has("const") && p.Value("const") == nil {
		return p
	}
	if p.Has("const") || p.Has("$ref") {
		c := Obj("anyOf", []any{p, Obj("type", "null")})
		if d := p.String("description"); d != "" && p.Has("const") {
			p.Delete("description")
			c.Set("description", d)
		}
		return c
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
