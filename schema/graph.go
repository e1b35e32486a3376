package schema

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"haft/internal/jsontree"
)

// graph says which references of a schema lead where.
type graph struct {
	order     []string           // canonical references, as they were met
	recursive map[string]bool    // references to schemas that contain themselves
	freedoms  map[string]freedom // the least freedom of all places that refer there
}

// newGraph looks at every reference of a schema. It is an error if one leads
// nowhere, or only to itself.
func newGraph(root *Object) (graph, error) {
	b := &graphBuilder{
		root:  root,
		loops: loops{root, map[*Object]loopState{}},
		edges: map[string][]string{},
		drawn: map[[2]string]bool{},
		least: map[string]freedom{},
	}
	if err := b.scan("root", "", root, mayClose, 0); err != nil {
		return graph{}, err
	}
	for i := 0; i < len(b.order); i++ { // scanning appends to it
		ref := b.order[i]
		steps, _ := pointer(ref)
		target, _ := jsontree.At(root, steps)
		if o, ok := target.(*Object); ok {
			if err := b.scan(lastStep(ref), ref, o, mayClose, 0); err != nil {
				return graph{}, err
			}
		}
	}
	b.propagateEqual()
	return graph{b.order, cyclic(b.order, b.edges), b.least}, nil
}

// graphBuilder collects references.
type graphBuilder struct {
	root  *Object
	loops loops
	order []string
	edges map[string][]string
	drawn map[[2]string]bool // edges that are there
	least map[string]freedom
	work  int
}

// propagateEqual extends mustEqual along references: if a schema must stay equal, so must
// all schemas that it refers to.
func (b *graphBuilder) propagateEqual() {
	var todo []string
	for _, ref := range b.order {
		if b.least[ref] == mustEqual {
			todo = append(todo, ref)
		}
	}
	for len(todo) > 0 {
		ref := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, to := range b.edges[ref] {
			if b.least[to] != mustEqual {
				b.least[to] = mustEqual
				todo = append(todo, to)
			}
		}
	}
}

// scan collects the references within o, which belong to from.
func (b *graphBuilder) scan(path, from string, o *Object, may freedom, depth int) error {
	b.work++
	if depth > MaxDepth || b.work > maxNodes*20 {
		return badSchema(path, "it is too deep, or refers to itself too often")
	}
	if o.Has("$ref") {
		_, steps, problem := refTarget(b.root, o)
		if problem != "" {
			return badSchema(path, problem)
		}
		if b.loops.at(o) {
			return badSchema(path, "'$ref' leads back to itself and to no schema")
		}
		ref := canonical(steps)
		if _, ok := b.edges[ref]; !ok {
			b.edges[ref] = nil
			b.order = append(b.order, ref)
		}
		if edge := [2]string{from, ref}; from != "" && !b.drawn[edge] {
			b.drawn[edge] = true
			b.edges[from] = append(b.edges[from], ref)
		}
		least := may
		if slices.ContainsFunc(o.Keys(), constrains) {
			least = max(may, mayNarrow)
		}
		b.least[ref] = max(b.least[ref], least)
	}
	for _, s := range subs(o) {
		t, ok := s.value.(*Object)
		if !ok {
			continue
		}
		if err := b.scan(path+s.step, from, t, freedomOf(o, s.keyword, may), depth+1); err != nil {
			return err
		}
	}
	return nil
}

// constrains reports whether a keyword beside $ref may refuse a value.
func constrains(k string) bool {
	return !strings.HasPrefix(k, "$") && k != "definitions" && !slices.Contains(annotations, k)
}

// cyclic returns the nodes that can be reached from themselves, by Tarjan's
// algorithm.
func cyclic(nodes []string, edges map[string][]string) map[string]bool {
	index, low, on := map[string]int{}, map[string]int{}, map[string]bool{}
	height := map[string]int{} // of a node on the stack
	found := map[string]bool{}
	var stack []string
	var visit func(v string)
	visit = func(v string) {
		index[v] = len(index) + 1
		low[v] = index[v]
		height[v], on[v] = len(stack), true
		stack = append(stack, v)
		for _, w := range edges[v] {
			if index[w] == 0 {
				visit(w)
				low[v] = min(low[v], low[w])
			} else if on[w] {
				low[v] = min(low[v], index[w])
			}
		}
		if low[v] != index[v] {
			return
		}
		component := stack[height[v]:]
		for _, w := range component {
			on[w] = false
			if len(component) > 1 || slices.Contains(edges[w], w) {
				found[w] = true
			}
		}
		stack = stack[:height[v]]
	}
	for _, v := range nodes {
		if index[v] == 0 {
			visit(v)
		}
	}
	return found
}

// maxCompared is the longest list whose members are compared with each other.
const maxCompared = 500

// distinct removes options that are equal to another one. Of two simple options of one
// type that differ only in a format, the one with the format stays.
func distinct(list []any) []any {
	if len(list) > maxCompared {
		return list
	}
	var out []any
	for _, v := range list {
		at := slices.IndexFunc(out, func(have any) bool { return same(have, v) || overlaps(have, v) })
		switch {
		case at < 0:
			out = append(out, v)
		case !same(out[at], v) && hasMore(v, out[at]):
			out[at] = v
		}
	}
	return out
}

// overlaps reports whether two options differ in nothing but annotations and a
// format that one of them has.
func overlaps(a, b any) bool {
	x, ok := a.(*Object)
	y, ok2 := b.(*Object)
	if !ok || !ok2 || x.String("type") == "" || x.String("type") != y.String("type") {
		return false
	}
	if x.Has("format") && y.Has("format") && x.String("format") != y.String("format") {
		return false
	}
	bare := append([]string{"format"}, annotations...)
	return same(without(x, bare...), without(y, bare...))
}

// hasMore reports whether a says more than b.
func hasMore(a, b any) bool {
	x, _ := a.(*Object)
	y, _ := b.(*Object)
	if x.Has("format") != y.Has("format") {
		return x.Has("format")
	}
	return x.Len() > y.Len()
}

// same reports whether two trees are equal, whatever the order of their keys.
func same(a, b any) bool {
	switch x := a.(type) {
	case *Object:
		y, ok := b.(*Object)
		if !ok || x.Len() != y.Len() {
			return false
		}
		for _, k := range x.Keys() {
			if !y.Has(k) || !same(x.Value(k), y.Value(k)) {
				return false
			}
		}
		return true
	case []any:
		y, ok := b.([]any)
		return ok && slices.EqualFunc(x, y, same)
	}
	if TypeName(a) != TypeName(b) {
		return false
	}
	x, err := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err == nil && err2 == nil && bytes.Equal(x, y)
}
