package pyschema

import (
	"cmp"
	"strings"

	"haft/schema"
)

// typeOfCall returns the schema of a type that is made by a call: NewType, the
// functional forms of enums, typed dicts and named tuples, and Pydantic's
// constrained types.
func (b *builder) typeOfCall(e *expr, in *statement) *schema.Object {
	tag := tagOf(b.m.resolve(e.Value, in).full)
	second := func() *expr {
		if len(e.Args) > 1 {
			return e.Args[1]
		}
		return nil
	}
	switch tag {
	case "newtype":
		if t := cmp.Or(second(), e.keyword("tp")); t != nil {
			return b.typ(t, in)
		}
	case "aliastype":
		if t := cmp.Or(second(), e.keyword("value")); t != nil && e.keyword("type_params") == nil {
			return b.typ(t, in)
		}
	case "enum", "intenum", "strenum", "flag":
		return b.enumCall(e, tag, cmp.Or(second(), e.keyword("names")), in)
	case "typeddict":
		return b.typedDictCall(e, second(), in)
	case "namedtuple":
		return b.namedTupleCall(e, cmp.Or(second(), e.keyword("fields"), e.keyword("field_names")), in)
	}
	if kind, ok := strings.CutPrefix(tag, "con:"); ok {
		return b.constrained(kind, e, in)
	}
	return b.fail(e.fault("the type made by %s cannot be known without running the code", e.show()))
}

// constrained returns the schema of conint(…) and its like.
func (b *builder) constrained(kind string, e *expr, in *statement) *schema.Object {
	var s *schema.Object
	switch kind {
	case "list", "set":
		item := cmp.Or(append(e.Args, e.keyword("item_type"))...)
		var args []*expr
		if item != nil {
			args = []*expr{item}
		}
		s = b.container(kind, e, args, in)
	case "date":
		s = schema.Obj("type", "string", "format", "date")
	default:
		s = plain(kind, "")
	}
	var m meta
	b.meta.keywords(e, in, &m)
	m.constrain(s)
	return s
}

// typedDictCall returns the schema of TypedDict("T", {…}).
func (b *builder) typedDictCall(e, fields *expr, in *statement) *schema.Object {
	if fields == nil || fields.Kind != "dict" || len(fields.Keys) != len(fields.Args) {
		return b.fail(e.fault("the fields of this TypedDict cannot be known without running the code"))
	}
	total := true
	if v, ok := b.consts.constant(e.keyword("total"), in); ok {
		total, _ = v.(bool)
	}
	r := record{}
	for i, k := range fields.Keys {
		if !k.is("str") {
			return b.fail(e.fault("the names of the fields of a TypedDict must be texts"))
		}
		f := field{binding: binding{place: k.place, Name: k.Text, Type: fields.Args[i]}, optional: !total}
		b.addField(&r, f, in, "")
	}
	return r.schema()
}

// namedTupleCall returns the schema of NamedTuple("T", [(name, type)]) and of
// namedtuple("T", "a b").
func (b *builder) namedTupleCall(e, fields *expr, in *statement) *schema.Object {
	var all []field
	if names, ok := b.consts.nameList(fields, in); ok {
		for _, n := range names {
			all = append(all, field{binding: binding{place: e.place, Name: n}})
		}
		return b.positions(e, all, in)
	}
	if fields != nil && (fields.Kind == "list" || fields.Kind == "tuple") {
		for _, f := range fields.Args {
			if f == nil || f.Kind != "tuple" && f.Kind != "list" || len(f.Args) != 2 || !f.Args[0].is("str") {
				all = nil
				break
			}
			all = append(all, field{binding: binding{place: f.place, Name: f.Args[0].Text, Type: f.Args[1]}})
		}
		if all != nil {
			return b.positions(e, all, in)
		}
	}
	return b.fail(e.fault("the fields of this named tuple cannot be known without running the code"))
}
