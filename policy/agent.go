package policy

import (
	"fmt"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"

	"haft"
)

// The variables of expressions that mean the agent. The first means both others.
const (
	agentAny  = "principal.agent"
	agentName = "principal.agent_name"
	agentID   = "principal.agent_id"
)

// anyAgent is an optimizer that replaces principal.agent by the name and the id of the
// agent, so that an expression means the same agent by either, also if it has some of
// both. It works on the smallest part P that is true or false and has the variable:
//
//	==, in                         P for the name || P for the id
//	!=                             P for the name && P for the id
//	others with a text with "ag_"  the same; it may be about an id
//	others                         P for the name: startsWith("a") is not every id
//
// A list that has the variable and is iterated over, such as [principal.agent].all(…),
// has the id if P has a text with "ag_", and else the name: what its part says of an
// element may be negated, and then neither || nor && is right.
type anyAgent struct{}

// withAgent has principal.agent in an expression mean the agent by its name and its id.
func withAgent(env *cel.Env, checked *cel.Ast) (*cel.Ast, error) {
	opt, err := cel.NewStaticOptimizer(anyAgent{})
	if err != nil {
		return nil, fmt.Errorf("prepare: %w", err)
	}
	out, issues := opt.Optimize(env, checked)
	if err := issues.Err(); err != nil {
		return nil, fmt.Errorf("prepare: %w", err)
	}
	return out, nil
}

// Optimize implements [cel.ASTOptimizer].
func (anyAgent) Optimize(ctx *cel.OptimizerContext, a *ast.AST) *ast.AST {
	for {
		// The deepest comes first: what is around it is copied with what it became.
		found := ast.MatchDescendants(ast.NavigateAST(a), isIdent(agentAny))
		if len(found) == 0 {
			return a
		}
		deepest := slices.MaxFunc(found, func(x, y ast.NavigableExpr) int { return x.Depth() - y.Depth() })
		part, compared, iterated := booleanPart(deepest)
		switch id := namesID(part); {
		case iterated && id:
			rename(ctx, part, agentID)
			continue
		case iterated, !compared && !id:
			rename(ctx, part, agentName)
			continue
		}
		join := operators.LogicalOr
		if isCall(part, operators.NotEquals) {
			join = operators.LogicalAnd
		}
		byName, byID := ctx.CopyASTAndMetadata(ctx.NewAST(part)), ctx.CopyASTAndMetadata(ctx.NewAST(part))
		rename(ctx, byName, agentName)
		rename(ctx, byID, agentID)
		ctx.UpdateExpr(part, ctx.NewCall(join, byName, byID))
	}
}

// booleanPart returns the smallest part around a variable that is true or false, and whether
// it compares the variable itself with something, or iterates over it.
func booleanPart(variable ast.NavigableExpr) (part ast.NavigableExpr, compared, iterated bool) {
	compared = true
	for part = variable; ; {
		up, ok := part.Parent()
		if !ok {
			return part, false, iterated
		}
		part = up
		iterated = iterated || part.Kind() == ast.ComprehensionKind
		if part.Type().IsExactType(types.BoolType) {
			return part, compared && isCall(part, operators.Equals, operators.NotEquals, operators.In), iterated
		}
		compared = compared && (part.Kind() == ast.ListKind || isCall(part, operators.Conditional))
	}
}

// namesID reports whether a part has a text that may be about the id of an agent.
func namesID(part ast.NavigableExpr) bool {
	return len(ast.MatchDescendants(part, func(e ast.NavigableExpr) bool {
		if e.Kind() != ast.LiteralKind {
			return false
		}
		text, ok := e.AsLiteral().Value().(string)
		return ok && strings.Contains(text, haft.AgentIDPrefix)
	})) > 0
}

// rename has a part mean the agent by another variable.
func rename(ctx *cel.OptimizerContext, part ast.Expr, name string) {
	ast.PostOrderVisit(part, ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.IdentKind && e.AsIdent() == agentAny {
			ctx.UpdateExpr(e, ctx.NewIdent(name))
		}
	}))
}

// isIdent matches a variable.
func isIdent(name string) ast.ExprMatcher {
	return func(e ast.NavigableExpr) bool { return e.Kind() == ast.IdentKind && e.AsIdent() == name }
}

// isCall reports whether an expression is a call of one of these functions.
func isCall(e ast.Expr, names ...string) bool {
	return e.Kind() == ast.CallKind && slices.Contains(names, e.AsCall().FunctionName())
}
