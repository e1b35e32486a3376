package tsschema

import "haft/internal/javascript"

// method reads [async] [*] name(params) { body }, or returns nil.
func (r *exprReader) method() *function {
	fn := &function{}
	i := r.c.i
	if r.c.textAt(i) == "async" && r.c.textAt(i+1) != "(" && r.c.textAt(i+1) != ":" && r.c.textAt(i+1) != "," {
		fn.async = true
		i++
	}
	if r.c.textAt(i) == "*" { // its items are the value
		i++
	}
	if r.c.kindAt(i) != javascript.Ident || r.c.textAt(i+1) != "(" && r.c.textAt(i+1) != "<" {
		return nil
	}
	fn.name, fn.at = r.c.textAt(i), r.c.tokenAt(i).From
	r.c.i = i + 1
	r.signature(fn)
	r.c.skipGroup()
	return fn
}

// function reads [async] function name(params): T { body }.
func (r *exprReader) function() *function {
	fn := &function{at: r.c.at()}
	fn.async = r.c.accept("async")
	r.c.expect("function")
	r.c.accept("*") // its items are the value
	if r.c.peek().Kind == javascript.Ident {
		fn.name, fn.at = r.c.text(), r.c.at()
		r.c.next()
	}
	r.signature(fn)
	if r.c.is("{") {
		r.c.skipGroup()
	} else {
		fn.bodiless = fn.err == nil
		r.c.accept(";")
	}
	return fn
}

// signature reads <T>(params): T. A problem is kept in fn, and the parser goes
// on after the parameters.
func (r *exprReader) signature(fn *function) {
	if r.c.is("<") {
		fn.generic = true
		r.types.typeParams()
	}
	after := r.c.peek().Match + 1
	fn.params = r.types.params()
	if r.c.accept(":") {
		fn.result = r.types.typ()
	}
	if r.c.err != nil {
		fn.err, r.c.err = r.c.err, nil
		r.c.i = max(r.c.i, after)
	}
}

// arrow reads [async] (params): T => body or [async] name => body.
func (r *exprReader) arrow() *function {
	fn := &function{at: r.c.at()}
	if r.c.is("async") && r.c.textAt(r.c.i+1) != "=>" {
		fn.async = true
		r.c.next()
	}
	if r.c.peek().Kind == javascript.Ident {
		fn.params = []*param{{name: r.c.text(), at: r.c.at()}}
		r.c.next()
	} else {
		r.signature(fn)
	}
	r.c.expect("=>")
	if r.c.is("{") {
		r.c.skipGroup()
	} else {
		r.skipExpr()
	}
	return fn
}

// functionValue reads a function expression, with what satisfies and as say
// about it, or returns nil.
func (r *exprReader) functionValue() *function {
	fn := r.bareFunction()
	if fn == nil && r.c.is("(") {
		r.c.try(func() {
			r.c.next()
			if fn = r.functionValue(); fn == nil || !r.c.is(")") {
				fn = nil
				r.c.fail("no function")
			}
			r.c.next()
		})
	}
	for fn != nil && (r.c.is("satisfies") || r.c.is("as")) && !r.c.peek().NewLine {
		if !r.c.try(func() { r.c.next(); fn.context = r.types.typ() }) {
			break
		}
	}
	return fn
}

// bareFunction reads a function expression, or returns nil.
func (r *exprReader) bareFunction() *function {
	i := r.c.i
	if r.c.is("async") && !r.c.tokenAt(i+1).NewLine {
		i++
	}
	switch {
	case r.c.textAt(i) == "function" && r.c.kindAt(i) == javascript.Ident:
		return r.function()
	case r.c.kindAt(i) == javascript.Ident && r.c.textAt(i+1) == "=>":
		return r.arrow()
	case r.c.textAt(i) == "<" && r.c.kindAt(i) == javascript.Punct:
		var fn *function
		r.c.try(func() { fn = r.arrow() })
		return fn
	case r.c.textAt(i) != "(" || r.c.kindAt(i) != javascript.Punct:
		return nil
	}
	after := r.c.textAt(r.c.tokens[i].Match + 1)
	if after != "=>" && after != ":" {
		return nil
	}
	return r.arrow()
}
