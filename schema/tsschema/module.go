package tsschema

import (
	"cmp"

	"haft/internal/javascript"
)

// A moduleReader reads the declarations at the top level of a source into a file.
type moduleReader struct {
	c     *cursor
	exprs *exprReader
	types *typeReader
	file  *file
}

// readModule reads what a source declares at its top level, and the types that its
// comments declare. It skips other statements and the bodies of classes: esbuild has
// checked the syntax of the whole source before.
func readModule(s *javascript.Source) *file {
	exprs := newExprReader(&cursor{source: s, tokens: s.Tokens})
	f := &file{source: s, types: map[string]*decl{}, vars: map[string]*constVar{}, imports: map[string]string{}}
	r := &moduleReader{c: exprs.c, exprs: exprs, types: exprs.types, file: f}
	for r.c.peek().Kind != javascript.EOF {
		before := r.c.i
		r.statement()
		r.c.err = nil
		if r.c.i == before {
			r.c.step()
		}
	}
	r.typedefs()
	return f
}

// statement reads one declaration, or moves to the end of something else.
func (r *moduleReader) statement() {
	doc := r.c.docBefore(r.c.i, false)
	exported := r.c.accept("export")
	if exported && r.c.accept("=") {
		r.exportedValue(doc)
		return
	}
	isDefault := exported && r.c.accept("default")
	if r.c.is("declare") && r.declares(r.c.i+1) {
		r.c.next()
	}
	r.declaration(doc, exported, isDefault)
}

// declares reports whether a word that begins a declaration is at i.
func (r *moduleReader) declares(i int) bool {
	switch r.c.textAt(i) {
	case "function", "interface", "type", "enum", "const", "let", "var", "class", "abstract", "async":
		return r.c.kindAt(i) == javascript.Ident
	}
	return false
}

// declaration reads what comes after export, default and declare.
func (r *moduleReader) declaration(doc *doc, exported, isDefault bool) {
	named := r.c.kindAt(r.c.i+1) == javascript.Ident && !r.c.tokenAt(r.c.i+1).NewLine
	switch {
	case r.c.is("function") || r.c.is("async") && r.c.textAt(r.c.i+1) == "function":
		r.functionDecl(doc, exported, isDefault)
	case isDefault && !r.c.is("class") && !r.c.is("abstract") && !r.c.is("interface"):
		r.exportedValue(doc)
	case r.c.is("interface") && named:
		r.interfaceDecl(doc)
	case r.c.is("type") && named && (r.c.textAt(r.c.i+2) == "=" || r.c.textAt(r.c.i+2) == "<"):
		r.aliasDecl(doc)
	case r.c.is("enum") && named, r.c.is("const") && r.c.textAt(r.c.i+1) == "enum":
		r.c.accept("const")
		r.enumDecl(doc)
	case r.c.is("const") || (r.c.is("let") || r.c.is("var")) && named:
		r.variables(doc, exported)
	case r.c.is("import"):
		r.importDecl()
	case exported && (r.c.is("{") || r.c.is("type") && r.c.textAt(r.c.i+1) == "{"):
		r.c.accept("type")
		r.exportList()
	case r.c.is("class") || r.c.is("abstract") && r.c.textAt(r.c.i+1) == "class":
		r.classDecl()
	default:
		if names := r.commonTargets(); len(names) > 0 && !exported {
			r.commonExport(doc, names)
			return
		}
		r.skipStatement()
	}
}

// skipStatement moves to where a statement can begin.
func (r *moduleReader) skipStatement() {
	for r.c.peek().Kind != javascript.EOF {
		if r.c.accept(";") {
			return
		}
		group := r.c.is("{")
		r.c.step()
		if group && r.c.textAt(r.c.i) != "." || r.c.peek().NewLine && r.c.statementEnds() {
			return
		}
	}
}

// finish moves to the end of a statement that may have ended already.
func (r *moduleReader) finish() {
	if r.c.peek().Kind != javascript.EOF && !r.c.statementEnds() {
		r.skipStatement()
	}
}

// functionDecl reads a function declaration.
func (r *moduleReader) functionDecl(doc *doc, exported, isDefault bool) {
	fn := r.exprs.function()
	var names []string
	switch {
	case isDefault:
		names = []string{wholeModule}
	case exported:
		names = []string{fn.name}
	}
	r.file.add(fn, doc, names)
}

// add adds a function that the module exports under names.
func (f *file) add(fn *function, doc *doc, names []string) {
	fn.doc, fn.exported = doc, names
	f.functions = append(f.functions, fn)
}

// addAlias exports the function whose name is next under another name.
func (r *moduleReader) addAlias(as string) {
	r.file.aliases = append(r.file.aliases, alias{r.c.text(), as, r.c.at()})
}

