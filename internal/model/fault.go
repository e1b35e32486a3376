package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"haft"
	"haft/internal/bounds"
)

// A Kind sorts faults by what to do about them.
type Kind string

// The kinds.
const (
	RateLimited    Kind = "rate_limited"    // ask less often
	Overloaded     Kind = "overloaded"      // the vendor has too much to do
	Unavailable    Kind = "unavailable"     // the server cannot be reached, or fails
	Cut            Kind = "cut"             // the stream ended before the answer did
	InvalidAnswer  Kind = "invalid_answer"  // the answer cannot be read, or passes a bound
	RefusedRequest Kind = "refused_request" // the vendor does not take the request
	Unauthorized   Kind = "unauthorized"    // the key is wrong, or may not do this
	TooLong        Kind = "too_long"        // the conversation does not fit into the model
)

// A Fault is why there is no answer.
type Fault struct {
	Kind Kind
	// Message can be shown to whoever asked: it is one short line, and has no key.
	Message string
	// Status is that of HTTP, or 0 if the fault is not one of it.
	Status int
	// RetryAfter is how long the vendor wants to be left alone; 0 if it does not say.
	RetryAfter time.Duration
	// Err is for the operator.
	Err error
}

// Error returns the kind and the message.
func (f *Fault) Error() string { return "model: " + string(f.Kind) + ": " + f.Message }

// Unwrap returns the cause.
func (f *Fault) Unwrap() error { return f.Err }

// Retryable reports whether the same request may succeed later. An answer that cannot be read is such a case: the next
// one will be another.
func (f *Fault) Retryable() bool {
	switch f.Kind {
	case RateLimited, Overloaded, Unavailable, Cut, InvalidAnswer:
		return true
	}
	return false
}

// The bounds of what is said about a fault.
const (
	maxMessage    = 300 // characters of the vendor's own words
	maxRetryAfter = time.Hour
)

// invalidAnswer is a fault of the content of an answer.
func invalidAnswer(format string, args ...any) *Fault {
	return &Fault{Kind: InvalidAnswer, Message: "the answer of the model " + fmt.Sprintf(format, args...)}
}

// unreachable is the fault of a request that got no answer. What the caller's own HTTP client refuses is no fault of
// the server.
func unreachable(err error) error {
	if _, ours := errors.AsType[*haft.Error](err); ours {
		return fmt.Errorf("ask the model: %w", err)
	}
	return &Fault{Kind: Unavailable, Message: "the server of the model cannot be reached", Err: err}
}

// refused is the fault of an answer that is no stream.
func refused(resp *http.Response, body io.Reader, secrets []string) error {
	text, err := io.ReadAll(io.LimitReader(body, maxError))
	if err != nil {
		return &Fault{Kind: Cut, Status: resp.StatusCode, Err: err,
			Message: "the connection to the server of the model broke"}
	}
	e := readVendorError(text)
	if resp.StatusCode == http.StatusOK && e.empty() {
		return &Fault{Kind: RefusedRequest, Status: resp.StatusCode,
			Message: "the server of the model does not answer with a stream; check the address"}
	}
	f := e.fault(resp.StatusCode, secrets)
	if wait := retryAfter(resp.Header, time.Now()); wait > 0 {
		f.RetryAfter = wait
	}
	return f
}

// A vendorError is what the vendors say about an error, in their various fields.
type vendorError struct {
	Type    string          `json:"type"`
	Code    json.RawMessage `json:"code"` // a text, or a number that repeats the status
	Status  json.RawMessage `json:"status"`
	Message string          `json:"message"`
	Details []struct {
		Reason string `json:"reason"`
		Delay  string `json:"retryDelay"`
	} `json:"details"`
}

func (e vendorError) empty() bool { return e.Type == "" && e.Message == "" && len(e.Code) == 0 }

