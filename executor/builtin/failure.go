package builtin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"haft"
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
		return ended(context.Cause(ctx), e.limits.Wall)
	}
	if h, ok := errors.AsType[*haft.Error](err); ok {
		return refused(h)
	}
	return haft.Failure{Kind: haft.FailException, Message: bounded(clean(err.Error()), maxMessage),
		Retry: haft.RetryChanged}
}

// ended says why a context did.
func ended(cause error, wall haft.Millis) haft.Failure {
	switch {
	case errors.Is(cause, errWall):
		return haft.Failure{Kind: haft.FailTimeout, Message: fmt.Sprintf("it ran longer than %s", wall),
			Retry: haft.RetryChanged}
	case errors.Is(cause, context.DeadlineExceeded):
		return haft.Failure{Kind: haft.FailTimeout, Message: "the call took longer than it was allowed to",
			Retry: haft.RetryChanged}
	}
	return haft.Failure{Kind: haft.FailCancelled, Message: "the call was stopped", Retry: haft.RetrySame}
}

// refused is the failure for an error with a code.
func refused(h *haft.Error) haft.Failure {
	f := haft.Failure{
		Kind: haft.FailException, Message: bounded(clean(h.Message), maxMessage),
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

// fail makes res a failure, with the status that its kind has.
func fail(res *haft.Result, f haft.Failure) {
	res.Value, res.Error = []byte("null"), &f
	switch f.Kind {
	case haft.FailTimeout:
		res.Status = haft.StatusTimeout
	case haft.FailCancelled:
		res.Status = haft.StatusCancelled
	case haft.FailValidation:
		res.Status = haft.StatusValidation
	case haft.FailDenied:
		res.Status = haft.StatusDenied
	case haft.FailRate:
		res.Status = haft.StatusRate
	default:
		res.Status = haft.StatusError
		if strings.HasPrefix(string(f.Kind), "limit_") {
			res.Status = haft.StatusLimit
		}
	}
}

// bounded cuts s to about n bytes.
func bounded(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
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
