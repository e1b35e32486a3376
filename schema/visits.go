package schema

import (
	"math"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"haft"
)

// The library visits a value once for every way that leads to it through the
// schema. A dozen lines of allOf, or alternatives that refer to each other, make
// that exponential. So every check is preceded by a count of its visits, which
// is cheap because equal questions are asked once.
const (
	// maxVisits is the most that one check may cost, beside visitsPerNode for
	// every node of the value. A visit takes some microseconds if it fails.
	maxVisits     = 100_000
	visitsPerNode = 8
	// maxCounted bounds the count itself.
	maxCounted = 4_000_000
)

// applied calls f for every schema that s applies to the value that it is applied
// to itself.
func applied(s *jsonschema.Schema, f func(*jsonschema.Schema)) {
	for _, sub := range []*jsonschema.Schema{s.Ref, s.Not, s.If, s.Then, s.Else} {
		if sub != nil {
			f(sub)
		}
	}
	for _, list := range [][]*jsonschema.Schema{s.AllOf, s.AnyOf, s.OneOf} {
		for _, sub := range list {
			f(sub)
		}
	}
	for _, sub := range s.DependentSchemas {
		f(sub)
	}
	for _, dep := range s.Dependencies {
		if sub, ok := dep.(*jsonschema.Schema); ok {
			f(sub)
		}
	}
}

// below calls f for every schema that s applies to something within the value.
func below(s *jsonschema.Schema, f func(*jsonschema.Schema)) {
	for _, sub := range s.Properties {
		f(sub)
	}
	for _, sub := range s.PatternProperties {
		f(sub)
	}
	for _, sub := range append(s.PrefixItems[:len(s.PrefixItems):len(s.PrefixItems)], s.Items2020, s.Contains,
		s.UnevaluatedItems, s.UnevaluatedProperties, s.PropertyNames, s.ContentSchema) {
		if sub != nil {
			f(sub)
		}
	}
	for _, v := range []any{s.AdditionalProperties, s.Items, s.AdditionalItems} {
		switch v := v.(type) {
		case *jsonschema.Schema:
			if v != nil {
				f(v)
			}
		case []*jsonschema.Schema:
			for _, sub := range v {
				f(sub)
			}
		}
	}
}

// visitSchemas walks all schemas that root reaches, refuses what can never be decided,
// and counts the ways.
func (c *Compiled) visitSchemas() error {
	const here, done = 1, 2
	state := map[*jsonschema.Schema]int{}
	ways := map[*jsonschema.Schema]int64{}
	recursive := false
	var visit func(s *jsonschema.Schema)
	visit = func(s *jsonschema.Schema) {
		if state[s] != 0 {
			recursive = recursive || state[s] == here
			return
		}
		state[s] = here
		c.facts[s], c.at[s.Location] = &facts{}, s
		n := int64(1)
		each := func(sub *jsonschema.Schema) {
			visit(sub)
			n = saturate(n, ways[sub])
		}
		applied(s, each)
		below(s, each)
		state[s], ways[s] = done, n
	}
	visit(c.root)
	if !recursive {
		c.paths = ways[c.root]
	}
	return c.decidable()
}

// decidable refuses schemas that come back to themselves without a step down
// into the value, and those whose meaning depends on who refers to them.
func (c *Compiled) decidable() error {
	const here, done = 1, 2
	state := map[*jsonschema.Schema]int{}
	var bad *haft.Misfit
	refuse := func(s *jsonschema.Schema, message string) {
		tokens, _ := locationTokens(s.Location)
		if m := (haft.Misfit{Pointer: Pointer(tokens), Message: message}); bad == nil || m.Pointer < bad.Pointer {
			bad = &m
		}
	}
	var visit func(s *jsonschema.Schema)
	visit = func(s *jsonschema.Schema) {
		switch {
		case state[s] == here:
			refuse(s, "refers to itself without consuming a value")
		case state[s] == done:
		case s.DynamicRef != nil || s.RecursiveRef != nil:
			refuse(s, "uses $dynamicRef or $recursiveRef, which is not supported")
		default:
			state[s] = here
			applied(s, visit)
			state[s] = done
		}
	}
	for s := range c.facts {
		visit(s)
	}
	if bad == nil {
		return nil
	}
	return &haft.Error{Code: haft.CodeInvalid, Message: "the schema cannot be decided", Misfits: []haft.Misfit{*bad}}
}

