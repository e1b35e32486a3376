package pyschema

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"haft/schema"
)

// unwrapped is an annotation without what is wrapped around the type.
type unwrapped struct {
	typ      *expr
	notes    []*expr // what Annotated says besides the type
	skip     bool    // it is not a field
	required bool
	optional bool
}

// A metaReader reads what annotations and defaults say about a value besides its type.
type metaReader struct {
	m      *module
	consts *evaluator
}

// unwrap takes Annotated, Required, NotRequired, ReadOnly, InitVar and Final off a
// type and remembers them.
func (r *metaReader) unwrap(e *expr, in *statement) unwrapped {
	p := unwrapped{typ: e}
	for range maxDepth {
		e := p.typ
		if e == nil {
			return p
		}
		if e.is("str") && e.Parsed != nil {
			p.typ = e.Parsed
			continue
		}
		name := e
		if e.Kind == "sub" {
			name = e.Value
		}
		if e.Kind != "sub" && e.Kind != "name" && e.Kind != "attr" {
			return p
		}
		tag := tagOf(r.m.resolve(name, in).full)
		if tag == "classvar" {
			p.skip = true
			return p
		}
		if e.Kind != "sub" || len(e.Args) == 0 {
			if tag == "final" {
				p.skip = true
			}
			return p
		}
		switch tag {
		case "annotated":
			p.notes = append(p.notes, e.Args[1:]...)
		case "required":
			p.required = true
		case "notrequired":
			p.optional = true
		case "readonly", "initvar", "final":
		default:
			return p
		}
		p.typ = e.Args[0]
	}
	return p
}

// A meta is what Field and its like say about a value.
type meta struct {
	description, title, alias string
	examples                  []any
	constraints               []constraint
	optional                  bool // it has a default
	known                     bool // fallback is the default
	fallback                  any
	skip                      bool // it is not given from outside
	deprecated                bool
	extra                     any
	replaced                  any // a schema in place of ours
}

// A constraint is a bound by its name in Pydantic.
type constraint struct {
	name  string
	value any
}

// metadata reads the notes of Annotated. Texts are descriptions. Unknown notes are for
// other libraries and are ignored.
func (r *metaReader) metadata(notes []*expr, in *statement) meta {
	var m meta
	for _, n := range notes {
		scope := in
		if n != nil && (n.Kind == "name" || n.Kind == "attr") {
			if got := r.m.resolve(n, in); got.def != nil && got.def.Is == "assign" && got.def.Value != nil {
				n, scope = got.def.Value, nil
			}
		}
		if n == nil {
			continue
		}
		if n.Kind != "call" {
			if v, ok := r.consts.constant(n, scope); ok {
				text, _ := v.(string)
				m.description = cmp.Or(m.description, text)
			}
			continue
		}
		r.note(n, scope, &m)
	}
	return m
}

// note reads one call among the notes of Annotated.
func (r *metaReader) note(n *expr, in *statement, m *meta) {
	first, second := cmp.Or(n.Args...), (*expr)(nil)
	if len(n.Args) > 1 {
		second = n.Args[1]
	}
	tag := tagOf(r.m.resolve(n.Value, in).full)
	switch tag {
	case "field":
		r.defaultOf(n, in, m)
	case "constraints":
		r.keywords(n, in, m)
	case "doc":
		if v, ok := r.consts.constant(cmp.Or(first, n.keyword("documentation")), in); ok {
			m.description, _ = v.(string)
		}
	case "jsonschema":
		if v, ok := r.consts.constant(cmp.Or(first, n.keyword("json_schema")), in); ok {
			m.replaced = v
		}
	case "at:len":
		m.bound(r.consts, "min_length", cmp.Or(first, n.keyword("min_length")), in)
		m.bound(r.consts, "max_length", cmp.Or(second, n.keyword("max_length")), in)
	default:
		if name, ok := strings.CutPrefix(tag, "at:"); ok {
			m.bound(r.consts, name, cmp.Or(first, n.keyword(name)), in)
		}
	}
}

// bound adds a constraint if it is a constant.
func (m *meta) bound(consts *evaluator, name string, e *expr, in *statement) {
	if v, ok := consts.constant(e, in); ok && v != nil {
		m.constraints = append(m.constraints, constraint{name, v})
	}
}

// defaultOf reads what a field or a parameter is given as its default: a value, or a
// call of Field.
func (r *metaReader) defaultOf(e *expr, in *statement, m *meta) {
	if e == nil || e.is("ellipsis") {
		return
	}
	if e.Kind != "call" || tagOf(r.m.resolve(e.Value, in).full) != "field" {
		m.optional = true
		m.fallback, m.known = r.consts.constant(e, in)
		return
	}
	if d := cmp.Or(append(e.Args, e.keyword("default"))...); d != nil && !d.is("ellipsis") {
		m.optional = true
		m.fallback, m.known = r.consts.constant(d, in)
	}
	if f := cmp.Or(e.keyword("default_factory"), e.keyword("factory")); f != nil && !f.is("none") {
		m.optional = true
		m.fallback, m.known = r.consts.factoryDefault(f, in)
	}
	r.keywords(e, in, m)
}

