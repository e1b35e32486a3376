package schema

import "slices"

// A freedom says how a schema may be changed without a change of meaning that matters to
// its author.
type freedom int

const (
	mayClose  freedom = iota // it may be closed
	mayNarrow                // it is a part of a composition: what is within it may be closed
	mustEqual                // to refuse more here would accept more elsewhere: it is under not, if, oneOf or contains
)

// freedomOf is the freedom of a schema that stands in o under keyword.
func freedomOf(o *Object, keyword string, may freedom) freedom {
	switch {
	case may == mustEqual, slices.Contains([]string{"not", "if", "oneOf", "contains"}, keyword):
		return mustEqual
	case keyword == "anyOf" && isPlainUnion(o):
		return may
	case slices.Contains(inPlace, keyword):
		return mayNarrow
	}
	return mayClose
}

// isPlainUnion reports whether the options of anyOf in o say all there is to say
// about properties, so that each may be closed.
func isPlainUnion(o *Object) bool {
	properties := o.Object("properties")
	if properties != nil && properties.Len() > 0 || o.Has("patternProperties") || o.Has("$ref") {
		return false
	}
	return !slices.ContainsFunc(o.Keys(), func(k string) bool { return slices.Contains(inPlace, k) && k != "anyOf" })
}

// annotations are keywords that accept or refuse nothing.
var annotations = []string{"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly",
	"$comment"}

// mergeRef puts the keywords of rest onto the schema that stood for its reference.
// Its annotations win. Where other keywords differ, both schemas have to hold.
func mergeRef(target, rest *Object) *Object {
	rest = without(rest, "$ref", "$defs", "definitions")
	c := without(target)
	for _, k := range rest.Keys() {
		if target.Has(k) && !slices.Contains(annotations, k) && !same(target.Value(k), rest.Value(k)) {
			return keep(rest, annotations...).Set("allOf", []any{target, without(rest, annotations...)})
		}
		c.Set(k, rest.Value(k))
	}
	return c
}

// keep copies the named keys of o, in its order.
func keep(o *Object, keys ...string) *Object {
	c := &Object{}
	for _, k := range o.Keys() {
		if slices.Contains(keys, k) {
			c.Set(k, Clone(o.Value(k)))
		}
	}
	return c
}

// without copies o less some keys. The values are shared.
func without(o *Object, keys ...string) *Object {
	c := &Object{}
	for _, k := range o.Keys() {
		if !slices.Contains(keys, k) {
			c.Set(k, o.Value(k))
		}
	}
	return c
}

// prefixed copies o with a key in front.
func prefixed(key string, value any, o *Object) *Object {
	c := Obj(key, value)
	merge(c, o)
	return c
}

// merge sets the keys of from in o.
func merge(o, from *Object) {
	for _, k := range from.Keys() {
		o.Set(k, from.Value(k))
	}
}
