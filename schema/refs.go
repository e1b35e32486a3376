package schema

import (
	"net/url"
	"slices"
	"strings"

	"haft/internal/jsontree"
)

// maxHops bounds a chain of references that lead to references.
const maxHops = 256

// pointer splits a reference into the steps of its JSON Pointer. Only references
// into the same document have one: nothing is ever fetched.
func pointer(ref string) ([]string, bool) {
	fragment, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil, false
	}
	if fragment == "" {
		return nil, true
	}
	// In a reference the pointer is a URI fragment (RFC 6901, section 6).
	fragment, err := url.PathUnescape(fragment)
	if err != nil || !strings.HasPrefix(fragment, "/") {
		return nil, false
	}
	steps := strings.Split(fragment[1:], "/")
	for i, s := range steps {
		steps[i] = strings.ReplaceAll(strings.ReplaceAll(s, "~1", "/"), "~0", "~")
	}
	return steps, true
}

// canonical writes steps as a reference, always in the same way.
func canonical(steps []string) string {
	ref := "#"
	for _, s := range steps {
		ref += "/" + referenceEscapes.Replace(s)
	}
	return ref
}

// referenceEscapes escapes a step of a pointer, and what must be escaped in a URI
// fragment and occurs in names.
var referenceEscapes = strings.NewReplacer("~", "~0", "/", "~1", "%", "%25", `"`, "%22", "#", "%23", " ", "%20")

// refTarget says why the reference of o does not lead to a schema, or returns the
// schema, which is an [*Object] or a bool. The text quotes nothing of o.
func refTarget(root any, o *Object) (target any, steps []string, problem string) {
	ref, ok := o.Value("$ref").(string)
	if !ok {
		return nil, nil, "'$ref' must be a string"
	}
	if !strings.HasPrefix(ref, "#") {
		return nil, nil, "'$ref' leads out of the schema, and nothing is fetched"
	}
	steps, ok = pointer(ref)
	if !ok {
		return nil, nil, "'$ref' is not a JSON Pointer"
	}
	target, ok = jsontree.At(root, steps)
	if !ok {
		return nil, nil, "'$ref' leads nowhere"
	}
	switch target.(type) {
	case *Object, bool:
		return target, steps, ""
	}
	return nil, nil, "'$ref' does not lead to a schema"
}

// followRefs follows the references of o to a schema that is not just a reference,
// or returns o where it cannot.
func followRefs(root any, o *Object) *Object {
	at := o
	for range 16 { // it is asked of every property
		target, _, _ := refTarget(root, at) // nil without a reference
		next, ok := target.(*Object)
		if !ok || at.Has("type") || at.Has("properties") {
			return at
		}
		at = next
	}
	return o
}

// loops finds schemas that refer to themselves without a step into a property or
// an item, so that no value is ever reached.
type loops struct {
	root  any
	state map[*Object]loopState
}

type loopState int

const (
	unseen loopState = iota
	walking
	ends
	loopsForever
)

// at reports whether o is, or leads in place to, such a loop.
func (l *loops) at(o *Object) bool {
	switch l.state[o] {
	case walking, loopsForever:
		return true
	case ends:
		return false
	}
	l.state[o] = walking
	found := false
	for _, next := range l.next(o) {
		found = l.at(next) || found
	}
	l.state[o] = ends
	if found {
		l.state[o] = loopsForever
	}
	return found
}

// next returns the schemas that are about the same value as o.
func (l *loops) next(o *Object) []*Object {
	var all []*Object
	target, _, _ := refTarget(l.root, o) // nil without a reference
	if t, ok := target.(*Object); ok {
		all = append(all, t)
	}
	for _, s := range subs(o) {
		if t, ok := s.value.(*Object); ok && slices.Contains(inPlace, s.keyword) {
			all = append(all, t)
		}
	}
	return all
}

// inlinedRoot returns the root of a schema without a reference: the schema that it
// refers to, with the keywords beside the reference.
func inlinedRoot(root *Object) *Object {
	top := root
	for range maxHops {
		target, _, _ := refTarget(root, top) // nil without a reference
		t, ok := target.(*Object)
		if !ok {
			break
		}
		top = mergeRef(t, top)
	}
	return top
}
