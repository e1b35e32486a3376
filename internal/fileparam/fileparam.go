// Package fileparam finds the arguments of a call that are files. The schema of a tool says by the
// format of a text that it takes a file: the caller gives the id of a file, or the name of one
// that comes with the call, and the tool gets the file.
package fileparam

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"haft"
	"haft/executor"
	"haft/internal/jsontree"
)

// The formats of texts that can be files. The others take other texts, too: a path, or base64.
const (
	Format   = "haft-file"
	path     = "path"
	filePath = "file-path" // of Pydantic
	base64   = "byte"
)

// uri is what comes before the id where a file is a resource.
const uri = "haft://files/"

// maxVisits bounds the walk through the arguments of a call.
const maxVisits = 100_000

// Params are the parameters of a tool that can be files. It never changes.
type Params struct{ root *node }

// A node is a schema, as far as it says where files are.
type node struct {
	format     string
	properties map[string]*node
	items      []*node // the first ones
	rest       *node   // of the other items or properties
	same       []*node // schemas for the same value
}

// Compile reads the schema of the arguments of a tool. It returns nil if none can be a file.
func Compile(kind haft.Kind, schema json.RawMessage) *Params {
	formats := []string{Format, path, filePath}
	switch kind {
	case haft.KindPython:
		formats = append(formats, base64)
	case haft.KindJavaScript, haft.KindTypeScript, haft.KindBash:
	default:
		return nil
	}
	if !slices.ContainsFunc(formats, func(f string) bool { return bytes.Contains(schema, []byte(`"`+f+`"`)) }) {
		return nil
	}
	var root map[string]any
	if json.Unmarshal(schema, &root) != nil {
		return nil // it was compiled before, so that this cannot be
	}
	c := compiler{root, formats, map[string]*node{}}
	return &Params{c.node(root)}
}

// A compiler makes nodes of the schemas of a document.
type compiler struct {
	root    map[string]any
	formats []string
	refs    map[string]*node
}

func (c *compiler) node(schema any) *node {
	s, ok := schema.(map[string]any)
	if !ok {
		return nil
	}
	n := &node{properties: map[string]*node{}}
	if f, ok := s["format"].(string); ok && slices.Contains(c.formats, f) {
		n.format = f
	}
	if props, ok := s["properties"].(map[string]any); ok {
		for name, p := range props {
			n.properties[name] = c.node(p)
		}
	}
	for _, key := range []string{"anyOf", "oneOf", "allOf"} {
		list, _ := s[key].([]any)
		for _, sub := range list {
			n.same = append(n.same, c.node(sub))
		}
	}
	list, _ := s["prefixItems"].([]any)
	for _, sub := range list {
		n.items = append(n.items, c.node(sub))
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if sub := c.node(s[key]); sub != nil {
			n.rest = sub
		}
	}
	if ref, ok := s["$ref"].(string); ok {
		n.same = append(n.same, c.ref(ref))
	}
	return n
}

// ref returns the node of a definition, which can lead to itself.
func (c *compiler) ref(ref string) *node {
	if n, ok := c.refs[ref]; ok {
		return n
	}
	group, name, _ := strings.Cut(strings.TrimPrefix(ref, "#/"), "/")
	defs, _ := c.root[group].(map[string]any)
	n := &node{}
	c.refs[ref] = n
	name = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
	if made := c.node(defs[name]); made != nil {
		*n = *made
	}
	return n
}

// A Ref is a text among the arguments that can be a file.
type Ref struct {
	At           []string // the keys and indexes that lead to it
	Format, Text string
	// Object is what is there instead of a text. Only [Params.Given] returns such.
	Object *jsontree.Object
}

// Refs returns the texts among the arguments that can be files. It reports whether there are few
// enough to look at.
func (p *Params) Refs(args any) (refs []Ref, ok bool) {
	if p == nil {
		return nil, true
	}
	w := walk{seen: map[visit]bool{}, found: map[string]bool{}}
	w.value(p.root, args, nil)
	return w.refs, len(w.seen) < maxVisits
}

