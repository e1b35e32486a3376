package secret

import (
	"bytes"
	"slices"
)

// automaton finds all patterns in one pass over folded bytes, after Aho and
// Corasick. Its states are of two sorts. Those near the root, where nearly all
// text keeps it, are rows of a table: one load per byte. The others are nodes
// with a failure link, ten bytes each, of which almost all have one child, which
// is the next node: patterns are inserted in sorted order.
//
// A state below len(dense) is the offset of a row; above it is a node's number
// plus len(dense). In rows a state in which a pattern ends carries hitBit.
type automaton struct {
	class [256]uint8 // of each byte, after folding; 0 means in no pattern
	width int        // of a row: the number of classes

	dense []uint32 // rows
	depth []uint32 // of each node
	edge  []uint16 // class of the first child of each node, and flags
	fail  []uint32 // state to go on from where no child fits
	kids  []kid    // further children, sorted
	hits  map[uint32]hit
	opens []int16                // what most hits have of these
	rowOf []uint32               // node of each row
	level [denseDepth + 1]uint32 // the first state of each depth of rows

	sieve   *sieve
	longest int  // pattern
	shallow bool // a pattern is short enough to end in a row
}

// Flags of an edge, above the class.
const (
	edgeMore = 1 << 8 // there are further children
	edgeHit  = 1 << 9 // a pattern ends here
)

// kid is a child that is not the first.
type kid struct {
	parent uint32
	class  uint8
	node   uint32
}

// hit says what ends in a state: the longest value, and openings of formats.
type hit struct {
	value  int32 // index, -1 if there is none
	length uint32
	opens  []int16
}

// pattern is one form of a value, folded; or, if value is negative, the opening
// of format ^value.
type pattern struct {
	text  []byte
	value int32
}

// denseDepth is how deep rows go: with a thousand values nearly all text stays
// within it, and the rows fit a second-level cache. denseMax bounds the table.
const (
	denseDepth = 3
	denseMax   = 1 << 20
)

// hitBit makes a state larger than any other, so that one comparison tells what
// needs a second look.
const hitBit = 1 << 31

// fold maps bytes that are not told apart to one. See the package comment.
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

// isSpecial reports whether b begins an escape or breaks a line.
func isSpecial(b byte) bool { return familyOf[b] != 0 }

// newAutomaton builds the automaton of patterns, of which none may be shorter
// than denseDepth: what rows fail to has no hits to inherit.
func newAutomaton(patterns []pattern) *automaton {
	slices.SortFunc(patterns, func(p, q pattern) int { return bytes.Compare(p.text, q.text) })
	a := &automaton{hits: make(map[uint32]hit, len(patterns))}
	total, openings := 1, 0
	for _, p := range patterns {
		total += len(p.text)
		a.longest = max(a.longest, len(p.text))
		a.shallow = a.shallow || len(p.text) <= denseDepth
		if p.value < 0 {
			openings++
		}
	}
	a.opens = make([]int16, 0, openings)
	a.sieve = newSieve(patterns)
	a.classify(patterns)
	a.insert(patterns, total)
	a.link()
	return a
}

// classify numbers the bytes that occur.
func (a *automaton) classify(patterns []pattern) {
	var used [256]bool
	for _, p := range patterns {
		for _, b := range p.text {
			used[b] = true
		}
	}
	n := uint8(1)
	for b := range 256 {
		if used[b] {
			a.class[b] = n
			n++
		}
	}
	for b := range 256 {
		if f := fold(byte(b)); f != byte(b) {
			a.class[b] = a.class[f]
		}
	}
	a.width = int(n)
}

