package requirement

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"haft"
)

// Missing is a module that could not be imported, and what would provide it.
type Missing struct {
	// Kind is "pip" or "npm".
	Kind string
	// Module is the name in the import, without what is below the package.
	Module string
	// Requirement is what to add, in the form that [Parse] reads.
	Requirement string
	// Known says that the requirement is from the list of well-known packages. If
	// not, it is a guess that the package is named as the module is: somebody should
	// look before it is installed, since names near to others' are how bad packages
	// spread.
	Known bool
}

// maxMessage is how much of the end of a text is searched.
const maxMessage = 64 << 10

var (
	noModule = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(
			`(?:ModuleNotFoundError|ImportError)\(?["']?:? ?["']?No module named ["']?([A-Za-z_][A-Za-z0-9_.]*)`)
	})
	// pandas and others say so themselves.
	noOptional = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`ImportError: Missing optional dependency ["']([A-Za-z0-9_.-]+)["']`)
	})
	bareModule = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^["']?No module named ["']?([A-Za-z_][A-Za-z0-9_.]*)`)
	})
	noRequire = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`Cannot find (?:module|package) ["']([^"'\s]{1,300})["']`)
	})
)

// MissingModule finds the import that failed in the text of an exception: what a
// program wrote to stderr, or "Type: message". If there are several it is the last,
// which is the one that ended the program. It finds nothing for modules that come
// with the language, for relative imports and for files.
func MissingModule(text string) (Missing, bool) {
	if len(text) > maxMessage {
		text = text[len(text)-maxMessage:]
	}
	if name := last(noModule(), text); name != "" {
		return missingPython(name)
	}
	if m := bareModule().FindStringSubmatch(text); m != nil {
		return missingPython(m[1])
	}
	if name := last(noOptional(), text); name != "" {
		return missingPython(name)
	}
	if name := last(noRequire(), text); name != "" {
		return missingNode(name)
	}
	return Missing{}, false
}

// last returns what the last match of re holds, or "".
func last(re *regexp.Regexp, text string) string {
	all := re.FindAllStringSubmatch(text, -1)
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1][1]
}

// missingPython finds the package of an import. The longest known beginning of a
// dotted name counts.
func missingPython(module string) (Missing, bool) {
	module = strings.Trim(module, ".")
	top, _, _ := strings.Cut(module, ".")
	if _, ok := listed("python modules", top); ok {
		return Missing{}, false
	}
	for name := module; name != ""; {
		if pkg, ok := listed("python packages", name); ok {
			return Missing{Kind: "pip", Module: name, Requirement: pkg, Known: true}, true
		}
		i := strings.LastIndexByte(name, '.')
		name = name[:max(i, 0)]
	}
	if strings.HasPrefix(top, "_") {
		return Missing{}, false // an inner part of something that is broken
	}
	p, err := ParsePip(strings.ReplaceAll(top, "_", "-"))
	if err != nil || p.String() != p.Name {
		return Missing{}, false
	}
	return Missing{Kind: "pip", Module: top, Requirement: p.Name}, true
}

// missingNode finds the package of an import or a require.
func missingNode(module string) (Missing, bool) {
	if strings.HasPrefix(module, "node:") || strings.HasPrefix(module, ".") || strings.HasPrefix(module, "/") {
		return Missing{}, false
	}
	parts := strings.SplitN(module, "/", 3)
	name := parts[0]
	if strings.HasPrefix(name, "@") && len(parts) > 1 {
		name += "/" + parts[1]
	}
	if _, ok := listed("node modules", name); ok {
		return Missing{}, false
	}
	n, err := parseNPM(name, "")
	if err != nil {
		return Missing{}, false
	}
	_, known := listed("node packages", name)
	return Missing{Kind: "npm", Module: name, Requirement: n.Name, Known: known}, true
}

// Advice says what to do about it, to an author or a model.
func (m Missing) Advice() string {
	if m.Known {
		return "add the requirement " + m.Requirement + " to the tool: --requirement " + m.Requirement + m.inSource()
	}
	return "if the package that has it is called " + m.Requirement + ", add that as a requirement of the tool: " +
		"--requirement " + m.Requirement + m.inSource()
}

// inSource says how a Python source names the package itself, which haft dev reads at the next save.
func (m Missing) inSource() string {
	if m.Kind == "npm" {
		return ""
	}
	return `, or write it into the source: lines "# /// script", "# dependencies = ['` + m.Requirement +
		`']" and "# ///"`
}

// In reports whether requirements name the package.
func (m Missing) In(n haft.Requirements) bool {
	return slices.ContainsFunc(append(slices.Clone(n.Pip), n.NPM...), func(s string) bool {
		return s == m.Requirement || strings.HasPrefix(s, m.Requirement) &&
			strings.ContainsAny(s[len(m.Requirement):][:1], "=<>!~@[ ;")
	})
}

// atLoad reports whether the import failed while the source was being loaded, before
// the tool's function was called, of a source that is not Python.
func (m Missing) atLoad(source string) bool {
	for line := range strings.Lines(source) {
		if strings.HasPrefix(line, "import ") && (strings.Contains(line, `"`+m.Module) ||
			strings.Contains(line, "'"+m.Module)) {
			return true
		}
	}
	return false
}
