package auth

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"unicode/utf8"
)

// maxDepth is how deep JSON of issuers and tokens is nested.
const maxDepth = 16

var errJSON = errors.New("not one JSON object that can be read in one way only")

// strictObject reads one JSON object of which every reader would make the same.
// Names come once, at every depth: of {"sub":"a","sub":"b"} some take the first
// and some the last. They are told apart by case, unlike by encoding/json in
// structs. Text is UTF-8 and nothing follows the object. Numbers are json.Number.
func strictObject(raw []byte) (map[string]any, error) {
	if !utf8.Valid(raw) {
		return nil, errJSON
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	v, err := strictValue(dec, 0)
	if err != nil {
		return nil, err
	}
	object, ok := v.(map[string]any)
	if _, err := dec.Token(); !ok || !errors.Is(err, io.EOF) {
		return nil, errJSON
	}
	return object, nil
}

func strictValue(dec *json.Decoder, depth int) (any, error) {
	t, err := dec.Token()
	if err != nil || depth > maxDepth {
		return nil, errJSON
	}
	switch t {
	case json.Delim('{'):
		object := make(map[string]any)
		for dec.More() {
			name, err := dec.Token()
			text, ok := name.(string)
			if err != nil || !ok {
				return nil, errJSON
			}
			if _, twice := object[text]; twice {
				return nil, errJSON
			}
			if object[text], err = strictValue(dec, depth+1); err != nil {
				return nil, err
			}
		}
		_, err = dec.Token()
		return object, plain(err)
	case json.Delim('['):
		array := []any{}
		for dec.More() {
			v, err := strictValue(dec, depth+1)
			if err != nil {
				return nil, err
			}
			array = append(array, v)
		}
		_, err = dec.Token()
		return array, plain(err)
	}
	return t, nil
}

// plain hides errors of the decoder, which quote what they read.
func plain(err error) error {
	if err != nil {
		return errJSON
	}
	return nil
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
