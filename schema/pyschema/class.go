package pyschema

import (
	"cmp"
	"encoding/json"
	"strings"

	"haft/schema"
)

// class returns the schema of the values that a class stands for; e is where it
// is used.
func (b *builder) class(c *statement, e *expr) *schema.Object {
	k := b.classes.kindOf(c)
	if k.what == "enum" {
		return b.enum(c, k)
	}
	if k.unknownBase != "" {
		if module, name, ok := cutLast(k.unknownBase); ok {
			return b.fail(e.fault("the class %s derives from %s of the module %s, which is not part of the source: "+
				"declare its fields here", c.Name, name, module))
		}
		return b.fail(e.fault("the class %s derives from %s, which is not declared here", c.Name, k.unknownBase))
	}
	switch k.what {
	case "rootmodel":
		return b.rootModel(c, k, e)
	case "namedtuple":
		fields := b.fields(c, k.what)
		s := b.positions(e, fields, c)
		return b.state.describe(s, b.classes.documentation(c).description)
	case "model", "dataclass", "typeddict":
		return b.recordOf(c, k)
	}
	return b.fail(e.fault("the class %s is a plain class, and nobody knows how to make one from JSON: "+
		"make it a Pydantic model, a dataclass, a TypedDict, a NamedTuple or an Enum", c.Name))
}

// A field is a named part of a class.
type field struct {
	binding
	owner    *statement
	optional bool // it may be missing
}

// fields returns the fields of a class with those of its bases, in the order in
// which Python has them: a field that is declared again keeps its place.
func (b *builder) fields(c *statement, what string) []field {
	if all, ok := b.lists[c]; ok {
		return all
	}
	b.lists[c] = nil // for a class that derives from itself
	var all []field
	at := map[string]int{}
	add := func(f field) {
		b.state.steps--
		if i, ok := at[f.Name]; ok {
			all[i] = f
			return
		}
		at[f.Name] = len(all)
		all = append(all, f)
	}
	for i := range c.Bases {
		base := c.Bases[len(c.Bases)-1-i] // the first base overrides the others
		if what == "typeddict" {
			base = c.Bases[i]
		}
		if d := b.m.resolve(base, c.outer).def; d != nil && d.Is == "class" && d != c {
			for _, f := range b.fields(d, what) {
				add(f)
			}
		}
		if b.state.steps <= 0 {
			b.fail(errTooLarge)
			return nil
		}
	}
	if what != "dataclass" || b.classes.isDataclass(c) { // a class without the decorator adds no fields
		b.ownFields(c, what, add)
	}
	b.lists[c] = all
	return all
}

// ownFields adds the fields that c itself declares.
func (b *builder) ownFields(c *statement, what string, add func(field)) {
	optional := false
	if v, ok := b.consts.constant(findKeyword(c.Keywords, "total"), c); ok {
		optional = v == false
	}
	for i := range c.Body {
		f := field{c.Body[i], c, optional && what == "typeddict"}
		if f.Type != nil && (!strings.HasPrefix(f.Name, "_") || what == "typeddict" ||
			what == "dataclass" && f.Name != "_") {
			add(f)
		}
	}
}

// rootModel returns the schema of a Pydantic model that is one value.
func (b *builder) rootModel(c *statement, k kind, e *expr) *schema.Object {
	root, from := k.root, k.rootFrom
	fields := b.fields(c, k.what)
	for _, f := range fields {
		if f.Name == "root" {
			root, from = f.Type, f.owner
		}
	}
	if root == nil {
		return b.fail(e.fault("the model %s does not say what its root is", c.Name))
	}
	s := b.typ(root, from)
	return b.state.describe(s, b.classes.documentation(c).description)
}

// positions returns the schema of a named tuple, which is an array in JSON. The
// names become titles.
func (b *builder) positions(e *expr, fields []field, in *statement) *schema.Object {
	var prefix []any
	required := 0
	for _, f := range fields {
		s := &schema.Object{}
		if f.Type != nil {
			if s = b.typ(f.Type, in); b.state.err != nil {
				b.state.err = within(b.state.err, f)
				return s
			}
		}
		s.Set("title", f.Name)
		doc := f.Doc
		if f.owner != nil {
			doc = cmp.Or(b.classes.documentation(f.owner).params[f.Name], doc)
		}
		if f.Value == nil {
			required = len(prefix) + 1
		} else if v, ok := b.consts.constant(f.Value, in); ok && admits(s, v) {
			s.Set("default", v)
		}
		prefix = append(prefix, b.state.describe(s, strings.TrimSpace(doc)))
	}
	if len(prefix) == 0 {
		return b.fail(e.fault("the named tuple has no fields"))
	}
	return schema.Obj("type", "array", "prefixItems", prefix, "items", false,
		"minItems", count(required), "maxItems", count(len(prefix)))
}

// admits reports whether a value has the type and is in the set of values of a schema. A
// default that does not fit is not written.
func admits(s *schema.Object, v any) bool {
	if all := s.Array("anyOf"); all != nil {
		for _, a := range all {
			if o, ok := a.(*schema.Object); ok && admits(o, v) {
				return true
			}
		}
		return false
	}
	if all := s.Array("enum"); all != nil {
		text, err := schema.Encode(v)
		for _, a := range all {
			if other, err2 := schema.Encode(a); err == nil && err2 == nil && string(text) == string(other) {
				return true
			}
		}
		return false
	}
	t := schema.TypeName(v)
	same := func(want any) bool {
		return want == t || want == "number" && t == "integer" ||
			want == "integer" && t == "number" && wholeFloat(v)
	}
	switch want := s.Value("type").(type) {
	case string:
		return same(want)
	case []any:
		for _, w := range want {
			if same(w) {
				return true
			}
		}
		return false
	}
	return true
}

// wholeFloat reports whether v is a number such as 3.0.
func wholeFloat(v any) bool {
	n, ok := v.(json.Number)
	return ok && strings.HasSuffix(string(n), ".0")
}
