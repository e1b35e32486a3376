package requirement

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"haft"
)

var (
	// Names are lower case since npm 2; the few older ones are not to be had here.
	npmName = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(?:@[a-z0-9_-][a-z0-9._-]*/)?[a-z0-9_-][a-z0-9._-]*$`)
	})
	npmTag = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z][a-z0-9-]*$`) })
	// These are versions, and no tags.
	npmNotTag = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?:x|v[0-9].*)$`) })
)

// The bounds of npm: its registry takes names of up to 214 characters, and a
// range is as long as its alternatives.
const (
	maxNPMName      = 214
	maxTag          = 40
	maxAlternatives = 32
)

// notPackages are names that npm does not give out.
var notPackages = []string{"node_modules", "favicon.ico"}

// ParseNPM reads one requirement: a name, scoped or not, and, after an @, a semver
// range or a tag. Aliases, URLs, repositories and paths are refused.
func ParseNPM(text string) (NPM, error) {
	if err := plain(text); err != nil {
		return NPM{}, err
	}
	text = strings.TrimSpace(text)
	if text == "" {
		return NPM{}, refuse("it is empty")
	}
	name, rng := text, ""
	if i := strings.LastIndexByte(text, '@'); i > 0 {
		name, rng = text[:i], text[i+1:]
		// Letta writes name@"range".
		if n := len(rng); n >= 2 && rng[0] == '"' && rng[n-1] == '"' {
			rng = rng[1 : n-1]
		}
	}
	return parseNPM(name, rng)
}

// parseNPM reads a name and its range.
func parseNPM(name, rng string) (NPM, error) {
	if err := plain(rng); err != nil {
		return NPM{}, at("the range", err)
	}
	switch {
	case strings.HasPrefix(name, "-"):
		return NPM{}, refuse("it begins with a dash: options are not accepted")
	case strings.Contains(name, ":") || strings.Contains(name, "#"):
		return NPM{}, refuse("URLs, repositories and aliases are not accepted: name a package")
	case strings.HasPrefix(name, ".") || strings.HasPrefix(name, "/") || strings.HasPrefix(name, "~") ||
		strings.Contains(name, `\`):
		return NPM{}, refuse("paths are not accepted: name a package")
	case strings.Contains(name, "/") && !strings.HasPrefix(name, "@"):
		return NPM{}, refuse("paths and repositories are not accepted: name a package")
	case len(name) > maxNPMName || !npmName().MatchString(name) || slices.Contains(notPackages, name) ||
		strings.Contains(name, ".."):
		return NPM{},
			refuse("the name is not one that npm gives to a package (lower-case letters, digits and - . _, with a " +
				"scope or without)")
	}
	n := NPM{Name: name}
	rng = strings.TrimSpace(rng)
	if len(rng) <= maxTag && npmTag().MatchString(rng) && !npmNotTag().MatchString(rng) {
		n.Range = rng
		return n.measured()
	}
	switch {
	case strings.HasPrefix(rng, "-"):
		return NPM{}, refuse("the range begins with a dash: options are not accepted")
	case strings.ContainsAny(rng, `:/\#@`):
		return NPM{}, refuse("URLs, repositories, paths and aliases are not accepted as a version: give a semver range")
	}
	var err error
	if n.alternatives, err = parseRange(rng); err != nil {
		return NPM{}, err
	}
	n.Range = strings.Join(n.alternatives, " || ")
	return n.measured()
}

// measured refuses what is too long when it is written out.
func (n NPM) measured() (NPM, error) {
	if l := len(n.String()); l > MaxLength {
		return NPM{}, refuse("it is %d characters long when written out, %d is the most", l, MaxLength)
	}
	return n, nil
}

// String writes n as npm reads it.
func (n NPM) String() string { return n.Name + "@" + n.Range }

// tag reports whether n names a tag of the registry, and no range.
func (n NPM) tag() bool { return n.alternatives == nil }

// mergeNPM brings together what is said of one package: npm has place for one
// range of each.
func mergeNPM(list []NPM) ([]NPM, error) {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b NPM) int { return strings.Compare(a.Name, b.Name) })
	var out []NPM
	for _, n := range list {
		if n.Range == "" { // a zero value that was not parsed
			n.Range = anyVersion
		}
		if n.tag() { // made by hand, or read back
			m, err := parseNPM(n.Name, n.Range)
			if err != nil {
				return nil, err
			}
			n.alternatives = m.alternatives
		}
		if k := len(out); k > 0 && out[k-1].Name == n.Name {
			both, err := out[k-1].and(n)
			if err != nil {
				return nil, err
			}
			out[k-1] = both
			continue
		}
		out = append(out, n)
	}
	return out, nil
}

// and returns the requirement that holds both.
func (n NPM) and(m NPM) (NPM, error) {
	anything := func(x NPM) bool { return x.Range == anyVersion || x.Range == "latest" }
	switch {
	case n.Range == m.Range || anything(m):
		return n, nil
	case anything(n):
		return m, nil
	case n.tag() || m.tag():
		return NPM{}, &haft.Error{Code: haft.CodeConflict, Message: fmt.Sprintf(
			"%s: %s asks for %s, %s for %s, and a tag cannot be joined with another version; change one of them",
			n.Name, n.From, n.Range, m.From, m.Range)}
	}
	var both []string
	for _, a := range n.alternatives {
		for _, b := range m.alternatives {
			if joined := joinComparators(a, b); !slices.Contains(both, joined) {
				both = append(both, joined)
			}
		}
	}
	if len(both) > maxAlternatives {
		return NPM{}, &haft.Error{Code: haft.CodeInvalid,
			Message: n.Name + ": there are too many alternatives (||) together"}
	}
	from := n.From
	if m.From != n.From {
		from = fmt.Sprintf("%s and %s", n.From, m.From)
	}
	r, err := NPM{Name: n.Name, Range: strings.Join(both, " || "), From: from, alternatives: both}.measured()
	if err != nil {
		return NPM{}, at(n.Name, err)
	}
	return r, nil
}
