package policy

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"haft"
	"haft/internal/jsontree"
)

// Direction says which way a value goes through a filter.
type Direction string

// The directions.
const (
	Input  Direction = "input"  // arguments
	Output Direction = "output" // value, stdout and stderr
	both   Direction = "both"
)

// Action is what a filter does about what it finds.
type Action string

// The actions.
const (
	Refuse Action = "refuse" // the call, or its result, is refused
	Mask   Action = "mask"   // what was found is replaced
	Warn   Action = "warn"   // it is only reported
)

// maxFindings is how many findings are listed one by one.
const maxFindings = 100

// filter is one compiled filter.
type filter struct {
	id     string
	line   int
	on     Direction
	action Action
	reason string
	principals
	tools   []Permission
	at      []place // none means everywhere
	pattern *matcher
	mask    string // instead of what was found; empty means the name of the filter
}

// A Finding says that a filter found something, and where. It never holds what
// was found.
type Finding struct {
	Rule   string `json:"rule"`
	Action Action `json:"action"`
	// Pointer is a JSON Pointer into the value, or the name of a text such as
	// stdout. A key in which something was found is written *.
	Pointer string `json:"pointer"`
	// Key says that it was found in a key of the object at Pointer.
	Key bool `json:"key,omitempty"`
	// Count is how often it was found there.
	Count  int    `json:"count"`
	Reason string `json:"reason,omitempty"`
}

// String says what was found where.
func (f Finding) String() string {
	where := strconv.Quote(f.Pointer)
	if f.Key {
		where = "a key of " + where
	}
	s := fmt.Sprintf("%s: filter %s in %s, %d times", f.Action, f.Rule, where, f.Count)
	if f.Reason != "" {
		s += ": " + f.Reason
	}
	return s
}

// Filtered is what filters make of a value.
type Filtered struct {
	// Value is the value to go on with: the very same bytes if nothing was
	// masked. It is nil if Refused.
	Value json.RawMessage
	// Text is the same for [Screen.Text].
	Text string
	// Refused says that a filter refuses the value.
	Refused bool
	// Masked says that something was replaced.
	Masked bool
	// Findings list all that was refused, masked or warned about, by place and
	// rule. They belong into the audit.
	Findings []Finding
	// More counts the findings that are not listed.
	More int
}

// Err returns the error for a caller whose value is refused, and nil otherwise.
func (f Filtered) Err() error {
	if !f.Refused {
		return nil
	}
	e := &haft.Error{Code: haft.CodeDenied, Message: "a filter refuses it"}
	for _, x := range f.Findings {
		if x.Action == Refuse {
			e.Misfits = append(e.Misfits, haft.Misfit{Pointer: x.Pointer,
				Message: cmp.Or(x.Reason, "the filter "+x.Rule+" refuses it")})
		}
	}
	return e
}

// filterRun is one run of filters over a value.
type filterRun struct {
	ctx     context.Context //nolint:containedctx // of one run; nil never ends
	filters []namedFilter
	clean   func(string) string // of keys in findings; nil leaves them
	out     Filtered
	err     error // ends the run
}

// namedFilter is a filter with its name in decisions.
type namedFilter struct {
	*filter
	ref string
}

// filtersFor returns the filters that concern a request.
func (p *Policy) filtersFor(req Request, dir Direction) []namedFilter {
	var all []namedFilter
	if p == nil {
		return nil
	}
	for i := range p.layers {
		l := &p.layers[i]
		for j := range l.filters {
			f := &l.filters[j]
			if (f.on == dir || f.on == both) && f.excludes(&req) == "" && f.concerns(&req) {
				all = append(all, namedFilter{f, l.ref(f.id)})
			}
		}
	}
	return all
}

// concerns reports whether the filter is for the tool: in the version that runs, or
// in the current one.
func (f *filter) concerns(req *Request) bool {
	if len(f.tools) == 0 || covered(f.tools, req.Tool) {
		return true
	}
	return req.Current != nil && covered(f.tools, req.current().Tool)
}

