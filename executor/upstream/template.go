package upstream

import (
	"fmt"
	"regexp"
	"sync"

	"haft"
)

// variable is how a value names a variable: {{ NAME }}.
var variable = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\{\{\s*([A-Za-z_][A-Za-z0-9_]{0,127})\s*\}\}`)
})

// expand fills variables into values. One that is not set is the caller's fault:
// a header that is half empty would reach the server as somebody else's.
func expand(what string, values, vars map[string]string) (map[string]string, error) {
	if len(values) == 0 {
		return nil, nil
	}
	out := make(map[string]string, len(values))
	for name, text := range values {
		missing := ""
		out[name] = variable().ReplaceAllStringFunc(text, func(m string) string {
			v := variable().FindStringSubmatch(m)[1]
			value, ok := vars[v]
			if !ok && missing == "" {
				missing = v
			}
			return value
		})
		if missing != "" {
			return nil, &haft.Error{Code: haft.CodeInvalid, Message: fmt.Sprintf(
				"%s %s of the server needs the variable %s: set it for the agent or the organisation, or give it with the call", what, name, missing)}
		}
	}
	return out, nil
}

// Templated reports whether a value names variables and nothing else, so that it
// is no secret.
func Templated(value string) bool { return variable().ReplaceAllString(value, "") == "" && value != "" }
