package schema

// FromArgsSchema makes a signature of a name and a schema of arguments that was
// given, such as args_json_schema. Everything in the schema is kept; types that
// are missing are inferred, and the description is "The NAME tool" if there is
// none. The schema must be one of an object, with references that lead somewhere:
// anything else is an [*haft.Error].
func FromArgsSchema(name, description string, args any) (*Signature, error) {
	root, ok := args.(*Object)
	if !ok {
		return nil, badSchema("root", "the schema of arguments must be an object")
	}
	if why := tooLarge(root); why != "" {
		return nil, badSchema("root", why)
	}
	if _, err := newGraph(root); err != nil {
		return nil, err
	}
	c := typed(root)
	if top := inlinedRoot(c); top != c {
		merge(top, keep(c, "$defs", "definitions"))
		c = top
	}
	if !c.Has("type") {
		c = prefixed("type", "object", c)
	}
	if c.Value("type") != "object" {
		return nil, badSchema("root", "the schema of arguments must be of type object")
	}
	setMissing(c, "properties", &Object{})
	setMissing(c, "required", []any{})
	if description == "" {
		description = "The " + name + " tool"
	}
	return &Signature{Name: name, Description: description, Parameters: c}, nil
}

// typed copies a schema with the types that it means without saying so.
func typed(o *Object) *Object {
	c := mapSubs(o, func(s sub) any {
		if within, ok := s.value.(*Object); ok {
			return typed(within)
		}
		return Clone(s.value)
	})
	if t := inferType(c); t != "" && !composed(c) {
		return prefixed("type", t, c)
	}
	return c
}
