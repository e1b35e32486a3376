package secret

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// sieve tells of most places in a text, at the cost of a glance, that no pattern
// begins there, so that the automaton needs to look only at the others.
//
// It looks at blocks of four places. A pattern of at least longPattern bytes that
// begins in a block has the four bytes from the block's last place on among its
// first seven, so one look serves the four places. Shorter ones are known by
// their first three bytes, with one look for each place. What is looked up are
// bits of tables that are small enough to stay in the nearest caches, under
// numbers made of the bytes: two texts may share one, and then the automaton is
// asked in vain. It has no other effect.
type sieve struct {
	long  []uint64
	shift uint8           // of the number of a bit of long
	short *[1 << 14]uint8 // nil if no pattern is short
}

// The measures of a sieve.
const (
	block       = 4         // places that are looked at together
	longPattern = block + 3 // bytes of which each block finds four
	blockBytes  = 8         // that are read to look at one
)

// anyCase makes lower case of upper in each byte, and leaves other bytes apart well
// enough.
const anyCase = 0x20202020

// newSieve returns the sieve of folded patterns.
func newSieve(patterns []pattern) *sieve {
	long, short := 0, 0
	for _, p := range patterns {
		if len(p.text) >= longPattern {
			long++
		} else {
			short++
		}
	}
	s := &sieve{}
	size := min(max(bits.Len(uint(long*block*16)), 10), 20)
	s.long, s.shift = make([]uint64, 1<<(size-6)), uint8(32-size)
	if short > 0 {
		s.short = new([1 << 14]uint8)
	}
	for _, p := range patterns {
		if len(p.text) < longPattern {
			variants(p.text[:3], 0, 0, s.markShort)
			continue
		}
		for at := range block {
			variants(p.text[at:at+4], 0, 0, s.markLong)
		}
	}
	return s
}

// markLong and markShort note bytes.

func (s *sieve) markLong(x uint32) {
	h := ((x | anyCase) * spread) >> (s.shift & 31)
	s.long[h>>6] |= 1 << (h & 63)
}

func (s *sieve) markShort(x uint32) { s.short[((x<<8|anyCase&^0xff)*spread)>>shortShift] = 1 }

// variants gives to each the bytes of text, first byte lowest, as they may be
// written where they are not told apart. See fold.
func variants(text []byte, x uint32, at int, each func(uint32)) {
	if at == len(text) {
		each(x)
		return
	}
	b := text[at]
	variants(text, x|uint32(b)<<(8*at), at+1, each)
	switch b {
	case ' ':
		variants(text, x|uint32('+')<<(8*at), at+1, each)
		variants(text, x|uint32('-')<<(8*at), at+1, each)
	case '/':
		variants(text, x|uint32('_')<<(8*at), at+1, each)
	}
}

// spread makes numbers that differ in any bits differ in the upper ones.
const (
	spread     = 0x9e3779b1
	shortShift = 32 - 14
)

// skip returns the first block from at on, in steps of whole blocks, in which a
// pattern may begin; or the first that p is too short to look at.
func (s *sieve) skip(p []byte, at int) int {
	long, short, shift := s.long, s.short, s.shift&31
	if short == nil {
		return s.skipLong(p, at)
	}
	for ; at+blockBytes <= len(p); at += block {
		w := binary.LittleEndian.Uint64(p[at:]) | anyCase | anyCase<<32
		h := (uint32(w>>24) * spread) >> shift
		a := (uint32(w<<8) &^ 0xff * spread) >> shortShift
		b := (uint32(w) &^ 0xff * spread) >> shortShift
		c := (uint32(w>>8) &^ 0xff * spread) >> shortShift
		d := (uint32(w>>16) &^ 0xff * spread) >> shortShift
		if long[h>>6]>>(h&63)&1 != 0 || short[a]|short[b]|short[c]|short[d] != 0 {
			return at
		}
	}
	return at
}

// skipLong is skip where no pattern is short.
func (s *sieve) skipLong(p []byte, at int) int {
	long, shift := s.long, s.shift&31
	for ; at+blockBytes <= len(p); at += block {
		h := ((binary.LittleEndian.Uint32(p[at+block-1:]) | anyCase) * spread) >> shift
		if long[h>>6]>>(h&63)&1 != 0 {
			return at
		}
	}
	return at
}

// specials knows where in a text the next byte is that may begin an escape. Each
// of them is searched for again only when it was passed. The zero value knows
// nothing.
type specials [5]int // places, plus one

// next returns the place of the first special byte of p from at on that may begin
// an escape in some view, or the end of p.
func (s *specials) next(p []byte, at int) int {
	for {
		first := len(p)
		for k, b := range [len(s)]byte{'\\', '%', '&', '\n', '\r'} {
			if s[k] <= at {
				place := bytes.IndexByte(p[at:], b)
				if place < 0 {
					place = len(p)
				}
				s[k] = at + place + 1
			}
			first = min(first, s[k]-1)
		}
		if first == len(p) || !plain(p[first:]) {
			return first
		}
		at = first + 1
	}
}

// plain reports whether the special byte at the beginning of p is none, as the next
// byte shows: it would have to be special itself to be another one in a view.
func plain(p []byte) bool {
	if len(p) < 2 || familyOf[p[0]] == breaks || isSpecial(p[1]) {
		return false
	}
	used, _, _ := allFamilies.decode(p[:2], 0, false)
	return used == 1
}
