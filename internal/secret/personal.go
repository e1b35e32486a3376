package secret

import (
	"bytes"
	"math"
	"sync"
)

// personalKinds are the names of personal data of known formats.
var personalKinds = [...]string{"email", "card_number", "iban", "phone", "national_id"}

// The indexes of personalKinds.
const (
	kindEmail = iota
	kindCard
	kindIBAN
	kindPhone
	kindNational
)

// What a byte can be part of.
const (
	inAddress    = 1 << iota // an e-mail address
	inNumber                 // a number in groups
	inToken                  // a word of letters and digits
	beginsNumber             // the first byte of a number
)

// Bounds of runs. Longer addresses and words are no personal data; a longer run of
// numbers is checked in pieces.
const (
	longestAddress = 320
	longestNumber  = 256
	longestToken   = 40
	longestIBAN    = 34 + 8
)

// byteUses says what each byte can be part of.
var byteUses = sync.OnceValue(func() *[256]uint8 {
	var t [256]uint8
	for b := range 256 {
		c := byte(b)
		word := isWord(c) && c != '_'
		if word || c >= 0x80 || bytes.IndexByte([]byte("._%+-@'"), c) >= 0 {
			t[b] |= inAddress
		}
		if '0' <= c && c <= '9' || bytes.IndexByte([]byte(" .-()/+"), c) >= 0 {
			t[b] |= inNumber
		}
		if word {
			t[b] |= inToken
		}
		if isDigit(c) || c == '+' || c == '(' {
			t[b] |= beginsNumber
		}
	}
	return &t
})

// run is a sequence of bytes of the same use. start is -1 if there is none.
type run struct {
	start   int
	at      bool // an @ was seen
	tooLong bool
}

// personalFinder finds personal data. It collects runs of bytes that may be part of it
// and checks each run at its end, so that it does not matter how the text was split.
type personalFinder struct {
	begun   bool
	last    uint8 // uses of the last byte
	check   int   // raw offset at which a run becomes too long
	address run
	number  run
	token   run
	iban    int // raw offset of groups of four that may be an IBAN, or -1
	before  byte
}

// feed takes buf[from:], as [scanner.feed] does.
func (p *personalFinder) feed(s *scanner, buf []byte, base, from int) {
	if !p.begun {
		p.begun = true
		p.address.start, p.number.start, p.token.start, p.iban = -1, -1, -1, -1
		p.last = 0xff
	}
	uses := byteUses()
	for i := from; i < len(buf); i++ {
		b := buf[i]
		use := uses[b]
		if use == p.last && b != '@' && base+i < p.check {
			p.before = b // all runs go on
			continue
		}
		p.takeAddress(s, buf, base, i, use&inAddress != 0)
		if p.number.start >= 0 || use&beginsNumber != 0 {
			p.takeNumber(s, buf, base, i, use&inNumber != 0, use&beginsNumber != 0)
		}
		p.takeToken(s, buf, base, i, use&inToken != 0)
		p.before, p.last = b, use
		p.check = min(p.address.until(longestAddress), p.number.until(longestNumber), p.token.until(longestToken))
	}
}

// until returns the raw offset at which the run has length bytes.
func (r *run) until(length int) int {
	if r.start < 0 {
		return math.MaxInt
	}
	return r.start + length
}

// takeAddress takes buf[i], which is part of an address or ends it.
func (p *personalFinder) takeAddress(s *scanner, buf []byte, base, i int, in bool) {
	r := &p.address
	if !in {
		if r.start >= 0 && r.at {
			findAddresses(s, buf[r.start-base:i], r.start)
		}
		*r = run{start: -1}
		return
	}
	if r.tooLong {
		return
	}
	if r.start < 0 {
		r.start = base + i
	}
	r.at = r.at || buf[i] == '@'
	if base+i-r.start >= longestAddress {
		*r = run{start: -1, tooLong: true}
	}
}

