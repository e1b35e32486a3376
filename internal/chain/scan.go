package chain

import (
	"encoding/json"
	"unicode/utf8"
)

// maxDepth bounds the nesting of arguments, inputs and values.
const maxDepth = 128

// span is a part of a text, from its first byte to the one after its last.
type span struct{ from, to int }

// scanner walks JSON that is known to be valid. It gives parts of the text as
// they are: numbers are not read and texts not written anew.
type scanner struct {
	text []byte
	at   int
}

// space skips white space.
func (s *scanner) space() {
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return
		}
	}
}

// string skips a string and returns its span, with quotes.
func (s *scanner) string() span {
	from := s.at
	for s.at++; s.text[s.at] != '"'; s.at++ {
		if s.text[s.at] == '\\' {
			s.at++
		}
	}
	s.at++
	return span{from, s.at}
}

// skip skips one value and returns its span.
func (s *scanner) skip() span {
	s.space()
	from := s.at
	for depth := 0; s.at < len(s.text); {
		switch s.text[s.at] {
		case '"':
			s.string()
		case '{', '[':
			depth++
			s.at++
			continue
		case '}', ']':
			depth--
			s.at++
		case ',', ':', ' ', '\t', '\r', '\n':
			s.at++
			continue
		default:
			s.scalar()
		}
		if depth == 0 {
			break
		}
	}
	return span{from, s.at}
}

// scalar skips a number, true, false or null.
func (s *scanner) scalar() {
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case ',', ']', '}', ' ', '\t', '\r', '\n':
			return
		}
		s.at++
	}
}

// parts calls each for every member of the object, or element of the array, that
// begins here. Each has to skip the value. The key of elements is "".
func (s *scanner) parts(each func(key string) error) error {
	object := s.text[s.at] == '{'
	s.at++
	for {
		s.space()
		switch s.text[s.at] {
		case '}', ']':
			s.at++
			return nil
		case ',':
			s.at++
			s.space()
		}
		key := ""
		if object {
			key = decodeText(s.text, s.string())
			s.space()
			s.at++ // the colon
			s.space()
		}
		if err := each(key); err != nil {
			return err
		}
	}
}

// decodeText returns the content of a string.
func decodeText(text []byte, at span) string {
	raw := text[at.from:at.to]
	for _, c := range raw {
		if c == '\\' {
			var out string
			_ = json.Unmarshal(raw, &out) // the whole is valid
			return out
		}
	}
	return string(raw[1 : len(raw)-1])
}

// sound reports why two readers could read a JSON text differently, or why it
// cannot be walked.
func sound(text []byte) error {
	if !utf8.Valid(text) || !json.Valid(text) {
		return wrong("is not JSON in UTF-8")
	}
	s := &scanner{text: text}
	return s.check(0)
}

// check walks one value and refuses keys that come twice and what is too deep.
func (s *scanner) check(depth int) error {
	if depth > maxDepth {
		return wrong("nests deeper than %d", maxDepth)
	}
	s.space()
	switch s.text[s.at] {
	case '{':
		seen := map[string]struct{}{}
		return s.parts(func(key string) error {
			if _, twice := seen[key]; twice {
				return wrong("has a key twice")
			}
			seen[key] = struct{}{}
			return s.check(depth + 1)
		})
	case '[':
		return s.parts(func(string) error { return s.check(depth + 1) })
	}
	s.skip()
	return nil
}
