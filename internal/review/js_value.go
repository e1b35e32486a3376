package review

import (
	"slices"
	"strings"

	"github.com/grafana/sobek/ast"
	"github.com/grafana/sobek/token"
)

// How a constant was made.
const (
	jsWritten = iota // as one literal
	jsJoined         // from literals
	jsMade           // from codes, or by decoding
)

// A jsText is the value of a constant expression.
type jsText struct {
	text string
	made int
}

// A resolver finds out what names and expressions stand for. It follows names
// through imports and assignments, whatever the order and the scope in which they
// run: a name may stand for several things.
type resolver struct {
	tree             *jsTree
	n                *notes
	names            map[string][]string // what a name may stand for, as paths: child_process.exec
	texts            map[string]string   // names that are always the same text
	unknown          map[string]bool     // names that are assigned something else too
	aliasesItself    map[string]bool     // names that are assigned the global of the same name
	known            known
	dangerousAliases int  // how many dangerous meanings of names were found
	evaluated        int  // how many bytes of constants were put together
	tooManyRefs      bool // a name stands for more than is followed
}

// known caches the results for expressions, so that each is evaluated once, however deep
// it is nested.
type known struct {
	constants map[ast.Expression]*jsText // nil if it is not constant
	refs      map[ast.Expression][]string
}

// forget clears the cache, because names have got other meanings.
func (r *resolver) forget() {
	r.known = known{map[ast.Expression]*jsText{}, map[ast.Expression][]string{}}
}

// unwrap removes the marks of optional chaining, and await.
func unwrap(e ast.Expression) ast.Expression {
	for {
		switch inner := e.(type) {
		case *ast.OptionalChain:
			e = inner.Expression
		case *ast.Optional:
			e = inner.Expression
		case *ast.AwaitExpression:
			e = inner.Argument
		default:
			return e
		}
	}
}

// globals are the names of the global object.
var globals = []string{"globalThis", "global", "window", "self", "this", "frames", "top"}

// The bounds on what a name may stand for. Dangerous paths are short.
const (
	maxPath   = 400
	maxRefs   = 16
	minRounds = 3 // of learning what names stand for
	maxRounds = 8
)

// refs returns the paths that an expression may stand for, such as
// child_process.exec. It follows names through imports and assignments.
func (r *resolver) refs(e ast.Expression) []string {
	refs, ok := r.known.refs[e]
	if !ok {
		refs = r.resolve(e)
		r.known.refs[e] = refs
	}
	return refs
}

// resolve is refs for an expression that is not known.
func (r *resolver) resolve(e ast.Expression) []string {
	switch e := unwrap(e).(type) {
	case *ast.ThisExpression:
		return []string{"this"}
	case *ast.Identifier:
		name := strings.TrimPrefix(e.Name.String(), unbound)
		known := r.names[name]
		if len(known) > 0 && (name == "fs" || name == "child_process") {
			return known // such a name is no module by itself
		}
		return append(slices.Clone(known), name)
	case *ast.SequenceExpression:
		return r.refs(e.Sequence[len(e.Sequence)-1])
	case *ast.AssignExpression:
		return r.refs(e.Right)
	case *ast.ConditionalExpression:
		return r.bound(slices.Concat(r.refs(e.Consequent), r.refs(e.Alternate)))
	case *ast.BinaryExpression:
		switch e.Operator {
		case token.LOGICAL_AND:
			return r.refs(e.Right)
		case token.LOGICAL_OR, token.COALESCE:
			return r.bound(slices.Concat(r.refs(e.Left), r.refs(e.Right)))
		}
	case *ast.DotExpression:
		return r.members(e.Left, e.Identifier.Name.String())
	case *ast.BracketExpression:
		if member, ok := r.constant(e.Member); ok {
			return r.members(e.Left, member.text)
		}
	case *ast.CallExpression:
		return r.returned(e)
	case *ast.FunctionLiteral, *ast.ClassLiteral:
		return []string{"Function.prototype"} // its members are those of any function
	case *ast.ObjectLiteral:
		var all []string
		for _, p := range e.Value {
			if spread, ok := p.(*ast.SpreadElement); ok {
				all = append(all, r.refs(spread.Expression)...)
			}
		}
		return r.bound(all)
	}
	return nil
}

