package tsschema

import (
	"slices"
	"strings"

	"haft/internal/javascript"
)

// A zodType is a schema of zod, read from how it is written.
type zodType struct {
	node     *node
	kind     string // string, number, list, object or "", which says what min means
	optional bool
	doc      doc
}

// A zodReader reads schemas of zod.
type zodReader struct {
	c     *cursor
	exprs *exprReader
	file  *file // finds the schemas that others refer to
}

// isZod reports whether a name is that of the library.
func (f *file) isZod(name string) bool {
	return slices.Contains([]string{"zod", "zod/v3", "zod/v4"}, f.imports[name])
}

// inferred returns what z.infer<typeof X> comes to. It reports false for other
// types, and returns nil where it has reported why X cannot be read.
func (b *builder) inferred(n *node) (*node, bool) {
	z, what, _ := strings.Cut(n.name, ".")
	if !b.file.isZod(z) || !slices.Contains([]string{"infer", "input", "output", "TypeOf"}, what) {
		return nil, false
	}
	if len(n.kids) != 1 || n.kids[0].op != oTypeof || len(n.kids[0].texts) > 0 {
		b.fail(n.at, "z."+what+" needs typeof and the name of a schema of this file")
		return nil, true
	}
	t, bad := b.file.zodVar(n.kids[0].name, 0)
	if bad != nil {
		if bad.at < 0 {
			bad.at = n.kids[0].at
		}
		b.fail(bad.at, bad.message)
		return nil, true
	}
	if t.optional {
		return &node{op: oUnion, at: n.at, kids: []*node{t.withDoc(), {op: oName, at: n.at, name: "undefined"}}}, true
	}
	return t.withDoc(), true
}

// zodVar reads the schema that a variable holds.
func (f *file) zodVar(name string, depth int) (*zodType, *problem) {
	v := f.vars[name]
	switch {
	case v == nil && f.imports[name] != "":
		return nil, &problem{-1, imported(quote(name), f.imports[name])}
	case v == nil || v.at < 0:
		return nil, &problem{-1, "no schema " + quote(name) + " is declared in this file"}
	case v.zodErr != nil || v.zod != nil:
		return v.zod, v.zodErr
	}
	exprs := f.exprReader(v.at)
	r := &zodReader{c: exprs.c, exprs: exprs, file: f}
	v.zodErr = &problem{-1, "the schema " + quote(name) + " contains itself: declare a type"}
	t := r.schema(depth)
	if r.c.is("as") || r.c.is("satisfies") {
		r.c.fail("the schema is given another type here: declare a type")
	}
	if r.c.err != nil {
		v.zodErr = r.c.err
		return nil, r.c.err
	}
	v.zod, v.zodErr = t, nil
	return t, nil
}

// withDoc returns the type with everything that was said about it.
func (t *zodType) withDoc() *node {
	if t.doc.text == "" && len(t.doc.tags) == 0 {
		return t.node
	}
	d := t.doc
	return &node{op: oRefined, at: t.node.at, kids: []*node{t.node}, doc: &d}
}

// tag notes a constraint.
func (t *zodType) tag(name, text string) {
	t.doc.tags = append(t.doc.tags, tag{name: name, text: text})
}

// wrap makes a type around t. What describes t describes the whole.
func (t *zodType) wrap(kind string, around func(*node) *node) {
	text := t.doc.text
	t.doc.text = ""
	t.node, t.kind, t.doc = around(t.withDoc()), kind, doc{text: text}
}

// or adds alternatives.
func (t *zodType) or(others ...*node) {
	t.wrap("", func(n *node) *node { return &node{op: oUnion, at: n.at, kids: append([]*node{n}, others...)} })
}

// schema reads z.string().min(1), or the name of a schema and its methods.
func (r *zodReader) schema(depth int) *zodType {
	var t *zodType
	at, name := r.c.at(), r.c.text()
	switch {
	case depth > maxTypeDepth:
		r.c.fail("schemas are nested deeper than " + itoa(maxTypeDepth))
	case r.c.peek().Kind != javascript.Ident:
		r.c.fail("a schema of zod is expected here")
	case r.file.isZod(name) && r.c.textAt(r.c.i+1) == ".":
		r.c.next()
		t = r.base(at, depth)
	default:
		known, bad := r.file.zodVar(name, depth+1)
		if bad != nil {
			r.c.fail(bad.message)
			break
		}
		c := *known
		c.doc.tags = slices.Clone(c.doc.tags)
		t = &c
		r.c.next()
	}
	for r.c.err == nil && r.c.is(".") {
		r.method(t, depth)
	}
	if r.c.err != nil {
		return &zodType{node: refused(r.c.at(), "")}
	}
	return t
}

// zodFormats maps the checks of texts to formats of JSON Schema; "" means that there is no
// such format, and the check is not shown.
var zodFormats = map[string]string{"email": "email", "url": "uri", "httpUrl": "uri", "uuid": "uuid", "uuidv4": "uuid",
	"guid": "uuid", "datetime": "date-time", "date": "date", "time": "time", "duration": "duration", "ipv4": "ipv4",
	"ipv6": "ipv6", "hostname": "hostname",
	"ip": "", "cuid": "", "cuid2": "", "ulid": "", "nanoid": "", "emoji": "", "base64": "", "base64url": "", "jwt": "",
	"cidr": "", "cidrv4": "", "cidrv6": ""}

// zodPlain are the schemas without arguments, by the type that they come to.
var zodPlain = map[string]string{"string": "string", "number": "number", "boolean": "boolean", "bigint": "bigint",
	"date": "Date", "any": "any", "unknown": "unknown", "undefined": "undefined", "void": "undefined", "int": "number",
	"int32": "number", "uint32": "number", "float32": "number", "float64": "number"}