// walk goes through a tree and returns it with masked values. way is the place in the tree, and
// seen the same for findings.
func (s *filterRun) walk(v any, way, seen []string) any {
	switch v := v.(type) {
	case *jsontree.Object:
		for _, key := range v.Keys() {
			shown := key
			if s.findInKey(key, append(way, key), seen) {
				shown = "*"
			} else if s.clean != nil {
				shown = s.clean(key)
			}
			if s.err != nil {
				return v
			}
			v.Set(key, s.walk(v.Value(key), append(way, key), append(seen, shown)))
		}
	case []any:
		for i := range v {
			n := strconv.Itoa(i)
			v[i] = s.walk(v[i], append(way, n), append(seen, n))
		}
	case string:
		return s.filterText(v, way, pointer(seen))
	case json.Number:
		// A number that contains a masked value becomes a text.
		if masked := s.filterText(v.String(), way, pointer(seen)); masked != v.String() {
			return masked
		}
	}
	return v
}

// findInKey looks for something in a key. Other keys could be hit by a replacement, so
// a key is never changed.
func (s *filterRun) findInKey(key string, way, parent []string) bool {
	found := false
	for _, f := range s.filters {
		n := len(s.find(f, key, way))
		if n == 0 {
			continue
		}
		found = true
		action := f.action
		if action == Mask {
			action = Refuse
		}
		s.addFinding(Finding{Rule: f.ref, Action: action, Pointer: pointer(parent), Key: true, Count: n,
			Reason: f.reason})
	}
	return found
}

// find returns where in a text the pattern of a filter matches, empty matches left
// out. Once it has failed, it finds nothing more and err says why.
func (s *filterRun) find(f namedFilter, text string, way []string) [][]int {
	if s.err != nil || len(f.at) > 0 && !slices.ContainsFunc(f.at, func(p place) bool { return p.covers(way) }) {
		return nil
	}
	found, err := f.pattern.find(s.ctx, text)
	s.err = err
	return found
}

// hit is a stretch of text to be masked.
type hit struct {
	from, to int
	rule     string
	mask     string
}

// filterText holds a text against the filters and returns it masked.
func (s *filterRun) filterText(text string, way []string, where string) string {
	var hits []hit
	for _, f := range s.filters {
		found := s.find(f, text, way)
		if len(found) == 0 {
			continue
		}
		s.addFinding(Finding{Rule: f.ref, Action: f.action, Pointer: where, Count: len(found), Reason: f.reason})
		if f.action == Mask {
			for _, at := range found {
				hits = append(hits, hit{at[0], at[1], f.ref, f.mask})
			}
		}
	}
	if len(hits) == 0 {
		return text
	}
	s.out.Masked = true
	return mask(text, hits)
}

// mask replaces the stretches, overlapping ones as one.
func mask(text string, hits []hit) string {
	slices.SortFunc(hits, func(a, b hit) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.to, a.to), cmp.Compare(a.rule, b.rule))
	})
	var b strings.Builder
	end := 0
	for _, h := range hits {
		if h.from >= end {
			b.WriteString(text[end:h.from])
			b.WriteString(cmp.Or(h.mask, "[masked by "+h.rule+"]"))
		}
		end = max(end, h.to)
	}
	b.WriteString(text[end:])
	return b.String()
}

// addFinding keeps a finding.
func (s *filterRun) addFinding(f Finding) {
	s.out.Refused = s.out.Refused || f.Action == Refuse
	if len(s.out.Findings) < maxFindings {
		s.out.Findings = append(s.out.Findings, f)
	} else {
		s.out.More++
	}
}

