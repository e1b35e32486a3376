package value

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/interpreter"

	"haft"
	"haft/internal/jsontree"
)

// The bounds on validators.
const (
	MaxValidators = 20
	MaxExpression = 2000 // characters of one expression
	// maxCost bounds one evaluation, in units of CEL: some tens of nanoseconds
	// each.
	maxCost = 5_000_000
	// maxMemory bounds the elements and characters that live at once.
	maxMemory = 64 << 20
)

// Validators are expressions that must be true of a value. They never change and
// are safe for concurrent use.
type Validators struct {
	all []validator
}

// validator is one expression.
type validator struct {
	text    string
	program cel.Program
}

// CompileValidators compiles expressions in CEL (https://cel.dev) over the
// variable value, such as "value.total >= 0 && size(value.items) > 0". They must
// give a boolean. Only the standard library of CEL is there: its costs are known,
// so that no expression can take for ever. The error names the validator by
// number, from 1.
func CompileValidators(expressions []string) (*Validators, error) {
	return CompileChecks(expressions, "value")
}

// CompileChecks is [CompileValidators] for expressions over other variables.
func CompileChecks(expressions []string, variables ...string) (*Validators, error) {
	if len(expressions) > MaxValidators {
		return nil, wrong("there are %d validators, %d is the most", len(expressions), MaxValidators)
	}
	options := []cel.EnvOption{cel.ParserExpressionSizeLimit(MaxExpression), cel.ParserRecursionLimit(50),
		cel.CrossTypeNumericComparisons(true)}
	for _, name := range variables {
		options = append(options, cel.Variable(name, cel.DynType))
	}
	env, err := cel.NewEnv(options...)
	if err != nil {
		return nil, fmt.Errorf("prepare validators: %w", err)
	}
	v := &Validators{}
	for i, text := range expressions {
		program, err := compile(env, text)
		if err != nil {
			return nil, &haft.Error{Code: haft.CodeInvalid,
				Message: fmt.Sprintf("validator %d (%s): %s", i+1, short(text), err), Err: err}
		}
		v.all = append(v.all, validator{text, program})
	}
	return v, nil
}

// compile compiles one expression. Its errors are about the expression, which is
// the author's, and may be shown.
func compile(env *cel.Env, text string) (cel.Program, error) {
	if len([]rune(text)) > MaxExpression {
		return nil, fmt.Errorf("it has more than %d characters", MaxExpression)
	}
	ast, issues := env.Compile(text)
	if err := issues.Err(); err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n")
		return nil, fmt.Errorf("%s", strings.TrimPrefix(first, "ERROR: <input>:"))
	}
	if t := ast.OutputType(); !t.IsExactType(cel.BoolType) && !t.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("it gives %s and must give bool", t)
	}
	program, err := env.Program(ast, cel.CostLimit(maxCost), cel.MemoryLimit(maxMemory),
		cel.InterruptCheckFrequency(100))
	if err != nil {
		return nil, fmt.Errorf("prepare: %w", err)
	}
	return program, nil
}

// Check evaluates every validator on a value and returns a misfit for each that
// is not true. An expression that cannot be evaluated on the value counts as not
// true. The messages hold the expression and never the value.
func (v *Validators) Check(ctx context.Context, raw json.RawMessage) []haft.Misfit {
	return v.CheckAll(ctx, map[string]json.RawMessage{"value": raw})
}

// CheckAll is [Validators.Check] with the values of all variables.
func (v *Validators) CheckAll(ctx context.Context, values map[string]json.RawMessage) []haft.Misfit {
	if v == nil || len(v.all) == 0 {
		return nil
	}
	vars := make(map[string]any, len(values))
	for name, raw := range values {
		tree, err := decode(raw)
		if err != nil {
			return []haft.Misfit{{Message: haft.MessageOf(err)}}
		}
		vars[name] = jsontree.Plain(tree)
	}
	var misfits []haft.Misfit
	for i, x := range v.all {
		if why := x.refuses(ctx, vars); why != "" {
			misfits = append(misfits, haft.Misfit{Message: fmt.Sprintf("%s validator %d: %s", why, i+1, short(x.text))})
		}
	}
	return misfits
}

// refuses evaluates one expression. It returns "" if it is true.
func (x validator) refuses(ctx context.Context, vars map[string]any) string {
	out, _, err := x.program.ContextEval(ctx, vars)
	if ctx.Err() != nil {
		return "could not be held in time against"
	}
	if _, ok := errors.AsType[interpreter.EvalCancelledError](err); ok {
		return "is too large for"
	}
	if err != nil {
		// The error may name a key of the value.
		return "has not the shape that is needed for"
	}
	if ok, isBool := out.Value().(bool); !isBool || !ok {
		return "does not satisfy"
	}
	return ""
}

// short makes an expression fit for a message.
func short(text string) string {
	const most = 200
	out := []rune(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text))
	if len(out) > most {
		out = append(out[:most], '…')
	}
	return string(out)
}
