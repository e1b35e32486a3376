package secret

import (
	"bytes"
	"slices"
)

// automaton finds all patterns in one pass over a text, after Aho and Corasick. A
// state stands for the longest beginning of a pattern that the text read so far ends
// with; state 0 is the root and stands for none.
//
// States are numbered level by level. So the children of a state have consecutive
// numbers, and the state that one fails to has a lower number than itself. States near
// the root, where nearly all text stays, also have a row in a table: one load per byte.
// Other states take ten bytes each, so that thousands of values need a few megabytes.
type automaton struct {
	class [256]uint8 // of each byte, after folding; 0 is for bytes in no pattern

	rows  []uint16 // next state by class for the lowest states, or notInRow
	shift uint8    // a row has 1<<shift entries

	label   []uint8          // class of the byte that leads to each state
	child   []uint32         // first child of each state; its children end where those of the next state begin
	fail    []uint32         // state of the longest shorter beginning
	matched []bool           // whether a pattern ends in each state
	matches map[uint32]match // by state
	levels  []uint32         // first state of each depth
}

// match says what ends in a state: the longest value, and openings of formats.
type match struct {
	value   int32 // index, -1 if there is none
	length  uint32
	formats []int16
}

// pattern is one form of a value, folded; or, if value is negative, the opening
// of format ^value.
type pattern struct {
	text  []byte
	value int32
}

// Bounds of the table of rows: with a thousand values nearly all text stays within
// maxRowDepth, and maxRowEntries are 2 MB.
const (
	maxRowDepth   = 3
	maxRowEntries = 1 << 20
)

// notInRow stands in a row for a state in which a pattern ends, so that one comparison
// finds a match, and for states whose number is too large.
const notInRow = 1<<16 - 1

// fold maps bytes that are treated as equal to one byte. See the package comment.
func fold(b byte) byte {
	switch {
	case 'A' <= b && b <= 'Z':
		return b + 'a' - 'A'
	case b == '+' || b == '-':
		return ' '
	case b == '_':
		return '/'
	}
	return b
}

// patternRange is a range of sorted patterns.
type patternRange struct{ from, to uint32 }

// newAutomaton builds the automaton of patterns, which it sorts. None may be empty.
func newAutomaton(patterns []pattern) *automaton {
	slices.SortFunc(patterns, func(p, q pattern) int { return bytes.Compare(p.text, q.text) })
	total := 1
	for _, p := range patterns {
		total += len(p.text)
	}
	a := &automaton{
		label: make([]uint8, 1, total), child: make([]uint32, 0, total+1), fail: make([]uint32, 1, total),
		matched: make([]bool, 1, total), matches: make(map[uint32]match, len(patterns)),
	}
	a.classify(patterns)
	a.rows = make([]uint16, 0, countRows(patterns, 1<<a.shift)<<a.shift)
	level, next := []patternRange{{0, uint32(len(patterns))}}, make([]patternRange, 0, len(patterns))
	for depth := 0; len(level) > 0; depth++ {
		a.levels = append(a.levels, uint32(len(a.child)))
		level, next = a.expandLevel(patterns, level, next[:0], depth), level
	}
	a.child = append(a.child, uint32(len(a.label)))
	return a
}

// classify numbers the bytes that occur in patterns.
func (a *automaton) classify(patterns []pattern) {
	var used [256]bool
	for _, p := range patterns {
		for _, b := range p.text {
			used[b] = true
		}
	}
	classes := uint8(1) // folding leaves fewer than 255
	for b := range 256 {
		if used[b] {
			a.class[b] = classes
			classes++
		}
	}
	for b := range 256 {
		a.class[b] = a.class[fold(byte(b))]
	}
	for 1<<a.shift < int(classes) {
		a.shift++
	}
}

// expandLevel adds the children of all states of a depth. level has for each of them
// the patterns that begin with what it stands for. Those of the children are appended
// to next.
func (a *automaton) expandLevel(patterns []pattern, level, next []patternRange, depth int) []patternRange {
	for _, r := range level {
		state := uint32(len(a.child))
		a.child = append(a.child, uint32(len(a.label)))
		a.addRow(state)
		for r.from < r.to && len(patterns[r.from].text) == depth {
			r.from++ // shorter patterns come first
		}
		for r.from < r.to {
			b, end := patterns[r.from].text[depth], r.from+1
			for end < r.to && patterns[end].text[depth] == b {
				end++
			}
			a.addChild(state, a.class[b], patterns[r.from:end], depth+1)
			next = append(next, patternRange{r.from, end})
			r.from = end
		}
	}
	return next
}

