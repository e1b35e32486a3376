package review

import (
	"cmp"
	"maps"
	"slices"
)

// Rules lists the rules of this package, by their names.
func Rules() []Rule {
	return slices.SortedFunc(maps.Values(rules()), func(a, b Rule) int { return cmp.Compare(a.ID, b.ID) })
}

// PythonScript returns the script that reads Python source.
func PythonScript() string { return pythonScript() }
