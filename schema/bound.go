package schema

import (
	"fmt"

	"haft/internal/jsontree"
)

// tooLarge says why a schema is more than we look at, or "". The bounds are those
// of [Compile]: what cannot be compiled need not be judged or converted, and no
// walk here has to be quick on more.
func tooLarge(root any) string {
	nodes, objects := 0, 0
	for at, v := range jsontree.All(root) {
		nodes++
		if _, ok := v.(*Object); ok {
			objects++
		}
		if nodes > MaxSchemaNodes || objects > MaxSchemaObjects || len(at) > MaxDepth {
			return fmt.Sprintf("it is too large: %d values, %d objects and %d levels are the most", MaxSchemaNodes,
				MaxSchemaObjects, MaxDepth)
		}
	}
	return ""
}

// deep reports whether a tree is nested deeper than levels.
func deep(v any, levels int) bool {
	for at := range jsontree.All(v) {
		if len(at) > levels {
			return true
		}
	}
	return false
}
