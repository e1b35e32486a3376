package tsschema

import (
	"strings"

	"haft/schema"
)

// plainTypes are the types that have no arguments, with the keywords of their schemas.
var plainTypes = map[string][]any{
	"string": {"type", "string"}, "String": {"type", "string"},
	"number": {"type", "number"}, "Number": {"type", "number"},
	"boolean": {"type", "boolean"}, "Boolean": {"type", "boolean"}, "bool": {"type", "boolean"},
	"bigint": {"type", "integer"}, "BigInt": {"type", "integer"},
	"integer": {"type", "integer"}, "int": {"type", "integer"}, // of JSDoc
	"object": {"type", "object"}, "Object": {"type", "object"},
	"Map": {"type", "object"}, "ReadonlyMap": {"type", "object"},
	"undefined": {"type", "null"}, "void": {"type", "null"},
	"any": {}, "unknown": {},
	"Date": {"type", "string", "format", "date-time"}, "URL": {"type", "string", "format", "uri"},
	"Buffer": {"type", "string", "format", "haft-file"}, "Uint8Array": {"type", "string", "format", "haft-file"},
}

// refusals say what to do instead of types that JSON cannot carry.
var refusals = map[string]string{
	"never":    "no value fits never",
	"symbol":   "a symbol is not JSON",
	"Function": "a function cannot be passed as JSON: take a plain value",
	"function": "a function cannot be passed as JSON: take a plain value",
	"Promise":  "a promise cannot be passed as JSON: take its value",
	"RegExp":   "a regular expression is not JSON: take its text",
	"this":     "this has no schema",
}

// name writes a named type.
func (b *builder) name(n *node, depth int) *schema.Object {
	if d := b.file.types[n.name]; d != nil {
		return b.declared(n, d, depth)
	}
	if module, ok := b.file.imports[strings.SplitN(n.name, ".", 2)[0]]; ok {
		return b.fail(n.at, imported(quote(n.name), module))
	}
	if len(n.kids) > 0 {
		return b.generic(n, depth)
	}
	if reason, ok := refusals[n.name]; ok {
		return b.fail(n.at, reason)
	}
	if keywords, ok := plainTypes[n.name]; ok {
		return schema.Obj(keywords...)
	}
	switch n.name {
	case "Array", "ReadonlyArray", "array":
		return schema.Obj("type", "array", "items", schema.Obj())
	case "Set", "ReadonlySet":
		return schema.Obj("type", "array", "items", schema.Obj(), "uniqueItems", true)
	}
	return b.fail(n.at, "the type "+quote(n.name)+" is not declared in this file")
}

// generic writes the types of TypeScript that take arguments.
func (b *builder) generic(n *node, depth int) *schema.Object {
	last := n.kids[len(n.kids)-1]
	switch n.name {
	case "Array", "ReadonlyArray", "array", "Iterable":
		return schema.Obj("type", "array", "items", b.schema(last, depth+1))
	case "Set", "ReadonlySet":
		return schema.Obj("type", "array", "items", b.schema(last, depth+1), "uniqueItems", true)
	case "Map", "ReadonlyMap", "Object":
		return schema.Obj("type", "object", "additionalProperties", b.schema(last, depth+1))
	case "Awaited":
		return b.schema(last, depth+1)
	case "NonNullable", "Exclude", "Extract":
		return b.union(b.alternatives(n, depth), n, depth)
	case "Readonly":
		if b.shape(n, depth+1) == nil {
			return b.schema(last, depth+1)
		}
	}
	if s := b.shape(n, depth+1); s != nil {
		return b.object(s, depth)
	}
	if len(b.problems) > 0 {
		return schema.Obj()
	}
	switch n.name {
	case "Partial", "Required", "Readonly", "Pick", "Omit", "Record":
		for _, k := range n.kids {
			b.schema(k, depth+1)
		}
		return b.fail(n.at, quote(n.name)+" needs an object type of this file")
	}
	if reason, ok := refusals[n.name]; ok {
		return b.fail(n.at, reason)
	}
	return b.fail(n.at, "the generic type "+quote(n.name)+" has no schema: write the type that it comes to")
}

// declared writes a type of this file: in place, or as a reference if it
// contains itself.
func (b *builder) declared(n *node, d *decl, depth int) *schema.Object {
	ref := schema.Obj("$ref", "#/$defs/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(d.name))
	switch {
	case d.err != nil:
		return b.fail(d.err.at, d.err.message)
	case d.generic || len(n.kids) > 0:
		return b.fail(n.at, "the generic type "+quote(d.name)+" has no schema: declare a type without parameters")
	case b.building[d.name]:
		b.recursive[d.name] = true
		return ref
	case b.defs.Has(d.name):
		return ref
	}
	b.building[d.name] = true
	o := b.declaredBody(n, d, depth)
	delete(b.building, d.name)
	if !o.Has("description") {
		schema.Describe(o, d.doc.description())
	}
	b.constrain(o, d.doc)
	if !b.recursive[d.name] {
		return o
	}
	b.defs.Set(d.name, o)
	return ref
}

// declaredBody writes what a declaration says.
func (b *builder) declaredBody(n *node, d *decl, depth int) *schema.Object {
	if len(d.extends) > 0 {
		s := b.namedShape(n, depth+1)
		if s == nil {
			for _, e := range d.extends { // the reason is in one of them
				b.schema(e, depth+1)
			}
		}
		return b.object(s, depth)
	}
	return b.schema(d.typ, depth+1)
}
