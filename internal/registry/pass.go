package registry

import (
	"fmt"
	"slices"

	"haft"
	"haft/schema"
)

// passGiven returns how to call a function of JavaScript with arguments of a schema that was
// given beside the source. The two were not made from each other, so that
//
//	the function        the properties    get
//	f(person: {a, b})   a, b              f({a, b}): it takes all arguments as one object
//	f(person: {a, b})   person            f(person)
//	f(p: {a, b})        person            f(person): the only one that it can be
//	f(x, y)             x, y, in any order f(x, y)
//	f(x, y)             a, b              f(a, b): required ones first, then in the order of the schema, as in Letta
//	f(x, y)             x, b              f(x, b)
//	f(args)             a, b              f({a, b})
//
// Everything else is an error: the function would see undefined.
func passGiven(d *Derived, given any) ([]haft.Argument, error) {
	tree, _ := given.(*schema.Object)
	if len(d.Pass) == 0 || d.Signature == nil || d.Parameters == nil || tree == nil {
		return d.Pass, nil
	}
	properties := tree.Object("properties")
	if extra := tree.Value("additionalProperties"); properties == nil ||
		properties.Len() == 0 && extra != nil && extra != false {
		return d.Pass, nil // arguments of any name
	}
	keys := inOrder(properties.Keys(), tree.Value("required"))
	pass := slices.Clone(d.Pass)
	var own []*haft.Argument // those that are not filled in by the server
	for i, a := range pass {
		if !slices.Contains(d.Injected, a.Name) {
			own = append(own, &pass[i])
		}
	}
	var err error
	switch {
	case len(own) == 0:
	case own[0].Whole:
		err = d.passWhole(own[0], keys)
	default:
		err = d.passEach(own, keys)
	}
	if err != nil {
		return nil, err
	}
	return pass, nil
}

// inOrder returns keys in the order in which Letta passes them.
func inOrder(keys []string, required any) []string {
	list, _ := required.([]any)
	all := make([]string, 0, len(keys))
	for _, v := range list {
		if name, ok := v.(string); ok && slices.Contains(keys, name) && !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	for _, k := range keys {
		if !slices.Contains(all, k) {
			all = append(all, k)
		}
	}
	return all
}

// passWhole decides what a function gets that takes all arguments as one object.
func (d *Derived) passWhole(a *haft.Argument, keys []string) error {
	known := func(name string) bool { return slices.Contains(keys, name) }
	var members []string
	if p := d.Parameters.Object("properties"); p != nil {
		members = p.Keys()
	}
	switch {
	case len(members) == 0 || slices.ContainsFunc(members, known):
		for _, m := range members {
			if !known(m) && d.needs(m) {
				return mismatch(m)
			}
		}
	case known(a.Name):
		a.Whole = false
	case len(keys) == 1:
		a.Name, a.Whole = keys[0], false
	case slices.ContainsFunc(members, d.needs):
		return mismatch(a.Name)
	}
	return nil
}

// passEach decides what a function gets that takes its arguments one by one: each what is called like
// it, and the others what is left, in order.
func (d *Derived) passEach(own []*haft.Argument, keys []string) error {
	var open []*haft.Argument
	for _, a := range own {
		if i := slices.Index(keys, a.Name); i >= 0 {
			keys = slices.Delete(slices.Clone(keys), i, i+1)
		} else {
			open = append(open, a)
		}
	}
	if len(keys) > len(open) && len(open) > 0 {
		if len(own) > 1 {
			return mismatch(open[0].Name)
		}
		open[0].Whole = true
		return nil
	}
	for i, a := range open {
		switch {
		case i < len(keys):
			a.Name = keys[i]
		case d.needs(a.Name):
			return mismatch(a.Name)
		}
	}
	return nil
}

// needs reports whether the function cannot do without a parameter, as far as its source says so.
func (d *Derived) needs(name string) bool {
	list, _ := d.Parameters.Value("required").([]any)
	return name == "" || slices.Contains(list, any(name))
}

// mismatch is the error for a parameter that would get nothing.
func mismatch(name string) error {
	if name == "" {
		name = "that is destructured"
	}
	return &haft.Error{Code: haft.CodeInvalid, Message: fmt.Sprintf("the schema of the arguments does not fit the "+
		"source: no property of the schema is called like parameter %s of the function: name the property like the "+
		"parameter", name)}
}
