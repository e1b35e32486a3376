package schema

import (
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"haft"
)

// A branch is one alternative of a union and why the value does not fit it.
type branch struct {
	name    string
	misfits []haft.Misfit
	// types is set if the value has the wrong type already.
	types []string
	// other is set if the value says itself that it is another alternative: a
	// property that must be a certain value is not.
	other bool
}

// union explains why a value fits none of several alternatives, or too many.
//
// If no alternative has the type of the value, it names the types. If one has, it
// explains that one. If several have, it names them and explains the nearest:
// the one with the fewest misfits among those that the value does not exclude
// itself.
func (x *explainer) union(e *jsonschema.ValidationError, tooMany bool) []haft.Misfit {
	at := Pointer(e.InstanceLocation)
	subs := x.alternatives(e)
	names := " alternative"
	if len(subs) > 0 {
		names = " of: " + listed(subs, nameOf)
	}
	if tooMany {
		return []haft.Misfit{{Pointer: at, Message: "fits more than one" + names}}
	}
	branches := make([]branch, len(e.Causes))
	for i, c := range e.Causes {
		branches[i] = x.branch(c, e.InstanceLocation)
		if i < len(subs) {
			branches[i].name = nameOf(subs[i])
		}
	}
	near := slices.DeleteFunc(slices.Clone(branches), func(b branch) bool { return b.types != nil })
	if len(near) == 0 {
		return []haft.Misfit{{Pointer: at, Message: noneMessage(branches, e)}}
	}
	if len(near) == 1 {
		return near[0].misfits
	}
	if m, ok := oneValue(near, at); ok {
		return []haft.Misfit{m}
	}
	if some := slices.DeleteFunc(slices.Clone(near), func(b branch) bool { return b.other }); len(some) > 0 {
		near = some
	}
	if len(near) == 1 {
		return near[0].misfits
	}
	best := slices.MinFunc(near, func(a, b branch) int { return len(a.misfits) - len(b.misfits) })
	head := haft.Misfit{Pointer: at, Message: "fits none of the alternatives"}
	if len(subs) > 0 {
		head.Message = "fits none" + names
	}
	if best.name != "" {
		head.Message += "; the nearest is " + best.name
	}
	return append([]haft.Misfit{head}, best.misfits...)
}

// alternatives returns the alternatives of the union that e is about.
func (x *explainer) alternatives(e *jsonschema.ValidationError) []*jsonschema.Schema {
	s := x.c.at[e.SchemaURL]
	if s == nil {
		return nil
	}
	if k, ok := e.ErrorKind.(*kind.OneOf); ok {
		if len(k.Subschemas) == 0 {
			return s.OneOf
		}
		var subs []*jsonschema.Schema
		for _, i := range k.Subschemas {
			subs = append(subs, s.OneOf[i])
		}
		return subs
	}
	return s.AnyOf
}

// branch explains one alternative.
func (x *explainer) branch(e *jsonschema.ValidationError, at []string) branch {
	b := branch{misfits: x.explain(e)}
	walkError(e, func(e *jsonschema.ValidationError) bool {
		switch k := e.ErrorKind.(type) {
		case *kind.Type:
			if len(e.InstanceLocation) == len(at) {
				b.types = append(b.types, k.Want...)
			}
		case *kind.Const, *kind.Enum:
			b.other = b.other || len(e.InstanceLocation) == len(at)+1
		case *kind.AnyOf, *kind.OneOf, *kind.PropertyNames, *kind.Contains, *kind.MinContains:
			return false
		}
		return true
	})
	return b
}

// walkError calls f for e and, where f returns true, for its causes.
func walkError(e *jsonschema.ValidationError, f func(*jsonschema.ValidationError) bool) {
	if f(e) {
		for _, c := range e.Causes {
			walkError(c, f)
		}
	}
}

// noneMessage names the types of all branches.
func noneMessage(branches []branch, e *jsonschema.ValidationError) string {
	var types []string
	for _, b := range branches {
		types = union(types, b.types)
	}
	got := ""
	walkError(e, func(e *jsonschema.ValidationError) bool {
		if k, ok := e.ErrorKind.(*kind.Type); ok {
			got = k.Got
		}
		return true
	})
	return "must be " + typeWords(types) + ", is " + article(got)
}

// oneValue merges alternatives that are single values: "a" or "b" or "c".
func oneValue(near []branch, at string) (haft.Misfit, bool) {
	var parts []string
	for _, b := range near {
		if len(b.misfits) != 1 || b.misfits[0].Pointer != at {
			return haft.Misfit{}, false
		}
		rest, ok := strings.CutPrefix(b.misfits[0].Message, "must be ")
		if !ok {
			return haft.Misfit{}, false
		}
		parts = append(parts, strings.TrimPrefix(rest, "one of "))
	}
	return haft.Misfit{Pointer: at, Message: "must be one of " + listed(parts, func(s string) string { return s })},
		true
}

// nameOf names an alternative as its author would.
func nameOf(s *jsonschema.Schema) string {
	switch {
	case s.Title != "":
		return printable(s.Title, maxToken)
	case s.Ref != nil:
		if s.Ref.Title != "" {
			return printable(s.Ref.Title, maxToken)
		}
		if tokens, ok := locationTokens(s.Ref.Location); ok && len(tokens) > 0 {
			return printable(tokens[len(tokens)-1], maxToken)
		}
	case s.Const != nil:
		return valueText(*s.Const)
	case s.Enum != nil:
		return "one of " + listed(s.Enum.Values, valueText)
	case s.Types != nil && !s.Types.IsEmpty():
		return strings.Join(s.Types.ToStrings(), " or ")
	}
	return "a schema without a name"
}
