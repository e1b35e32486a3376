package auth

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/go-jose/go-jose/v4/json"
)

// maxDepth is how deep JSON of issuers and tokens is nested.
const maxDepth = 16

var errJSON = errors.New("not one JSON object that can be read in one way only")

// strictObject reads one JSON object of which every reader would make the same.
// Names come once, at every depth: of {"sub":"a","sub":"b"} some take the first
// and some the last. The decoder of go-jose sees to that, and tells names apart by
// case. Text is UTF-8 and nothing follows the object. Numbers are json.Number. Errors
// of the decoder quote what they read, and so are not handed on.
func strictObject(raw []byte) (map[string]any, error) {
	if tooDeep(raw) {
		return nil, errJSON
	}
	var object map[string]any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&object); err != nil || object == nil || !utf8.Valid(raw) {
		return nil, errJSON
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errJSON
	}
	return object, nil
}

// tooDeep reports whether arrays and objects are nested deeper than maxDepth. It looks
// at the text, because the decoder goes down thousands of levels, and so takes a
// megabyte of stack for a token that nobody has signed.
func tooDeep(raw []byte) bool {
	depth, quoted := 0, false
	for i := 0; i < len(raw); i++ {
		switch b := raw[i]; {
		case quoted && b == '\\':
			i++
		case b == '"':
			quoted = !quoted
		case quoted:
		case b == '[' || b == '{':
			if depth++; depth > maxDepth {
				return true
			}
		case b == ']' || b == '}':
			depth--
		}
	}
	return false
}

// decode64 reads base64url in its one canonical form, unlike go-jose. The decoder
// itself passes over line breaks even if it is strict.
func decode64(s string) ([]byte, error) {
	if strings.ContainsAny(s, "\r\n") {
		return nil, errors.New("a line break in base64")
	}
	return base64.RawURLEncoding.Strict().DecodeString(s)
}

// textOf returns the text of that name: "" if it is not there, and not ok if it is
// something else.
func textOf(object map[string]any, name string) (text string, ok bool) {
	v, there := object[name]
	if !there {
		return "", true
	}
	text, ok = v.(string)
	return text, ok && text != ""
}

// textsOf reads one text or a list of them.
func textsOf(v any) ([]string, bool) {
	switch v := v.(type) {
	case string:
		return []string{v}, true
	case []any:
		all := make([]string, len(v))
		for i, e := range v {
			text, ok := e.(string)
			if !ok {
				return nil, false
			}
			all[i] = text
		}
		return all, true
	}
	return nil, false
}
