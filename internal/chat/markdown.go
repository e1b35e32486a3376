package chat

import (
	"bytes"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"haft/internal/terminal"
)

// The bounds of the renderer.
const (
	maxWord   = 1024 // characters that are held back until a word ends
	maxText   = 100  // columns of a line
	minText   = 20
	tabStop   = 4
	longFence = 200 // characters of a line that may close a block of code
)

// A style is how text is shown.
type style uint8

// The parts of styles, in the order of their codes.
const (
	bold style = 1 << iota
	dim
	italic
	link
	code
	plain style = 0
)

// when returns the style on a condition.
func (s style) when(on bool) style {
	if on {
		return s
	}
	return plain
}

// sgr returns the sequence that begins a style.
func (s style) sgr() string {
	text := "\x1b[0"
	for i, code := range []string{";1", ";2", ";3", ";4", ";36"} {
		if s&(1<<i) != 0 {
			text += code
		}
	}
	return text + "m"
}

// A markdown shows Markdown on a terminal while it arrives. What it writes depends on the text only, not on how the
// text is cut; it holds back at most one word, and never changes what is written.
//
// Each line that it writes begins with the gutter, and no text can leave it: lines are broken before the edge, and
// only the renderer writes control characters.
type markdown struct {
	out    *bytes.Buffer
	gutter string
	base   style
	width  func() int // columns of a line, with the gutter
	colour bool

	clean cleaner
	part  []byte // the beginning of a character

	// What is known of the line and of the block.
	word    []rune
	blanks  int  // before the word
	begun   bool // the kind of the line is known
	quoted  bool
	fence   []rune // what ends a block of code
	info    bool   // the rest of the line belongs to the fence
	heading bool
	emph    style
	ticks   int  // how many backticks end the code
	target  bool // within an address
	escaped bool // behind a backslash
	joined  bool // the word goes on from the one before
	marked  bool // a mark was written, and nothing behind it

	// Where the cursor is.
	col   int // behind the gutter; -1 means that the line is empty
	hang  int // columns before text that is wrapped
	gap   bool
	any   bool
	style style
}

// newMarkdown returns a renderer that writes to out.
func newMarkdown(out *bytes.Buffer, gutter string, base style, colour bool, width func() int) *markdown {
	return &markdown{out: out, gutter: gutter, base: base, colour: colour, width: width, col: -1}
}

// add renders a piece of text.
func (m *markdown) add(text string) {
	m.part = append(m.part, text...)
	for utf8.FullRune(m.part) {
		r, n := utf8.DecodeRune(m.part)
		m.part = m.part[n:]
		m.rune(r)
	}
}

// close renders what is held back, and ends the line. The next text begins a new block.
func (m *markdown) close() {
	for len(m.part) > 0 {
		m.part = m.part[1:]
		m.rune(utf8.RuneError)
	}
	if m.fence != nil && !m.info && !m.closes(m.word, true) {
		m.flushCode()
	} else if m.fence == nil {
		m.endWord()
	}
	m.endLine()
	*m = *newMarkdown(m.out, m.gutter, m.base, m.colour, m.width)
}

// rune takes the next character.
func (m *markdown) rune(r rune) {
	switch {
	case r == '\r':
	case r == '\n' && m.fence != nil && !m.info:
		if m.closes(m.word, true) {
			m.fence, m.word = nil, nil
			return
		}
		m.flushCode()
		m.start()
		m.endLine()
	case r == '\n':
		m.endWord()
		m.endLine()
	case m.info: // only the first word names the language
	case m.fence != nil:
		m.codeRune(r)
	case r == ' ' || r == '\t':
		if m.endWord(); m.marked { // and the mark has a blank of its own
			m.marked = false
			return
		}
		if m.blanks, m.joined, m.target = m.blanks+1, false, false; r == '\t' {
			m.blanks += tabStop - 1
		}
		m.blanks = min(m.blanks, maxText)
	default:
		m.word = append(m.word, r)
		// Scripts with wide characters have no blanks between words.
		if _, n := (&cleaner{}).rune(r); n == 2 || len(m.word) == maxWord {
			m.endWord()
			m.joined = true
		}
	}
}

