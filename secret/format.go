package secret

// format recognises a key, token or password by its look: an opening, then steps.
// It never goes back: each step takes as many bytes of its set as it can.
type format struct {
	name  string
	open  string // at least three bytes
	exact bool   // the opening in this case only
	joint bool   // the opening may stand within a word
	steps []step
	// What is removed: from the steps mask to last, or all with the opening if
	// both are 0.
	mask, last int
	fixed      *set // what may not follow
}

// step is one part of a format.
type step struct {
	set      *set
	min, max int
	text     string // exactly this, in any case, instead of a set
	until    string // up to and with this, which begins with five dashes, or to the first byte out of set
}

// attempt is a format that has begun in the text.
type attempt struct {
	format     int
	start      int // raw offset of the opening
	step       int
	count      int // bytes in this step
	match      int // of until
	from, upto int // what to remove so far
}

// maxAttempts bounds the formats that can have begun at one time.
const maxAttempts = 32

// set is a set of bytes.
type set [256]bool

// isWord reports whether b is part of a word.
func isWord(b byte) bool {
	return 'a' <= lower(b) && lower(b) <= 'z' || '0' <= b && b <= '9' || b == '_'
}

// newSet returns the bytes of ranges, each two bytes, and of single.
func newSet(ranges, single string) *set {
	var s set
	for i := 0; i+1 < len(ranges); i += 2 {
		for b := int(ranges[i]); b <= int(ranges[i+1]); b++ {
			s[b] = true
		}
	}
	for i := range len(single) {
		s[single[i]] = true
	}
	return &s
}

// beginAttempt begins format f, whose opening ends before buf[i].
func (s *scanner) beginAttempt(f int, buf []byte, base, i int) {
	if len(s.attempts) >= maxAttempts {
		return
	}
	form := &s.formats[f]
	at := i - len(form.open) // not below 0: a stream keeps what the automaton remembers
	for k := range len(form.open) {
		if b := buf[at+k]; b != form.open[k] && (form.exact || lower(b) != lower(form.open[k])) {
			return
		}
	}
	if !form.joint && at > 0 && isWord(buf[at-1]) && isWord(form.open[0]) {
		return
	}
	for _, a := range s.attempts {
		if a.format == f && form.sure(a) {
			return // within what will be removed
		}
	}
	s.attempts = append(s.attempts, attempt{format: f, start: base + at, from: base + at, upto: base + i})
}

// sure reports whether nothing that follows can make a fail.
func (f *format) sure(a attempt) bool {
	for k := a.step; k < len(f.steps); k++ {
		if k > a.step && f.steps[k].min > 0 || k == a.step && a.count < f.steps[k].min {
			return false
		}
	}
	return f.fixed == nil
}

// stepAttempts gives the byte at a raw offset to the formats that have begun.
func (s *scanner) stepAttempts(b byte, at int) {
	if len(s.attempts) == 0 {
		return
	}
	n := 0
	for _, a := range s.attempts {
		if s.take(&a, b, at) {
			s.attempts[n] = a
			n++
		}
	}
	s.attempts = s.attempts[:n]
}

// take gives b to a and reports whether a goes on.
func (s *scanner) take(a *attempt, b byte, at int) bool {
	form := &s.formats[a.format]
	for {
		if a.step == len(form.steps) {
			if form.fixed == nil || !form.fixed[b] {
				s.matched(a)
			}
			return false
		}
		st := &form.steps[a.step]
		took, ended, failed := st.take(a, b)
		switch {
		case failed:
			return false
		case took:
			if a.step == form.mask && a.count == 1 && form.mask > 0 {
				a.from = at
			}
			if form.mask == 0 || form.mask <= a.step && a.step <= form.last {
				a.upto = at + 1
			}
		}
		if ended {
			a.step, a.count, a.match = a.step+1, 0, 0
		}
		if took {
			return true
		}
	}
}

// take reports whether the step takes b, whether it ends, and whether it fails.
func (st *step) take(a *attempt, b byte) (took, ended, failed bool) {
	switch {
	case st.text != "":
		if lower(b) != st.text[a.count] {
			return false, true, st.min > 0 || a.count > 0
		}
		a.count++
		return true, a.count == len(st.text), false
	case !st.set[b] || a.count == st.max:
		return false, true, a.count < st.min
	}
	a.count++
	if st.until == "" {
		return true, false, false
	}
	switch {
	case b == st.until[a.match]:
		a.match++
	case b == st.until[0] && a.match == 5: // one more of the five dashes
	case b == st.until[0]:
		a.match = 1
	default:
		a.match = 0
	}
	return true, a.match == len(st.until), false
}

// matched notes what a found.
func (s *scanner) matched(a *attempt) {
	if a.upto > a.from {
		s.addSpan(a.from, a.upto, s.formatMask+a.format)
	}
}

// finishAttempts ends the formats that have begun, as the text has.
func (s *scanner) finishAttempts() {
	for _, a := range s.attempts {
		form := &s.formats[a.format]
		ok := true
		for k := a.step; k < len(form.steps); k++ {
			st := &form.steps[k]
			have := 0
			if k == a.step {
				have = a.count
			}
			least := st.min
			if st.text != "" && (have > 0 || st.min > 0) {
				least = len(st.text)
			}
			ok = ok && have >= least
		}
		if ok {
			s.matched(&a)
		}
	}
	s.attempts = s.attempts[:0]
}
