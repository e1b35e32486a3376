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
//	f(x, y)             a, b              f(a, b): in the order of the schema, as in Letta
//	f(args)             a, b              f({a, b})
//
// Everything else is an error: the function would see undefined.
func passGiven(d *Derived, given any) ([]haft.Argument, error) {
	tree, _ := given.(*schema.Object)
	if len(d.Pass) == 0 || d.Signature == nil || d.Parameters == nil || tree == nil {
		return d.Pass, nil
	}
	properties := tree.Object("properties")
	if properties == nil || properties.Len() == 0 {
		return d.Pass, nil
	}
	keys, members := properties.Keys(), []string{}
	if p := d.Parameters.Object("properties"); p != nil {
		members = p.Keys()
	}
	known := func(name string) bool { return slices.Contains(keys, name) }
	pass := slices.Clone(d.Pass)
	var own []int // the places of arguments that are not filled in by the server
	for i, a := range pass {
		if !slices.Contains(d.Injected, a.Name) {
			own = append(own, i)
		}
	}
	if len(own) == 0 {
		return pass, nil
	}
	if first := &pass[own[0]]; first.Whole {
		switch {
		case len(members) == 0 || slices.ContainsFunc(members, known):
		case known(first.Name):
			first.Whole = false
		case len(keys) == 1:
			first.Name, first.Whole = keys[0], false
		default:
			return nil, mismatch(first.Name)
		}
		return pass, nil
	}
	if slices.ContainsFunc(own, func(i int) bool { return known(pass[i].Name) }) {
		for _, i := range own {
			if name := pass[i].Name; !known(name) && d.needs(name) {
				return nil, mismatch(name)
			}
		}
		return pass, nil
	}
	switch {
	case len(own) == len(keys):
		for n, i := range own {
			pass[i].Name = keys[n]
		}
	case len(own) == 1:
		pass[own[0]].Whole = true
	case slices.ContainsFunc(own, func(i int) bool { return d.needs(pass[i].Name) }):
		return nil, mismatch(pass[own[0]].Name)
	}
	return pass, nil
}

// needs reports whether the function cannot do without a parameter, as far as its source says so.
func (d *Derived) needs(name string) bool {
	list, _ := d.Parameters.Value("required").([]any)
	return slices.Contains(list, any(name))
}

// mismatch is the error for a parameter that would get nothing.
func mismatch(name string) error {
	return &haft.Error{Code: haft.CodeInvalid, Message: fmt.Sprintf("the schema of the arguments does not fit the "+
		"source: no property of the schema is called like parameter %s of the function: name the property like the "+
		"parameter", name)}
}
