package tsschema

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"haft/schema"
)

// maxParams is how many parameters a function may have.
const maxParams = 256

// A derivation makes the signature of one function.
type derivation struct {
	Config
	file *file
	fn   *function
	src  string
	errs []*schema.SourceError
	// undocumented are the descriptions that are missing, where they are optional.
	undocumented []*schema.SourceError
}

// fail notes a problem of the function or of one parameter.
func (d *derivation) fail(at int, param, message string) {
	if len(d.errs) >= maxProblems || d.TypesOptional && param != "" {
		return
	}
	e := &schema.SourceError{Function: d.fn.name, Parameter: param, Message: message}
	e.Line, e.Column = position(d.src, at)
	if slices.ContainsFunc(d.errs, func(other *schema.SourceError) bool { return *other == *e }) {
		return
	}
	d.errs = append(d.errs, e)
}

// undescribed notes a missing description, with the line to write.
func (d *derivation) undescribed(at int, param, message, line string) {
	n := len(d.errs)
	d.fail(at, param, message)
	if len(d.errs) == n {
		return
	}
	e := d.errs[n]
	e.Write = line
	if d.DescriptionsOptional {
		d.errs, d.undocumented = d.errs[:n], append(d.undocumented, e)
	}
}

// run derives everything.
func (d *derivation) run() *Result {
	fn := d.fn
	r := &Result{Signature: schema.Signature{Name: fn.name, Async: fn.async, Description: fn.doc.description()}}
	switch {
	case fn.err != nil:
		d.fail(fn.err.at, "", fn.err.message)
		return r
	case len(fn.params) > maxParams:
		d.fail(fn.at, "", "it has more than "+itoa(maxParams)+" parameters")
		return r
	case fn.generic && !d.TypesOptional:
		d.fail(fn.at, "", "it has type parameters: write the types that they come to")
		return r
	}
	if r.Description == "" {
		d.undescribed(fn.at, "", "it has no description: write a /** comment */ before it", "/** What the tool "+
			"does. */")
	}
	if !d.applyContext() {
		return r
	}
	b := newBuilder(d.file)
	props, required, extra := &schema.Object{}, []any{}, any(nil)
	params := d.splitInjected(r)
	whole := len(params) == 1 && d.isWhole(params[0])
	for _, q := range params {
		if whole {
			s := d.wholeShape(b, q)
			for _, m := range s.members {
				d.property(b, q, m, r, props, &required)
			}
			if s.index != nil {
				extra = b.schema(s.index, 0)
			}
			d.takeProblems(b, q.name)
			continue
		}
		d.positional(b, q, props, &required)
	}
	for _, q := range fn.params {
		isInjected := schema.IsInjected(q.name)
		r.Call = append(r.Call, Argument{Name: q.name, Whole: whole && !isInjected})
	}
	r.Parameters = schema.Obj("type", "object", "properties", props, "required", required)
	schema.NoteFiles(r.Parameters)
	if extra != nil {
		r.Parameters.Set("additionalProperties", extra)
	}
	if b.defs.Len() > 0 {
		r.Parameters.Set("$defs", b.defs)
	}
	d.returns(r)
	r.Undocumented, r.Warnings = d.undocumented, d.contradictions(props)
	return r
}

// contradictions returns where @param tags speak of parameters that the function does not have, or
// give one another type than its annotation.
func (d *derivation) contradictions(props *schema.Object) []*schema.SourceError {
	own, pattern := map[string]bool{}, false
	for _, name := range props.Keys() {
		own[name] = true
	}
	for _, q := range d.fn.params {
		own[q.name], pattern = true, pattern || q.name == ""
	}
	var found []*schema.SourceError
	for _, t := range d.paramTags() {
		root, _, nested := strings.Cut(strings.ReplaceAll(t.param, "[", "."), ".")
		message := ""
		switch s := props.Object(t.param); {
		case !own[root] && !pattern && t.param != "":
			message = "the comment describes it, and the function does not have it: remove it, or rename it"
		case !d.JavaScript && !nested && s != nil && t.typ != nil && t.typErr == nil:
			b := newBuilder(d.file)
			if o := b.schema(t.typ, 0); len(b.problems) == 0 && schema.Contradict(s, o) {
				message = "the comment gives it another type than its annotation, which counts: correct one of them"
			}
		}
		if message != "" && len(found) < maxProblems {
			e := &schema.SourceError{Function: d.fn.name, Parameter: t.param, Message: message}
			e.Line, e.Column = position(d.src, t.at)
			found = append(found, e)
		}
	}
	return found
}

// takeProblems moves the builder's problems to a parameter.
func (d *derivation) takeProblems(b *builder, param string) {
	for _, p := range b.problems {
		d.fail(p.at, param, p.message)
	}
	b.problems = nil
}

// splitInjected notes the injected parameters and returns the others.
func (d *derivation) splitInjected(r *Result) []*param {
	var rest []*param
	for _, q := range d.fn.params {
		if schema.IsInjected(q.name) {
			r.Injected = append(r.Injected, q.name)
			continue
		}
		rest = append(rest, q)
	}
	return rest
}

