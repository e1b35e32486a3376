package schema

import (
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"haft"
)

// FitOptions steer how arguments are made to fit.
type FitOptions struct {
	// NoCoercion leaves every value as it is. Defaults are still applied, and
	// null for an optional parameter still means that it is not given.
	NoCoercion bool
	// Python also converts where Fit would refuse a value and Python would not, see [asPython].
	Python bool
}

// Fit makes arguments fit the schema where that loses nothing, and returns them
// in the order of the schema, or else every misfit at once. args is not changed.
//
//   - A value is converted only if its declared type does not accept it and only
//     one type remains: see coerce.
//   - A property that is not given and has a default gets it, in nested objects
//     too. A default that does not fit its own schema is not applied.
//   - null for a property that is neither required nor nullable means that it is
//     not given: models in strict mode have no other way to say so.
//   - An argument that the schema does not know is a misfit unless the root
//     allows more with additionalProperties, patternProperties or the like. JSON
//     Schema would allow it where nothing is said; but an argument that a tool
//     does not know is a mistake of the model, which gets a misfit for it. Nested
//     objects follow JSON Schema.
func (c *Compiled) Fit(args *Object, opts FitOptions) (*Object, []haft.Misfit) {
	if args == nil {
		args = &Object{}
	}
	_, nodes, bad := toPlain(args)
	if bad != nil {
		return nil, []haft.Misfit{*bad}
	}
	known, misfits := c.knownArguments(args)
	f := fitter{c: c, opts: opts, steps: budget(nodes)}
	out, ok := f.value(c.root, known, 0).(*Object)
	if !ok {
		out = known
	}
	if misfits = append(misfits, c.Check(out)...); len(misfits) > 0 {
		return nil, tidy(misfits)
	}
	return out, nil
}

// knownArguments returns the arguments that the root knows and a misfit for each
// other one.
func (c *Compiled) knownArguments(args *Object) (*Object, []haft.Misfit) {
	if c.open {
		return args, nil
	}
	var misfits []haft.Misfit
	known := &Object{}
	for _, k := range args.Keys() {
		if slices.Contains(c.params, k) || slices.ContainsFunc(c.patterns,
			func(re jsonschema.Regexp) bool { return re.MatchString(k) }) {
			known.Set(k, args.Value(k))
			continue
		}
		message := "is not a parameter; the tool takes none"
		if len(c.params) > 0 {
			message = "is not a parameter; known parameters are " +
				listed(c.params, func(n string) string { return printable(n, maxQuoted) })
		}
		misfits = append(misfits, haft.Misfit{Pointer: Pointer([]string{k}), Message: message})
	}
	return known, misfits
}

// parameters finds out which arguments the root knows, through all that it is
// made of.
func (c *Compiled) parameters() {
	seen := map[*jsonschema.Schema]bool{}
	var visit func(s *jsonschema.Schema)
	visit = func(s *jsonschema.Schema) {
		if seen[s] {
			return
		}
		seen[s] = true
		if more, ok := s.AdditionalProperties.(bool); s.AdditionalProperties != nil && (!ok || more) {
			c.open = true
		}
		if u := s.UnevaluatedProperties; u != nil && (u.Bool == nil || *u.Bool) {
			c.open = true
		}
		for re := range s.PatternProperties {
			c.patterns = append(c.patterns, re)
		}
		for _, k := range c.facts[s].order {
			if !slices.Contains(c.params, k) {
				c.params = append(c.params, k)
			}
		}
		not := s.Not
		applied(s, func(sub *jsonschema.Schema) {
			if sub != not {
				visit(sub)
			}
		})
	}
	visit(c.root)
}

// fitter makes one value fit.
type fitter struct {
	c    *Compiled
	opts FitOptions
	// steps are what is left of the budget. Beyond it values are left as they are;
	// Check then decides whether they fit.
	steps int64
}

// value makes v fit s as far as that is possible.
func (f *fitter) value(s *jsonschema.Schema, v any, depth int) any {
	if f.steps--; f.steps < 0 || depth > MaxDepth {
		return v
	}
	if !f.opts.NoCoercion {
		v = coerce(f.c.facts[s].types, v, MaxDepth-depth)
		if f.opts.Python {
			v = asPython(f.c.facts[s].types, v, MaxDepth-depth)
		}
	}
	switch v := v.(type) {
	case *Object:
		return f.object(s, v, depth)
	case []any:
		return f.array(s, v, depth)
	}
	return v
}

