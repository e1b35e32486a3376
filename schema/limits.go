package schema

import (
	"fmt"
	"regexp"
	"slices"
	"unicode/utf8"
)

// values checks the keywords that name values: enum, const and pattern.
func (c *healthCheck) values(path string, o *Object) {
	if o.Has("enum") {
		list, ok := o.Value("enum").([]any)
		switch {
		case !ok:
			c.invalid(path, "'enum' must be a list")
		case len(list) == 0:
			c.invalid(path, "'enum' must not be empty")
		default:
			c.enum(path, o, list)
		}
	}
	if s, ok := o.Value("const").(string); ok {
		c.text += utf8.RuneCountInString(s)
	}
	if o.Has("pattern") {
		s, ok := o.Value("pattern").(string)
		if !ok {
			c.invalid(path, "'pattern' must be a string")
		} else if _, err := regexp.Compile(s); err != nil {
			// Vendors build an automaton of it, as RE2 does: no look-around.
			c.nonStrict(path, "'pattern' is not a regular expression that strict mode can use")
		}
	}
}

// enum checks the values of an enum.
func (c *healthCheck) enum(path string, o *Object, list []any) {
	text, unfit := 0, false
	for _, v := range list {
		if v != nil { // null is there to make an enum optional
			c.enums++
		}
		if s, ok := v.(string); ok {
			text += utf8.RuneCountInString(s)
		}
		unfit = unfit || !fitsType(o, v)
	}
	c.text += text
	if unfit {
		c.nonStrict(path, "'enum' has a value that is not of the declared type")
	}
	if len(list) > strictBigEnum && text > strictBigText {
		c.nonStrict(path, fmt.Sprintf("'enum' has more than %d values with more than %d characters in all",
			strictBigEnum, strictBigText))
	}
}

// fitsType reports whether v is of a type that o declares.
func fitsType(o *Object, v any) bool {
	types := typesOf(o)
	if len(types) == 0 {
		return true
	}
	t := TypeName(v)
	return slices.Contains(types, t) || t == "integer" && slices.Contains(types, "number")
}

// keywords checks lists of schemas and keywords that strict mode refuses.
func (c *healthCheck) keywords(path string, o *Object) {
	for _, k := range []string{"anyOf", "oneOf", "allOf"} {
		list, ok := o.Value(k).([]any)
		if o.Has(k) && !ok {
			c.invalid(path, fmt.Sprintf("'%s' must be a list", k))
		} else if ok && len(list) == 0 {
			c.invalid(path, fmt.Sprintf("'%s' must not be empty", k))
		}
	}
	for _, k := range notStrict {
		if o.Has(k) {
			c.nonStrict(path, fmt.Sprintf("'%s' is not allowed in strict mode", k))
		}
	}
	for _, k := range []string{"$defs", "definitions"} {
		if !o.Has(k) {
			continue
		}
		defs := o.Object(k)
		if defs == nil {
			c.invalid(path, fmt.Sprintf("'%s' must be a dict", k))
			continue
		}
		for _, name := range defs.Keys() {
			c.text += utf8.RuneCountInString(name)
		}
	}
}

// limits checks what counts over the whole schema.
func (c *healthCheck) limits() {
	for _, l := range []struct {
		what      string
		got, most int
	}{
		{"levels of nested objects", levels(c.root), strictLevels},
		{"properties in all", c.properties, strictProperties},
		{"enum values in all", c.enums, strictEnum},
		{"characters of names and enum values in all", c.text, strictText},
	} {
		if l.got > l.most {
			c.nonStrict("root", fmt.Sprintf("%d %s, strict mode allows %d", l.got, l.what, l.most))
		}
	}
}

// levels counts how deep objects stand within objects, references followed.
func levels(root *Object) int {
	known := map[*Object]int{}
	var walk func(o *Object, hops int) int
	walk = func(o *Object, hops int) int {
		if n, ok := known[o]; ok || hops > maxHops {
			return n
		}
		known[o] = 0 // recursion adds no level
		deepest := 0
		target, _, _ := refTarget(root, o) // nil without a reference
		if t, ok := target.(*Object); ok {
			deepest = walk(t, hops+1)
		}
		for _, s := range subs(o) {
			if t, ok := s.value.(*Object); ok && s.keyword != "$defs" && s.keyword != "definitions" {
				deepest = max(deepest, walk(t, hops+1))
			}
		}
		if isType(o, "object") {
			deepest++
		}
		known[o] = deepest
		return deepest
	}
	return walk(root, 0)
}
