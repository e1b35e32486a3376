package review

import (
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/grafana/sobek/ast"
	"github.com/grafana/sobek/file"
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

// constant returns the value of an expression that is always the same text.
func (s *script) constant(e ast.Expression) (jsText, bool) {
	t, ok := s.known.constants[e]
	if !ok {
		if value, constant := s.evaluate(e); constant {
			t = &value
		}
		s.known.constants[e] = t
	}
	if t == nil {
		return jsText{}, false
	}
	return *t, true
}

// evaluate is constant for an expression that is not known.
func (s *script) evaluate(e ast.Expression) (jsText, bool) {
	switch e := e.(type) {
	case *ast.StringLiteral:
		return s.literal(e.Value.String(), e.Idx), true
	case *ast.TemplateLiteral:
		return s.template(e)
	case *ast.Identifier:
		text, ok := s.texts[e.Name.String()]
		return jsText{text, jsWritten}, ok
	case *ast.SequenceExpression:
		return s.constant(e.Sequence[len(e.Sequence)-1])
	case *ast.BinaryExpression:
		if e.Operator != token.PLUS {
			return jsText{}, false
		}
		left, ok := s.constant(e.Left)
		if !ok {
			return jsText{}, false
		}
		right, ok := s.constant(e.Right)
		return left.join(right), ok && len(left.text)+len(right.text) <= maxWord
	case *ast.CallExpression:
		if text, ok := s.decoded(e); ok {
			return text, true
		}
		return s.joined(e)
	}
	return jsText{}, false
}

// join puts two texts together.
func (t jsText) join(more jsText) jsText {
	return jsText{t.text + more.text, max(t.made, more.made, jsJoined)}
}

// literal returns the value of a string. esbuild puts literals together and reads
// their escapes, so how it was made is in the source.
func (s *script) literal(text string, at file.Idx) jsText {
	t := jsText{text: text}
	written := s.written(at)
	switch characters, escapes := measure(written); {
	case written == "":
	case escapes > 2:
		t.made = jsMade
	case characters != utf8.RuneCountInString(t.text):
		t.made = jsJoined
	}
	return t
}

// measure returns how many characters a string literal has, and how many
// printable ones of them are written as escapes.
func measure(literal string) (characters, escapes int) {
	if len(literal) < 2 {
		return 0, 0
	}
	body := literal[1 : len(literal)-1]
	if !strings.Contains(body, `\`) {
		return utf8.RuneCountInString(body), 0
	}
	for _, c := range jsCharacter().FindAllString(body, -1) {
		if c != "\\\n" && c != "\\\r\n" {
			characters++
		}
		if len(c) < 3 || c[0] != '\\' {
			continue
		}
		base := 16
		if c[1] <= '7' {
			base = 8
		}
		if v, err := strconv.ParseUint(strings.Trim(c, `\xu{}`), base, 32); err == nil && v > ' ' && v < 0x7f {
			escapes++
		}
	}
	return characters, escapes
}

// jsCharacter finds one character of a string, or an escape.
var jsCharacter = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?s)\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|u\{[0-9a-fA-F]+\}|[0-7]{1,3}|\r\n|.)|.`)
})

// template returns the value of a template whose parts are constants.
func (s *script) template(e *ast.TemplateLiteral) (jsText, bool) {
	if e.Tag != nil {
		return jsText{}, false
	}
	if len(e.Expressions) == 0 && len(e.Elements) == 1 {
		return s.literal(e.Elements[0].Parsed.String(), e.OpenQuote), true
	}
	var t jsText
	for i, part := range e.Elements {
		t.text += part.Parsed.String()
		if i < len(e.Expressions) {
			value, ok := s.constant(e.Expressions[i])
			if t = t.join(value); !ok || len(t.text) > maxWord {
				return t, false
			}
		}
	}
	return t, true
}

// decoded returns the value of a call that makes text from codes or from another
// text, such as atob.
func (s *script) decoded(call *ast.CallExpression) (jsText, bool) {
	for _, ref := range s.refs(call.Callee) {
		switch ref {
		case "atob", "decodeURIComponent", "unescape", "decodeURI", "Buffer.from":
			arg, ok := s.argument(call, 0)
			if !ok {
				return jsText{}, false
			}
			how := map[string]string{"atob": "base64", "Buffer.from": "utf8"}[ref]
			if second, ok := s.argument(call, 1); ok {
				how = second.text
			}
			return jsText{decodeText(arg.text, how), jsMade}, true
		case "String.fromCharCode", "String.fromCodePoint":
			var b strings.Builder
			for _, arg := range call.ArgumentList {
				number, ok := arg.(*ast.NumberLiteral)
				if !ok {
					return jsText{}, false
				}
				if v, err := strconv.ParseUint(number.Literal, 0, 21); err == nil {
					b.WriteRune(rune(v))
				}
			}
			return jsText{b.String(), jsMade}, true
		}
	}
	return jsText{}, false
}

