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
	v, err := typed("", root)
	if err != nil {
		return nil, err
	}
	c, _ := v.(*Object)
	for range maxHops {
		if !c.Has("$ref") {
			break
		}
		target, _, _ := refTarget(c, c)
		t, ok := target.(*Object)
		if !ok {
			break
		}
		defs := keep(c, "$defs", "definitions")
		c = beside(t, c)
		for _, k := range defs.Keys() {
			c.Set(k, defs.Value(k))
		}
	}
	if !c.Has("type") {
		c = prefixed("type", "object", c)
	}
	if c.Value("type") != "object" {
		return nil, badSchema("root", "the schema of arguments must be of type object")
	}
	if !c.Has("properties") {
		c.Set("properties", &Object{})
	}
	if !c.Has("required") {
		c.Set("required", []any{})
	}
	if description == "" {
		description = "The " + name + " tool"
	}
	return &Signature{Name: name, Description: description, Parameters: c}, nil
}

// typed copies a schema with the types that it means without saying so.
func typed(_ string, v any) (any, error) {
	o, ok := v.(*Object)
	if !ok {
		return Clone(v), nil
	}
	c, err := mapSubs(o, typed)
	if err != nil {
		return nil, err
	}
	if t := inferType(c); t != "" && !c.Has("anyOf") && !c.Has("oneOf") && !c.Has("allOf") && !c.Has("$ref") {
		return prefixed("type", t, c), nil
	}
	return c, nil
}
