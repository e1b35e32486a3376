package pyschema

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"haft/schema"
)

// decimalPattern is what decimal.Decimal reads, without infinities.
const decimalPattern = `^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$`

// knownType returns the schema of a type that the source does not declare.
func (b *builder) knownType(full string, e *expr, args []*expr, in *statement) *schema.Object {
	tag := tagOf(full)
	switch tag {
	case "list", "set", "tuple", "dict", "counter":
		return b.container(tag, e, args, in)
	case "optional", "union", "literal", "annotated", "classvar", "final", "required", "notrequired", "readonly",
		"initvar",
		"awaitable", "coroutine", "same", "json", "refused", "generic":
		return b.special(tag, full, e, args, in)
	case "":
		return b.imported(full, e, args)
	}
	if len(args) > 0 && tag != "text" && tag != "pattern" {
		return b.fail(e.fault("%s takes no arguments in brackets", full))
	}
	if s := plain(tag, full); s != nil {
		return s
	}
	switch tag {
	case "model", "rootmodel", "typeddict", "namedtuple", "enum", "intenum", "strenum", "flag":
		return b.fail(e.fault("%s alone says nothing about the value: declare a class that derives from it", full))
	}
	return b.fail(e.fault("%s is not a type of a value", full))
}

// plain returns the schema of a type without arguments, or nil.
func plain(tag, full string) *schema.Object {
	switch tag {
	case "int":
		return schema.Obj("type", "integer")
	case "float":
		return schema.Obj("type", "number")
	case "bool":
		return schema.Obj("type", "boolean")
	case "str":
		return schema.Obj("type", "string")
	case "none":
		return schema.Obj("type", "null")
	case "any":
		return &schema.Object{}
	case "bytes":
		return schema.Obj("type", "string", "format", "byte", "contentEncoding", "base64")
	case "decimal":
		return schema.Obj("anyOf", []any{schema.Obj("type", "number"),
			schema.Obj("type", "string", "format", "decimal", "pattern", decimalPattern)})
	case "pattern":
		return schema.Obj("type", "string", "format", "regex")
	case "bytesize":
		return schema.Obj("type", "integer", "minimum", json.Number("0"))
	case "bounded":
		d := bounded[full]
		return schema.Obj("type", d[0], d[1], json.Number(d[2]))
	case "text":
		s := schema.Obj("type", "string", "format", texts()[full])
		switch texts()[full] {
		case "uri":
			s.Set("minLength", json.Number("1"))
		case "byte":
			s.Set("contentEncoding", "base64")
		case "password":
			s.Set("writeOnly", true)
		}
		return s
	}
	return nil
}

// special returns the schema of the forms of typing that are no containers.
func (b *builder) special(tag, full string, e *expr, args []*expr, in *statement) *schema.Object {
	switch tag {
	case "optional":
		if len(args) != 1 {
			return b.fail(e.fault("Optional takes one type in brackets"))
		}
		return b.union([]*expr{args[0], {place: e.place, Kind: "const", Type: "none"}}, in)
	case "union":
		if len(args) == 0 {
			return b.fail(e.fault("Union needs types in brackets"))
		}
		return b.union(args, in)
	case "literal":
		return b.literals(e, args, in)
	case "annotated":
		return b.annotated(e, in)
	case "required", "notrequired", "readonly", "initvar", "awaitable", "same":
		if len(args) != 1 {
			return b.fail(e.fault("%s takes one type in brackets", full))
		}
		return b.typ(args[0], in)
	case "coroutine":
		if len(args) == 3 {
			return b.typ(args[2], in)
		}
	case "json":
		return schema.Obj("type", "string", "contentMediaType", "application/json")
	case "classvar", "final":
		return b.fail(e.fault("%s belongs to variables, not to parameters", full))
	}
	return b.fail(e.fault("%s cannot be given as JSON", strings.TrimPrefix(full, "builtins.")))
}

