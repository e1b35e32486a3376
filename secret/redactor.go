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
	// Bound says where the value may go; nil means wherever who has it likes.
	Bound *Binding
	// Mask stands in the place of the value, whatever form it is found in; "" means
	// that of [Config].
	Mask string
}

// Config says what a Redactor removes.
type Config struct {
	// Values are removed by name. Zero values are left out.
	Values []Named
	// Formats removes keys, tokens and passwords that are known by their look.
	Formats bool
	// Personal removes e-mail addresses, card, bank account and telephone
	// numbers, and national numbers that have a checksum.
	Personal bool
	// Mask stands in the place of what is removed, with {name} for its name;
	// "" means "[redacted:{name}]". A mask that would show a value is replaced
	// by one that does not.
	Mask string
}

// A Redactor removes secrets from what leaves. It never changes and is safe for
// concurrent use. A nil Redactor removes nothing and costs nothing.
type Redactor struct {
	plan    *plan // nil if there is nothing to remove
	skipped []string
}

// plan is what a scanner looks for.
type plan struct {
	auto         *automaton
	values       int // how many; their masks come first
	formats      []format
	formatMask   int // index of the mask of formats[0]
	personalMask int // index of the mask of the first personal kind
	findPersonal bool
	masks        []string
	viewSpecs    []viewSpec
	children     [][]int   // views of the raw text and of each view
	scanners     sync.Pool // of *scanner that have finished
}

// NewRedactor returns a redactor of what cfg says.
func NewRedactor(cfg Config) *Redactor {
	r := &Redactor{}
	if len(cfg.Values) == 0 && !cfg.Formats && !cfg.Personal {
		return r
	}
	p := &plan{findPersonal: cfg.Personal, masks: make([]string, 0, len(cfg.Values)+len(formats())+len(kinds))}
	mask := cfg.Mask
	if mask == "" {
		mask = "[redacted:{name}]"
	}
	maskOf := func(name string) string { return strings.ReplaceAll(mask, "{name}", printable(name)) }
	all := newForms(cfg.Values)
	total, odd := 0, false
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
		odd = odd || strings.ContainsAny(text, `\%&`)
		all.value(text, int32(p.values))
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
		for _, name := range kinds {
			p.masks = append(p.masks, maskOf(name))
		}
	}
	if len(p.masks) == 0 {
		return r
	}
	p.auto = newAutomaton(all.patterns())
	all.wipe()
	p.viewSpecs = viewsFor(odd)
	p.children = childViews(p.viewSpecs)
	p.hide()
	r.plan = p
	return r
}

// forms collects patterns. Their text is folded into one buffer, which is wiped
// when the automaton is built: it has no text.
type forms struct {
	text []byte
	all  []pattern
	ends []int
	// for the value at hand: after two zero bytes, and encoded
	padded, enc []byte
}

// newForms returns one with room for the forms of values.
func newForms(values []Named) *forms {
	total, longest := 4096, 0 // with openings of formats
	for _, n := range values {
		if size := len(n.Value.Reveal()); size <= MaxValue {
			total, longest = total+8*size, max(longest, size)
		}
	}
	total = min(total, 9*MaxValues)
	return &forms{
		text: make([]byte, 0, total), padded: make([]byte, 2, 2+longest), enc: make([]byte, 0, 2*longest+4),
		all: make([]pattern, 0, 6*len(values)), ends: make([]int, 0, 6*len(values)),
	}
}

// wipe overwrites the text.
func (f *forms) wipe() {
	clear(f.text)
	clear(f.padded)
	clear(f.enc[:cap(f.enc)])
}

// minPattern is the length of the shortest pattern. Shorter forms of a value are in
// every other word.
const minPattern = 3

// add adds a pattern, unless it is too short for one.
func (f *forms) add(text []byte, value int32) {
	if len(text) < minPattern {
		return
	}
	for _, b := range text {
		f.text = append(f.text, fold(b))
	}
	f.all = append(f.all, pattern{value: value})
	f.ends = append(f.ends, len(f.text))
}