// readVendorError reads the body of an error, or an event of one. What cannot be read is empty.
func readVendorError(text []byte) (e vendorError) {
	if bounds.Check(text, bounds.Default(), nil) != nil {
		return e
	}
	// Gemini sends a list of one error where it does not stream.
	var list []json.RawMessage
	if json.Unmarshal(text, &list) == nil && len(list) > 0 {
		text = list[0]
	}
	var outer struct {
		vendorError
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(text, &outer) != nil && len(outer.Error) == 0 {
		return e
	}
	if len(outer.Error) == 0 || string(outer.Error) == "null" {
		return outer.vendorError
	}
	if json.Unmarshal(outer.Error, &e.Message) == nil { // a text alone, as Ollama has it
		return e
	}
	_ = json.Unmarshal(outer.Error, &e) // fields of another type stay empty
	return e
}

// fault sorts an error. The status is 0 for one that came in a stream.
func (e vendorError) fault(status int, secrets []string) *Fault {
	words := strings.ToLower(e.Type + " " + string(e.Code) + " " + string(e.Status))
	f := &Fault{Status: status}
	for _, d := range e.Details {
		words += " " + strings.ToLower(d.Reason)
		if wait, err := time.ParseDuration(d.Delay); err == nil {
			f.RetryAfter = min(max(wait, 0), maxRetryAfter)
		}
	}
	f.Kind = kindOf(status, words, strings.ToLower(e.Message))
	where := "the server of the model reports an error"
	if status != 0 {
		where = fmt.Sprintf("the server of the model answers %d", status)
	}
	said := oneLine(e.Message, secrets)
	if f.Kind == Unauthorized || said == "" { // vendors quote parts of a wrong key
		said = explanation(f.Kind)
	}
	f.Message = where + ": " + said
	return f
}

// kindOf sorts an error by its status, by what the vendor calls it, and, because not all have a word for it, by what it
// says of conversations that are too long.
func kindOf(status int, words, message string) Kind {
	has := func(text string, any ...string) bool {
		for _, w := range any {
			if strings.Contains(text, w) {
				return true
			}
		}
		return false
	}
	switch {
	case status == http.StatusRequestEntityTooLarge, has(words, "context_length", "request_too_large"),
		status != http.StatusTooManyRequests && has(message, "prompt is too long", "context window", "context length",
			"input token count", "exceeds the available context"):
		return TooLong
	case has(words, "insufficient_quota", "billing"), status == http.StatusPaymentRequired:
		return RefusedRequest // waiting does not pay the bill
	case status == http.StatusTooManyRequests, has(words, "rate_limit", "resource_exhausted"):
		return RateLimited
	case status == 529, status == http.StatusServiceUnavailable, has(words, "overloaded", "unavailable"):
		return Overloaded
	case status == http.StatusUnauthorized, status == http.StatusForbidden,
		has(words, "authentication", "permission", "unauthenticated", "api_key_invalid", "invalid_api_key"):
		return Unauthorized
	case status >= 500, status == http.StatusRequestTimeout, status == http.StatusTooEarly:
		return Unavailable
	case status >= 300, has(words, "invalid_request", "invalid_argument", "invalid_prompt", "not_found"):
		return RefusedRequest
	}
	return Unavailable
}

// explanation is what is said where the vendor's own words are missing or unsafe.
func explanation(k Kind) string {
	switch k {
	case RateLimited:
		return "too many requests"
	case Overloaded:
		return "it is overloaded"
	case Unauthorized:
		return "the key is missing, wrong, or may not be used for this"
	case TooLong:
		return "the conversation is too long for the model"
	case RefusedRequest:
		return "it does not take the request; check the address and the name of the model"
	}
	return "it gives no reason"
}

// oneLine makes the vendor's words safe to be shown: one line of bounded length without secrets, and without characters
// that control a terminal or the direction of the text.
func oneLine(text string, secrets []string) string {
	for _, s := range secrets {
		if len(s) >= 4 { // less is no secret, and stands everywhere
			text = strings.ReplaceAll(text, s, "[secret]")
		}
	}
	text = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "\ufffd"),
		func(r rune) bool { return unicode.IsSpace(r) || unicode.In(r, unicode.Cc, unicode.Cf) }), " ")
	if short := []rune(text); len(short) > maxMessage {
		return string(short[:maxMessage]) + "…"
	}
	return text
}

// retryAfter returns how long a server wants to be left alone: a number of seconds, or a date.
func retryAfter(h http.Header, now time.Time) time.Duration {
	wait := time.Duration(0)
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil { // of OpenAI and Azure
		wait = seconds(ms / 1000)
	} else if s, err := strconv.ParseFloat(h.Get("Retry-After"), 64); err == nil {
		wait = seconds(s)
	} else if date, err := http.ParseTime(h.Get("Retry-After")); err == nil {
		wait = date.Sub(now)
	}
	return min(max(wait, 0), maxRetryAfter)
}

// seconds returns a duration within bounds, also for numbers that are none.
func seconds(s float64) time.Duration {
	if !(s > 0) {
		return 0
	}
	return time.Duration(min(s, maxRetryAfter.Seconds()) * float64(time.Second))
}
