package mcpinstall

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// maxDepth bounds how deep values of a file are nested.
const maxDepth = 100

// An object says where the members of a JSON object are in a text.
type object struct {
	open, close int // of its braces
	members     []member
}

// A member is a name and a value of an object.
type member struct {
	name              string
	start, value, end int // of the name, of the value, and behind the value
	comma             int // where the comma behind it is, or -1
}

// find returns the member of a name. A name that occurs twice is an error: clients disagree on which
// of them counts.
func (o object) find(name string) (*member, error) {
	var found *member
	for i := range o.members {
		if o.members[i].name != name {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("%q occurs twice", name)
		}
		found = &o.members[i]
	}
	return found, nil
}

// A scanner reads JSON with comments and trailing commas, as editors write their settings.
type scanner struct {
	text []byte
	at   int
}

// scanDocument finds the members of the object that a whole text is.
func scanDocument(text []byte) (object, error) {
	s := &scanner{text: text}
	if bytes.HasPrefix(text, []byte("\ufeff")) {
		s.at = len("\ufeff")
	}
	root, err := s.object(0)
	if err == nil {
		err = s.space()
	}
	if err == nil && s.at < len(text) {
		err = errors.New("there is text behind the object")
	}
	if err != nil {
		return root, fmt.Errorf("line %d: %w", 1+bytes.Count(text[:min(s.at, len(text))], []byte("\n")), err)
	}
	return root, nil
}

// space skips white space and comments.
func (s *scanner) space() error {
	for s.at < len(s.text) {
		rest := s.text[s.at:]
		switch {
		case bytes.IndexByte([]byte(" \t\r\n"), rest[0]) >= 0:
			s.at++
		case bytes.HasPrefix(rest, []byte("//")):
			n := bytes.IndexByte(rest, '\n')
			if n < 0 {
				n = len(rest)
			}
			s.at += n
		case bytes.HasPrefix(rest, []byte("/*")):
			n := bytes.Index(rest[2:], []byte("*/"))
			if n < 0 {
				return errors.New("a comment does not end")
			}
			s.at += n + 4
		default:
			return nil
		}
	}
	return nil
}

// next skips white space and comments, and returns the byte behind them, or 0 at the end.
func (s *scanner) next() (byte, error) {
	if err := s.space(); err != nil || s.at == len(s.text) {
		return 0, err
	}
	return s.text[s.at], nil
}

// object reads an object.
func (s *scanner) object(depth int) (o object, err error) {
	c, err := s.next()
	if err != nil || c != '{' {
		return o, errors.Join(err, errors.New("an object was expected"))
	}
	o.open = s.at
	s.at++
	err = s.items('}', func() error {
		m := member{start: s.at, comma: -1}
		if s.text[s.at] != '"' {
			return errors.New("a name in quotes was expected")
		}
		if err := s.scalar(); err != nil {
			return err
		}
		if err := json.Unmarshal(s.text[m.start:s.at], &m.name); err != nil {
			return fmt.Errorf("a name: %w", err)
		}
		if c, err := s.next(); err != nil || c != ':' {
			return errors.Join(err, errors.New("a colon was expected behind a name"))
		}
		s.at++
		if _, err := s.next(); err != nil {
			return err
		}
		m.value = s.at
		err := s.skipValue(depth + 1)
		m.end = s.at
		o.members = append(o.members, m)
		return err
	}, func() { o.members[len(o.members)-1].comma = s.at })
	o.close = s.at - 1
	return o, err
}

// items reads values that commas separate, up to the closing bracket. It calls item at each, and
// comma at each comma.
func (s *scanner) items(closing byte, item func() error, comma func()) error {
	for {
		c, err := s.next()
		switch {
		case err != nil:
			return err
		case c == closing:
			s.at++
			return nil
		case c == 0:
			return errors.New("the text ends too early")
		}
		if err := item(); err != nil {
			return err
		}
		switch c, err := s.next(); {
		case err != nil:
			return err
		case c == ',':
			comma()
			s.at++
		case c != closing:
			return errors.New("a comma was expected")
		}
	}
}

// skipValue reads a value.
func (s *scanner) skipValue(depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("values are nested deeper than %d", maxDepth)
	}
	c, err := s.next()
	switch {
	case err != nil:
		return err
	case c == '{':
		_, err := s.object(depth)
		return err
	case c == '[':
		s.at++
		return s.items(']', func() error { return s.skipValue(depth + 1) }, func() {})
	}
	return s.scalar()
}

// scalar reads a string, a number, true, false or null.
func (s *scanner) scalar() error {
	start, quoted := s.at, s.at < len(s.text) && s.text[s.at] == '"'
	if quoted {
		for s.at++; s.at < len(s.text) && s.text[s.at] != '"'; s.at++ {
			if s.text[s.at] == '\\' {
				s.at++
			}
		}
		s.at = min(s.at+1, len(s.text))
	}
	for !quoted && s.at < len(s.text) && !strings.ContainsRune(" \t\r\n,:{}[]\"/", rune(s.text[s.at])) {
		s.at++
	}
	if !json.Valid(s.text[start:s.at]) {
		s.at = start
		return errors.New("a value was expected")
	}
	return nil
}

