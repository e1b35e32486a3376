package secret

// The measures of a glance.
const (
	// farthest is how many bytes it looks at.
	farthest = 256
	// nearEnd is how far from the end of a text there is nothing to wait for.
	nearEnd = 64
	// blinks is for how many bytes there is no glance after one in vain, so that a
	// text that is made for it costs little more than without any.
	blinks = 64
)

// cuts are places in a text before which it may be passed over: in the views of
// it they fall between two escapes. 0 is none.
type cuts [3]int

// glance tells at a special byte, buf[i], whether it can be passed over, and more
// than it if others are near: whether neither in the raw text nor in a view a
// pattern begins before a place beyond it. d is how many bytes before i the
// automaton remembers. It returns that place, where all is as if the text began
// anew, or i if there is none.
//
// This is what the views do, without the bookkeeping: most escapes are in text
// that has nothing to do with secrets.
func (s *scanner) glance(buf []byte, i, d int, next *specials) int {
	if s.whole && len(buf)-i <= nearEnd && s.glanceToEnd(buf[i-d:], d) {
		return len(buf)
	}
	text := buf[i-d : min(len(buf), i-d+farthest)]
	has, last, ahead := familyOf[buf[i]], i, *next
	for range 4 { // if there are more of them together, there are many
		special := ahead.next(buf, last+1)
		cut, end := calm(buf, last)
		if end-(i-d) > len(text) {
			break
		}
		if end <= special {
			at := s.look(buf[i-d:end], d, has, cuts{cut - i + d})
			if at == 0 {
				break
			}
			*next = ahead
			return i - d + at
		}
		has |= familyOf[buf[special]]
		last = special
	}
	// There are escapes all along, or they reach far.
	for _, b := range text[d:] {
		has |= familyOf[b]
	}
	n := len(text) - blockBytes
	at := s.look(text, d, has, cuts{max(n-8*maxEscape, d+1), max(n-4*maxEscape, d+1), max(n-maxEscape, d+1)})
	return max(i, i-d+at)
}

// glanceToEnd reports whether nothing begins in what is left of a text, which is
// short. What the bytes beyond its end would say, zeros do: that nothing goes on.
func (s *scanner) glanceToEnd(rest []byte, d int) bool {
	var text [nearEnd + denseDepth + 2 + maxEscape + blockBytes]byte
	n := copy(text[:], rest)
	var has family
	for _, b := range rest {
		has |= familyOf[b]
	}
	return s.look(text[:n+2+maxEscape+blockBytes], d, has, cuts{n + 2}) > 0
}

// calm returns where to cut after the special byte p[i], if there is no other up to
// end: so far reach what it may take and what the sieve reads beyond the cut.
func calm(p []byte, i int) (cut, end int) {
	switch {
	case familyOf[p[i]] == breaks:
		return i + 2, i + 2 + blockBytes
	case familyOf[p[i]] == percents: // and one byte more, of which it may be the line break before
		return i + 4, i + 5 + blockBytes
	case familyOf[p[i]] == entities, i+1 < len(p) && isWord(p[i+1]):
		return i + 4, i + maxEscape + blockBytes
	}
	return i + 2, i + 2 + blockBytes
}

// look returns the last of the cuts of text before which nothing begins, or 0. It
// has escapes of some families after the first d bytes, which are as they are in
// all views.
func (s *scanner) look(text []byte, d int, has family, at cuts) int {
	at, good := s.lookAt(raw, 0, text, d, has, at)
	for k := len(at) - 1; k >= 0 && good; k-- {
		if at[k] > 0 {
			if !s.auto.none(text, at[k]) {
				return 0
			}
			return at[k]
		}
	}
	return 0
}

// lookAt looks at the views of parent, level levels from the raw text, whose text
// has escapes of some families. It returns the cuts less those that fall within an
// escape of a view, and whether nothing begins before any of the others.
func (s *scanner) lookAt(parent, level int, text []byte, d int, has family, at cuts) (cuts, bool) {
	for _, k := range s.kids[parent+1] {
		f := s.plan.views[k].family
		var good bool
		if f&has == 0 {
			if at, good = s.lookAt(k, level, text, d, has, at); !good {
				return at, false
			}
			continue
		}
		out := &s.undone[level]
		n, left, from, to := f.undo(out, text, d, at, k == 0)
		last := 0
		for c := range to {
			if to[c]+blockBytes > n {
				to[c] = 0
			}
			last = max(last, to[c])
		}
		if last == 0 || !s.auto.none(out[:n], last) {
			return at, false
		}
		if left != 0 {
			if to, good = s.lookAt(k, level+1, out[:n], d, left, to); !good {
				return at, false
			}
		}
		for c := range to {
			if at[c] = from[c]; to[c] == 0 {
				at[c] = 0
			}
		}
		if parent == raw && left == 0 && has&(has-1) == 0 {
			break // there are no other texts: all escapes are of one family and undone
		}
	}
	return at, true
}

