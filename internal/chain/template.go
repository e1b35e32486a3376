package chain

import (
	"bytes"
	"encoding/json"
	"slices"
	"unicode/utf8"
)

// MaxArgs bounds the arguments of a step, in bytes, before and after values were
// put in.
const MaxArgs = 8 << 20

// template is the arguments of a step with the places where values are put in.
type template struct {
	text   []byte
	pieces []piece // in order, one behind the other
}

// piece is a place of the text that is replaced.
type piece struct {
	at      span
	ref     *reference // nil for a literal
	literal span
}

// parseTemplate reads the arguments of a step.
func parseTemplate(args json.RawMessage) (*template, error) {
	args = bytes.TrimSpace(args)
	if len(args) == 0 || string(args) == "null" {
		args = json.RawMessage("{}")
	}
	switch {
	case len(args) > MaxArgs:
		return nil, wrong("the arguments have %d bytes, %d is the most", len(args), MaxArgs)
	case !utf8.Valid(args) || !json.Valid(args):
		return nil, wrong("the arguments are not JSON in UTF-8")
	case args[0] != '{':
		return nil, wrong("the arguments are not an object")
	}
	p := &parser{scanner: scanner{text: slices.Clone(args)}}
	if err := p.value(0); err != nil {
		return nil, err
	}
	return &template{text: p.text, pieces: p.pieces}, nil
}

// parser finds the pieces of a template.
type parser struct {
	scanner
	pieces []piece
	refs   int
}

// value reads one value.
func (p *parser) value(depth int) error {
	if depth > maxDepth {
		return wrong("the arguments nest deeper than %d", maxDepth)
	}
	p.space()
	switch p.text[p.at] {
	case '{':
		return p.object(depth)
	case '[':
		return p.parts(func(string) error { return p.value(depth + 1) })
	}
	p.skip()
	return nil
}

// object reads an object, which may stand for something else.
func (p *parser) object(depth int) error {
	from, before := p.at, len(p.pieces)
	seen := map[string]span{}
	err := p.parts(func(key string) error {
		if _, twice := seen[key]; twice {
			return wrong("the arguments have a key twice")
		}
		start := p.at
		if key == "$from" || key == "$literal" {
			p.skip()
		} else if err := p.value(depth + 1); err != nil {
			return err
		}
		seen[key] = span{start, p.at}
		return nil
	})
	if err != nil {
		return err
	}
	at := span{from, p.at}
	if literal, ok := seen["$literal"]; ok {
		if len(seen) > 1 {
			return wrong("an object with $literal has no other key")
		}
		p.pieces = append(p.pieces, piece{at: at, literal: literal})
		return nil
	}
	source, ok := seen["$from"]
	if !ok {
		return nil
	}
	def, hasDefault := seen["default"]
	if len(seen) > 2 || len(seen) == 2 && !hasDefault {
		return wrong("an object with $from has no other key but default; {\"$literal\": …} stands for an object " +
			"as it is")
	}
	if len(p.pieces) > before {
		return wrong("a default is taken as it is and holds neither $from nor $literal")
	}
	if p.text[source.from] != '"' {
		return wrong("$from is not a text")
	}
	if p.refs++; p.refs > MaxReferences {
		return wrong("there are more than %d references", MaxReferences)
	}
	ref, err := parseReference(decodeText(p.text, source))
	if err != nil {
		return err
	}
	if hasDefault {
		ref.def = p.text[def.from:def.to]
	}
	p.pieces = append(p.pieces, piece{at: at, ref: &ref})
	return nil
}

// references yields the references of a template.
func (t *template) references(yield func(*reference) bool) {
	for _, p := range t.pieces {
		if p.ref != nil && !yield(p.ref) {
			return
		}
	}
}

// fill returns the arguments with the values that lookup gives.
func (t *template) fill(lookup func(*reference) (json.RawMessage, error)) (json.RawMessage, error) {
	var b bytes.Buffer
	at := 0
	for _, p := range t.pieces {
		b.Write(t.text[at:p.at.from])
		at = p.at.to
		raw := json.RawMessage(t.text[p.literal.from:p.literal.to])
		if p.ref != nil {
			var err error
			if raw, err = lookup(p.ref); err != nil {
				return nil, err
			}
		}
		if b.Len()+len(raw) > MaxArgs {
			return nil, wrong("the arguments have more than %d bytes", MaxArgs)
		}
		b.Write(raw)
	}
	b.Write(t.text[at:])
	out := bytes.TrimSpace(b.Bytes())
	switch {
	case len(out) > MaxArgs:
		return nil, wrong("the arguments have more than %d bytes", MaxArgs)
	case out[0] != '{':
		return nil, wrong("the arguments are not an object")
	}
	return out, nil
}