// filter reads one filter.
func (c *compiler) filter(n ast.Node) {
	f, patterns := filter{line: position(n).Line}, 0
	fields := map[string]field{
		"id":      func(n ast.Node) { f.id = c.id(n) },
		"on":      func(n ast.Node) { f.on = oneOf(&c.document, n, "on", []Direction{Input, Output, both}) },
		"action":  func(n ast.Node) { f.action = oneOf(&c.document, n, "action", []Action{Refuse, Mask, Warn}) },
		"reason":  func(n ast.Node) { f.reason = c.text(n, "reason", 300) },
		"at":      func(n ast.Node) { f.at = c.places(n, "at") },
		"pattern": func(n ast.Node) { f.pattern = c.pattern(n); patterns++ },
		"preset":  func(n ast.Node) { f.pattern = c.preset(n); patterns++ },
		"mask":    func(n ast.Node) { f.mask = c.text(n, "mask", 100) },
	}
	c.whoFields(fields, &f.principals, &f.tools)
	c.object(n, "a filter", fields)
	switch {
	case f.id == "" || f.on == "" || f.action == "" || patterns != 1:
		c.fail(n, "a filter needs id, on, action, and a pattern or a preset")
	case f.mask != "" && f.action != Mask:
		c.fail(n, "a filter has a mask only with the action mask")
	case f.mask != "" && f.pattern != nil && f.pattern.re.MatchString(f.mask):
		c.fail(n, "the mask is found by the filter itself")
	case len(c.layer.filters) >= MaxFilters:
		c.fail(n, "there are more than %d filters", MaxFilters)
	}
	c.layer.filters = append(c.layer.filters, f)
}

// pattern reads a regular expression. RE2 takes time in proportion to the text,
// whatever the pattern is; how much for each byte is bounded here, when a policy is
// written. One that was kept by an older version is taken as it is.
func (c *compiler) pattern(n ast.Node) *matcher {
	text := c.text(n, "pattern", maxText)
	if c.err != nil {
		return nil
	}
	return c.compilePattern(n, text)
}

// compilePattern compiles the text of a pattern.
func (c *compiler) compilePattern(n ast.Node, text string) *matcher {
	m, err := newMatcher(text)
	switch {
	case err != nil:
		c.fail(n, "pattern: %s", short(err.Error()))
		return nil
	case m.re.MatchString(""):
		c.fail(n, "the pattern matches the empty text, and so everything")
	}
	c.steps += m.size
	if err := checkCost(m, c.steps); err != nil && !c.stored {
		c.fail(n, "%s", err.Error())
	}
	return m
}

// redacted is what stands for a value that must not be seen.
const redacted = "[redacted]"

// Redacted returns arguments as they may be kept and shown: those that the
// decision names in Redact are replaced. An error means that they cannot be read
// and must not be kept.
func (d Decision) Redacted(args json.RawMessage) (json.RawMessage, error) {
	if len(d.Redact) == 0 || len(args) == 0 {
		return args, nil
	}
	places := make([]place, len(d.Redact))
	for i, text := range d.Redact {
		p, err := parsePlace(text)
		if err != nil {
			return nil, fmt.Errorf("redact arguments: %w", err)
		}
		places[i] = p
	}
	tree, err := readArgs(args)
	if err != nil {
		return nil, fmt.Errorf("redact arguments: %w", err)
	}
	out, err := jsontree.Encode(redact(tree, nil, places))
	if err != nil {
		return nil, fmt.Errorf("redact arguments: %w", err)
	}
	return out, nil
}

// redact replaces what lies at the places.
func redact(v any, way []string, places []place) any {
	if slices.ContainsFunc(places, func(p place) bool { return p.covers(way) }) {
		return redacted
	}
	switch v := v.(type) {
	case *jsontree.Object:
		for _, key := range v.Keys() {
			v.Set(key, redact(v.Value(key), append(way, key), places))
		}
	case []any:
		for i := range v {
			v[i] = redact(v[i], append(way, strconv.Itoa(i)), places)
		}
	}
	return v
}
