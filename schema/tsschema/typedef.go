package tsschema

import (
	"cmp"
	"strings"
)

// typedefs adds the types that comments declare with @typedef.
func (p *parser) typedefs(f *file) {
	for _, c := range p.source.Comments {
		text := p.source.Text[c.From:c.To]
		if !strings.HasPrefix(text, "/**") || !strings.Contains(text, "@typedef") {
			continue
		}
		var last *decl
		d := p.parseDoc(c)
		for i := range d.tags {
			t := &d.tags[i]
			switch {
			case t.name == "typedef" && t.param != "":
				last = typedef(t, d.text)
				if f.types[last.name] == nil {
					f.types[last.name] = last
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
