package builtin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"haft"
	"haft/executor"
)

// A failure is an error that is a Failure already.
type failure struct{ haft.Failure }

// Error returns the message.
func (f *failure) Error() string { return f.Message }

// explain says what an error of a tool means for its call.
func (e *execution) explain(ctx context.Context, err error) haft.Failure {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.Failure
	}
	if ctx.Err() != nil {
		if cause := context.Cause(ctx); !errors.Is(cause, errWall) {
			return executor.Stopped(cause)
		}
		return haft.Failure{Kind: haft.FailTimeout, Message: fmt.Sprintf("it ran longer than %s", e.limits.Wall),
			Retry: haft.RetryChanged}
	}
	if h, ok := errors.AsType[*haft.Error](err); ok {
		return refused(h)
	}
	return haft.Failure{Kind: haft.FailException, Message: executor.Shorten(clean(err.Error()), maxMessage),
		Retry: haft.RetryChanged}
}

// refused is the failure for an error with a code.
func refused(h *haft.Error) haft.Failure {
	f := haft.Failure{
		Kind: haft.FailException, Message: executor.Shorten(clean(h.Message), maxMessage),
		Retry: haft.RetryChanged, RetryAfter: h.RetryAfter, Misfits: h.Misfits,
	}
	switch h.Code {
	case haft.CodeInvalid:
		f.Kind = haft.FailValidation
	case haft.CodeDenied, haft.CodeUnauthenticated:
		f.Kind, f.Retry = haft.FailDenied, haft.RetryNever
	case haft.CodeRateLimited:
		f.Kind, f.Retry = haft.FailRate, haft.RetrySame
	case haft.CodeUnavailable:
		f.Retry = haft.RetrySame
	case haft.CodeInternal:
		f.Kind, f.Retry = haft.FailInternal, haft.RetryNever
	}
	return f
}

// clean makes s valid UTF-8 without control characters but line ends and tabs.
func clean(s string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsControl(c) && c != '\n' && c != '\t' {
			return unicode.ReplacementChar
		}
		return c
	}, strings.ToValidUTF8(s, string(unicode.ReplacementChar)))
}
