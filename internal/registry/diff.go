package registry

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"haft"
	"haft/schema"
)

// The bounds on a comparison. A schema whose definitions refer to each other can
// be a very large tree.
const (
	maxChanges = 100
	maxSteps   = 10_000
)

// Changes says in words how the schemas of two versions differ for callers, such as
// "/city: required now". Descriptions do not count.
func Changes(old, new haft.Version) []string {
	args := changes(old.Parameters, new.Parameters)
	for _, line := range changes(old.Returns, new.Returns) {
		args = append(args, "returns "+line)
	}
	return args
}

// changes compares the texts of two schemas; an empty one is not there.
func changes(old, new json.RawMessage) []string {
	switch {
	case len(old) == 0 && len(new) == 0:
		return nil
	case len(old) == 0:
		return []string{"/: there is a schema now"}
	case len(new) == 0:
		return []string{"/: there is no schema any more"}
	}
	a, errA := schema.Decode(old)
	b, errB := schema.Decode(new)
	if errA != nil || errB != nil {
		return []string{"/: the schemas cannot be compared"}
	}
	d := differ{old: a, new: b, seen: map[[2]string]bool{}}
	d.node("", a, b)
	switch {
	case d.left > 0:
		d.lines = append(d.lines, fmt.Sprintf("and %d more changes", d.left))
	case d.steps > maxSteps:
		d.lines = append(d.lines, "/: the schemas are too large to compare all of them")
	case len(d.lines) == 0 && bare(a) != bare(b):
		d.lines = append(d.lines, "/: another form of the schema")
	}
	return d.lines
}

// bare is the text of a schema without descriptions, with sorted keys.
func bare(v any) string { return sorted(meaning(v, false)) }

// literal is the text of a value that a schema holds, with sorted keys.
func literal(v any) string { return sorted(meaning(v, true)) }

// sorted writes maps with their keys in order.
func sorted(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(text)
}

// The keywords of a schema whose values are no schemas, by what the values are.
var (
	explaining = []string{"description", "title", "examples", "$comment", "deprecated"}
	// schemas by name
	naming = []string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
	// values of any form
	holding = []string{"default", "const", "enum"}
)

// meaning copies a schema as maps, which encoding/json sorts, without descriptions.
// Data, such as the values of an enum, is copied whole.
func meaning(v any, data bool) any {
	switch v := v.(type) {
	case *schema.Object:
		m := make(map[string]any, v.Len())
		for _, k := range v.Keys() {
			inner := v.Value(k)
			switch names, ok := inner.(*schema.Object); {
			case data || slices.Contains(holding, k):
				m[k] = meaning(inner, true)
			case ok && slices.Contains(naming, k):
				byName := make(map[string]any, names.Len())
				for _, n := range names.Keys() {
					byName[n] = meaning(names.Value(n), false)
				}
				m[k] = byName
			case !slices.Contains(explaining, k):
				m[k] = meaning(inner, false)
			}
		}
		return m
	case []any:
		l := make([]any, len(v))
		for i, x := range v {
			l[i] = meaning(x, data)
		}
		return l
	}
	return v
}

// differ compares two schemas.
type differ struct {
	old, new    any // roots
	lines       []string
	left, steps int
	seen        map[[2]string]bool // pairs of references that are being compared
}

// say notes a change at a place in the value.
func (d *differ) say(at, format string, args ...any) {
	if len(d.lines) >= maxChanges {
		d.left++
		return
	}
	if at == "" {
		at = "/"
	}
	d.lines = append(d.lines, at+": "+fmt.Sprintf(format, args...))
}

// node compares two schemas for the value at a place.
func (d *differ) node(at string, a, b any) {
	if d.steps++; d.steps > maxSteps || strings.Count(at, "/") > schema.MaxDepth {
		return
	}
	x, refA := follow(d.old, a)
	y, refB := follow(d.new, b)
	if refA != "" || refB != "" {
		// A schema that contains itself says the same again below.
		pair := [2]string{refA, refB}
		if d.seen[pair] {
			return
		}
		d.seen[pair] = true
		defer delete(d.seen, pair)
	}
	if x == nil || y == nil { // true, false or nothing that we know
		if bare(a) != bare(b) {
			d.say(at, "the schema is another")
		}
		return
	}
	if was, is := types(x), types(y); was != is {
		d.say(at, "the type is %s now, it was %s", is, was)
	}
	d.values(at, x, y)
	d.bounds(at, x, y)
	d.properties(at, x, y)
	d.others(at, x, y)
	if x.Has("items") || y.Has("items") {
		d.sub(at+"/*", x.Value("items"), y.Value("items"))
	}
	for _, k := range []string{"anyOf", "oneOf", "allOf", "prefixItems"} {
		d.list(at, k, x.Array(k), y.Array(k))
	}
}

// sub compares two schemas of which one may be missing, which allows everything.
func (d *differ) sub(at string, a, b any) {
	if a == nil {
		a = &schema.Object{}
	}
	if b == nil {
		b = &schema.Object{}
	}
	d.node(at, a, b)
}

