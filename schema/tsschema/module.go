package tsschema

import (
	"cmp"

	"haft/internal/javascript"
)

// module reads what a source declares at its top level. What it does not know
// (statements, classes) it steps over; a strict parser has seen the source
// before.
func (p *parser) module() *file {
	f := &file{types: map[string]*decl{}, vars: map[string]*constVar{}, imports: map[string]string{}, parser: p}
	for p.peek().Kind != javascript.EOF {
		before := p.i
		p.statement(f)
		p.err = nil
		if p.i == before {
			p.step()
		}
	}
	return f
}

// step moves over one token or one pair of brackets.
func (p *parser) step() {
	if p.peek().Match > p.i {
		p.skipGroup()
		return
	}
	p.next()
	if p.i == len(p.tokens)-1 && p.peek().Kind != javascript.EOF {
		p.i = len(p.tokens)
	}
}

// statement reads one declaration, or moves to the end of something else.
func (p *parser) statement(f *file) {
	doc := p.docBefore(p.i, false)
	exported := p.accept("export")
	if exported && p.accept("=") {
		p.exportedValue(f, doc)
		return
	}
	isDefault := exported && p.accept("default")
	if p.is("declare") && p.declares(p.i+1) {
		p.next()
	}
	p.declaration(f, doc, exported, isDefault)
}

// declares reports whether a word that begins a declaration is at i.
func (p *parser) declares(i int) bool {
	switch p.textAt(i) {
	case "function", "interface", "type", "enum", "const", "let", "var", "class", "abstract", "async":
		return p.kindAt(i) == javascript.Ident
	}
	return false
}

// declaration reads what comes after export, default and declare.
func (p *parser) declaration(f *file, doc *doc, exported, isDefault bool) {
	named := p.kindAt(p.i+1) == javascript.Ident && !p.tokenAt(p.i+1).NewLine
	switch {
	case p.is("function") || p.is("async") && p.textAt(p.i+1) == "function":
		p.functionDecl(f, doc, exported, isDefault)
	case isDefault && !p.is("class") && !p.is("abstract") && !p.is("interface"):
		p.exportedValue(f, doc)
	case p.is("interface") && named:
		p.interfaceDecl(f, doc)
	case p.is("type") && named && (p.textAt(p.i+2) == "=" || p.textAt(p.i+2) == "<"):
		p.aliasDecl(f, doc)
	case p.is("enum") && named, p.is("const") && p.textAt(p.i+1) == "enum":
		p.accept("const")
		p.enumDecl(f, doc)
	case p.is("const") || (p.is("let") || p.is("var")) && named:
		p.variables(f, doc, exported)
	case p.is("import"):
		p.importDecl(f)
	case exported && (p.is("{") || p.is("type") && p.textAt(p.i+1) == "{"):
		p.accept("type")
		p.exportList(f)
	case p.is("class") || p.is("abstract") && p.textAt(p.i+1) == "class":
		p.classDecl(f)
	default:
		if names := p.commonTargets(); len(names) > 0 && !exported {
			p.commonExport(f, doc, names)
			return
		}
		p.skipStatement()
	}
}

// skipStatement moves to where a statement can begin.
func (p *parser) skipStatement() {
	for p.peek().Kind != javascript.EOF {
		if p.accept(";") {
			return
		}
		group := p.is("{")
		p.step()
		if group && p.textAt(p.i) != "." || p.peek().NewLine && p.statementEnds() {
			return
		}
	}
}

// finish moves to the end of a statement that may have ended already.
func (p *parser) finish() {
	if p.peek().Kind != javascript.EOF && !p.statementEnds() {
		p.skipStatement()
	}
}

// functionDecl reads a function declaration.
func (p *parser) functionDecl(f *file, doc *doc, exported, isDefault bool) {
	fn := p.function()
	var names []string
	switch {
	case isDefault:
		names = []string{wholeModule}
	case exported:
		names = []string{fn.name}
	}
	f.add(fn, doc, names)
}

// add adds a function that the module exports under names.
func (f *file) add(fn *function, doc *doc, names []string) {
	fn.doc, fn.exported = doc, names
	f.functions = append(f.functions, fn)
}

