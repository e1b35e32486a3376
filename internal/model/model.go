// Package model asks models of several vendors in one form.
package model

import (
	"encoding/json"
	"time"

	"haft"
)

// The values of [Request.Choice].
const (
	ChoiceAuto     = "auto"     // the model calls a tool if it wants to
	ChoiceRequired = "required" // it calls at least one
	ChoiceNone     = "none"     // it calls none
)

// A Request is what a model is asked.
type Request struct {
	Model    string
	System   string
	Messages []haft.Message
	Tools    []haft.Tool
	Choice   string
	// Parallel allows several calls in one answer.
	Parallel bool
	// MaxOutput is how many tokens the answer may have; 0 means what the model allows.
	MaxOutput int
}

// A Chunk is a piece of an answer while it comes. Tool is the name of a tool whose call begins.
type Chunk struct{ Text, Reasoning, Tool string }

// A Stop says why an answer ends.
type Stop string

// The reasons.
const (
	StopEnd      Stop = "end"
	StopCalls    Stop = "calls"    // the model waits for the answers to its calls
	StopLength   Stop = "length"   // it ran out of tokens; a call that it was writing is malformed
	StopRefusal  Stop = "refusal"  // the model does not want to
	StopFiltered Stop = "filtered" // the vendor withholds the answer
)

// Usage is how many tokens a request took. Input includes Cached, and Output the reasoning.
type Usage struct{ Input, Output, Cached int }

// An Answer is what a model says.
type Answer struct {
	Text, Reasoning string
	Calls           []haft.ToolCall
	Opaque          json.RawMessage
	Stop            Stop
	Usage           Usage
}

// A Kind says what is wrong with a request or its answer.
type Kind string

// The kinds.
const (
	RateLimited    Kind = "rate_limited"    // ask less often
	Overloaded     Kind = "overloaded"      // the vendor has too much to do
	Unavailable    Kind = "unavailable"     // the server cannot be reached, or fails
	Cut            Kind = "cut"             // the stream ended before the answer did
	InvalidAnswer  Kind = "invalid_answer"  // the answer cannot be read, or passes a bound
	RefusedRequest Kind = "refused_request" // the vendor does not take the request
	Unauthorized   Kind = "unauthorized"    // the key is wrong, or may not do this
	TooLong        Kind = "too_long"        // the conversation does not fit into the model
)

// A Fault is why there is no answer.
type Fault struct {
	Kind       Kind
	RetryAfter time.Duration
	Status     int
	Message    string
	Err        error
}

// Error implements error.
func (f *Fault) Error() string { return f.Message }

// Unwrap returns the cause.
func (f *Fault) Unwrap() error { return f.Err }

// Retryable reports whether the same request may succeed later.
func (f *Fault) Retryable() bool {
	switch f.Kind {
	case RateLimited, Overloaded, Unavailable, Cut, InvalidAnswer:
		return true
	}
	return false
}
