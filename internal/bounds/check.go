package bounds

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"haft"
)

// ErrSyntax says that a text is no JSON, as far as one can see who only counts.
var ErrSyntax = &haft.Error{Code: haft.CodeInvalid, Message: "this is not JSON"}

// Check reports the first bound that text passes: a [*haft.Error] with
// [haft.CodeInvalid] whose misfit names the place, and no value. Text that is no
// JSON is [ErrSyntax]. Shape may be nil.
func Check(text []byte, limits Limits, shape *Shape) error {
	_, err := Count(text, limits, shape)
	return err
}

// Count is [Check] that also returns how many values there are, for whoever bounds
// several texts together.
func Count(text []byte, limits Limits, shape *Shape) (int, error) {
	s := scanner{text: text, limits: limits}
	s.limits.Depth = cmp.Or(limits.Depth, deepest)
	s.space()
	if err := s.value(shape, 0); err != nil {
		return s.values, said(err)
	}
	if s.space(); s.pos != len(text) {
		return s.values, ErrSyntax
	}
	return s.values, nil
}

// A passed is a bound that was passed. Places are collected on the way out, so that
// nobody has to remember them on the way in.
type passed struct {
	message string
	path    []string // last first
}

// Error implements error.
func (p *passed) Error() string { return p.message }

// at adds where in its container a value stands.
func at(err error, place string) error {
	if p, ok := errors.AsType[*passed](err); ok {
		p.path = append(p.path, place)
	}
	return err
}

// maxShown is how many parts of a pointer are told.
const maxShown = 12

// said is the error for outside.
func said(err error) error {
	p, ok := errors.AsType[*passed](err)
	if !ok {
		return err
	}
	pointer := ""
	slices.Reverse(p.path)
	for i, part := range p.path {
		if i == maxShown {
			pointer += "/…"
			break
		}
		pointer += "/" + part
	}
	where := pointer
	if where == "" {
		where = "the whole"
	}
	return &haft.Error{Code: haft.CodeInvalid, Message: where + ": " + p.message,
		Misfits: []haft.Misfit{{Pointer: pointer, Message: p.message}}}
}

// scanner counts what stands in a text.
type scanner struct {
	text   []byte
	pos    int
	limits Limits
	values int
}

// space passes over white space.
func (s *scanner) space() {
	for s.pos < len(s.text) {
		switch s.text[s.pos] {
		case ' ', '\t', '\r', '\n':
			s.pos++
		default:
			return
		}
	}
}

// value counts the value that begins here.
func (s *scanner) value(shape *Shape, depth int) error {
	if s.pos >= len(s.text) {
		return ErrSyntax
	}
	if s.values++; s.limits.Values > 0 && s.values > s.limits.Values {
		return &passed{message: fmt.Sprintf("there are more than %d values in all", s.limits.Values)}
	}
	switch c := s.text[s.pos]; c {
	case '{', '[':
		if depth++; depth > s.limits.Depth {
			return &passed{message: fmt.Sprintf("expected at most %d levels of nesting", s.limits.Depth)}
		}
		if c == '{' {
			return s.object(shape, depth)
		}
		return s.array(shape, depth)
	case '"':
		text, err := s.quoted()
		if err == nil && shape != nil && shape.Text > 0 && longer(text, shape.Text) {
			return &passed{message: "expected length <= " + strconv.Itoa(shape.Text)}
		}
		return err
	}
	return s.literal()
}

// literal passes over a number, true, false or null.
func (s *scanner) literal() error {
	begin := s.pos
	for s.pos < len(s.text) {
		c := s.text[s.pos]
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && c != '-' && c != '+' && c != '.' && c != 'E' {
			break
		}
		s.pos++
	}
	switch n := s.pos - begin; {
	case n == 0:
		return ErrSyntax
	case s.limits.Number > 0 && n > s.limits.Number:
		return &passed{message: fmt.Sprintf("expected a number of at most %d characters", s.limits.Number)}
	}
	return nil
}

// quoted passes over a text and returns what stands between its quotes.
func (s *scanner) quoted() ([]byte, error) {
	begin := s.pos + 1
	for i := begin; ; {
		n := bytes.IndexByte(s.text[i:], '"')
		if n < 0 {
			return nil, ErrSyntax
		}
		end := i + n
		slashes := 0
		for end-1-slashes >= begin && s.text[end-1-slashes] == '\\' {
			slashes++
		}
		if i = end + 1; slashes%2 == 0 {
			s.pos = i
			return s.text[begin:end], nil
		}
	}
}

