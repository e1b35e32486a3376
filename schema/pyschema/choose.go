package pyschema

import (
	"slices"
	"strings"

	"haft/schema"
)

// tool finds the function that is the tool.
func (m *module) tool(opts schema.Options) (*statement, error) {
	var all []*statement
	switch marked, public := m.choices(); {
	case opts.Function != "":
		for _, f := range m.functions {
			if f.Name == opts.Function && m.stays(f) {
				all = append(all, f)
			}
		}
		if len(all) == 0 {
			all = m.called(opts.Function)
		}
	case opts.OneTool:
		documented := false
		if all, documented = m.tools(); len(all) > 0 {
			e := &schema.AmbiguousError{Undocumented: !documented}
			for _, f := range all {
				if !slices.Contains(e.Tools, f.Name) {
					e.Tools = append(e.Tools, f.Name)
				}
			}
			if len(e.Tools) > 1 {
				return nil, e
			}
		}
	case len(marked) > 0:
		all = marked
	default:
		all = public
	}
	if len(all) == 0 {
		return nil, m.noTool(opts.Function)
	}
	chosen := all[len(all)-1]
	for _, f := range all[:len(all)-1] {
		if f.Name == chosen.Name && !f.Second {
			e := chosen.fault("the function is defined twice, in line %d and in line %d: give each its own name",
				f.Line, chosen.Line)
			e.Function = chosen.Name
			return nil, e
		}
	}
	return chosen, nil
}

// called returns the functions whose tools another library's decorator gives a name.
func (m *module) called(name string) (all []*statement) {
	names := newEvaluator(m, &state{steps: maxSteps})
	for _, f := range m.functions {
		if given, _ := names.givenName(f); given == name && m.stays(f) {
			all = append(all, f)
		}
	}
	return all
}

// stays reports whether a function is what its name means in the end, as far as that is known.
func (m *module) stays(f *statement) bool {
	return !f.decorated("overload") && (!f.Second || m.names[f.Name] == f)
}

// choices returns the functions that a decorator makes tools, and the other public ones.
func (m *module) choices() (marked, others []*statement) {
	for _, f := range m.functions {
		switch {
		case !m.stays(f):
		case m.marked(f):
			marked = append(marked, f)
		case public(f.Name):
			others = append(others, f)
		}
	}
	return marked, others
}

// tools returns the functions that are tools, and whether decorators or docstrings say so: the
// marked ones, else the documented public ones, else all public ones.
func (m *module) tools() (all []*statement, documented bool) {
	marked, others := m.choices()
	if len(marked) > 0 {
		return marked, true
	}
	for _, f := range others {
		if _, ok := f.doc(); ok {
			all = append(all, f)
		}
	}
	if len(all) > 0 {
		return all, true
	}
	return others, false
}

// marked reports whether a decorator makes f a tool: one that is called tool, as @tool, @x.tool and
// @tool(…), or that is imported under that name and called something else here.
func (m *module) marked(f *statement) bool {
	return slices.ContainsFunc(f.Decorators, m.makesTool)
}

// makesTool reports whether a decorator makes a function a tool, see [module.marked].
func (m *module) makesTool(d *expr) bool {
	return d.called("tool") || strings.HasSuffix(m.resolve(d.callee(), nil).full, ".tool")
}

// decorated reports whether a decorator of f is called name, such as @tool,
// @x.tool or @tool(…).
func (f *statement) decorated(name string) bool {
	return slices.ContainsFunc(f.Decorators, func(d *expr) bool { return d.called(name) })
}

// callee returns what a call calls, and what is no call as it is.
func (e *expr) callee() *expr {
	if e != nil && e.Kind == "call" {
		return e.Value
	}
	return e
}

// called reports whether a decorator is name, x.name or a call of one.
func (e *expr) called(name string) bool {
	e = e.callee()
	return e != nil && (e.Kind == "name" || e.Kind == "attr") && e.Name == name
}
