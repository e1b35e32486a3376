package haft

import (
	"errors"
	"strconv"
	"time"
)

// Code sorts errors by what a caller would do about them.
type Code string

// The codes. Every API maps every code, and a test walks [Codes] to see to it.
const (
	// CodeInvalid: the request is wrong; change it.
	CodeInvalid Code = "invalid"
	// CodeUnauthenticated: say who you are.
	CodeUnauthenticated Code = "unauthenticated"
	// CodeDenied: a rule or a person forbids it.
	CodeDenied Code = "denied"
	// CodeNotFound: there is no such thing, or none that you may know of.
	CodeNotFound Code = "not_found"
	// CodeConflict: it clashes with what is there; look again first.
	CodeConflict Code = "conflict"
	// CodeRateLimited: come back later.
	CodeRateLimited Code = "rate_limited"
	// CodeUnavailable: something we need is away; try again.
	CodeUnavailable Code = "unavailable"
	// CodeInternal: a fault of ours.
	CodeInternal Code = "internal"
)

// Codes lists every code.
func Codes() []Code {
	return []Code{
		CodeInvalid, CodeUnauthenticated, CodeDenied, CodeNotFound,
		CodeConflict, CodeRateLimited, CodeUnavailable, CodeInternal,
	}
}

// An Error is the caller's fault, or a rule's. Message is for the caller and
// never holds a value, a secret or a path of the host; Err is for the operator.
type Error struct {
	Code    Code
	Message string
	// Misfits say where the request does not fit, if that is what is wrong.
	Misfits []Misfit
	// RetryAfter is how long to wait before trying again, if that can help.
	RetryAfter Millis
	Err        error
}

// Error returns message and cause, for logs. APIs send [MessageOf] only.
func (e *Error) Error() string {
	if e.Err == nil {
		return e.Message
	}
	return e.Message + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// CodeOf returns the code of err: that of the first [*Error] it wraps, or else
// [CodeInternal]. It returns "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return CodeInternal
}

// RetryAfterOf returns how long a caller should wait before it tries again; 0 means that
// waiting does not help. What can go away by itself is worth another try after a second,
// if err does not say more.
func RetryAfterOf(err error) Millis {
	if e, ok := errors.AsType[*Error](err); ok && e.RetryAfter > 0 {
		return e.RetryAfter
	}
	switch CodeOf(err) {
	case CodeRateLimited, CodeUnavailable:
		return Millis(time.Second)
	}
	return 0
}

// RetrySeconds is a time to wait as the HTTP header Retry-After has it: whole seconds,
// rounded up and at least one. It is "" if there is nothing to wait for.
func RetrySeconds(wait Millis) string {
	if wait <= 0 {
		return ""
	}
	return strconv.FormatInt(int64((wait.D()+time.Second-1)/time.Second), 10)
}

// MessageOf returns the part of err that a caller may see. The text of an error
// that is not an [*Error] never leaves.
func MessageOf(err error) string {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Message
	}
	return "internal error"
}
