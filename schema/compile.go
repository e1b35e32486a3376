package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"haft"

	"haft/internal/jsontree"
)

// The bounds on a schema that is compiled.
const (
	MaxSchemaNodes   = 50_000 // values of any kind
	MaxSchemaObjects = 12_000 // objects, each of which may be a schema
)

// ErrPattern is wrapped by the error of [Compile] if patterns are all that is
// wrong. JSON Schema means the expressions of ECMAScript; ours are RE2, which
// has no look-around and no back-references and in exchange always ends in
// linear time. The caller may take the patterns out and compile again.
var ErrPattern = errors.New("a pattern is not a regular expression that we know")

// home is where the library believes our schemas to be.
const home = "haft:///schema"

// A Compiled is a schema that values can be held against. It never changes and is
// safe for concurrent use.
type Compiled struct {
	root  *jsonschema.Schema
	facts map[*jsonschema.Schema]*facts
	at    map[string]*jsonschema.Schema // by location
	// paths is how often one value can be visited at most; 0 means that the
	// schema is recursive and that it depends on the value.
	paths int64
	// The arguments that the root knows.
	params   []string
	patterns []jsonschema.Regexp
	open     bool // it allows any
}

// facts are what the library forgets about a schema.
type facts struct {
	order      []string // of the properties
	def        any      // the default, if it fits
	hasDefault bool
	types      typeSet // that it accepts
	declared   bool    // types is known
}

// Compile reads a schema tree: an [*Object] or a boolean. It follows draft
// 2020-12 unless $schema names an older one, and asserts formats. References
// stay within the schema: nothing is fetched. Schemas that are too large, that
// refer to themselves without consuming a value, or whose meaning depends on the
// reader ($dynamicRef) are refused.
func Compile(root any) (c *Compiled, err error) {
	// The library panics on some hostile schemas.
	defer func() {
		if p := recover(); p != nil {
			c, err = nil, &haft.Error{Code: haft.CodeInvalid, Message: "the schema cannot be understood",
				Err: fmt.Errorf("compile schema: panic: %v", p)}
		}
	}()
	doc, err := schemaDocument(root)
	if err != nil {
		return nil, err
	}
	lib := jsonschema.NewCompiler()
	lib.DefaultDraft(jsonschema.Draft2020)
	lib.AssertFormat()
	lib.UseLoader(noLoader{})
	for _, f := range formats {
		lib.RegisterFormat(f)
	}
	if err := lib.AddResource(home, doc); err != nil {
		return nil, fmt.Errorf("compile schema: %w", err)
	}
	sch, err := lib.Compile(home)
	if err != nil {
		return nil, compileError(root, err)
	}
	c = &Compiled{root: sch, facts: map[*jsonschema.Schema]*facts{}, at: map[string]*jsonschema.Schema{}}
	if err := c.survey(); err != nil {
		return nil, err
	}
	for s := range c.facts {
		c.recall(s, root)
		c.declare(s)
	}
	c.parameters()
	if all, ok := root.(bool); ok && all {
		c.open = true
	}
	return c, nil
}

// schemaDocument turns a tree into what the library reads.
func schemaDocument(root any) (any, error) {
	switch root.(type) {
	case *Object, bool:
	default:
		return nil, &haft.Error{Code: haft.CodeInvalid, Message: "a schema is an object or a boolean"}
	}
	p := plainer{}
	doc, bad := p.plain(root, nil)
	if bad != nil {
		return nil, &haft.Error{Code: haft.CodeInvalid, Message: "the schema cannot be read",
			Misfits: []haft.Misfit{*bad}}
	}
	if p.nodes > MaxSchemaNodes || p.objects > MaxSchemaObjects {
		return nil, &haft.Error{Code: haft.CodeInvalid,
			Message: fmt.Sprintf("the schema has %d values and %d objects, %d and %d are the most", p.nodes, p.objects,
				MaxSchemaNodes, MaxSchemaObjects)}
	}
	return doc, nil
}

// noLoader refuses to load: a schema from outside must not make us reach for a
// file or the network.
type noLoader struct{}

// errRemote is why a reference out of the schema is refused.
var errRemote = errors.New("references must stay within the schema")

// Load implements [jsonschema.URLLoader].
func (noLoader) Load(string) (any, error) { return nil, errRemote }

// compileError says in our words why the library refused a schema.
func compileError(root any, err error) error {
	e := &haft.Error{Code: haft.CodeInvalid, Message: "the schema is not valid JSON Schema", Err: err}
	if load, ok := errors.AsType[*jsonschema.LoadURLError](err); ok {
		e.Message = "the schema refers to another document; nothing is fetched, references must stay within it"
		e.Misfits = remoteRefs(root, nil, load.URL)
		return e
	}
	if bad, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
		if v, ok := errors.AsType[*jsonschema.ValidationError](bad.Err); ok {
			x := explainer{c: &Compiled{}}
			e.Misfits = tidy(x.explain(v))
			if onlyPatterns(v) {
				e.Message, e.Err = "a pattern of the schema is not a regular expression that we know (RE2: no "+
					"look-around, no back-references)", fmt.Errorf("%w: %w", ErrPattern, err)
			}
		}
		return e
	}
	if bad, ok := errors.AsType[*jsonschema.InvalidRegexError](err); ok {
		e.Message, e.Err = "a pattern of the schema is not a regular expression that we know (RE2: no look-around, "+
			"no back-references)", fmt.Errorf("%w: %w", ErrPattern, err)
		if tokens, ok := locationTokens(bad.URL); ok {
			e.Misfits = []haft.Misfit{{Pointer: Pointer(tokens), Message: "holds a pattern that is not RE2"}}
		}
		return e
	}
	var notFound *jsonschema.JSONPointerNotFoundError
	var noAnchor *jsonschema.AnchorNotFoundError
	if errors.As(err, &notFound) || errors.As(err, &noAnchor) {
		e.Message = "a $ref of the schema points to nothing"
	}
	return e
}

