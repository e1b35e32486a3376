package pyschema

import (
	"errors"
	"fmt"
	"strings"

	"haft/schema"
)

// imported returns the schema of a type that is declared in another module. Only
// where that module is installed can anybody say what it is.
func (b *builder) imported(full string, e *expr, args []*expr) *schema.Object {
	module, name, ok := cutLast(full)
	if !ok {
		return b.fail(e.fault("%s is a module, not a type", full))
	}
	if strings.HasPrefix(module, ".") {
		return b.fail(e.fault("the type %s comes from the module %s beside the source, which a tool does not have: "+
			"declare the type in the source", name, module))
	}
	if b.resolve == nil {
		return b.fail(e.fault("the type %s comes from the module %s, which is not part of the source: "+
			"declare the type in the source, or list the package among the requirements, where its types are looked up",
			name, module))
	}
	if len(args) > 0 {
		return b.fail(e.fault("the type %s of the module %s is given types in brackets, which cannot be looked up: "+
			"declare a class with concrete types", name, module))
	}
	return b.define(full, name, e, func() *schema.Object {
		found, ok := b.found[full]
		if !ok {
			var err error
			found, err = b.resolve(b.ctx, module, name)
			if fault, ok := errors.AsType[*schema.SourceError](err); ok {
				return b.fail(e.fault("the type %s of the module %s: %s", name, module, fault.Message))
			}
			if err != nil {
				return b.fail(fmt.Errorf("look up %s of the module %s: %w", name, module, err))
			}
			if found == nil {
				return b.fail(e.fault("the module %s has no type %s", module, name))
			}
			found = b.adopt(found)
			b.found[full] = found
		}
		text, err := schema.Encode(found)
		if err != nil {
			return b.fail(fmt.Errorf("the type %s of the module %s: %w", name, module, err))
		}
		b.nodes += len(text) / textPerNode
		return schema.Clone(found).(*schema.Object)
	})
}

// adopt takes a schema from elsewhere into the document: its $defs become ours,
// under new names where they clash.
func (b *builder) adopt(s *schema.Object) *schema.Object {
	s = schema.Clone(s).(*schema.Object)
	defs := s.Object("$defs")
	if defs == nil {
		return s
	}
	s.Delete("$defs")
	renamed := map[string]string{}
	for _, name := range defs.Keys() {
		renamed["#/$defs/"+name] = b.freeName(name)
	}
	rename(s, renamed, 0)
	for _, name := range defs.Keys() {
		d := defs.Value(name)
		rename(d, renamed, 0)
		b.defs.Set(renamed["#/$defs/"+name], d)
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