// variables reads const a = …, b = …
func (r *moduleReader) variables(doc *doc, exported bool) {
	fixed := r.c.is("const")
	r.c.next()
	for {
		at, name := r.c.at(), r.c.text()
		if r.c.peek().Kind != javascript.Ident {
			r.skipStatement()
			return
		}
		r.c.next()
		v := &constVar{at: -1, fixed: fixed}
		if r.c.accept(":") && !r.c.try(func() { v.typ = r.types.typ() }) {
			r.skipStatement()
			return
		}
		if r.c.accept("=") {
			common := r.commonTargets()
			v.at = r.c.i
			fn := r.exprs.functionValue()
			if fn == nil {
				r.file.vars[name] = v
			} else {
				fn.name, fn.at, fn.context = name, at, cmp.Or(v.typ, fn.context)
				if exported {
					common = []string{name}
				}
				r.file.add(fn, doc, common)
			}
			if fn == nil || !r.c.statementEnds() {
				r.exprs.skipExpr()
			}
		}
		if !r.c.accept(",") {
			r.c.accept(";")
			return
		}
		doc = r.c.docBefore(r.c.i, false)
	}
}

// exportedValue reads what follows export default.
func (r *moduleReader) exportedValue(doc *doc) {
	if fn := r.exprs.functionValue(); fn != nil {
		r.file.add(fn, doc, []string{wholeModule})
	} else if r.c.peek().Kind == javascript.Ident {
		r.addAlias(wholeModule)
		r.c.next()
	}
	r.finish()
}

// exportList reads { a, b as c }.
func (r *moduleReader) exportList() {
	var list []alias
	r.c.list("{", "}", func() {
		if r.c.is("type") && r.c.textAt(r.c.i+1) != "as" && r.c.textAt(r.c.i+1) != "," {
			r.c.next()
		}
		a := alias{at: r.c.at()}
		a.name, _ = r.c.propertyName()
		a.as = a.name
		if r.c.accept("as") {
			a.as, _ = r.c.propertyName()
		}
		list = append(list, a)
	})
	if !r.c.is("from") {
		r.file.aliases = append(r.file.aliases, list...)
	}
	r.finish()
}

// importDecl reads import a, { b as c }, * as d from "module".
func (r *moduleReader) importDecl() {
	if next := r.c.textAt(r.c.i + 1); next == "(" || next == "." {
		r.skipStatement()
		return
	}
	start := r.c.i
	for r.c.peek().Kind != javascript.EOF && r.c.peek().Kind != javascript.String && !r.c.is(";") {
		r.c.next()
	}
	end, module := r.c.i, "another module"
	if r.c.peek().Kind == javascript.String {
		module = unquote(r.c.text())
		r.c.next()
	}
	r.finish()
	for i := start + 1; i < end; i++ {
		if r.c.kindAt(i) == javascript.Ident && r.c.textAt(i+1) != "as" {
			r.file.imports[r.c.textAt(i)] = module
		}
	}
	delete(r.file.imports, "from")
	delete(r.file.imports, "type")
}

// declHead reads the word before a declaration, its name and its type parameters.
func (r *moduleReader) declHead(doc *doc) *decl {
	r.c.next()
	d := &decl{name: r.c.text(), at: r.c.at(), doc: doc}
	r.c.next()
	if r.c.is("<") {
		d.generic = true
		r.types.typeParams()
	}
	return d
}

// interfaceDecl reads an interface. Interfaces of one name are one interface.
func (r *moduleReader) interfaceDecl(doc *doc) {
	d := r.declHead(doc)
	if r.c.accept("extends") {
		for r.c.err == nil {
			d.extends = append(d.extends, r.types.postfix())
			if !r.c.accept(",") {
				break
			}
		}
	}
	after := r.c.peek().Match + 1
	d.typ = r.types.objectType()
	r.addDecl(d, after)
}

// addDecl adds a declaration, with its problem if it has one.
func (r *moduleReader) addDecl(d *decl, after int) {
	if r.c.err != nil {
		d.err, r.c.err = r.c.err, nil
		r.c.i = max(r.c.i, after)
	}
	if was := r.file.types[d.name]; was != nil && was.typ != nil && was.typ.op == oObject && d.typ.op == oObject {
		was.typ.members = append(was.typ.members, d.typ.members...)
		was.extends = append(was.extends, d.extends...)
		return
	}
	r.file.types[d.name] = d
}

// aliasDecl reads type A = T.
func (r *moduleReader) aliasDecl(doc *doc) {
	d := r.declHead(doc)
	r.c.expect("=")
	d.typ = r.types.typ()
	r.addDecl(d, 0)
	r.c.accept(";")
}

// enumDecl reads an enum.
func (r *moduleReader) enumDecl(doc *doc) {
	d := r.declHead(doc)
	after := r.c.peek().Match + 1
	d.typ, d.enum = r.exprs.enum(), true
	r.addDecl(d, after)
	r.c.i = max(r.c.i, after)
}

// classDecl keeps the name of a class, to explain why it cannot be the type of a parameter.
func (r *moduleReader) classDecl() {
	r.c.accept("abstract")
	r.c.next()
	if r.c.peek().Kind == javascript.Ident {
		name := r.c.text()
		r.file.types[name] = &decl{name: name, at: r.c.at(),
			typ: refused(r.c.at(), "a class cannot be made from JSON: take an interface with its fields")}
	}
	for r.c.peek().Kind != javascript.EOF && !r.c.is("{") {
		r.c.step()
	}
	r.c.step()
}