// patterns returns what was added.
func (f *forms) patterns() []pattern {
	from := 0
	for i, end := range f.ends {
		f.all[i].text, from = f.text[from:end], end
	}
	return f.all
}

// value adds what to look for to find text, whatever was done to it. Escapes are
// not among it: those are undone in the text that is searched.
func (f *forms) value(text string, value int32) {
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
		f.special(raw, value)
	}
	f.enc = hex.AppendEncode(f.enc[:0], raw)
	f.add(f.enc, value)
	for offset := range 3 {
		// The characters that stand for bits of the value only. One more at either
		// end may share bits with its neighbour.
		f.enc = base64.RawStdEncoding.AppendEncode(f.enc[:0], f.padded[2-offset:])
		f.add(f.enc[(offset*8+5)/6:(offset+len(raw))*8/6], value)
	}
}

// special adds the forms of a value that itself has what looks like an escape, or
// lines. A view in which another escape is undone has lost these.
func (f *forms) special(raw []byte, value int32) {
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
		raw = unescaped(raw)
		longEnough(raw)
	}
}

// unescaped returns b with one level of escapes undone.
func unescaped(b []byte) []byte {
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

// printable returns a name of which nothing has to be escaped anywhere.
func printable(name string) string {
	const longest = 64
	return strings.Map(func(c rune) rune {
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune("_.-/", c) {
			return c
		}
		return '_'
	}, name[:min(len(name), longest)])
}

// hide replaces the masks that would show a value, such as that of a PASSWORD
// which is "password".
func (p *plan) hide() {
	if p.values == 0 {
		return
	}
	last, instead := "", "" // formats of one name stand together
	for i, m := range p.masks {
		if m != last || i == 0 {
			for _, instead = range []string{m, "[redacted]", "***"} { // no value is as short as the last
				if !p.shows(instead) {
					break
				}
			}
		}
		last, p.masks[i] = m, instead
	}
}

// shows reports whether text holds a value.
func (p *plan) shows(text string) bool {
	for _, f := range p.scan([]byte(text)) {
		if p.isValue(f) {
			return true
		}
	}
	return false
}

// Skipped returns the names of the values that are not removed because they are
// too short or too long. Whether they may be used all the same is for the caller
// to say.
func (r *Redactor) Skipped() []string {
	if r == nil {
		return nil
	}
	return r.skipped
}

// Text returns s without what is to be removed.
func (r *Redactor) Text(s string) string {
	if r == nil || r.plan == nil || s == "" {
		return s
	}
	var short [1 << 10]byte // most texts are, and need no memory
	buf := append(short[:0], s...)
	spans := r.plan.spans(buf)
	if len(spans) == 0 {
		return s
	}
	return string(r.plan.cut(buf, spans))
}

// Bytes is [Redactor.Text] for the content of a file, whether or not it is text. The
// very same bytes are returned if nothing is removed.
func (r *Redactor) Bytes(b []byte) []byte {
	if r == nil || r.plan == nil || len(b) == 0 {
		return b
	}
	spans := r.plan.spans(b)
	if len(spans) == 0 {
		return b
	}
	return r.plan.cut(b, spans)
}

// Shows reports whether text holds one of the values. Formats and personal data do
// not count.
func (r *Redactor) Shows(text string) bool {
	return r != nil && r.plan != nil && r.plan.values > 0 && text != "" && r.plan.shows(text)
}

// spans returns what is to be removed from a whole text, in order, each apart
// from the others.
func (p *plan) spans(buf []byte) []span { return joined(p.scan(buf)) }

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

// cut returns buf with masks for spans.
func (p *plan) cut(buf []byte, spans []span) []byte {
	out := make([]byte, 0, len(buf)+16*len(spans))
	at := 0
	for _, f := range spans {
		out = append(append(out, buf[at:f.start]...), p.masks[f.mask]...)
		at = f.end
	}
	return append(out, buf[at:]...)
}