// bound keeps a list of paths short.
func (r *resolver) bound(refs []string) []string {
	kept := min(len(refs), maxRefs)
	r.tooManyRefs = r.tooManyRefs || slices.ContainsFunc(refs[kept:], dangerous)
	return refs[:kept]
}

// dangerous reports whether a path that is not followed must be reported.
func dangerous(ref string) bool {
	base, _, _ := strings.Cut(ref, ".")
	return ref != "Function.prototype" &&
		(escapeRules[base] != "" || slices.Contains([]string{"eval", "Function", "module", "fs"}, base))
}

// members returns the paths of a member of what an expression stands for.
func (r *resolver) members(of ast.Expression, name string) []string {
	var all []string
	for _, ref := range r.refs(of) {
		switch {
		case len(ref) > maxPath:
		case slices.Contains(globals, ref) && (ref != "this" || name != "constructor"):
			all = append(all, name)
		case name == "default" && !strings.Contains(ref, "."):
			all = append(all, ref) // of a module
		default:
			all = append(all, ref+"."+name)
		}
	}
	return all
}

// returned returns what a call gives back, where that is known: a module, the
// function that loads modules, or the function that was given.
func (r *resolver) returned(call *ast.CallExpression) []string {
	var all []string
	_, dynamic := call.Callee.(*ast.DynamicImportExpression)
	for _, ref := range append(slices.Clone(r.refs(call.Callee)), "") {
		switch {
		case loads(ref) || ref == "" && dynamic:
			if m, ok := r.argument(call, 0); ok {
				all = append(all, moduleName(m.text))
			}
		case strings.HasSuffix(ref, "createRequire"):
			all = append(all, "require")
		case strings.HasSuffix(ref, ".bind") && !strings.HasSuffix(ref, ".call.bind"): // of a method, a function
			all = append(all, strings.TrimSuffix(ref, ".bind"))
		case strings.HasSuffix(ref, "promisify") && len(call.ArgumentList) > 0:
			all = append(all, r.refs(call.ArgumentList[0])...)
		}
	}
	return r.bound(all)
}

// moduleName is the name of a module without its scheme.
func moduleName(name string) string {
	return strings.TrimPrefix(strings.TrimSuffix(name, "/promises"), "node:")
}

// learn finds out what names stand for.
func (r *resolver) learn() {
	r.names, r.texts, r.aliasesItself = map[string][]string{}, map[string]string{}, map[string]bool{}
	var assigned []assignment
	var collect func(n ast.Node)
	collect = func(n ast.Node) {
		switch n := n.(type) {
		case *ast.ImportDeclaration:
			r.imports(n)
		case *ast.ParameterList:
			for _, b := range n.List {
				assigned = append(assigned, assignment{b.Target, nil})
			}
			assigned = append(assigned, assignment{n.Rest, nil})
		case *ast.FunctionDeclaration:
			r.alias(n.Function.Name.Name.String(), "Function.prototype")
		case *ast.ClassDeclaration:
			r.alias(n.Class.Name.Name.String(), "Function.prototype")
		case *ast.Binding:
			if n.Initializer != nil {
				assigned = append(assigned, assignment{n.Target, n.Initializer})
			}
		case *ast.AssignExpression:
			value := n.Right
			if n.Operator != token.ASSIGN {
				value = nil
			}
			assigned = append(assigned, assignment{n.Left, value})
		case *ast.ForIntoVar:
			assigned = append(assigned, assignment{n.Binding.Target, nil})
		case *ast.ForDeclaration:
			assigned = append(assigned, assignment{n.Target, nil})
		case *ast.ForIntoExpression:
			assigned = append(assigned, assignment{n.Expression, nil})
		case *ast.CatchStatement:
			assigned = append(assigned, assignment{n.Parameter, nil})
		}
		eachChild(n, collect)
	}
	collect(r.tree.program)
	// An alias may be one of an alias of an alias.
	for before, round := 0, 0; round < minRounds || before != r.dangerousAliases; round++ {
		if r.n.stopped() {
			return
		}
		if before = r.dangerousAliases; round == maxRounds {
			r.tooManyRefs = true
			break
		}
		r.forget()
		r.unknown = map[string]bool{}
		for _, a := range assigned {
			r.assign(a)
		}
		for name := range r.unknown {
			delete(r.texts, name)
		}
	}
	r.forget()
}

