package supply

// IndexHosts is hosts.
func (c Config) IndexHosts(kind string) ([]string, error) { return c.hosts(kind) }

// Imports is imports.
func Imports(source string, names []string) []string { return imports(source, names) }
