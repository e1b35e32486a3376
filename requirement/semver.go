package requirement

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// maxSemver is the largest number that npm reads, 2^53-1, less one: bounds are the
// next number.
const maxSemver = 1<<53 - 2

// semver is a version of npm. Its build part is not kept: it orders nothing.
type semver struct {
	n   [3]uint64
	pre []string
}

// String writes v.
func (v semver) String() string {
	s := fmt.Sprintf("%d.%d.%d", v.n[0], v.n[1], v.n[2])
	if len(v.pre) > 0 {
		s += "-" + strings.Join(v.pre, ".")
	}
	return s
}

// compare orders versions by semver 2.0, no. 11.
func (v semver) compare(w semver) int {
	if c := slices.Compare(v.n[:], w.n[:]); c != 0 {
		return c
	}
	switch {
	case len(v.pre) == 0 || len(w.pre) == 0:
		return cmp.Compare(b2i(len(v.pre) == 0), b2i(len(w.pre) == 0))
	}
	return slices.CompareFunc(v.pre, w.pre, func(a, b string) int {
		na, nb := digits(a), digits(b)
		switch {
		case na && nb:
			return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
		case na != nb:
			return cmp.Compare(b2i(nb), b2i(na))
		}
		return strings.Compare(a, b)
	})
}

// b2i returns 1 for true.
func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// digits reports whether s is a number.
func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// bound is one end of a span.
type bound struct {
	v    semver
	open bool // v itself is outside
}

// span is one alternative of a range: all versions between two ends.
type span struct {
	lo, hi *bound // nil is without end
	// text is what npm reads: comparators that must all hold.
	text string
}

// and returns the versions in both.
func (s span) and(t span) (span, bool) {
	out := s
	if t.lo != nil && (s.lo == nil || t.lo.v.compare(s.lo.v) > 0 || t.lo.v.compare(s.lo.v) == 0 && t.lo.open) {
		out.lo = t.lo
	}
	if t.hi != nil && (s.hi == nil || t.hi.v.compare(s.hi.v) < 0 || t.hi.v.compare(s.hi.v) == 0 && t.hi.open) {
		out.hi = t.hi
	}
	switch {
	case s.text == "*" || s.text == t.text:
		out.text = t.text
	case t.text != "*":
		out.text = s.text + " " + t.text
	}
	if out.lo != nil && out.hi != nil {
		c := out.lo.v.compare(out.hi.v)
		if c > 0 || c == 0 && (out.lo.open || out.hi.open) {
			return span{}, false
		}
	}
	return out, true
}

var (
	semverWord = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(>=|<=|~>|[\^~><=])? *[v=]*([0-9]+|[xX*])(?:\.([0-9]+|[xX*])(?:\.([0-9]+|[xX*])` +
			`(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?)?)?(?: +|$)`)
	})
	semverHyphen = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(\S+) +- +(\S+)$`) })
)

