package chain

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"haft"
	"haft/internal/bounds"
)

// MaxPlan bounds the arguments of all steps together, in bytes, and so does it
// the input.
const MaxPlan = 8 << 20

// maxTool bounds what a step calls its tool, a name or an id.
const maxTool = 200

// A Program is a compiled plan. It never changes and is safe for concurrent use.
type Program struct {
	steps []step
	index map[string]int // by id
	order []int          // such that no step comes before one that it waits for
	input json.RawMessage
}

// step is a compiled step.
type step struct {
	haft.Step
	args *template
	cond *condition // nil if there is none
	// waits are the steps that must have ended first, needs those of them that
	// the arguments refer to without a default.
	waits, needs []int
}

// Compile checks a plan and prepares it. What is wrong is a [*haft.Error] with
// [haft.CodeInvalid] that names the step.
func Compile(plan haft.Plan) (*Program, error) {
	if len(plan.Steps) == 0 {
		return nil, wrong("the plan has no steps")
	}
	if len(plan.Steps) > haft.MaxSteps {
		return nil, wrong("the plan has %d steps, %d is the most", len(plan.Steps), haft.MaxSteps)
	}
	if err := counted(plan); err != nil {
		return nil, err
	}
	p := &Program{index: map[string]int{}}
	if len(plan.Input) > 0 {
		if len(plan.Input) > MaxPlan {
			return nil, wrong("the input has %d bytes, %d is the most", len(plan.Input), MaxPlan)
		}
		if _, err := decode("the input", plan.Input); err != nil {
			return nil, err
		}
		p.input = slices.Clone(plan.Input)
	}
	size, refs := 0, 0
	for i, s := range plan.Steps {
		if err := p.add(s); err != nil {
			return nil, wrong("step %d%s: %s", i+1, called(s.ID), haft.MessageOf(err))
		}
		size += len(s.Args)
		refs += len(p.steps[i].args.references)
	}
	if size > MaxPlan {
		return nil, wrong("the arguments of the plan have %d bytes, %d is the most", size, MaxPlan)
	}
	if refs > MaxReferences {
		return nil, wrong("the plan has %d references, %d is the most", refs, MaxReferences)
	}
	if err := p.link(plan.Steps); err != nil {
		return nil, err
	}
	return p, p.sort()
}

// counted bounds the values of a plan, all together, before anything is made of them:
// 8 MiB can hold four million.
func counted(plan haft.Plan) error {
	left := bounds.MaxValues
	for i := -1; i < len(plan.Steps); i++ {
		text, what := plan.Input, "the input"
		if i >= 0 {
			text, what = plan.Steps[i].Args, fmt.Sprintf("step %d%s", i+1, called(plan.Steps[i].ID))
		}
		if len(text) <= 2 { // {}, or nothing
			continue
		}
		// What is no JSON is said by who reads it.
		n, _ := bounds.Count(text, bounds.Limits{Values: left + 1}, nil)
		if left -= n; left < 0 {
			return wrong("%s: the input and the arguments of all steps have more than %d values in all", what,
				bounds.MaxValues)
		}
	}
	return nil
}

// called names a step in a message, if its id can be shown.
func called(id string) string {
	if !stepID().MatchString(id) {
		return ""
	}
	return " (" + id + ")"
}

// add checks one step by itself.
func (p *Program) add(s haft.Step) error {
	switch _, twice := p.index[s.ID]; {
	case !stepID().MatchString(s.ID):
		return wrong("an id is a letter, then letters, digits and _, and has at most 64 of them")
	case s.ID == "input":
		return wrong("input cannot be the id of a step")
	case twice:
		return wrong("another step has the same id")
	case s.Tool == "":
		return wrong("it names no tool")
	case len(s.Tool) > maxTool:
		return wrong("the name of its tool has %d bytes, %d is the most", len(s.Tool), maxTool)
	case len(s.After) > haft.MaxSteps:
		return wrong("after names %d steps, %d is the most", len(s.After), haft.MaxSteps)
	}
	switch s.OnError {
	case "", haft.OnErrorStop, haft.OnErrorContinue, haft.OnErrorSkip:
	default:
		return wrong("on_error is stop, continue or skip")
	}
	args, err := parseTemplate(s.Args)
	if err != nil {
		return err
	}
	p.index[s.ID] = len(p.steps)
	p.steps = append(p.steps, step{Step: s, args: args})
	return nil
}

