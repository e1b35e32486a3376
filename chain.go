package haft

import (
	"encoding/json"
	"time"
)

// ChainID identifies one run of a plan.
type ChainID string

// MaxSteps is the most that a plan may have.
const MaxSteps = 100

// A Plan is a chain of calls whose arguments may refer to earlier results.
//
// Within Args of a step, an object with the key "$from" stands for a value:
// {"$from": "step.value/path/to/it"} takes it from the result of an earlier step,
// as step.status, step.stdout, step.stderr and step.error/message do, and
// {"$from": "input/path"} from the input of the plan. What follows the first
// slash is a JSON Pointer. {"$from": …, "default": …} says what to take where
// there is nothing, and {"$literal": …} is an object that only looks like this.
type Plan struct {
	Steps []Step `json:"steps"`
	// Input can be referred to by every step.
	Input json.RawMessage `json:"input,omitempty"`
	// Workspace is that of every step whose tool is a script: steps pass files to each other in it.
	Workspace *CallWorkspace `json:"workspace,omitempty"`
	// Background acknowledges the plan and does not wait for it: it runs whether
	// or not the one who asked stays, and [Planner.Chain] says where it stands.
	Background bool `json:"background,omitempty"`
}

// OnError says what follows when a step has failed.
type OnError string

// What may follow.
const (
	OnErrorStop     OnError = "stop"     // the chain fails
	OnErrorContinue OnError = "continue" // the chain goes on; the step's value is null
	OnErrorSkip     OnError = "skip"     // steps that refer to it or come after it are skipped
)

// A Step is one call of a plan.
type Step struct {
	// ID is unique in the plan: a letter, then letters, digits and _.
	ID   string          `json:"id"`
	Tool string          `json:"tool"`
	Args json.RawMessage `json:"args,omitempty"`
	// After are steps that must have ended first, besides those that Args and If
	// refer to.
	After []string `json:"after,omitempty"`
	// If is an expression in CEL over input and steps, such as
	// steps.a.status == "success" && steps.a.value.total > 10. If it is false the
	// step is skipped.
	If string `json:"if,omitempty"`
	// OnError is stop if it is empty.
	OnError OnError `json:"on_error,omitempty"`
}

// StepState says where a step stands.
type StepState string

// The states of a step.
const (
	StepWaiting StepState = "waiting"
	StepRunning StepState = "running" // its call was begun
	StepDone    StepState = "done"    // its call has ended, well or not
	StepSkipped StepState = "skipped"
)

// A StepResult is what became of a step.
type StepResult struct {
	ID     string    `json:"id"`
	State  StepState `json:"state"`
	Call   CallID    `json:"call_id,omitempty"`
	Result *Result   `json:"result,omitempty"`
	// Reason says why it was skipped.
	Reason string `json:"reason,omitempty"`
}

// A Chain is one run of a plan. It goes on after a crash where it stood.
type Chain struct {
	ID        ChainID      `json:"id"`
	Principal Principal    `json:"principal"`
	Turn      string       `json:"turn,omitempty"`
	Plan      Plan         `json:"plan"`
	Steps     []StepResult `json:"steps"`
	// Status is running, pending_approval, success, error, cancelled or unknown.
	Status  Status    `json:"status"`
	Error   *Failure  `json:"error,omitempty"`
	Created time.Time `json:"created_at"`
	Updated time.Time `json:"updated_at"`
}