// undo writes text to out with one level of escapes undone after the first d
// bytes. It returns how many bytes that are, the families of special bytes among
// them, and the cuts in text and in out. If loose, cuts within an escape are put
// after it.
func (f family) undo(out *[farthest]byte, text []byte, d int, at cuts, loose bool) (n int, left family, from, to cuts) {
	n = copy(out[:], text[:d])
	breaks, c := 0, 0
	for i := d; i < len(text); {
		start := i // all places up to the next escape are between two
		if breaks > 0 {
			start++ // but not where line breaks were taken out
		}
		for i < len(text) && familyOf[text[i]]&f == 0 {
			left |= familyOf[text[i]]
			out[n] = text[i]
			i, n, breaks = i+1, n+1, 0
		}
		for ; c < len(at) && i >= max(at[c], start); c++ {
			if loose && at[c] > 0 {
				at[c] = max(at[c], start)
			}
			if at[c] >= start {
				to[c] = n - (i - at[c])
			}
		}
		if i == len(text) {
			break
		}
		if b := text[i]; b == '\\' && i+1 < len(text) && escapedBy[text[i+1]] != 0 {
			out[n] = escapedBy[text[i+1]] // what follows only serves those that are seldom
			left |= familyOf[out[n]]
			n, i, breaks = n+1, i+2, 0
			continue
		}
		used, bytes, size := f.decode(text[i:min(i+maxEscape, len(text))], breaks, false)
		if used == 0 {
			break
		}
		if breaks++; size > 0 {
			breaks = 0
		}
		for _, c := range bytes[:size] {
			out[n] = c
			n++
			left |= familyOf[c]
		}
		i += used
	}
	return n, left, at, to
}

// none reports whether no pattern begins in text[:upto]. As many bytes as the
// sieve reads must follow.
func (a *automaton) none(text []byte, upto int) bool {
	state, i := uint32(0), 0
	for {
		d, near := a.near(state)
		if !near {
			return false // at the end
		}
		at := a.sieve.skip(text[:upto+blockBytes-1], i-d)
		if at >= upto {
			return true
		}
		if at > i {
			state, i = 0, at
		}
		var found bool
		if state, i, found = a.run(state, text, i, at+block); found {
			return false
		}
		if i == len(text) {
			return i-a.depthOf(state) >= upto
		}
	}
}

// quiet returns a raw offset, at most where the scanner is, from which on all views
// can be made anew, with all that the automaton remembers of any of them: it is
// between two escapes in each. There is none while one waits for more.
func (s *scanner) quiet() (from int, ok bool) {
	from = s.pos - s.auto.depthOf(s.state)
	for k := range s.views {
		if v := &s.views[k]; v.apart {
			if v.dec.n > 0 {
				return 0, false
			}
			if d := s.auto.depthOf(v.state); d > 0 {
				from = min(from, v.start(d))
			}
		}
	}
	for moved := true; moved; {
		moved = false
		for k := range s.views {
			if v := &s.views[k]; v.apart {
				at := s.pos
				for n := 1; at > from; n++ {
					if n > len(v.starts) {
						return 0, false
					}
					at = v.starts[len(v.starts)-n]
				}
				moved = moved || at < from
				from = at
			}
		}
	}
	for k := range s.views {
		if v := &s.views[k]; !v.apart && v.since > from {
			return 0, false // it may have been within an escape
		}
	}
	return from, true
}

// calmDown joins all views again if nothing begins in them before a place beyond
// buf[i]. It returns that place, or i if there is none.
func (s *scanner) calmDown(buf []byte, base, i int) int {
	from, ok := s.quiet()
	if !ok || from < base || s.pos-from > farthest/4 {
		return i
	}
	at := s.glance(buf, from-base, 0, &specials{})
	if at <= i {
		s.blind = s.pos + blinks
		return i
	}
	for k := range s.views {
		s.views[k].apart, s.views[k].since = false, base+at
	}
	s.apart, s.state, s.pos = 0, 0, base+at
	return at
}
