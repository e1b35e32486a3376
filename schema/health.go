package schema

import (
	"fmt"
	"regexp"
	"sync"

	"haft"
	"haft/internal/jsontree"
)

// The limits of OpenAI's strict mode, from the guide "Structured model outputs",
// section "Supported schemas" (developers.openai.com/api/docs/guides/structured-outputs,
// as of 2026; up to 2025 it was 5 levels, 100 properties and 500 enum values).
const (
	strictLevels     = 10      // of objects within objects
	strictProperties = 5000    // in all
	strictEnum       = 1000    // values of all enums
	strictText       = 120_000 // characters of names, enum and const values in all
	strictBigEnum    = 250     // values, above which one enum is also limited by
	strictBigText    = 15_000  // characters of its values
)

// maxReasons bounds the reasons of one health.
const maxReasons = 100

// propertyName is what Anthropic accepts as the name of a property. It refuses the
// whole request otherwise ("Property keys should match pattern").
var propertyName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`) })

// notStrict are keywords that OpenAI's strict mode refuses, wherever they stand.
// Keywords that [Strict] can leave out without a loss are not among them.
var notStrict = []string{
	"oneOf", "allOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas", "dependencies",
	"patternProperties", "prefixItems", "$dynamicRef", "$recursiveRef",
}

// notAtRoot are keywords that OpenAI and Anthropic refuse at the top of the
// parameters, strict or not.
var notAtRoot = []string{"anyOf", "oneOf", "allOf", "not", "enum"}

// Health says whether model vendors accept a schema as the parameters of a tool,
// and in which mode. Properties that are not required do not count against strict
// mode, because [Strict] mends them. The order of the reasons is that of the
// schema.
func Health(root any) haft.SchemaHealth {
	c := &healthCheck{health: haft.SchemaHealth{Status: haft.HealthStrict}, seen: map[*Object]bool{}}
	o, ok := root.(*Object)
	if !ok {
		c.invalid("", "Top-level schema must be a dict")
		return c.health
	}
	if why := tooLarge(o); why != "" {
		c.invalid("root", why)
		return c.health
	}
	c.root, c.loops = o, loops{o, map[*Object]loopState{}}
	if o.Value("type") != "object" {
		c.invalid("", "Top-level schema 'type' must be 'object' for OpenAI tools")
	}
	for _, k := range notAtRoot {
		if o.Has(k) {
			c.invalid("root", fmt.Sprintf("'%s' is not allowed at the top level (OpenAI and Anthropic will reject)", k))
		}
	}
	c.schema("root", o, 0)
	for len(c.pending) > 0 {
		p := c.pending[0]
		c.pending = c.pending[1:]
		c.schema(p.path, p.value, 0)
	}
	c.limits()
	return c.health
}

// healthCheck is one walk of [Health].
type healthCheck struct {
	root    *Object
	loops   loops
	health  haft.SchemaHealth
	seen    map[*Object]bool
	pending []place // targets of references, which may stand outside of the walk

	properties, enums, text int
}

// place is a schema and where it stands.
type place struct {
	path  string
	value any
}

func (c *healthCheck) invalid(path, message string) {
	c.health.Status = haft.HealthInvalid
	c.reason(path, message)
}

func (c *healthCheck) nonStrict(path, message string) {
	if c.health.Status == haft.HealthStrict {
		c.health.Status = haft.HealthNonStrict
	}
	c.reason(path, message)
}

func (c *healthCheck) reason(path, message string) {
	if len(c.health.Reasons) < maxReasons {
		c.health.Reasons = append(c.health.Reasons, haft.HealthReason{Path: short(path), Message: message})
	}
}

// short bounds text of the schema that goes into a reason.
func short(s string) string {
	if r := []rune(s); len(r) > 300 {
		return string(r[:300]) + "…"
	}
	return s
}

// schema checks one schema and those within it.
func (c *healthCheck) schema(path string, v any, depth int) {
	o, ok := v.(*Object)
	switch {
	case v == true:
		c.nonStrict(path, "accepts any value (true)")
		return
	case v == false:
		c.nonStrict(path, "accepts no value (false)")
		return
	case !ok:
		c.invalid(path, "Not a valid schema dict")
		return
	case c.seen[o]:
		return
	case depth > MaxDepth:
		c.invalid(path, fmt.Sprintf("nested deeper than %d", MaxDepth))
		return
	}
	c.seen[o] = true
	c.ref(path, o)
	c.types(path, o)
	if isType(o, "object") {
		c.object(path, o)
	}
	if isType(o, "array") {
		c.array(path, o)
	}
	c.values(path, o)
	c.keywords(path, o)
	for _, s := range subs(o) {
		if free, ok := s.value.(*Object); s.keyword == "additionalProperties" && ok && free.Len() == 0 {
			continue // the object was already called free-form
		}
		if _, isBool := s.value.(bool); isBool && s.keyword != "properties" && s.keyword != "items" &&
			nestings[s.keyword] != schemaList {
			continue // additionalProperties and the like
		}
		if isBool := s.value == false; isBool && s.keyword == "items" && o.Has("prefixItems") {
			continue // the end of a tuple
		}
		c.schema(path+s.step, s.value, depth+1)
	}
}

// ref checks that a reference leads to a schema.
func (c *healthCheck) ref(path string, o *Object) {
	if !o.Has("$ref") {
		return
	}
	target, steps, problem := refTarget(c.root, o)
	switch {
	case problem != "":
		c.invalid(path, problem)
	case c.loops.at(o):
		c.invalid(path, "'$ref' leads back to itself and to no schema")
	default:
		to := "root"
		for _, s := range steps {
			to += "." + s
		}
		c.pending = append(c.pending, place{to, target})
	}
}

// types checks the type of o.
func (c *healthCheck) types(path string, o *Object) {
	switch t := o.Value("type").(type) {
	case string:
		if typeSets[t] == 0 {
			c.invalid(path, fmt.Sprintf("Unknown type '%s'", short(t)))
		}
	case []any:
		if len(t) == 0 {
			c.invalid(path, "'type' must not be an empty list")
		}
		for _, v := range t {
			if s, ok := v.(string); !ok || typeSets[s] == 0 {
				c.invalid(path, fmt.Sprintf("Invalid type '%s' in type array", short(fmt.Sprint(v))))
			}
		}
	default:
		if o.Has("type") {
			c.invalid(path, "'type' must be a string or a list of strings")
			return
		}
		for _, k := range []string{"properties", "additionalProperties", "items", "prefixItems", "anyOf", "oneOf",
			"allOf", "$ref", "enum", "const"} {
			if o.Has(k) {
				return
			}
		}
		// An empty schema is what Any becomes. Vendors take it, outside of strict mode.
		c.nonStrict(path, "Missing 'type'")
	}
}

// object checks the keywords of objects.
func (c *healthCheck) object(path string, o *Object) {
	properties := o.Object("properties")
	if o.Has("properties") && properties == nil {
		c.invalid(path, "'properties' must be a dict for objects")
	}
	switch free := o.Value("additionalProperties").(type) {
	case bool:
		if free {
			c.nonStrict(path, "'additionalProperties' is not false (free-form object)")
		}
	case *Object:
		c.nonStrict(path, "'additionalProperties' is not false (free-form object)")
	default:
		if o.Has("additionalProperties") {
			c.invalid(path, "'additionalProperties' must be a boolean or a schema")
		} else {
			c.nonStrict(path, "'additionalProperties' not explicitly set")
		}
	}
	if properties != nil {
		for _, name := range properties.Keys() {
			c.properties++
			c.text += len([]rune(name))
			if !propertyName().MatchString(name) {
				c.nonStrict(path+".properties", fmt.Sprintf("property name '%s' is not accepted by every vendor "+
					"(Anthropic wants 1 to 64 of a-z A-Z 0-9 _ . -)", short(name)))
			}
		}
	}
	required, ok := o.Value("required").([]any)
	if o.Has("required") && !ok {
		c.invalid(path, "'required' must be a list if present")
	}
	c.optional(path, properties, names(required))
	for _, v := range required {
		name, ok := v.(string)
		if !ok {
			c.invalid(path, "'required' must be a list of names")
		} else if properties != nil && properties.Len() > 0 {
			c.required(path, name, properties)
		}
	}
}

// required checks one required property.
func (c *healthCheck) required(path, name string, properties *Object) {
	if !properties.Has(name) {
		c.invalid(path, fmt.Sprintf("required contains '%s' not found in properties", short(name)))
		return
	}
	if properties.Value(name) == false {
		c.invalid(path, fmt.Sprintf("required property '%s' accepts no value (false)", short(name)))
		return
	}
	o := properties.Object(name)
	if o == nil {
		return
	}
	o = followRefs(c.root, o)
	if onlyEmpty(o) {
		c.invalid(path, fmt.Sprintf("required property '%s' allows empty object (OpenAI will reject)", short(name)))
	}
	if isType(o, "array") && !o.Has("items") && !o.Has("prefixItems") && !demandsItems(o) {
		c.invalid(path, fmt.Sprintf("required property '%s' allows empty array (OpenAI will reject)", short(name)))
	}
}

// demandsItems reports whether an array must not be empty.
func demandsItems(o *Object) bool {
	n, ok := jsontree.Plain(o.Value("minItems")).(int64)
	return ok && n >= 1
}

// optional checks the properties that are not required for what strict mode, where
// they will be, has no use for.
func (c *healthCheck) optional(path string, properties *Object, required []string) {
	if properties == nil {
		return
	}
	needed := map[string]bool{}
	for _, name := range required {
		needed[name] = true
	}
	for _, name := range properties.Keys() {
		if o := properties.Object(name); o != nil && !needed[name] && onlyEmpty(followRefs(c.root, o)) {
			c.nonStrict(path, fmt.Sprintf("optional property '%s' allows only an empty object, which strict mode "+
				"would require", short(name)))
		}
	}
}

// onlyEmpty reports whether o admits nothing but {}.
func onlyEmpty(o *Object) bool {
	if !isType(o, "object") || len(typesOf(o)) > 1 || o.Has("patternProperties") ||
		o.Value("additionalProperties") != false {
		return false
	}
	properties := o.Object("properties")
	return (properties == nil || properties.Len() == 0) && len(o.Array("required")) == 0
}

// array checks the keywords of arrays.
func (c *healthCheck) array(path string, o *Object) {
	switch items := o.Value("items").(type) {
	case *Object, bool:
	case []any:
		c.invalid(path, "'items' must be a schema dict for arrays")
	default:
		switch {
		case items != nil || o.Has("items"):
			c.invalid(path, "'items' must be a schema dict for arrays")
		case !o.Has("prefixItems"): // a tuple gets items when it is rendered
			c.invalid(path, "'items' must be defined for arrays in strict mode")
		}
	}
}
