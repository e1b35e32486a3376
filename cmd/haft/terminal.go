package main

import (
	"io"
	"os"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/term"
)

// colour is an ANSI colour code.
type colour int

// The colours in use.
const (
	bold   colour = 1
	dim    colour = 2
	red    colour = 31
	green  colour = 32
	yellow colour = 33
	cyan   colour = 36
)

// isTerminal reports whether a person looks at w.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// paint colours s where w is a terminal and NO_COLOR is not set.
func paint(w io.Writer, c colour, s string) string {
	if !isTerminal(w) || os.Getenv("NO_COLOR") != "" {
		return s
	}
	return "\x1b[" + strconv.Itoa(int(c)) + "m" + s + "\x1b[0m"
}

// safe makes text from a tool harmless on a terminal: control characters, which
// could move the cursor, set the title or turn the reading order round, become
// visible escapes. Into a file the text goes as it is.
func safe(w io.Writer, s string) string {
	if !isTerminal(w) {
		return s
	}
	return escape(s)
}

// escape makes control and formatting characters visible, except line breaks
// and tabs.
func escape(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}