// endLine ends a line of text. Several empty lines become one, which is written before the next text.
func (m *markdown) endLine() {
	if m.col < 0 && !m.info && !m.begun {
		m.gap = m.any
		m.resetInline()
	}
	m.newline()
	m.begun, m.quoted, m.heading, m.info, m.blanks = false, false, false, false, 0
	m.joined, m.target, m.escaped, m.marked = false, false, false, false
}

// resetInline ends all emphasis.
func (m *markdown) resetInline() { m.emph, m.ticks = plain, 0 }

// endWord renders the word that has ended.
func (m *markdown) endWord() {
	word := m.word
	if m.word = nil; len(word) == 0 {
		return
	}
	if !m.begun {
		if m.col < 0 {
			m.hang = min(m.blanks, m.columns()/2)
		}
		if word, m.blanks = m.beginLine(word), 0; len(word) == 0 {
			return
		}
	}
	m.marked = false
	m.inline(word)
	m.blanks = 0
}

// beginLine looks at the first word of a line for what the line is, and returns what is left of the word.
func (m *markdown) beginLine(word []rune) []rune {
	for word[0] == '>' {
		if word = word[1:]; m.col < m.columns()/2 {
			m.mark("┃ ", 2)
		}
		if m.quoted = true; len(word) == 0 {
			return nil
		}
	}
	m.begun = true
	first, same := word[0], 1
	for same < len(word) && word[same] == first {
		same++
	}
	all := same == len(word)
	digits := len(word) - len(strings.TrimLeft(string(word), "0123456789"))
	switch {
	case first == '#' && all && same <= 6:
		m.resetInline()
		if m.heading = true; !m.colour {
			m.mark(string(word)+" ", same+1)
		}
	case (first == '-' || first == '*' || first == '+') && len(word) == 1:
		m.resetInline()
		m.mark("• ", 2)
	case digits > 0 && digits < 10 && digits == len(word)-1 && (word[digits] == '.' || word[digits] == ')'):
		m.resetInline()
		m.mark(string(word)+" ", len(word)+1)
	case (first == '-' || first == '*' || first == '_') && all && same >= 3:
		m.resetInline()
		m.mark(strings.Repeat("─", m.columns()/2), m.columns()/2)
	case (first == '`' || first == '~') && same >= 3 && !m.quoted && !slices.Contains(word[same:], '`'):
		m.resetInline()
		if m.fence, m.info = word[:same], true; !all {
			m.write(dim, string(word[same:]))
		}
	default:
		return word
	}
	return nil
}

// mark writes what stands before the text of a line. What is wrapped is moved to the right of it.
func (m *markdown) mark(text string, columns int) {
	if max(m.col, m.hang)+columns > m.columns() {
		m.newline()
		m.hang = 0
	}
	m.start()
	m.set(dim)
	m.out.WriteString(text)
	m.col += columns
	m.hang, m.marked = min(m.col, m.columns()/2), true
}

// closes reports whether a line of a block of code ends it, or with more text could.
func (m *markdown) closes(line []rune, whole bool) bool {
	text := strings.TrimLeft(string(line), " ")
	lead := len(line) - utf8.RuneCountInString(text)
	run := strings.TrimLeft(text, string(m.fence[:1]))
	n := len(text) - len(run)
	return lead < 4 && strings.Trim(run, " \t") == "" && len(line) < longFence &&
		(n >= len(m.fence) || !whole && run == "")
}

// codeRune takes a character in a block of code.
func (m *markdown) codeRune(r rune) {
	if m.word = append(m.word, r); m.col >= 0 || !m.closes(m.word, false) {
		m.flushCode()
	}
}

// flushCode writes the beginning of a line of code.
func (m *markdown) flushCode() {
	word := m.word
	if m.word, m.hang = nil, 0; len(word) > 0 {
		m.write(code, string(word))
	}
}

// A piece is a part of a word that is shown in one style.
type piece struct {
	style
	text string
}

// inline renders a word of a text, which has the markers of emphasis, code and links.
func (m *markdown) inline(word []rune) {
	pieces := m.split(word)
	wide := 0
	for _, p := range pieces {
		for _, r := range p.text {
			_, n := (&cleaner{}).rune(r)
			wide += n
		}
	}
	if m.col > m.hang && m.col+m.blanks+wide > m.columns() {
		m.newline()
	} else if m.col >= 0 {
		if n := max(min(m.blanks, m.columns()-m.col), 0); n > 0 {
			if len(pieces) == 0 || pieces[0].style != m.style {
				m.set(plain)
			}
			m.out.WriteString(strings.Repeat(" ", n))
			m.col += n
		}
	}
	for _, p := range pieces {
		m.write(p.style, p.text)
	}
}

