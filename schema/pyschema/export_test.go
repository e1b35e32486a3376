package pyschema

// ParseDoc shows the parts of a docstring to tests.
func ParseDoc(raw string) (description string, params map[string]string, returns, returnType string) {
	d := parseDoc(raw)
	return d.description, d.params, d.returns, d.returnType
}
