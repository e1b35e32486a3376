package model

// What tests need of the inside.
var (
	RetryAfter = retryAfter
	FitName    = fitName
)

// MaxStream and others are the bounds.
const (
	MaxStream    = maxStream
	MaxText      = maxText
	MaxArguments = maxArguments
	MaxLine      = maxLine
	MaxCalls     = maxCalls
	MadeID       = madeID
)
