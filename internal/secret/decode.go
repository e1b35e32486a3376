package secret

import (
	"unicode/utf16"
	"unicode/utf8"
)

// item is a byte of a view, and the range of raw bytes it stands for.
type item struct {
	b          byte
	start, end int
}

// maxEscape is the longest escape: a surrogate pair, \ud83d\ude00.
const maxEscape = 12

// maxBreaks is how many consecutive line breaks are removed from a view.
const maxBreaks = 4

// family is a set of kinds of escapes.
type family uint8

// The families.
const (
	backslashes family = 1 << iota
	percents
	entities
	breaks
	allFamilies = backslashes | percents | entities | breaks
)

// familyOf is the family of the escapes that a byte begins, if any.
var familyOf = [256]family{'\\': backslashes, '%': percents, '&': entities, '\n': breaks, '\r': breaks}

// isSpecial reports whether b begins an escape or breaks a line.
func isSpecial(b byte) bool { return familyOf[b] != 0 }

// begins reports whether b begins an escape of the family.
func (f family) begins(b byte) bool { return familyOf[b]&f != 0 }

// decoder undoes one level of escapes in a stream of items. Its result depends only on
// the items, not on when they come.
type decoder struct {
	family family
	wait   [maxEscape]byte   // the beginning of what may be an escape
	places [maxEscape][2]int // where each of its bytes starts and ends
	n      int
	breaks int // consecutive line breaks that were removed
}

// push adds an item to those that wait, which must be fewer than maxEscape.
func (d *decoder) push(it item) {
	d.wait[d.n], d.places[d.n] = it.b, [2]int{it.start, it.end}
	d.n++
}

// pop takes the first escape, or byte as it is, from the items that wait: the bytes it
// stands for, and its raw offsets. size is -1 if more items are needed to decide; end says
// that none will come.
func (d *decoder) pop(end bool) (out [4]byte, size, start, stop int) {
	used, out, size := d.family.decode(d.wait[:d.n], d.breaks, end)
	if used == 0 {
		return out, -1, 0, 0
	}
	start, stop = d.places[0][0], d.places[used-1][1]
	copy(d.places[:], d.places[used:d.n])
	d.n = copy(d.wait[:], d.wait[used:d.n])
	if d.breaks++; size > 0 {
		d.breaks = 0
	}
	return out, size, start, stop
}

// decode reads the escape, or the literal byte, that p begins with. It returns the number
// of bytes used and the bytes they stand for. used is 0 if more bytes are needed, which
// is never so if end says that there are none, or after maxEscape bytes. breaks is how
// many line breaks were removed just before.
func (f family) decode(p []byte, breaks int, end bool) (used int, out [4]byte, size int) {
	literal := [4]byte{p[0]}
	if !f.begins(literal[0]) {
		return 1, literal, 1
	}
	switch literal[0] {
	case '\n', '\r':
		if breaks == maxBreaks {
			return 1, literal, 1
		}
		return 1, out, 0
	case '\\':
		used, out, size = backslash(p, end)
	case '%':
		used, out, size = digits(p, 1, 2, 16, end)
	case '&':
		used, out, size = entity(p, end)
	}
	if used < 0 {
		return 1, literal, 1
	}
	return used, out, size
}

// The functions below are parts of decode. They return 0 if more bytes are needed, and a
// negative number if p begins with no escape.

func backslash(p []byte, end bool) (used int, out [4]byte, size int) {
	if len(p) < 2 {
		return needMore(end), out, 0
	}
	switch lower(p[1]) {
	case 'x':
		return digits(p, 2, 2, 16, end)
	case 'u':
		return codePoint(p, end)
	case '0', '1', '2', '3':
		return digits(p, 1, 3, 8, end)
	}
	if out[0] = escapedBy[p[1]]; out[0] == 0 {
		return -1, out, 0
	}
	return 2, out, 1
}

// escapedBy is the byte that one after a backslash stands for; 0 if it is no escape.
var escapedBy = func() (t [256]byte) {
	for _, b := range []byte("\"'\\/$` &%=:@#!.-+*?()[]{}<>|;^~,") {
		t[b] = b
	}
	for i, b := range []byte("nrtbf") {
		t[b], t[b-'a'+'A'] = "\n\r\t\b\f"[i], "\n\r\t\b\f"[i] // the text may have been put in upper case
	}
	return t
}()

// digits reads a byte written as count digits from p[from] on.
func digits(p []byte, from, count, base int, end bool) (used int, out [4]byte, size int) {
	v, got, ok := numeral(p, from, count, base)
	if !ok {
		return -1, out, 0
	}
	if got < count {
		return needMore(end), out, 0
	}
	out[0] = byte(v)
	return from + count, out, 1
}