// insert builds the tree. Patterns are sorted, so each shares its beginning with
// the one before it, and a node's first child is the node after it.
func (a *automaton) insert(patterns []pattern, total int) {
	a.edge = make([]uint16, 1, total)
	a.depth = make([]uint32, 1, total)
	edge, depth := a.edge, a.depth
	path := make([]uint32, a.longest+1) // nodes of the pattern before
	var last []byte
	for _, p := range patterns {
		d := 0
		for d < len(last) && d < len(p.text) && last[d] == p.text[d] {
			d++
		}
		parent := path[d]
		for ; d < len(p.text); d++ {
			c, node := a.class[p.text[d]], uint32(len(edge))
			if edge[parent]&0xff == 0 {
				edge[parent] |= uint16(c)
			} else {
				edge[parent] |= edgeMore
				a.kids = append(a.kids, kid{parent, c, node})
			}
			edge = append(edge, 0)
			depth = append(depth, uint32(d+1))
			path[d+1], parent = node, node
		}
		a.edge, a.depth = edge, depth
		a.end(path[len(p.text)], p)
		last = p.text
	}
	slices.SortFunc(a.kids, func(x, y kid) int {
		if x.parent != y.parent {
			return int(x.parent) - int(y.parent)
		}
		return int(x.class) - int(y.class)
	})
}

// end notes that p ends at node. Of two values of one form the first counts.
func (a *automaton) end(node uint32, p pattern) {
	h, ok := a.hits[node]
	if !ok {
		h.value = -1
		a.edge[node] |= edgeHit
	}
	switch {
	case p.value < 0 && h.opens == nil: // out of one piece for all
		a.opens = append(a.opens, int16(^p.value))
		h.opens = a.opens[len(a.opens)-1:][:1:1]
	case p.value < 0:
		h.opens = append(h.opens, int16(^p.value))
	case h.value < 0 || p.value < h.value:
		h.value, h.length = p.value, uint32(len(p.text))
	}
	a.hits[node] = h
}

// child returns the child of node by class c, or 0.
func (a *automaton) child(node uint32, c uint8) uint32 {
	e := a.edge[node]
	if uint8(e) == c && c != 0 {
		return node + 1
	}
	if e&edgeMore == 0 {
		return 0
	}
	i, ok := slices.BinarySearchFunc(a.kids, kid{parent: node, class: c}, func(x, y kid) int {
		if x.parent != y.parent {
			return int(x.parent) - int(y.parent)
		}
		return int(x.class) - int(y.class)
	})
	if !ok {
		return 0
	}
	return a.kids[i].node
}

// further returns the children of node that are not the first.
func (a *automaton) further(node uint32) []kid {
	if a.edge[node]&edgeMore == 0 {
		return nil
	}
	i, _ := slices.BinarySearchFunc(a.kids, node, func(k kid, n uint32) int { return int(k.parent) - int(n) })
	n := i
	for n < len(a.kids) && a.kids[n].parent == node {
		n++
	}
	return a.kids[i:n]
}

// rows returns how many nodes get a row of the table.
func (a *automaton) rows() int {
	var count [denseDepth + 1]int
	for _, d := range a.depth {
		if d <= denseDepth {
			count[d]++
		}
	}
	rows, full := 0, false
	for d, n := range count {
		a.level[d] = uint32(rows * a.width)
		if full = full || d > 0 && (rows+n)*a.width > denseMax; !full {
			rows += n
		}
	}
	return rows
}

// link fills rows and failure links, level by level.
func (a *automaton) link() {
	rows := a.rows()
	a.dense = make([]uint32, rows*a.width)
	a.rowOf = make([]uint32, 1, rows)
	a.fail = make([]uint32, len(a.edge))
	queue := make([]uint32, 1, len(a.edge)) // in order of depth, so rows come first
	for at := range rows {
		node, row := queue[at], a.dense[at*a.width:][:a.width]
		if at > 0 {
			copy(row, a.dense[a.fail[node]:][:a.width])
		}
		if c := uint8(a.edge[node]); c != 0 {
			queue = a.reach(queue, row, node, c, node+1)
		}
		for _, k := range a.further(node) {
			queue = a.reach(queue, row, node, k.class, k.node)
		}
	}
	base := uint32(len(a.dense))
	for at := rows; at < len(queue); at++ {
		node := queue[at]
		f := a.fail[node]
		if f >= base || a.shallow {
			a.inherit(node, f)
		}
		if c := uint8(a.edge[node]); c != 0 {
			a.fail[node+1] = a.next(f, c)
			queue = append(queue, node+1)
		}
		for _, k := range a.further(node) {
			a.fail[k.node] = a.next(f, k.class)
			queue = append(queue, k.node)
		}
	}
}

