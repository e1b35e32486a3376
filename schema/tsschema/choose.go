package tsschema

import (
	"fmt"
	"slices"
	"strings"
)

// chooseTool returns the function that is the tool, and the name under which it is
// exported: the one named; else the default export; else the one marked @tool;
// else the last exported one.
func chooseTool(f *file, name string) (*function, string, *problem) {
	applyAliases(f)
	bodies := map[string]bool{}
	for _, fn := range f.functions {
		bodies[fn.name] = bodies[fn.name] || !fn.bodiless
	}
	var exported []*function
	for _, fn := range f.functions {
		if len(fn.exported) > 0 && !(fn.bodiless && bodies[fn.name]) {
			exported = append(exported, fn)
		}
	}
	if name != "" {
		return chooseNamed(f, exported, name)
	}
	if len(exported) == 0 {
		at := -1
		if n := len(f.functions); n > 0 {
			at = f.functions[n-1].at
		}
		return nil, "",
			&problem{at, "no function is exported: write export before the function that is the tool, or assign it " +
				"to module.exports"}
	}
	fn := exported[len(exported)-1]
	if i := slices.IndexFunc(exported,
		func(fn *function) bool { return slices.Contains(fn.exported, "default") }); i >= 0 {
		fn = exported[i]
	} else if i := slices.IndexFunc(exported, func(fn *function) bool { return fn.doc.find("tool") != nil }); i >= 0 {
		fn = exported[i]
	}
	return checkTool(f, fn, fn.exported[0])
}

// chooseNamed finds the function that was asked for.
func chooseNamed(f *file, exported []*function, name string) (*function, string, *problem) {
	var names []string
	for _, fn := range slices.Backward(exported) {
		if slices.Contains(fn.exported, name) {
			return checkTool(f, fn, name)
		}
		if fn.name == name {
			return checkTool(f, fn, fn.exported[0])
		}
		names = append(names, fn.exported[0])
	}
	for _, fn := range f.functions {
		if fn.name == name {
			return nil, "", &problem{fn.at, "it is not exported: write export before it"}
		}
	}
	if len(names) == 0 {
		return nil, "", &problem{-1, "there is no such function, and none is exported"}
	}
	slices.Sort(names)
	return nil, "", &problem{-1, "there is no such function; exported are " +
		strings.Join(names[:min(len(names), maxProblems)], ", ")}
}

// checkTool refuses functions that cannot be tools.
func checkTool(f *file, fn *function, export string) (*function, string, *problem) {
	var same []*function
	for _, other := range f.functions {
		if other != fn && other.name == fn.name && fn.name != "" {
			same = append(same, other)
		}
	}
	switch {
	case fn.name == "":
		return nil, "", &problem{fn.at, "the default export has no name: give the function one, it is the tool's"}
	case len(same) > 0 && slices.ContainsFunc(same, func(o *function) bool { return o.bodiless }):
		return nil, "",
			&problem{same[0].at, fmt.Sprintf("the function %s has overloads: a tool has one signature, keep one",
				fn.name)}
	case len(same) > 0:
		return nil, "", &problem{max(fn.at, same[0].at),
			fmt.Sprintf("two functions are called %s: rename one", fn.name)}
	case fn.bodiless:
		return nil, "", &problem{fn.at, fmt.Sprintf("the function %s has no body", fn.name)}
	}
	return fn, export, nil
}

// applyAliases gives functions the names of export lists.
func applyAliases(f *file) {
	byName := map[string]*function{}
	for _, fn := range f.functions {
		if fn.name != "" {
			byName[fn.name] = fn
		}
	}
	for _, a := range f.aliases {
		if fn := byName[a.name]; fn != nil {
			fn.exported = append(fn.exported, a.as)
		}
	}
}
