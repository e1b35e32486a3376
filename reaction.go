package haft

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// A Reaction says what to do when a run of a tool has failed in a known way.
type Reaction struct {
	// Kinds and Types say after which failures: kinds of failure, and classes of exceptions, with or without their
	// module. An empty list means all.
	Kinds []FailureKind `json:"kinds,omitempty"`
	Types []string      `json:"types,omitempty"`
	// Exactly one of the following says what to do. Args is an object: the tool is called again, with these arguments
	// in place of those that have the same names. That is a call of its own, with validation, policy, approval and
	// audit. It needs [Settings.Idempotent].
	Args json.RawMessage `json:"args,omitempty"`
	// Value is given back in place of the failure.
	Value json.RawMessage `json:"value,omitempty"`
	// Disable disables the tool for everybody, until a person enables it. It leaves failures that need not be the
	// tool's fault, such as those of calls with limits of their own.
	Disable bool `json:"disable,omitempty"`
}

// The bounds on reactions.
const (
	MaxReactions     = 16
	MaxReactionNames = 32       // kinds and types of one reaction, each
	MaxReactionBytes = 16 << 10 // of Args and Value, each
)

// Check reports why a reaction cannot be used.
func (r Reaction) Check() error {
	args, value := bytes.TrimSpace(r.Args), bytes.TrimSpace(r.Value)
	ways := 0
	for _, has := range []bool{len(args) > 0, len(value) > 0, r.Disable} {
		if has {
			ways++
		}
	}
	wrong := func(format string, a ...any) error {
		return &Error{Code: CodeInvalid, Message: fmt.Sprintf(format, a...)}
	}
	switch {
	case ways != 1:
		return wrong("needs exactly one of args, value and disable")
	case len(args) > MaxReactionBytes || len(value) > MaxReactionBytes:
		return wrong("takes %d bytes of args and as many of value, and not that much", MaxReactionBytes)
	case len(args) > 0 && (args[0] != '{' || !json.Valid(args)):
		return wrong("args must be an object; an empty one calls the tool again as it was")
	case len(value) > 0 && !json.Valid(value):
		return wrong("value must be JSON")
	case len(r.Kinds) > MaxReactionNames || len(r.Types) > MaxReactionNames:
		return wrong("names more than %d kinds or types", MaxReactionNames)
	}
	for _, k := range r.Kinds {
		if !slices.Contains(FailureKinds(), k) {
			return wrong("kinds has what is no kind of failure")
		}
	}
	for _, t := range r.Types {
		if t == "" || len(t) > 200 {
			return wrong("types has a name that is empty or longer than 200 bytes")
		}
	}
	return nil
}

// After reports whether the reaction is one to this failure.
func (r Reaction) After(f Failure) bool {
	return (len(r.Kinds) == 0 || slices.Contains(r.Kinds, f.Kind)) && (len(r.Types) == 0 || f.OfType(r.Types))
}

// OfType reports whether the failure is an exception of one of some classes, which are named with or without their
// module.
func (f Failure) OfType(types []string) bool {
	return f.Kind == FailException && f.Type != "" && (slices.Contains(types, f.Type) ||
		slices.Contains(types, f.Type[strings.LastIndexByte(f.Type, '.')+1:]))
}

// A Recovery is a function that is asked for a way out of failures, for programs that embed Haft. What a [Reaction]
// can do needs none.
type Recovery struct {
	// Tool, Kind and Type say of which failures; empty means of all. Type is the class of an exception.
	Tool string
	Kind FailureKind
	Type string
	// Recover returns another result, or nil to leave it. It may be nil.
	Recover func(ctx context.Context, c Call, failed *Result) *Result
	// Repair returns other arguments to call the tool again with, or nil to leave it. It may be nil. The call is a new
	// one, with validation, policy, approval and audit of its own.
	Repair func(ctx context.Context, c Call, failed *Result) json.RawMessage
}

// Of reports whether the recovery is one for this failure of a tool.
func (r Recovery) Of(tool string, f Failure) bool {
	return (r.Tool == "" || r.Tool == tool) && (r.Kind == "" || r.Kind == f.Kind) &&
		(r.Type == "" || f.OfType([]string{r.Type}))
}
