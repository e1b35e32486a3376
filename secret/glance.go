package secret

// The measures of a glance.
const (
	// farthest is how many bytes it looks at: escapes that stand close together are
	// looked at together.
	farthest = 96
	// apartBy is how far from the last of them the next special byte must be. It
	// leaves room for an escape, and for what the sieve reads beyond it.
	apartBy = maxEscape + blockBytes
)

// glance tells at a special byte, buf[i], whether it can be passed over: whether
// neither in the raw text nor in a view a pattern begins before it, or in what it
// escapes, of which the first bytes are there. d is how many bytes before it the
// automaton remembers. It returns how far the text can be passed over, as if it
// began there anew, or i if that cannot be told.
//
// This is what the views do, without the bookkeeping: most escapes are in text
// that has nothing to do with secrets.
func (s *scanner) glance(buf []byte, i, d int, next *specials) int {
	has, last, end := familyOf[buf[i]], i, 0
	ahead := *next
	for end == 0 {
		special := ahead.next(buf, last+1)
		switch {
		case special-last >= apartBy:
			end = last + apartBy
		case special == len(buf):
			end = special
		case special+apartBy-i+d > farthest:
			return i
		default:
			has |= familyOf[buf[special]]
			last = special
		}
	}
	text := buf[i-d : end]
	rest, ok := s.glanceViews(raw, 0, text, d, has, end-last-1)
	if !ok || !s.auto.none(text, len(text)-rest) {
		return i
	}
	*next = ahead
	return end - rest
}

// glanceViews looks at the views of parent, level levels from the raw text, whose text is given and has escapes of
// these families after the first d bytes. It returns how many bytes at the end are
// the same in all of them, if no pattern begins before these.
func (s *scanner) glanceViews(parent, level int, text []byte, d int, has family, rest int) (int, bool) {
	if has == 0 || rest < blockBytes-1 {
		return rest, has == 0
	}
	for _, k := range s.kids[parent+1] {
		view, of := text, has
		if f := s.plan.views[k].family; f&has != 0 {
			out := &s.undone[level]
			n, same, left := f.undo(out, text, d)
			if same < blockBytes-1 || !s.auto.none(out[:n], n-same) {
				return 0, false
			}
			rest, view, of = min(rest, same), out[:n], left
		}
		var ok bool
		if rest, ok = s.glanceViews(k, level+1, view, d, of, rest); !ok {
			return 0, false
		}
	}
	return rest, true
}

// undo writes text to out with one level of escapes undone after the first d
// bytes. It returns how many bytes that are, how many of them at the end come
// after all special bytes, and the families of those that out still has. None are
// if the last escape is cut off.
func (f family) undo(out *[farthest]byte, text []byte, d int) (n, same int, left family) {
	n = copy(out[:], text[:d])
	breaks, last := 0, 0
	for i := d; i < len(text); {
		b := text[i]
		of := familyOf[b]
		if of&f == 0 {
			out[n] = b
			n, i, breaks = n+1, i+1, 0
			if left |= of; of != 0 {
				last = n
			}
			continue
		}
		used, bytes, size := f.decode(text[i:min(i+maxEscape, len(text))], breaks, false)
		if used == 0 {
			return n, 0, left
		}
		if breaks++; size > 0 {
			breaks = 0
		}
		for _, c := range bytes[:size] {
			out[n] = c
			n++
			left |= familyOf[c]
		}
		i, last = i+used, n
	}
	return n, n - last, left
}

// none reports whether no pattern begins in text[:upto]. More than what one look
// of the sieve needs must follow.
func (a *automaton) none(text []byte, upto int) bool {
	at := a.sieve.skip(text[:upto+blockBytes-1], 0)
	if at >= upto {
		return true
	}
	state, at, found := a.run(0, text, at, upto+1)
	return !found && at-a.depthOf(state) >= upto
}
