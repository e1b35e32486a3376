package tsschema

import (
	"cmp"
	"strings"
)

// typedefs adds the types that comments declare with @typedef.
func (r *moduleReader) typedefs() {
	for _, c := range r.c.source.Comments {
		text := r.c.source.Text[c.From:c.To]
		if !strings.HasPrefix(text, "/**") || !strings.Contains(text, "@typedef") {
			continue
		}
		var last *decl
		d := parseDoc(r.c.source, c)
		for i := range d.tags {
			t := &d.tags[i]
			switch {
			case t.name == "typedef" && t.param != "":
				last = typedef(t, d.text)
				if r.file.types[last.name] == nil {
					r.file.types[last.name] = last
				}
			case t.name == "property" && last != nil && last.typ.op == oObject:
				addProperty(last, t)
			}
		}
	}
}

// typedef makes a declaration of a tag.
func typedef(t *tag, above string) *decl {
	text := cmp.Or(t.text, above)
	d := &decl{name: t.param, at: t.at, typ: t.typ, err: t.typErr, doc: &doc{at: t.at, text: text}}
	if t.typ == nil || t.typ.op == oName && strings.EqualFold(t.typ.name, "object") && len(t.typ.kids) == 0 {
		d.typ = &node{op: oObject, at: t.at}
	}
	return d
}

// addProperty adds a @property tag to a type.
func addProperty(d *decl, t *tag) {
	if !strings.Contains(t.param, ".") {
		d.typ.members = append(d.typ.members, t.member(t.param))
	}
}
