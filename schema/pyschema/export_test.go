package pyschema

import (
	"context"
	"slices"

	"haft/schema"
)

// ParseDoc shows the parts of a docstring to tests.
func ParseDoc(raw string) (description string, params map[string]string, returns, returnType string) {
	d := parseDoc(raw)
	return d.description, d.params, d.returns, d.returnType
}

// Derive returns the signature of the function in source that is the tool,
// without resolving imported types.
func Derive(ctx context.Context, read Reader, source []byte, opts schema.Options) (*schema.Signature, error) {
	return (&Deriver{Read: read}).Derive(ctx, source, opts)
}

// Functions returns the names of the public functions of the module, in order.
func (d *Deriver) Functions(ctx context.Context, source []byte) ([]string, error) {
	m, err := d.module(ctx, source)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, f := range m.functions {
		if public(f.Name) && !slices.Contains(names, f.Name) {
			names = append(names, f.Name)
		}
	}
	return names, nil
}
