package modal

import (
	"context"
	"errors"
	"time"

	"github.com/modal-labs/modal-client/go"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"haft"
	"haft/sandbox/internal/rented"
)

// maxRetry bounds the time that a server asks to wait.
const maxRetry = time.Hour

// gone is the error of a sandbox that has ended, or will too soon.
func gone() error {
	return &haft.Error{Code: haft.CodeUnavailable, Message: "the sandbox of Modal has ended", Err: rented.ErrGone}
}

// broken is the error of an answer that makes no sense.
func broken(message string) error { return &haft.Error{Code: haft.CodeUnavailable, Message: message} }

// problem says what an error of the SDK means; nil is none. Texts of the server are not passed on.
func problem(err error) error {
	if err == nil {
		return nil
	}
	if ours, ok := errors.AsType[*haft.Error](err); ok {
		return ours
	}
	e := &haft.Error{Code: haft.CodeUnavailable, Message: "Modal cannot be reached, or did not answer in time",
		Err: errors.New("status " + codeOf(err).String())}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		e.Err = err
		return e
	}
	switch codeOf(err) {
	case codes.Unauthenticated, codes.PermissionDenied:
		e.Message = "Modal refuses the token: the operator checks MODAL_TOKEN_ID and MODAL_TOKEN_SECRET"
	case codes.NotFound:
		e.Message = "Modal has no such sandbox, app or image: the operator checks HAFT_MODAL_IMAGE"
		e.Err = rented.ErrGone
	case codes.FailedPrecondition, codes.Aborted:
		e.Message, e.Err = "Modal says that the sandbox is not in a state to be used", rented.ErrGone
	case codes.ResourceExhausted:
		e.Code, e.Message = haft.CodeRateLimited, "Modal takes no more requests, or gives no more sandboxes, for now"
		e.RetryAfter = retryAfter(err)
	case codes.InvalidArgument, codes.OutOfRange, codes.Unimplemented:
		e.Message = "Modal does not take the request of Haft"
	case codes.DataLoss:
		e.Message = "Modal could not build the image: the operator checks HAFT_MODAL_IMAGE"
	}
	return e
}

// codeOf returns the code of an error: the SDK has types of its own for some.
func codeOf(err error) codes.Code {
	var (
		notFound  modal.NotFoundError
		conflict  modal.ConflictError
		closed    modal.ClientClosedError
		exhausted modal.ResourceExhaustedError
		wrong     modal.InvalidError
		remote    modal.RemoteError
		timeout   modal.TimeoutError
		slow      modal.ExecTimeoutError
	)
	switch {
	case errors.As(err, &notFound):
		return codes.NotFound
	case errors.As(err, &conflict), errors.As(err, &closed):
		return codes.FailedPrecondition
	case errors.As(err, &exhausted):
		return codes.ResourceExhausted
	case errors.As(err, &wrong):
		return codes.InvalidArgument
	case errors.As(err, &remote): // of a build, which is all that we ask for that can fail so
		return codes.DataLoss
	case errors.As(err, &timeout), errors.As(err, &slow):
		return codes.DeadlineExceeded
	}
	return status.Code(err)
}

// isBusy reports whether the server has answered, and a sandbox need not be looked for.
func isBusy(err error) bool {
	c := codeOf(err)
	return c == codes.ResourceExhausted || c == codes.Unauthenticated || c == codes.PermissionDenied
}

// retryAfter returns how long the server asks to wait, or a second.
func retryAfter(err error) haft.Millis {
	for _, detail := range status.Convert(err).Details() {
		if policy, ok := detail.(interface{ GetRetryAfterSecs() float32 }); ok && policy.GetRetryAfterSecs() > 0 {
			secs := min(float64(policy.GetRetryAfterSecs()), maxRetry.Seconds())
			return haft.Millis(time.Duration(secs * float64(time.Second)))
		}
	}
	return haft.Millis(time.Second)
}