// onlyPatterns reports whether patterns are all that is wrong.
func onlyPatterns(e *jsonschema.ValidationError) bool {
	if len(e.Causes) == 0 {
		f, ok := e.ErrorKind.(*kind.Format)
		return ok && f.Want == "regex"
	}
	for _, c := range e.Causes {
		if !onlyPatterns(c) {
			return false
		}
	}
	return true
}

// remoteRefs finds the references that leave the schema.
func remoteRefs(v any, at []string, target string) []haft.Misfit {
	var found []haft.Misfit
	switch v := v.(type) {
	case *Object:
		for _, k := range v.Keys() {
			if s, ok := v.Value(k).(string); ok && (k == "$ref" || k == "$schema") && !strings.HasPrefix(s, "#") &&
				strings.TrimSuffix(s, "#") != home {
				if base, _, _ := strings.Cut(s, "#"); strings.HasSuffix(target, strings.TrimPrefix(base, "./")) {
					found = append(found, haft.Misfit{Pointer: Pointer(append(at, k)),
						Message: "refers to another document"})
				}
			}
			found = append(found, remoteRefs(v.Value(k), append(at[:len(at):len(at)], k), target)...)
		}
	case []any:
		for i := range v {
			found = append(found, remoteRefs(v[i], append(at[:len(at):len(at)], strconv.Itoa(i)), target)...)
		}
	}
	return found[:min(len(found), maxMisfits)]
}

// recall looks up what the library forgot about s in the tree it came from.
func (c *Compiled) recall(s *jsonschema.Schema, root any) {
	tokens, ok := locationTokens(s.Location)
	if !ok {
		return
	}
	src, ok := valueAt(root, tokens).(*Object)
	if !ok {
		return
	}
	f := c.facts[s]
	if props := src.Object("properties"); props != nil {
		f.order = props.Keys()
	}
	if src.Has("default") {
		// A default that does not fit is a way of saying "none": null for a
		// string is the common one. It is not applied.
		def := src.Value("default")
		if p, n, bad := toPlain(def); bad == nil && c.affordable(s, p, n) && s.Validate(p) == nil {
			f.def, f.hasDefault = def, true
		}
	}
}

// locationTokens turns a location of the library into the path of the schema in
// its document. It is false for schemas that are not of our document.
func locationTokens(location string) ([]string, bool) {
	base, frag, _ := strings.Cut(location, "#")
	if base != home {
		return nil, false
	}
	frag, err := url.PathUnescape(frag)
	if err != nil {
		return nil, false
	}
	if frag == "" {
		return nil, true
	}
	tokens := strings.Split(strings.TrimPrefix(frag, "/"), "/")
	for i, t := range tokens {
		tokens[i] = strings.ReplaceAll(strings.ReplaceAll(t, "~1", "/"), "~0", "~")
	}
	return tokens, true
}

// valueAt follows a path into a tree.
func valueAt(v any, tokens []string) any {
	for _, t := range tokens {
		switch node := v.(type) {
		case *Object:
			v = node.Value(t)
		case []any:
			i, err := strconv.Atoi(t)
			if err != nil || i < 0 || i >= len(node) {
				return nil
			}
			v = node[i]
		default:
			return nil
		}
	}
	return v
}

// toPlain turns a tree into what the library reads, and counts its values.
func toPlain(v any) (plain any, nodes int, bad *haft.Misfit) {
	p := plainer{}
	plain, bad = p.plain(v, nil)
	return plain, p.nodes, bad
}

// plainer turns trees into what the library reads.
type plainer struct{ nodes, objects int }

// plain refuses what would make the library panic or calculate for ever.
func (p *plainer) plain(v any, at []string) (any, *haft.Misfit) {
	p.nodes++
	if len(at) > MaxDepth {
		return nil, &haft.Misfit{Pointer: Pointer(at), Message: fmt.Sprintf("is nested deeper than %d", MaxDepth)}
	}
	switch v := v.(type) {
	case *Object:
		p.objects++
		m := make(map[string]any, v.Len())
		for _, k := range v.Keys() {
			x, bad := p.plain(v.Value(k), append(at, k))
			if bad != nil {
				return nil, bad
			}
			m[k] = x
		}
		return m, nil
	case []any:
		s := make([]any, len(v))
		for i := range v {
			x, bad := p.plain(v[i], append(at, strconv.Itoa(i)))
			if bad != nil {
				return nil, bad
			}
			s[i] = x
		}
		return s, nil
	case json.Number:
		if !jsontree.IsNumber(string(v)) {
			return nil, &haft.Misfit{Pointer: Pointer(at), Message: "is a number out of range"}
		}
		return v, nil
	case nil, bool, string, int, int64:
		return v, nil
	case float64:
		n, err := json.Marshal(v)
		if err != nil {
			return nil, &haft.Misfit{Pointer: Pointer(at), Message: "is not a finite number"}
		}
		return json.Number(n), nil
	}
	return nil, &haft.Misfit{Pointer: Pointer(at), Message: "is not a JSON value"}
}
