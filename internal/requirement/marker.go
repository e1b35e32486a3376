package requirement

import (
	"regexp"
	"strings"
	"sync"
)

// markerNames are the variables of PEP 508, and those that PEP 345 called them.
var markerNames = map[string]string{
	"python_version": "", "python_full_version": "", "os_name": "", "sys_platform": "", "platform_release": "",
	"platform_system": "", "platform_version": "", "platform_machine": "", "platform_python_implementation": "",
	"implementation_name": "", "implementation_version": "", "extra": "",
	"os.name": "os_name", "sys.platform": "sys_platform", "platform.version": "platform_version",
	"platform.machine": "platform_machine", "platform.python_implementation": "platform_python_implementation",
	"python_implementation": "platform_python_implementation",
}

var (
	// A value of a marker has no space: pip takes what follows one in a
	// requirements file for options, quoted or not.
	markerValue = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9._+!*-]*$`) })
	markerWord  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.]*`) })
	markerOps   = []string{"===", "~=", "==", "!=", "<=", ">=", "<", ">"}
)

// maxMarker bounds how deep parentheses nest.
const maxMarker = 8

// markerReader reads a condition and writes it anew.
type markerReader struct {
	rest string
}

// parseMarker returns the normal form of a condition.
func parseMarker(text string) (string, error) {
	m := &markerReader{rest: strings.TrimSpace(text)}
	if m.rest == "" {
		return "", refuse("nothing follows the ;")
	}
	out, err := m.either(0)
	if err != nil {
		return "", err
	}
	if m.rest != "" {
		return "", refuse("something follows the marker (the condition after ;)")
	}
	return out, nil
}

// word takes w off the front, if it stands there as a word.
func (m *markerReader) word(w string) bool {
	if markerWord().FindString(m.rest) != w {
		return false
	}
	m.rest = strings.TrimSpace(m.rest[len(w):])
	return true
}

// either reads conditions that "or" joins.
func (m *markerReader) either(depth int) (string, error) {
	return m.joined("or", func() (string, error) {
		return m.joined("and", func() (string, error) { return m.one(depth) })
	})
}

// joined reads parts that word joins.
func (m *markerReader) joined(word string, part func() (string, error)) (string, error) {
	out, err := part()
	for err == nil && m.word(word) {
		var more string
		if more, err = part(); err == nil {
			out += " " + word + " " + more
		}
	}
	return out, err
}

// one reads a comparison, or a condition in parentheses.
func (m *markerReader) one(depth int) (string, error) {
	if rest, ok := strings.CutPrefix(m.rest, "("); ok {
		if depth == maxMarker {
			return "", refuse("the parentheses of the marker nest deeper than %d", maxMarker)
		}
		m.rest = strings.TrimSpace(rest)
		inner, err := m.either(depth + 1)
		if err != nil {
			return "", err
		}
		if m.rest, ok = strings.CutPrefix(m.rest, ")"); !ok {
			return "", refuse("a ( of the marker is not closed")
		}
		m.rest = strings.TrimSpace(m.rest)
		return "(" + inner + ")", nil
	}
	left, leftVar, err := m.operand()
	if err != nil {
		return "", err
	}
	op, err := m.op()
	if err != nil {
		return "", err
	}
	right, rightVar, err := m.operand()
	if err != nil {
		return "", err
	}
	if !leftVar && !rightVar {
		return "", refuse("the marker compares two texts")
	}
	return left + " " + op + " " + right, nil
}

// op reads a comparison.
func (m *markerReader) op() (string, error) {
	for _, op := range markerOps {
		if rest, ok := strings.CutPrefix(m.rest, op); ok {
			m.rest = strings.TrimSpace(rest)
			return op, nil
		}
	}
	switch {
	case m.word("in"):
		return "in", nil
	case m.word("not"):
		if m.word("in") {
			return "not in", nil
		}
	}
	return "", refuse("a comparison is missing in the marker (the condition after ;)")
}

// operand reads a variable or a quoted text.
func (m *markerReader) operand() (out string, variable bool, err error) {
	if m.rest != "" && (m.rest[0] == '"' || m.rest[0] == '\'') {
		text, rest, ok := strings.Cut(m.rest[1:], m.rest[:1])
		if !ok {
			return "", false, refuse("a quote of the marker is not closed")
		}
		if !markerValue().MatchString(text) {
			return "", false, refuse("a text of the marker holds more than letters, digits and . _ + ! * -")
		}
		m.rest = strings.TrimSpace(rest)
		return `"` + text + `"`, false, nil
	}
	word := markerWord().FindString(m.rest)
	name, known := markerNames[word]
	if !known {
		return "", false,
			refuse("after ; there must be a marker, such as python_version < \"3.12\"; one of its words is none " +
				"that markers know")
	}
	m.rest = strings.TrimSpace(m.rest[len(word):])
	if name == "" {
		name = word
	}
	return name, true, nil
}
