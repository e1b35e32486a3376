package auth

import (
	"encoding/base64"
	"errors"
	"strings"

	"haft/internal/jsontree"
)

// maxDepth is how deep JSON of issuers and tokens is nested.
const maxDepth = 16

var errJSON = errors.New("not one JSON object that can be read in one way only")

// strictObject reads one JSON object that every reader understands in the same way: names
// come once at every depth (of {"sub":"a","sub":"b"} some readers take the first and some the
// last), text is UTF-8, and nothing follows the object. The depth is bounded because the text is
// not verified yet. Errors of the decoder are not returned.
func strictObject(raw []byte) (map[string]any, error) {
	v, err := jsontree.Decode(raw, jsontree.Limits{Bytes: len(raw), Depth: maxDepth, AnyNumber: true})
	if _, ok := v.(*jsontree.Object); err != nil || !ok {
		return nil, errJSON
	}
	return jsontree.Plain(v).(map[string]any), nil
}

// decode64 reads base64url in its one canonical form, unlike go-jose. The decoder
// itself passes over line breaks even if it is strict.
func decode64(s string) ([]byte, error) {
	if strings.ContainsAny(s, "\r\n") {
		return nil, errors.New("a line break in base64")
	}
	return base64.RawURLEncoding.Strict().DecodeString(s)
}

// textOf returns the text of that name: "" if there is none, and not ok if it is no text or
// empty.
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
