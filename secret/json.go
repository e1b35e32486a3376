package secret

import (
	"bytes"
	"encoding/json"
)

// JSON returns the document raw without what is to be removed, from its strings,
// keys and numbers, and whether that changed it. A valid document stays valid: a
// number that is removed becomes a string. What cannot be removed from a string,
// a key or a number, because it goes over several of them, takes the whole
// document with it.
func (r *Redactor) JSON(raw json.RawMessage) (json.RawMessage, bool) {
	if r == nil || r.plan == nil || len(raw) == 0 {
		return raw, false
	}
	p := r.plan
	whole := p.spans(raw)
	if len(whole) == 0 && bytes.IndexByte(raw, '\\') < 0 {
		return raw, false
	}
	out, changed := p.tokens(raw, len(whole) > 0)
	if len(whole) == 0 && !changed {
		return raw, false
	}
	if left := p.spans(out); len(left) > 0 && !p.harmless(out, left) || changed && !json.Valid(out) {
		who := 0
		if len(left) > 0 {
			who = left[0].who
		} else if len(whole) > 0 {
			who = whole[0].who
		}
		return quoted(p.masks[who]), true
	}
	if !changed {
		return raw, false
	}
	return out, true
}

// harmless reports whether what is found in the text of a document is not in the
// document: the n of an escape and what follows it look like nfoo, but are a line
// break and foo.
func (p *plan) harmless(doc []byte, found []span) bool {
	for at := 0; at < len(doc); {
		start, end, kind := token(doc, at)
		if kind == tokenEnd {
			break
		}
		at = end
		for _, f := range found {
			if f.start < end && start < f.end && (kind != tokenString || f.start <= start || f.end >= end) {
				return false
			}
		}
	}
	return true
}

// tokens returns doc with each string and number redacted by itself. Unless all
// is set only those are looked at in which something is escaped; the text of the
// others has been searched.
func (p *plan) tokens(doc []byte, all bool) (out []byte, changed bool) {
	done := 0
	for at := 0; at < len(doc); {
		start, end, kind := token(doc, at)
		if kind == tokenEnd {
			break
		}
		at = end
		text := doc[start:end]
		if kind == tokenMark || !all && (kind != tokenString || bytes.IndexByte(text, '\\') < 0) {
			continue
		}
		if kind == tokenString {
			var s string
			if json.Unmarshal(text, &s) != nil {
				continue // not JSON, and searched as text
			}
			text = []byte(s)
		}
		spans := p.spans(text)
		if len(spans) == 0 {
			continue
		}
		changed = true
		out = append(append(out, doc[done:start]...), quoted(string(p.cut(text, spans)))...)
		done = end
	}
	return append(out, doc[done:]...), changed
}

// quoted returns s as a JSON string, in which only what must be is escaped.
func quoted(s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string can always be encoded
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// tokenKind sorts the tokens of JSON.
type tokenKind int

const (
	tokenEnd    tokenKind = iota
	tokenMark             // { } [ ] : ,
	tokenString           // with its quotes
	tokenWord             // a number, true, false or null
)

// token returns where the next token from at on is. It does not check that the
// document is valid, and goes on to the end of any.
func token(doc []byte, at int) (start, end int, kind tokenKind) {
	for at < len(doc) && (doc[at] == ' ' || doc[at] == '\t' || doc[at] == '\n' || doc[at] == '\r') {
		at++
	}
	if at == len(doc) {
		return at, at, tokenEnd
	}
	switch doc[at] {
	case '{', '}', '[', ']', ':', ',':
		return at, at + 1, tokenMark
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