// parseRange reads a range as node-semver does. Alternatives that no version fits
// are left out.
func parseRange(text string) ([]span, error) {
	parts := strings.Split(text, "||")
	if len(parts) > maxAlternatives {
		return nil, refuse("the range has %d alternatives, %d is the most", len(parts), maxAlternatives)
	}
	var out []span
	for _, part := range parts {
		s, possible, err := parseSpan(strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		if possible && !slices.ContainsFunc(out, func(t span) bool { return t.text == s.text }) {
			out = append(out, s)
		}
	}
	if len(out) == 0 {
		return nil, refuse("no version can be in this range")
	}
	return out, nil
}

// parseSpan reads comparators that spaces join, or a range with a hyphen.
func parseSpan(text string) (s span, possible bool, err error) {
	if m := semverHyphen().FindStringSubmatch(text); m != nil {
		lo, okLo := parsePartial(m[1])
		hi, okHi := parsePartial(m[2])
		if !okLo || !okHi || lo.op != "" || hi.op != "" {
			return span{}, false, refuse("a range with a hyphen needs a version on both sides, such as 1.2 - 1.8")
		}
		lo.op, hi.op = ">=", "<="
		s, possible = lo.span().and(hi.span())
		return s, possible, nil
	}
	s, possible = span{text: "*"}, true
	for text != "" {
		word := semverWord().FindString(text)
		p, ok := parsePartial(word)
		if !ok {
			return span{}, false, refuse("the version is not a semver range, such as ^1.2.0 or >=1.2 <3")
		}
		text = strings.TrimLeft(text[len(word):], " ")
		if possible {
			s, possible = s.and(p.span())
		}
	}
	return s, possible, nil
}

// partial is a comparator whose version may leave numbers open.
type partial struct {
	op    string
	v     semver
	known int // how many numbers are given
}

// parsePartial reads one comparator.
func parsePartial(text string) (partial, bool) {
	m := semverWord().FindStringSubmatch(text)
	if m == nil || len(m[0]) != len(text) {
		return partial{}, false
	}
	p := partial{op: m[1]}
	open := false
	for i, digit := range m[2:5] {
		if open = open || !digits(digit); open {
			continue
		}
		if len(digit) > 16 || number(digit) > maxSemver {
			return partial{}, false
		}
		p.v.n[i] = number(digit)
		p.known++
	}
	if p.known == 3 && m[5] != "" {
		for id := range strings.SplitSeq(m[5], ".") {
			if digits(id) { // npm refuses leading zeros; they would name one thing twice
				id = strings.TrimLeft(id[:len(id)-1], "0") + id[len(id)-1:]
			}
			p.v.pre = append(p.v.pre, id)
		}
	}
	switch p.op {
	case "~>":
		p.op = "~"
	case "=":
		p.op = ""
	}
	return p, true
}

// next returns the first version, even before its release, after all that agree
// with v in the first i numbers.
func (v semver) next(i int) semver {
	var w semver
	copy(w.n[:i], v.n[:i])
	w.n[i-1]++
	w.pre = []string{"0"}
	return w
}

// first returns v as the end of what is below it.
func (v semver) first() semver { return semver{n: v.n, pre: []string{"0"}} }

// span returns the versions that p lets through.
func (p partial) span() span {
	v, k := p.v, p.known
	s := span{text: p.op + p.text()}
	lo := func(v semver) { s.lo = &bound{v: v} }
	below := func(v semver) { s.hi = &bound{v: v, open: true} }
	switch {
	case k == 0 && (p.op == "<" || p.op == ">"):
		below(semver{pre: []string{"0"}}) // nothing: there is no version beyond all
		lo(semver{n: [3]uint64{math.MaxUint64}})
		s.text = "<0.0.0-0"
	case k == 0:
		s.text = "*"
	case p.op == "^":
		lo(v)
		first := slices.IndexFunc(v.n[:k], func(n uint64) bool { return n != 0 })
		if first < 0 {
			first = k - 1
		}
		below(v.next(first + 1))
	case p.op == "~":
		lo(v)
		below(v.next(min(k, 2)))
	case p.op == ">=":
		lo(v)
	case p.op == ">" && k < 3:
		w := v.next(k)
		w.pre = nil
		lo(w)
	case p.op == ">":
		s.lo = &bound{v: v, open: true}
	case p.op == "<=" && k < 3:
		below(v.next(k))
	case p.op == "<=":
		s.hi = &bound{v: v}
	case p.op == "<" && k < 3:
		below(v.first())
	case p.op == "<":
		below(v)
	case k < 3:
		lo(v)
		below(v.next(k))
	default:
		s.lo, s.hi = &bound{v: v}, &bound{v: v}
		return s
	}
	// npm takes >=0.0.0 for no bound at all, so that it lets 0.0.0-alpha through.
	if s.lo != nil && !s.lo.open && s.lo.v.compare(semver{}) == 0 {
		s.lo = nil
	}
	return s
}

// text writes the version of p, with as many numbers as were given.
func (p partial) text() string {
	if p.known == 3 {
		return p.v.String()
	}
	var parts []string
	for _, n := range p.v.n[:p.known] {
		parts = append(parts, fmt.Sprint(n))
	}
	return strings.Join(parts, ".")
}

// writeRange writes alternatives as npm reads them.
func writeRange(spans []span) string {
	var parts []string
	for _, s := range spans {
		parts = append(parts, s.text)
	}
	return strings.Join(parts, " || ")
}
