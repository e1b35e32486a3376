// Package yamltree reads documents in YAML that people write into Go values, strictly: what a document has and
// the value does not is an error, and every error says where, as FILE:LINE:COLUMN.
package yamltree

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"haft"
)

// The bounds on documents.
const (
	MaxBytes = 4 << 20
	maxDepth = 32
	maxNodes = 200_000
)

// A node is one value of a document. Line and column are where it begins.
type node struct {
	line, column int
	keys         []*node // of a mapping
	items        []*node // of a mapping or a list
	kind         kind
	text         string // of a scalar
	raw          json.RawMessage
}

// kind says what a node is.
type kind string

const (
	aScalar  kind = "value"
	aMapping kind = "mapping"
	aList    kind = "list"
)

// A reader reads one document. It keeps the first error.
type reader struct {
	name  string
	nodes int
	err   error
}

// failAt keeps an error about a place.
func (r *reader) failAt(line, column int, format string, args ...any) {
	if r.err == nil {
		r.err = &haft.Error{Code: haft.CodeInvalid,
			Message: fmt.Sprintf("%s:%d:%d: ", r.name, line, column) + fmt.Sprintf(format, args...)}
	}
}

// fail keeps an error about a node.
func (r *reader) fail(n *node, format string, args ...any) {
	r.failAt(n.line, n.column, format, args...)
}

// Read reads a document into the value that to points to. Its fields are named by their json tags, or by their yaml
// tags. A list may be a single value, and durations and sizes may have units. The name is that of the file, for errors.
func Read(name string, text []byte, to any) error {
	r := &reader{name: name}
	root := r.parse(text)
	if r.err == nil {
		r.into(root, to)
	}
	return r.err
}

// parse makes the tree of a document.
func (r *reader) parse(text []byte) *node {
	switch {
	case len(text) > MaxBytes:
		r.failAt(1, 1, "the file has %d bytes, %d is the most", len(text), MaxBytes)
	case !utf8.Valid(text):
		r.failAt(1, 1, "the file is not text in UTF-8")
	case slices.ContainsFunc(text, func(b byte) bool { return b < ' ' && b != '\n' && b != '\t' && b != '\r' }):
		r.failAt(1, 1, "the file has control characters: write them as \"\\x1b\" in quotes")
	}
	if r.err != nil {
		return nil
	}
	tokens := lexer.Tokenize(string(text))
	if r.checkTokens(tokens); r.err != nil {
		return nil
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		r.syntax(err)
		return nil
	}
	docs := slices.DeleteFunc(file.Docs, func(doc *ast.DocumentNode) bool { return doc.Body == nil })
	if len(docs) != 1 {
		r.failAt(1, 1, "expected one document, found %d", len(docs))
		return nil
	}
	return r.node(docs[0].Body, 0)
}

// checkTokens refuses what makes readers of YAML slow or deep: anchors, aliases, tags, complex keys and nesting
// without end. The parser is recursive, so that this comes before it.
func (r *reader) checkTokens(tokens token.Tokens) {
	depth, run, line := 0, 0, 0
	for _, t := range tokens {
		if t.Position.Line != line {
			line, run = t.Position.Line, 0
		}
		switch t.Type {
		case token.AnchorType, token.AliasType, token.TagType, token.MergeKeyType, token.DirectiveType,
			token.MappingKeyType:
			r.failAt(t.Position.Line, t.Position.Column, "anchors, aliases, tags, directives and complex keys are not "+
				"read: put texts with special characters in quotes")
		case token.InvalidType:
			r.failAt(t.Position.Line, t.Position.Column, "this is not YAML")
		case token.SequenceStartType, token.MappingStartType:
			depth++
			run = 0
		case token.SequenceEndType, token.MappingEndType:
			depth--
			run = 0
		case token.CollectEntryType:
			run = 0
		case token.SequenceEntryType, token.MappingValueType:
			run++
		}
		if depth > maxDepth || run > maxDepth {
			r.failAt(t.Position.Line, t.Position.Column, "this is nested too deep")
		}
		if r.err != nil {
			return
		}
	}
}

// syntax keeps an error of the parser, without the piece of source that it adds.
func (r *reader) syntax(err error) {
	line, column, message := 1, 1, "this is not YAML"
	if e, ok := errors.AsType[yaml.Error](err); ok {
		if t := e.GetToken(); t != nil && t.Position != nil {
			line, column = t.Position.Line, t.Position.Column
		}
		message = e.GetMessage()
	}
	r.failAt(line, column, "%s", short(message))
}

