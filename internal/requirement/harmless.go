package requirement

import (
	"regexp"
	"strconv"
	"strings"
	"sync"

	"haft"
)

// Harmless reports whether nothing of a tool can have run before the import failed, except other imports: the import
// failed while the source was being loaded, or is among the first statements of the function, of Python. Before it, the
// top level of the source has only imports, functions and constants. What cannot be read for sure is not harmless.
func (m Missing) Harmless(kind haft.Kind, source, function, traceback string) bool {
	if kind != haft.KindPython {
		return m.atLoad(source)
	}
	lines := strings.Split(source, "\n")
	if at := onlyFrame(traceback, "<module>"); at > 0 && at <= len(lines) {
		return plainTop(lines[:at])
	}
	at := onlyFrame(traceback, function)
	if function == "" || at == 0 || at > len(lines) || !plainTop(lines) {
		return false
	}
	begin := at - 1
	for ; begin >= 0; begin-- {
		if rest, ok := strings.CutPrefix(strings.TrimPrefix(lines[begin], "async "), "def "+function); ok &&
			strings.HasPrefix(strings.TrimSpace(rest), "(") {
			break
		}
	}
	return begin >= 0 && (begin == 0 || !strings.HasPrefix(lines[begin-1], "@")) && onlyImports(lines[begin:at])
}

// constant is an assignment of a number, a text, a truth value or nothing.
var constant = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z_]\w*(: ?[\w\[\], |]+)? ?= ?(-?[\d._]+|"[^"\\]*"|'[^'\\]*'|True|False|None)$`)
})

// plainTop reports whether the top level of a source has nothing but documentation at its beginning, comments, imports
// of one line each, functions without decorators and without calls in their heads, and constants. All other statements
// of the top level begin without a space, and so are seen; indented lines belong to functions.
func plainTop(lines []string) bool {
	head, begun, quote := false, false, ""
	for _, line := range lines {
		line = strings.TrimRight(line, " \t\r")
		docs := strings.TrimPrefix(line, "r")
		switch {
		case strings.Contains(line, "\r"): // the end of a line, for Python
			return false
		case quote != "" || !begun && (strings.HasPrefix(docs, `"""`) || strings.HasPrefix(docs, "'''")):
			if quote == "" {
				begun, quote, docs = true, docs[:3], docs[3:]
			}
			_, after, ends := strings.Cut(docs, quote)
			if after != "" {
				return false
			}
			if ends {
				quote = ""
			}
		case head || strings.HasPrefix(strings.TrimPrefix(line, "async "), "def "):
			if n := strings.Count(line, "("); n > 1 || head && n > 0 {
				return false
			}
			rest := strings.TrimSpace(line[strings.LastIndexByte(line, ')')+1:])
			begun, head = true, !strings.HasPrefix(rest, ":") && !strings.HasPrefix(rest, "->")
		case line == "" || line[0] == '#' || line[0] == ' ' || line[0] == '\t':
		case isImport(line) || constant().MatchString(line):
			begun = true
		default:
			return false
		}
	}
	return true
}

// isImport reports whether a line is an import and nothing else.
func isImport(text string) bool {
	return !strings.ContainsAny(text, ";(\\") && (strings.HasPrefix(text, "import ") ||
		strings.HasPrefix(text, "from ") && strings.Contains(text, " import "))
}

// onlyFrame returns the line at which the function of the tool stands in a traceback that has no other frame, or 0.
func onlyFrame(traceback, function string) int {
	found := 0
	for line := range strings.Lines(traceback) {
		if !strings.HasPrefix(line, "  File ") {
			continue
		}
		_, place, _ := strings.Cut(line, "\", line ")
		number, name, _ := strings.Cut(place, ", in ")
		at, err := strconv.Atoi(number)
		if found > 0 || strings.TrimSpace(name) != function || err != nil || at <= 0 {
			return 0
		}
		found = at
	}
	return found
}

// onlyImports reports whether lines, which begin with the head of a function, have nothing behind it but documentation,
// comments and imports of one line each.
func onlyImports(lines []string) bool {
	head, quote, documented := true, "", false
	for _, line := range lines {
		text := strings.TrimSpace(line)
		if head {
			head = !strings.HasSuffix(text, ":")
			continue
		}
		if quote == "" && !documented {
			for _, q := range []string{`"""`, "'''"} {
				if rest, ok := strings.CutPrefix(strings.TrimPrefix(text, "r"), q); ok {
					quote, documented, text = q, true, rest
				}
			}
		}
		switch {
		case quote != "":
			_, after, ends := strings.Cut(text, quote)
			if after != "" {
				return false
			}
			if ends {
				quote = ""
			}
		case text == "" || strings.HasPrefix(text, "#"):
		case !isImport(text):
			return false
		}
	}
	return !head && quote == ""
}
