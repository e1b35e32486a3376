// Package followup has what follows from the end of a call: what its last event and the audit say, and the calls that
// are made after it has failed.
package followup

import (
	"encoding/json"
	"fmt"
	"slices"

	"haft"
	"haft/internal/value"
	"haft/schema"
)

// MaxValue is how many characters of a value the last event of a call has.
const MaxValue = 4000

// An Ended is the data of the last event of a call.
type Ended struct {
	Status haft.Status   `json:"status"`
	Error  *haft.Failure `json:"error,omitempty"`
	// Value is what the caller gets, and ValueCut how many characters of it are left out.
	Value    json.RawMessage `json:"value,omitempty"`
	ValueCut int64           `json:"value_truncated,omitempty"`
	Wall     haft.Millis     `json:"wall_ms"`
	CPU      *haft.Millis    `json:"cpu_ms"`
	MaxRSS   *int64          `json:"max_rss_bytes"`
	Queue    haft.Millis     `json:"queue_ms,omitempty"`
	Total    haft.Millis     `json:"total_ms"`
	Tries    int             `json:"tries,omitempty"`
	Cached   bool            `json:"cached,omitempty"`
}

// NewEnded makes the data of a result that was filtered and redacted.
func NewEnded(res *haft.Result) Ended {
	cpu, rss := res.Usage.Measured()
	e := Ended{Status: res.Status, Error: res.Error, Wall: res.Usage.Wall, CPU: cpu, MaxRSS: rss,
		Queue: res.Timeline.Queue, Total: res.Timeline.Total, Tries: res.Tries, Cached: res.Cached}
	e.Value, e.ValueCut = value.Cut(res.Value, MaxValue)
	e.ValueCut += res.Truncated.Value
	return e
}

// After is the call of a tool that is made after the call c has failed: with the same arguments unless others are
// given, for the same principal, and with nothing that c was permitted in particular.
func After(c haft.Call, tool string, args json.RawMessage) haft.Call {
	if args == nil {
		args = c.Args
	}
	return haft.Call{Tool: tool, Args: args, Principal: c.Principal, Deadline: c.Deadline, Env: c.Env, Files: c.Files,
		Workspace: c.Workspace, Sandbox: c.Sandbox, Template: c.Template, Requirements: c.Requirements,
		Limits: c.Limits, Parent: c.ID, Turn: c.Turn, Chain: c.Chain, Trace: c.Trace}
}

// Replace returns arguments in which those of with stand in place of those that have the same names.
func Replace(args, with json.RawMessage) (json.RawMessage, error) {
	tree, err := schema.ReadArguments(args)
	if err != nil {
		return nil, fmt.Errorf("read the arguments: %w", err)
	}
	others, err := schema.ReadArguments(with)
	if err != nil {
		return nil, fmt.Errorf("read the arguments of the reaction: %w", err)
	}
	for _, name := range others.Keys() {
		tree.Set(name, others.Value(name))
	}
	return schema.Encode(tree)
}

// Adopt returns the result of another call as that of a call which made it. Its artifacts are those of the other call
// until the filters of this one have seen them.
func Adopt(other *haft.Result) *haft.Result {
	copied := *other
	copied.Error = nil
	copied.Content, copied.Artifacts = slices.Clone(other.Content), slices.Clone(other.Artifacts)
	for i := range copied.Artifacts {
		copied.Artifacts[i].File = "" // this call keeps what passes its own filters
	}
	return &copied
}

// Constant returns a success with a value in place of a failed result, whose output it keeps.
func Constant(failed *haft.Result, v json.RawMessage) *haft.Result {
	return &haft.Result{Call: failed.Call, Tool: failed.Tool, Status: haft.StatusSuccess, Value: v,
		Stdout: failed.Stdout, Stderr: failed.Stderr,
		Truncated: haft.Truncated{Stdout: failed.Truncated.Stdout, Stderr: failed.Truncated.Stderr}}
}

// Instead returns another result in place of a failed one: it says where the failed call ran and what that took.
func Instead(failed, other *haft.Result) *haft.Result {
	copied := *other
	copied.Usage, copied.Sandbox, copied.Timeline = failed.Usage, failed.Sandbox, failed.Timeline
	return &copied
}

// ToolAtFault reports whether a failure of a call says something about the tool for everybody: the caller gave it
// nothing that can make it fail but arguments, and it is not one of the server or of a network.
func ToolAtFault(c haft.Call, f haft.Failure) bool {
	switch f.Kind {
	case haft.FailInternal, haft.FailIsolation, haft.FailNetwork, haft.FailRuntime, haft.FailUnknown,
		haft.FailLogin:
		return false
	}
	return c.Limits == (haft.Limits{}) && c.Deadline.IsZero() && len(c.Env) == 0 && len(c.Files) == 0 &&
		c.Workspace == nil && c.Sandbox == "" && c.Template == "" && c.Requirements.Empty()
}
