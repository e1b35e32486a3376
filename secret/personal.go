package secret

import (
	"bytes"
	"math"
	"sync"
)

// kinds are the names of personal data that is known by its look.
var kinds = [...]string{"email", "card_number", "iban", "phone", "national_id"}

// The indexes of kinds.
const (
	kindEmail = iota
	kindCard
	kindIBAN
	kindPhone
	kindNational
)

// What a byte can be part of.
const (
	inAddress   = 1 << iota // an e-mail address
	inNumber                // a number in groups
	inToken                 // a word of letters and digits
	opensNumber             // the first of a number
)

// Longer runs hold nothing of the kind. A run of numbers that is longer is looked
// at in pieces.
const (
	longestAddress = 320
	longestNumber  = 256
	longestToken   = 40
	longestIBAN    = 34 + 8
)

// sorts tells what each byte can be part of.
var sorts = sync.OnceValue(func() *[256]uint8 {
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
			t[b] |= opensNumber
		}
	}
	return &t
})

// run is a stretch of bytes of one sort. start is -1 if there is none.
type run struct {
	start int
	at    bool // an @ was seen
	lost  bool // it is too long
}

// personalFinder finds personal data. It collects runs of bytes that may be part of it and
// looks at each when it has ended, so that it does not matter how the text came.
type personalFinder struct {
	begun   bool
	last    uint8 // what the last byte can be part of
	check   int   // raw offset at which a run becomes too long
	address run
	number  run
	token   run
	iban    int // where groups of four have begun that may be an IBAN, or -1
	before  byte
}

// feed takes buf[from:], as [scanner.feed] does.
func (p *personalFinder) feed(s *scanner, buf []byte, base, from int) {
	if !p.begun {
		p.begun = true
		p.address.start, p.number.start, p.token.start, p.iban = -1, -1, -1, -1
		p.last = 0xff
	}
	table := sorts()
	for i := from; i < len(buf); i++ {
		b := buf[i]
		sort := table[b]
		if sort == p.last && b != '@' && base+i < p.check {
			p.before = b // all runs go on
			continue
		}
		p.takeAddress(s, buf, base, i, sort&inAddress != 0)
		if p.number.start >= 0 || sort&opensNumber != 0 {
			p.takeNumber(s, buf, base, i, sort&inNumber != 0, sort&opensNumber != 0)
		}
		p.takeToken(s, buf, base, i, sort&inToken != 0)
		p.before, p.last = b, sort
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

// takeAddress goes on to buf[i], which is in the run of an address or ends it.
func (p *personalFinder) takeAddress(s *scanner, buf []byte, base, i int, in bool) {
	r := &p.address
	if !in {
		if r.start >= 0 && r.at {
			addresses(s, buf[r.start-base:i], r.start)
		}
		*r = run{start: -1}
		return
	}
	if r.lost {
		return
	}
	if r.start < 0 {
		r.start = base + i
	}
	r.at = r.at || buf[i] == '@'
	if base+i-r.start >= longestAddress {
		*r = run{start: -1, lost: true}
	}
}

// takeNumber goes on to buf[i], which is in a run of numbers or ends it.
func (p *personalFinder) takeNumber(s *scanner, buf []byte, base, i int, in, opens bool) {
	r := &p.number
	if r.start >= 0 && (!in || base+i-r.start >= longestNumber) {
		numbers(s, buf[r.start-base:i], r.start, !in && isWord(buf[i]))
		r.start = -1
	}
	if r.start < 0 && opens && !isWord(p.before) {
		r.start = base + i
	}
}

// takeToken goes on to buf[i], which is in a word or ends it.
func (p *personalFinder) takeToken(s *scanner, buf []byte, base, i int, in bool) {
	r := &p.token
	if in {
		if r.start < 0 && !r.lost {
			r.start, r.lost = base+i, p.before == '_'
		}
		if r.start >= 0 && base+i-r.start >= longestToken {
			*r = run{start: -1, lost: true}
			p.iban = -1
		}
		return
	}
	if r.start >= 0 && !r.lost {
		p.word(s, buf, base, i, buf[i] == ' ')
	} else {
		p.iban = -1
	}
	*r = run{start: -1}
}

// word looks at the word that has ended before buf[i].
func (p *personalFinder) word(s *scanner, buf []byte, base, i int, space bool) {
	w := buf[p.token.start-base : i]
	switch {
	case len(w) == 9 && national(w):
		s.addPersonal(p.token.start, base+i, kindNational)
	case len(w) >= 15 && isIBAN(w):
		s.addPersonal(p.token.start, base+i, kindIBAN)
	}
	if p.iban < 0 && len(w) == 4 && opensIBAN(w) {
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

// finish tells that the text has ended.
func (p *personalFinder) finish(s *scanner, buf []byte, base int) {
	if !p.begun {
		return
	}
	end := len(buf)
	if p.address.start >= 0 && p.address.at {
		addresses(s, buf[p.address.start-base:], p.address.start)
	}
	if p.number.start >= 0 {
		numbers(s, buf[p.number.start-base:], p.number.start, false)
	}
	if p.token.start >= 0 && !p.token.lost {
		p.word(s, buf, base, end, false)
	}
	p.begun = false
}

// safe returns an offset before which nothing that is to come begins.
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

// addPersonal notes personal data.
func (s *scanner) addPersonal(start, end, kind int) { s.addSpan(start, end, s.personalMask+kind) }

// addresses finds e-mail addresses in a run that begins at a raw offset.
func addresses(s *scanner, text []byte, base int) {
	for at := bytes.IndexByte(text, '@'); at >= 0; {
		start := at
		for start > 0 && at-start < 64 && text[start-1] != '@' {
			start--
		}
		for start < at && (text[start] == '.' || text[start] == '\'' || text[start] == '-') {
			start++
		}
		end, dot, label := at+1, -1, 0
		for end < len(text) && text[end] != '@' && text[end] != '\'' && text[end] != '%' && text[end] != '+' && text[end] != '_' {
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

// group is digits, and what stands before them.
type group struct {
	start, end int
	sep        string
}

// numbers finds what is known by its digits in a run that begins at a raw offset.
// joined says that a letter follows the run.
func numbers(s *scanner, text []byte, base int, joined bool) {
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
	if n := len(groups); joined && n > 0 && groups[n-1].end == len(text) {
		groups = groups[:n-1]
	}
	for i := 0; i < len(groups); i++ {
		kind, n, from := number(text, groups[i:])
		if n > 0 {
			s.addPersonal(base+from, base+groups[i+n-1].end, kind)
			i += n - 1
		}
	}
}

// number reports what the first n groups are, if anything, and where it begins.
func number(text []byte, groups []group) (kind, n, from int) {
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
		if same && isCard(digits, groups[:i+1]) && (i+1 == len(groups) || groups[i+1].sep != groups[min(1, i)].sep || len(digits) >= 15) {
			return kindCard, i + 1, first.start
		}
		if isNational(digits, groups[:i+1]) {
			return kindNational, i + 1, first.start
		}
	}
	return phone(text, groups)
}

// phone reports whether groups begin with a telephone number: international with
// its +, or as it is written in North America. Others look like any number.
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
