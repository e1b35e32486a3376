package review

import (
	"slices"

	"github.com/grafana/sobek/ast"
	"github.com/grafana/sobek/token"
)

// ancestors are the nodes around the current one, from the outermost, and the current node
// itself.
type ancestors []ast.Node

// parent returns the node around the current one, and its child that holds the current
// one, without the marks of optional chaining.
func (a ancestors) parent() (parent, child ast.Node) {
	child = a[len(a)-1]
	for i := len(a) - 2; i >= 0; i-- {
		switch parent := a[i].(type) {
		case *ast.OptionalChain, *ast.Optional:
			child = parent
		default:
			return parent, child
		}
	}
	return nil, child
}

// enclosingCall returns the call of the current node, or nil. A construction and a
// template with a tag are calls too.
func (a ancestors) enclosingCall() *ast.CallExpression {
	switch parent, child := a.parent(); n := parent.(type) {
	case *ast.CallExpression:
		if n.Callee == child {
			return n
		}
	case *ast.NewExpression:
		if n.Callee == child {
			at := n.LeftParenthesis
			return &ast.CallExpression{Callee: n.Callee, ArgumentList: n.ArgumentList, LeftParenthesis: at}
		}
	case *ast.TemplateLiteral:
		if n.Tag == child {
			return &ast.CallExpression{Callee: n.Tag, LeftParenthesis: n.OpenQuote}
		}
	}
	return nil
}

// assigned returns the value that is assigned to the current node, or nil.
func (a ancestors) assigned() ast.Expression {
	if parent, child := a.parent(); parent != nil {
		if n, ok := parent.(*ast.AssignExpression); ok && n.Left == child {
			return n.Right
		}
	}
	return nil
}

// constructed reports whether the current node is called by new.
func (a ancestors) constructed() bool {
	parent, _ := a.parent()
	_, ok := parent.(*ast.NewExpression)
	return ok
}

// isHandedOn reports whether process.env, the current node, is only passed to a
// child, given a name, tested, or looked into for one variable.
func (a ancestors) isHandedOn() bool {
	for i := len(a) - 2; i >= 0; i-- {
		child := a[i+1]
		switch n := a[i].(type) {
		case *ast.OptionalChain, *ast.Optional, *ast.SpreadElement, *ast.ObjectLiteral:
			continue
		case *ast.PropertyShort, *ast.BracketExpression, *ast.UnaryExpression:
			return true
		case *ast.Binding:
			return followed(n.Target)
		case *ast.FieldDefinition:
			return isText(n.Key, "env")
		case *ast.AssignExpression:
			member, ok := n.Left.(*ast.DotExpression)
			return n.Left == child || followed(n.Left) || ok && member.Identifier.Name == "env"
		case *ast.PropertyKeyed:
			return isText(n.Key, "env")
		case *ast.ConditionalExpression:
			return n.Test == child
		case *ast.BinaryExpression:
			if n.Operator == token.LOGICAL_AND && n.Right == child {
				continue // as in process && process.env && process.env.HOME
			}
			return n.Operator == token.IN || n.Left == child
		}
		return false
	}
	return false
}

// callAround returns the call whose function the current node may be, as in
// (0, eval)(...).
func (a ancestors) callAround() *ast.CallExpression {
	if call := a.enclosingCall(); call != nil {
		return call
	}
	for i := len(a) - 2; i >= 0; i-- {
		switch n := a[i].(type) {
		case *ast.CallExpression:
			if n.Callee == a[i+1] {
				return n
			}
			return nil
		case *ast.SequenceExpression, *ast.ConditionalExpression, *ast.BinaryExpression, *ast.AssignExpression,
			*ast.DotExpression, *ast.OptionalChain, *ast.Optional:
		default:
			return nil
		}
	}
	return nil
}

// exported reports whether the current node is part of a declaration that other files see.
func (a ancestors) exported() bool {
	return slices.ContainsFunc(a, func(n ast.Node) bool { _, ok := n.(*ast.ExportDeclaration); return ok })
}
