package schema

import (
	"encoding/json"

	"haft/internal/jsontree"
)

// The bounds on JSON from outside.
const (
	MaxBytes  = 8 << 20 // of one document
	MaxDepth  = 128     // of nesting
	MaxValues = 100_000 // of arguments: numbers, texts, literals, lists and objects
)

// An Object is a JSON object that remembers the order of its keys. The zero value is an
// empty object.
type Object = jsontree.Object

// A SyntaxError says where a text stops being JSON that we accept.
type SyntaxError = jsontree.SyntaxError

// Obj makes an Object of alternating keys and values. It panics if a key is not a string:
// that is a mistake of the programmer.
func Obj(pairs ...any) *Object { return jsontree.New(pairs...) }

// Decode reads one JSON document as a tree; see [jsontree.DecodePrefix]. It refuses
// documents beyond [MaxBytes] or [MaxDepth]. Numbers may be of any size.
func Decode(text []byte) (any, error) {
	return jsontree.Decode(text, jsontree.Limits{Bytes: MaxBytes, Depth: MaxDepth, AnyNumber: true})
}

// Encode writes a tree as compact JSON.
func Encode(v any) (json.RawMessage, error) { return jsontree.Encode(v) }

// Clone copies a tree deeply.
func Clone(v any) any { return jsontree.Clone(v) }
