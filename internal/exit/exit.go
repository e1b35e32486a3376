// Package exit says with which code a command ends, and what it prints about an error.
package exit

import (
	"errors"
	"fmt"
	"strings"

	"haft"
	"haft/client"
	"haft/internal/backend"
	"haft/internal/toolfile"
	"haft/schema"
)

// The exit codes are a contract: scripts rely on them.
const (
	OK         = 0
	Tool       = 1
	Usage      = 2
	Validation = 3
	Denied     = 4
	Timeout    = 5
	Limit      = 6
	Cancelled  = 7
	Rate       = 8
	Unknown    = 9
	Internal   = 70
)

// Help lists the exit codes for people.
const Help = `Exit codes: 0 success; 1 the tool failed; 2 the command line is wrong, or names what does
not exist; 3 arguments or source are not valid; 4 not allowed, or a person has to agree;
5 timeout; 6 another limit; 7 cancelled; 8 too many calls; 9 nobody knows whether it ran;
70 Haft or the machine failed.`

// OfStatus maps every status of a result to an exit code.
var OfStatus = map[haft.Status]int{
	haft.StatusSuccess:    OK,
	haft.StatusError:      Tool,
	haft.StatusTimeout:    Timeout,
	haft.StatusLimit:      Limit,
	haft.StatusValidation: Validation,
	haft.StatusDenied:     Denied,
	haft.StatusRejected:   Denied,
	haft.StatusPending:    Denied, // it did not run: it is not approved yet
	haft.StatusQueued:     OK,     // it is acknowledged, and runs later
	haft.StatusRunning:    OK,
	haft.StatusCancelled:  Cancelled,
	haft.StatusRate:       Rate,
	haft.StatusUnknown:    Unknown,
}

// OfCode maps every code of an error to an exit code.
var OfCode = map[haft.Code]int{
	haft.CodeInvalid:         Validation,
	haft.CodeUnauthenticated: Denied,
	haft.CodeDenied:          Denied,
	haft.CodeNotFound:        Usage, // the command line names what is not there
	haft.CodeConflict:        Validation,
	haft.CodeRateLimited:     Rate,
	haft.CodeUnavailable:     Internal,
	haft.CodeInternal:        Internal,
}

// An Error is an error with an exit code of its own. One without Err prints nothing,
// because the command has printed everything.
type Error struct {
	Code int
	Err  error
}

// Error returns the cause, or the code if there is none.
func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Misuse marks err as a wrong command line.
func Misuse(err error) error { return &Error{Usage, err} }

// NoCommand says that a group, such as "haft tool", has no command of that name, and which
// ones are meant perhaps.
func NoCommand(group, name string, near []string) error {
	advice := ": see " + group + " --help"
	if len(near) > 0 {
		advice = ": did you mean " + group + " " + strings.Join(near, " or "+group+" ") + "?"
	}
	return Misuse(fmt.Errorf("there is no command %q of %s%s", name, group, advice))
}

// Near returns the name that is most like one that does not exist, or "" if none is like it.
func Near(name string, names []string) string {
	best, least := "", 3
	for _, n := range names {
		if d := distance(name, n); d < least && d < len(name) {
			best, least = n, d
		}
	}
	return best
}

// distance is how many letters to insert, remove or replace make one text of the other.
func distance(a, b string) int {
	if len(a) > haft.MaxToolName || len(b) > haft.MaxToolName {
		return max(len(a), len(b))
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		corner := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := corner
			if a[i] != b[j] {
				replace++
			}
			corner, row[j+1] = row[j+1], min(replace, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// With ends a command that has printed everything with a code.
func With(code int) error {
	if code == OK {
		return nil
	}
	return &Error{Code: code}
}

// If ends a command that has printed everything with a code, if failed says so.
func If(failed bool, code int) error {
	if !failed {
		code = OK
	}
	return With(code)
}

// An advised is an error with what to do next.
type advised struct {
	error
	next string
}

// Unwrap returns the error.
func (a *advised) Unwrap() error { return a.error }

// Advise adds what to do next, which is printed on a line of its own.
func Advise(err error, next string) error {
	if err == nil {
		return nil
	}
	return &advised{err, next}
}

// NextStep returns what to do about an error, or "".
func NextStep(err error) string {
	if a, ok := errors.AsType[*advised](err); ok {
		return a.next
	}
	return ""
}

// CodeOf returns the exit code for err.
func CodeOf(err error) int {
	if err == nil {
		return OK
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	_, wrongFile := errors.AsType[*toolfile.Error](err)
	_, wrongSource := errors.AsType[*schema.SourceError](err)
	_, ambiguous := errors.AsType[*schema.AmbiguousError](err)
	_, coded := errors.AsType[*haft.Error](err)
	switch {
	case wrongFile, ambiguous:
		return Usage
	case errors.Is(err, backend.ErrCancelled):
		return Cancelled
	case errors.Is(err, client.ErrMaybeDone):
		return Unknown
	case wrongSource:
		return Validation
	case coded:
		return OfCode[haft.CodeOf(err)]
	}
	return Internal
}

// Text returns everything that is known about err, because the command runs as
// the person who reads it. It is empty if the command has printed it.
func Text(err error) string {
	if e, ok := errors.AsType[*Error](err); ok && e.Err == nil {
		return ""
	}
	return err.Error()
}

// A Document is an error in JSON.
type Document struct {
	Code    haft.Code     `json:"code"`
	Message string        `json:"message"`
	Misfits []haft.Misfit `json:"misfits,omitempty"`
}

// NewDocument makes JSON of an error. It has all details, because the command runs as the person
// who reads it.
func NewDocument(err error) *Document {
	f := &Document{Code: haft.CodeOf(err), Message: err.Error()}
	_, source := errors.AsType[*schema.SourceError](err)
	_, syntax := errors.AsType[*schema.SyntaxError](err)
	_, ambiguous := errors.AsType[*schema.AmbiguousError](err)
	if (source || ambiguous) && f.Code == haft.CodeInternal {
		f.Code = haft.CodeInvalid
	}
	if e, ok := errors.AsType[*haft.Error](err); ok {
		if e.Err != nil && strings.HasSuffix(e.Message, e.Err.Error()) {
			f.Message = e.Message // which has the cause
		}
		f.Misfits = e.Misfits
		if source || syntax {
			f.Message = e.Message // which has the faults, as its cause has
		}
	}
	return f
}
