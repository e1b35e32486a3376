package pyschema

import (
	"cmp"
	"maps"
)

// A classReader finds out what classes are, by what the source says about them.
type classReader struct {
	m     *module
	texts map[*statement]docText // documentation
	kinds map[*statement]kind
}

// A kind says which sort of class it is, and so how values of it are written.
type kind struct {
	what        string // model, rootmodel, dataclass, typeddict, namedtuple, enum; "" for a plain class
	enum        string // enum, intenum, strenum, flag
	mixin       string // str or int beside Enum
	unknownBase string // a base that is declared elsewhere
	root        *expr  // T of RootModel[T]
	rootFrom    *statement
}

// kindOf finds out what a class is, by its bases and decorators.
func (r *classReader) kindOf(c *statement) kind {
	if k, ok := r.kinds[c]; ok {
		return k
	}
	r.kinds[c] = kind{} // for a class that derives from itself
	k := kind{}
	if r.isDataclass(c) {
		k.what = "dataclass"
	}
	for _, base := range c.Bases {
		name := base
		if base != nil && base.Kind == "sub" {
			name = base.Value
		}
		got := r.m.resolve(name, c.outer)
		switch {
		case got.def != nil && got.def.Is == "class" && got.def != c:
			k.merge(r.kindOf(got.def))
		case got.full != "":
			k.addBase(got.full, base, c)
		default:
			k.unknownBase = name.show()
		}
	}
	r.kinds[c] = k
	return k
}

// isDataclass reports whether c has the decorator.
func (r *classReader) isDataclass(c *statement) bool {
	for _, d := range c.Decorators {
		if d != nil && d.Kind == "call" {
			d = d.Value
		}
		if tagOf(r.m.resolve(d, c.outer).full) == "dataclass" {
			return true
		}
	}
	return false
}

// addBase adds a base class that the source does not declare.
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

// merge merges the kind of a base into that of the class. The more special kind wins.
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

// documentation returns what the docstring of a class says.
func (r *classReader) documentation(c *statement) docText {
	if c == nil {
		return docText{}
	}
	d, ok := r.texts[c]
	if !ok {
		raw, _ := c.doc()
		d = parseDoc(raw)
		r.texts[c] = d
	}
	return d
}

// config returns the settings of a model: of its bases, then class Config, then
// model_config, then the class line. The last of several bases wins, unlike with fields.
// known keeps what was found, and ends cycles.
func (r *classReader) config(c *statement, known map[*statement]map[string]*expr) map[string]*expr {
	if all, ok := known[c]; ok {
		return all
	}
	all := map[string]*expr{}
	known[c] = all
	for _, base := range c.Bases {
		if d := r.m.resolve(base, c.outer).def; d != nil && d.Is == "class" {
			maps.Copy(all, r.config(d, known))
		}
	}
	if inner := c.inner("Config"); inner != nil {
		for _, f := range inner.Body {
			all[f.Name] = f.Value
		}
	}
	for _, f := range c.Body {
		if f.Name != "model_config" || f.Value == nil {
			continue
		}
		for _, kw := range f.Value.Keywords {
			all[kw.Name] = kw.Value
		}
		for i, key := range f.Value.Keys {
			if key.is("str") && i < len(f.Value.Args) {
				all[key.Text] = f.Value.Args[i]
			}
		}
	}
	for _, kw := range c.Keywords {
		all[kw.Name] = kw.Value
	}
	return all
}
