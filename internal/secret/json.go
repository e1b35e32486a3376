package secret

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// JSON returns the document raw with masks for what is to be removed from its strings,
// keys and numbers, and whether that changed it. A valid document stays valid: a
// number that is removed becomes a string. If a value spans several tokens, the mask
// replaces the whole document.
func (r *Redactor) JSON(raw json.RawMessage) (json.RawMessage, bool) {
	if r == nil || r.plan == nil || len(raw) == 0 {
		return raw, false
	}
	p := r.plan
	whole := p.spans(raw)
	if len(whole) == 0 && bytes.IndexByte(raw, '\\') < 0 {
		return raw, false
	}
	out, changed := p.redactTokens(raw, whole)
	if mask, found := p.valueAcross(out, whole); found || changed && !json.Valid(out) {
		return quoted(p.masks[mask]), true
	}
	if !changed {
		return raw, false
	}
	return out, true
}

// isValue reports whether a span is of a value and not of a format.
func (p *plan) isValue(f span) bool { return f.mask < p.values }

// valueAcross returns the mask of a value that spans several tokens of a document, each
// of which is redacted already.
//
// A match within a string is not such a value: the n of an escape and what follows it
// look like nfoo, but are a line break and foo.
func (p *plan) valueAcross(doc []byte, before []span) (mask int, found bool) {
	if len(before) == 0 {
		return 0, false
	}
	mask = before[0].mask
	left := p.spans(doc)
	for at := 0; at < len(doc) && len(left) > 0; {
		start, end, kind := nextToken(doc, at)
		if kind == tokenEnd {
			break
		}
		at = end
		for len(left) > 0 && left[0].end <= start {
			left = left[1:] // both are in order, so each is passed once
		}
		for _, f := range left {
			if f.start >= end {
				break
			}
			if p.isValue(f) && start < f.end && (kind != tokenString || f.start <= start || f.end >= end) {
				return f.mask, true
			}
		}
	}
	return mask, false
}

// redactTokens returns doc with each string and number redacted by itself. found is what
// was found in the document as a text. A format can be found there that no token
// contains alone, as the password in {"password": "hunter2"}. Then the mask replaces
// the whole token.
func (p *plan) redactTokens(doc []byte, found []span) (out []byte, changed bool) {
	done := 0
	var short [1 << 10]byte
	plain := short[:0]
	for at := 0; at < len(doc); {
		start, end, kind := nextToken(doc, at)
		if kind == tokenEnd {
			break
		}
		at = end
		for len(found) > 0 && found[0].end <= start {
			found = found[1:]
		}
		touched := len(found) > 0 && found[0].start < end
		text := doc[start:end]
		if kind == tokenPunctuation || !touched && bytes.IndexByte(text, '\\') < 0 {
			continue
		}
		if kind == tokenString {
			var ok bool
			if plain, ok = appendUnquoted(plain[:0], text); !ok {
				continue // not JSON: the caller checks the result
			}
			text = plain
		}
		spans := p.spans(text)
		switch {
		case len(spans) > 0:
			text = p.mask(text, spans)
		case touched && !p.isValue(found[0]) && !isLiteral(text):
			text = []byte(p.masks[found[0].mask])
		default:
			continue
		}
		changed = true
		out = append(append(out, doc[done:start]...), quoted(string(text))...)
		done = end
	}
	if !changed {
		return doc, false
	}
	return append(out, doc[done:]...), true
}

// appendUnquoted appends to to what the JSON string text stands for.
func appendUnquoted(to, text []byte) (out []byte, ok bool) {
	begin := len(to)
	for i := 1; i < len(text)-1; i++ {
		b := text[i]
		if b != '\\' {
			to = append(to, b)
			continue
		}
		if i++; text[i] == 'u' || escapedBy[text[i]] == 0 || strings.IndexByte(`"\/bfnrt`, text[i]) < 0 {
			return appendUnmarshaled(to[:begin], text)
		}
		to = append(to, escapedBy[text[i]])
	}
	isControl := func(r rune) bool { return r < ' ' }
	if len(text) < 2 || text[len(text)-1] != '"' || !utf8.Valid(text) || bytes.ContainsFunc(text, isControl) {
		return appendUnmarshaled(to[:begin], text)
	}
	return to, true
}

// appendUnmarshaled is appendUnquoted for rare escapes and invalid text.
func appendUnmarshaled(to, text []byte) (out []byte, ok bool) {
	var s string
	if json.Unmarshal(bytes.Clone(text), &s) != nil { // a clone, so that text does not escape to the heap
		return to, false
	}
	return append(to, s...), true
}

// isLiteral reports whether a token is null, true or false, which hide nothing.
func isLiteral(text []byte) bool {
	return string(text) == "null" || string(text) == "true" || string(text) == "false"
}

// quoted returns s as a JSON string with as few escapes as possible.
func quoted(s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string can always be encoded
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// tokenKind is a kind of JSON token.
type tokenKind int

const (
	tokenEnd         tokenKind = iota
	tokenPunctuation           // { } [ ] : ,
	tokenString                // with its quotes
	tokenWord                  // a number, true, false or null
)

// nextToken returns where the next token from at on is. It does not check that the
// document is valid.
func nextToken(doc []byte, at int) (start, end int, kind tokenKind) {
	for at < len(doc) && (doc[at] == ' ' || doc[at] == '\t' || doc[at] == '\n' || doc[at] == '\r') {
		at++
	}
	if at == len(doc) {
		return at, at, tokenEnd
	}
	switch doc[at] {
	case '{', '}', '[', ']', ':', ',':
		return at, at + 1, tokenPunctuation
	case '"':
		for i := at + 1; i < len(doc); i++ {
			switch doc[i] {
			case '\\':
				i++
			case '"':
				return at, i + 1, tokenString
			}
		}
		return at, len(doc), tokenString
	}
	i := at + 1
	for i < len(doc) && bytes.IndexByte([]byte("{}[]:,\" \t\n\r"), doc[i]) < 0 {
		i++
	}
	return at, i, tokenWord
}