// link finds out which steps wait for which, once all are known.
func (p *Program) link(steps []haft.Step) error {
	conditional := slices.ContainsFunc(steps, func(s haft.Step) bool { return s.If != "" })
	compile := func(string) (*condition, error) { return nil, nil }
	if conditional {
		env, err := newEnv(steps)
		if err != nil {
			return err
		}
		compile = func(text string) (*condition, error) {
			if text == "" {
				return nil, nil
			}
			return compileCondition(env, text)
		}
	}
	for i := range p.steps {
		s := &p.steps[i]
		cond, err := compile(s.If)
		if err == nil {
			s.cond = cond
			err = p.waits(s)
		}
		if haft.CodeOf(err) == haft.CodeInvalid {
			return wrong("step %d%s: %s", i+1, called(s.ID), haft.MessageOf(err))
		}
		if err != nil {
			return fmt.Errorf("step %s: %w", s.ID, err)
		}
	}
	return nil
}

// waits finds out for which steps s waits.
func (p *Program) waits(s *step) error {
	wait := func(id string) (int, error) {
		j, ok := p.index[id]
		switch {
		case !ok:
			return 0, wrong("there is no step %s", short(id))
		case id == s.ID:
			return 0, wrong("it refers to itself")
		}
		if !slices.Contains(s.waits, j) {
			s.waits = append(s.waits, j)
		}
		return j, nil
	}
	for _, ref := range s.args.references {
		if ref.step == "" {
			continue
		}
		j, err := wait(ref.step)
		if err != nil {
			return err
		}
		if ref.def == nil && !slices.Contains(s.needs, j) {
			s.needs = append(s.needs, j)
		}
	}
	ids := s.After
	if s.cond != nil {
		ids = slices.Concat(ids, s.cond.steps())
	}
	for _, id := range ids {
		if _, err := wait(id); err != nil {
			return err
		}
	}
	return nil
}

// sort finds an order of the steps, or names a circle.
func (p *Program) sort() error {
	const (
		unseen = iota
		open
		closed
	)
	state := make([]int, len(p.steps))
	var way []int
	var visit func(i int) error
	visit = func(i int) error {
		state[i] = open
		way = append(way, i)
		for _, j := range p.steps[i].waits {
			switch state[j] {
			case open:
				return p.circle(append(way[slices.Index(way, j):], j))
			case unseen:
				if err := visit(j); err != nil {
					return err
				}
			}
		}
		state[i] = closed
		way = way[:len(way)-1]
		p.order = append(p.order, i)
		return nil
	}
	for i := range p.steps {
		if state[i] == unseen {
			if err := visit(i); err != nil {
				return err
			}
		}
	}
	return nil
}

// circle is the error of steps that wait for each other.
func (p *Program) circle(way []int) error {
	ids := make([]string, len(way))
	for i, j := range way {
		ids[i] = p.steps[j].ID
	}
	return wrong("the steps wait for each other in a circle: %s", strings.Join(ids, " → "))
}

// Steps returns the results of a chain that has not begun: all are waiting.
func (p *Program) Steps() []haft.StepResult {
	all := make([]haft.StepResult, len(p.steps))
	for i, s := range p.steps {
		all[i] = haft.StepResult{ID: s.ID, State: haft.StepWaiting}
	}
	return all
}

// wrong is an error about what came from outside.
func wrong(format string, args ...any) error {
	return &haft.Error{Code: haft.CodeInvalid, Message: fmt.Sprintf(format, args...)}
}
