package lettavalue

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	"haft/internal/jsontree"
)

// maxDepth bounds how deep a value may be nested to be written as Python.
const maxDepth = 1000

// Text writes a value as Python's str does: Letta returns that text for what a tool
// returned. Text that is not JSON, or nested too deep, is returned unchanged.
func Text(raw json.RawMessage) string {
	v, err := jsontree.Decode(raw, jsontree.Limits{Bytes: len(raw), Depth: maxDepth, AnyNumber: true})
	if err != nil {
		return string(raw)
	}
	if s, ok := v.(string); ok {
		return s
	}
	var b strings.Builder
	writePython(&b, v)
	return b.String()
}

// writePython writes a value as Python's repr does.
func writePython(b *strings.Builder, v any) {
	switch v := v.(type) {
	case nil:
		b.WriteString("None")
	case bool:
		if v {
			b.WriteString("True")
		} else {
			b.WriteString("False")
		}
	case json.Number:
		b.WriteString(v.String())
	case string:
		writeRepr(b, v)
	case []any:
		b.WriteByte('[')
		for i, e := range v {
			if i > 0 {
				b.WriteString(", ")
			}
			writePython(b, e)
		}
		b.WriteByte(']')
	case *jsontree.Object:
		if special, ok := specialValue(v); ok {
			switch special := special.(type) {
			case []byte:
				b.WriteByte('b')
				writeRepr(b, string(special))
			case string:
				b.WriteString(special)
			}
			return
		}
		b.WriteByte('{')
		for i, key := range v.Keys() {
			if i > 0 {
				b.WriteString(", ")
			}
			writeRepr(b, key)
			b.WriteString(": ")
			writePython(b, v.Value(key))
		}
		b.WriteByte('}')
	}
}

// writeRepr writes a text as Python's repr does: in single quotes, unless only
// those are in it.
func writeRepr(b *strings.Builder, s string) {
	quote := '\''
	if strings.ContainsRune(s, '\'') && !strings.ContainsRune(s, '"') {
		quote = '"'
	}
	b.WriteRune(quote)
	for _, r := range s {
		switch {
		case r == quote || r == '\\':
			b.WriteRune('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < ' ' || r == 0x7f || r > 0x7f && r <= 0xff && !unicode.IsPrint(r):
			fmt.Fprintf(b, `\x%02x`, r)
		case r > 0xffff && !unicode.IsPrint(r):
			fmt.Fprintf(b, `\U%08x`, r)
		case !unicode.IsPrint(r):
			fmt.Fprintf(b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteRune(quote)
}
