package tsschema

import (
	"slices"

	"haft/schema"
)

// applyContext gives parameters without types those of the type that the function
// has as a whole, as in const f: Handler = (args) => …. It reports whether the
// derivation can go on.
func (d *derivation) applyContext() bool {
	fn := d.fn
	at := fn.context
	if t := fn.doc.find("type"); at == nil && d.JavaScript && t != nil {
		at = t.typ
	}
	if at == nil {
		return true
	}
	untyped := slices.ContainsFunc(fn.params, func(q *param) bool {
		return q.typ == nil && !schema.IsInjected(q.name) && d.rootTag(q) == nil
	})
	b := newBuilder(d.file)
	f := b.functionType(at, 0)
	if f == nil {
		if untyped = untyped && !d.TypesOptional; untyped {
			d.fail(at.at, "", d.whyNoContext(b, at)+", or write the types of the parameters")
		}
		return !untyped
	}
	for i, q := range fn.params {
		if i >= len(f.params) || f.params[i].rest {
			break
		}
		if from := f.params[i]; q.typ == nil {
			q.typ = from.typ
			q.optional = q.optional || from.optional
		}
	}
	if fn.result == nil {
		fn.result = f.result
	}
	return true
}

// whyNoContext says what is wrong with the type of a function.
func (d *derivation) whyNoContext(b *builder, n *node) string {
	b.problems = nil
	b.schema(n, 0)
	if len(b.problems) > 0 {
		return b.problems[0].message
	}
	return "this is no type of one function: declare type F = (args: Args) => Result"
}
