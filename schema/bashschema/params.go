package bashschema

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"haft/schema"
)

// parameters reads the section of the arguments.
func (h *header) parameters(lines []line) *schema.Object {
	props, required := &schema.Object{}, []any{}
	for i := 0; i < len(lines); {
		first := lines[i]
		if first.text == "" {
			i++
			continue
		}
		n := i + 1
		for n < len(lines) && (lines[n].text == "" || lines[n].indent > first.indent) {
			n++
		}
		if props.Len() >= maxParams {
			h.fail(first, first.column, "", fmt.Sprintf("there are more than %d parameters", maxParams))
			break
		}
		h.parameter(first, lines[i+1:n], props, &required)
		i = n
	}
	return schema.Obj("type", "object", "properties", props, "required", required)
}

// parameter reads "name (words): text" and the lines that belong to it.
func (h *header) parameter(l line, more []line, props *schema.Object, required *[]any) {
	name, rest, found := strings.Cut(l.text, "(")
	name = strings.TrimSpace(name)
	if !found || strings.Contains(name, ":") {
		name, _, _ = strings.Cut(l.text, ":")
		h.fail(l, l.column, short(name), "it has no type: write name (type): text")
		return
	}
	if !h.checkName(l, name) {
		return
	}
	column := l.column + len(l.text) - len(rest)
	words, text, ok := closing(rest)
	if !ok {
		h.fail(l, column, name, "the bracket is never closed")
		return
	}
	d := &declaration{h: h, line: l, column: column, name: name}
	o := d.read(words)
	more = append([]line{{text: strings.TrimSpace(text)}}, more...)
	if text := paragraphs(more); text != "" {
		schema.Describe(o, text)
	} else {
		h.undescribed(l, l.column, name, "it has no description: write one after the colon",
			"#   "+name+" ("+words+"): What "+name+" is.")
	}
	props.Set(name, o)
	if !d.optional {
		*required = append(*required, name)
	}
}

// checkName refuses names that cannot be variables, or stand twice.
func (h *header) checkName(l line, name string) bool {
	variable := Variable(name)
	other, taken := h.seen[variable]
	switch {
	case !paramName().MatchString(name):
		h.fail(l, l.column, short(name), "the name must be of letters, digits and _, at most 64")
	case schema.IsInjected(name):
		h.fail(l, l.column, name, "Haft fills this in: read HAFT_AGENT_ID instead")
	case taken && other == name:
		h.fail(l, l.column, name, "it stands twice")
	case taken:
		h.fail(l, l.column, name, "it has the same variable as "+other+": rename one")
	default:
		h.seen[variable] = name
		return true
	}
	return false
}

// short cuts a name that may be anything.
func short(s string) string {
	r := []rune(strings.TrimSpace(s))
	if len(r) > 64 {
		r = r[:64]
	}
	return string(r)
}

// closing splits "words): text" at the first ")" that a colon follows.
func closing(s string) (words, text string, ok bool) {
	for from := 0; ; {
		i := strings.IndexByte(s[from:], ')')
		if i < 0 {
			return "", "", false
		}
		at := from + i
		after := strings.TrimLeft(s[at+1:], " \t")
		if after == "" {
			return s[:at], "", true
		}
		if after[0] == ':' {
			return s[:at], after[1:], true
		}
		from = at + 1
	}
}

// A declaration is what stands in the brackets after a name.
type declaration struct {
	h        *header
	line     line
	column   int
	name     string
	optional bool
}

func (d *declaration) fail(message string) {
	d.h.fail(d.line, d.column, d.name, message)
}

// read reads "type, word, word".
func (d *declaration) read(words string) *schema.Object {
	typ, rest, _ := strings.Cut(words, ",")
	o := d.typ(strings.TrimSpace(typ), 0)
	fallback, given := "", false
	for rest != "" {
		var word string
		rest = strings.TrimLeft(rest, " \t")
		if p, ok := strings.CutPrefix(rest, "pattern "); ok { // to the end: it may hold commas
			d.set(o, "string", "pattern", strings.TrimSpace(p))
			break
		}
		if p, ok := strings.CutPrefix(rest, "default "); ok &&
			(strings.HasPrefix(strings.TrimSpace(p), "[") || strings.HasPrefix(strings.TrimSpace(p), "{") ||
				strings.HasPrefix(strings.TrimSpace(p), `"`)) {
			fallback, given = strings.TrimSpace(p), true // JSON, to the end
			break
		}
		word, rest, _ = strings.Cut(rest, ",")
		word = strings.TrimSpace(word)
		switch {
		case word == "required":
		case word == "optional":
			d.optional = true
		case strings.HasPrefix(word, "default "):
			fallback, given = strings.TrimSpace(word[len("default "):]), true
		case strings.HasPrefix(word, "format "):
			d.set(o, "string", "format", strings.TrimSpace(word[len("format "):]))
		case strings.Contains(word, ".."):
			d.bounds(o, word)
		default:
			d.fail("the words after the type are required, optional, default V, A..B, format F or pattern P")
		}
	}
	if given {
		d.fallback(o, fallback)
	}
	return o
}

