package executor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"haft"
)

// Fail makes res a failure, with the status that its kind has.
func Fail(res *haft.Result, f haft.Failure) {
	res.Value, res.Error = json.RawMessage("null"), &f
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

// Stopped returns the failure of a call whose context ended with cause.
func Stopped(cause error) haft.Failure {
	if errors.Is(cause, context.DeadlineExceeded) {
		return haft.Failure{Kind: haft.FailTimeout, Message: "the call took longer than it was allowed to",
			Retry: haft.RetryChanged}
	}
	return haft.Failure{Kind: haft.FailCancelled, Message: "the call was stopped", Retry: haft.RetrySame}
}

// Shorten cuts a text after about n bytes, at the end of a character.
func Shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

// JSONDepth returns how deep valid JSON nests.
func JSONDepth(b []byte) int {
	depth, most, quoted := 0, 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
			most = max(most, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return most
}

// EncodeJSON encodes a value as results have it: without escapes for HTML.
func EncodeJSON(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode a value: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// NoIsolation is what confines a tool that runs in no sandbox of ours: nothing.
func NoIsolation() haft.Isolation {
	return haft.Isolation{Level: haft.LevelNone, Controls: []haft.Control{}}
}