// scanGroup finds the object of the group in a document. The group is nil if the document has none.
func scanGroup(text []byte, group string) (root object, inner *object, err error) {
	if root, err = scanDocument(text); err != nil {
		return root, nil, err
	}
	m, err := root.find(group)
	if err != nil || m == nil {
		return root, nil, err
	}
	if text[m.value] != '{' {
		return root, nil, fmt.Errorf("%q is not an object", group)
	}
	o, err := (&scanner{text: text, at: m.value}).object(1)
	return root, &o, err
}

// getMember returns a member of a group, or nil. It has the comments of the text.
func getMember(text []byte, group, name string) ([]byte, error) {
	if blank(text) {
		return nil, nil
	}
	_, inner, err := scanGroup(text, group)
	if err != nil || inner == nil {
		return nil, err
	}
	m, err := inner.find(name)
	if err != nil || m == nil {
		return nil, err
	}
	return text[m.value:m.end], nil
}

// setMember sets a member of a group. Everything else of the text stays as it is, also comments.
func setMember(text []byte, group, name string, value any) ([]byte, error) {
	if blank(text) {
		text = []byte("{}\n")
	}
	root, inner, err := scanGroup(text, group)
	if err != nil {
		return nil, err
	}
	if inner == nil {
		return insert(text, root, group, map[string]any{name: value})
	}
	m, err := inner.find(name)
	if err != nil {
		return nil, err
	}
	if m == nil {
		return insert(text, *inner, name, value)
	}
	formatted, err := format(text, value, indentAt(text, m.start))
	if err != nil {
		return nil, err
	}
	return splice(text, m.value, m.end, formatted), nil
}

// insert adds a member behind the others of an object and behind their comments.
func insert(text []byte, o object, name string, value any) ([]byte, error) {
	behind := o.close
	for behind > o.open+1 && strings.ContainsRune(" \t\r\n", rune(text[behind-1])) {
		behind--
	}
	eol, outer := lineEnd(text), indentAt(text, o.close)
	if bytes.IndexByte(text[o.open:o.close], '\n') < 0 {
		outer = indentAt(text, o.open)
	}
	indent, last := outer+unit(text), (*member)(nil)
	if n := len(o.members); n > 0 {
		last = &o.members[n-1]
		if onOwnLine(text, last.start) {
			indent = indentAt(text, last.start)
		}
	}
	formatted, err := format(text, value, indent)
	if err != nil {
		return nil, err
	}
	line := eol + indent + fmt.Sprintf("%q: %s", name, formatted)
	if last != nil && last.comma >= 0 {
		line += ","
	}
	if bytes.IndexByte(text[behind:o.close], '\n') < 0 {
		line += eol + outer
		text = splice(text, behind, o.close, line)
	} else {
		text = splice(text, behind, behind, line)
	}
	if last != nil && last.comma < 0 {
		text = splice(text, last.end, last.end, ",")
	}
	return text, nil
}

// removeMember removes a member of a group, and its comma. Comments stay.
func removeMember(text []byte, group, name string) ([]byte, error) {
	_, inner, err := scanGroup(text, group)
	if err != nil || inner == nil {
		return text, err
	}
	m, err := inner.find(name)
	if err != nil || m == nil {
		return text, err
	}
	start, end := m.start, m.end
	for start > 0 && strings.ContainsRune(" \t\r\n", rune(text[start-1])) {
		start--
	}
	next := text
	if m.comma >= 0 {
		next = splice(next, m.comma, m.comma+1, "")
	}
	next = splice(next, start, end, "")
	if i := slices.IndexFunc(inner.members, func(x member) bool { return x.start == m.start }); i > 0 && m.comma < 0 {
		before := inner.members[i-1].comma // it separates nothing any more
		next = splice(next, before, before+1, "")
	}
	return next, nil
}

// splice returns the text with a part of it replaced.
func splice(text []byte, from, to int, with string) []byte {
	return append(append(append(make([]byte, 0, len(text)+len(with)), text[:from]...), with...), text[to:]...)
}

// format writes a value with the indentation of the text.
func format(text []byte, value any, indent string) (string, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent(indent, unit(text))
	if err := enc.Encode(value); err != nil {
		return "", fmt.Errorf("write the entry: %w", err)
	}
	return strings.ReplaceAll(strings.TrimSpace(b.String()), "\n", lineEnd(text)), nil
}

// blank reports whether a text has nothing but white space.
func blank(text []byte) bool { return len(bytes.TrimSpace(text)) == 0 }

// lineEnd returns how lines of the text end.
func lineEnd(text []byte) string {
	if bytes.Contains(text, []byte("\r\n")) {
		return "\r\n"
	}
	return "\n"
}

// unit returns the first indentation of the text, or two spaces.
func unit(text []byte) string {
	for line := range bytes.Lines(text) {
		if n := len(line) - len(bytes.TrimLeft(line, " \t")); n > 0 && n <= 8 && !blank(line) {
			return string(line[:n])
		}
	}
	return "  "
}

// indentAt returns the indentation of the line of an offset.
func indentAt(text []byte, at int) string {
	line := text[bytes.LastIndexByte(text[:at], '\n')+1 : at]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}

// onOwnLine reports whether only white space is before an offset in its line.
func onOwnLine(text []byte, at int) bool {
	return blank(text[bytes.LastIndexByte(text[:at], '\n')+1 : at])
}
