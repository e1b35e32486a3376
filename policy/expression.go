package policy

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/interpreter"

	"haft"
	"haft/internal/jsontree"
)

// The bounds on expressions.
const (
	MaxExpression = 2000 // characters
	// maxCost bounds the evaluation of one expression, in units of CEL: at
	// worst some hundreds of nanoseconds each. It is enough to look for a pattern
	// in a text of half a megabyte.
	maxCost = 500_000
	// maxCostAll bounds all expressions of one decision together.
	maxCostAll = 1_000_000
	// maxMemory bounds the elements and characters that live at once.
	maxMemory = 32 << 20
)

// newEnv returns the environment of expressions. Only the standard library of CEL
// and [pathFunctions] are there: their costs are known, and they know neither the time
// nor chance. The
// variables are declared one by one, so that a misspelt one is found when the
// policy is compiled.
func newEnv() (*cel.Env, error) {
	env, err := cel.NewEnv(
		cel.Variable("principal.org", cel.StringType),
		cel.Variable("principal.user", cel.StringType),
		cel.Variable(agentAny, cel.StringType), // see [anyAgent]
		cel.Variable(agentName, cel.StringType),
		cel.Variable(agentID, cel.StringType),
		cel.Variable("principal.roles", cel.ListType(cel.StringType)),
		cel.Variable("tool.name", cel.StringType),
		cel.Variable("tool.kind", cel.StringType),
		cel.Variable("tool.category", cel.StringType),
		cel.Variable("tool.digest", cel.StringType),
		cel.Variable("tool.tags", cel.ListType(cel.StringType)),
		cel.Variable("tool.version", cel.IntType),
		cel.Variable("annotations.readOnlyHint", cel.BoolType),
		cel.Variable("annotations.destructiveHint", cel.BoolType),
		cel.Variable("annotations.idempotentHint", cel.BoolType),
		cel.Variable("annotations.openWorldHint", cel.BoolType),
		cel.Variable("workspace.name", cel.StringType),
		cel.Variable("workspace.read_only", cel.BoolType),
		cel.Variable("workspace.origins", cel.ListType(cel.StringType)),
		cel.Variable("requirements.pip", cel.ListType(cel.StringType)),
		cel.Variable("requirements.npm", cel.ListType(cel.StringType)),
		cel.Variable("args", cel.MapType(cel.StringType, cel.DynType)),
		pathFunctions(),
		cel.ParserExpressionSizeLimit(MaxExpression),
		cel.ParserRecursionLimit(50),
		cel.CrossTypeNumericComparisons(true),
	)
	if err != nil {
		return nil, fmt.Errorf("prepare expressions: %w", err)
	}
	return env, nil
}

// compileExpression compiles the expression of a rule. The error is about the
// expression, which is the author's, and may be shown.
func compileExpression(env *cel.Env, text string) (*condition, error) {
	ast, issues := env.Compile(text)
	if err := issues.Err(); err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n")
		return nil, fmt.Errorf("%s", short(strings.TrimPrefix(first, "ERROR: <input>:")))
	}
	if t := ast.OutputType(); !t.IsExactType(cel.BoolType) && !t.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("it gives %s and must give bool", t)
	}
	ast, err := withAgent(env, ast)
	if err != nil {
		return nil, err
	}
	program, err := env.Program(ast, cel.CostLimit(maxCost), cel.MemoryLimit(maxMemory), pathCosts())
	if err != nil {
		return nil, fmt.Errorf("prepare: %w", err)
	}
	return &condition{program}, nil
}

// condition is a compiled expression.
type condition struct{ program cel.Program }

// evaluation holds the variables of one request. They are made when the first
// expression needs them.
type evaluation struct {
	req  *Request
	vars map[string]any
	err  error  // why there are no variables
	cost uint64 // of all expressions so far
}

// errCostly says that an expression, or all of them together, cost too much.
var errCostly = errors.New("its expression takes too long on these arguments")

// holds evaluates an expression. The error says why it cannot be, without any
// value of the request.
func (e *evaluation) holds(c *condition) (bool, error) {
	if e.vars == nil && e.err == nil {
		e.vars, e.err = variables(e.req)
	}
	if e.err != nil {
		return false, e.err
	}
	if e.cost > maxCostAll {
		return false, errCostly
	}
	out, details, err := c.program.Eval(e.vars)
	if details != nil && details.ActualCost() != nil {
		e.cost += *details.ActualCost()
	}
	if _, ok := errors.AsType[interpreter.EvalCancelledError](err); ok || e.cost > maxCostAll {
		return false, errCostly
	}
	if errors.Is(err, errPath) {
		return false, errPath
	}
	if err != nil {
		// The text of the error may hold a value.
		return false,
			errors.New("its expression does not fit these arguments; one that may be missing is asked for first: " +
				"has(args.name)")
	}
	truth, ok := out.Value().(bool)
	if !ok {
		return false, errors.New("its expression gives something else than true or false")
	}
	return truth, nil
}

// variables binds the variables of expressions.
func variables(req *Request) (map[string]any, error) {
	tree, err := req.tree()
	if err != nil {
		return nil, err
	}
	p, t, a := req.Principal, req.Tool, req.Annotations
	agent, w := cmp.Or(req.AgentName, p.Agent), cmp.Or(req.Workspace, new(haft.CallWorkspace))
	return map[string]any{
		"principal.org": p.Org, "principal.user": p.User, // CEL reads a nil list as null.
		"principal.roles": append([]string{}, p.Roles...),
		agentName:         agent, agentID: p.Agent,
		"tool.name": t.Name, "tool.kind": string(t.Version.Kind), "tool.category": t.Category,
		"tool.digest": t.Version.Digest, "tool.tags": append([]string{}, t.Tags...),
		"tool.version": int64(t.Version.Number),
		// What MCP assumes of a tool that says nothing is the worse.
		"annotations.readOnlyHint":    *cmp.Or(a.ReadOnly, new(false)),
		"annotations.destructiveHint": *cmp.Or(a.Destructive, new(true)),
		"annotations.idempotentHint":  *cmp.Or(a.Idempotent, new(false)),
		"annotations.openWorldHint":   *cmp.Or(a.OpenWorld, new(true)),
		"workspace.name":              w.Name, "workspace.read_only": w.ReadOnly,
		"workspace.origins": append([]string{}, w.Origins...),
		"requirements.pip":  append([]string{}, req.Requirements.Pip...),
		"requirements.npm":  append([]string{}, req.Requirements.NPM...),
		"args":              jsontree.Plain(tree),
	}, nil
}

// short makes a text fit for a message.
func short(text string) string {
	const most = 200
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return ' '
		}
		return r
	}, text)
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}

// wrong is an error about what came from outside.
func wrong(format string, args ...any) error {
	return &haft.Error{Code: haft.CodeInvalid, Message: fmt.Sprintf(format, args...)}
}
