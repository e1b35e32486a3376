package tsschema

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"haft/internal/javascript"
	"haft/schema"
)

// zodNoEffect are the methods that change nothing about which JSON fits: checks
// that are code, and what only matters when zod itself parses.
var zodNoEffect = []string{"refine", "superRefine", "check", "brand", "readonly", "trim", "toLowerCase", "toUpperCase",
	"normalize", "strict", "strip", "passthrough", "loose", "finite", "safe", "lowercase", "uppercase"}

// method reads .name(…) into t.
func (r *zodReader) method(t *zodType, depth int) {
	r.c.expect(".")
	at, name := r.c.i, r.c.text()
	r.c.next()
	if name == "shape" && !r.c.is("(") {
		return // of ...Base.shape
	}
	if !r.c.is("(") {
		r.c.fail("a schema of zod does not go on like this here: declare a type")
		return
	}
	end := r.c.peek().Match
	r.c.next()
	format, isFormat := zodFormats[name]
	switch {
	case slices.Contains(zodNoEffect, name):
	case isFormat && t.kind == "string":
		if format != "" {
			t.tag("format", format)
		}
	case r.check(t, name), r.pattern(t, name), r.objectMethod(t, name, depth), r.commonMethod(t, name, depth):
	default:
		r.c.i = at
		r.c.fail("." + name + "() of zod has no schema here: the function gets what was sent, so declare the type " +
			"that it takes")
	}
	if r.c.err == nil {
		r.c.i = end + 1
	}
}

// check reads the checks of numbers and lengths.
func (r *zodReader) check(t *zodType, name string) bool {
	tags := map[string]string{"gt": "exclusiveMinimum", "gte": "minimum", "lt": "exclusiveMaximum", "lte": "maximum",
		"multipleOf": "multipleOf", "step": "multipleOf", "min": "minimum", "max": "maximum"}
	switch t.kind {
	case "string":
		tags = map[string]string{"min": "minLength", "max": "maxLength", "length": "minLength maxLength"}
	case "list":
		tags = map[string]string{"min": "minItems", "max": "maxItems", "length": "minItems maxItems",
			"size": "minItems maxItems"}
	case "Date":
		return name == "min" || name == "max"
	case "number", "bigint":
		signs := map[string]string{"positive": "exclusiveMinimum", "negative": "exclusiveMaximum",
			"nonnegative": "minimum", "nonpositive": "maximum"}
		if signs[name] != "" {
			t.tag(signs[name], "0")
			return true
		}
	default:
		return false
	}
	switch {
	case name == "int" && t.kind == "number":
		t.tag("integer", "")
		return true
	case name == "nonempty" && t.kind != "number":
		t.tag(strings.Fields(tags["min"])[0], "1")
		return true
	case tags[name] == "":
		return false
	}
	v, ok := r.exprs.constant()
	n, isNumber := v.(json.Number)
	if !ok || !isNumber {
		r.c.fail("the bound is computed: write it as a number")
		return true
	}
	for _, tag := range strings.Fields(tags[name]) {
		t.tag(tag, n.String())
	}
	return true
}

// pattern reads the patterns of texts.
func (r *zodReader) pattern(t *zodType, name string) bool {
	if t.kind != "string" {
		return false
	}
	switch name {
	case "regex":
		pattern := r.c.text()
		if r.c.peek().Kind != javascript.Regexp || strings.Trim(pattern[strings.LastIndexByte(pattern, '/'):],
			"/u") != "" {
			r.c.fail("the pattern must be a regular expression without flags")
			return true
		}
		t.tag("pattern", strings.TrimSuffix(strings.ReplaceAll(pattern, `\/`, "/"), "u"))
		return true
	case "startsWith", "endsWith", "includes":
		v, ok := r.exprs.constant()
		text, isText := v.(string)
		if !ok || !isText {
			r.c.fail("the text is computed: write it out")
			return true
		}
		pattern := regexp.QuoteMeta(text)
		switch name {
		case "startsWith":
			pattern = "^" + pattern
		case "endsWith":
			pattern += "$"
		}
		t.tag("pattern", pattern)
		return true
	}
	return false
}

