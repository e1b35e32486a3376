package secret

// span is a stretch of raw text to remove.
type span struct {
	start, end int
	who        int // index into the masks
	best       int // length of the match that gave the name
}

// scanner finds what is to be removed from one text, in pieces of any size. It
// looks for patterns in the raw text and in views of it, in each of which one more
// level of escapes is undone.
//
// # Why does this not cost as many times as there are views?
//
// A view differs from its parent only near an escape. Where the automaton is in
// the same state for both, it will remain so until the next escape, and one run
// serves both. An escape parts a view from its parent; they join again when their
// states are equal, which is a few bytes on unless a value has begun.
type scanner struct {
	*plan
	whole  bool // all of the text comes at once
	state  uint32
	pos    int    // raw offset of the next byte
	views  []view // made at the first escape
	apart  int    // how many of them are apart from their parents
	active []attempt
	people people
	spans  []span
	blind  int                    // raw offset up to which there is no glance
	undone [Levels][farthest]byte // what glance looks at
}

// viewOf says of what a view is one, and which escapes are undone in it. Parents
// come before their children.
type viewOf struct {
	parent int // index of a view, or raw
	family family
}

// raw is the parent of views of the text itself.
const raw = -1

// viewsFor returns the views to search. One chain in which all escapes are undone
// is enough for values without characters that begin escapes. In an odd value,
// such as a%41"b, something is undone that was never done: it also needs views in
// which escapes of one family only are undone.
func viewsFor(odd bool) []viewOf {
	all := []viewOf{{raw, allFamilies}, {0, allFamilies}, {1, allFamilies}}
	if odd {
		all = append(all,
			viewOf{raw, backslashes}, viewOf{3, backslashes}, viewOf{4, backslashes},
			viewOf{raw, percents}, viewOf{6, percents},
			viewOf{raw, entities}, viewOf{8, entities},
			viewOf{raw, breaks}, viewOf{3, breaks}, viewOf{3, percents}, viewOf{3, entities})
	}
	return all
}

// kidsOf returns the views of each parent, of the raw text first.
func kidsOf(views []viewOf) [][]int {
	kids := make([][]int, len(views)+1)
	for k, v := range views {
		kids[v.parent+1] = append(kids[v.parent+1], k)
	}
	return kids
}

// view is a text with some escapes undone. It means something while it is apart
// from its parent.
type view struct {
	trail
	apart bool
	since int  // raw offset where it joined its parent, if it is not apart
	lent  bool // another trail goes on from this one's starts
	dec   decoder
	state uint32
	out   []item
}

// trail knows where in the raw text the last bytes of a view come from. It goes
// back as far as the automaton remembers.
type trail struct {
	starts []int  // raw offset of each byte since the view parted
	before *trail // of the view it parted from
	origin int    // raw offset where it parted from the raw text, if before is nil
}

// start returns the raw offset of the byte that is length bytes before the end.
func (t *trail) start(length int) int {
	k := len(t.starts) - length
	switch {
	case k >= 0:
		return t.starts[k]
	case t.before != nil:
		return t.before.start(-k)
	}
	return t.origin + k
}

// feed takes buf[from:]. What is before from has been fed already and is there to
// look back on; base is the raw offset of buf[0].
func (s *scanner) feed(buf []byte, base, from int) {
	if s.personal {
		s.people.feed(s, buf, base, from)
	}
	var next specials
	for i := from; i < len(buf); {
		if s.apart == 0 && len(s.active) == 0 {
			special := next.next(buf, i)
			if i = s.skim(buf, base, i, special); i < special || i == len(buf) {
				continue
			}
			if s.state == 0 && s.auto.idle(buf[i]) {
				i++
				s.pos = base + i
				continue
			}
			if d, near := s.auto.near(s.state); near && s.pos >= s.blind {
				if at := s.glance(buf, i, d, &next); at > i {
					s.state, s.pos, i = 0, base+at, at
					continue
				}
				s.blind = s.pos + blinks
			}
		} else if isSpecial(buf[i]) && len(s.active) == 0 && s.pos >= s.blind {
			if at := s.calmDown(buf, base, i); at > i {
				i = at
				continue
			}
		}
		s.step(buf, base, i)
		i++
	}
}

// skim goes on from buf[i] to special, up to where there are no special bytes, or
// less far if a format begins. It returns how far.
func (s *scanner) skim(buf []byte, base, i, special int) int {
	for i < special && len(s.active) == 0 {
		upto := i
		if d, near := s.auto.near(s.state); near {
			// What the state remembers are the bytes from i-d on, in which nothing has
			// begun that the sieve does not see too.
			at := s.auto.sieve.skip(buf[:special], i-d)
			if at > i {
				s.state, i = 0, at
			}
			upto = at + block
		}
		state, at, found := s.auto.run(s.state, buf[:special], i, upto)
		s.state, s.pos, i = state, base+at, at
		if found {
			s.found(buf, base, at)
		}
	}
	return i
}