// takeNumber takes buf[i], which is part of a run of numbers or ends it.
func (p *personalFinder) takeNumber(s *scanner, buf []byte, base, i int, in, begins bool) {
	r := &p.number
	if r.start >= 0 && (!in || base+i-r.start >= longestNumber) {
		findNumbers(s, buf[r.start-base:i], r.start, !in && isWord(buf[i]))
		r.start = -1
	}
	if r.start < 0 && begins && !isWord(p.before) {
		r.start = base + i
	}
}

// takeToken takes buf[i], which is part of a word or ends it.
func (p *personalFinder) takeToken(s *scanner, buf []byte, base, i int, in bool) {
	r := &p.token
	if in {
		if r.start < 0 && !r.tooLong {
			r.start, r.tooLong = base+i, p.before == '_'
		}
		if r.start >= 0 && base+i-r.start >= longestToken {
			*r = run{start: -1, tooLong: true}
			p.iban = -1
		}
		return
	}
	if r.start >= 0 && !r.tooLong {
		p.checkWord(s, buf, base, i, buf[i] == ' ')
	} else {
		p.iban = -1
	}
	*r = run{start: -1}
}

// checkWord checks the word that ends before buf[i].
func (p *personalFinder) checkWord(s *scanner, buf []byte, base, i int, space bool) {
	w := buf[p.token.start-base : i]
	switch {
	case len(w) == 9 && isSpanishID(w):
		s.addPersonal(p.token.start, base+i, kindNational)
	case len(w) >= 15 && isIBAN(w):
		s.addPersonal(p.token.start, base+i, kindIBAN)
	}
	if p.iban < 0 && len(w) == 4 && beginsIBAN(w) {
		p.iban = p.token.start
	}
	if p.iban < 0 {
		return
	}
	if isIBAN(buf[p.iban-base : i]) {
		s.addPersonal(p.iban, base+i, kindIBAN)
	}
	if !space || len(w) != 4 || base+i-p.iban >= longestIBAN {
		p.iban = -1
	}
}

// finish takes the end of the text.
func (p *personalFinder) finish(s *scanner, buf []byte, base int) {
	if !p.begun {
		return
	}
	end := len(buf)
	if p.address.start >= 0 && p.address.at {
		findAddresses(s, buf[p.address.start-base:], p.address.start)
	}
	if p.number.start >= 0 {
		findNumbers(s, buf[p.number.start-base:], p.number.start, false)
	}
	if p.token.start >= 0 && !p.token.tooLong {
		p.checkWord(s, buf, base, end, false)
	}
	p.begun = false
}

// safe returns an offset before which nothing can begin that is found later.
func (p *personalFinder) safe() int {
	at := math.MaxInt
	if p.begun {
		for _, start := range []int{p.address.start, p.number.start, p.token.start, p.iban} {
			if start >= 0 {
				at = min(at, start)
			}
		}
	}
	return at
}

// addPersonal adds a span of personal data.
func (s *scanner) addPersonal(start, end, kind int) { s.addSpan(start, end, s.personalMask+kind) }

// findAddresses finds e-mail addresses in a run that begins at a raw offset.
func findAddresses(s *scanner, text []byte, base int) {
	for at := bytes.IndexByte(text, '@'); at >= 0; {
		start := at
		for start > 0 && at-start < 64 && text[start-1] != '@' {
			start--
		}
		for start < at && (text[start] == '.' || text[start] == '\'' || text[start] == '-') {
			start++
		}
		end, dot, label := at+1, -1, 0
		for end < len(text) && bytes.IndexByte([]byte("@'%+_"), text[end]) < 0 {
			if text[end] == '.' {
				if label == 0 {
					break
				}
				dot, label = end, 0
			} else {
				label++
			}
			end++
		}
		for end > at+1 && (text[end-1] == '.' || text[end-1] == '-') {
			end--
			dot = bytes.LastIndexByte(text[:end], '.')
		}
		if start < at && dot > at && end-dot > 2 {
			s.addPersonal(base+start, base+end, kindEmail)
		}
		next := bytes.IndexByte(text[at+1:], '@')
		if next < 0 {
			return
		}
		at += 1 + next
	}
}

