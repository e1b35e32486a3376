package tsschema

import (
	"slices"

	"haft/schema"
)

// positional adds a parameter that is passed by its place.
func (d *derivation) positional(b *builder, q *param, props *schema.Object, required *[]any) {
	name := q.name
	switch {
	case q.rest:
		if d.TypesOptional {
			name = "" // it is no matter of types
		}
		d.fail(q.at, name, "a tool has no rest parameter: take one array")
		return
	case name == "":
		if !d.TypesOptional {
			d.fail(q.at, "", "a destructured parameter must be the only one: give it a name")
		}
		return
	}
	t := d.tagFor(name)
	n := d.typeOf(q)
	if n == nil {
		d.untyped(q)
		if !d.TypesOptional {
			return
		}
		n = anyType(q.at)
	}
	o := b.schema(n, 0)
	text := ""
	if t != nil {
		text = t.text
	}
	if text == "" {
		text = o.String("description")
	}
	d.describe(o, q.at, name, text)
	d.describeNested(o, name)
	optional := q.optional || b.mayBeUndefined(n)
	if d.JavaScript && t != nil {
		optional = optional || t.optional
		if t.fallback != nil && q.fallback == nil {
			o.Set("default", t.fallback.value)
		}
	}
	if q.fallback != nil {
		optional = true
		if q.fallback.known {
			o.Set("default", q.fallback.value)
		}
	}
	props.Set(name, o)
	if !optional {
		*required = append(*required, name)
	}
	d.takeProblems(b, name)
}

// untyped says how to give a parameter a type.
func (d *derivation) untyped(q *param) {
	if len(d.errs) > 0 && d.errs[len(d.errs)-1].Parameter == q.name && q.name != "" {
		return // typeOf said why
	}
	if d.JavaScript {
		name := q.name
		if name == "" {
			name = "options"
		}
		d.fail(q.at, q.name, "it has no type: write @param {type} "+name+" in the comment of the function")
		return
	}
	d.fail(q.at, q.name, "it has no type: write one after a colon")
}

// describe sets a description, which must not be missing.
func (d *derivation) describe(o *schema.Object, at int, name, text string) {
	if text != "" {
		schema.Describe(o, text)
		return
	}
	d.undescribed(at, name, "it has no description: write @param "+name+" in the comment of the function",
		" * @param "+name+" What "+name+" is.")
}

// describeNested adds what @param name.property tags say to the properties that
// have no comment of their own.
func (d *derivation) describeNested(o *schema.Object, name string) {
	props := o.Object("properties")
	if props == nil {
		return
	}
	for _, k := range props.Keys() {
		p := props.Object(k)
		if t := d.tagFor(name + "." + k); t != nil && p != nil && !p.Has("description") {
			schema.Describe(p, t.text)
		}
	}
}

// isWhole reports whether a parameter is the object of all arguments: it is
// destructured, or an object type with named properties. One that may be left
// out only counts if all its properties may.
func (d *derivation) isWhole(q *param) bool {
	if q.object {
		return true
	}
	if q.rest || q.name == "" {
		return false
	}
	n := d.typeOf(q)
	if n == nil {
		return false
	}
	s := newBuilder(d.file).shape(n, 0)
	if s == nil || len(s.members) == 0 {
		return false
	}
	maybe := q.optional || q.fallback != nil
	if t := d.tagFor(q.name); d.JavaScript && t != nil {
		maybe = maybe || t.optional
	}
	return !maybe || !slices.ContainsFunc(s.members, func(m *member) bool { return !m.optional })
}

// wholeShape returns the properties of the object of all arguments.
func (d *derivation) wholeShape(b *builder, q *param) *shape {
	n := d.typeOf(q)
	if n == nil && d.JavaScript {
		n = d.patternType(q)
	}
	if n == nil {
		d.untyped(q)
		return d.patternShape(q)
	}
	s := b.shape(n, 0)
	if s == nil {
		b.schema(n, 0) // which says why
		if len(b.problems) == 0 {
			b.fail(n.at, "a destructured parameter needs an object type")
		}
		return d.patternShape(q)
	}
	return s
}

// patternShape returns what a pattern alone says of the object of all arguments: names. It is used
// where types may be missing.
func (d *derivation) patternShape(q *param) *shape {
	s := &shape{}
	if d.TypesOptional {
		for _, bind := range q.pattern {
			s.members = append(s.members, &member{name: bind.name, at: bind.at, typ: anyType(bind.at)})
		}
	}
	return s
}

// anyType is the type of a value of which nothing is known.
func anyType(at int) *node { return &node{op: oName, name: "any", at: at} }

// patternType makes a type of a pattern whose names have @param tags of their own.
func (d *derivation) patternType(q *param) *node {
	n := &node{op: oObject, at: q.at}
	for _, bind := range q.pattern {
		t := d.tagFor(bind.name)
		if t == nil {
			return nil
		}
		n.members = append(n.members, d.tagMember(t, bind.name))
	}
	if len(n.members) == 0 {
		return nil
	}
	return n
}

// property adds a property of the object of all arguments.
func (d *derivation) property(b *builder, q *param, m *member, r *Result, props *schema.Object, required *[]any) {
	if schema.IsInjected(m.name) {
		r.Injected = append(r.Injected, m.name)
		return
	}
	o := b.property(m, 0)
	text := o.String("description")
	if text == "" {
		text = d.nestedText(q, m.name)
	}
	if text == "" {
		d.undescribed(m.at, m.name,
			"it has no description: write a comment before it, or @param in the comment of the function",
			"/** What "+m.name+" is. */")
	}
	schema.Describe(o, text)
	optional := m.optional || b.mayBeUndefined(m.typ) || hasDefault(m.doc)
	if v, ok := d.outerDefault(q, m.name); ok {
		optional = true
		if v.known {
			o.Set("default", v.value)
		}
	}
	props.Set(m.name, o)
	if !optional {
		*required = append(*required, m.name)
	}
	d.takeProblems(b, m.name)
}

// nestedText returns what the function's comment says about a property.
func (d *derivation) nestedText(q *param, name string) string {
	if t := d.rootTag(q); t != nil {
		if nested := d.tagFor(t.param + "." + name); nested != nil {
			return nested.text
		}
	}
	if t := d.tagFor(name); t != nil && q.name != name {
		return t.text
	}
	return ""
}

// outerDefault returns the default that a pattern, or the default of the whole
// object, gives to a property.
func (d *derivation) outerDefault(q *param, name string) (*defaultValue, bool) {
	for _, bind := range q.pattern {
		if bind.name == name && bind.fallback != nil {
			return bind.fallback, true
		}
	}
	if q.fallback != nil && q.fallback.known {
		if o, ok := q.fallback.value.(*schema.Object); ok && o.Has(name) {
			return &defaultValue{o.Value(name), true}, true
		}
	}
	return nil, false
}