// saturate adds without overflow.
func saturate(a, b int64) int64 {
	if a > math.MaxInt64/4-b {
		return math.MaxInt64 / 4
	}
	return a + b
}

// budget is how many visits a value of so many nodes may cost.
func budget(nodes int) int64 { return maxVisits + int64(nodes)*visitsPerNode }

// affordable reports whether holding v, which has so many nodes, against s costs
// a bounded number of visits.
func (c *Compiled) affordable(s *jsonschema.Schema, v any, nodes int) bool {
	most := budget(nodes)
	if c.paths > 0 && c.paths < most/int64(max(nodes, 1)) {
		return true
	}
	k := counter{known: map[question]int64{}}
	return k.visits(s, k.shape(v)) <= most && !k.over
}

// question is one schema held against one place of a value.
type question struct {
	s *jsonschema.Schema
	n *shape
}

// shape is a value with an identity for each of its places.
type shape struct {
	v    any
	keys map[string]*shape
	list []*shape
}

// counter counts visits.
type counter struct {
	known map[question]int64
	over  bool
}

// shape gives every place of v an identity.
func (k *counter) shape(v any) *shape {
	n := &shape{v: v}
	switch v := v.(type) {
	case map[string]any:
		n.keys = make(map[string]*shape, len(v))
		for key, x := range v {
			n.keys[key] = k.shape(x)
		}
	case []any:
		n.list = make([]*shape, len(v))
		for i, x := range v {
			n.list[i] = k.shape(x)
		}
	}
	return n
}

// visits counts the visits of n through s.
func (k *counter) visits(s *jsonschema.Schema, n *shape) int64 {
	q := question{s, n}
	if known, ok := k.known[q]; ok {
		return known
	}
	if len(k.known) > maxCounted {
		k.over = true
		return 1
	}
	k.known[q] = 1 // a loop cannot come back here: survey refused it
	sum := int64(1)
	add := func(sub *jsonschema.Schema, n *shape) { sum = saturate(sum, k.visits(sub, n)) }
	if s.Types == nil || s.Types.IsEmpty() || typeSetOf(*s.Types)&typeOf(n.v) != 0 {
		applied(s, func(sub *jsonschema.Schema) { add(sub, n) })
		k.children(s, n, add)
	}
	k.known[q] = sum
	return sum
}

// children adds what s applies to the places within n.
func (k *counter) children(s *jsonschema.Schema, n *shape, add func(*jsonschema.Schema, *shape)) {
	for key, child := range n.keys {
		for _, sub := range propertySchemas(s, key) {
			add(sub, child)
		}
		if s.PropertyNames != nil {
			add(s.PropertyNames, &shape{v: key})
		}
		if s.UnevaluatedProperties != nil {
			add(s.UnevaluatedProperties, child)
		}
	}
	for i, child := range n.list {
		for _, sub := range append(itemSchemas(s, i), s.Contains, s.UnevaluatedItems) {
			if sub != nil {
				add(sub, child)
			}
		}
	}
}

// propertySchemas returns the schemas that s applies to the property key.
func propertySchemas(s *jsonschema.Schema, key string) []*jsonschema.Schema {
	var subs []*jsonschema.Schema
	if sub, ok := s.Properties[key]; ok {
		subs = append(subs, sub)
	}
	for re, sub := range s.PatternProperties {
		if re.MatchString(key) {
			subs = append(subs, sub)
		}
	}
	if sub, ok := s.AdditionalProperties.(*jsonschema.Schema); ok && len(subs) == 0 {
		subs = append(subs, sub)
	}
	return subs
}

// itemSchemas returns the schemas that s applies to item i.
func itemSchemas(s *jsonschema.Schema, i int) []*jsonschema.Schema {
	var subs []*jsonschema.Schema
	switch items := s.Items.(type) { // drafts before 2020-12
	case *jsonschema.Schema:
		subs = append(subs, items)
	case []*jsonschema.Schema:
		if i < len(items) {
			subs = append(subs, items[i])
		} else if more, ok := s.AdditionalItems.(*jsonschema.Schema); ok {
			subs = append(subs, more)
		}
	}
	if i < len(s.PrefixItems) {
		subs = append(subs, s.PrefixItems[i])
	} else if s.Items2020 != nil {
		subs = append(subs, s.Items2020)
	}
	return subs
}
