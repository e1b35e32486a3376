package review

import (
	"slices"
	"strings"

	"github.com/grafana/sobek/ast"
	"github.com/grafana/sobek/token"
)

// How a constant came about.
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

// known keeps what is known of expressions, so that each is looked at once
// however many are around it.
type known struct {
	constants map[ast.Expression]*jsText // nil if it is not constant
	refs      map[ast.Expression][]string
}

// forget drops what is known, because names have got other meanings.
func (s *script) forget() {
	s.known = known{map[ast.Expression]*jsText{}, map[ast.Expression][]string{}}
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

// The bounds on what a name may stand for. What is dangerous is short.
const (
	maxPath   = 400
	maxRefs   = 16
	minRounds = 3 // of learning what names stand for
	maxRounds = 8
)

// refs returns the paths that an expression may stand for, such as
// child_process.exec. It follows names through imports and assignments.
func (s *script) refs(e ast.Expression) []string {
	refs, ok := s.known.refs[e]
	if !ok {
		refs = s.resolve(e)
		s.known.refs[e] = refs
	}
	return refs
}

// resolve is refs for an expression that is not known.
func (s *script) resolve(e ast.Expression) []string {
	switch e := unwrap(e).(type) {
	case *ast.ThisExpression:
		return []string{"this"}
	case *ast.Identifier:
		name := strings.TrimPrefix(e.Name.String(), unbound)
		known := s.names[name]
		if len(known) > 0 && (name == "fs" || name == "child_process") {
			return known // such a name is no module by itself
		}
		return append(slices.Clone(known), name)
	case *ast.SequenceExpression:
		return s.refs(e.Sequence[len(e.Sequence)-1])
	case *ast.AssignExpression:
		return s.refs(e.Right)
	case *ast.ConditionalExpression:
		return s.bound(slices.Concat(s.refs(e.Consequent), s.refs(e.Alternate)))
	case *ast.BinaryExpression:
		switch e.Operator {
		case token.LOGICAL_AND:
			return s.refs(e.Right)
		case token.LOGICAL_OR, token.COALESCE:
			return s.bound(slices.Concat(s.refs(e.Left), s.refs(e.Right)))
		}
	case *ast.DotExpression:
		return s.members(e.Left, e.Identifier.Name.String())
	case *ast.BracketExpression:
		if member, ok := s.constant(e.Member); ok {
			return s.members(e.Left, member.text)
		}
	case *ast.CallExpression:
		return s.returned(e)
	case *ast.FunctionLiteral, *ast.ClassLiteral:
		return []string{"Function.prototype"} // its members are those of any function
	case *ast.ObjectLiteral:
		var all []string
		for _, p := range e.Value {
			if spread, ok := p.(*ast.SpreadElement); ok {
				all = append(all, s.refs(spread.Expression)...)
			}
		}
		return s.bound(all)
	}
	return nil
}

// bound keeps a list of paths short.
func (s *script) bound(refs []string) []string {
	kept := min(len(refs), maxRefs)
	s.tooManyRefs = s.tooManyRefs || slices.ContainsFunc(refs[kept:], dangerous)
	return refs[:kept]
}

// dangerous reports whether a path that is not followed must be reported.
func dangerous(ref string) bool {
	base, _, _ := strings.Cut(ref, ".")
	return ref != "Function.prototype" &&
		(escapeRules[base] != "" || slices.Contains([]string{"eval", "Function", "module", "fs"}, base))
}

// members returns the paths of a member of what an expression stands for.
func (s *script) members(of ast.Expression, name string) []string {
	var all []string
	for _, ref := range s.refs(of) {
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
func (s *script) returned(call *ast.CallExpression) []string {
	var all []string
	_, dynamic := call.Callee.(*ast.DynamicImportExpression)
	for _, ref := range append(slices.Clone(s.refs(call.Callee)), "") {
		switch {
		case loads(ref) || ref == "" && dynamic:
			if m, ok := s.argument(call, 0); ok {
				all = append(all, moduleName(m.text))
			}
		case strings.HasSuffix(ref, "createRequire"):
			all = append(all, "require")
		case strings.HasSuffix(ref, ".bind") && !strings.HasSuffix(ref, ".call.bind"): // of a method, a function
			all = append(all, strings.TrimSuffix(ref, ".bind"))
		case strings.HasSuffix(ref, "promisify") && len(call.ArgumentList) > 0:
			all = append(all, s.refs(call.ArgumentList[0])...)
		}
	}
	return s.bound(all)
}

// moduleName is the name of a module without its scheme.
func moduleName(name string) string {
	return strings.TrimPrefix(strings.TrimSuffix(name, "/promises"), "node:")
}

// learn finds out what names stand for.
func (s *script) learn() {
	s.names, s.texts, s.aliasesItself = map[string][]string{}, map[string]string{}, map[string]bool{}
	var assigned []assignment
	var collect func(n ast.Node)
	collect = func(n ast.Node) {
		switch n := n.(type) {
		case *ast.ImportDeclaration:
			s.imports(n)
		case *ast.ParameterList:
			for _, b := range n.List {
				assigned = append(assigned, assignment{b.Target, nil})
			}
			assigned = append(assigned, assignment{n.Rest, nil})
		case *ast.FunctionDeclaration:
			s.alias(n.Function.Name.Name.String(), "Function.prototype")
		case *ast.ClassDeclaration:
			s.alias(n.Class.Name.Name.String(), "Function.prototype")
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
	collect(s.program)
	// An alias may be one of an alias of an alias.
	for before, round := 0, 0; round < minRounds || before != s.dangerousAliases; round++ {
		if s.n.stopped() {
			return
		}
		if before = s.dangerousAliases; round == maxRounds {
			s.tooManyRefs = true
			break
		}
		s.forget()
		s.unknown = map[string]bool{}
		for _, a := range assigned {
			s.assign(a)
		}
		for name := range s.unknown {
			delete(s.texts, name)
		}
	}
	s.forget()
}

// An assignment gives a value to what stands on the left. A nil value is unknown.
type assignment struct{ target, value ast.Expression }

// imports reads an import statement.
func (s *script) imports(n *ast.ImportDeclaration) {
	clause := n.ImportClause
	if clause == nil || n.FromClause == nil {
		return
	}
	m := moduleName(n.FromClause.ModuleSpecifier.String())
	if d := clause.ImportedDefaultBinding; d != nil {
		s.alias(d.Name.String(), m)
	}
	if space := clause.NameSpaceImport; space != nil {
		s.alias(space.ImportedBinding.String(), m)
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
		s.alias(name, of)
	}
}

// alias notes that a name may stand for a path.
func (s *script) alias(name, ref string) {
	known := s.names[name]
	if ref == name {
		s.aliasesItself[name] = true
	}
	if ref == "" || ref == name || len(ref) > 200 || strings.HasPrefix(ref, name+".") || slices.Contains(known, ref) {
		return
	}
	if len(known) == maxRefs {
		s.tooManyRefs = s.tooManyRefs || dangerous(ref) // an honest name stands for one thing
		return
	}
	s.names[name] = append(known, ref)
	if dangerous(ref) {
		s.dangerousAliases++
	}
}

// assign notes what an assignment makes of names.
func (s *script) assign(a assignment) {
	switch target := a.target.(type) {
	case *ast.Identifier:
		s.assignName(target.Name.String(), a.value)
	case *ast.AssignExpression: // with a default
		s.assign(assignment{target.Left, a.value})
	case *ast.Binding:
		s.assign(assignment{target.Target, a.value})
	case *ast.ArrayPattern:
		list, _ := a.value.(*ast.ArrayLiteral)
		for i, element := range target.Elements {
			var value ast.Expression
			if list != nil && i < len(list.Value) {
				value = list.Value[i]
			}
			s.assign(assignment{element, value})
		}
	case *ast.ObjectPattern:
		for _, p := range target.Properties {
			switch p := p.(type) {
			case *ast.PropertyShort:
				s.assign(assignment{&p.Name, memberOf(a.value, p.Name)})
			case *ast.PropertyKeyed:
				var value ast.Expression
				if key, ok := p.Key.(*ast.StringLiteral); ok && !p.Computed {
					value = memberOf(a.value, ast.Identifier{Name: key.Value, Idx: key.Idx})
				}
				s.assign(assignment{p.Value, value})
			}
		}
		if target.Rest != nil {
			s.assign(assignment{target.Rest, a.value})
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
func (s *script) assignName(name string, value ast.Expression) {
	t, ok := jsText{}, false
	if value != nil {
		t, ok = s.constant(value)
	}
	if had, known := s.texts[name]; !ok || known && had != t.text {
		s.unknown[name] = true
	}
	if ok {
		s.texts[name] = t.text
		return
	}
	if value == nil {
		return
	}
	for _, ref := range s.refs(value) {
		s.alias(name, ref)
	}
}
