package pyschema

import (
	"fmt"
	"slices"
	"strings"

	"haft/schema"
)

// definitions are the types of a document that stand in $defs.
type definitions struct {
	state *state
	share bool // every class goes to $defs

	defs  *schema.Object
	taken map[string]bool     // names in defs, also those to come
	done  map[any]string      // what is in defs, by declaration
	open  map[any]*unfinished // what is being built
}

func newDefinitions(st *state, share bool) *definitions {
	return &definitions{state: st, share: share, defs: &schema.Object{}, taken: map[string]bool{},
		done: map[any]string{}, open: map[any]*unfinished{}}
}

// unfinished is a type that is being built. It gets a name in $defs when it is found to
// contain itself.
type unfinished struct{ name string }

// define builds a named type once for every place where it is used. A type that
// contains itself, or every type if d shares, goes to $defs.
func (d *definitions) define(key any, name string, e *expr, build func() *schema.Object) *schema.Object {
	if def, ok := d.done[key]; ok {
		return ref(def)
	}
	if u, ok := d.open[key]; ok {
		if u.name == "" {
			u.name = d.freeName(name)
		}
		return ref(u.name)
	}
	u := &unfinished{}
	d.open[key] = u
	s := build()
	delete(d.open, key)
	if d.state.err != nil {
		return s
	}
	if u.name == "" && d.share && (s.Has("properties") || s.Has("enum") && !s.Has("$ref")) {
		u.name = d.freeName(name)
	}
	if u.name == "" {
		return s
	}
	if circular(s, ref(u.name).String("$ref")) {
		return d.state.fail(e.fault("the type %s is defined by itself alone", name))
	}
	d.done[key] = u.name
	d.defs.Set(u.name, s)
	return ref(u.name)
}

// freeName finds a free name in $defs.
func (d *definitions) freeName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r == '.' || r == '/' || r == '~' || r == '%' || r == '#' {
			return '_'
		}
		return r
	}, name)
	free := name
	for i := 2; d.taken[free]; i++ {
		free = fmt.Sprintf("%s_%d", name, i)
	}
	d.taken[free] = true
	return free
}

// ref returns a reference into $defs.
func ref(name string) *schema.Object { return schema.Obj("$ref", "#/$defs/"+name) }

// circular reports whether s is only a reference to target, directly or as an alternative:
// such a type has no values.
func circular(s *schema.Object, target string) bool {
	if s.String("$ref") == target {
		return true
	}
	return slices.ContainsFunc(s.Array("anyOf"), func(a any) bool {
		o, ok := a.(*schema.Object)
		return ok && circular(o, target)
	})
}

// finish adds $defs to a document that refers to them.
func (d *definitions) finish(s *schema.Object) *schema.Object {
	if d.defs.Len() > 0 {
		s.Set("$defs", d.defs)
	}
	return s
}

// adopt adds an imported schema to the document. Its $defs become ours, under new names
// where the names are taken.
func (d *definitions) adopt(s *schema.Object) *schema.Object {
	s = schema.Clone(s).(*schema.Object)
	defs := s.Object("$defs")
	if defs == nil {
		return s
	}
	s.Delete("$defs")
	renamed := map[string]string{}
	for _, name := range defs.Keys() {
		renamed["#/$defs/"+name] = d.freeName(name)
	}
	rename(s, renamed, 0)
	for _, name := range defs.Keys() {
		def := defs.Value(name)
		rename(def, renamed, 0)
		d.defs.Set(renamed["#/$defs/"+name], def)
	}
	return s
}

// rename points references to the new names of their targets.
func rename(v any, names map[string]string, depth int) {
	if depth > schema.MaxDepth {
		return
	}
	switch v := v.(type) {
	case *schema.Object:
		for _, k := range v.Keys() {
			if target, ok := v.Value(k).(string); ok && k == "$ref" {
				for from, to := range names {
					if target == from || strings.HasPrefix(target, from+"/") {
						v.Set(k, "#/$defs/"+to+strings.TrimPrefix(target, from))
					}
				}
				continue
			}
			rename(v.Value(k), names, depth+1)
		}
	case []any:
		for _, x := range v {
			rename(x, names, depth+1)
		}
	}
}