// properties compares which properties there are and must be.
func (d *differ) properties(at string, x, y *schema.Object) {
	was, is := x.Object("properties"), y.Object("properties")
	if was == nil {
		was = &schema.Object{}
	}
	if is == nil {
		is = &schema.Object{}
	}
	for _, k := range was.Keys() {
		if !is.Has(k) {
			d.say(at+schema.Pointer([]string{k}), "removed")
		}
	}
	must, mustNow := required(x), required(y)
	for _, k := range is.Keys() {
		here := at + schema.Pointer([]string{k})
		before, after := must[k], mustNow[k]
		switch {
		case !was.Has(k) && after:
			d.say(here, "new and required")
			continue
		case !was.Has(k):
			d.say(here, "new and optional")
			continue
		case after && !before:
			d.say(here, "required now")
		case before && !after:
			d.say(here, "not required any more")
		}
		d.node(here, was.Value(k), is.Value(k))
	}
}

// required returns the names of the properties that must be there.
func required(o *schema.Object) map[string]bool {
	names := map[string]bool{}
	for _, v := range o.Array("required") {
		if name, ok := v.(string); ok {
			names[name] = true
		}
	}
	return names
}

// others compares what is said of properties that have no name.
func (d *differ) others(at string, x, y *schema.Object) {
	a, b := x.Value("additionalProperties"), y.Value("additionalProperties")
	switch wasClosed, isClosed := a == false, b == false; {
	case isClosed && !wasClosed:
		d.say(at, "no other properties are allowed now")
	case wasClosed && !isClosed:
		d.say(at, "other properties are allowed now")
	case !wasClosed:
		if a == true { // which is what nothing means too
			a = nil
		}
		if b == true {
			b = nil
		}
		if a != nil || b != nil {
			d.sub(at+"/*", a, b)
		}
	}
}

// list compares the parts of a composition, or the items of a tuple.
func (d *differ) list(at, keyword string, a, b []any) {
	if len(a) != len(b) {
		d.say(at, "%s has %d parts now, it had %d", keyword, len(b), len(a))
		return
	}
	for i := range a {
		here := at
		if keyword == "prefixItems" {
			here = fmt.Sprintf("%s/%d", at, i)
		}
		d.node(here, a[i], b[i])
	}
}

// values compares which single values are allowed.
func (d *differ) values(at string, x, y *schema.Object) {
	was, is := allowed(x), allowed(y)
	switch {
	case was == nil && is == nil:
	case was == nil:
		d.say(at, "allows only %s now", words(is))
	case is == nil:
		d.say(at, "allows more than %s now", words(was))
	default:
		if gone := without(was, is); len(gone) > 0 {
			d.say(at, "does not allow %s any more", words(gone))
		}
		if more := without(is, was); len(more) > 0 {
			d.say(at, "allows %s too now", words(more))
		}
	}
}

// bounds compares the keywords that narrow a value.
func (d *differ) bounds(at string, x, y *schema.Object) {
	for _, k := range []string{
		"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength",
		"minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties", "format", "pattern", "default",
	} {
		if !x.Has(k) && !y.Has(k) {
			continue
		}
		switch was, is := literal(x.Value(k)), literal(y.Value(k)); {
		case x.Has(k) == y.Has(k) && was == is:
		case !x.Has(k):
			d.say(at, "%s is %s now", k, cut(is))
		case !y.Has(k):
			d.say(at, "no %s any more", k)
		default:
			d.say(at, "%s is %s now, it was %s", k, cut(is), cut(was))
		}
	}
}

// follow returns the schema that v is or refers to within root, and the
// reference; nil if it is none that can be looked into.
func follow(root, v any) (*schema.Object, string) {
	ref := ""
	for range 16 {
		o, ok := v.(*schema.Object)
		if !ok {
			return nil, ref
		}
		r := o.String("$ref")
		if r == "" {
			return o, ref
		}
		pointer, ok := strings.CutPrefix(r, "#")
		if !ok || pointer != "" && pointer[0] != '/' {
			return nil, r
		}
		ref, v = r, root
		for _, token := range strings.Split(pointer, "/")[1:] {
			o, ok := v.(*schema.Object)
			if !ok {
				return nil, ref
			}
			v = o.Value(strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~"))
		}
	}
	return nil, ref
}

// types says which types a schema allows.
func types(o *schema.Object) string {
	switch t := o.Value("type").(type) {
	case string:
		return t
	case []any:
		var names []string
		for _, x := range t {
			names = append(names, fmt.Sprint(x))
		}
		slices.Sort(names)
		return strings.Join(slices.Compact(names), " or ")
	}
	return "any"
}

// allowed lists the values of enum or const as JSON, or nil.
func allowed(o *schema.Object) []string {
	if o.Has("const") {
		return []string{literal(o.Value("const"))}
	}
	if !o.Has("enum") {
		return nil
	}
	list := []string{}
	for _, v := range o.Array("enum") {
		list = append(list, literal(v))
	}
	return list
}

// without returns the texts of a that are not in b.
func without(a, b []string) []string {
	has := make(map[string]bool, len(b))
	for _, s := range b {
		has[s] = true
	}
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return has[s] })
}

// words lists a few texts.
func words(list []string) string {
	const few = 5
	var short []string
	for _, s := range list[:min(len(list), few)] {
		short = append(short, cut(s))
	}
	s := strings.Join(short, ", ")
	if len(list) > few {
		s += fmt.Sprintf(" and %d more", len(list)-few)
	}
	return s
}

// cut shortens a text, which comes from outside.
func cut(s string) string {
	const most = 40
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}
