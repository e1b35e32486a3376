package pyschema

import (
	"regexp"
	"strings"

	"haft/schema"
)

// maxDefs bounds the definitions of an imported type.
const maxDefs = 300

// What the keywords of a schema hold. Keywords that are not here are left out of
// schemas from modules: what they mean, nobody can check.
var (
	holdsSchema = words("items additionalProperties contains not propertyNames unevaluatedItems " +
		"unevaluatedProperties if then else")
	holdsList  = words("anyOf oneOf allOf prefixItems")
	holdsNamed = words("properties patternProperties dependentSchemas")
	holdsData  = words("type enum const default examples required format pattern minimum maximum exclusiveMinimum " +
		"exclusiveMaximum multipleOf minLength maxLength minItems maxItems minContains maxContains minProperties " +
		"maxProperties uniqueItems title description deprecated readOnly writeOnly contentEncoding contentMediaType " +
		"dependentRequired")
)

// words makes a set of words.
func words(list string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(list) {
		set[w] = true
	}
	return set
}

// A rebuilder copies a schema that a module wrote, as far as we know its words.
type rebuilder struct {
	defs  *schema.Object // as the module wrote them
	nodes int
}

// rebuild returns s with nothing in it that could mean more than it says, with
// $defs of its own.
func rebuild(s *schema.Object) (*schema.Object, error) {
	r := rebuilder{defs: s.Object("$defs")}
	if r.defs == nil {
		r.defs = &schema.Object{}
	}
	if r.defs.Len() > maxDefs {
		return nil, &schema.SourceError{Message: "its schema is too large"}
	}
	out, err := r.object(s)
	if err != nil {
		return nil, err
	}
	defs := &schema.Object{}
	for _, k := range r.defs.Keys() {
		d, err := r.schema(r.defs.Value(k))
		if err != nil {
			return nil, err
		}
		defs.Set(k, d)
	}
	if defs.Len() > 0 {
		out.Set("$defs", defs)
	}
	return out, nil
}

// schema copies a schema, which may be a boolean.
func (r *rebuilder) schema(v any) (any, error) {
	switch v := v.(type) {
	case *schema.Object:
		return r.object(v)
	case bool:
		return v, nil
	}
	return nil, &schema.SourceError{Message: "the schema that it has is not valid"}
}

// object copies one schema. Its depth is that of a document that was decoded.
func (r *rebuilder) object(o *schema.Object) (*schema.Object, error) {
	r.nodes++
	if r.nodes > maxNodes {
		return nil, &schema.SourceError{Message: "its schema is too large"}
	}
	out, err := r.start(o)
	if err != nil {
		return nil, err
	}
	for _, k := range o.Keys() {
		v := o.Value(k)
		if list, ok := v.([]any); ok && k == "items" { // before draft 2020-12
			k, v = "prefixItems", list
		}
		switch {
		case holdsSchema[k]:
			v, err = r.schema(v)
		case holdsList[k]:
			v, err = r.list(v)
		case holdsNamed[k]:
			v, err = r.named(v)
		case !holdsData[k]:
			continue
		}
		if err != nil {
			return nil, err
		}
		out.Set(k, v)
	}
	withoutPatterns(out)
	if out.Has("default") && !admits(out, out.Value("default")) {
		out.Delete("default")
	}
	return documented(out), nil
}

// start returns what a schema begins with: a reference that leads to a
// definition, or the schema of a class that we know by name.
func (r *rebuilder) start(o *schema.Object) (*schema.Object, error) {
	out := &schema.Object{}
	if o.Has("$ref") {
		name := strings.TrimPrefix(strings.TrimPrefix(o.String("$ref"), "#/definitions/"), "#/$defs/")
		if !r.defs.Has(name) || strings.ContainsAny(name, "/~%#\" ") {
			return nil, &schema.SourceError{Message: "the schema that it has refers to something else"}
		}
		out.Set("$ref", "#/$defs/"+name)
	}
	names := o.Array("x-type")
	if names == nil {
		return out, nil
	}
	for i, n := range names {
		full, _ := n.(string)
		if full == "builtins.object" && i > 0 {
			break
		}
		if s := plain(tagOf(full), full); s != nil {
			return s, nil
		}
	}
	name := ""
	if len(names) > 0 {
		name, _ = names[0].(string)
	}
	return nil, &schema.SourceError{Message: plainClass(word(name))}
}

// list copies a list of schemas.
func (r *rebuilder) list(v any) (any, error) {
	list, ok := v.([]any)
	if !ok {
		return nil, &schema.SourceError{Message: "the schema that it has is not valid"}
	}
	out := make([]any, len(list))
	for i := range list {
		var err error
		if out[i], err = r.schema(list[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// named copies schemas with names.
func (r *rebuilder) named(v any) (any, error) {
	o, ok := v.(*schema.Object)
	if !ok {
		return nil, &schema.SourceError{Message: "the schema that it has is not valid"}
	}
	out := &schema.Object{}
	for _, k := range o.Keys() {
		s, err := r.schema(o.Value(k))
		if err != nil {
			return nil, within(err, field{binding: binding{Name: word(k)}})
		}
		out.Set(k, s)
	}
	return out, nil
}

// withoutPatterns drops what is not RE2, such as the look-ahead that Pydantic
// writes for Decimal. The one who wrote the pattern checks it in the call.
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

// documented tells the docstring of a class, which is all in its description,
// apart: what it says about fields goes to them.
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