// base reads what follows z: .string(), .object({ … }), .coerce.number().
func (r *zodReader) base(at, depth int) *zodType {
	r.c.expect(".")
	name := r.c.text()
	r.c.next()
	inISO := name == "iso"
	if inISO || name == "coerce" {
		r.c.expect(".")
		name = r.c.text()
		r.c.next()
	}
	end := r.c.peek().Match
	t := &zodType{node: &node{op: oName, at: at, name: zodPlain[name]}}
	format, isFormat := zodFormats[name]
	switch {
	case !r.c.is("("):
		r.c.fail("“(” is expected here")
		return t
	case isFormat && (inISO || name != "date"):
		t.node.name, t.kind = "string", "string"
		if format != "" {
			t.tag("format", format)
		}
	case name == "null":
		t.node = &node{op: oLiteral, at: at}
	case t.node.name != "":
		t.kind = t.node.name
		if strings.HasPrefix(name, "int") || name == "uint32" {
			t.tag("integer", "")
		}
		r.c.next()
		r.meta(t)
	default:
		r.c.next()
		r.composed(t, name, depth)
	}
	if r.c.err == nil {
		r.c.i = end + 1
	}
	return t
}

// composed reads the schemas that are made of others.
func (r *zodReader) composed(t *zodType, name string, depth int) {
	at := t.node.at
	inner := func() *node { return r.schema(depth + 1).withDoc() }
	switch name {
	case "literal", "enum", "nativeEnum":
		t.node = r.values()
	case "array", "set":
		t.kind = "list"
		t.node = &node{op: oArray, at: at, kids: []*node{inner()}}
		if name == "set" {
			t.tag("uniqueItems", "")
		}
	case "object", "strictObject", "looseObject":
		t.kind, t.node = "object", &node{op: oObject, at: at}
		if !r.c.is(")") {
			r.shape(t, depth)
		}
	case "optional", "nullable", "nullish":
		*t = *r.schema(depth + 1)
		t.absent(name)
	case "record", "map", "partialRecord":
		key, value := &node{op: oName, at: at, name: "string"}, inner()
		if r.c.accept(",") && !r.c.is("{") && !r.c.is(")") {
			key, value = value, inner()
		}
		t.kind, t.node = "object", &node{op: oName, at: at, name: "Record", kids: []*node{key, value}}
		if name == "partialRecord" {
			t.node = &node{op: oName, at: at, name: "Partial", kids: []*node{t.node}}
		}
	case "tuple":
		t.kind, t.node = "list", &node{op: oTuple, at: at}
		r.elements(t.node, depth)
		t.node.elems = make([]elem, len(t.node.kids))
	case "discriminatedUnion", "union", "xor":
		if name == "discriminatedUnion" {
			r.c.next()
			r.c.expect(",")
		}
		t.node = &node{op: oUnion, at: at}
		r.elements(t.node, depth)
	case "intersection":
		first := inner()
		r.c.expect(",")
		t.node = &node{op: oIntersection, at: at, kids: []*node{first, inner()}}
	default:
		r.c.i -= 2
		r.c.fail("z." + name + " has no schema here: declare a type")
	}
}

// elements reads [a, b] into the kids of n.
func (r *zodReader) elements(n *node, depth int) {
	r.c.list("[", "]", func() { n.kids = append(n.kids, r.schema(depth+1).withDoc()) })
}

// values reads the values of a literal or an enum.
func (r *zodReader) values() *node {
	at := r.c.at()
	if d := r.file.types[r.c.text()]; r.c.peek().Kind == javascript.Ident && d != nil && d.enum {
		return &node{op: oName, at: at, name: r.c.text()}
	}
	n := r.exprs.value(true, true, 0)
	known := n
	if n.op == oTypeof && len(n.texts) == 0 && r.file.typeOfVar(n.name) != nil {
		known = r.file.typeOfVar(n.name)
	}
	switch known.op {
	case oTuple:
		return anyElement(known)
	case oObject:
		return &node{op: oIndexed, at: at, kids: []*node{known, {op: oKeyof, at: at, kids: []*node{known}}}}
	}
	return n
}

// shape reads { a: z.string(), ...Base.shape } into an object, whose
// properties of the same names it replaces.
func (r *zodReader) shape(t *zodType, depth int) {
	s := &shape{}
	s.setAll(t.node.members)
	r.c.list("{", "}", func() {
		if !r.c.accept("...") {
			s.set(r.member(depth))
			return
		}
		base := r.schema(depth + 1)
		if r.file.copiedMembers += len(base.node.members); r.file.copiedMembers > maxTypes {
			r.failCopied()
		}
		s.setAll(base.node.members)
	})
	t.node = &node{op: oObject, at: t.node.at, members: s.members}
}

// member reads one property.
func (r *zodReader) member(depth int) *member {
	m := &member{at: r.c.at()}
	above := r.c.docBefore(r.c.i, true)
	if above == nil {
		above = trailingNote(r.c.source, m.at)
	}
	name, ok := r.c.propertyName()
	if !ok {
		r.c.fail("the name of a property is expected here")
	}
	m.name = name
	if !r.c.is(":") {
		r.c.i--
	} else {
		r.c.next()
	}
	t := r.schema(depth + 1)
	m.typ, m.optional, m.doc = t.node, t.optional, &t.doc
	if m.doc.text == "" {
		m.doc.text = above.description()
	}
	return m
}
