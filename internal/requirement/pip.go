package requirement

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

var (
	pipName = sync.OnceValue(
		func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?`) })
	pipRuns = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[-_.]+`) })
	pipHash = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(?:sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96}|sha512:[0-9a-f]{128})$`)
	})
	pipExtra = sync.OnceValue(
		func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?$`) })
	urlForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*:`) })
)

// maxName is longer than any name on an index.
const maxName = 128

// maxHashes bounds the hashes of one requirement: a release has one file for
// each system, and lock files name them all.
const maxHashes = 1000

// ParsePip reads one PEP 508 requirement: a name, extras, constraints and a
// marker. URLs are refused.
func ParsePip(text string) (Pip, error) {
	if err := plain(text); err != nil {
		return Pip{}, err
	}
	text = strings.TrimSpace(text)
	if err := pipNoise(text); err != nil {
		return Pip{}, err
	}
	name := pipName().FindString(text)
	if name == "" {
		return Pip{}, refuse("a package name begins with a letter or a digit")
	}
	if len(name) > maxName {
		return Pip{}, refuse("the name is %d characters long, %d is the most", len(name), maxName)
	}
	p := Pip{Name: NormalName(name)}
	rest := strings.TrimSpace(text[len(name):])
	var err error
	if p.Extras, rest, err = pipExtras(rest); err != nil {
		return Pip{}, err
	}
	if strings.HasPrefix(rest, "@") {
		return Pip{},
			refuse("a URL or path after @ is not accepted: name a version, and let the operator configure the index")
	}
	specs, marker, conditional := strings.Cut(rest, ";")
	specs = strings.TrimSpace(specs)
	if inner, ok := strings.CutPrefix(specs, "("); ok {
		if inner, ok = strings.CutSuffix(inner, ")"); !ok {
			return Pip{}, refuse("a ( is not closed")
		}
		specs = inner
	}
	if p.Specs, err = parseSpecs(specs); err != nil {
		return Pip{}, err
	}
	if conditional {
		if p.Marker, err = parseMarker(marker); err != nil {
			return Pip{}, err
		}
	}
	p.Specs = sortSpecs(p.Specs)
	// Written anew it may be longer: by a quoted marker, or a dev0.
	if n := len(p.String()); n > MaxLength {
		return Pip{}, refuse("it is %d characters long when written out, %d is the most", n, MaxLength)
	}
	return p, nil
}

// pipNoise refuses options, URLs and paths in the place of a name, with a reason each.
func pipNoise(text string) error {
	head, _, _ := strings.Cut(text, ";")
	switch {
	case text == "":
		return refuse("it is empty")
	case strings.HasPrefix(text, "-"):
		return refuse("it begins with a dash: options are not accepted")
	case urlForm().MatchString(text) || strings.Contains(text, "://"):
		return refuse("URLs are not accepted: name a package")
	case strings.HasPrefix(text, ".") || strings.HasPrefix(text, "~") ||
		strings.ContainsAny(head, `/\`) && !strings.Contains(head, "@"):
		return refuse("paths are not accepted: name a package")
	case strings.Contains(text, " -"):
		return refuse("options after a package are not accepted")
	}
	return nil
}

// pipExtras reads the part in square brackets, if there is one.
func pipExtras(text string) (extras []string, rest string, err error) {
	inner, ok := strings.CutPrefix(text, "[")
	if !ok {
		return nil, text, nil
	}
	inner, rest, ok = strings.Cut(inner, "]")
	if !ok {
		return nil, "", refuse("a [ is not closed")
	}
	if strings.TrimSpace(inner) == "" {
		return nil, strings.TrimSpace(rest), nil
	}
	for e := range strings.SplitSeq(inner, ",") {
		e = strings.TrimSpace(e)
		if !pipExtra().MatchString(e) {
			return nil, "", refuse("what stands in [ ] is not a list of names")
		}
		extras = append(extras, NormalName(e))
	}
	slices.Sort(extras)
	return slices.Compact(extras), strings.TrimSpace(rest), nil
}

// NormalName returns the name of a Python package as PEP 503 compares it.
func NormalName(name string) string {
	return pipRuns().ReplaceAllString(strings.ToLower(name), "-")
}

// String writes p as PEP 508 has it, without its hashes.
func (p Pip) String() string {
	var b strings.Builder
	b.WriteString(p.Name)
	if len(p.Extras) > 0 {
		b.WriteString("[" + strings.Join(p.Extras, ",") + "]")
	}
	b.WriteString(joinSpecs(p.Specs))
	if p.Marker != "" {
		b.WriteString("; " + p.Marker)
	}
	return b.String()
}

// Line writes p as a line of a requirements file, with its hashes.
func (p Pip) Line() string {
	var b strings.Builder
	b.WriteString(p.String())
	for _, h := range p.Hashes {
		b.WriteString(" \\\n    --hash=" + h)
	}
	return b.String()
}

// Pinned returns the one version that p allows, if it is named with ==.
func (p Pip) Pinned() (string, bool) {
	for _, s := range p.Specs {
		if s.Op == "==" && !strings.HasSuffix(s.Version, ".*") {
			return s.Version, true
		}
	}
	return "", false
}