// countRows returns how many states of sorted patterns get a row: those of at most maxRowDepth
// bytes, up to the limit of rows.
func countRows(patterns []pattern, width int) int {
	count := 1
	var last []byte
	for _, p := range patterns {
		near, same := p.text[:min(len(p.text), maxRowDepth)], 0
		for same < min(len(near), len(last)) && near[same] == last[same] {
			same++
		}
		count, last = count+len(near)-same, near
	}
	return min(count, maxRowEntries/width)
}

// addRow gives state a row, up to the limit of rows. It begins as the row of the state's
// failure link; children overwrite it.
func (a *automaton) addRow(state uint32) {
	width := 1 << a.shift
	switch {
	case state == 0:
		a.rows = a.rows[:width]
	case len(a.rows) < cap(a.rows):
		a.rows = append(a.rows, a.rows[a.fail[state]<<a.shift:][:width]...)
	}
}

// rowCount returns how many states have a row.
func (a *automaton) rowCount() uint32 { return uint32(len(a.rows) >> a.shift) }

// addChild adds the child of parent by a class. patterns are those that go through it.
func (a *automaton) addChild(parent uint32, class uint8, patterns []pattern, depth int) {
	state, fail := uint32(len(a.label)), uint32(0)
	if parent != 0 {
		fail = a.next(a.fail[parent], class)
	}
	m, found := match{value: -1}, false
	for _, p := range patterns {
		if len(p.text) > depth {
			break
		}
		found = true
		switch {
		case p.value < 0:
			m.formats = append(m.formats, int16(^p.value))
		case m.value < 0 || p.value < m.value: // of two values of one form the first counts
			m.value, m.length = p.value, uint32(depth)
		}
	}
	if shorter, ok := a.matchIn(fail); ok {
		found = true
		if m.value < 0 {
			m.value, m.length = shorter.value, shorter.length
		}
		m.formats = slices.Concat(m.formats, shorter.formats)
	}
	a.label = append(a.label, class)
	a.fail = append(a.fail, fail)
	a.matched = append(a.matched, found)
	entry := uint16(min(state, notInRow))
	if found {
		a.matches[state] = m
		entry = notInRow
	}
	if parent < a.rowCount() {
		a.rows[parent<<a.shift|uint32(class)] = entry
	}
}

// next returns the state after s on a byte of a class.
func (a *automaton) next(s uint32, class uint8) uint32 {
	for rowCount := a.rowCount(); ; s = a.fail[s] {
		if s < rowCount {
			if entry := a.rows[s<<a.shift|uint32(class)]; entry != notInRow {
				return uint32(entry)
			}
		}
		for k := a.child[s]; k < a.child[s+1]; k++ {
			if a.label[k] == class {
				return k
			}
		}
	}
}

// matchIn returns what ends in state s.
func (a *automaton) matchIn(s uint32) (match, bool) {
	if !a.matched[s] {
		return match{}, false
	}
	return a.matches[s], true
}

// depth returns how many bytes state s stands for.
func (a *automaton) depth(s uint32) int {
	level, first := slices.BinarySearch(a.levels, s)
	if !first {
		level--
	}
	return level
}

// longest returns the length of the longest pattern.
func (a *automaton) longest() int { return len(a.levels) - 1 }

// run goes on from state s over p[i:]. It stops before a special byte, after a byte
// that ends a pattern, or at the end, and returns the state and where it is.
func (a *automaton) run(s uint32, p []byte, i int) (state uint32, at int, found bool) {
	rows, rowCount, shift := a.rows, a.rowCount(), a.shift&31
	for ; i < len(p) && !isSpecial(p[i]); i++ {
		class := a.class[p[i]]
		if s < rowCount {
			if entry := rows[s<<shift|uint32(class)]; entry != notInRow {
				s = uint32(entry)
				continue
			}
		}
		if s = a.next(s, class); a.matched[s] {
			return s, i + 1, true
		}
	}
	return s, i, false
}