// container returns the schema of lists, sets, tuples and mappings.
func (b *builder) container(tag string, e *expr, args []*expr, in *statement) *schema.Object {
	switch {
	case tag == "tuple":
		return b.tuple(e, args, in)
	case tag == "dict" && (len(args) == 0 || len(args) == 2):
		if len(args) == 0 {
			return schema.Obj("type", "object")
		}
		return b.mapping(args[0], args[1], in)
	case tag == "counter" && len(args) <= 1:
		s := schema.Obj("type", "object", "additionalProperties", schema.Obj("type", "integer"))
		if len(args) == 1 {
			b.keys(s, args[0], in)
		}
		return s
	case (tag == "list" || tag == "set") && len(args) <= 1:
		items := &schema.Object{}
		if len(args) == 1 {
			items = b.typ(args[0], in)
		}
		s := schema.Obj("type", "array", "items", items)
		if tag == "set" {
			s.Set("uniqueItems", true)
		}
		return s
	}
	return b.fail(e.fault("%s has the wrong number of types in brackets", e.show()))
}

// tuple returns the schema of a tuple of fixed or variable length.
func (b *builder) tuple(e *expr, args []*expr, in *statement) *schema.Object {
	switch {
	case args == nil:
		return schema.Obj("type", "array", "items", &schema.Object{})
	case len(args) == 0 || len(args) == 1 && args[0] != nil && args[0].Kind == "tuple" && len(args[0].Args) == 0:
		return schema.Obj("type", "array", "items", false, "maxItems", json.Number("0"))
	case len(args) == 2 && args[1].is("ellipsis"):
		return schema.Obj("type", "array", "items", b.typ(args[0], in))
	}
	prefix := make([]any, 0, len(args))
	for _, a := range args {
		if a.is("ellipsis") || a != nil && a.Kind == "star" {
			return b.fail(e.fault("a tuple has either a type for each place, or one type and ..."))
		}
		prefix = append(prefix, b.typ(a, in))
	}
	n := count(len(prefix))
	return schema.Obj("type", "array", "prefixItems", prefix, "items", false, "minItems", n, "maxItems", n)
}

// mapping returns the schema of a dict with typed keys and values.
func (b *builder) mapping(key, value *expr, in *statement) *schema.Object {
	s := schema.Obj("type", "object")
	b.keys(s, key, in)
	if v := b.typ(value, in); v.Len() > 0 {
		s.Set("additionalProperties", v)
	}
	return s
}

// keys restricts the keys of a mapping. Keys of JSON objects are text, so numbers are
// expressed by a pattern.
func (b *builder) keys(s *schema.Object, key *expr, in *statement) {
	k := b.typ(key, in)
	switch {
	case k.Len() == 0:
	case k.String("type") == "string":
		if k.Delete("type"); k.Len() > 0 {
			s.Set("propertyNames", k)
		}
	case k.String("type") == "integer":
		s.Set("propertyNames", schema.Obj("pattern", "^-?[0-9]+$"))
	case k.String("type") == "number":
		s.Set("propertyNames", schema.Obj("pattern", `^-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?$`))
	case k.Has("$ref"):
		s.Set("propertyNames", k)
	default:
		isText := func(v any) bool { return v.(*schema.Object).String("type") == "string" }
		if !slices.ContainsFunc(k.Array("anyOf"), isText) { // all keys are text
			b.fail(key.fault("the keys of a JSON object are text: %s cannot be a key", key.show()))
		}
	}
}

// union returns the schema of a value of one of several types.
func (b *builder) union(all []*expr, in *statement) *schema.Object {
	var branches []any
	seen := map[string]bool{}
	add := func(s *schema.Object) {
		text, err := schema.Encode(s)
		if err == nil && !seen[string(text)] {
			seen[string(text)] = true
			branches = append(branches, s)
		}
	}
	for _, a := range all {
		s := b.typ(a, in)
		if s.Len() == 0 {
			return s // anything at all
		}
		if inner := s.Array("anyOf"); inner != nil && s.Len() == 1 {
			for _, i := range inner {
				if o, ok := i.(*schema.Object); ok {
					add(o)
				}
			}
			continue
		}
		add(s)
	}
	if len(branches) == 1 {
		return branches[0].(*schema.Object)
	}
	return schema.Obj("anyOf", branches)
}

