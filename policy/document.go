package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
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
	MaxDocument = 256 << 10 // bytes
	maxNesting  = 16
	maxList     = 1000 // entries of one list
	maxText     = 1000 // characters of one text
)

// document reads YAML by its tree, so that every complaint has a line. It keeps
// the first one and reads on with zero values.
type document struct {
	err error
}

// failAt complains about a place.
func (d *document) failAt(pos *token.Position, format string, args ...any) {
	if d.err == nil {
		d.err = &haft.Error{Code: haft.CodeInvalid,
			Message: fmt.Sprintf("line %d, column %d: ", pos.Line, pos.Column) + fmt.Sprintf(format, args...)}
	}
}

// fail complains about a node.
func (d *document) fail(n ast.Node, format string, args ...any) {
	d.failAt(position(n), format, args...)
}

// position returns where a node begins.
func position(n ast.Node) *token.Position {
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) > 0 && !m.IsFlowStyle {
		return m.Values[0].Key.GetToken().Position
	}
	if t := n.GetToken(); t != nil && t.Position != nil {
		return t.Position
	}
	return &token.Position{Line: 1, Column: 1}
}

// parse returns the one tree of a document.
func (d *document) parse(text []byte) ast.Node {
	start := &token.Position{Line: 1, Column: 1}
	switch {
	case len(text) > MaxDocument:
		d.failAt(start, "the policy has %d bytes, %d is the most", len(text), MaxDocument)
		return nil
	case !utf8.Valid(text):
		d.failAt(start, "the policy is not text in UTF-8")
		return nil
	case slices.ContainsFunc(text, func(b byte) bool { return b < ' ' && b != '\n' && b != '\t' && b != '\r' }):
		d.failAt(start, "the policy holds control characters")
		return nil
	}
	tokens := lexer.Tokenize(string(text))
	if d.checkTokens(tokens); d.err != nil {
		return nil
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		d.syntax(err)
		return nil
	}
	docs := slices.DeleteFunc(file.Docs, func(doc *ast.DocumentNode) bool { return doc.Body == nil })
	if len(docs) != 1 {
		d.failAt(start, "a policy is one document, this is %d", len(docs))
		return nil
	}
	return docs[0].Body
}

// checkTokens refuses what a policy has no need of and what makes readers of YAML slow
// or deep: anchors, aliases, tags, complex keys and nesting without end.
func (d *document) checkTokens(tokens token.Tokens) {
	depth, dashes, colons, line := 0, 0, 0, 0
	for _, t := range tokens {
		if t.Position.Line != line {
			line, dashes, colons = t.Position.Line, 0, 0
		}
		switch t.Type {
		case token.AnchorType, token.AliasType, token.TagType, token.MergeKeyType, token.DirectiveType,
			token.MappingKeyType:
			d.failAt(t.Position, "%q: a policy has no anchors, aliases, tags, directives or complex keys; put texts "+
				"with special characters in quotes", short(t.Value))
		case token.InvalidType:
			d.failAt(t.Position, "this is not YAML")
		case token.SequenceStartType, token.MappingStartType:
			depth++
			colons = 0
		case token.SequenceEndType, token.MappingEndType:
			depth--
			colons = 0
		case token.CollectEntryType:
			colons = 0
		case token.SequenceEntryType:
			dashes++
			colons = 0
		case token.MappingValueType:
			colons++
		}
		if depth > maxNesting || dashes > maxNesting || colons > maxNesting {
			d.failAt(t.Position, "this is nested too deep")
		}
		if d.err != nil {
			return
		}
	}
}

// syntax keeps a complaint of the parser, without the piece of source that it
// adds.
func (d *document) syntax(err error) {
	pos := &token.Position{Line: 1, Column: 1}
	message := "this is not YAML"
	if e, ok := errors.AsType[yaml.Error](err); ok {
		if t := e.GetToken(); t != nil && t.Position != nil {
			pos = t.Position
		}
		message = e.GetMessage()
	}
	d.failAt(pos, "%s", short(message))
}

// field reads one field of a mapping.
type field func(ast.Node)

// object reads a mapping. A field that is not among fields is an error, and so is
// one that comes twice.
func (d *document) object(n ast.Node, what string, fields map[string]field) {
	d.pairs(n, what, func(key string, k, v ast.Node) {
		read, ok := fields[key]
		if !ok {
			known := make([]string, 0, len(fields))
			for f := range fields {
				known = append(known, f)
			}
			slices.Sort(known)
			d.fail(k, "%s has no field %q; it has %s", what, short(key), strings.Join(known, ", "))
			return
		}
		read(v)
	})
}

