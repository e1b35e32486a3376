package pyschema

import (
	"maps"
	"slices"
	"strings"

	"haft"
	"haft/schema"
)

// An otherDecorator is what the decorator of another library says about its tool, such as FastMCP's
// @mcp.tool(name=…, description=…) and LangChain's @tool("name", args_schema=…). The zero value says nothing.
type otherDecorator struct {
	name, description string
	params            map[string]string // descriptions of parameters
	ignored           []*schema.SourceError
}

// otherDecorator returns the call of another library's decorator that makes f a tool, or nil. A decorator
// that the source itself declares is not one: its arguments can mean anything.
func (m *module) otherDecorator(f *statement) *expr {
	for _, d := range f.Decorators {
		if d != nil && d.Kind == "call" && m.makesTool(d) && m.resolve(d.Value, nil).full != "haft.tool" &&
			!m.declares(d.Value) {
			return d
		}
	}
	return nil
}

// declares reports whether the source has the function or the class that the decorator e is taken from, such as
// r.tool where r is an object of a class of the source.
func (m *module) declares(e *expr) bool {
	made := false // e makes the object that has the decorator
	for depth := 0; e != nil && depth < maxDepth; depth++ {
		switch e.Kind {
		case "call", "attr":
			made = made || e.Kind == "call"
			e = e.Value
			continue
		case "name":
			s := m.names[e.Name]
			if s == nil || s.Is != "assign" {
				return s != nil && (s.Is == "class" || s.Is == "def" && !made)
			}
			e = s.Value
			continue
		}
		return false
	}
	return false
}

// givenName returns the name that another library's decorator gives the tool of f, or "". why is what is
// wrong with a name that cannot be taken.
func (ev *evaluator) givenName(f *statement) (name string, why *schema.SourceError) {
	d := ev.m.otherDecorator(f)
	if d == nil {
		return "", nil
	}
	e := d.keyword("name")
	if e == nil && len(d.Args) > 0 {
		e = d.Args[0]
	}
	text, why := ev.argumentText(d, e, "the name", "the tool is called "+f.Name)
	if text == "" || why != nil {
		return "", why
	}
	if err := haft.CheckToolName(text); err != nil {
		return "", d.fault("the decorator gives the tool another name, which it cannot have: %s. It is called %s",
			haft.MessageOf(err), f.Name)
	}
	return text, nil
}

// argumentText returns the text of an argument of the decorator d, or "" if there is none. why says what happens
// instead where it is no text that can be read.
func (ev *evaluator) argumentText(d, e *expr, what, instead string) (text string, why *schema.SourceError) {
	if e == nil || e.is("none") {
		return "", nil
	}
	v, ok := ev.constant(e, nil)
	if text, ok = v.(string); !ok {
		return "", d.fault("%s in the decorator is no literal text, and the source is read and not run: %s", what,
			instead)
	}
	return strings.TrimSpace(strings.Join(clean(text), "\n")), nil
}

// otherDecorated reads what another library's decorator says about the tool of f.
func (b *builder) otherDecorated(f *statement) (o otherDecorator) {
	d := b.m.otherDecorator(f)
	if d == nil {
		return o
	}
	var why *schema.SourceError
	ignore := func(why *schema.SourceError) {
		if why != nil {
			o.ignored = append(o.ignored, why)
		}
	}
	o.name, why = b.consts.givenName(f)
	ignore(why)
	o.description, why = b.consts.argumentText(d, d.keyword("description"), "the description", "the docstring is taken")
	ignore(why)
	o.params, why = b.argsSchema(d, d.keyword("args_schema"))
	ignore(why)
	own := map[string]bool{}
	for _, p := range f.Params {
		own[p.Name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(o.params)) {
		if !own[name] {
			ignore(d.fault("args_schema has the field %s, and the function does not have such a parameter: a model is "+
				"shown the parameters of the function", name))
		}
	}
	return o
}

// argsSchema returns the descriptions of parameters in LangChain's args_schema: a class of the source, or a
// JSON Schema that is written out.
func (b *builder) argsSchema(d, e *expr) (params map[string]string, why *schema.SourceError) {
	if e == nil || e.is("none") {
		return nil, nil
	}
	params = map[string]string{}
	if c := b.m.resolve(e, nil).def; c != nil && c.Is == "class" {
		for _, f := range b.fields(c, b.classes.kindOf(c).what) {
			params[f.Name] = b.fieldText(f)
		}
		return params, nil
	}
	v, _ := b.consts.constant(e, nil)
	s, ok := v.(*schema.Object)
	if !ok {
		return nil, d.fault("args_schema is no class of this source: its descriptions are not read, describe the " +
			"parameters in the docstring")
	}
	if properties := s.Object("properties"); properties != nil {
		for _, name := range properties.Keys() {
			params[name] = ""
			if p := properties.Object(name); p != nil {
				params[name] = p.String("description")
			}
		}
	}
	return params, nil
}

// sharesName returns a mistake if another function of the source makes a tool of the same name as f.
func (b *builder) sharesName(f *statement, name string) []*schema.SourceError {
	for _, other := range b.m.functions {
		if other.Name == f.Name || !b.m.stays(other) || !b.m.marked(other) {
			continue
		}
		given, _ := b.consts.givenName(other)
		if given == name || given == "" && other.Name == name {
			return []*schema.SourceError{f.fault("the functions %s, in line %d, and %s, in line %d, are both a tool "+
				"called %s: give each its own name", f.Name, f.Line, other.Name, other.Line, name)}
		}
	}
	return nil
}