// reach links the child by class c of a node that has a row, and queues it. The
// row has yet the entry of the state that the node fails to, which is where the
// child fails to.
func (a *automaton) reach(queue, row []uint32, node uint32, c uint8, child uint32) []uint32 {
	if node != 0 {
		a.fail[child] = row[c] &^ hitBit
	}
	row[c] = uint32(len(a.dense)) + child
	if n := len(queue); n < cap(a.rowOf) {
		row[c] = uint32(n * a.width)
		a.rowOf = append(a.rowOf, child)
	}
	if a.edge[child]&edgeHit != 0 {
		row[c] |= hitBit
	}
	return append(queue, child)
}

// inherit adds to what ends at node what ends in the state it fails to. Rows
// inherit nothing: no pattern is shorter than they are deep.
func (a *automaton) inherit(node, f uint32) {
	if f < uint32(len(a.dense)) && f < a.level[denseDepth] {
		return
	}
	if f = a.node(f); a.edge[f]&edgeHit == 0 {
		return
	}
	from := a.hits[f]
	h, ok := a.hits[node]
	if !ok {
		a.edge[node] |= edgeHit
		a.hits[node] = from
		return
	}
	if h.value < 0 {
		h.value, h.length = from.value, from.length
	}
	h.opens = slices.Concat(h.opens, from.opens)
	a.hits[node] = h
}

// next returns the state after s on class c.
func (a *automaton) next(s uint32, c uint8) uint32 {
	base := uint32(len(a.dense))
	for s >= base {
		node := s - base
		e := a.edge[node]
		if uint8(e) == c && c != 0 {
			return s + 1
		}
		if e&edgeMore != 0 {
			if k := a.child(node, c); k != 0 {
				return base + k
			}
		}
		s = a.fail[node]
	}
	return a.dense[s+uint32(c)] &^ hitBit
}

// node returns the node of state s.
func (a *automaton) node(s uint32) uint32 {
	if base := uint32(len(a.dense)); s >= base {
		return s - base
	}
	return a.rowOf[int(s)/a.width]
}

// hitAt returns what ends in state s.
func (a *automaton) hitAt(s uint32) (hit, bool) {
	if s < uint32(len(a.dense)) && (!a.shallow || s < a.level[denseDepth]) {
		return hit{}, false
	}
	n := a.node(s)
	if a.edge[n]&edgeHit == 0 {
		return hit{}, false
	}
	return a.hits[n], true
}

// depthOf returns how many bytes state s remembers.
func (a *automaton) depthOf(s uint32) int {
	if base := uint32(len(a.dense)); s >= base {
		return int(a.depth[s-base])
	}
	d := denseDepth
	for s < a.level[d] {
		d--
	}
	return d
}

// idle reports whether b is a line break that begins no pattern: between two
// patterns it means nothing, whether it is taken out or not.
func (a *automaton) idle(b byte) bool {
	return familyOf[b] == breaks && a.dense[a.class[b]] == 0
}

// near returns how many bytes state s remembers, if they are fewer than rows go
// deep: then nothing is lost if those bytes are looked at again.
func (a *automaton) near(s uint32) (depth int, ok bool) {
	if s >= a.level[denseDepth] {
		return 0, false
	}
	d := denseDepth - 1
	for s < a.level[d] {
		d--
	}
	return d, true
}

// run goes on from state s over p[i:], which has no special bytes, and stops after
// a byte that ends a pattern, at the end, or beyond upto where it is near the root.
// It returns the state and where it is.
func (a *automaton) run(s uint32, p []byte, i, upto int) (state uint32, at int, found bool) {
	dense, base, near := a.dense, uint32(len(a.dense)), a.level[denseDepth]
	for ; i < len(p) && (i <= upto || s >= near); i++ {
		c := a.class[p[i]]
		if s < base {
			if s = dense[s+uint32(c)]; s >= hitBit {
				return s &^ hitBit, i + 1, true
			}
			continue
		}
		s = a.next(s, c)
		if _, ok := a.hitAt(s); ok {
			return s, i + 1, true
		}
	}
	return s, i, false
}
