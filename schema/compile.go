package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
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

// documentURL is the address that the library is given for our schemas.
const documentURL = "haft:///schema"

// A Compiled is a schema that values can be checked against. It never changes and is safe
// for concurrent use.
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

// facts are the parts of a schema that the library does not keep.
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
			e := invalid("the schema cannot be understood")
			e.Err = fmt.Errorf("compile schema: panic: %v", p)
			c, err = nil, e
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
	if err := lib.AddResource(documentURL, doc); err != nil {
		return nil, fmt.Errorf("compile schema: %w", err)
	}
	sch, err := lib.Compile(documentURL)
	if err != nil {
		return nil, compileError(root, err)
	}
	c = &Compiled{root: sch, facts: map[*jsonschema.Schema]*facts{}, at: map[string]*jsonschema.Schema{}}
	if err := c.visitSchemas(); err != nil {
		return nil, err
	}
	for s := range c.facts {
		c.recordFacts(s, root)
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
		return nil, invalid("a schema is an object or a boolean")
	}
	p := plainer{}
	doc := p.plain(root, nil)
	if p.bad != nil {
		e := invalid("the schema cannot be read")
		e.Misfits = []haft.Misfit{*p.bad}
		return nil, e
	}
	if p.nodes > MaxSchemaNodes || p.objects > MaxSchemaObjects {
		return nil, invalid("the schema has %d values and %d objects, %d and %d are the most", p.nodes, p.objects,
			MaxSchemaNodes, MaxSchemaObjects)
	}
	return doc, nil
}

// invalid is an error in a schema or in arguments.
func invalid(format string, args ...any) *haft.Error {
	return &haft.Error{Code: haft.CodeInvalid, Message: fmt.Sprintf(format, args...)}
}

// noLoader refuses to load: a schema from outside must not make us read a file or use the
// network.
type noLoader struct{}

// errRemote is why a reference out of the schema is refused.
var errRemote = errors.New("references must stay within the schema")

// Load implements [jsonschema.URLLoader].
func (noLoader) Load(string) (any, error) { return nil, errRemote }

// compileError says in our words why the library refused a schema.
func compileError(root any, err error) error {
	e := invalid("the schema is not valid JSON Schema")
	e.Err = err
	badPattern := func() {
		e.Message = "a pattern of the schema is not a regular expression that we know (RE2: no look-around, no " +
			"back-references)"
		e.Err = fmt.Errorf("%w: %w", ErrPattern, err)
	}
	if load, ok := errors.AsType[*jsonschema.LoadURLError](err); ok {
		e.Message = "the schema refers to another document; nothing is fetched, references must stay within it"
		e.Misfits = remoteRefs(root, load.URL)
	} else if bad, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
		if v, ok := errors.AsType[*jsonschema.ValidationError](bad.Err); ok {
			x := explainer{c: &Compiled{}}
			e.Misfits = tidy(x.explain(v))
			if onlyPatterns(v) {
				badPattern()
			}
		}
	} else if bad, ok := errors.AsType[*jsonschema.InvalidRegexError](err); ok {
		badPattern()
		if tokens, ok := locationTokens(bad.URL); ok {
			e.Misfits = []haft.Misfit{{Pointer: Pointer(tokens), Message: "holds a pattern that is not RE2"}}
		}
	} else if _, ok := errors.AsType[*jsonschema.JSONPointerNotFoundError](err); ok {
		e.Message = "a $ref of the schema points to nothing"
	} else if _, ok := errors.AsType[*jsonschema.AnchorNotFoundError](err); ok {
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
	return !slices.ContainsFunc(e.Causes, func(c *jsonschema.ValidationError) bool { return !onlyPatterns(c) })
}

// remoteRefs finds the references that leave the schema for target.
func remoteRefs(root any, target string) []haft.Misfit {
	var found []haft.Misfit
	for at, v := range jsontree.All(root) {
		s, ok := v.(string)
		if !ok || len(at) == 0 || at[len(at)-1] != "$ref" && at[len(at)-1] != "$schema" {
			continue
		}
		base, _, _ := strings.Cut(s, "#")
		if base != "" && base != documentURL && strings.HasSuffix(target, strings.TrimPrefix(base, "./")) &&
			len(found) < maxMisfits {
			found = append(found, haft.Misfit{Pointer: Pointer(at), Message: "refers to another document"})
		}
	}
	return found
}

// recordFacts reads the facts of s from the tree that it came from.
func (c *Compiled) recordFacts(s *jsonschema.Schema, root any) {
	tokens, ok := locationTokens(s.Location)
	if !ok {
		return
	}
	v, _ := jsontree.At(root, tokens)
	src, ok := v.(*Object)
	if !ok {
		return
	}
	f := c.facts[s]
	if props := src.Object("properties"); props != nil {
		f.order = props.Keys()
	}
	if src.Has("default") {
		// A default that does not fit means that there is none, such as null for a
		// string. It is not applied.
		def := src.Value("default")
		if p, n, bad := toPlain(def); bad == nil && c.affordable(s, p, n) && s.Validate(p) == nil {
			f.def, f.hasDefault = def, true
		}
	}
}

// locationTokens turns a location of the library into the path of the schema in
// its document. It is false for schemas that are not of our document.
func locationTokens(location string) ([]string, bool) {
	base, fragment, _ := strings.Cut(location, "#")
	if base != documentURL {
		return nil, false
	}
	return pointer("#" + fragment)
}

// toPlain turns a tree into what the library reads, and counts its values.
func toPlain(v any) (plain any, nodes int, bad *haft.Misfit) {
	p := plainer{}
	plain = p.plain(v, nil)
	return plain, p.nodes, p.bad
}

// plainer turns trees into what the library reads. bad is the first value that would
// make the library panic or calculate for ever.
type plainer struct {
	nodes, objects int
	bad            *haft.Misfit
}

func (p *plainer) plain(v any, at []string) any {
	p.nodes++
	refuse := func(message string) any {
		if p.bad == nil {
			p.bad = &haft.Misfit{Pointer: Pointer(at), Message: message}
		}
		return nil
	}
	if len(at) > MaxDepth {
		return refuse(fmt.Sprintf("is nested deeper than %d", MaxDepth))
	}
	switch v := v.(type) {
	case *Object:
		p.objects++
		m := make(map[string]any, v.Len())
		for _, k := range v.Keys() {
			m[k] = p.plain(v.Value(k), append(at, k))
		}
		return m
	case []any:
		s := make([]any, len(v))
		for i := range v {
			s[i] = p.plain(v[i], append(at, strconv.Itoa(i)))
		}
		return s
	case json.Number:
		if !jsontree.IsNumber(string(v)) {
			return refuse("is a number out of range")
		}
		return v
	case nil, bool, string, int, int64:
		return v
	case float64:
		n, err := json.Marshal(v)
		if err != nil {
			return refuse("is not a finite number")
		}
		return json.Number(n)
	}
	return refuse("is not a JSON value")
}
