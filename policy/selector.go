package policy

import (
	"slices"
	"strings"

	"haft"
)

// A Permission names tools: "tool:NAME" or "tool:ID", "category:NAME", "tag:NAME" or
// "kind:KIND", where a * in the name stands for any text.
type Permission struct {
	what, name string
}

// ParsePermission reads a permission.
func ParsePermission(text string) (Permission, error) {
	what, name, ok := strings.Cut(text, ":")
	known := []string{"tool", "category", "tag", "kind"}
	if !ok || name == "" || len(text) > maxText || !slices.Contains(known, what) {
		return Permission{}, &haft.Error{Code: haft.CodeInvalid,
			Message: "a permission is tool:NAME, category:NAME, tag:NAME or kind:KIND, with * for any text"}
	}
	return Permission{what, name}, nil
}

// String returns the permission as it is written.
func (p Permission) String() string { return p.what + ":" + p.name }

// Covers reports whether p names the tool. The zero permission names none.
func (p Permission) Covers(t haft.Tool) bool {
	switch p.what {
	case "tool":
		// An id is compared whole: "tool:t*" means names, and not every id.
		return t.Name != "" && glob(p.name, t.Name) || t.ID != "" && p.name == string(t.ID)
	case "category":
		return t.Category != "" && glob(p.name, t.Category)
	case "kind":
		return t.Version.Kind != "" && glob(p.name, string(t.Version.Kind))
	case "tag":
		return slices.ContainsFunc(t.Tags, func(tag string) bool { return tag != "" && glob(p.name, tag) })
	}
	return false
}

// covered reports whether one of the permissions names the tool.
func covered(all []Permission, t haft.Tool) bool {
	return slices.ContainsFunc(all, func(p Permission) bool { return p.Covers(t) })
}

// names are patterns of names; none matches all.
type names []string

// match reports whether one of the patterns matches one of the values. A pattern
// never matches an empty value: "*" means that there is one.
func (n names) match(values ...string) bool {
	if len(n) == 0 {
		return true
	}
	return slices.ContainsFunc(n, func(pattern string) bool {
		return slices.ContainsFunc(values, func(v string) bool { return v != "" && glob(pattern, v) })
	})
}

// matchAgent reports whether one of the patterns means the agent, which is named by
// its name or its id. A pattern is compared with the id only if it is one, or begins
// like one: "a*" means names, and not every id.
func (n names) matchAgent(id, name string) bool {
	if n.match(name) {
		return true
	}
	return id != "" && slices.ContainsFunc(n, func(pattern string) bool {
		return pattern == id || strings.HasPrefix(pattern, haft.AgentIDPrefix) && glob(pattern, id)
	})
}

// glob reports whether text fits pattern, in which * stands for any text. Its
// cost is at most the product of the lengths.
func glob(pattern, text string) bool {
	star, mark := -1, 0
	p, t := 0, 0
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, t
			p++
		case p < len(pattern) && pattern[p] == text[t]:
			p++
			t++
		case star >= 0:
			mark++
			p, t = star+1, mark
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}