// addAlias exports the function whose name is next under another name.
func (p *parser) addAlias(f *file, as string) {
	f.aliases = append(f.aliases, alias{p.text(), as, p.at()})
}

// function reads [async] function name(params): T { body }.
func (p *parser) function() *function {
	fn := &function{at: p.at()}
	fn.async = p.accept("async")
	p.expect("function")
	if p.accept("*") {
		fn.method = "a generator cannot be a tool: return a list"
	}
	if p.peek().Kind == javascript.Ident {
		fn.name, fn.at = p.text(), p.at()
		p.next()
	}
	p.signature(fn)
	if p.is("{") {
		p.skipGroup()
	} else {
		fn.bodiless = fn.err == nil
		p.accept(";")
	}
	return fn
}

// signature reads <T>(params): T. A problem is kept in fn, and the parser goes
// on after the parameters.
func (p *parser) signature(fn *function) {
	if p.is("<") {
		fn.generic = true
		p.typeParams()
	}
	after := p.peek().Match + 1
	fn.params = p.params()
	if p.accept(":") {
		fn.result = p.typ()
	}
	if p.err != nil {
		fn.err, p.err = p.err, nil
		p.i = max(p.i, after)
	}
}

// arrow reads [async] (params): T => body or [async] name => body.
func (p *parser) arrow() *function {
	fn := &function{at: p.at()}
	if p.is("async") && p.textAt(p.i+1) != "=>" {
		fn.async = true
		p.next()
	}
	if p.peek().Kind == javascript.Ident {
		fn.params = []*param{{name: p.text(), at: p.at()}}
		p.next()
	} else {
		p.signature(fn)
	}
	p.expect("=>")
	if p.is("{") {
		p.skipGroup()
	} else {
		p.skipExpr()
	}
	return fn
}

// functionValue reads a function expression, with what satisfies and as say
// about it, or returns nil.
func (p *parser) functionValue() *function {
	fn := p.bareFunction()
	if fn == nil && p.is("(") {
		p.try(func() {
			p.next()
			if fn = p.functionValue(); fn == nil || !p.is(")") {
				fn = nil
				p.fail("no function")
			}
			p.next()
		})
	}
	for fn != nil && (p.is("satisfies") || p.is("as")) && !p.peek().NewLine {
		if !p.try(func() { p.next(); fn.context = p.typ() }) {
			break
		}
	}
	return fn
}

// bareFunction reads a function expression, or returns nil.
func (p *parser) bareFunction() *function {
	i := p.i
	if p.is("async") && !p.tokenAt(i+1).NewLine {
		i++
	}
	switch {
	case p.textAt(i) == "function" && p.kindAt(i) == javascript.Ident:
		return p.function()
	case p.kindAt(i) == javascript.Ident && p.textAt(i+1) == "=>":
		return p.arrow()
	case p.textAt(i) == "<" && p.kindAt(i) == javascript.Punct:
		var fn *function
		p.try(func() { fn = p.arrow() })
		return fn
	case p.textAt(i) != "(" || p.kindAt(i) != javascript.Punct:
		return nil
	}
	after := p.textAt(p.tokens[i].Match + 1)
	if after != "=>" && after != ":" {
		return nil
	}
	return p.arrow()
}

// variables reads const a = …, b = …
func (p *parser) variables(f *file, doc *doc, exported bool) {
	fixed := p.is("const")
	p.next()
	for {
		at, name := p.at(), p.text()
		if p.peek().Kind != javascript.Ident {
			p.skipStatement()
			return
		}
		p.next()
		v := &constVar{at: -1, fixed: fixed}
		if p.accept(":") && !p.try(func() { v.typ = p.typ() }) {
			p.skipStatement()
			return
		}
		if p.accept("=") {
			common := p.commonTargets()
			v.at = p.i
			fn := p.functionValue()
			if fn == nil {
				f.vars[name] = v
			} else {
				fn.name, fn.at, fn.context = name, at, cmp.Or(v.typ, fn.context)
				if exported {
					common = []string{name}
				}
				f.add(fn, doc, common)
			}
			if fn == nil || !p.statementEnds() {
				p.skipExpr()
			}
		}
		if !p.accept(",") {
			p.accept(";")
			return
		}
		doc = p.docBefore(p.i, false)
	}
}

