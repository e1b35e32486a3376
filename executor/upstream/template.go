package upstream

import (
	"fmt"
	"regexp"
	"sync"

	"haft"
	"haft/internal/secret"
)

// variable is how a value names a variable: {{ NAME }}.
var variable = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\{\{\s*([A-Za-z_][A-Za-z0-9_]{0,127})\s*\}\}`)
})

// A filled value is one with its variables filled in, and what of them is bound.
type filled struct {
	text  string
	bound []secret.Named
}

// expand fills variables into values; of two of one name the last counts. One that is
// not set is the caller's fault: a header that is half empty would reach the server as
// somebody else's.
func expand(what string, values map[string]string, vars []secret.Named) (map[string]filled, error) {
	if len(values) == 0 {
		return nil, nil
	}
	known := make(map[string]secret.Named, len(vars))
	for _, v := range vars {
		known[v.Name] = v
	}
	out := make(map[string]filled, len(values))
	for name, text := range values {
		missing := ""
		var f filled
		f.text = variable().ReplaceAllStringFunc(text, func(m string) string {
			v, ok := known[variable().FindStringSubmatch(m)[1]]
			if !ok && missing == "" {
				missing = variable().FindStringSubmatch(m)[1]
			}
			if v.Bound != nil {
				f.bound = append(f.bound, v)
			}
			return v.Value.Reveal()
		})
		if missing != "" {
			return nil, &haft.Error{Code: haft.CodeInvalid, Message: fmt.Sprintf(
				"%s %s of the server needs the variable %s: set it for the agent or the organisation, or give it "+
					"with the call", what, name, missing)}
		}
		out[name] = f
	}
	return out, nil
}

// texts are the values alone.
func texts(values map[string]filled) map[string]string {
	if values == nil {
		return nil
	}
	out := make(map[string]string, len(values))
	for name, f := range values {
		out[name] = f.text
	}
	return out
}

// Templated reports whether a value names variables and nothing else, so that it
// is no secret.
func Templated(value string) bool { return variable().ReplaceAllString(value, "") == "" && value != "" }
