package secret

// viewSpec says which text a view is made of, and which escapes are undone in it.
// Parents come before their children.
type viewSpec struct {
	parent int // index of a view, or raw
	family family
}

// raw is the parent of views of the text itself.
const raw = -1

// viewsFor returns the views to search. One chain in which all escapes are undone
// is enough for values without characters that begin escapes. A value with them, such
// as a%41"b, loses characters where it was not escaped: it also needs views in which
// escapes of one family only are undone.
func viewsFor(withEscapes bool) []viewSpec {
	specs := []viewSpec{{raw, allFamilies}, {0, allFamilies}, {1, allFamilies}}
	if withEscapes {
		specs = append(specs,
			viewSpec{raw, backslashes}, viewSpec{3, backslashes}, viewSpec{4, backslashes},
			viewSpec{raw, percents}, viewSpec{6, percents},
			viewSpec{raw, entities}, viewSpec{8, entities},
			viewSpec{raw, breaks}, viewSpec{3, breaks}, viewSpec{3, percents}, viewSpec{3, entities})
	}
	return specs
}

// childViews returns the views of each parent, those of the raw text first.
func childViews(specs []viewSpec) [][]int {
	children := make([][]int, len(specs)+1)
	for k, v := range specs {
		children[v.parent+1] = append(children[v.parent+1], k)
	}
	return children
}

// view is a text with some escapes undone. Its fields mean something while it has
// diverged from its parent.
type view struct {
	origins
	diverged bool
	dec      decoder
	state    uint32
}

// origins maps the last bytes of a view to their places in the raw text. It goes back as far as
// the state of the automaton does.
type origins struct {
	starts []int             // raw offset of each byte since the view diverged
	before [Levels - 1][]int // the starts of the views that it diverged from, nearest first
	end    int               // raw offset where the first of them diverged from the raw text
}

// start returns the raw offset of the byte that is length bytes before the end.
func (o *origins) start(length int) int {
	k := len(o.starts) - length
	if k >= 0 {
		return o.starts[k]
	}
	for _, starts := range o.before {
		if k += len(starts); k >= 0 {
			return starts[k]
		}
	}
	return o.end + k
}

// stepViews gives an item to the views of parent. The item took source, the nearest of
// the parents that has diverged or nil for the raw text, from one state to another.
func (s *scanner) stepViews(parent int, source *view, it item, before, after uint32) {
	if s.views == nil {
		s.views = make([]view, len(s.viewSpecs))
		for k, spec := range s.viewSpecs {
			s.views[k].dec.family = spec.family
		}
	}
	for _, k := range s.children[parent+1] {
		v := &s.views[k]
		if !v.diverged {
			if !v.dec.family.begins(it.b) {
				s.stepViews(k, source, it, before, after)
				continue
			}
			s.diverge(k, source, before)
		}
		if v.dec.n == 0 && !v.dec.family.begins(it.b) {
			v.dec.breaks = 0
			s.stepView(k, it)
		} else {
			v.dec.push(it)
			s.decodeView(k, false)
		}
		if v.state == after && v.dec.n == 0 {
			v.diverged = false
			s.diverged--
		}
	}
}

// diverge separates view k from the view source, or the raw text, in the state before
// the item at hand.
func (s *scanner) diverge(k int, source *view, before uint32) {
	v := &s.views[k]
	v.origins = origins{starts: s.emptyStarts(k), end: s.pos}
	if source != nil {
		v.end = source.end
		v.before[0] = source.starts[:len(source.starts)-1] // the item is the last of them
		copy(v.before[1:], source.before[:])
	}
	v.diverged, v.state = true, before
	v.dec.n, v.dec.breaks = 0, 0
	s.diverged++
}

// emptyStarts returns memory for the starts of view k: the same as before, unless views
// that diverged from it refer to it.
func (s *scanner) emptyStarts(k int) []int {
	if s.anyDiverged(k) {
		return nil
	}
	return s.views[k].starts[:0]
}

// anyDiverged reports whether a view below parent has diverged.
func (s *scanner) anyDiverged(parent int) bool {
	for _, k := range s.children[parent+1] {
		if s.views[k].diverged || s.anyDiverged(k) {
			return true
		}
	}
	return false
}

// decodeView runs view k over the decoded form of the bytes that its decoder holds, as far as
// they can be decoded yet. end says that no more will come.
func (s *scanner) decodeView(k int, end bool) {
	v := &s.views[k]
	for v.dec.n > 0 {
		out, size, start, stop := v.dec.pop(end)
		if size < 0 {
			return
		}
		for _, b := range out[:size] {
			s.stepView(k, item{b, start, stop})
		}
	}
}

// stepView takes view k over one of its items, and gives it to the views of k.
func (s *scanner) stepView(k int, it item) {
	v := &s.views[k]
	if n, longest := len(v.starts), s.auto.longest(); n >= 2*longest+64 {
		v.origins = origins{starts: append(s.emptyStarts(k), v.starts[n-longest:]...)}
	}
	v.starts = append(v.starts, it.start)
	before := v.state
	v.state = s.auto.next(before, s.auto.class[it.b])
	if s.auto.matched[v.state] {
		if m := s.auto.matches[v.state]; m.value >= 0 {
			s.addSpan(v.start(int(m.length)), it.end, int(m.value))
		}
	}
	s.stepViews(k, v, it, before, v.state)
}