// codePoint reads \uXXXX, or two of them that make a pair.
func codePoint(p []byte, end bool) (used int, out [4]byte, size int) {
	v, got, ok := numeral(p, 2, 4, 16)
	if !ok {
		return -1, out, 0
	}
	if got < 4 {
		return needMore(end), out, 0
	}
	used = 6
	r := rune(v)
	if utf16.IsSurrogate(r) {
		if len(p) < maxEscape && prefix(p, 6, `\u`) && !end {
			if _, _, ok := numeral(p, 8, 4, 16); ok {
				return 0, out, 0
			}
		}
		if len(p) == maxEscape && prefix(p, 6, `\u`) {
			if low, _, ok := numeral(p, 8, 4, 16); ok {
				r, used = utf16.DecodeRune(r, rune(low)), maxEscape
			}
		}
		if used == 6 || r == utf8.RuneError {
			return -1, out, 0
		}
	}
	return used, out, utf8.EncodeRune(out[:], r)
}

// prefix reports whether p[from:] begins with text, as far as p goes.
func prefix(p []byte, from int, text string) bool {
	for i := 0; i < len(text) && from+i < len(p); i++ {
		if lower(p[from+i]) != text[i] {
			return false
		}
	}
	return true
}

// numeral reads up to count digits. ok is false if it finds another byte.
func numeral(p []byte, from, count, base int) (v, got int, ok bool) {
	for i := from; i < len(p) && got < count; i++ {
		x := digit(p[i])
		if x >= base {
			return 0, got, false
		}
		v, got = v*base+x, got+1
	}
	return v, got, true
}

// digit returns the value of a hexadecimal digit, or 99.
func digit(b byte) int {
	switch {
	case '0' <= b && b <= '9':
		return int(b - '0')
	case 'a' <= b && b <= 'f':
		return int(b-'a') + 10
	case 'A' <= b && b <= 'F':
		return int(b-'A') + 10
	}
	return 99
}

// lower returns b in lower case.
func lower(b byte) byte {
	if 'A' <= b && b <= 'Z' {
		b += 'a' - 'A'
	}
	return b
}

// needMore returns 0, for more bytes, or a negative number if there are none.
func needMore(end bool) int {
	if end {
		return -1
	}
	return 0
}

// entityName is the name of an entity and its text.
type entityName struct{ name, text string }

// namedEntities are the HTML entities for ASCII characters of at most maxEscape bytes, by
// the first letter of their names in lower case.
var namedEntities = func() (t ['z' - 'a' + 1][]entityName) {
	for _, e := range []entityName{
		{"amp;", "&"}, {"lt;", "<"}, {"gt;", ">"}, {"quot;", `"`}, {"apos;", "'"}, {"nbsp;", " "},
		{"sol;", "/"}, {"num;", "#"}, {"equals;", "="}, {"plus;", "+"}, {"percnt;", "%"},
		{"excl;", "!"}, {"dollar;", "$"}, {"lpar;", "("}, {"rpar;", ")"}, {"ast;", "*"}, {"midast;", "*"},
		{"comma;", ","}, {"period;", "."}, {"colon;", ":"}, {"semi;", ";"}, {"quest;", "?"}, {"commat;", "@"},
		{"lsqb;", "["}, {"lbrack;", "["}, {"bsol;", `\`}, {"rsqb;", "]"}, {"rbrack;", "]"}, {"hat;", "^"},
		{"lowbar;", "_"}, {"underbar;", "_"}, {"grave;", "`"}, {"lcub;", "{"}, {"lbrace;", "{"}, {"verbar;", "|"},
		{"vert;", "|"}, {"rcub;", "}"}, {"rbrace;", "}"}, {"tab;", "\t"}, {"newline;", "\n"},
	} {
		t[e.name[0]-'a'] = append(t[e.name[0]-'a'], e)
	}
	return t
}()

// entity reads &name; or &#number;
func entity(p []byte, end bool) (used int, out [4]byte, size int) {
	if len(p) < 2 {
		return needMore(end), out, 0
	}
	if p[1] == '#' {
		return numeric(p, end)
	}
	first := lower(p[1])
	if first < 'a' || first > 'z' {
		return -1, out, 0
	}
	partial := false
	for _, e := range namedEntities[first-'a'] {
		if !prefix(p, 1, e.name) {
			continue
		}
		if len(p) > len(e.name) {
			return 1 + len(e.name), out, copy(out[:], e.text)
		}
		partial = true
	}
	if partial {
		return needMore(end), out, 0
	}
	return -1, out, 0
}

// numeric reads &#65; or &#x41;
func numeric(p []byte, end bool) (used int, out [4]byte, size int) {
	from, base := 2, 10
	if len(p) > 2 && p[2]|0x20 == 'x' {
		from, base = 3, 16
	}
	v := 0
	for i := from; i < len(p); i++ {
		b := p[i]
		if b == ';' && i > from && v <= utf8.MaxRune {
			return i + 1, out, utf8.EncodeRune(out[:], rune(v))
		}
		x := digit(b)
		if x >= base || v > utf8.MaxRune || i == maxEscape-1 {
			return -1, out, 0
		}
		v = v*base + x
	}
	return needMore(end), out, 0
}
