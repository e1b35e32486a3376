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

// A Screen is the filters that concern one request, for all the texts that belong
// to it. It counts what it has looked at. Use it from one goroutine.
//
// It returns an error if a value cannot be read, if there is too much, or if ctx has
// ended. Then nothing of what was given to it may go on.
type Screen struct {
	// Clean is applied to keys of a value before they are named in findings, so
	// that a secret that is a key is not cut and told. Nil means that keys are told
	// as they are.
	Clean   func(string) string
	filters []bound
	dir     Direction
	left    int64
}

// Screen returns the filters of one direction that concern a request, or nil if
// there are none.
func (p *Policy) Screen(req Request, dir Direction) *Screen {
	if !p.Filters(dir) {
		return nil
	}
	s := p.sieve(req, dir)
	if len(s.filters) == 0 {
		return nil
	}
	return &Screen{filters: s.filters, dir: dir, left: MaxScreened}
}

// Filters reports whether there are filters of a direction, whomever they concern.
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

// take counts n bytes that are about to be looked at.
func (s *Screen) take(n int) error {
	if s.left -= int64(n); s.left < 0 {
		return fmt.Errorf("%w: %d bytes is the most", ErrTooMuch, MaxScreened)
	}
	return nil
}

// JSON holds a value against the filters, as [Policy.Filter] does.
func (s *Screen) JSON(ctx context.Context, raw json.RawMessage) (Filtered, error) {
	if s == nil || len(raw) == 0 {
		return Filtered{Value: raw}, nil
	}
	if err := s.take(len(raw)); err != nil {
		return Filtered{}, err
	}
	run := &sieve{ctx: ctx, filters: s.filters, clean: s.Clean}
	return run.json(s.dir, raw)
}

// Text holds a text against the filters, as [Policy.FilterText] does.
func (s *Screen) Text(ctx context.Context, name, text string) (Filtered, error) {
	if s == nil || text == "" {
		return Filtered{Text: text}, nil
	}
	if err := s.take(len(text)); err != nil {
		return Filtered{}, err
	}
	run := &sieve{ctx: ctx, filters: s.filters, clean: s.Clean}
	run.out.Text = run.text(text, nil, name)
	if run.err != nil {
		return Filtered{}, run.err
	}
	if run.out.Refused {
		run.out.Text = ""
	}
	return run.out, nil
}

// json runs filters over a value.
func (s *sieve) json(dir Direction, raw json.RawMessage) (Filtered, error) {
	s.out.Value = raw
	tree, err := readTree(raw, MaxValue)
	if err != nil {
		return Filtered{}, fmt.Errorf("filter %s: %w", dir, err)
	}
	tree = s.walk(tree, nil, nil)
	switch {
	case s.err != nil:
		return Filtered{}, fmt.Errorf("filter %s: %w", dir, s.err)
	case s.out.Refused:
		s.out.Value = nil
	case s.out.Masked:
		if s.out.Value, err = jsontree.Encode(tree); err != nil {
			return Filtered{}, fmt.Errorf("write filtered %s: %w", dir, err)
		}
	}
	return s.out, nil
}