// Given is Refs of arguments that may have objects in place of texts: the contents that a protocol has
// for files.
func (p *Params) Given(args any) (refs []Ref, ok bool) {
	w := walk{seen: map[visit]bool{}, found: map[string]bool{}, objects: true}
	w.value(p.root, args, nil)
	return w.refs, len(w.seen) < maxVisits
}

type visit struct {
	n  *node
	at string
}

// A walk goes through arguments and their schema.
type walk struct {
	seen  map[visit]bool
	found map[string]bool // places of refs
	refs  []Ref

	objects bool // objects can be files, too
}

// find adds what is at a place where a file can be.
func (w *walk) find(n *node, r Ref, place string) {
	if n.format != "" && !w.found[place] {
		w.found[place] = true
		r.At, r.Format = slices.Clone(r.At), n.format
		w.refs = append(w.refs, r)
	}
}

func (w *walk) value(n *node, v any, at []string) {
	here := visit{n, strings.Join(at, "\x00")}
	if n == nil || w.seen[here] || len(w.seen) >= maxVisits {
		return
	}
	w.seen[here] = true
	switch v := v.(type) {
	case string:
		w.find(n, Ref{At: at, Text: v}, here.at)
	case *jsontree.Object:
		if w.objects {
			w.find(n, Ref{At: at, Object: v}, here.at)
		}
		for _, k := range v.Keys() {
			sub, ok := n.properties[k]
			if !ok {
				sub = n.rest
			}
			w.value(sub, v.Value(k), append(at, k))
		}
	case []any:
		for i := range v {
			sub := n.rest
			if i < len(n.items) {
				sub = n.items[i]
			}
			w.value(sub, v[i], append(at, strconv.Itoa(i)))
		}
	}
	for _, sub := range n.same {
		w.value(sub, v, at)
	}
}

// Pointer is where the text is, as a JSON Pointer.
func (r Ref) Pointer() string {
	var b strings.Builder
	for _, step := range r.At {
		b.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(step))
	}
	return b.String()
}

// id returns the id of a file that the text is.
func (r Ref) id() (haft.FileID, bool) {
	text, isURI := strings.CutPrefix(r.Text, uri)
	rest, ok := strings.CutPrefix(text, "file_")
	plain := !strings.ContainsFunc(rest, func(c rune) bool { return (c < 'a' || c > 'z') && (c < '0' || c > '9') })
	return haft.FileID(text), ok && plain && (isURI || r.Format == Format || len(rest) >= 32)
}

// Resolve returns the files that refs are. A file that comes with the call has one of the names
// in given; find returns the path of one with an id. Texts that are no files and need not be are
// left out. An id is that of a kept file, also if a file of the call has its form: rules look at
// arguments. The failure says which argument names no file.
func Resolve(refs []Ref, given []string,
	find func(haft.FileID) (string, error)) (args []executor.FileArg, failure *haft.Failure, err error) {
	for _, r := range refs {
		at, complaint := r.Text, ""
		id, isID := r.id()
		switch {
		case isID:
			at, err = find(id)
			if code := haft.CodeOf(err); code == haft.CodeInvalid || code == haft.CodeNotFound {
				complaint, err = haft.MessageOf(err), nil
			}
		case slices.Contains(given, r.Text):
		case r.Format == Format:
			complaint = "expected the id of a file, or the name of a file that comes with the call"
		default:
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		if complaint != "" {
			return nil, &haft.Failure{Kind: haft.FailValidation, Retry: haft.RetryChanged,
				Message: "the arguments do not fit: " + r.Pointer() + ": " + complaint,
				Misfits: []haft.Misfit{{Pointer: r.Pointer(), Message: complaint}}}, nil
		}
		args = append(args, executor.FileArg{At: r.At, Format: r.Format, Path: at})
	}
	return args, nil, nil
}
