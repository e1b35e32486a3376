package secret

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"sync"
)

// The bounds on what a Redactor can look for.
const (
	// MinValue is the length in bytes of the shortest value that is removed.
	// Shorter ones stand in every other word.
	MinValue = 4
	// MaxValue is the length of the longest, and MaxValues of all together.
	MaxValue  = 1 << 20
	MaxValues = 4 << 20
	// Levels is how many times over a value may be escaped and is still found.
	Levels = 3
)

// Named is a value and what to call it in its place.
type Named struct {
	Name  string
	Value Value
	// Bound says which hosts the value may be sent to; nil means any.
	Bound *Binding
	// Mask replaces the value, in whatever form it is found; "" means that of [Config].
	Mask string
}

// Config says what a Redactor removes.
type Config struct {
	// Values are removed wherever they are found. Zero values are ignored.
	Values []Named
	// Formats removes keys, tokens and passwords of known formats.
	Formats bool
	// Personal removes e-mail addresses, card, bank account and telephone
	// numbers, and national numbers that have a checksum.
	Personal bool
	// Mask replaces what is removed, with {name} for its name; "" means
	// "[redacted:{name}]". A mask that contains a value is replaced by one that
	// does not.
	Mask string
}

// A Redactor removes secrets from text. It never changes and is safe for concurrent
// use. A nil Redactor removes nothing and costs nothing.
type Redactor struct {
	plan    *plan    // nil if there is nothing to remove
	skipped []string // names of values that are too short or too long
}

// plan is what a scanner looks for.
type plan struct {
	auto         *automaton
	values       int // how many; their masks come first
	minPartial   int // from how many bytes on the beginning of a value is held back
	formats      []format
	formatMask   int // index of the mask of formats[0]
	personalMask int // index of the mask of the first personal kind
	findPersonal bool
	masks        []string
	viewSpecs    []viewSpec
	children     [][]int   // views of the raw text and of each view
	scanners     sync.Pool // of *scanner that have finished
}

// NewRedactor returns a redactor of what cfg names.
func NewRedactor(cfg Config) *Redactor {
	r := &Redactor{}
	if len(cfg.Values) == 0 && !cfg.Formats && !cfg.Personal {
		return r
	}
	p := &plan{findPersonal: cfg.Personal, minPartial: maxShown + 1,
		masks: make([]string, 0, len(cfg.Values)+len(formats())+len(personalKinds))}
	mask := cfg.Mask
	if mask == "" {
		mask = "[redacted:{name}]"
	}
	maskOf := func(name string) string { return strings.ReplaceAll(mask, "{name}", printable(name)) }
	all := newPatternSet(cfg.Values)
	total, withEscapes := 0, false
	for _, n := range cfg.Values {
		if n.Value.IsZero() {
			continue
		}
		text := strings.TrimSpace(n.Value.Reveal())
		if total += len(text); len(text) < MinValue || len(text) > MaxValue || total > MaxValues {
			total -= len(text)
			r.skipped = append(r.skipped, n.Name)
			continue
		}
		withEscapes = withEscapes || strings.ContainsAny(text, `\%&`)
		p.minPartial = min(p.minPartial, len(text)/2)
		all.addValue(text, int32(p.values))
		p.values++
		if n.Mask == "" {
			n.Mask = maskOf(n.Name)
		}
		p.masks = append(p.masks, n.Mask)
	}
	if cfg.Formats {
		p.formats, p.formatMask = formats(), len(p.masks)
		for i, f := range p.formats {
			all.add([]byte(f.open), ^int32(i))
			if i > 0 && f.name == p.formats[i-1].name {
				p.masks = append(p.masks, p.masks[len(p.masks)-1])
			} else {
				p.masks = append(p.masks, maskOf(f.name))
			}
		}
	}
	if cfg.Personal {
		p.personalMask = len(p.masks)
		for _, name := range personalKinds {
			p.masks = append(p.masks, maskOf(name))
		}
	}
	if len(p.masks) == 0 {
		return r
	}
	p.auto = newAutomaton(all.patterns())
	all.wipe()
	p.viewSpecs = viewsFor(withEscapes)
	p.children = childViews(p.viewSpecs)
	p.replaceUnsafeMasks()
	r.plan = p
	return r
}

// patternSet collects patterns. Their text is folded into one buffer, which is wiped
// as soon as the automaton is built.
type patternSet struct {
	text []byte
	all  []pattern
	ends []int
	// The current value after two zero bytes, and encoded.
	padded, enc []byte
}

// newPatternSet returns a set with memory for the patterns of values.
func newPatternSet(values []Named) *patternSet {
	total, longest := 4096, 0 // 4096 for the openings of formats
	for _, n := range values {
		if size := len(n.Value.Reveal()); size <= MaxValue {
			total, longest = total+8*size, max(longest, size)
		}
	}
	total = min(total, 9*MaxValues)
	return &patternSet{
		text: make([]byte, 0, total), padded: make([]byte, 2, 2+longest), enc: make([]byte, 0, 2*longest+4),
		all: make([]pattern, 0, 6*len(values)), ends: make([]int, 0, 6*len(values)),
	}
}

// wipe overwrites the text.
func (f *patternSet) wipe() {
	clear(f.text)
	clear(f.padded)
	clear(f.enc[:cap(f.enc)])
}

// minPattern is the length of the shortest pattern. Shorter forms of a value are in
// every other word.
const minPattern = 3

// add adds a pattern, unless it is too short for one.
func (f *patternSet) add(text []byte, value int32) {
	if len(text) < minPattern {
		return
	}
	for _, b := range text {
		f.text = append(f.text, fold(b))
	}
	f.all = append(f.all, pattern{value: value})
	f.ends = append(f.ends, len(f.text))
}