// An assignment gives a value to what stands on the left. A nil value is unknown.
type assignment struct{ target, value ast.Expression }

// imports reads an import statement.
func (r *resolver) imports(n *ast.ImportDeclaration) {
	clause := n.ImportClause
	if clause == nil || n.FromClause == nil {
		return
	}
	m := moduleName(n.FromClause.ModuleSpecifier.String())
	if d := clause.ImportedDefaultBinding; d != nil {
		r.alias(d.Name.String(), m)
	}
	if space := clause.NameSpaceImport; space != nil {
		r.alias(space.ImportedBinding.String(), m)
	}
	if clause.NamedImports == nil {
		return
	}
	for _, x := range clause.NamedImports.ImportsList {
		name, of := x.IdentifierName.String(), m+"."+x.IdentifierName.String()
		if name == "default" {
			of = m
		}
		if x.Alias != "" {
			name = x.Alias.String()
		}
		r.alias(name, of)
	}
}

// alias notes that a name may stand for a path.
func (r *resolver) alias(name, ref string) {
	known := r.names[name]
	if ref == name {
		r.aliasesItself[name] = true
	}
	if ref == "" || ref == name || len(ref) > 200 || strings.HasPrefix(ref, name+".") || slices.Contains(known, ref) {
		return
	}
	if len(known) == maxRefs {
		r.tooManyRefs = r.tooManyRefs || dangerous(ref) // an honest name stands for one thing
		return
	}
	r.names[name] = append(known, ref)
	if dangerous(ref) {
		r.dangerousAliases++
	}
}

// assign notes what an assignment makes of names.
func (r *resolver) assign(a assignment) {
	switch target := a.target.(type) {
	case *ast.Identifier:
		r.assignName(target.Name.String(), a.value)
	case *ast.AssignExpression: // with a default
		r.assign(assignment{target.Left, a.value})
	case *ast.Binding:
		r.assign(assignment{target.Target, a.value})
	case *ast.ArrayPattern:
		list, _ := a.value.(*ast.ArrayLiteral)
		for i, element := range target.Elements {
			var value ast.Expression
			if list != nil && i < len(list.Value) {
				value = list.Value[i]
			}
			r.assign(assignment{element, value})
		}
	case *ast.ObjectPattern:
		for _, p := range target.Properties {
			switch p := p.(type) {
			case *ast.PropertyShort:
				r.assign(assignment{&p.Name, memberOf(a.value, p.Name)})
			case *ast.PropertyKeyed:
				var value ast.Expression
				if key, ok := p.Key.(*ast.StringLiteral); ok && !p.Computed {
					value = memberOf(a.value, ast.Identifier{Name: key.Value, Idx: key.Idx})
				}
				r.assign(assignment{p.Value, value})
			}
		}
		if target.Rest != nil {
			r.assign(assignment{target.Rest, a.value})
		}
	}
}

// memberOf returns the expression of a member of a value.
func memberOf(value ast.Expression, name ast.Identifier) ast.Expression {
	if value == nil {
		return nil
	}
	return &ast.DotExpression{Left: value, Identifier: name}
}

// assignName notes what a name is assigned.
func (r *resolver) assignName(name string, value ast.Expression) {
	t, ok := jsText{}, false
	if value != nil {
		t, ok = r.constant(value)
	}
	if had, known := r.texts[name]; !ok || known && had != t.text {
		r.unknown[name] = true
	}
	if ok {
		r.texts[name] = t.text
		return
	}
	if value == nil {
		return
	}
	for _, ref := range r.refs(value) {
		r.alias(name, ref)
	}
}
