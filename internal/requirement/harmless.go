package requirement

import (
	"strconv"
	"strings"

	"haft"
)

// Harmless reports whether nothing of a tool's function can have run before the import failed, except other imports:
// the import failed while the source was being loaded, or is among the first statements of the function, of Python.
// What cannot be read for sure is not harmless.
func (m Missing) Harmless(kind haft.Kind, source, function, traceback string) bool {
	if m.AtLoad(kind, source, traceback) {
		return true
	}
	at := firstFrame(traceback, function)
	if kind != haft.KindPython || function == "" || at == 0 {
		return false
	}
	lines := strings.Split(source, "\n")
	if at > len(lines) {
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

// firstFrame returns the line at which the function of the tool stands in a traceback that begins with it, or 0.
func firstFrame(traceback, function string) int {
	for line := range strings.Lines(traceback) {
		if !strings.HasPrefix(line, "  File ") {
			continue
		}
		_, place, _ := strings.Cut(line, "\", line ")
		number, name, _ := strings.Cut(place, ", in ")
		if strings.TrimSpace(name) != function {
			return 0
		}
		at, err := strconv.Atoi(number)
		if err != nil || at < 0 {
			return 0
		}
		return at
	}
	return 0
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
		case strings.ContainsAny(text, ";(\\") || !strings.HasPrefix(text, "import ") &&
			!(strings.HasPrefix(text, "from ") && strings.Contains(text, " import ")):
			return false
		}
	}
	return !head && quote == ""
}