// step takes the one byte buf[i].
func (s *scanner) step(buf []byte, base, i int) {
	b, before := buf[i], s.state
	s.state = s.auto.next(before, s.auto.class[b])
	if s.apart > 0 || isSpecial(b) && (before|s.state != 0 || b != '\n' && b != '\r') {
		if s.views == nil {
			s.views = make([]view, len(s.plan.views))
			for k, of := range s.plan.views {
				s.views[k].dec.family = of.family
			}
		}
		s.pass(raw, nil, item{b, base + i, base + i + 1}, before, s.state)
	}
	s.pos = base + i + 1
	s.attempts(b, base+i)
	if _, ok := s.auto.hitAt(s.state); ok {
		s.found(buf, base, i+1)
	}
}

// pass gives the item that took from, the nearest of the parents that is apart or
// nil for the raw text, from one state to another to the views of parent.
func (s *scanner) pass(parent int, from *view, it item, before, after uint32) {
	for _, k := range s.kids[parent+1] {
		v := &s.views[k]
		if !v.apart {
			if !v.dec.family.begins(it.b) {
				s.pass(k, from, it, before, after)
				continue
			}
			s.part(v, from, before)
		}
		v.out = v.dec.push(it, v.out[:0])
		s.advance(k)
		if v.state == after && v.dec.n == 0 {
			v.apart, v.since = false, it.end
			s.apart--
		}
	}
}

// part takes v apart from the view from, or the raw text, in the state before the
// item at hand.
func (s *scanner) part(v, from *view, before uint32) {
	v.apart = true
	s.apart++
	v.dec.n, v.dec.breaks = 0, 0
	v.state = before
	own := v.starts[:0]
	if v.lent {
		own, v.lent = nil, false
	}
	v.trail = trail{starts: own, origin: s.pos}
	if from != nil {
		from.lent = true
		back := from.trail
		back.starts = back.starts[:len(back.starts)-1] // the item is the last of them
		v.before = &back
	}
}

// advance takes view k over what came out of its decoder, and passes it on.
func (s *scanner) advance(k int) {
	v := &s.views[k]
	for _, o := range v.out {
		if n := len(v.starts); n >= 2*s.auto.longest+64 {
			v.trail = trail{starts: append(make([]int, 0, n+1), v.starts[n-s.auto.longest:]...)}
			v.lent = false
		}
		v.starts = append(v.starts, o.start)
		before := v.state
		v.state = s.auto.next(before, s.auto.class[o.b])
		if h, ok := s.auto.hitAt(v.state); ok && h.value >= 0 {
			s.add(v.start(int(h.length)), o.end, int(h.value))
		}
		s.pass(k, v, o, before, v.state)
	}
}

// found notes what ends in the raw text before buf[i].
func (s *scanner) found(buf []byte, base, i int) {
	h, ok := s.auto.hitAt(s.state)
	if !ok {
		return
	}
	if h.value >= 0 {
		s.add(base+i-int(h.length), base+i, int(h.value))
	}
	for _, f := range h.opens {
		s.open(int(f), buf, base, i)
	}
}

// add notes a span. It is joined with the last one if they overlap, so that a
// text full of overlapping values needs no memory for each.
func (s *scanner) add(start, end, who int) {
	p := span{start, end, who, end - start}
	if n := len(s.spans); n > 0 && p.start < s.spans[n-1].end && s.spans[n-1].start < p.end {
		s.spans[n-1] = join(s.spans[n-1], p)
		return
	}
	s.spans = append(s.spans, p)
}

// finish tells that the text has ended.
func (s *scanner) finish(buf []byte, base int) {
	if s.personal {
		s.people.finish(s, buf, base)
	}
	for k := range s.views {
		if v := &s.views[k]; v.apart {
			v.out = v.dec.drain(true, v.out[:0])
			s.advance(k)
		}
	}
	s.expire()
}

// safe returns a raw offset before which nothing that is to come can begin.
func (s *scanner) safe() int {
	at := s.pos - s.auto.depthOf(s.state)
	for k := range s.views {
		v := &s.views[k]
		if !v.apart {
			continue
		}
		if v.dec.n > 0 {
			at = min(at, v.dec.places[0][0])
		}
		if d := s.auto.depthOf(v.state); d > 0 {
			at = min(at, v.start(d))
		}
	}
	for _, a := range s.active {
		at = min(at, a.start)
	}
	if s.personal {
		at = min(at, s.people.safe())
	}
	return at
}

// begun returns how many bytes of a value, in whatever form, stand at the end of the
// text so far.
func (s *scanner) begun() int {
	most := s.auto.depthOf(s.state)
	for k := range s.views {
		if v := &s.views[k]; v.apart {
			most = max(most, s.auto.depthOf(v.state))
		}
	}
	return most
}
