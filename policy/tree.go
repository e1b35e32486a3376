package policy

import (
	"encoding/json"
	"strings"

	"haft/internal/jsontree"
)

// The bounds on values that are judged. They are those of the other packages.
const (
	MaxArgs   = 8 << 20  // bytes of arguments
	MaxValue  = 64 << 20 // bytes of a result
	maxLevels = 128      // of nesting
)

// readArgs reads the arguments of a call, which are an object. No arguments are
// an empty one.
func readArgs(raw json.RawMessage) (*jsontree.Object, error) {
	if len(raw) == 0 {
		return &jsontree.Object{}, nil
	}
	tree, err := readTree(raw, MaxArgs)
	if err != nil {
		return nil, err
	}
	o, ok := tree.(*jsontree.Object)
	if !ok {
		return nil, wrong("the arguments are not an object")
	}
	return o, nil
}

// tree returns the arguments as a tree. A tree whose text is too long is refused like the text.
func (r *Request) tree() (*jsontree.Object, error) {
	if r.Tree != nil && len(r.Args) <= MaxArgs {
		return r.Tree, nil
	}
	return readArgs(r.Args)
}

// readTree reads JSON. It refuses what two readers could read differently: a key
// that comes twice, text that is not UTF-8.
func readTree(raw json.RawMessage, most int) (any, error) {
	tree, err := jsontree.Decode(raw, jsontree.Limits{Bytes: most, Depth: maxLevels, AnyNumber: true})
	if err != nil {
		return nil, wrong("the value cannot be read: %v", err)
	}
	return tree, nil
}

// A place is a pattern of JSON Pointers: "/headers/*" is every header. It means
// what it points to and everything below.
type place []string

// parsePlace reads "/a/b", or "a" for "/a".
func parsePlace(text string) (place, error) {
	if !strings.HasPrefix(text, "/") {
		if strings.ContainsAny(text, "/~") || text == "" {
			return nil, wrong("a place is the name of an argument or a JSON Pointer such as /headers/*")
		}
		return place{text}, nil
	}
	parts := strings.Split(text[1:], "/")
	for i, p := range parts {
		if rest := strings.NewReplacer("~0", "", "~1", "").Replace(p); strings.Contains(rest, "~") {
			return nil, wrong("in a JSON Pointer ~ is written ~0 and / is written ~1")
		}
		parts[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(p)
	}
	return parts, nil
}

// covers reports whether the way leads to the place or below it.
func (p place) covers(way []string) bool {
	if len(way) < len(p) {
		return false
	}
	for i, part := range p {
		if part != "*" && part != way[i] {
			return false
		}
	}
	return true
}

// String writes the place as [parsePlace] reads it.
func (p place) String() string {
	var b strings.Builder
	for _, part := range p {
		b.WriteByte('/')
		b.WriteString(strings.NewReplacer("~", "~0", "/", "~1").Replace(part))
	}
	return b.String()
}

// pointer writes a way as a JSON Pointer, fit for a message: long keys are cut.
func pointer(way []string) string {
	shown := make(place, len(way))
	for i, part := range way {
		shown[i] = short(part)
	}
	return shown.String()
}