// group is a group of digits, and the separator before it.
type group struct {
	start, end int
	sep        string
}

// findNumbers finds personal numbers in a run that begins at a raw offset. inWord says
// that a letter follows the run.
func findNumbers(s *scanner, text []byte, base int, inWord bool) {
	var groups []group
	for i := 0; i < len(text); {
		from := i
		for i < len(text) && (text[i] < '0' || text[i] > '9') {
			i++
		}
		start := i
		for i < len(text) && '0' <= text[i] && text[i] <= '9' {
			i++
		}
		if i > start {
			groups = append(groups, group{start, i, string(text[from:start])})
		}
	}
	if n := len(groups); inWord && n > 0 && groups[n-1].end == len(text) {
		groups = groups[:n-1]
	}
	for i := 0; i < len(groups); i++ {
		kind, n, from := identify(text, groups[i:])
		if n > 0 {
			s.addPersonal(base+from, base+groups[i+n-1].end, kind)
			i += n - 1
		}
	}
}

// identify returns which kind of number the first n groups are and where it begins; n is
// 0 if they are none.
func identify(text []byte, groups []group) (kind, n, from int) {
	first := groups[0]
	digits := make([]byte, 0, 24)
	for i, g := range groups[:min(len(groups), 6)] {
		if i > 0 && (len(g.sep) > 1 && g.sep != ") ") {
			break
		}
		digits = append(digits, text[g.start:g.end]...)
		same := i == 0
		if i > 0 {
			same = true
			for _, h := range groups[1 : i+1] {
				same = same && h.sep == groups[1].sep && (h.sep == " " || h.sep == "-")
			}
		}
		last := i+1 == len(groups) || groups[i+1].sep != groups[min(1, i)].sep || len(digits) >= 15
		if same && last && isCard(digits, groups[:i+1]) {
			return kindCard, i + 1, first.start
		}
		if isNational(digits, groups[:i+1]) {
			return kindNational, i + 1, first.start
		}
	}
	return phone(text, groups)
}

// phone is identify for telephone numbers: international ones with +, or as they are written in
// North America. Other formats cannot be distinguished from other numbers.
func phone(text []byte, groups []group) (kind, n, from int) {
	first := groups[0]
	if n := len(first.sep); n > 0 && first.sep[n-1] == '+' && (n > 1 || first.start == 1) { // not as in 1+2
		total := 0
		for i, g := range groups {
			if i > 0 && (len(g.sep) > 2 || bytes.IndexByte([]byte(g.sep), '+') >= 0) {
				break
			}
			if total += g.end - g.start; total > 15 {
				break
			}
			n = i + 1
		}
		total = 0
		for _, g := range groups[:n] {
			total += g.end - g.start
		}
		if total >= 8 {
			return kindPhone, n, first.start - 1
		}
		return 0, 0, 0
	}
	if len(groups) < 3 {
		return 0, 0, 0
	}
	size := func(i int) int { return groups[i].end - groups[i].start }
	area, exchange := text[first.start], text[groups[1].start]
	if size(0) != 3 || size(1) != 3 || size(2) != 4 || area < '2' || exchange < '2' {
		return 0, 0, 0
	}
	open := len(first.sep) > 0 && first.sep[len(first.sep)-1] == '('
	switch a, b := groups[1].sep, groups[2].sep; {
	case open && (a == ") " || a == ")") && (b == "-" || b == " "):
		return kindPhone, 3, first.start - 1
	case !open && a == b && (a == "-" || a == "."):
		return kindPhone, 3, first.start
	}
	return 0, 0, 0
}
