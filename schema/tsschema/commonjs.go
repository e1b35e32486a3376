package tsschema

import "haft/internal/javascript"

// wholeModule is the name under which CommonJS exports the value of module.exports, which
// an import calls default.
const wholeModule = "default"

// commonTargets reads exports.a = module.exports.b = module.exports = and
// returns a, b and "default". Where no such assignment is next it reads nothing.
func (r *moduleReader) commonTargets() []string {
	var names []string
	for {
		i := r.c.i
		if r.c.textAt(i) == "module" && r.c.kindAt(i) == javascript.Ident && r.c.textAt(i+1) == "." {
			i += 2
		}
		if r.c.textAt(i) != "exports" || r.c.kindAt(i) != javascript.Ident {
			return names
		}
		name := wholeModule
		switch {
		case r.c.textAt(i+1) == "=":
			i += 2
		case r.c.textAt(i+1) == "." && r.c.kindAt(i+2) == javascript.Ident && r.c.textAt(i+3) == "=":
			name = r.c.textAt(i + 2)
			i += 4
		case r.c.textAt(i+1) == "[" && r.c.kindAt(i+2) == javascript.String &&
			r.c.textAt(i+3) == "]" && r.c.textAt(i+4) == "=":
			name = unquote(r.c.textAt(i + 2))
			i += 5
		default:
			return names
		}
		r.c.i = i
		if name != wholeModule || len(names) == 0 || names[len(names)-1] != wholeModule {
			names = append(names, name)
		}
	}
}

// commonExport reads the value that is exported under names. The functions of an object
// that is module.exports are exported under their keys.
func (r *moduleReader) commonExport(doc *doc, names []string) {
	switch fn := r.exprs.functionValue(); {
	case fn != nil:
		if names[0] != wholeModule {
			fn.name = names[0]
		}
		r.file.add(fn, doc, names)
	case r.c.is("{") && names[0] == wholeModule:
		r.commonObject()
	case r.c.peek().Kind == javascript.Ident:
		for _, name := range names {
			r.addAlias(name)
		}
		r.c.next()
	}
	r.finish()
}

// commonObject reads { a, b: c, d: () => …, e() { … } }. It skips other members.
func (r *moduleReader) commonObject() {
	end := r.c.peek().Match
	r.c.expect("{")
	for r.c.err == nil && r.c.i < end {
		doc := r.c.docBefore(r.c.i, false)
		before := r.c.i
		if !r.c.try(func() { r.commonMember(doc) }) {
			r.c.i = before
			r.exprs.skipExpr()
		}
		if !r.c.accept(",") {
			break
		}
	}
	r.c.err, r.c.i = nil, end
	r.c.expect("}")
}

// commonMember reads one member.
func (r *moduleReader) commonMember(doc *doc) {
	if fn := r.exprs.method(); fn != nil {
		r.file.add(fn, doc, []string{fn.name})
		return
	}
	at := r.c.at()
	name, ok := r.c.propertyName()
	if !ok {
		r.c.fail("no name")
		return
	}
	a := alias{name, name, at}
	if r.c.accept(":") {
		if fn := r.exprs.functionValue(); fn != nil {
			fn.name = name
			r.file.add(fn, doc, []string{name})
			return
		}
		if r.c.peek().Kind != javascript.Ident {
			r.c.fail("no function")
			return
		}
		a.name = r.c.text()
		r.c.next()
	}
	if !r.c.is(",") && !r.c.is("}") {
		r.c.fail("no name of a function")
		return
	}
	r.file.aliases = append(r.file.aliases, a)
}
