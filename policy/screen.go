package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"haft/internal/jsontree"
)

// MaxScreened bounds how many bytes one [Screen] looks at, of all texts together.
const MaxScreened = 64 << 20

// ErrTooMuch is wrapped by the error of a [Screen] that was given more than
// [MaxScreened] bytes.
var ErrTooMuch = errors.New("there is more text than filters look at")

// A Screen has the filters of one request, for all its texts. It counts the text that it has
// filtered. Use it from one goroutine.
//
// It returns an error if a value cannot be read, if there is too much, or if ctx has ended.
// Then the caller must not use the texts of the request.
type Screen struct {
	// Clean is applied to keys of a value before they are named in findings, so
	// that a secret that is a key is not shown. Nil means that keys are shown as they
	// are.
	Clean   func(string) string
	filters []namedFilter
	dir     Direction
	left    int64
}

// Screen returns the filters of one direction that concern a request, or nil if
// there are none.
func (p *Policy) Screen(req Request, dir Direction) *Screen {
	filters := p.filtersFor(req, dir)
	if len(filters) == 0 {
		return nil
	}
	return &Screen{filters: filters, dir: dir, left: MaxScreened}
}

// Filters reports whether there are filters of a direction, for any request.
func (p *Policy) Filters(dir Direction) bool {
	return p != nil && slices.ContainsFunc(p.layers, func(l layer) bool {
		return slices.ContainsFunc(l.filters, func(f filter) bool { return f.on == dir || f.on == both })
	})
}

// Steps is how much work a byte can be at the worst: the instructions of all patterns.
func (s *Screen) Steps() int {
	n := 0
	if s != nil {
		for _, f := range s.filters {
			n += f.pattern.size
		}
	}
	return n
}

// run begins to look at n bytes.
func (s *Screen) run(ctx context.Context, n int) (*filterRun, error) {
	if s.left -= int64(n); s.left < 0 {
		return nil, fmt.Errorf("%w: %d bytes is the most", ErrTooMuch, MaxScreened)
	}
	return &filterRun{ctx: ctx, filters: s.filters, clean: s.Clean}, nil
}

// JSON applies the filters to a JSON value: to all its texts, numbers and keys, however deep.
// Every filter sees the original value, so that their order does not matter. A match in a key
// cannot be masked and is refused.
//
// Patterns see the text itself, without escapes of JSON. They do not find text that is encoded
// in another way.
func (s *Screen) JSON(ctx context.Context, raw json.RawMessage) (Filtered, error) {
	if s == nil || len(raw) == 0 {
		return Filtered{Value: raw}, nil
	}
	run, err := s.run(ctx, len(raw))
	if err != nil {
		return Filtered{}, err
	}
	tree, err := readTree(raw, MaxValue)
	if err != nil {
		return Filtered{}, fmt.Errorf("filter %s: %w", s.dir, err)
	}
	run.out.Value = raw
	tree = run.walk(tree, nil, nil)
	switch {
	case run.err != nil:
		return Filtered{}, fmt.Errorf("filter %s: %w", s.dir, run.err)
	case run.out.Refused:
		run.out.Value = nil
	case run.out.Masked:
		if run.out.Value, err = jsontree.Encode(tree); err != nil {
			return Filtered{}, fmt.Errorf("write filtered %s: %w", s.dir, err)
		}
	}
	return run.out, nil
}

// Text holds a text such as stdout against the filters; findings call it by the name
// given. Filters for certain arguments do not concern it.
func (s *Screen) Text(ctx context.Context, name, text string) (Filtered, error) {
	if s == nil || text == "" {
		return Filtered{Text: text}, nil
	}
	run, err := s.run(ctx, len(text))
	if err != nil {
		return Filtered{}, err
	}
	run.out.Text = run.filterText(text, nil, name)
	if run.err != nil {
		return Filtered{}, run.err
	}
	if run.out.Refused {
		run.out.Text = ""
	}
	return run.out, nil
}
