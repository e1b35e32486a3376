package secret

// format recognises a key, token or password: an opening, then steps. It never goes
// back: each step takes as many bytes of its set as it can.
type format struct {
	name   string
	open   string // at least three bytes
	exact  bool   // the case of the opening matters
	inWord bool   // the opening may be within a word
	steps  []step
	// Steps first to last are removed; if both are 0, all is, with the opening.
	first, last   int
	notFollowedBy *set // bytes that may not follow
}

// step is one part of a format.
type step struct {
	set      *set
	min, max int
	text     string // exactly this, in any case, instead of a set
	until    string // the step ends after this text, which begins with five dashes, or before a byte not in set
}

// attempt is a format that has begun in the text.
type attempt struct {
	format     int
	start      int // raw offset of the opening
	step       int
	count      int // bytes in this step
	match      int // bytes of until that were read
	from, upto int // raw offsets of what to remove so far
}

// maxAttempts bounds how many formats can have begun at the same time.
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
	at := i - len(form.open) // not negative: a stream keeps the bytes that the state stands for
	for k := range len(form.open) {
		if b := buf[at+k]; b != form.open[k] && (form.exact || lower(b) != lower(form.open[k])) {
			return
		}
	}
	if !form.inWord && at > 0 && isWord(buf[at-1]) && isWord(form.open[0]) {
		return
	}
	for _, a := range s.attempts {
		if a.format == f && form.succeeds(a) {
			return // it will be removed with that attempt
		}
	}
	s.attempts = append(s.attempts, attempt{format: f, start: base + at, from: base + at, upto: base + i})
}

// succeeds reports whether a succeeds whatever follows.
func (f *format) succeeds(a attempt) bool {
	for k := a.step; k < len(f.steps); k++ {
		if k > a.step && f.steps[k].min > 0 || k == a.step && a.count < f.steps[k].min {
			return false
		}
	}
	return f.notFollowedBy == nil
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

// take gives b, at a raw offset, to a and reports whether a goes on.
func (s *scanner) take(a *attempt, b byte, at int) bool {
	form := &s.formats[a.format]
	for {
		if a.step == len(form.steps) {
			if form.notFollowedBy == nil || !form.notFollowedBy[b] {
				s.addFormat(a)
			}
			return false
		}
		st := &form.steps[a.step]
		took, ended, failed := st.take(a, b)
		switch {
		case failed:
			return false
		case took:
			if a.step == form.first && a.count == 1 && form.first > 0 {
				a.from = at
			}
			if form.first == 0 || form.first <= a.step && a.step <= form.last {
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

// addFormat adds the span that a found.
func (s *scanner) addFormat(a *attempt) {
	if a.upto > a.from {
		s.addSpan(a.from, a.upto, s.formatMask+a.format)
	}
}

// finishAttempts ends the formats that have begun at the end of the text.
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
			s.addFormat(&a)
		}
	}
	s.attempts = s.attempts[:0]
}
