package pyschema

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"haft/schema"
)

// A record collects the fields of an object.
type record struct {
	properties schema.Object
	required   []any
	aliases    func(string) string // how names are written in JSON; nil for as they are
}

// schema returns the object.
func (r *record) schema() *schema.Object {
	s := schema.Obj("type", "object", "properties", &r.properties)
	if len(r.required) > 0 {
		s.Set("required", r.required)
	}
	return s
}

// recordOf returns the schema of a model, a dataclass or a typed dict.
func (b *builder) recordOf(c *statement, k kind) *schema.Object {
	cfg := b.classes.config(c, map[*statement]map[string]*expr{})
	fields := b.fields(c, k.what)
	r := record{aliases: b.aliasGenerator(cfg["alias_generator"], c)}
	for _, f := range fields {
		if b.state.err != nil {
			break
		}
		b.addField(&r, f, f.owner, b.classes.documentation(f.owner).params[f.Name])
		if b.state.err != nil {
			b.state.err = within(b.state.err, f)
		}
	}
	s := r.schema()
	switch extra := b.consts.text(cfg["extra"], c); extra {
	case "forbid":
		s.Set("additionalProperties", false)
	case "allow":
		s.Set("additionalProperties", true)
	}
	if v, ok := b.consts.constant(cfg["closed"], c); ok && v == true {
		s.Set("additionalProperties", false)
	}
	if title := b.consts.text(cfg["title"], c); title != "" {
		s.Set("title", title)
	}
	if v, ok := b.consts.constant(cfg["json_schema_extra"], c); ok {
		merge(s, v)
	}
	return b.state.describe(s, b.classes.documentation(c).description)
}

// aliasGenerator returns how an alias generator writes names, or nil for as they are.
func (b *builder) aliasGenerator(e *expr, in *statement) func(string) string {
	if e == nil || e.is("none") {
		return nil
	}
	full := b.m.resolve(e, in).full
	switch full[strings.LastIndexByte(full, '.')+1:] {
	case "to_camel":
		return func(s string) string { return camel(s, false) }
	case "to_pascal":
		return func(s string) string { return camel(s, true) }
	case "to_snake": // Python's names are in snake case
	default:
		b.fail(e.fault("the alias_generator of %s cannot be followed without running it: give the fields an alias each",
			in.Name))
	}
	return nil
}

// camel writes some_name as someName or SomeName.
func camel(s string, first bool) string {
	var out strings.Builder
	up := first
	for i, r := range s {
		switch {
		case r == '_' && i > 0:
			up = true
		case up:
			out.WriteRune(unicode.ToUpper(r))
			up = false
		default:
			out.WriteRune(r)
		}
	}
	return out.String()
}

// addField adds the schema of one field; doc is what the documentation of its
// class says about it.
func (b *builder) addField(r *record, f field, in *statement, doc string) {
	p := b.meta.unwrap(f.Type, in)
	if p.skip || f.Value != nil && f.Value.Kind == "call" && tagOf(b.m.resolve(f.Value.Value, in).full) == "private" {
		return
	}
	m := b.meta.metadata(p.notes, in)
	b.meta.defaultOf(f.Value, in, &m)
	if m.skip {
		return
	}
	if p.typ == nil {
		b.fail(f.fault("the field %s has no type", f.Name))
	}
	s := b.state.describe(b.typeWithMeta(p.typ, in, &m), cmp.Or(m.description, doc, strings.TrimSpace(f.Doc)))
	if m.known && admits(s, m.fallback) {
		s.Set("default", m.fallback)
	}
	name := f.Name
	if r.aliases != nil {
		name = r.aliases(name)
	}
	name = cmp.Or(m.alias, name)
	r.properties.Set(name, s)
	if p.required || !m.optional && !p.optional && !f.optional {
		r.required = append(r.required, name)
	}
}

// fieldText returns the description of a field of a class, which may be "".
func (b *builder) fieldText(f field) string {
	m := b.meta.metadata(b.meta.unwrap(f.Type, f.owner).notes, f.owner)
	b.meta.defaultOf(f.Value, f.owner, &m)
	return cmp.Or(m.description, b.classes.documentation(f.owner).params[f.Name], strings.TrimSpace(f.Doc))
}

// within adds the name of a field to an error about it.
func within(err error, f field) error {
	e, ok := errors.AsType[*schema.SourceError](err)
	if !ok {
		return err
	}
	name := f.Name
	if f.owner != nil {
		name = f.owner.Name + "." + f.Name
	}
	return &schema.SourceError{Line: e.Line, Column: e.Column,
		Message: fmt.Sprintf("the field %s: %s", name, e.Message)}
}

// merge copies the keys of a constant object into s.
func merge(s *schema.Object, v any) {
	o, ok := v.(*schema.Object)
	if !ok {
		return
	}
	for _, k := range o.Keys() {
		s.Set(k, o.Value(k))
	}
}