// pairs reads a mapping, one key after the other.
func (d *document) pairs(n ast.Node, what string, read func(key string, k, v ast.Node)) {
	m, ok := n.(ast.MapNode)
	if !ok {
		d.fail(n, "%s must be a mapping", what)
		return
	}
	seen := map[string]bool{}
	for it := m.MapRange(); it.Next(); {
		k, ok := it.Key().(ast.ScalarNode)
		if !ok {
			d.fail(it.Key(), "a key must be a text")
			return
		}
		key := fmt.Sprint(k.GetValue())
		if seen[key] {
			d.fail(k, "the field %q is there twice", short(key))
			return
		}
		seen[key] = true
		if len(seen) > maxList {
			d.fail(k, "%s has more than %d fields", what, maxList)
			return
		}
		read(key, k, it.Value())
	}
}

// list reads a sequence.
func (d *document) list(n ast.Node, what string, read func(ast.Node)) {
	s, ok := n.(*ast.SequenceNode)
	if !ok {
		d.fail(n, "%s must be a list", what)
		return
	}
	if len(s.Values) > maxList {
		d.fail(n, "%s has %d entries, %d is the most", what, len(s.Values), maxList)
		return
	}
	for _, v := range s.Values {
		read(v)
	}
}

// text reads a text that is not empty.
func (d *document) text(n ast.Node, what string, most int) string {
	var s string
	switch n := n.(type) {
	case *ast.StringNode:
		s = n.Value
	case *ast.LiteralNode:
		s = strings.TrimSpace(n.Value.Value)
	default:
		d.fail(n, "%s must be a text; put it in quotes", what)
		return ""
	}
	switch count := utf8.RuneCountInString(s); {
	case s == "":
		d.fail(n, "%s is empty", what)
	case count > most:
		d.fail(n, "%s has %d characters, %d is the most", what, count, most)
	}
	return s
}

// texts reads a list of texts. An empty list is an error: it would read as
// "none" and mean "all".
func (d *document) texts(n ast.Node, what string) []string {
	var all []string
	d.list(n, what, func(v ast.Node) { all = append(all, d.text(v, "an entry of "+what, maxText)) })
	if len(all) == 0 {
		d.fail(n, "%s is empty", what)
	}
	return all
}

// number reads a number between low and high.
func (d *document) number(n ast.Node, what string, low, high float64) float64 {
	var f float64
	switch n := n.(type) {
	case *ast.IntegerNode:
		switch v := n.Value.(type) {
		case int64:
			f = float64(v)
		case uint64:
			f = float64(v)
		}
	case *ast.FloatNode:
		f = n.Value
	default:
		d.fail(n, "%s must be a number", what)
		return 0
	}
	if !(f >= low && f <= high) { // false for NaN
		d.fail(n, "%s must be between %v and %v", what, low, high)
		return 0
	}
	return f
}

// wholeNumber reads a whole number between 1 and high.
func (d *document) wholeNumber(n ast.Node, what string, high int64) int64 {
	if _, ok := n.(*ast.IntegerNode); !ok {
		d.fail(n, "%s must be a whole number", what)
		return 0
	}
	return int64(d.number(n, what, 1, float64(high)))
}

// boolean reads a boolean.
func (d *document) boolean(n ast.Node, what string) bool {
	b, ok := n.(*ast.BoolNode)
	if !ok {
		d.fail(n, "%s must be true or false", what)
		return false
	}
	return b.Value
}

// duration reads a positive duration such as 90s or 24h.
func (d *document) duration(n ast.Node, what string, most time.Duration) time.Duration {
	v, err := time.ParseDuration(d.text(n, what, 40))
	if err != nil || v <= 0 || v > most {
		d.fail(n, "%s must be a duration such as 90s or 24h, at most %v", what, most)
		return 0
	}
	return v
}

// oneOf reads a text that is one of a few.
func oneOf[T ~string](d *document, n ast.Node, what string, all []T) T {
	s := T(d.text(n, what, maxText))
	if d.err == nil && !slices.Contains(all, s) {
		d.fail(n, "%s is %q and must be one of %s", what, short(string(s)), join(all))
	}
	return s
}

// join lists names for a message.
func join[T ~string](all []T) string {
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = string(s)
	}
	return strings.Join(names, ", ")
}
