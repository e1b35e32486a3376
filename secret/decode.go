package secret

import (
	"unicode/utf16"
	"unicode/utf8"
)

// item is a byte of some view of the text, and the raw bytes it stands for.
type item struct {
	b          byte
	start, end int
}

// maxEscape is the longest escape: a surrogate pair, \ud83d\ude00.
const maxEscape = 12

// maxBreaks is how many line breaks in a row are taken out of a view.
const maxBreaks = 4

// family is a set of escapes that are undone together.
type family uint8

// The families.
const (
	backslashes family = 1 << iota
	percents
	entities
	breaks
	allFamilies = backslashes | percents | entities | breaks
)

// begins reports whether b begins an escape of the family.
func (f family) begins(b byte) bool {
	switch b {
	case '\\':
		return f&backslashes != 0
	case '%':
		return f&percents != 0
	case '&':
		return f&entities != 0
	case '\n', '\r':
		return f&breaks != 0
	}
	return false
}

// decoder undoes one level of escapes. What it gives depends only on the items
// it was given, not on when.
type decoder struct {
	family family
	wait   [maxEscape]item // the beginning of what may be an escape
	n      int
	breaks int // taken out in a row
}

// push takes the next item and appends to to what comes of it.
func (d *decoder) push(it item, to []item) []item {
	if d.n == 0 && !d.family.begins(it.b) {
		d.breaks = 0
		return append(to, it)
	}
	d.wait[d.n] = it
	d.n++
	return d.drain(false, to)
}

// drain decodes what waits, as far as that can be told.
func (d *decoder) drain(end bool, to []item) []item {
	for d.n > 0 {
		used, out, size := d.decode(end)
		if used == 0 {
			break
		}
		first, last := d.wait[0], d.wait[used-1]
		d.n = copy(d.wait[:], d.wait[used:d.n])
		if size > 0 {
			d.breaks = 0
		}
		for _, b := range out[:size] {
			to = append(to, item{b, first.start, last.end})
		}
	}
	return to
}

// decode reads an escape from what waits: how many items it takes, and the bytes
// it stands for. It takes none if it has to see more.
func (d *decoder) decode(end bool) (used int, out [4]byte, size int) {
	literal := [4]byte{d.wait[0].b}
	if !d.family.begins(literal[0]) {
		return 1, literal, 1
	}
	switch literal[0] {
	case '\n', '\r':
		if d.breaks == maxBreaks {
			return 1, literal, 1
		}
		d.breaks++
		return 1, out, 0
	case '\\':
		used, out, size = d.backslash(end)
	case '%':
		used, out, size = d.digits(1, 2, 16, end)
	case '&':
		used, out, size = d.entity(end)
	}
	if used < 0 {
		return 1, literal, 1
	}
	return used, out, size
}

// The parts of decode return 0 to see more, and less if there is no escape.

func (d *decoder) backslash(end bool) (used int, out [4]byte, size int) {
	if d.n < 2 {
		return waitOr(end), out, 0
	}
	switch lower(d.wait[1].b) { // the text may have been put in upper case
	case 'n':
		out[0] = '\n'
	case 'r':
		out[0] = '\r'
	case 't':
		out[0] = '\t'
	case 'b':
		out[0] = '\b'
	case 'f':
		out[0] = '\f'
	case '"', '\'', '\\', '/', '$', '`', ' ', '&', '%', '=', ':', '@', '#', '!', '.', '-', '+', '*', '?', '(', ')', '[', ']', '{', '}', '<', '>', '|', ';', '^', '~', ',':
		out[0] = d.wait[1].b
	case 'x':
		return d.digits(2, 2, 16, end)
	case 'u':
		return d.unicode(end)
	case '0', '1', '2', '3':
		return d.digits(1, 3, 8, end)
	default:
		return -1, out, 0
	}
	return 2, out, 1
}

// digits reads a byte as count digits from wait[from] on.
func (d *decoder) digits(from, count, base int, end bool) (used int, out [4]byte, size int) {
	v, got, ok := d.number(from, count, base)
	if !ok {
		return -1, out, 0
	}
	if got < count {
		return waitOr(end), out, 0
	}
	out[0] = byte(v)
	return from + count, out, 1
}

// unicode reads \uXXXX, or two of them that make a pair.
func (d *decoder) unicode(end bool) (used int, out [4]byte, size int) {
	v, got, ok := d.number(2, 4, 16)
	if !ok {
		return -1, out, 0
	}
	if got < 4 {
		return waitOr(end), out, 0
	}
	used = 6
	r := rune(v)
	if utf16.IsSurrogate(r) {
		if d.n < maxEscape && d.prefix(6, `\u`) && !end {
			if _, _, ok := d.number(8, 4, 16); ok {
				return 0, out, 0
			}
		}
		if d.n == maxEscape && d.prefix(6, `\u`) {
			if low, _, ok := d.number(8, 4, 16); ok {
				r, used = utf16.DecodeRune(r, rune(low)), maxEscape
			}
		}
		if used == 6 || r == utf8.RuneError {
			return -1, out, 0
		}
	}
	return used, out, utf8.EncodeRune(out[:], r)
}

// prefix reports whether what waits from there on begins with text, as far as it
// has come.
func (d *decoder) prefix(from int, text string) bool {
	for i := 0; i < len(text) && from+i < d.n; i++ {
		if lower(d.wait[from+i].b) != text[i] {
			return false
		}
	}
	return true
}

// number reads up to count digits. It is not ok if there is something else.
func (d *decoder) number(from, count, base int) (v, got int, ok bool) {
	for i := from; i < d.n && got < count; i++ {
		x := digit(d.wait[i].b)
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

// waitOr waits for more, unless there is none.
func waitOr(end bool) int {
	if end {
		return -1
	}
	return 0
}

// named are the entities that escapers write by name.
var named = []struct{ name, text string }{
	{"amp;", "&"}, {"lt;", "<"}, {"gt;", ">"}, {"quot;", `"`}, {"apos;", "'"}, {"nbsp;", " "},
	{"sol;", "/"}, {"num;", "#"}, {"equals;", "="}, {"plus;", "+"}, {"percnt;", "%"},
}

// entity reads &name; or &#number;
func (d *decoder) entity(end bool) (used int, out [4]byte, size int) {
	if d.n < 2 {
		return waitOr(end), out, 0
	}
	if d.wait[1].b == '#' {
		return d.numeric(end)
	}
	partial := false
	for _, e := range named {
		if !d.prefix(1, e.name) {
			continue
		}
		if d.n > len(e.name) {
			return 1 + len(e.name), out, copy(out[:], e.text)
		}
		partial = true
	}
	if partial {
		return waitOr(end), out, 0
	}
	return -1, out, 0
}

// numeric reads &#65; or &#x41;
func (d *decoder) numeric(end bool) (used int, out [4]byte, size int) {
	from, base := 2, 10
	if d.n > 2 && d.wait[2].b|0x20 == 'x' {
		from, base = 3, 16
	}
	v := 0
	for i := from; i < d.n; i++ {
		b := d.wait[i].b
		if b == ';' && i > from && v <= utf8.MaxRune {
			return i + 1, out, utf8.EncodeRune(out[:], rune(v))
		}
		x := digit(b)
		if x >= base || v > utf8.MaxRune || i == maxEscape-1 {
			return -1, out, 0
		}
		v = v*base + x
	}
	return waitOr(end), out, 0
}