// tagFor returns the @param tag of a name, or nil.
func (d *derivation) tagFor(name string) *tag {
	return d.findParam(func(t *tag) bool { return name != "" && t.param == name })
}

// findParam returns the first @param tag that fits, or nil.
func (d *derivation) findParam(fits func(*tag) bool) *tag {
	for _, t := range d.paramTags() {
		if fits(t) {
			return t
		}
	}
	return nil
}

// paramTags returns the @param tags of the function.
func (d *derivation) paramTags() []*tag {
	var all []*tag
	if d.fn.doc != nil {
		for i := range d.fn.doc.tags {
			if t := &d.fn.doc.tags[i]; t.name == "param" {
				all = append(all, t)
			}
		}
	}
	return all
}

// rootTag returns the tag of a parameter. A pattern has no name: its tag is the
// one that stands where the parameter stands, if no dot is in it.
func (d *derivation) rootTag(q *param) *tag {
	if q.name != "" {
		return d.tagFor(q.name)
	}
	names := map[string]bool{}
	for _, p := range d.fn.params {
		names[p.name] = true
	}
	for _, b := range q.pattern {
		names[b.name] = true
	}
	return d.findParam(func(t *tag) bool { return !names[t.param] && !strings.ContainsAny(t.param, ".[") })
}

// typeOf returns the type of a parameter: its annotation; in JavaScript its tag;
// else that of its default.
func (d *derivation) typeOf(q *param) *node {
	if q.typ != nil {
		return q.typ
	}
	if t := d.rootTag(q); d.JavaScript && t != nil {
		if t.typErr != nil {
			d.fail(t.typErr.at, q.name, "the type in its @param tag cannot be read: "+t.typErr.message)
			return nil
		}
		if n := d.nested(t); n != nil {
			return n
		}
		if t.typ != nil {
			return t.typ
		}
	}
	if q.fallback != nil && q.fallback.known {
		switch n := typeOfConstant(q.fallback.value, q.at); n.name {
		case "string", "boolean", "number":
			return n
		}
	}
	return nil
}

// nested makes a type of @param opts.name tags, or returns nil.
func (d *derivation) nested(root *tag) *node {
	n := &node{op: oObject, at: root.at}
	inList := false
	for _, t := range d.paramTags() {
		name, ok := strings.CutPrefix(t.param, root.param+".")
		if !ok {
			if name, ok = strings.CutPrefix(t.param, root.param+"[]."); ok {
				inList = true
			}
		}
		if !ok || name == "" || strings.ContainsAny(name, ".[") {
			continue
		}
		n.members = append(n.members, d.tagMember(t, name))
	}
	if len(n.members) == 0 {
		return nil
	}
	if inList {
		return &node{op: oArray, at: root.at, kids: []*node{n}}
	}
	return n
}

// tagMember makes a property of a tag, and of the tags about its own properties.
func (d *derivation) tagMember(t *tag, name string) *member {
	m := t.member(name)
	m.typ = cmp.Or(d.nested(t), m.typ)
	return m
}

// member makes a property of a tag.
func (t *tag) member(name string) *member {
	m := &member{name: name, at: t.at, typ: t.typ, optional: t.optional, doc: &doc{at: t.at, text: t.text}}
	if t.typErr != nil {
		m.typ = refused(t.typErr.at, "the type of "+quote(name)+" cannot be read: "+t.typErr.message)
	}
	if t.fallback != nil {
		m.doc.tags = []tag{{name: "default", at: t.at, fallback: t.fallback}}
	}
	return m
}

// generators are types of values whose items become a list.
var generators = map[string]bool{"Generator": true, "AsyncGenerator": true, "IterableIterator": true,
	"AsyncIterableIterator": true, "AsyncIterable": true}

// returns derives the schema of the value. A value that has no schema is no
// error: it only stays unchecked.
func (d *derivation) returns(r *Result) {
	t := d.fn.doc.find("returns")
	n := d.fn.result
	if t != nil {
		r.ReturnsText = t.text
		if n == nil && d.JavaScript && t.typErr == nil {
			n = t.typ
		}
	}
	for n != nil && n.op == oName && n.name == "Promise" && len(n.kids) == 1 {
		n = n.kids[0]
		r.Async = true
	}
	if n == nil {
		return
	}
	if n.op == oName && generators[n.name] && len(n.kids) > 0 {
		n = &node{op: oName, at: n.at, name: "Array", kids: n.kids[:1]}
	}
	b := newBuilder(d.file)
	o := b.schema(n, 0)
	if len(b.problems) > 0 || o.Len() == 0 {
		return
	}
	if b.defs.Len() > 0 {
		o = schema.Clone(o).(*schema.Object).Set("$defs", b.defs)
	}
	// Bytes that a tool returns are no file.
	if raw, err := schema.Encode(o); err == nil && !bytes.Contains(raw, []byte(`"haft-file"`)) {
		r.Returns = o
	}
}
