package schemacase

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"

	"haft/internal/jsontree"
	"haft/schema"
)

// maxShrinks bounds how often Shrink asks.
const maxShrinks = 400

// Shrink returns smaller arguments with which fails still reports true, as small as they get by
// leaving out parts and by replacing values by simpler ones. It asks at most 400 times. Text that is
// no JSON is made shorter.
func Shrink(args []byte, fails func([]byte) bool) json.RawMessage {
	left := maxShrinks
	still := func(text []byte) bool {
		left--
		return left >= 0 && fails(text)
	}
	tree, err := schema.Decode(args)
	if err != nil {
		return shorter(args, still)
	}
	for again := true; again && left > 0; {
		again = false
		for smaller := range simpler(tree) {
			text, err := schema.Encode(smaller)
			if err == nil && less(text, args) && still(text) {
				tree, args, again = smaller, text, true
				break
			}
		}
	}
	return args
}

// less orders texts by length and then by characters, so that shrinking ends.
func less(a, b []byte) bool { return len(a) < len(b) || len(a) == len(b) && bytes.Compare(a, b) < 0 }

// shorter leaves out parts of a text, large ones first.
func shorter(text []byte, still func([]byte) bool) json.RawMessage {
	for size := len(text) / 2; size > 0; size /= 2 {
		for at := 0; at+size <= len(text); {
			if rest := slices.Concat(text[:at], text[at+size:]); still(rest) {
				text = rest
			} else {
				at += size
			}
		}
	}
	return text
}

// simpler yields copies of a tree with one part left out or replaced, from the outside in.
func simpler(tree any) func(yield func(any) bool) {
	return func(yield func(any) bool) {
		for path, v := range jsontree.All(tree) {
			if len(path) == 0 {
				continue
			}
			if !yield(without(tree, path)) {
				return
			}
			for _, w := range simplerValues(v) {
				other := schema.Clone(tree)
				if jsontree.Set(other, path, w); !yield(other) {
					return
				}
			}
		}
	}
}

// without returns a copy of a tree that lacks the value at path.
func without(tree any, path []string) any {
	out := schema.Clone(tree)
	last := len(path) - 1
	parent, _ := jsontree.At(out, path[:last])
	switch node := parent.(type) {
	case *schema.Object:
		node.Delete(path[last])
	case []any:
		i, _ := strconv.Atoi(path[last]) // jsontree.All has made it of a number
		rest := slices.Delete(node, i, i+1)
		if last == 0 {
			return rest
		}
		jsontree.Set(out, path[:last], rest)
	}
	return out
}

// simplerValues are what a value is replaced by, the simplest first.
func simplerValues(v any) []any {
	switch v := v.(type) {
	case string:
		r := []rune(v)
		return []any{"", "a", string(r[:len(r)/2]), string(r[len(r)/2:])}
	case json.Number:
		values := []any{json.Number("0"), json.Number("1")}
		if i, err := v.Int64(); err == nil {
			values = append(values, json.Number(strconv.FormatInt(i/2, 10)), json.Number(strconv.FormatInt(i-1, 10)))
		}
		return values
	case bool:
		return []any{false}
	}
	return nil
}