// node makes a node of the parser's.
func (r *reader) node(n ast.Node, depth int) *node {
	out := &node{line: 1, column: 1, kind: aScalar}
	if t := n.GetToken(); t != nil && t.Position != nil {
		out.line, out.column = t.Position.Line, t.Position.Column
	}
	if r.nodes++; r.nodes > maxNodes || depth > maxDepth {
		r.fail(out, "there is too much in this file, or it is nested too deep")
	}
	if r.err != nil {
		return out
	}
	switch x := n.(type) {
	case ast.MapNode:
		r.mapping(out, x, depth)
	case *ast.SequenceNode:
		out.kind = aList
		for _, item := range x.Values {
			out.items = append(out.items, r.node(item, depth+1))
		}
	case *ast.StringNode:
		out.setText(x.Value)
	case *ast.LiteralNode:
		out.setText(x.Value.Value)
	case *ast.NullNode:
		out.text, out.raw = "null", json.RawMessage("null")
	case *ast.BoolNode:
		out.text, out.raw = fmt.Sprint(x.Value), json.RawMessage(fmt.Sprint(x.Value))
	case *ast.IntegerNode:
		r.number(out, x.GetToken().Value, x.Value)
	case *ast.FloatNode:
		r.number(out, x.GetToken().Value, x.Value)
	default:
		r.fail(out, "JSON has no such value: put a text in quotes")
	}
	return out
}

// setText makes a node a text.
func (n *node) setText(text string) {
	raw, _ := json.Marshal(text) // a string always can be
	n.text, n.raw = text, raw
}

// number makes a node a number: as it is written, if JSON writes it so too.
func (r *reader) number(out *node, text string, value any) {
	if json.Valid([]byte(text)) {
		out.text, out.raw = text, json.RawMessage(text)
		return
	}
	raw, err := json.Marshal(value)
	if err != nil {
		r.fail(out, "JSON has no such number")
		return
	}
	out.text, out.raw = string(raw), raw
}

// mapping reads the pairs of a mapping.
func (r *reader) mapping(out *node, m ast.MapNode, depth int) {
	out.kind = aMapping
	for it := m.MapRange(); it.Next(); {
		key := r.node(it.Key(), depth+1)
		if len(out.keys) == 0 && key.line >= out.line {
			if x, ok := m.(*ast.MappingNode); !ok || !x.IsFlowStyle {
				out.line, out.column = key.line, key.column
			}
		}
		if r.err == nil && key.kind != aScalar {
			r.fail(key, "a key must be a text")
		}
		if slices.ContainsFunc(out.keys, func(k *node) bool { return k.text == key.text }) {
			r.fail(key, "%q comes twice", short(key.text))
		}
		out.keys = append(out.keys, key)
		out.items = append(out.items, r.node(it.Value(), depth+1))
		if r.err != nil {
			return
		}
	}
}

// json returns the node as JSON, with the keys in their order.
func (n *node) json() json.RawMessage {
	var b bytes.Buffer
	n.writeJSON(&b)
	return b.Bytes()
}

// writeJSON writes the node as JSON.
func (n *node) writeJSON(b *bytes.Buffer) {
	switch n.kind {
	case aScalar:
		b.Write(n.raw)
		return
	case aList:
		b.WriteByte('[')
	case aMapping:
		b.WriteByte('{')
	}
	for i, item := range n.items {
		if i > 0 {
			b.WriteByte(',')
		}
		if n.kind == aMapping {
			key, _ := json.Marshal(n.keys[i].text) // a string always can be
			b.Write(key)
			b.WriteByte(':')
		}
		item.writeJSON(b)
	}
	b.WriteByte(map[kind]byte{aList: ']', aMapping: '}'}[n.kind])
}

// short makes a text of a document fit for a message.
func short(text string) string {
	const most = 80
	text = strings.Map(func(c rune) rune {
		if c < ' ' {
			return ' '
		}
		return c
	}, text)
	if r := []rune(text); len(r) > most {
		return string(r[:most]) + "…"
	}
	return text
}

// Write writes a value as YAML, with the names that it has in JSON.
func Write(v any) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("write YAML: %w", err)
	}
	text, err := yaml.JSONToYAML(raw)
	if err != nil {
		return nil, fmt.Errorf("write YAML: %w", err)
	}
	return text, nil
}