// objectMethod reads the methods that make objects of objects.
func (r *zodReader) objectMethod(t *zodType, name string, depth int) bool {
	if t.node.op != oObject {
		return false
	}
	if r.file.copiedMembers += len(t.node.members); r.file.copiedMembers > maxTypes {
		r.failCopied()
		return true
	}
	switch name {
	case "extend", "safeExtend", "augment":
		r.shape(t, depth)
	case "merge":
		s := &shape{}
		s.setAll(t.node.members)
		s.setAll(r.schema(depth + 1).node.members)
		t.node = &node{op: oObject, at: t.node.at, members: s.members}
	case "partial", "required":
		keys := r.keys()
		t.members(func(m member) *member {
			if keys == nil || keys.Has(m.name) {
				m.optional = name == "partial"
			}
			return &m
		})
	case "pick", "omit":
		keys := r.keys()
		t.members(func(m member) *member {
			if (keys != nil && keys.Has(m.name)) != (name == "pick") {
				return nil
			}
			return &m
		})
	case "catchall":
		n := *t.node
		n.index = r.schema(depth + 1).withDoc()
		t.node = &n
	case "keyof":
		t.wrap("", func(n *node) *node { return &node{op: oKeyof, at: n.at, kids: []*node{n}} })
	default:
		return false
	}
	return true
}

// failCopied refuses schemas that are put together from too many others.
func (r *zodReader) failCopied() {
	r.c.fail("the schemas come to more than " + itoa(maxTypes) + " properties when they are put together")
}

// members replaces the members of an object.
func (t *zodType) members(change func(member) *member) {
	n := &node{op: oObject, at: t.node.at, index: t.node.index}
	for _, m := range t.node.members {
		if c := change(*m); c != nil {
			n.members = append(n.members, c)
		}
	}
	t.node = n
}

// keys reads { a: true }, or returns nil.
func (r *zodReader) keys() *schema.Object {
	if !r.c.is("{") {
		return nil
	}
	v, ok := r.exprs.constant()
	if !ok {
		r.c.fail("the keys are computed: write { name: true }")
	}
	keys, _ := v.(*schema.Object)
	return keys
}

// commonMethod reads the methods that every schema has.
func (r *zodReader) commonMethod(t *zodType, name string, depth int) bool {
	switch name {
	case "optional", "nullable", "nullish":
		t.absent(name)
	case "describe":
		t.doc.text = r.description()
	case "meta":
		r.meta(t)
	case "default", "prefault":
		t.optional = true
		if d := r.exprs.literal(); d.known {
			t.doc.tags = append(t.doc.tags, tag{name: "default", fallback: &d})
		}
	case "array":
		t.wrap("list", func(n *node) *node { return &node{op: oArray, at: n.at, kids: []*node{n}} })
	case "or":
		t.or(r.schema(depth + 1).withDoc())
	case "and":
		other := r.schema(depth + 1).withDoc()
		t.wrap("", func(n *node) *node { return &node{op: oIntersection, at: n.at, kids: []*node{n, other}} })
	case "rest":
		if t.node.op != oTuple {
			return false
		}
		n := *t.node
		n.kids = append(slices.Clone(n.kids), &node{op: oArray, at: n.at, kids: []*node{r.schema(depth + 1).withDoc()}})
		n.elems = append(slices.Clone(n.elems), elem{rest: true})
		t.node = &n
	default:
		return false
	}
	return true
}

// absent lets a value be null or left out.
func (t *zodType) absent(name string) {
	if name != "optional" {
		t.or(&node{op: oLiteral, at: t.node.at})
	}
	t.optional = t.optional || name != "nullable"
}

// description reads a text, which may be put together with +.
func (r *zodReader) description() string {
	var all strings.Builder
	for r.c.err == nil {
		v, ok := r.exprs.constant()
		text, isText := v.(string)
		if !ok || !isText {
			r.c.fail("the description is computed: write it out")
		}
		all.WriteString(text)
		if !r.c.accept("+") {
			break
		}
	}
	return paragraphs(all.String())
}

// meta reads { description: "…", title: "…", examples: […] }, if it is there.
func (r *zodReader) meta(t *zodType) {
	if !r.c.is("{") {
		return
	}
	d := r.exprs.literal()
	o, _ := d.value.(*schema.Object)
	if !d.known || o == nil {
		return
	}
	if text := o.String("description"); text != "" {
		t.doc.text = paragraphs(text)
	}
	if text := o.String("title"); text != "" {
		t.tag("title", text)
	}
}
