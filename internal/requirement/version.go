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

var longNumber = sync.OnceValue(
	func() *regexp.Regexp { return regexp.MustCompile(fmt.Sprintf(`[0-9]{%d,}`, maxDigits+1)) })

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

// Fits reports whether a version is one that all specs let through.
func Fits(specs []Spec, text string) bool {
	v, ok := parseVersion(text)
	return ok && !slices.ContainsFunc(specs, func(s Spec) bool { return !s.fits(v) })
}

// fits reports whether s lets v through. With < and > it lets versions through that
// differ from that of s only in a suffix, of which PEP 440 excepts some.
func (s Spec) fits(v version) bool {
	base, wild := strings.CutSuffix(s.Version, ".*")
	w, ok := parseVersion(base)
	if !ok {
		return false
	}
	c := v.compare(w)
	equal := c == 0 && (w.local == "" || w.local == v.local)
	if wild {
		equal = v.startsWith(w, len(w.release))
	}
	switch s.Op {
	case "==", "===":
		return equal
	case "!=":
		return !equal
	case "~=":
		return c >= 0 && v.startsWith(w, len(w.release)-1)
	case ">=":
		return c >= 0
	case "<=":
		return c <= 0
	case ">":
		return c > 0
	case "<":
		return c < 0
	}
	return false
}

// startsWith reports whether v begins with the first n numbers of w's release.
func (v version) startsWith(w version, n int) bool {
	padded := slices.Concat(v.release, make([]uint64, n))
	return v.epoch == w.epoch && slices.Equal(padded[:n], w.release[:n])
}