// factoryDefault returns the value that a default_factory makes, if it is a constant.
func (ev *evaluator) factoryDefault(e *expr, in *statement) (any, bool) {
	if e.Kind == "lambda" {
		return ev.constant(e.Value, in)
	}
	switch tagOf(ev.m.resolve(e, in).full) {
	case "list", "set", "tuple":
		return []any{}, true
	case "dict":
		return &schema.Object{}, true
	case "str":
		return "", true
	}
	return nil, false
}

// keywords reads the keywords of Field, StringConstraints and conint.
func (r *metaReader) keywords(e *expr, in *statement, m *meta) {
	for _, kw := range e.Keywords {
		switch kw.Name {
		case "default", "default_factory", "factory":
			continue
		case "init":
			m.skip = kw.Value.is("bool") && kw.Value.Text == "false"
			continue
		case "validation_alias", "alias":
			r.alias(kw, e, in, m)
			continue
		}
		v, ok := r.consts.constant(kw.Value, in)
		if !ok || v == nil {
			continue
		}
		text, _ := v.(string)
		switch kw.Name {
		case "description", "help", "doc":
			m.description = text
		case "title":
			m.title = text
		case "examples":
			m.examples, _ = v.([]any)
		case "example":
			m.examples = []any{v}
		case "deprecated":
			m.deprecated = v != false
		case "json_schema_extra":
			m.extra = v
		case "metadata":
			if o, ok := v.(*schema.Object); ok {
				m.description = cmp.Or(o.String("description"), o.String("doc"), o.String("help"), m.description)
			}
		default:
			if _, ok := bounds[kw.Name]; ok {
				m.constraints = append(m.constraints, constraint{kw.Name, v})
			}
		}
	}
}

// alias reads the name of a field in JSON. validation_alias wins over alias.
func (r *metaReader) alias(kw keyword, e *expr, in *statement, m *meta) {
	if kw.Name == "alias" && e.keyword("validation_alias") != nil {
		return
	}
	value := kw.Value
	if value != nil && value.Kind == "call" { // AliasChoices("a", "b")
		value = cmp.Or(value.Args...)
	}
	if v, ok := r.consts.constant(value, in); ok {
		m.alias, _ = v.(string)
	}
}

// bounds says how a constraint is called in JSON Schema, for each type that it
// can be about.
var bounds = map[string]map[string]string{
	"gt":           {"number": "exclusiveMinimum"},
	"ge":           {"number": "minimum"},
	"lt":           {"number": "exclusiveMaximum"},
	"le":           {"number": "maximum"},
	"multiple_of":  {"number": "multipleOf"},
	"min_length":   {"string": "minLength", "array": "minItems", "object": "minProperties"},
	"max_length":   {"string": "maxLength", "array": "maxItems", "object": "maxProperties"},
	"min_items":    {"array": "minItems"},
	"max_items":    {"array": "maxItems"},
	"unique_items": {"array": "uniqueItems"},
	"pattern":      {"string": "pattern"},
	"regex":        {"string": "pattern"},
}

// constrain applies the constraints to s, or to those of its alternatives that
// they can be about.
func (m *meta) constrain(s *schema.Object) {
	targets := []*schema.Object{s}
	for _, a := range s.Array("anyOf") {
		if o, ok := a.(*schema.Object); ok {
			targets = append(targets, o)
		}
	}
	for _, c := range m.constraints {
		for _, t := range targets {
			typ := t.String("type")
			if typ == "integer" {
				typ = "number"
			}
			key, ok := bounds[c.name][typ]
			if ok && fitsBound(key, c.value) {
				t.Set(key, c.value)
			}
		}
	}
}

// fitsBound reports whether a constant can be the value of a keyword of JSON
// Schema: a wrong one would spoil the whole schema.
func fitsBound(key string, v any) bool {
	n, isNumber := v.(json.Number)
	switch key {
	case "pattern":
		_, ok := v.(string)
		return ok
	case "uniqueItems":
		_, ok := v.(bool)
		return ok
	case "exclusiveMinimum", "minimum", "exclusiveMaximum", "maximum":
		return isNumber
	case "multipleOf":
		return isNumber && !strings.HasPrefix(string(n), "-") && strings.Trim(string(n), "0.") != ""
	}
	return isNumber && !slices.ContainsFunc([]byte(n), func(c byte) bool { return c < '0' || c > '9' })
}
