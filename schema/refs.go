package schema

import (
	"net/url"
	"strconv"
	"strings"
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
	if len(steps) == 0 {
		return "#"
	}
	var b strings.Builder
	b.WriteByte('#')
	for _, s := range steps {
		b.WriteByte('/')
		s = strings.ReplaceAll(strings.ReplaceAll(s, "~", "~0"), "/", "~1")
		// What must be escaped in a URI fragment and occurs in names.
		for _, c := range []string{"%", "\"", "#", " "} {
			s = strings.ReplaceAll(s, c, url.PathEscape(c))
		}
		b.WriteString(s)
	}
	return b.String()
}

// followPointer returns what steps lead to.
func followPointer(root any, steps []string) (any, bool) {
	for _, s := range steps {
		switch v := root.(type) {
		case *Object:
			if !v.Has(s) {
				return nil, false
			}
			root = v.Value(s)
		case []any:
			i, err := strconv.Atoi(s)
			if err != nil || i < 0 || i >= len(v) || s != strconv.Itoa(i) {
				return nil, false
			}
			root = v[i]
		default:
			return nil, false
		}
	}
	return root, true
}

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
	target, ok = followPointer(root, steps)
	if !ok {
		return nil, nil, "'$ref' leads nowhere"
	}
	switch target.(type) {
	case *Object, bool:
		return target, steps, ""
	}
	return nil, nil, "'$ref' does not lead to a schema"
}

// through follows the references of o to a schema that is not just a reference,
// or returns o where it cannot.
func through(root any, o *Object) *Object {
	at := o
	for range 16 { // it is asked of every property
		if !at.Has("$ref") || at.Has("type") || at.Has("properties") {
			return at
		}
		target, _, problem := refTarget(root, at)
		next, ok := target.(*Object)
		if problem != "" || !ok {
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
	for next := range l.next(o) {
		found = l.at(next) || found
	}
	l.state[o] = ends
	if found {
		l.state[o] = loopsForever
	}
	return found
}

// next yields the schemas that are about the same value as o.
func (l *loops) next(o *Object) func(yield func(*Object) bool) {
	return func(yield func(*Object) bool) {
		if o.Has("$ref") {
			if target, _, problem := refTarget(l.root, o); problem == "" {
				if t, ok := target.(*Object); ok && !yield(t) {
					return
				}
			}
		}
		for s := range subs(o) {
			if t, ok := s.value.(*Object); ok && isInPlace(s.keyword) && !yield(t) {
				return
			}
		}
	}
}

// isInPlace reports whether schemas under keyword are about the same value.
func isInPlace(keyword string) bool {
	for _, k := range inPlaceKeywords {
		if k == keyword {
			return true
		}
	}
	return false
}
