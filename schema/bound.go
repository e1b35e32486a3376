package schema

import "fmt"

// tooLarge says why a schema is more than we look at, or "". The bounds are those
// of [Compile]: what cannot be compiled need not be judged or converted, and no
// walk of ours has to be quick on more.
func tooLarge(root any) string {
	var c sizer
	if !c.count(root, 0) {
		return fmt.Sprintf("it is too large: %d values, %d objects and %d levels are the most", MaxSchemaNodes,
			MaxSchemaObjects, MaxDepth)
	}
	return ""
}

// sizer counts the parts of a tree until there are too many.
type sizer struct{ nodes, objects int }

// count reports whether v, which is depth containers deep, stays within bounds.
func (c *sizer) count(v any, depth int) bool {
	c.nodes++
	if c.nodes > MaxSchemaNodes || depth > MaxDepth {
		return false
	}
	switch v := v.(type) {
	case *Object:
		if c.objects++; c.objects > MaxSchemaObjects {
			return false
		}
		for _, k := range v.Keys() {
			if !c.count(v.Value(k), depth+1) {
				return false
			}
		}
	case []any:
		for _, x := range v {
			if !c.count(x, depth+1) {
				return false
			}
		}
	}
	return true
}
