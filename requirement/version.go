package requirement

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// maxDigits bounds the numbers of versions, so that they fit 64 bits.
const maxDigits = 18

// versionForm is that of PEP 440, appendix B, in lower case.
var versionForm = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^v?(?:([0-9]+)!)?([0-9]+(?:\.[0-9]+)*)` +
		`(?:[-_.]?(alpha|beta|preview|pre|a|b|c|rc)[-_.]?([0-9]*))?` +
		`(?:-([0-9]+)|[-_.]?(post|rev|r)[-_.]?([0-9]*))?` +
		`(?:[-_.]?(dev)[-_.]?([0-9]*))?` +
		`(?:\+([a-z0-9]+(?:[-_.][a-z0-9]+)*))?$`)
})

var longNumber = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(fmt.Sprintf(`[0-9]{%d,}`, maxDigits+1)) })

// version is one of PEP 440. A part that is absent is -1.
type version struct {
	epoch     uint64
	release   []uint64
	preKind   string // a, b or rc; "" means none
	pre       uint64
	post, dev int64
	local     string
}

// parseVersion reads a version without a wildcard.
func parseVersion(text string) (version, bool) {
	if longNumber().MatchString(text) {
		return version{}, false
	}
	m := versionForm().FindStringSubmatch(strings.ToLower(text))
	if m == nil {
		return version{}, false
	}
	v := version{epoch: number(m[1]), post: -1, dev: -1}
	for part := range strings.SplitSeq(m[2], ".") {
		v.release = append(v.release, number(part))
	}
	if m[3] != "" {
		v.preKind = map[string]string{"alpha": "a", "a": "a", "beta": "b", "b": "b"}[m[3]]
		if v.preKind == "" {
			v.preKind = "rc"
		}
		v.pre = number(m[4])
	}
	if m[5] != "" {
		v.post = int64(number(m[5]))
	} else if m[6] != "" {
		v.post = int64(number(m[7]))
	}
	if m[8] != "" {
		v.dev = int64(number(m[9]))
	}
	v.local = strings.NewReplacer("-", ".", "_", ".").Replace(m[10])
	return v, true
}

// String writes v in the normal form.
func (v version) String() string {
	var b strings.Builder
	if v.epoch > 0 {
		fmt.Fprintf(&b, "%d!", v.epoch)
	}
	for i, n := range v.release {
		if i > 0 {
			b.WriteByte('.')
		}
		b.WriteString(strconv.FormatUint(n, 10))
	}
	if v.preKind != "" {
		fmt.Fprintf(&b, "%s%d", v.preKind, v.pre)
	}
	if v.post >= 0 {
		fmt.Fprintf(&b, ".post%d", v.post)
	}
	if v.dev >= 0 {
		fmt.Fprintf(&b, ".dev%d", v.dev)
	}
	if v.local != "" {
		b.WriteString("+" + v.local)
	}
	return b.String()
}

// compare orders versions as PEP 440 does, without their local parts.
func (v version) compare(w version) int {
	return cmp.Or(
		cmp.Compare(v.epoch, w.epoch),
		slices.Compare(v.significant(), w.significant()),
		cmp.Compare(v.preRank(), w.preRank()),
		cmp.Compare(v.pre, w.pre),
		cmp.Compare(v.post, w.post),
		cmp.Compare(uint64(v.dev), uint64(w.dev)), // none, as -1, is the largest
	)
}

// significant returns the release without zeros at its end: 1.0 is 1.
func (v version) significant() []uint64 {
	r := v.release
	for len(r) > 1 && r[len(r)-1] == 0 {
		r = r[:len(r)-1]
	}
	return r
}

// preRank orders what comes before a release: 1.dev0 < 1a1 < 1b1 < 1rc1 < 1.
func (v version) preRank() int {
	switch {
	case v.preKind == "" && v.post < 0 && v.dev >= 0:
		return 0
	case v.preKind == "":
		return 4
	}
	return map[string]int{"a": 1, "b": 2, "rc": 3}[v.preKind]
}

// next returns the first version after all that begin with the first n numbers
// of v's release.
func (v version) next(n int) version {
	release := slices.Clone(v.release[:n])
	release[n-1]++
	return version{epoch: v.epoch, release: release, post: -1, dev: 0}
}

// first returns the first version that begins with the release of v.
func (v version) first() version {
	return version{epoch: v.epoch, release: v.release, post: -1, dev: 0}
}

// ops are the comparisons, the longer before those that they begin with.
var ops = []string{"===", "~=", "==", "!=", "<=", ">=", "<", ">"}

// parseSpec reads one comparison, such as ">=1.2".
func parseSpec(text string) (Spec, error) {
	for _, op := range ops {
		rest, ok := strings.CutPrefix(text, op)
		if !ok {
			continue
		}
		rest = strings.TrimSpace(rest)
		base, wild := strings.CutSuffix(rest, ".*")
		v, ok := parseVersion(base)
		switch {
		case !ok:
			return Spec{}, refuse("what follows %s is not a version", op)
		case wild && op != "==" && op != "!=":
			return Spec{}, refuse("a version that ends in .* goes with == and != only")
		case wild && (v.preKind != "" || v.post >= 0 || v.dev >= 0 || v.local != ""):
			return Spec{}, refuse("only numbers may stand before .*")
		case v.local != "" && op != "==" && op != "!=" && op != "===":
			return Spec{}, refuse("a local version (after +) goes with == and != only")
		case op == "~=" && len(v.release) < 2:
			return Spec{}, refuse("~= needs a version of two numbers at least, such as ~=1.4")
		}
		s := Spec{Op: op, Version: v.String()}
		if wild {
			s.Version += ".*"
		}
		return s, nil
	}
	return Spec{}, refuse("a version needs a comparison before it, such as ==1.2 or >=1.2")
}

// parseSpecs reads comparisons that commas separate.
func parseSpecs(text string) ([]Spec, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	var specs []Spec
	parts := strings.Split(text, ",")
	for i, part := range parts {
		part = strings.TrimSpace(part)
		if part == "" && i == len(parts)-1 {
			break // a comma at the end is accepted by everyone
		}
		s, err := parseSpec(part)
		if err != nil {
			return nil, err
		}
		specs = append(specs, s)
	}
	return specs, nil
}

// joinSpecs writes specs as pip reads them.
func joinSpecs(specs []Spec) string {
	var parts []string
	for _, s := range specs {
		parts = append(parts, s.Op+s.Version)
	}
	return strings.Join(parts, ",")
}

// reach is the interval of versions that a Spec lets through.
type reach struct {
	lo, hi         *version // nil is without end
	loOpen, hiOpen bool     // the bound itself is outside
}

// parts returns the version of s, and whether it ends in .*.
func (s Spec) parts() (version, bool) {
	base, wild := strings.CutSuffix(s.Version, ".*")
	v, _ := parseVersion(base)
	return v, wild
}

// reach returns the interval of s. It may be wider than what s lets through, and
// never narrower.
func (s Spec) reach() reach {
	v, wild := s.parts()
	switch {
	case wild && s.Op == "==":
		lo, hi := v.first(), v.next(len(v.release))
		return reach{lo: &lo, hi: &hi, hiOpen: true}
	case s.Op == "==" || s.Op == "===":
		return reach{lo: &v, hi: &v}
	case s.Op == "~=":
		hi := v.next(len(v.release) - 1)
		return reach{lo: &v, hi: &hi, hiOpen: true}
	case s.Op == ">=":
		return reach{lo: &v}
	case s.Op == ">":
		return reach{lo: &v, loOpen: true}
	case s.Op == "<=":
		return reach{hi: &v}
	case s.Op == "<":
		return reach{hi: &v, hiOpen: true}
	}
	return reach{} // !=
}

// excludes reports whether it is certain that no version fits both. Intervals on
// a line meet in one point if each two of them meet, so looking at pairs is enough.
func excludes(a, b Spec) bool {
	va, wildA := a.parts()
	vb, wildB := b.parts()
	if b.Op == "!=" {
		a, b, va, vb, wildA, wildB = b, a, vb, va, wildB, wildA
	}
	if a.Op == "!=" {
		switch {
		case b.Op == "!=":
			return false
		case wildA:
			r, around := b.reach(), Spec{Op: "==", Version: a.Version}.reach()
			return r.lo != nil && r.hi != nil && r.lo.compare(*around.lo) >= 0 && r.hi.compare(*around.hi) <= 0 &&
				(r.hi.compare(*around.hi) < 0 || r.hiOpen)
		}
		exact := (b.Op == "==" && !wildB) || b.Op == "==="
		return exact && va.compare(vb) == 0 && (va.local == vb.local || va.local == "")
	}
	if va.local != "" && vb.local != "" && va.local != vb.local {
		return true
	}
	ra, rb := a.reach(), b.reach()
	return before(ra, rb) || before(rb, ra)
}

// Fits reports whether a version is one that all specs let through.
func Fits(specs []Spec, text string) bool {
	v, ok := parseVersion(text)
	if !ok {
		return false
	}
	exact := Spec{Op: "==", Version: v.String()}
	for _, s := range specs {
		if excludes(s, exact) {
			return false
		}
	}
	return true
}

// before reports whether a ends where b has not begun.
func before(a, b reach) bool {
	if a.hi == nil || b.lo == nil {
		return false
	}
	c := a.hi.compare(*b.lo)
	return c < 0 || c == 0 && (a.hiOpen || b.loOpen)
}
