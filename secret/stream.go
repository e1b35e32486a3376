package secret

import (
	"cmp"
	"slices"
	"unicode/utf8"
)

// A Stream removes secrets from what is written to it. However the text is cut
// into writes, the same comes out. Use it from one goroutine.
//
//	NewStream → Write … → Close
type Stream struct {
	scan   scanner
	out    func([]byte)
	buf    []byte // what was not given out, and one byte before it
	base   int    // raw offset of buf[0]
	next   int    // raw offset of what to give out next
	give   []byte
	found  bool
	closed bool
}

// piece bounds what a stream looks at in one go, and so what it needs for it.
const piece = 64 << 10

// NewStream returns a stream that hands what may be seen to out. The bytes are
// out's only until it returns, and hold no part of a character, unless the text
// does. What is held back is never more than the beginning of what may become a
// secret: a few bytes in ordinary text, and at most a small multiple of the
// longest value.
func (r *Redactor) NewStream(out func([]byte)) *Stream {
	s := &Stream{out: out}
	if r != nil {
		s.scan.plan = r.plan
	}
	return s
}

// Write takes the next bytes. It never fails; what is written after Close is
// dropped.
func (s *Stream) Write(p []byte) (int, error) {
	n := len(p)
	if s.closed {
		return n, nil
	}
	if s.scan.plan == nil {
		if n > 0 {
			s.out(p)
		}
		return n, nil
	}
	for len(p) > 0 {
		part := p[:min(len(p), piece)]
		p = p[len(part):]
		from := len(s.buf)
		s.buf = append(s.buf, part...)
		s.scan.feed(s.buf, s.base, from)
		s.flush(s.scan.safe(), false)
	}
	return n, nil
}

// Found reports whether anything that is to be removed was in the text so far.
func (s *Stream) Found() bool { return s.found || len(s.scan.spans) > 0 }

// Close hands out what was held back.
func (s *Stream) Close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	if s.scan.plan != nil {
		s.scan.finish(s.buf, s.base)
		s.flush(s.base+len(s.buf), true)
		s.buf = nil
	}
	return nil
}

// minCut is the length in bytes from which on the beginning of a value is not handed
// out by [Stream.Break].
const minCut = 4

// Break ends a part of the text that goes out by itself, such as a message: what is
// held back is handed out now. The search goes on behind it, so that a value is found
// that lies in two parts. Of such a value, no more than the first three bytes are
// handed out: a longer beginning is replaced by stars.
func (s *Stream) Break() {
	if s.closed || s.scan.plan == nil {
		return
	}
	s.give = s.give[:0]
	for _, f := range joined(s.scan.spans) {
		if f.start > s.next {
			s.give = append(s.give, s.buf[s.next-s.base:f.start-s.base]...)
		}
		if s.found = true; f.end > s.next {
			s.give, s.next = append(s.give, s.scan.masks[f.mask]...), f.end
		}
	}
	s.scan.spans = s.scan.spans[:0]
	if end := s.base + len(s.buf); end > s.next {
		begun := max(s.scan.safe(), s.next)
		s.give = append(s.give, s.buf[s.next-s.base:begun-s.base]...)
		if s.scan.partial() < minCut {
			s.give = append(s.give, s.buf[begun-s.base:]...)
		} else {
			s.give = append(s.give, "***"...)
		}
		s.next = end
	}
	if len(s.give) > 0 {
		s.out(s.give)
	}
}

// flush gives out what is before safe. A stretch that reaches beyond it may yet
// grow, and waits; its text is dropped meanwhile.
func (s *Stream) flush(safe int, end bool) {
	s.give = s.give[:0]
	spans := joined(s.scan.spans)
	done := 0
	for _, f := range spans {
		if f.end > safe {
			break
		}
		s.found = true
		if done++; f.end <= s.next {
			continue // Break has given it out
		}
		if f.start > s.next {
			s.give = append(s.give, s.buf[s.next-s.base:f.start-s.base]...)
		}
		s.give = append(s.give, s.scan.masks[f.mask]...)
		s.next = f.end
	}
	spans = spans[:copy(spans, spans[done:])]
	s.scan.spans = spans

	limit, keep := safe, 0
	if len(spans) > 0 {
		limit = min(safe, spans[0].start)
	}
	if limit > s.next {
		part := s.buf[s.next-s.base : limit-s.base]
		if !end {
			part = part[:whole(part)]
		}
		s.give = append(s.give, part...)
		s.next += len(part)
	}
	keep = s.next
	if len(spans) > 0 && spans[0].start <= s.next {
		keep = safe
	}
	keep = min(keep, safe)                   // after a Break the search is behind what was given out
	if drop := keep - 1 - s.base; drop > 0 { // the byte before tells where words begin
		s.buf = s.buf[:copy(s.buf, s.buf[drop:])]
		s.base += drop
	}
	if len(s.give) > 0 {
		s.out(s.give)
	}
}

// whole returns how much of p ends with a whole character.
func whole(p []byte) int {
	for i := 1; i <= min(len(p), utf8.UTFMax-1); i++ {
		if b := p[len(p)-i]; utf8.RuneStart(b) {
			if !utf8.FullRune(p[len(p)-i:]) {
				return len(p) - i
			}
			break
		}
	}
	return len(p)
}

// join makes one span of two. The longer match chooses the mask.
func join(f, g span) span {
	mask, length := f.mask, f.length
	if g.length > length || g.length == length && g.mask < mask {
		mask, length = g.mask, g.length
	}
	return span{min(f.start, g.start), max(f.end, g.end), mask, length}
}

// joined sorts spans and makes one of those that overlap, in place.
func joined(spans []span) []span {
	if len(spans) < 2 {
		return spans
	}
	slices.SortFunc(spans, func(f, g span) int { return cmp.Or(cmp.Compare(f.start, g.start), cmp.Compare(f.end, g.end)) })
	n := 0
	for _, f := range spans[1:] {
		if f.start < spans[n].end {
			spans[n] = join(spans[n], f)
		} else {
			n++
			spans[n] = f
		}
	}
	return spans[:n+1]
}
