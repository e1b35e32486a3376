package secret

import (
	"bytes"
	"cmp"
	"slices"
	"unicode/utf8"
)

// A Stream removes secrets from the text that is written to it. The result does not
// depend on how the text is split into writes. Use it from one goroutine.
//
//	NewStream → Write … → Close
type Stream struct {
	scan   scanner
	out    func([]byte)
	buf    []byte // text that was not handed out, and at least one byte before it
	base   int    // raw offset of buf[0]
	next   int    // raw offset of the text to hand out next
	clean  []byte // what is handed out, to reuse its memory
	found  bool
	closed bool
	lines  bool // hold back a line of which a part has to be held back
}

// maxPiece bounds how much text a stream searches at once, and so its memory.
const maxPiece = 64 << 10

// NewStream returns a stream that hands the redacted text to out. out must not keep the
// bytes. They never end within a UTF-8 character, unless the text does. The stream holds
// back only what may be the beginning of a secret: a few bytes in ordinary text, and at
// most a small multiple of the longest value.
func (r *Redactor) NewStream(out func([]byte)) *Stream {
	s := &Stream{out: out}
	if r != nil {
		s.scan.plan = r.plan
	}
	return s
}

// maxLine bounds the text that is held back only because its line is.
const maxLine = 4 << 10

// NewLineStream is NewStream for output that people watch. If the end of a line may be the
// beginning of a secret, all of the line is held back, so that it is not torn. The caller calls
// Release when the text has stopped for a moment and Held reports that some is held back.
func (r *Redactor) NewLineStream(out func([]byte)) *Stream {
	s := r.NewStream(out)
	s.lines = true
	return s
}

// Held reports whether text is held back.
func (s *Stream) Held() bool { return s.next < s.base+len(s.buf) }

// Release hands out the text that is held back, as far as it does not end with the beginning of
// a secret. Up to three bytes, and less than half, of a value are no such beginning: every other
// word has them.
// If the rest of that value follows, it is removed.
func (s *Stream) Release() {
	if s.closed || s.scan.plan == nil {
		return
	}
	hold := s.scan.safe()
	if s.scan.partial() < s.scan.minPartial {
		hold = s.scan.begun(s.base + len(s.buf))
	}
	if len(s.scan.spans) > 0 {
		hold = min(hold, mergeSpans(s.scan.spans)[0].start)
	}
	if hold > s.next {
		part := s.buf[s.next-s.base : hold-s.base]
		part = part[:completeRunes(part)]
		s.next += len(part)
		if len(part) > 0 {
			s.out(part)
		}
	}
}

// Write takes the next bytes. It never fails; bytes that are written after Close are dropped.
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
		part := p[:min(len(p), maxPiece)]
		p = p[len(part):]
		from := len(s.buf)
		s.buf = append(s.buf, part...)
		s.scan.feed(s.buf, s.base, from)
		s.flush(s.scan.safe(), false)
	}
	return n, nil
}

// Found reports whether the text so far contained something to remove.
func (s *Stream) Found() bool { return s.found || len(s.scan.spans) > 0 }

// Close hands out the text that was held back.
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

// maxShown is how many bytes of the beginning of a value may be handed out. They are less than
// half of the shortest value.
const maxShown = 3

// Break ends a part of the text that is sent alone, such as a message: the text that is
// held back is handed out now. The search goes on, so that a value is found that is
// split over two parts. No more than the first three bytes of such a value, and less than
// half of it, are handed out: a longer beginning is replaced by stars.
func (s *Stream) Break() {
	if s.closed || s.scan.plan == nil {
		return
	}
	s.clean = s.clean[:0]
	for _, f := range mergeSpans(s.scan.spans) {
		if f.start > s.next {
			s.clean = append(s.clean, s.buf[s.next-s.base:f.start-s.base]...)
		}
		if s.found = true; f.end > s.next {
			s.clean, s.next = append(s.clean, s.scan.masks[f.mask]...), f.end
		}
	}
	s.scan.spans = s.scan.spans[:0]
	if end := s.base + len(s.buf); end > s.next {
		begun := max(s.scan.safe(), s.next)
		s.clean = append(s.clean, s.buf[s.next-s.base:begun-s.base]...)
		if s.scan.partial() < s.scan.minPartial {
			s.clean = append(s.clean, s.buf[begun-s.base:]...)
		} else {
			s.clean = append(s.clean, "***"...)
		}
		s.next = end
	}
	if len(s.clean) > 0 {
		s.out(s.clean)
	}
}

// flush hands out the text before safe. A span that reaches beyond safe may still grow:
// it waits, but its text is dropped.
func (s *Stream) flush(safe int, end bool) {
	s.clean = s.clean[:0]
	spans := mergeSpans(s.scan.spans)
	done := 0
	for _, f := range spans {
		if f.end > safe {
			break
		}
		s.found = true
		if done++; f.end <= s.next {
			continue // Break has handed it out
		}
		if f.start > s.next {
			s.clean = append(s.clean, s.buf[s.next-s.base:f.start-s.base]...)
		}
		s.clean = append(s.clean, s.scan.masks[f.mask]...)
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
			part = part[:completeRunes(part)]
			if s.lines && limit < s.base+len(s.buf) && len(part) < maxLine {
				part = part[:bytes.LastIndexByte(part, '\n')+1]
			}
		}
		s.clean = append(s.clean, part...)
		s.next += len(part)
	}
	keep = s.next
	if len(spans) > 0 && spans[0].start <= s.next {
		keep = safe
	}
	keep = min(keep, safe) // after a Break the search is behind what was handed out
	// Formats look at the byte before a word. Text is moved once half of it is not needed
	// any more: a write of one byte must not move all that is held back.
	if drop := keep - 1 - s.base; drop > len(s.buf)/2 {
		s.buf = s.buf[:copy(s.buf, s.buf[drop:])]
		s.base += drop
	}
	if len(s.clean) > 0 {
		s.out(s.clean)
	}
}

// completeRunes returns the length of p without an incomplete character at its end.
func completeRunes(p []byte) int {
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

// mergeTwo makes one span of two. The longer match chooses the mask.
func mergeTwo(f, g span) span {
	mask, length := f.mask, f.length
	if g.length > length || g.length == length && g.mask < mask {
		mask, length = g.mask, g.length
	}
	return span{min(f.start, g.start), max(f.end, g.end), mask, length}
}

// mergeSpans sorts spans and merges those that overlap, in place.
func mergeSpans(spans []span) []span {
	if len(spans) < 2 {
		return spans
	}
	slices.SortFunc(spans, func(f, g span) int {
		return cmp.Or(cmp.Compare(f.start, g.start), cmp.Compare(f.end, g.end))
	})
	n := 0
	for _, f := range spans[1:] {
		if f.start < spans[n].end {
			spans[n] = mergeTwo(spans[n], f)
		} else {
			n++
			spans[n] = f
		}
	}
	return spans[:n+1]
}