// object fits the properties of o and adds defaults.
func (f *fitter) object(s *jsonschema.Schema, o *Object, depth int) *Object {
	facets := f.facets(s, o, depth)
	out := &Object{}
	absent := map[string]bool{}
	for _, facet := range facets {
		for _, k := range f.c.facts[facet].order {
			if out.Has(k) || absent[k] {
				continue
			}
			subs := schemasFor(facets, func(s *jsonschema.Schema) []*jsonschema.Schema { return propertySchemas(s, k) })
			if o.Has(k) && (o.Value(k) != nil || !f.meansAbsent(facets, subs, k)) {
				out.Set(k, f.all(subs, o.Value(k), depth))
				continue
			}
			absent[k] = true
			for _, sub := range subs {
				if def, ok := f.c.defaultOf(sub); ok {
					out.Set(k, Clone(def))
					break
				}
			}
		}
	}
	for _, k := range o.Keys() {
		if !out.Has(k) && !absent[k] {
			subs := schemasFor(facets, func(s *jsonschema.Schema) []*jsonschema.Schema { return propertySchemas(s, k) })
			out.Set(k, f.all(subs, o.Value(k), depth))
		}
	}
	return out
}

// array fits the items of a list.
func (f *fitter) array(s *jsonschema.Schema, list []any, depth int) []any {
	facets := f.facets(s, list, depth)
	out := make([]any, len(list))
	for i, v := range list {
		out[i] = f.all(schemasFor(facets, func(s *jsonschema.Schema) []*jsonschema.Schema { return itemSchemas(s, i) }),
			v, depth)
	}
	return out
}

// schemasFor collects what get finds in each facet.
func schemasFor(facets []*jsonschema.Schema, get func(*jsonschema.Schema) []*jsonschema.Schema) []*jsonschema.Schema {
	var subs []*jsonschema.Schema
	for _, s := range facets {
		subs = append(subs, get(s)...)
	}
	return subs
}

// all fits v to every one of subs.
func (f *fitter) all(subs []*jsonschema.Schema, v any, depth int) any {
	for _, sub := range subs {
		v = f.value(sub, v, depth+1)
	}
	return v
}

// meansAbsent reports whether null for key means that it is not given.
func (f *fitter) meansAbsent(facets, subs []*jsonschema.Schema, key string) bool {
	if slices.ContainsFunc(facets, func(s *jsonschema.Schema) bool { return slices.Contains(s.Required, key) }) {
		return false
	}
	return slices.ContainsFunc(subs, func(s *jsonschema.Schema) bool { return f.c.facts[s].types&typeNull == 0 })
}

// facets returns the schemas that describe v in place: s, what it refers to, all
// of allOf, and of each union the one alternative that v fits.
func (f *fitter) facets(s *jsonschema.Schema, v any, depth int) []*jsonschema.Schema {
	var list []*jsonschema.Schema
	var visit func(s *jsonschema.Schema)
	visit = func(s *jsonschema.Schema) {
		if slices.Contains(list, s) {
			return
		}
		list = append(list, s)
		if s.Ref != nil {
			visit(s.Ref)
		}
		for _, sub := range s.AllOf {
			visit(sub)
		}
		for _, union := range [][]*jsonschema.Schema{s.AnyOf, s.OneOf} {
			if sub := f.choose(union, v, depth); sub != nil {
				visit(sub)
			}
		}
	}
	visit(s)
	return list
}

// choose returns the alternative that v belongs to, or nil if that would be a
// guess: the only one of its type, else the only one that it fits as it is, else
// the only one that it can be made to fit.
func (f *fitter) choose(union []*jsonschema.Schema, v any, depth int) *jsonschema.Schema {
	typ := typeOf(v)
	var same, fits, fitted []*jsonschema.Schema
	for _, s := range union {
		if f.c.facts[s].types&typ != 0 {
			same = append(same, s)
		}
	}
	if len(same) == 1 {
		return same[0]
	}
	for _, s := range same {
		if f.valid(s, v) {
			fits = append(fits, s)
		}
	}
	if len(fits) > 1 {
		return nil
	}
	if len(fits) == 1 {
		return fits[0]
	}
	for _, s := range same {
		if f.valid(s, f.value(s, v, depth+1)) {
			fitted = append(fitted, s)
		}
	}
	if len(fitted) == 1 {
		return fitted[0]
	}
	return nil
}

// valid reports whether v fits s. It counts as many steps as that takes visits.
func (f *fitter) valid(s *jsonschema.Schema, v any) bool {
	if f.steps < 0 {
		return false
	}
	p, _, bad := toPlain(v)
	if bad != nil {
		return false
	}
	k := counter{known: map[question]int64{}}
	n := k.visits(s, k.shape(p))
	if f.steps = saturate(f.steps, -n); f.steps < 0 || k.over {
		f.steps = -1
		return false
	}
	return s.Validate(p) == nil
}

// defaultOf returns the default of s, or of what it refers to.
func (c *Compiled) defaultOf(s *jsonschema.Schema) (any, bool) {
	for s != nil {
		if f := c.facts[s]; f.hasDefault {
			return f.def, true
		}
		s = s.Ref // no loop: decidable refused it
	}
	return nil, false
}
