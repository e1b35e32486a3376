package chain

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/interpreter"

	"haft"
)

// The bounds on conditions.
const (
	MaxExpression = 2000 // characters
	// maxCost bounds one evaluation, in units of CEL: at worst some hundreds of
	// nanoseconds each.
	maxCost = 500_000
	// maxMemory bounds the elements and characters that live at once.
	maxMemory = 32 << 20
	// maxLooked bounds the values that one condition looks at, in bytes.
	maxLooked = 8 << 20
)

// condition is the compiled If of a step.
type condition struct {
	program cel.Program
	vars    []string // those it refers to, sorted
}

// newEnv returns the environment of conditions. Only the standard library of CEL
// is there: its costs are known, and it knows neither the time nor chance. The
// variables are declared one by one, so that a step or a part that does not exist
// is found when the plan is compiled.
func newEnv(steps []haft.Step) (*cel.Env, error) {
	options := []cel.EnvOption{
		cel.Variable("input", cel.DynType),
		cel.ParserExpressionSizeLimit(MaxExpression),
		cel.ParserRecursionLimit(50),
		cel.CrossTypeNumericComparisons(true),
	}
	for _, s := range steps {
		options = append(options,
			cel.Variable("steps."+s.ID+".state", cel.StringType), cel.Variable("steps."+s.ID+".status", cel.StringType),
			cel.Variable("steps."+s.ID+".value", cel.DynType), cel.Variable("steps."+s.ID+".error", cel.DynType))
	}
	env, err := cel.NewEnv(options...)
	if err != nil {
		return nil, fmt.Errorf("prepare conditions: %w", err)
	}
	return env, nil
}

// compileCondition compiles one condition. The error is about the expression,
// which is the author's, and may be shown.
func compileCondition(env *cel.Env, text string) (*condition, error) {
	if len([]rune(text)) > MaxExpression {
		return nil, wrong("if has more than %d characters", MaxExpression)
	}
	ast, issues := env.Compile(text)
	if err := issues.Err(); err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n")
		return nil, wrong("if: %s", short(strings.TrimPrefix(first, "ERROR: <input>:")))
	}
	if t := ast.OutputType(); !t.IsExactType(cel.BoolType) && !t.IsExactType(cel.DynType) {
		return nil, wrong("if gives %s and must give bool", t)
	}
	program, err := env.Program(ast, cel.CostLimit(maxCost), cel.MemoryLimit(maxMemory))
	if err != nil {
		return nil, fmt.Errorf("prepare a condition: %w", err)
	}
	vars := map[string]struct{}{}
	for _, ref := range ast.NativeRep().ReferenceMap() {
		if name := ref.Name; name == "input" || strings.HasPrefix(name, "steps.") {
			vars[name] = struct{}{}
		}
	}
	return &condition{program: program, vars: slices.Sorted(maps.Keys(vars))}, nil
}

// steps returns the ids of the steps that the condition refers to.
func (c *condition) steps() []string {
	var ids []string
	for _, name := range c.vars {
		if id, _, ok := strings.Cut(strings.TrimPrefix(name, "steps."), "."); ok && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// holds evaluates the condition. The error says why it cannot be, without any
// value.
func (c *condition) holds(lookup func(step, part string) (json.RawMessage, error)) (bool, error) {
	vars := map[string]any{}
	looked := 0
	for _, name := range c.vars {
		id, part, _ := strings.Cut(strings.TrimPrefix(name, "steps."), ".")
		if name == "input" {
			id, part = "", ""
		}
		raw, err := lookup(id, part)
		if err != nil {
			return false, err
		}
		if looked += len(raw); looked > maxLooked {
			return false, wrong("its condition looks at more than %d bytes", maxLooked)
		}
		if vars[name], err = native(raw); err != nil {
			return false, err
		}
	}
	out, _, err := c.program.Eval(vars)
	if _, ok := errors.AsType[interpreter.EvalCancelledError](err); ok {
		return false, wrong("its condition takes too long")
	}
	if err != nil {
		// The text of the error may hold a value.
		return false,
			wrong("its condition does not fit what it looks at; what may be missing is asked for first: " +
				"has(steps.id.value.name)")
	}
	truth, ok := out.Value().(bool)
	if !ok {
		return false, wrong("its condition gives something else than true or false")
	}
	return truth, nil
}

// native reads a value as CEL knows it. Whole numbers are int where they fit into
// 64 bits; other numbers are double.
func native(raw json.RawMessage) (any, error) {
	dec := json.NewDecoder(strings.NewReader(string(raw)))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, wrong("its condition looks at something that is not JSON")
	}
	return numbers(v), nil
}

// numbers turns the numbers of a tree into those of CEL, in place.
func numbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, x := range v {
			v[key] = numbers(x)
		}
	case []any:
		for i, x := range v {
			v[i] = numbers(x)
		}
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i
		}
		f, _ := strconv.ParseFloat(v.String(), 64) // out of range gives an infinity, which compares as it should
		return f
	}
	return v
}
