package chat

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/unicode/bidi"
	"golang.org/x/text/width"

	"haft/internal/terminal"
)

// maxMarks is how many marks without a width may follow each other. More of them would be drawn over other lines.
const maxMarks = 4

// A cleaner makes text of others harmless, character by character, so that it does not matter where the text was cut.
// Control and formatting characters become visible, as [terminal.Escape] has it. The joiners of emoji and of scripts
// stay.
type cleaner struct{ marks int }

// rune returns what is shown of a character, and how many columns that takes at most.
func (c *cleaner) rune(r rune) (text string, columns int) {
	switch {
	case r >= ' ' && r < 0x7f:
		c.marks = 0
		return string(r), 1
	case r == '\u200c', r == '\u200d', unicode.In(r, unicode.Mn, unicode.Me):
		if c.marks++; c.marks > maxMarks {
			return "", 0
		}
		if r == '\ufe0f' { // which makes some terminals draw the character before it in two columns
			return string(r), 1
		}
		return string(r), 0
	}
	c.marks = 0
	if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
		text = escaped(r)
		return text, len(text)
	}
	if k := width.LookupRune(r).Kind(); k == width.EastAsianWide || k == width.EastAsianFullwidth ||
		r >= 0x1f1e6 && r <= 0x1faff {
		return string(r), 2
	}
	return string(r), 1
}

// escaped returns a character as source code has it.
func escaped(r rune) string { return strings.Trim(strconv.QuoteRuneToASCII(r), "'") }

// oneLine makes one harmless line of a text, of at most so many characters.
func oneLine(text string, most int) string {
	most = max(most, 2)
	text = text[:min(len(text), 8*most)] // no more is looked at than can be shown
	return terminal.OneLine(strings.ToValidUTF8(withoutColours(text), "\ufffd"), most)
}

// lastLines returns the last lines of a text that are not empty, each as one harmless line.
func lastLines(text string, most, columns int) (lines []string) {
	const bound = 16 << 10
	text = text[max(0, len(text)-bound):]
	for _, line := range strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }) {
		if strings.TrimSpace(line) != "" {
			lines = append(lines, line)
		}
	}
	if left := len(lines) - most; left > 0 {
		lines = append([]string{fmt.Sprintf("… %d more lines", left)}, lines[left:]...)
	}
	for i, line := range lines {
		lines[i] = oneLine(line, columns)
	}
	return lines
}

// withoutColours removes the sequences with which programs choose colours. They are frequent in the output of tools,
// and would be in the way as visible text.
func withoutColours(s string) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(s, "\x1b[")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		if s = strings.TrimLeft(after, "0123456789;:"); !strings.HasPrefix(s, "m") {
			b.WriteString("\x1b[")
			s = after
			continue
		}
		s = s[1:]
	}
}

// blank reports whether a letter or sign looks like nothing, or is written from right to left, in which order a
// terminal
// may show the line.
func blank(r rune) bool {
	c := bidiClass(r)
	return strings.ContainsRune("\u115f\u1160\u2800\u3164\uffa0", r) || c == bidi.R || c == bidi.AL
}

func bidiClass(r rune) bidi.Class {
	p, _ := bidi.LookupRune(r)
	return p.Class()
}

// visible makes every character of a text visible that is not a letter, a number or a sign which can be seen.
func visible(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r == ' ' || unicode.In(r, unicode.L, unicode.N, unicode.P, unicode.S) && !blank(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(escaped(r))
		}
	}
	return b.String()
}

// wrap breaks a harmless text into lines, where it can behind a blank. A line has at most so many columns, whatever
// the terminal makes of its characters: nothing is lost at the edge.
func wrap(text string, columns int) (lines []string) {
	line, col := []rune{}, 0
	for _, r := range text {
		n := 1
		if r > '~' {
			n = 2
		}
		if col += n; col > max(columns, minText) {
			end := len(line)
			for i := end; i > end/2; i-- {
				if line[i-1] == ' ' {
					end = i
					break
				}
			}
			lines = append(lines, string(line[:end]))
			line = slices.Clone(line[end:])
			col = n + 2*len(line)
		}
		line = append(line, r)
	}
	return append(lines, string(line))
}

// escapeJSON writes the control and formatting characters of a document, which are within its texts, as escapes.
func escapeJSON(document []byte) []byte {
	var b bytes.Buffer
	for len(document) > 0 {
		r, n := utf8.DecodeRune(document)
		switch {
		case r < 0x7f || !unicode.In(r, unicode.Cc, unicode.Cf):
			b.Write(document[:n])
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, hi, lo)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		document = document[n:]
	}
	return b.Bytes()
}