// exportedValue reads what follows export default.
func (p *parser) exportedValue(f *file, doc *doc) {
	if fn := p.functionValue(); fn != nil {
		f.add(fn, doc, []string{wholeModule})
	} else if p.peek().Kind == javascript.Ident {
		p.addAlias(f, wholeModule)
		p.next()
	}
	p.finish()
}

// exportList reads { a, b as c }.
func (p *parser) exportList(f *file) {
	var list []alias
	p.list("{", "}", func() {
		if p.is("type") && p.textAt(p.i+1) != "as" && p.textAt(p.i+1) != "," {
			p.next()
		}
		a := alias{at: p.at()}
		a.name, _ = p.propertyName()
		a.as = a.name
		if p.accept("as") {
			a.as, _ = p.propertyName()
		}
		list = append(list, a)
	})
	if !p.is("from") {
		f.aliases = append(f.aliases, list...)
	}
	p.finish()
}

// importDecl reads import a, { b as c }, * as d from "module".
func (p *parser) importDecl(f *file) {
	if next := p.textAt(p.i + 1); next == "(" || next == "." {
		p.skipStatement()
		return
	}
	start := p.i
	for p.peek().Kind != javascript.EOF && p.peek().Kind != javascript.String && !p.is(";") {
		p.next()
	}
	end, module := p.i, "another module"
	if p.peek().Kind == javascript.String {
		module = unquote(p.text())
		p.next()
	}
	p.finish()
	for i := start + 1; i < end; i++ {
		if p.kindAt(i) == javascript.Ident && p.textAt(i+1) != "as" {
			f.imports[p.textAt(i)] = module
		}
	}
	delete(f.imports, "from")
	delete(f.imports, "type")
}

// declHead reads the word before a declaration, its name and its type parameters.
func (p *parser) declHead(doc *doc) *decl {
	p.next()
	d := &decl{name: p.text(), at: p.at(), doc: doc}
	p.next()
	if p.is("<") {
		d.generic = true
		p.typeParams()
	}
	return d
}

// interfaceDecl reads an interface. Interfaces of one name are one interface.
func (p *parser) interfaceDecl(f *file, doc *doc) {
	d := p.declHead(doc)
	if p.accept("extends") {
		for p.err == nil {
			d.extends = append(d.extends, p.postfix())
			if !p.accept(",") {
				break
			}
		}
	}
	after := p.peek().Match + 1
	d.typ = p.objectType()
	p.addDecl(f, d, after)
}

// addDecl adds a declaration, with its problem if it has one.
func (p *parser) addDecl(f *file, d *decl, after int) {
	if p.err != nil {
		d.err, p.err = p.err, nil
		p.i = max(p.i, after)
	}
	if was := f.types[d.name]; was != nil && was.typ != nil && was.typ.op == oObject && d.typ.op == oObject {
		was.typ.members = append(was.typ.members, d.typ.members...)
		was.extends = append(was.extends, d.extends...)
		return
	}
	f.types[d.name] = d
}

// aliasDecl reads type A = T.
func (p *parser) aliasDecl(f *file, doc *doc) {
	d := p.declHead(doc)
	p.expect("=")
	d.typ = p.typ()
	p.addDecl(f, d, 0)
	p.accept(";")
}

// enumDecl reads an enum.
func (p *parser) enumDecl(f *file, doc *doc) {
	d := p.declHead(doc)
	after := p.peek().Match + 1
	d.typ, d.enum = p.enum(), true
	p.addDecl(f, d, after)
	p.i = max(p.i, after)
}

// classDecl remembers a class, to say why it is no type of a parameter.
func (p *parser) classDecl(f *file) {
	p.accept("abstract")
	p.next()
	if p.peek().Kind == javascript.Ident {
		name := p.text()
		f.types[name] = &decl{name: name, at: p.at(),
			typ: refused(p.at(), "a class cannot be made from JSON: take an interface with its fields")}
	}
	for p.peek().Kind != javascript.EOF && !p.is("{") {
		p.step()
	}
	p.step()
}