// patterns returns the patterns that were added.
func (f *patternSet) patterns() []pattern {
	from := 0
	for i, end := range f.ends {
		f.all[i].text, from = f.text[from:end], end
	}
	return f.all
}

// addValue adds the patterns that find a value in any encoding. Escapes need none:
// they are undone in the text that is searched.
func (f *patternSet) addValue(text string, value int32) {
	f.padded = append(f.padded[:2], text...)
	raw := f.padded[2:]
	f.add(raw, value)
	ascii, special := true, false
	for _, b := range raw {
		ascii = ascii && b < 0x80
		special = special || isSpecial(b)
	}
	if !ascii {
		f.add([]byte(strings.ToUpper(text)), value)
		f.add([]byte(strings.ToLower(text)), value)
	}
	if special {
		f.addUnescaped(raw, value)
	}
	f.enc = hex.AppendEncode(f.enc[:0], raw)
	f.add(f.enc, value)
	for offset := range 3 {
		// Only the characters that encode bits of the value and nothing else. One more
		// at either end may share bits with its neighbour.
		f.enc = base64.RawStdEncoding.AppendEncode(f.enc[:0], f.padded[2-offset:])
		f.add(f.enc[(offset*8+5)/6:(offset+len(raw))*8/6], value)
	}
}

// addUnescaped adds the forms of a value that itself contains line breaks, or what looks
// like an escape. Views in which all escapes are undone no longer contain it as it is.
func (f *patternSet) addUnescaped(raw []byte, value int32) {
	longEnough := func(b []byte) {
		if len(b) >= MinValue {
			f.add(b, value)
		}
	}
	longEnough(bytes.Map(func(c rune) rune {
		if c == '\n' || c == '\r' {
			return -1
		}
		return c
	}, raw))
	for range Levels {
		raw = unescape(raw)
		longEnough(raw)
	}
}

// unescape returns b with one level of escapes undone.
func unescape(b []byte) []byte {
	out := make([]byte, 0, len(b))
	for breaks := 0; len(b) > 0; {
		used, decoded, size := allFamilies.decode(b[:min(len(b), maxEscape)], breaks, len(b) <= maxEscape)
		if breaks++; size > 0 {
			breaks = 0
		}
		out, b = append(out, decoded[:size]...), b[used:]
	}
	return out
}

// printable returns a name with _ for every character that some format escapes.
func printable(name string) string {
	const longest = 64
	return strings.Map(func(c rune) rune {
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune("_.-/", c) {
			return c
		}
		return '_'
	}, name[:min(len(name), longest)])
}

// replaceUnsafeMasks replaces the masks that contain a value, such as that of a
// variable PASSWORD whose value is "password".
func (p *plan) replaceUnsafeMasks() {
	if p.values == 0 {
		return
	}
	last, safe := "", "" // formats of the same name are neighbours
	for i, m := range p.masks {
		if m != last || i == 0 {
			for _, safe = range []string{m, "[redacted]", "***"} { // no value is as short as ***
				if !p.containsValue(safe) {
					break
				}
			}
		}
		last, p.masks[i] = m, safe
	}
}

// containsValue reports whether text contains a value.
func (p *plan) containsValue(text string) bool {
	for _, f := range p.scan([]byte(text)) {
		if p.isValue(f) {
			return true
		}
	}
	return false
}

// Skipped returns the names of the values that are not removed because they are
// too short or too long. The caller decides whether they may be used.
func (r *Redactor) Skipped() []string {
	if r == nil {
		return nil
	}
	return r.skipped
}

// Text returns s with masks for what is to be removed.
func (r *Redactor) Text(s string) string {
	if r == nil || r.plan == nil || s == "" {
		return s
	}
	var short [1 << 10]byte // most texts fit, and need no allocation
	buf := append(short[:0], s...)
	spans := r.plan.spans(buf)
	if len(spans) == 0 {
		return s
	}
	return string(r.plan.mask(buf, spans))
}

// Bytes is [Redactor.Text] for the content of a file, whether or not it is text. It
// returns b itself if nothing is removed.
func (r *Redactor) Bytes(b []byte) []byte {
	if r == nil || r.plan == nil || len(b) == 0 {
		return b
	}
	spans := r.plan.spans(b)
	if len(spans) == 0 {
		return b
	}
	return r.plan.mask(b, spans)
}

// ContainsValue reports whether text contains one of the values. Formats and personal
// data do not count.
func (r *Redactor) ContainsValue(text string) bool {
	return r != nil && r.plan != nil && r.plan.values > 0 && text != "" && r.plan.containsValue(text)
}

// spans returns what is to be removed from a whole text, in order and without
// overlaps.
func (p *plan) spans(buf []byte) []span { return mergeSpans(p.scan(buf)) }

// scan returns what is to be removed from a whole text as it was found. Spans may
// overlap.
func (p *plan) scan(buf []byte) []span {
	s, ok := p.scanners.Get().(*scanner)
	if !ok {
		s = &scanner{plan: p}
	}
	s.feed(buf, 0, 0)
	s.finish(buf, 0)
	found := s.spans
	s.reset()
	p.scanners.Put(s)
	return found
}

// mask returns buf with masks in the place of spans.
func (p *plan) mask(buf []byte, spans []span) []byte {
	out := make([]byte, 0, len(buf)+16*len(spans))
	at := 0
	for _, f := range spans {
		out = append(append(out, buf[at:f.start]...), p.masks[f.mask]...)
		at = f.end
	}
	return append(out, buf[at:]...)
}
