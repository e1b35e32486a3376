// Package lettavalue converts the arguments and values of tools to the form that they have in Letta.
package lettavalue

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"haft"
	"haft/internal/jsontree"
	"haft/schema"
)

// Arguments makes arguments fit a tool of Python as Letta does, or returns them as they are:
// then the call says why they do not fit.
func Arguments(v haft.Version, args json.RawMessage) json.RawMessage {
	if len(args) == 0 || string(args) == "null" {
		return args
	}
	switch v.Kind {
	case haft.KindBuiltin:
		return codeArgs(v, args)
	case haft.KindPython:
	default:
		return args
	}
	tree, err := schema.Decode(v.Parameters)
	if err != nil {
		return args
	}
	compiled, err := schema.Compile(tree)
	if err != nil {
		return args
	}
	read, err := schema.ReadArguments(args)
	if err != nil {
		return args
	}
	fitted, misfits := compiled.Fit(read, schema.FitOptions{Python: true})
	if len(misfits) > 0 {
		return args
	}
	text, err := schema.Encode(fitted)
	if err != nil {
		return args
	}
	return text
}

// codeArgs completes the arguments of a built-in tool that runs code: Letta's languages are called
// js and ts, and code without a language is Python.
func codeArgs(v haft.Version, args json.RawMessage) json.RawMessage {
	read, err := schema.ReadArguments(args)
	if err != nil || !read.Has("code") || !strings.Contains(string(v.Parameters), `"language"`) {
		return args
	}
	switch read.String("language") {
	case "js":
		read.Set("language", "javascript")
	case "ts":
		read.Set("language", "typescript")
	case "":
		read.Set("language", "python")
	}
	text, err := schema.Encode(read)
	if err != nil {
		return args
	}
	return text
}

// Plain writes bytes and numbers that JSON does not have as text, as Letta does.
func Plain(raw json.RawMessage) json.RawMessage {
	if !strings.Contains(string(raw), `"$type"`) {
		return raw
	}
	v, err := jsontree.Decode(raw, jsontree.Limits{Bytes: len(raw), Depth: maxDepth, AnyNumber: true})
	if err != nil {
		return raw
	}
	text, err := jsontree.Encode(plainTree(v))
	if err != nil {
		return raw
	}
	return text
}

// plainTree is Plain for a tree.
func plainTree(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = plainTree(v[i])
		}
	case *jsontree.Object:
		if special, ok := specialValue(v); ok {
			if b, ok := special.([]byte); ok {
				return string(b)
			}
			return special
		}
		for _, k := range v.Keys() {
			v.Set(k, plainTree(v.Value(k)))
		}
	}
	return v
}

// specialValue returns the bytes of {"$type": "bytes"}, or the text of {"$type": "float"} as
// Python has it.
func specialValue(o *jsontree.Object) (any, bool) {
	if o.Len() != 2 {
		return nil, false
	}
	switch o.String("$type") {
	case "bytes":
		b, err := base64.StdEncoding.DecodeString(o.String("base64"))
		if err == nil && utf8.Valid(b) {
			return b, true
		}
	case "float":
		text, ok := map[string]string{"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}[o.String("value")]
		return text, ok
	}
	return nil, false
}