// split returns the parts of a word without the markers. Without colours the markers stay.
func (m *markdown) split(word []rune) (pieces []piece) {
	if !m.colour {
		return []piece{{m.base, string(word)}}
	}
	for i := 0; i < len(word); {
		n, shown := m.marker(word, i)
		if shown {
			s := m.emph | bold.when(m.heading) | code.when(m.ticks > 0) | link.when(m.target && n == 1)
			pieces = append(pieces, piece{s, string(word[i : i+n])})
		}
		i += n
	}
	return pieces
}

// marker looks at the characters from i on. It returns how many belong together, and whether they are shown.
func (m *markdown) marker(word []rune, i int) (n int, shown bool) {
	r := word[i]
	run := 1
	for i+run < len(word) && word[i+run] == r {
		run++
	}
	switch {
	case m.escaped:
		m.escaped = false
		return 1, true
	case m.target:
		m.target = r != ')' && r != '>'
		return 1, true
	case m.ticks > 0 && (r != '`' || m.ticks != run):
		return run, true
	case m.ticks > 0:
		m.ticks = 0
		return run, false
	case r == '`':
		m.ticks = run
		return run, false
	case r == '\\' && i+1 < len(word) && word[i+1] < 0x7f && unicode.In(word[i+1], unicode.P, unicode.S):
		m.escaped = true
		return 1, false
	case r == ']' && i+1 < len(word) && word[i+1] == '(':
		m.target = true
		return 2, true
	case r == 'h' && (hasPrefix(word[i:], "http://") || hasPrefix(word[i:], "https://")):
		m.target = true
		return 1, true
	case r == '*' || r == '_':
		return run, !m.emphasis(word, i, run)
	}
	return 1, true
}

// hasPrefix reports whether a word begins with a text in ASCII.
func hasPrefix(word []rune, text string) bool {
	return len(word) >= len(text) && string(word[:len(text)]) == text
}

// emphasis begins or ends an emphasis at a run of stars or underscores, and reports whether that is one.
func (m *markdown) emphasis(word []rune, i, run int) bool {
	inner := func(at int) bool { // underscores are also parts of names
		return at >= 0 && at < len(word) && word[i] == '_' && (unicode.IsLetter(word[at]) || unicode.IsDigit(word[at]))
	}
	if run > 3 {
		return false
	}
	switch part := []style{italic, bold, bold | italic}[run-1]; {
	case (i > 0 || m.joined) && !inner(i+run) && m.emph&part == part:
		m.emph &^= part
		return true
	case i+run < len(word) && !inner(i-1):
		m.emph |= part
		return true
	}
	return false
}

// write writes text in a style. It goes on in the next line where the text does not fit.
func (m *markdown) write(s style, text string) {
	for _, r := range text {
		shown, n := m.clean.rune(r)
		if r == '\t' {
			shown, n = strings.Repeat(" ", tabStop), tabStop
		}
		if m.col >= 0 && m.col+n > m.columns() {
			m.newline()
		}
		m.start()
		m.set(s)
		m.out.WriteString(shown)
		m.col += n
	}
}

// columns is how many there are behind the gutter.
func (m *markdown) columns() int {
	return max(min(m.width(), maxText), minText) - utf8.RuneCountInString(m.gutter) - 1
}

// start begins a line, if none is begun.
func (m *markdown) start() {
	if m.col >= 0 {
		return
	}
	if m.gap {
		m.out.WriteString(m.paintGutter() + "\n")
	}
	m.out.WriteString(m.paintGutter() + strings.Repeat(" ", m.hang))
	m.col, m.gap, m.any = m.hang, false, true
}

// paintGutter returns the gutter.
func (m *markdown) paintGutter() string { return paint(m.colour, terminal.Dim, m.gutter) }

// set begins a style.
func (m *markdown) set(s style) {
	if s |= m.base; m.colour && s != m.style {
		m.out.WriteString(s.sgr())
		m.style = s
	}
}

// newline ends the line, if one is begun.
func (m *markdown) newline() {
	if m.col < 0 {
		return
	}
	if m.style != plain {
		m.out.WriteString(plain.sgr())
	}
	m.out.WriteString("\n")
	m.col, m.style = -1, plain
}
