package main

import (
	"errors"
	"fmt"

	"haft"
	"haft/client"
	"haft/internal/backend"
	"haft/internal/toolfile"
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
	haft.StatusPending:    exitDenied, // it did not run: it is not approved yet
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

// An exit is an error with an exit code of its own. One without err prints nothing,
// because the command has printed everything.
type exit struct {
	code int
	err  error
}

// Error returns the cause, or the code if there is none.
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

// exitWith ends a command that has printed everything with a code.
func exitWith(code int) error {
	if code == exitOK {
		return nil
	}
	return &exit{code: code}
}

// An advised is an error with what to do next.
type advised struct {
	error
	next string
}

// Unwrap returns the error.
func (a *advised) Unwrap() error { return a.error }

// advise adds what to do next, which is printed on a line of its own.
func advise(err error, next string) error {
	if err == nil {
		return nil
	}
	return &advised{err, next}
}

// nextStep returns what to do about an error, or "".
func nextStep(err error) string {
	if a, ok := errors.AsType[*advised](err); ok {
		return a.next
	}
	return ""
}

// exitCode returns the exit code for err.
func exitCode(err error) int {
	if err == nil {
		return exitOK
	}
	if e, ok := errors.AsType[*exit](err); ok {
		return e.code
	}
	_, wrongFile := errors.AsType[*toolfile.Error](err)
	_, wrongSource := errors.AsType[*schema.SourceError](err)
	_, coded := errors.AsType[*haft.Error](err)
	switch {
	case wrongFile:
		return exitUsage
	case errors.Is(err, backend.ErrCancelled):
		return exitCancelled
	case errors.Is(err, client.ErrMaybeDone):
		return exitUnknown
	case wrongSource:
		return exitValidation
	case coded:
		return codeExits[haft.CodeOf(err)]
	}
	return exitInternal
}

// errorText returns everything that is known about err, because the command runs as
// the person who reads it. It is empty if the command has printed it.
func errorText(err error) string {
	if e, ok := errors.AsType[*exit](err); ok && e.err == nil {
		return ""
	}
	return err.Error()
}
