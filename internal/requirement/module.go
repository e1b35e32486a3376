package requirement

import (
	_ "embed"
	"strings"
	"sync"
)

//go:embed modules.txt
var modulesText string

// modules returns the lists of modules.txt by their headings. A word without an equals sign
// is its own value.
var modules = sync.OnceValue(func() map[string]map[string]string {
	lists := map[string]map[string]string{}
	var list map[string]string
	for line := range strings.Lines(modulesText) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "["):
			list = map[string]string{}
			lists[strings.Trim(line, "[]")] = list
		default:
			for _, word := range strings.Fields(line) {
				module, pkg, ok := strings.Cut(word, "=")
				if !ok {
					pkg = module
				}
				list[module] = pkg
			}
		}
	}
	return lists
})

// IsStandard reports whether a module comes with Python.
func IsStandard(module string) bool {
	_, ok := listed("python modules", module)
	return ok
}

// listed returns the value of a module in one of the lists.
func listed(list, module string) (string, bool) {
	pkg, ok := modules()[list][module]
	return pkg, ok
}
