package schema

import (
	"fmt"

	"haft/internal/jsontree"
)

// tooLarge says why a schema is too large, or returns "". The bounds are those of
// [Compile]: a schema that cannot be compiled need not be judged or converted.
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
