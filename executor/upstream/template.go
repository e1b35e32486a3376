package upstream

import (
	"fmt"

	"haft"
	"haft/internal/secret"
)

// An expanded value has its variables filled in. Bound are the bound secrets among them.
type expanded struct {
	text  string
	bound []secret.Named
}

// expand fills variables into values. If two variables have the same name, the last one
// counts. A variable that is not set is an error of the caller: with a header that is
// half empty, the server might take the caller for somebody else.
func expand(what string, values map[string]string, vars []secret.Named) (map[string]expanded, error) {
	if len(values) == 0 {
		return nil, nil
	}
	known := make(map[string]secret.Named, len(vars))
	for _, v := range vars {
		known[v.Name] = v
	}
	out := make(map[string]expanded, len(values))
	for name, text := range values {
		missing := ""
		var e expanded
		e.text = secret.ExpandReferences(text, func(name string) string {
			v, ok := known[name]
			if !ok && missing == "" {
				missing = name
			}
			if v.Bound != nil {
				e.bound = append(e.bound, v)
			}
			return v.Value.Reveal()
		})
		if missing != "" {
			return nil, &haft.Error{Code: haft.CodeInvalid, Message: fmt.Sprintf(
				"%s %s of the server needs the variable %s: set it for the agent or the organisation, or give it "+
					"with the call", what, name, missing)}
		}
		out[name] = e
	}
	return out, nil
}

// texts returns the values without their bound secrets.
func texts(values map[string]expanded) map[string]string {
	if values == nil {
		return nil
	}
	out := make(map[string]string, len(values))
	for name, v := range values {
		out[name] = v.text
	}
	return out
}

// Templated reports whether a value consists only of references to variables, so that it
// is no secret itself.
func Templated(value string) bool {
	return value != "" && secret.ExpandReferences(value, func(string) string { return "" }) == ""
}
