package pyschema

import (
	"cmp"
	"encoding/json"
	"strings"

	"haft/schema"
)

// A kind says what a class is for the one who makes values of it.
type kind struct {
	what        string // model, rootmodel, dataclass, typeddict, namedtuple, enum; "" for a plain class
	enum        string // enum, intenum, strenum, flag
	mixin       string // str or int beside Enum
	unknownBase string // a base that is declared elsewhere
	root        *expr  // T of RootModel[T]
	rootFrom    *statement
}

// kindOf finds out what a class is, by its bases and decorators.
func (b *builder) kindOf(c *statement) kind {
	if k, ok := b.kinds[c]; ok {
		return k
	}
	b.kinds[c] = kind{} // what a class that derives from itself sees
	k := kind{}
	if b.isDataclass(c) {
		k.what = "dataclass"
	}
	for _, base := range c.Bases {
		name := base
		if base != nil && base.Kind == "sub" {
			name = base.Value
		}
		got := b.m.resolve(name, c.outer)
		switch {
		case got.def != nil && got.def.Is == "class" && got.def != c:
			k.merge(b.kindOf(got.def))
		case got.full != "":
			k.addBase(got.full, base, c)
		default:
			k.unknownBase = name.show()
		}
	}
	b.kinds[c] = k
	return k
}

// isDataclass reports whether c has the decorator.
func (b *builder) isDataclass(c *statement) bool {
	for _, d := range c.Decorators {
		if d != nil && d.Kind == "call" {
			d = d.Value
		}
		if tagOf(b.m.resolve(d, c.outer).full) == "dataclass" {
			return true
		}
	}
	return false
}

// addBase takes in a base class from elsewhere.
func (k *kind) addBase(full string, base *expr, c *statement) {
	switch tag := tagOf(full); tag {
	case "enum", "intenum", "strenum", "flag":
		k.merge(kind{what: "enum", enum: tag})
	case "model", "typeddict", "namedtuple":
		k.merge(kind{what: tag})
	case "rootmodel":
		if base.Kind == "sub" && len(base.Args) == 1 {
			k.root, k.rootFrom = base.Args[0], c
		}
		k.merge(kind{what: tag})
	case "str", "int", "float":
		k.mixin = tag
	case "any", "plain", "generic":
	default:
		k.unknownBase = full
	}
}

// merge merges what a base is into what the class is. What makes a class special
// wins over what does not.
func (k *kind) merge(base kind) {
	order := map[string]int{"": 0, "dataclass": 1, "model": 2, "rootmodel": 3, "typeddict": 4, "namedtuple": 5,
		"enum": 6}
	if order[base.what] > order[k.what] {
		k.what = base.what
	}
	k.enum = cmp.Or(k.enum, base.enum)
	k.mixin = cmp.Or(k.mixin, base.mixin)
	k.unknownBase = cmp.Or(k.unknownBase, base.unknownBase)
	if k.root == nil {
		k.root, k.rootFrom = base.root, base.rootFrom
	}
}

// class returns the schema of the values that a class stands for; e is where it
// is used.
func (b *builder) class(c *statement, e *expr) *schema.Object {
	k := b.kindOf(c)
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
		return b.describe(s, b.documentation(c).description)
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
	b.lists[c] = nil // what a class that derives from itself sees
	var all []field
	at := map[string]int{}
	add := func(f field) {
		b.steps--
		if i, ok := at[f.Name]; ok {
			all[i] = f
			return
		}
		at[f.Name] = len(all)
		all = append(all, f)
	}
	for i := range c.Bases {
		base := c.Bases[len(c.Bases)-1-i] // the first base has the last word
		if what == "typeddict" {
			base = c.Bases[i]
		}
		if d := b.m.resolve(base, c.outer).def; d != nil && d.Is == "class" && d != c {
			for _, f := range b.fields(d, what) {
				add(f)
			}
		}
		if b.steps <= 0 {
			b.fail(errTooLarge)
			return nil
		}
	}
	if what != "dataclass" || b.isDataclass(c) { // a class without the decorator adds no fields
		b.ownFields(c, what, add)
	}
	b.lists[c] = all
	return all
}

// ownFields adds the fields that c itself declares.
func (b *builder) ownFields(c *statement, what string, add func(field)) {
	optional := false
	if v, ok := b.constant(findKeyword(c.Keywords, "total"), c); ok {
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
	return b.describe(s, b.documentation(c).description)
}

// positions returns the schema of a named tuple, which is an array in JSON. The
// names become titles.
func (b *builder) positions(e *expr, fields []field, in *statement) *schema.Object {
	var prefix []any
	required := 0
	for _, f := range fields {
		s := &schema.Object{}
		if f.Type != nil {
			if s = b.typ(f.Type, in); b.err != nil {
				b.err = within(b.err, f)
				return s
			}
		}
		s.Set("title", f.Name)
		doc := f.Doc
		if f.owner != nil {
			doc = cmp.Or(b.documentation(f.owner).params[f.Name], doc)
		}
		if f.Value == nil {
			required = len(prefix) + 1
		} else if v, ok := b.constant(f.Value, in); ok && admits(s, v) {
			s.Set("default", v)
		}
		prefix = append(prefix, b.describe(s, strings.TrimSpace(doc)))
	}
	if len(prefix) == 0 {
		return b.fail(e.fault("the named tuple has no fields"))
	}
	return schema.Obj("type", "array", "prefixItems", prefix, "items", false,
		"minItems", count(required), "maxItems", count(len(prefix)))
}

// admits reports whether a value fits a schema, as far as its type and its set
// of values say. It is there for defaults: one that does not fit is not written.
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
