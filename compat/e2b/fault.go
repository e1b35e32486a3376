package e2b

import (
	"encoding/json"
	"errors"
	"net/http"

	"haft"
)

// A fault is why a request fails, in the words of E2B: a code of the Connect protocol, and a
// status of HTTP.
type fault struct {
	code    string
	status  int
	message string
	retry   string // seconds to wait, for a header
}

// Error implements error.
func (f *fault) Error() string { return f.message }

// The faults that are no errors of Haft.
var (
	errGone     = &fault{code: "unavailable", status: http.StatusBadGateway, message: "The sandbox was not found"}
	errToken    = &fault{code: "unauthenticated", status: http.StatusUnauthorized, message: "the access token is wrong"}
	errDeadline = &fault{code: "deadline_exceeded", status: http.StatusGatewayTimeout, message: "the time is over"}
	errNoRoute  = &fault{code: "unimplemented", status: http.StatusNotFound, message: "there is no such operation here"}
)

// faults are the codes of Haft in the words of E2B.
var faults = map[haft.Code]fault{
	haft.CodeInvalid:         {code: "invalid_argument", status: http.StatusBadRequest},
	haft.CodeUnauthenticated: {code: "unauthenticated", status: http.StatusUnauthorized},
	haft.CodeDenied:          {code: "permission_denied", status: http.StatusForbidden},
	haft.CodeNotFound:        {code: "not_found", status: http.StatusNotFound},
	haft.CodeConflict:        {code: "already_exists", status: http.StatusConflict},
	haft.CodeRateLimited:     {code: "resource_exhausted", status: http.StatusTooManyRequests},
	haft.CodeUnavailable:     {code: "unavailable", status: http.StatusServiceUnavailable},
	haft.CodeInternal:        {code: "internal", status: http.StatusInternalServerError},
}

// faultOf returns an error as a fault.
func faultOf(err error) *fault {
	if f, ok := errors.AsType[*fault](err); ok {
		return f
	}
	f := faults[haft.CodeOf(err)]
	f.message = haft.MessageOf(err)
	f.retry = haft.RetrySeconds(haft.RetryAfterOf(err))
	return &f
}

// invalid is the error for a request that is wrong.
func invalid(message string) error { return &haft.Error{Code: haft.CodeInvalid, Message: message} }

// missing is the error for what is not there.
func missing(message string) error { return &haft.Error{Code: haft.CodeNotFound, Message: message} }

// write answers a request of HTTP.
func (f *fault) write(w http.ResponseWriter, sandboxID string) {
	body := map[string]any{"code": f.status, "message": f.message}
	if f.status == http.StatusBadGateway {
		body["sandboxId"] = sandboxID
	}
	if f.retry != "" && f.status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", f.retry)
	}
	writeJSON(w, f.status, body)
}

// writeJSON answers with JSON.
func writeJSON(w http.ResponseWriter, status int, body any) {
	raw, err := json.Marshal(body)
	if err != nil { // no type of this package does that
		status, raw = http.StatusInternalServerError, []byte(`{"code":500,"message":"internal error"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(raw) // a client that is gone needs no answer
}
