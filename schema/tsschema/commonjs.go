package tsschema

import "haft/internal/javascript"

// The names under which a module of the older kind gives things out: the value
// of module.exports is what an import calls default.
const wholeModule = "default"

// commonTargets reads exports.a = module.exports.b = module.exports = and
// returns a, b and "default". Where no such assignment is next it reads nothing.
func (p *parser) commonTargets() []string {
	var names []string
	for {
		i := p.i
		if p.textAt(i) == "module" && p.kindAt(i) == javascript.Ident && p.textAt(i+1) == "." {
			i += 2
		}
		if p.textAt(i) != "exports" || p.kindAt(i) != javascript.Ident {
			return names
		}
		name := wholeModule
		switch {
		case p.textAt(i+1) == "=":
			i += 2
		case p.textAt(i+1) == "." && p.kindAt(i+2) == javascript.Ident && p.textAt(i+3) == "=":
			name = p.textAt(i + 2)
			i += 4
		case p.textAt(i+1) == "[" && p.kindAt(i+2) == javascript.String && p.textAt(i+3) == "]" && p.textAt(i+4) == "=":
			name = unquote(p.textAt(i + 2))
			i += 5
		default:
			return names
		}
		p.i = i
		if name != wholeModule || len(names) == 0 || names[len(names)-1] != wholeModule {
			names = append(names, name)
		}
	}
}

// commonExport reads the value that is given out under names. An object is
// the module's whole: its functions go out under their keys.
func (p *parser) commonExport(f *file, doc *doc, names []string) {
	switch fn := p.functionValue(); {
	case fn != nil:
		if names[0] != wholeModule {
			fn.name = names[0]
		}
		f.add(fn, doc, names)
	case p.is("{") && names[0] == wholeModule:
		p.commonObject(f)
	case p.peek().Kind == javascript.Ident:
		for _, name := range names {
			p.addAlias(f, name)
		}
		p.next()
	}
	p.finish()
}

// commonObject reads { a, b: c, d: () => …, e() { … } }. What it does not know
// it steps over.
func (p *parser) commonObject(f *file) {
	end := p.peek().Match
	p.expect("{")
	for p.err == nil && p.i < end {
		doc := p.docBefore(p.i, false)
		before := p.i
		if !p.try(func() { p.commonMember(f, doc) }) {
			p.i = before
			p.skipExpr()
		}
		if !p.accept(",") {
			break
		}
	}
	p.err, p.i = nil, end
	p.expect("}")
}

// commonMember reads one member.
func (p *parser) commonMember(f *file, doc *doc) {
	if fn := p.method(); fn != nil {
		f.add(fn, doc, []string{fn.name})
		return
	}
	at := p.at()
	name, ok := p.propertyName()
	if !ok {
		p.fail("no name")
		return
	}
	a := alias{name, name, at}
	if p.accept(":") {
		if fn := p.functionValue(); fn != nil {
			fn.name = name
			f.add(fn, doc, []string{name})
			return
		}
		if p.peek().Kind != javascript.Ident {
			p.fail("no function")
			return
		}
		a.name = p.text()
		p.next()
	}
	if !p.is(",") && !p.is("}") {
		p.fail("no name of a function")
		return
	}
	f.aliases = append(f.aliases, a)
}

// method reads [async] [*] name(params) { body }, or returns nil.
func (p *parser) method() *function {
	fn := &function{}
	i := p.i
	if p.textAt(i) == "async" && p.textAt(i+1) != "(" && p.textAt(i+1) != ":" && p.textAt(i+1) != "," {
		fn.async = true
		i++
	}
	if p.textAt(i) == "*" {
		fn.method = "a generator cannot be a tool: return a list"
		i++
	}
	if p.kindAt(i) != javascript.Ident || p.textAt(i+1) != "(" && p.textAt(i+1) != "<" {
		return nil
	}
	fn.name, fn.at = p.textAt(i), p.tokenAt(i).From
	p.i = i + 1
	p.signature(fn)
	p.skipGroup()
	return fn
}