// array counts the elements of an array.
func (s *scanner) array(shape *Shape, depth int) error {
	most, item := 0, (*Shape)(nil)
	if shape != nil {
		most, item = shape.Items, shape.Item
	}
	s.pos++
	if s.space(); s.take(']') {
		return nil
	}
	for n := 0; ; n++ {
		if most > 0 && n >= most {
			return &passed{message: "expected array length <= " + strconv.Itoa(most)}
		}
		if err := s.value(item, depth); err != nil {
			return at(err, strconv.Itoa(n))
		}
		s.space()
		if s.take(']') {
			return nil
		}
		if !s.take(',') {
			return ErrSyntax
		}
		s.space()
	}
}

// object counts the members of an object.
func (s *scanner) object(shape *Shape, depth int) error {
	most := s.limits.Members
	if shape != nil && shape.Members > 0 {
		most = shape.Members
	}
	s.pos++
	if s.space(); s.take('}') {
		return nil
	}
	seen := uint64(0)
	for n := 1; ; n++ {
		if most > 0 && n > most {
			return &passed{message: "expected at most " + strconv.Itoa(most) + " members"}
		}
		if err := s.member(shape, depth, &seen); err != nil {
			return err
		}
		s.space()
		if s.take('}') {
			return nil
		}
		if !s.take(',') {
			return ErrSyntax
		}
		s.space()
	}
}

// member counts one name and its value.
func (s *scanner) member(shape *Shape, depth int, seen *uint64) error {
	if s.pos >= len(s.text) || s.text[s.pos] != '"' {
		return ErrSyntax
	}
	name, err := s.quoted()
	if err != nil {
		return err
	}
	if s.limits.Name > 0 && len(name) > s.limits.Name {
		return &passed{message: fmt.Sprintf("expected names of at most %d bytes", s.limits.Name)}
	}
	inner, err := shape.member(name, seen)
	if err != nil {
		return err
	}
	if s.space(); !s.take(':') {
		return ErrSyntax
	}
	s.space()
	if err := s.value(inner, depth); err != nil {
		return at(err, shown(name))
	}
	return nil
}

// member returns the shape of a member, which must be one that may stand there.
func (s *Shape) member(name []byte, seen *uint64) (*Shape, error) {
	if s == nil {
		return nil, nil
	}
	f, ok := s.fields[string(name)]
	plain := name
	if !ok && bytes.IndexByte(name, '\\') >= 0 && len(name) <= 6*100 {
		var text string // it may be a field that is written with escapes
		if json.Unmarshal(slices.Concat([]byte{'"'}, name, []byte{'"'}), &text) != nil {
			return nil, ErrSyntax
		}
		f, ok = s.fields[text]
		plain = []byte(text)
	}
	switch {
	case ok && *seen&f.bit != 0:
		// A decoder merges the two, and a validator sees the second only.
		return nil, at(&passed{message: "a name stands there twice"}, shown(name))
	case ok:
		*seen |= f.bit
		return f.shape, nil
	case s.Closed || s.folds(plain):
		return nil, at(&passed{message: "unexpected property"}, shown(name))
	case s.Name > 0 && len(name) > s.Name:
		return nil, &passed{message: fmt.Sprintf("expected names of at most %d bytes", s.Name)}
	}
	return s.Rest, nil
}

// folds reports whether a name is that of a field in another case: a decoder takes it for the field, whose bounds it
// would pass.
func (s *Shape) folds(name []byte) bool {
	for _, f := range s.fields {
		if bytes.EqualFold(f.name, name) {
			return true
		}
	}
	return false
}

// take passes over one character, if it is there.
func (s *scanner) take(c byte) bool {
	if s.pos < len(s.text) && s.text[s.pos] == c {
		s.pos++
		return true
	}
	return false
}

// longer reports whether a text, as it stands between its quotes, has more than
// most characters.
func longer(text []byte, most int) bool {
	if len(text) <= most {
		return false
	}
	n := 0
	for i := 0; i < len(text) && n <= most; n++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text) && text[i+1] == 'u':
			i += 6
			if high(text, i-6) && low(text, i) {
				i += 6 // two halves of one character
			}
		case c == '\\':
			i += 2
		case c < utf8.RuneSelf:
			i++
		default:
			_, size := utf8.DecodeRune(text[i:])
			i += size
		}
	}
	return n > most
}

// high and low report whether the first or the second half of a surrogate pair
// stands at i.
func high(text []byte, i int) bool { return half(text, i, "89abAB") }
func low(text []byte, i int) bool  { return half(text, i, "cdefCDEF") }

func half(text []byte, i int, third string) bool {
	return i+6 <= len(text) && text[i] == '\\' && text[i+1] == 'u' && (text[i+2] == 'd' || text[i+2] == 'D') &&
		strings.IndexByte(third, text[i+3]) >= 0
}

// shown is a name in a pointer. One that does not look like a name is not told,
// because it may be a value.
func shown(name []byte) string {
	if len(name) == 0 || len(name) > 64 {
		return "…"
	}
	for _, c := range name {
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '_' && c != '-' && c != '$' &&
			c != '.' {
			return "…"
		}
	}
	return string(name)
}
