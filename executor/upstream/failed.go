package upstream

import (
	"context"
	"errors"
	"time"

	"haft"
)

// Fault says whose fault it is that a server gave no result.
type Fault string

// The faults.
const (
	FaultNetwork  Fault = "network"  // the server cannot be reached, or went away
	FaultProtocol Fault = "protocol" // the server does not speak MCP
	FaultCommand  Fault = "command"  // the command cannot be started, or ended
	FaultLogin    Fault = "login"    // a person has to log in first
)

// Failed says why there is no session with a server, or no list of its tools.
type Failed struct {
	Fault   Fault
	Message string
	// Broken says that nothing was tried, because the server failed too often of late.
	Broken bool
	// After is how long to wait before the next attempt.
	After time.Duration
	Err   error
}

// Error implements error. It is for the operator; Message is for callers.
func (f *Failed) Error() string {
	if f.Err == nil {
		return f.Message
	}
	return f.Message + ": " + f.Err.Error()
}

// Unwrap returns the cause.
func (f *Failed) Unwrap() error { return f.Err }

// needLogin says that a person has to log in at a server.
func needLogin(server string) error {
	return &Failed{Fault: FaultLogin, Message: "the MCP server " + server +
		" wants a login: a person has to agree first, with: haft mcp-server login " + server}
}

// NeedsLogin reports whether err says that a person has to log in.
func NeedsLogin(err error) bool {
	f, ok := errors.AsType[*Failed](err)
	return ok && f.Fault == FaultLogin
}

// Coded returns err as an error with a code and a message for callers.
func Coded(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	if _, ok := errors.AsType[*haft.Error](err); ok {
		return err
	}
	coded := &haft.Error{Code: haft.CodeUnavailable, Message: "the server cannot be reached", Err: err}
	if f, ok := errors.AsType[*Failed](err); ok {
		coded.Message, coded.RetryAfter = f.Message, haft.Millis(f.After)
		if f.Fault == FaultLogin {
			coded.Code = haft.CodeDenied
		}
	}
	return coded
}
