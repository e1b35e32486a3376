package schema

import "slices"

// vendorSchema copies parameters in a form that OpenAI and Anthropic accept: an object at
// the top, without a union, and arrays with items. Where that cannot express the
// parameters, the result accepts more than they do.
func vendorSchema(parameters *Object) *Object {
	top := withItems(parameters)
	if slices.ContainsFunc(notAtRoot, top.Has) || top.Has("$ref") {
		budget := maxParts
		top = merged(parameters, top, &budget)
	}
	if !top.Has("type") {
		top = prefixed("type", "object", top)
	}
	setMissing(top, "properties", &Object{})
	return top
}

// withItems gives arrays their items and writes true as {}.
func withItems(o *Object) *Object {
	c := mapSubs(o, func(s sub) any {
		switch v := s.value.(type) {
		case bool:
			if nestings[s.keyword] == oneSchema && s.keyword != "items" {
				return v
			}
			return booleanSchema(v)
		case *Object:
			return withItems(v)
		}
		return Clone(s.value)
	})
	if slices.Contains(typesOf(c), "array") && c.Object("items") == nil {
		c.Set("items", tupleItems(c))
	}
	return c
}

// tupleItems is the schema of any one item of a tuple.
func tupleItems(o *Object) *Object {
	list := o.Array("prefixItems")
	if list == nil {
		list = o.Array("items")
	}
	list = distinct(list)
	switch len(list) {
	case 0:
		return &Object{}
	case 1:
		if only, ok := list[0].(*Object); ok {
			return only
		}
	}
	c, _ := Clone(list).([]any)
	return Obj("anyOf", c)
}

// maxParts bounds how many parts of a composition are merged. Without it, parts
// that refer to parts would multiply.
const maxParts = 1000

// merged returns o without compositions at the top: the properties of all parts
// are there, and required are those that are required in any case.
func merged(root, o *Object, budget *int) *Object {
	c := without(o, append(slices.Clone(notAtRoot), "$ref", "properties", "required")...)
	properties := &Object{}
	required := names(o.Array("required"))
	add := func(from *Object) {
		if from != nil {
			mergeMissing(properties, from)
		}
	}
	add(o.Object("properties"))
	part := func(v any) *Object {
		p, ok := v.(*Object)
		if *budget--; !ok || *budget < 0 {
			return &Object{}
		}
		if p.Has("additionalProperties") && c.Has("additionalProperties") {
			c.Set("additionalProperties", true)
		}
		return merged(root, p, budget)
	}
	both := func(p *Object) *Object {
		add(p.Object("properties"))
		required = union(required, names(p.Array("required")))
		return p
	}
	if target, _, _ := refTarget(root, o); target != nil { // nil without a reference
		mergeMissing(c, both(part(target)))
	}
	for _, v := range o.Array("allOf") {
		both(part(v))
	}
	for _, k := range []string{"anyOf", "oneOf"} {
		var always []string
		either := &Object{}
		for i, v := range o.Array(k) {
			p := part(v)
			alternatives(either, p.Object("properties"))
			r := names(p.Array("required"))
			if i == 0 {
				always = r
			}
			always = slices.DeleteFunc(always, func(name string) bool { return !slices.Contains(r, name) })
		}
		add(either)
		required = union(required, always)
	}
	c.Set("properties", properties)
	required = slices.DeleteFunc(required, func(name string) bool { return !properties.Has(name) })
	return c.Set("required", anys(required))
}

// mergeMissing sets the keys of from that o does not have.
func mergeMissing(o, from *Object) {
	for _, k := range from.Keys() {
		setMissing(o, k, from.Value(k))
	}
}

// alternatives adds properties to either. One that is there becomes a union.
func alternatives(either, properties *Object) {
	if properties == nil {
		return
	}
	for _, name := range properties.Keys() {
		v := properties.Value(name)
		have, ok := either.Value(name).(*Object)
		switch {
		case !ok:
			either.Set(name, v)
		case have.Has("anyOf") && have.Len() == 1:
			have.Set("anyOf", distinct(append(slices.Clone(have.Array("anyOf")), v)))
		default:
			if list := distinct([]any{have, v}); len(list) > 1 {
				either.Set(name, Obj("anyOf", list))
			}
		}
	}
}

// union returns a and what b has besides, in order.
func union(a, b []string) []string {
	for _, s := range b {
		if !slices.Contains(a, s) {
			a = append(a, s)
		}
	}
	return a
}
