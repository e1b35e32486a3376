package letta

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// pythonText writes a value as Python's str does: Letta returns that text for what a tool
// returned. Text that is not JSON is returned unchanged.
func pythonText(raw json.RawMessage) string {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	t, err := d.Token()
	if err != nil {
		return string(raw)
	}
	if s, ok := t.(string); ok {
		return s
	}
	var b strings.Builder
	if err := writePython(&b, d, t, maxDepth); err != nil {
		return string(raw)
	}
	return b.String()
}

// maxDepth bounds how deep a value is written: one that nobody reads stays JSON.
const maxDepth = 1000

// errDeep says that a value is deeper.
var errDeep = errors.New("the value is too deep")

// writePython writes the value that begins with t.
func writePython(b *strings.Builder, d *json.Decoder, t json.Token, depth int) error {
	switch v := t.(type) {
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
	case json.Delim:
		return writeContainer(b, d, v, depth-1)
	}
	return nil
}

// writeContainer writes a list or a dict, whose beginning was read.
func writeContainer(b *strings.Builder, d *json.Decoder, open json.Delim, depth int) error {
	if depth < 0 {
		return errDeep
	}
	b.WriteString(open.String())
	for n := 0; d.More(); n++ {
		if n > 0 {
			b.WriteString(", ")
		}
		for part := range 2 {
			if part == 1 {
				if open == '[' {
					break
				}
				b.WriteString(": ")
			}
			t, err := d.Token()
			if err != nil {
				return err
			}
			if err := writePython(b, d, t, depth); err != nil {
				return err
			}
		}
	}
	end, err := d.Token()
	if err != nil {
		return err
	}
	b.WriteString(end.(json.Delim).String())
	return nil
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
