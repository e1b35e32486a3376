package chain

import (
	"encoding/json"
	"errors"

	"haft"
)

var errLater = errors.New("chains are not compiled yet")

// A Program is a compiled plan. It never changes and is safe for concurrent use.
type Program struct{}

// Ready is a step whose call is to be begun, with its arguments.
type Ready struct {
	Step haft.Step
	Args json.RawMessage
}

// A Todo says what is to be done next.
type Todo struct {
	// Ready are the steps to begin, together. Mark them as running before.
	Ready []Ready
	// Skipped are steps that end without a call: state skipped, or state done
	// with a result that says why the call could not be made. Keep them all.
	Skipped []haft.StepResult
	// Done says that nothing runs and nothing more will.
	Done bool
	// Status is running or pending_approval until Done, and then what became of
	// the chain.
	Status haft.Status
	// Failure says why the chain failed.
	Failure *haft.Failure
}

// Compile checks a plan and prepares it.
func Compile(plan haft.Plan) (*Program, error) { return nil, errLater }

// Steps returns the results of a chain that has not begun: all waiting.
func (p *Program) Steps() []haft.StepResult { return nil }

// Next says what is to be done in the state c.
func (p *Program) Next(c haft.Chain) (Todo, error) { return Todo{}, errLater }
