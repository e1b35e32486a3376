package main

import (
	"errors"
	"fmt"

	"haft"
	"haft/schema"
)

// The exit codes are a contract: scripts rely on them.
const (
	exitOK         = 0
	exitTool       = 1
	exitUsage      = 2
	exitValidation = 3
	exitDenied     = 4
	exitTimeout    = 5
	exitLimit      = 6
	exitCancelled  = 7
	exitRate       = 8
	exitUnknown    = 9
	exitInternal   = 70
)

// statusExits maps every status of a result to an exit code.
var statusExits = map[haft.Status]int{
	haft.StatusSuccess:    exitOK,
	haft.StatusError:      exitTool,
	haft.StatusTimeout:    exitTimeout,
	haft.StatusLimit:      exitLimit,
	haft.StatusValidation: exitValidation,
	haft.StatusDenied:     exitDenied,
	haft.StatusRejected:   exitDenied,
	haft.StatusPending:    exitDenied, // it did not run: nobody has agreed yet
	haft.StatusQueued:     exitOK,     // it is acknowledged, and runs later
	haft.StatusRunning:    exitOK,
	haft.StatusCancelled:  exitCancelled,
	haft.StatusRate:       exitRate,
	haft.StatusUnknown:    exitUnknown,
}

// codeExits maps every code of an error to an exit code.
var codeExits = map[haft.Code]int{
	haft.CodeInvalid:         exitValidation,
	haft.CodeUnauthenticated: exitDenied,
	haft.CodeDenied:          exitDenied,
	haft.CodeNotFound:        exitUsage, // the command line names what is not there
	haft.CodeConflict:        exitValidation,
	haft.CodeRateLimited:     exitRate,
	haft.CodeUnavailable:     exitInternal,
	haft.CodeInternal:        exitInternal,
}

// An exit is an error with an exit code of its own. A nil Err prints nothing,
// because everything is said already.
type exit struct {
	code int
	err  error
}

// Error returns the cause, or the code where everything is said already.
func (e *exit) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

// Unwrap returns the cause.
func (e *exit) Unwrap() error { return e.err }

// usage marks err as a wrong command line.
func usage(err error) error { return &exit{exitUsage, err} }

// exitCode returns the exit code for err.
func exitCode(err error) int {
	if err == nil {
		return exitOK
	}
	if e, ok := errors.AsType[*exit](err); ok {
		return e.code
	}
	if _, ok := errors.AsType[*schema.SourceError](err); ok {
		return exitValidation
	}
	if _, ok := errors.AsType[*haft.Error](err); ok {
		return codeExits[haft.CodeOf(err)]
	}
	return exitInternal
}

// errorText returns what a person at the terminal is told about err: everything,
// because the command runs as that person.
func errorText(err error) string {
	if e, ok := errors.AsType[*exit](err); ok && e.err == nil {
		return ""
	}
	return err.Error()
}