// argument returns an argument of a call, if it is constant.
func (s *script) argument(call *ast.CallExpression, i int) (jsText, bool) {
	if i >= len(call.ArgumentList) {
		return jsText{}, false
	}
	return s.constant(call.ArgumentList[i])
}

// decodeText undoes an encoding. What does not decode stays as it is.
func decodeText(text, how string) string {
	switch strings.ToLower(how) {
	case "base64", "base64url":
		clean := strings.TrimRight(strings.NewReplacer("-", "+", "_", "/").Replace(text), "=")
		if out, err := base64.RawStdEncoding.DecodeString(clean); err == nil {
			return string(out)
		}
	case "hex":
		if out, err := hex.DecodeString(text); err == nil {
			return string(out)
		}
	case "":
		if out, err := url.PathUnescape(text); err == nil {
			return out
		}
	}
	return text
}

// joined returns the value of ["a", "b"].join("").
func (s *script) joined(call *ast.CallExpression) (jsText, bool) {
	callee, ok := unwrap(call.Callee).(*ast.DotExpression)
	if !ok || callee.Identifier.Name != "join" {
		return jsText{}, false
	}
	list, ok := s.list(callee.Left)
	glue, given := s.argument(call, 0)
	if !given {
		glue.text = ","
	}
	text := strings.Join(list, glue.text)
	return jsText{text, jsMade}, ok && len(text) <= maxWord
}

// list returns the elements of a constant list.
func (s *script) list(e ast.Expression) ([]string, bool) {
	switch e := e.(type) {
	case *ast.ArrayLiteral:
		var all []string
		for _, element := range e.Value {
			t, ok := s.constant(element)
			if !ok {
				return nil, false
			}
			all = append(all, t.text)
		}
		return all, true
	case *ast.CallExpression:
		callee, ok := unwrap(e.Callee).(*ast.DotExpression)
		if !ok {
			return nil, false
		}
		switch callee.Identifier.Name {
		case "reverse":
			all, ok := s.list(callee.Left)
			slices.Reverse(all)
			return all, ok
		case "split":
			t, ok := s.constant(callee.Left)
			separator, constant := s.argument(e, 0)
			return strings.Split(t.text, separator.text), ok && constant
		}
	}
	return nil, false
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
	maxPath = 400
	maxRefs = 16
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
		name := e.Name.String()
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
		return bound(slices.Concat(s.refs(e.Consequent), s.refs(e.Alternate)))
	case *ast.BinaryExpression:
		switch e.Operator {
		case token.LOGICAL_AND:
			return s.refs(e.Right)
		case token.LOGICAL_OR, token.COALESCE:
			return bound(slices.Concat(s.refs(e.Left), s.refs(e.Right)))
		}
	case *ast.DotExpression:
		return s.members(e.Left, e.Identifier.Name.String())
	case *ast.BracketExpression:
		if member, ok := s.constant(e.Member); ok {
			return s.members(e.Left, member.text)
		}
	case *ast.CallExpression:
		return s.returned(e)
	}
	return nil
}

// bound keeps a list of paths short.
func bound(refs []string) []string { return refs[:min(len(refs), maxRefs)] }

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
		case ref == "require" || ref == "" && dynamic:
			if m, ok := s.argument(call, 0); ok {
				all = append(all, module(m.text))
			}
		case strings.HasSuffix(ref, "createRequire"):
			all = append(all, "require")
		case strings.HasSuffix(ref, ".bind") && !strings.HasSuffix(ref, ".call.bind"): // of a method, a function
			all = append(all, strings.TrimSuffix(ref, ".bind"))
		case strings.HasSuffix(ref, "promisify") && len(call.ArgumentList) > 0:
			all = append(all, s.refs(call.ArgumentList[0])...)
		}
	}
	return bound(all)
}

// module is the name of a module without its scheme.
func module(name string) string {
	return strings.TrimPrefix(strings.TrimSuffix(name, "/promises"), "node:")
}

// learn finds out what names stand for.
func (s *script) learn() {
	s.names, s.texts = map[string][]string{}, map[string]string{}
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
		children(n, collect)
	}
	collect(s.program)
	for range 3 { // an alias of an alias of an alias
		if s.n.stopped() {
			return
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
	m := module(n.FromClause.ModuleSpecifier.String())
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
	if ref == "" || ref == name || len(ref) > 200 || strings.HasPrefix(ref, name+".") || slices.Contains(known, ref) {
		return
	}
	if len(known) == maxRefs {
		known = known[:maxRefs-1] // an honest name stands for one thing
	}
	s.names[name] = append(known, ref)
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
