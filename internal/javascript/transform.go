package javascript

import (
	"context"
	"fmt"
	"time"

	"github.com/evanw/esbuild/pkg/api"

	"haft"
)

// parseTime is how long esbuild may take.
const parseTime = 5 * time.Second

// largeSource is the size from which sources are parsed one after the other.
// esbuild reports every repeated mistake by counting lines back to the first
// one: 64 kB of them hold it for two seconds, 1 MB for minutes.
const largeSource = 64 << 10

// oneLarge is held while a large source is parsed, so that hostile ones hold one
// processor and no more. Small sources do not wait for it.
var oneLarge = make(chan struct{}, 1)

// Scan splits source into tokens that are within the bounds: esbuild, given 180
// bytes of conditions with arrow functions, takes 10 seconds, and given enough
// brackets ends the process. Scan takes time by the length of the source. Its
// Source has at least the text, also beside a problem.
func Scan(source []byte) (*Source, *Problem) {
	text, problem := decode(source)
	if problem != nil {
		return &Source{Text: text}, problem
	}
	s, problem := Lex(text, 0)
	if problem != nil {
		return s, problem
	}
	return s, s.bounded()
}

// Transform lets esbuild transform the source, which must come from [Scan].
// Mistakes in the source are in the result. An error that is a [*Problem] is the
// fault of the source too.
//
// esbuild cannot be interrupted. At the end of ctx or of parseTime Transform
// returns without it; the rest of its work is bounded by what Scan let through,
// and by oneLarge.
func (s *Source) Transform(ctx context.Context, opts api.TransformOptions) (api.TransformResult, error) {
	var none api.TransformResult
	timer := time.NewTimer(parseTime)
	defer timer.Stop()
	release := func() {}
	if len(s.Text) > largeSource {
		select {
		case oneLarge <- struct{}{}:
			release = func() { <-oneLarge }
		case <-timer.C:
			return none, &haft.Error{Code: haft.CodeUnavailable,
				Message: "another large source is being parsed: try again"}
		case <-ctx.Done():
			return none, fmt.Errorf("parse the source: %w", context.Cause(ctx))
		}
	}
	opts.LogLevel = api.LogLevelSilent
	done := make(chan *api.TransformResult, 1)
	go func() {
		var result *api.TransformResult
		defer func() {
			if recover() != nil {
				result = nil
			}
			done <- result
			release()
		}()
		r := api.Transform(s.Text, opts)
		result = &r
	}()
	select {
	case result := <-done:
		if result == nil {
			return none, &Problem{-1, "the source cannot be parsed"}
		}
		return *result, nil
	case <-timer.C:
		return none, &haft.Error{Code: haft.CodeUnavailable,
			Message: "the source takes too long to parse: make it simpler, or try again"}
	case <-ctx.Done():
		return none, fmt.Errorf("parse the source: %w", context.Cause(ctx))
	}
}

// Offset returns the place of a message in bytes, or -1.
func (s *Source) Offset(at *api.Location) int {
	if at == nil {
		return -1
	}
	lines := LineStarts(s.Text)
	if at.Line < 1 || at.Line > len(lines) {
		return -1
	}
	return min(lines[at.Line-1]+at.Column, len(s.Text))
}
