package secret

import (
	"regexp"
	"slices"
	"sync"
)

// reference matches a reference to a variable: {{ NAME }}.
var reference = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\{\{\s*([A-Za-z_][A-Za-z0-9_]{0,127})\s*\}\}`)
})

// References returns the names that a text refers to as {{ NAME }}, each once.
func References(text string) []string {
	var names []string
	for _, m := range reference().FindAllStringSubmatch(text, -1) {
		if !slices.Contains(names, m[1]) {
			names = append(names, m[1])
		}
	}
	return names
}

// ExpandReferences replaces each {{ NAME }} in a text by what value returns for the name.
func ExpandReferences(text string, value func(name string) string) string {
	return reference().ReplaceAllStringFunc(text, func(m string) string {
		return value(reference().FindStringSubmatch(m)[1])
	})
}
