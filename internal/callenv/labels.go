package callenv

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"haft"
)

// ErrLabel is wrapped by the refusal of a call that is named by a secret.
var ErrLabel = errors.New("a label holds a secret")

// LabelError refuses a call or a plan that is named by a secret, and says which name that is.
func LabelError(what string) error {
	return &haft.Error{Code: haft.CodeInvalid, Err: ErrLabel,
		Message: "the " + what + " holds a secret, and would be kept in the clear: choose another"}
}

// Place is text that two calls have in common only if they name the same sandbox, template and packages. It is empty
// if a call names none of them.
func Place(c haft.Call) string {
	text := ""
	if c.Sandbox != "" || c.Template != "" {
		text = fmt.Sprintf("\x00place %q %q", c.Sandbox, c.Template)
	}
	if !c.Requirements.Empty() {
		text += fmt.Sprintf("\x00requirements %q %q", c.Requirements.Pip, c.Requirements.NPM)
	}
	return text
}

// label is a name that a caller chose.
type label struct{ what, text string }

// labels returns the names of a call that its caller chose, and by which it is kept and
// found again. Those cannot be redacted. The name of the tool is not among them: it is
// that of a tool, or it is redacted. The id is the caller's unless it is ours.
func labels(c haft.Call, ours bool) []label {
	all := []label{
		{"idempotency_key", c.IdempotencyKey}, {"turn", c.Turn}, {"trace", c.Trace}, {"digest", c.Digest},
		{"sandbox", c.Sandbox}, {"template", c.Template}, {"parent", string(c.Parent)},
	}
	if !ours {
		all = append(all, label{"id", string(c.ID)})
	}
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		all = append(all, label{"env", name})
	}
	for _, r := range slices.Concat(c.Requirements.Pip, c.Requirements.NPM) {
		all = append(all, label{"requirement", r})
	}
	for _, f := range c.Files {
		all = append(all, label{"path of a file", f.Path}, label{"id of a file", string(f.ID)})
	}
	if c.Workspace != nil {
		all = append(all, label{"workspace", c.Workspace.Name})
	}
	return all
}

// CheckLabels refuses a call one of whose labels holds a secret. It is asked before
// anything of the call is kept. Values that are no secrets by their name and short do
// not count: a turn may have the word production in it.
func CheckLabels(c haft.Call, ours bool, holdsSecret func(text string) bool) error {
	if holdsSecret == nil {
		return nil
	}
	for _, l := range labels(c, ours) {
		if l.text != "" && holdsSecret(l.text) {
			return LabelError(l.what + " of the call")
		}
	}
	return nil
}

// CheckPlan refuses a plan that is kept in the clear with the name of its workspace and the ids of its steps, if one of
// them holds a secret.
func CheckPlan(plan haft.Plan, holds func(text string) bool) error {
	if w := plan.Workspace; w != nil && holds(w.Name+"\n"+w.ID+"\n"+strings.Join(w.Origins, "\n")) {
		return LabelError("workspace of the plan")
	}
	for i, s := range plan.Steps {
		if holds(s.ID) {
			return LabelError(fmt.Sprintf("id of step %d", i+1))
		}
	}
	return nil
}
