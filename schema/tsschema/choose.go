package tsschema

import (
	"fmt"
	"slices"
	"strings"

	"haft/schema"
)

// exportedFunctions returns the functions that the file exports, in their order.
func exportedFunctions(f *file) []*function {
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
	return exported
}

// marked returns the default export, or else the functions with @tool in their comments.
func marked(exported []*function) []*function {
	for _, fn := range exported {
		if slices.Contains(fn.exported, "default") {
			return []*function{fn}
		}
	}
	return slices.DeleteFunc(slices.Clone(exported), func(fn *function) bool { return fn.doc.find("tool") == nil })
}

// tools returns the exported functions that are tools, and whether comments or a default export
// say so: the marked ones, else those with a description, else all.
func tools(exported []*function) (all []*function, documented bool) {
	if all = marked(exported); len(all) > 0 {
		return all, true
	}
	all = slices.DeleteFunc(slices.Clone(exported), func(fn *function) bool { return fn.doc.description() == "" })
	if len(all) > 0 {
		return all, true
	}
	return exported, false
}

// exportNames returns the names under which functions are exported.
func exportNames(all []*function) []string {
	var names []string
	for _, fn := range all {
		if !slices.Contains(names, fn.exported[0]) {
			names = append(names, fn.exported[0])
		}
	}
	return names
}

// noExport says that there is no function to take.
func noExport(f *file) *problem {
	at := -1
	if n := len(f.functions); n > 0 {
		at = f.functions[n-1].at
	}
	return &problem{at, "no function is exported: write export before the function that is the tool, or assign it " +
		"to module.exports"}
}

// chooseTool returns the function that is the tool, and the name under which it is
// exported: the one named; else the default export; else the first one marked @tool;
// else the last exported one.
func chooseTool(f *file, name string) (*function, string, *problem) {
	exported := exportedFunctions(f)
	if name != "" {
		return chooseNamed(f, exported, name)
	}
	if len(exported) == 0 {
		return nil, "", noExport(f)
	}
	fn := exported[len(exported)-1]
	if all := marked(exported); len(all) > 0 {
		fn = all[0]
	}
	return checkTool(f, fn, fn.exported[0])
}

// chooseOne returns the only tool of a file.
func chooseOne(f *file) (string, error) {
	all, documented := tools(exportedFunctions(f))
	switch names := exportNames(all); {
	case len(names) > 1:
		return "", &schema.AmbiguousError{Tools: names, Undocumented: !documented}
	case len(names) == 1:
		return names[0], nil
	}
	return "", nil
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

// applyAliases gives functions the names of export lists, once.
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
	f.aliases = nil
}
