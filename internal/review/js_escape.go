package review

import (
	"slices"
	"strings"

	"github.com/grafana/sobek/ast"
	"github.com/grafana/sobek/file"
	"github.com/grafana/sobek/token"
)

// escapeRules are the rules for values that escape: they are passed to a function, stored
// in an object or returned, and their further use is unknown.
var escapeRules = map[string]string{
	"globalThis": "js-computed-global", "global": "js-computed-global", "window": "js-computed-global",
	"process": "js-computed-global", "require": "js-import-computed", "process.getBuiltinModule": "js-import-computed",
	"process.binding": "js-native", "child_process": "js-shell", "child_process.exec": "js-shell",
	"child_process.execSync": "js-shell", "child_process.spawn": "js-shell", "child_process.spawnSync": "js-shell",
	"child_process.execFile": "js-shell", "child_process.execFileSync": "js-shell",
}

// escape adds a finding if the value of a path, at the current node, escapes.
func (s *script) escape(ref string, at file.Idx) {
	for _, method := range []string{".call", ".apply"} { // they change the arguments
		if of, ok := strings.CutSuffix(ref, method); ok && escapeRules[of] != "" {
			s.found(escapeRules[of], at)
		}
	}
	name, ok := s.ancestors[len(s.ancestors)-1].(*ast.Identifier)
	if ok && name.Name.String() == ref && !s.values.aliasesItself[ref] &&
		slices.Contains([]string{"process", "global", "window"}, ref) {
		return // a variable
	}
	if rule := escapeRules[ref]; rule != "" && s.escapes() {
		s.found(rule, at)
	}
}

// escapes reports whether the value of the current node escapes.
func (s *script) escapes() bool {
	for i := len(s.ancestors) - 2; i >= 0; i-- {
		child := s.ancestors[i+1]
		switch n := s.ancestors[i].(type) {
		case *ast.OptionalChain, *ast.Optional, *ast.AwaitExpression:
			continue
		case *ast.ConditionalExpression:
			if n.Test == child {
				return false
			}
			continue
		case *ast.BinaryExpression:
			switch n.Operator {
			case token.LOGICAL_AND, token.LOGICAL_OR, token.COALESCE:
				continue
			}
			return false
		case *ast.SequenceExpression:
			if n.Sequence[len(n.Sequence)-1] != child {
				return false
			}
			continue
		case *ast.AssignExpression:
			return n.Left != child && (!followed(n.Left) || s.n.several)
		case *ast.Binding:
			return n.Initializer == child && (!followed(n.Target) || s.n.several && s.ancestors.exported())
		case *ast.ArrayPattern:
			return false
		case *ast.PropertyShort: // of a pattern, which is a target
			if _, pattern := s.ancestors[max(i-1, 0)].(*ast.ObjectPattern); pattern && n.Initializer != child {
				return false
			}
		case *ast.PropertyKeyed:
			if _, pattern := s.ancestors[max(i-1, 0)].(*ast.ObjectPattern); pattern && n.Value == child {
				return false
			}
		case *ast.SpreadElement: // refs follows it into an object
			_, object := s.ancestors[max(i-1, 0)].(*ast.ObjectLiteral)
			return !object
		case *ast.CallExpression:
			return n.Callee != child && !slices.ContainsFunc(s.values.refs(n.Callee), isPromisify)
		case *ast.NewExpression:
			return n.Callee != child
		case *ast.DotExpression, *ast.UnaryExpression, *ast.ExpressionStatement, *ast.IfStatement:
			return false
		case *ast.BracketExpression:
			return n.Left != child
		}
		return true
	}
	return false
}

// isPromisify reports whether a path is a function that returned follows.
func isPromisify(ref string) bool { return strings.HasSuffix(ref, "promisify") }

// followed reports whether assign follows a value into a target: a name, or the
// names of known members.
func followed(target ast.Expression) bool {
	switch target := target.(type) {
	case *ast.Identifier:
		return true
	case *ast.ObjectPattern:
		return !slices.ContainsFunc(target.Properties, func(p ast.Property) bool {
			keyed, ok := p.(*ast.PropertyKeyed)
			return ok && keyed.Computed
		})
	}
	return false
}

// this looks at the word this. In a function that is no method it is the global
// object, in code that is not strict.
func (s *script) this(at file.Idx) {
	parent, child := s.ancestors.parent()
	switch n := parent.(type) {
	case *ast.ReturnStatement:
	case *ast.BracketExpression:
		_, number := n.Member.(*ast.NumberLiteral)
		if _, constant := s.values.constant(n.Member); constant || number || n.Left != child {
			return
		}
	default:
		return
	}
	for i := len(s.ancestors) - 1; i > s.tree.added; i-- {
		if _, ok := s.ancestors[i].(*ast.FunctionLiteral); !ok {
			continue
		}
		switch s.ancestors[i-1].(type) {
		case *ast.FunctionDeclaration, *ast.CallExpression, *ast.Binding, *ast.DotExpression, *ast.BracketExpression:
			s.found("js-computed-global", at)
		}
		return
	}
}

// loads reports whether a path is a function that loads the module it is given.
func loads(ref string) bool {
	return ref == "require" || strings.HasSuffix(ref, ".require") || ref == "process.getBuiltinModule"
}

// patternKeys looks at the members that a pattern takes out of a value.
func (s *script) patternKeys(n *ast.ObjectPattern) {
	for _, p := range n.Properties {
		switch p := p.(type) {
		case *ast.PropertyShort:
			if p.Name.Name == "constructor" {
				s.found("js-constructor", p.Name.Idx)
			}
		case *ast.PropertyKeyed:
			if key, ok := s.values.constant(p.Key); ok && key.text == "constructor" {
				s.found("js-constructor", p.Key.Idx0())
			}
		}
	}
}