// set sets a keyword of one type.
func (d *declaration) set(o *schema.Object, typ, key, value string) {
	switch {
	case o.String("type") != typ:
		d.fail(key + " is for the type " + typ)
	case value == "":
		d.fail(key + " needs a value")
	default:
		o.Set(key, value)
	}
}

// typ reads a type.
func (d *declaration) typ(s string, depth int) *schema.Object {
	switch s {
	case "string", "integer", "number", "boolean", "object":
		return schema.Obj("type", s)
	case "any":
		return schema.Obj()
	case "file":
		return schema.Obj("type", "string", "format", "haft-file")
	case "array", "list":
		return schema.Obj("type", "array", "items", schema.Obj())
	}
	for _, word := range []string{"array of ", "list of "} {
		if of, ok := strings.CutPrefix(s, word); ok && depth < maxArrays {
			return schema.Obj("type", "array", "items", d.typ(strings.TrimSpace(of), depth+1))
		}
	}
	if values, ok := strings.CutPrefix(s, "enum:"); ok {
		return d.enum(values)
	}
	d.fail("the type must be string, integer, number, boolean, object, file, any, enum: a|b, or array of one of them")
	return schema.Obj()
}

// enum reads "a|b|c".
func (d *declaration) enum(values string) *schema.Object {
	var list []any
	for v := range strings.SplitSeq(values, "|") {
		v = strings.TrimSpace(v)
		if v == "" || slices.Contains(list, any(v)) {
			d.fail("the values of an enum must be there and differ")
			break
		}
		list = append(list, v)
	}
	return schema.Obj("type", "string", "enum", list)
}

// bounds reads "A..B" as what it means for the type.
func (d *declaration) bounds(o *schema.Object, word string) {
	low, high, _ := strings.Cut(word, "..")
	keys := map[string][2]string{"integer": {"minimum", "maximum"}, "number": {"minimum", "maximum"},
		"string": {"minLength", "maxLength"}, "array": {"minItems", "maxItems"}}
	typ := o.String("type")
	pair, ok := keys[typ]
	if !ok || o.Has("enum") {
		d.fail("a range is for numbers, strings and arrays")
		return
	}
	for i, text := range []string{low, high} {
		text = strings.TrimSpace(text)
		if text == "" {
			continue
		}
		v, ok := number(text)
		if !ok || typ != "number" && strings.ContainsAny(text, ".eE") ||
			!strings.HasSuffix(pair[i], "imum") && strings.HasPrefix(text, "-") {
			d.fail("the range must be of numbers, as in 1..10")
			return
		}
		o.Set(pair[i], v)
	}
	if strings.TrimSpace(low) == "" && strings.TrimSpace(high) == "" {
		d.fail("the range must be of numbers, as in 1..10")
	}
}

// number reads a number of JSON.
func number(s string) (json.Number, bool) {
	v, err := schema.Decode([]byte(s))
	n, ok := v.(json.Number)
	return n, ok && err == nil
}

// fallback sets the default, which must be of the type.
func (d *declaration) fallback(o *schema.Object, text string) {
	d.optional = true
	typ := o.String("type")
	if typ == "string" && !strings.HasPrefix(text, `"`) {
		if values := o.Array("enum"); values != nil && !slices.Contains(values, any(text)) {
			d.fail("the default is none of the values")
		}
		o.Set("default", text)
		return
	}
	v, err := schema.Decode([]byte(text))
	if err != nil {
		d.fail("the default must be of the type " + typ + ", written as JSON")
		return
	}
	is := schema.TypeName(v)
	ok := typ == "" || typ == is || typ == "number" && is == "integer"
	if !ok {
		d.fail("the default is not of the type " + typ)
		return
	}
	o.Set("default", v)
}