// literals returns the schema of Literal[…].
func (b *builder) literals(e *expr, args []*expr, in *statement) *schema.Object {
	var values []any
	b.collect(args, in, &values, 0)
	if len(values) == 0 {
		return b.fail(e.fault("Literal needs values in brackets"))
	}
	b.state.nodes += len(values) / 10
	return oneOfValues(values)
}

// collect gathers the values of a Literal, those of Literals within it too.
func (b *builder) collect(args []*expr, in *statement, values *[]any, depth int) {
	if depth > maxDepth {
		b.fail(args[0].fault("the type is nested too deeply"))
	}
	for _, a := range args {
		if a == nil || b.state.err != nil {
			continue
		}
		if nested, scope := b.literalOf(a, in); nested != nil {
			b.collect(nested, scope, values, depth+1)
			continue
		}
		v, ok := b.consts.constant(a, in)
		switch t := schema.TypeName(v); {
		case !ok || t == "array" || t == "object" || t == "number":
			b.fail(a.fault("Literal takes texts, whole numbers, booleans, None and members of enums only"))
		case len(*values) == maxNodes:
			b.fail(errTooLarge)
		}
		*values = append(*values, v)
	}
}

// literalOf returns the arguments of a, if a is a Literal or a name for one.
func (b *builder) literalOf(a *expr, in *statement) ([]*expr, *statement) {
	for range maxDepth {
		if a == nil {
			return nil, nil
		}
		if a.Kind == "sub" {
			if tagOf(b.m.resolve(a.Value, in).full) == "literal" {
				return a.Args, in
			}
			return nil, nil
		}
		if a.Kind != "name" && a.Kind != "attr" {
			return nil, nil
		}
		got := b.m.resolve(a, in)
		switch {
		case got.value != nil:
			a, in = got.value, got.in
		case got.def != nil && (got.def.Is == "assign" || got.def.Is == "alias"):
			a, in = got.def.Value, nil
		default:
			return nil, nil
		}
	}
	return nil, nil
}

// oneOfValues returns the schema of a fixed set of values, with their types.
func oneOfValues(values []any) *schema.Object {
	var types, distinct []any
	seen := map[string]bool{}
	known := map[string]bool{}
	for _, v := range values {
		text, err := schema.Encode(v)
		if err != nil || seen[string(text)] {
			continue
		}
		seen[string(text)] = true
		distinct = append(distinct, v)
		if t := schema.TypeName(v); !known[t] {
			known[t] = true
			types = append(types, t)
		}
	}
	s := &schema.Object{}
	if len(types) == 1 {
		s.Set("type", types[0])
	} else {
		s.Set("type", types)
	}
	return s.Set("enum", distinct)
}

// count returns n as a JSON number.
func count(n int) json.Number { return json.Number(strconv.Itoa(n)) }

// annotated returns the schema of Annotated[…] where it is not the whole
// annotation of a field.
func (b *builder) annotated(e *expr, in *statement) *schema.Object {
	if p := b.meta.unwrap(e, in); p.typ == e || p.typ == nil {
		return b.fail(e.fault("Annotated needs a type in brackets"))
	}
	return b.annotation(e, in)
}

// annotation returns the schema of an annotation with its notes.
func (b *builder) annotation(e *expr, in *statement) *schema.Object {
	p := b.meta.unwrap(e, in)
	m := b.meta.metadata(p.notes, in)
	return b.state.describe(b.typeWithMeta(p.typ, in, &m), m.description)
}

// typeWithMeta returns the schema of a type with everything in m but the description and
// the default.
func (b *builder) typeWithMeta(e *expr, in *statement, m *meta) *schema.Object {
	var s *schema.Object
	if o, ok := m.replaced.(*schema.Object); ok {
		s = schema.Clone(o).(*schema.Object)
	} else {
		s = b.typ(e, in)
	}
	m.constrain(s)
	if m.title != "" {
		s.Set("title", m.title)
	}
	if len(m.examples) > 0 {
		s.Set("examples", m.examples)
	}
	if m.deprecated {
		s.Set("deprecated", true)
	}
	merge(s, m.extra)
	return s
}
