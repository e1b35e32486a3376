package secret

// span is a range of raw text to remove.
type span struct {
	start, end int
	mask       int // index of what stands in its place
	length     int // of the longest match in it, which chose the mask
}

// scanner finds what is to be removed from one text, in pieces of any size. It
// looks for patterns in the raw text and in views of it, in each of which one more
// level of escapes is undone.
//
// # Why does this not cost as many times as there are views?
//
// A view differs from its parent only near an escape. Where the automaton is in
// the same state for both, it stays so until the next escape, and one run serves
// both. A view diverges from its parent at an escape; it joins again when their
// states are equal, which is a few bytes later unless a value has begun.
type scanner struct {
	*plan
	state    uint32 // of the automaton, in the raw text
	pos      int    // raw offset of the next byte
	views    []view // made at the first escape
	diverged int    // how many views have diverged from their parents
	attempts []attempt
	personal personalFinder
	spans    []span
}

// reset makes a scanner that has finished ready for another text.
func (s *scanner) reset() {
	*s = scanner{plan: s.plan, views: s.views, attempts: s.attempts[:0]}
}

// feed takes buf[from:]. What is before from was fed already; formats look back at
// it. base is the raw offset of buf[0].
func (s *scanner) feed(buf []byte, base, from int) {
	if s.findPersonal {
		s.personal.feed(s, buf, base, from)
	}
	for i := from; i < len(buf); {
		if s.diverged > 0 || len(s.attempts) > 0 || isSpecial(buf[i]) {
			s.step(buf, base, i)
			i++
			continue
		}
		var found bool
		s.state, i, found = s.auto.run(s.state, buf, i)
		s.pos = base + i
		if found {
			s.addMatch(buf, base, i)
		}
	}
}

// step takes the one byte buf[i], in all views.
func (s *scanner) step(buf []byte, base, i int) {
	b, before := buf[i], s.state
	s.state = s.auto.next(before, s.auto.class[b])
	// A line break between two patterns means nothing, whether it is taken out or not.
	idle := before == 0 && s.state == 0 && familyOf[b] == breaks
	if s.diverged > 0 || isSpecial(b) && !idle {
		s.stepViews(raw, nil, item{b, base + i, base + i + 1}, before, s.state)
	}
	s.pos = base + i + 1
	s.stepAttempts(b, base+i)
	if s.auto.matched[s.state] {
		s.addMatch(buf, base, i+1)
	}
}

// addMatch adds the value, and begins the formats, that end in the raw text before buf[i].
func (s *scanner) addMatch(buf []byte, base, i int) {
	m := s.auto.matches[s.state]
	if m.value >= 0 {
		s.addSpan(base+i-int(m.length), base+i, int(m.value))
	}
	for _, f := range m.formats {
		s.beginAttempt(int(f), buf, base, i)
	}
}

// addSpan adds a span. It is merged with the last one if they overlap, so that a
// text full of overlapping values needs no memory for each.
func (s *scanner) addSpan(start, end, mask int) {
	p := span{start, end, mask, end - start}
	if n := len(s.spans); n > 0 && p.start < s.spans[n-1].end && s.spans[n-1].start < p.end {
		s.spans[n-1] = mergeTwo(s.spans[n-1], p)
		return
	}
	s.spans = append(s.spans, p)
}

// finish takes the end of the text.
func (s *scanner) finish(buf []byte, base int) {
	if s.findPersonal {
		s.personal.finish(s, buf, base)
	}
	for k := range s.views {
		if s.views[k].diverged {
			s.decodeView(k, true)
		}
	}
	for k := range s.views {
		s.views[k].diverged = false
	}
	s.diverged = 0
	s.finishAttempts()
}

// safe returns a raw offset before which nothing can begin that is found later.
func (s *scanner) safe() int {
	at := s.pos - s.auto.depth(s.state)
	for k := range s.views {
		v := &s.views[k]
		if !v.diverged {
			continue
		}
		if v.dec.n > 0 {
			at = min(at, v.dec.places[0][0])
		}
		if d := s.auto.depth(v.state); d > 0 {
			at = min(at, v.start(d))
		}
	}
	return s.begun(at)
}

// begun returns where the first key, token or personal datum that may still be found begins,
// or at, if that is before.
func (s *scanner) begun(at int) int {
	for _, a := range s.attempts {
		at = min(at, a.start)
	}
	if s.findPersonal {
		at = min(at, s.personal.safe())
	}
	return at
}

// partial returns how many bytes of a value, in any form, the text so far ends with.
func (s *scanner) partial() int {
	longest := s.auto.depth(s.state)
	for k := range s.views {
		if v := &s.views[k]; v.diverged {
			longest = max(longest, s.auto.depth(v.state))
		}
	}
	return longest
}
