package supply

// Places is places.
func (c Config) Places(kind string) ([]string, error) { return c.places(kind) }

// Imports is imports.
func Imports(source string, names []string) []string { return imports(source, names) }
