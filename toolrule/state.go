package toolrule

import (
	"encoding/json"
	"errors"

	"haft"
)

var errLater = errors.New("tool rules are not evaluated yet")

// Past is one call of the turn so far, in the order in which they began.
type Past struct {
	Tool   string
	Value  json.RawMessage
	Status haft.Status
}

// A State says what the rules allow at one moment of a turn.
type State struct {
	// Allowed are the tools that may be called now, sorted.
	Allowed []string
	// Forced says that a tool has to be called now.
	Forced bool
	// Ended says that an exit_loop tool was called: nothing is allowed any more.
	Ended bool
}

// Check reports what is wrong with rules that are being set. Has says which tools
// there are; nil leaves that unchecked.
func Check(rules []haft.ToolRule, has func(tool string) bool) error { return errLater }

// Evaluate says what is allowed after history.
func Evaluate(rules []haft.ToolRule, history []Past, available []string) (*State, error) {
	return nil, errLater
}

// NeedsTurn reports whether the rules look at what was called before.
func NeedsTurn(rules []haft.ToolRule) bool { return true }

// Prompt renders the rules for a model.
func Prompt(rules []haft.ToolRule) string { return "" }

// Admit reports why the tool may not be called now: a [*haft.Error] with
// [haft.CodeDenied], whose message is for the model.
func (s *State) Admit(tool string) error { return errLater }

// Prefill returns the arguments that the rules set for a tool, and the rule that
// they come from, or nil.
func (s *State) Prefill(tool string) (args map[string]json.RawMessage, source string) { return nil, "" }

// Prefilled returns args with those of [State.Prefill] put over them. They are
// held against the parameters (JSON Schema) of the tool.
func (s *State) Prefilled(tool string, args, parameters json.RawMessage) (json.RawMessage, error) {
	return nil, errLater
}

// NeedsApproval reports whether a person has to agree to calls of the tool.
func (s *State) NeedsApproval(tool string) bool { return true }

// Ends reports whether the turn ends after a call of the tool.
func (s *State) Ends(tool string) bool { return true }

// Continues reports whether the turn must go on after a call of the tool.
func (s *State) Continues(tool string) bool { return false }

// Exit reports which required tools are missing before the turn may end.
func (s *State) Exit() error { return errLater }
