package schema

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// asPython converts a value that its declared type refuses as Python would:
//
//	declared        given                   becomes
//	string          123, 1.5, true          "123", "1.5", "True"
//	boolean         0, 1                    false, true
//	array, object   the text of a literal   the array or object, such as "[1, {'a': None}]"
//
// As with coerce, only one type may remain, besides null.
func asPython(declared typeSet, v any, maxDepth int) any {
	if declared == typeAny || declared&typeOf(v) != 0 {
		return v
	}
	switch declared &^ typeNull {
	case typeString:
		switch v := v.(type) {
		case json.Number:
			return v.String()
		case bool:
			if v {
				return "True"
			}
			return "False"
		}
	case typeBoolean:
		if n, ok := v.(json.Number); ok && (n == "0" || n == "1") {
			return n == "1"
		}
	case typeArray, typeObject:
		if s, ok := v.(string); ok {
			if text, ok := literalJSON(strings.TrimSpace(s)); ok {
				return coerceContainer(declared, text, maxDepth)
			}
		}
	}
	return v
}

// literalJSON rewrites a literal of Python as JSON: texts in single quotes, True, False, None,
// tuples, and commas at the end. What it does not know it leaves for the reader of JSON to refuse.
func literalJSON(s string) (string, bool) {
	if len(s) > MaxBytes || !utf8.ValidString(s) {
		return "", false
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '\'' || c == '"':
			n, ok := literalText(&b, s[i:])
			if !ok {
				return "", false
			}
			i += n
			continue
		case c == '(':
			c = '['
		case c == ')':
			c = ']'
		case c == ',' && endsNext(s[i+1:]):
			i++
			continue
		case c >= 'A' && c <= 'Z':
			name, rest := "", s[i:]
			for from, to := range map[string]string{"True": "true", "False": "false", "None": "null"} {
				if strings.HasPrefix(rest, from) {
					name = from
					b.WriteString(to)
				}
			}
			if name == "" {
				return "", false
			}
			i += len(name)
			continue
		}
		b.WriteByte(c)
		i++
	}
	return b.String(), true
}

// endsNext reports whether a bracket is closed after white space.
func endsNext(s string) bool {
	s = strings.TrimLeft(s, " \t\r\n")
	return s != "" && strings.IndexByte("])}", s[0]) >= 0
}

// literalText writes the text that s begins with as JSON, and returns how long it is in s.
func literalText(b *strings.Builder, s string) (int, bool) {
	quote := s[0]
	b.WriteByte('"')
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == quote:
			b.WriteByte('"')
			return i + 1, true
		case c == '\\' && i+1 < len(s) && s[i+1] == '\'':
			b.WriteByte('\'')
			i++
		case c == '\\' && i+1 < len(s) && strings.IndexByte(`"\bfnrtu`, s[i+1]) >= 0:
			b.WriteString(s[i : i+2])
			i++
		case c == '"':
			b.WriteString(`\"`)
		case c == '\\' || c < ' ':
			return 0, false
		default:
			b.WriteByte(c)
		}
	}
	return 0, false
}
