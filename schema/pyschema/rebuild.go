package pyschema

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"haft/schema"
)

// maxDefs bounds the definitions of an imported type.
const maxDefs = 300

// The keywords that are kept of schemas from modules: those that hold schemas, and
// others. Unknown keywords cannot be checked.
var (
	holdSchemas = strings.Fields("items additionalProperties contains not propertyNames unevaluatedItems " +
		"unevaluatedProperties if then else anyOf oneOf allOf prefixItems properties patternProperties " +
		"dependentSchemas")
	holdData = strings.Fields("type enum const default examples required format pattern minimum maximum " +
		"exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength minItems maxItems minContains maxContains " +
		"minProperties maxProperties uniqueItems title description deprecated readOnly writeOnly contentEncoding " +
		"contentMediaType dependentRequired")
)

// notValid is why a schema is refused that no reader would take.
const notValid = "the schema that it has is not valid"

// A rebuilder copies a schema that a module wrote, as far as we know its words.
type rebuilder struct {
	defs  *schema.Object // as the module wrote them
	nodes int
	err   *schema.SourceError // the first problem
}

// fail keeps the first problem, and returns a schema in the place of the one that has it.
func (r *rebuilder) fail(message string) *schema.Object {
	if r.err == nil {
		r.err = &schema.SourceError{Message: message}
	}
	return &schema.Object{}
}

// rebuild returns a copy of s, with its own $defs, that has only keywords which we know.
func rebuild(s *schema.Object) (*schema.Object, error) {
	r := rebuilder{defs: cmp.Or(s.Object("$defs"), &schema.Object{})}
	if r.defs.Len() > maxDefs {
		return nil, &schema.SourceError{Message: "its schema is too large"}
	}
	out := r.object(s)
	defs := &schema.Object{}
	for _, k := range r.defs.Keys() {
		defs.Set(k, r.schema("", r.defs.Value(k)))
	}
	if defs.Len() > 0 {
		out.Set("$defs", defs)
	}
	if r.err != nil {
		return nil, r.err
	}
	return out, nil
}

// schema copies a schema, which may be a boolean. name is that of a field, or "".
func (r *rebuilder) schema(name string, v any) any {
	if r.err != nil {
		return v
	}
	switch o := v.(type) {
	case *schema.Object:
		v = r.object(o)
	case bool:
	default:
		r.fail(notValid)
	}
	if r.err != nil && name != "" {
		r.err.Message = "the field " + safeName(name) + ": " + r.err.Message
	}
	return v
}

// object copies one schema. Its depth is that of a document that was decoded.
func (r *rebuilder) object(o *schema.Object) *schema.Object {
	if r.nodes++; r.nodes > maxNodes {
		return r.fail("its schema is too large")
	}
	out := r.start(o)
	for _, k := range o.Keys() {
		v := o.Value(k)
		if _, ok := v.([]any); ok && k == "items" { // before draft 2020-12
			k = "prefixItems"
		}
		if slices.Contains(holdSchemas, k) {
			var ok bool
			if v, ok = schema.MapKeyword(k, v, r.schema); !ok {
				r.fail(notValid)
			}
		} else if !slices.Contains(holdData, k) {
			continue
		}
		out.Set(k, v)
	}
	withoutPatterns(out)
	if out.Has("default") && !admits(out, out.Value("default")) {
		out.Delete("default")
	}
	return documented(out)
}

// start returns what a schema begins with: a reference that leads to a
// definition, or the schema of a class that we know by name.
func (r *rebuilder) start(o *schema.Object) *schema.Object {
	out := &schema.Object{}
	if o.Has("$ref") {
		name := strings.TrimPrefix(strings.TrimPrefix(o.String("$ref"), "#/definitions/"), "#/$defs/")
		if !r.defs.Has(name) || strings.ContainsAny(name, "/~%#\" ") {
			r.fail("the schema that it has refers to something else")
		}
		out.Set("$ref", "#/$defs/"+name)
	}
	names := o.Array("x-type")
	if names == nil {
		return out
	}
	first := ""
	for i, n := range names {
		full, _ := n.(string)
		if i == 0 {
			first = full
		} else if full == "builtins.object" {
			break
		}
		if s := plain(tagOf(full), full); s != nil {
			return s
		}
	}
	return r.fail(plainClass(safeName(first)))
}

// withoutPatterns drops patterns that are not RE2, such as the look-ahead that Pydantic
// writes for Decimal. Pydantic itself checks them in the call.
func withoutPatterns(s *schema.Object) {
	if p, ok := s.Value("pattern").(string); ok {
		if _, err := regexp.Compile(p); err != nil {
			s.Delete("pattern")
		}
	}
	if all := s.Object("patternProperties"); all != nil {
		for _, p := range all.Keys() {
			if _, err := regexp.Compile(p); err != nil {
				s.Delete("patternProperties")
				s.Delete("additionalProperties")
				return
			}
		}
	}
}

// documented splits the docstring of a class, which is all in its description: what it
// says about fields goes to them.
func documented(s *schema.Object) *schema.Object {
	text := s.String("description")
	s.Delete("description")
	if s.Has("properties") || s.Has("prefixItems") || s.Has("enum") {
		doc := parseDoc(text)
		text = doc.description
		if all := s.Object("properties"); all != nil {
			for _, k := range all.Keys() {
				all.Set(k, explained(all.Value(k), doc.params[k]))
			}
		}
		for i, v := range s.Array("prefixItems") {
			if f, ok := v.(*schema.Object); ok {
				s.Array("prefixItems")[i] = explained(f, doc.params[f.String("title")])
			}
		}
	}
	schema.Describe(s, text)
	return s
}

// explained gives a field the text that its class has for it.
func explained(v any, text string) any {
	if f, ok := v.(*schema.Object); ok && f.String("description") == "" {
		schema.Describe(f, text)
	}
	return v
}
