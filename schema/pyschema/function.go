package pyschema

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"haft/schema"
)

// public reports whether a name is meant for others.
func public(name string) bool { return !strings.HasPrefix(name, "_") }

// noTool says why there is no function to take.
func (m *module) noTool(name string) error {
	if name == "" {
		for _, f := range m.functions {
			return f.fault("the source has no public function: the name %s begins with an underscore; rename it, or "+
				"name it as the tool", f.Name)
		}
		for _, c := range m.classes {
			if len(c.Methods) > 0 {
				return c.fault("the source has no function at its top level: methods such as %s.%s cannot be tools",
					c.Name, c.Methods[0])
			}
		}
		return place{}.fault("the source has no function at its top level: a tool is a def or async def that is not " +
			"indented")
	}
	for _, c := range m.classes {
		for _, method := range c.Methods {
			if method == name || c.Name+"."+method == name {
				return c.fault("%s is a method of the class %s: methods cannot be tools, write a function", method,
					c.Name)
			}
		}
	}
	var names []string
	for _, f := range m.functions {
		names = append(names, f.Name)
	}
	if len(names) == 0 {
		return place{}.fault("there is no function %s at the top level of the source", name)
	}
	return place{}.fault("there is no function %s at the top level of the source; there is: %s", name,
		strings.Join(names[:min(len(names), 10)], ", "))
}

// signature describes f.
func (m *module) signature(ctx context.Context, resolve Resolver, f *statement,
	opts schema.Options) (*schema.Signature, error) {
	raw, _ := f.doc()
	doc := parseDoc(raw)
	sig := &schema.Signature{Function: f.Name, Async: f.Async}
	sig.ReturnsText = doc.returns
	if f.Returns == nil && doc.returnType != "" {
		sig.ReturnsText = strings.TrimSuffix(strings.TrimSpace(doc.returnType+": "+doc.returns), ":")
	}
	var faults []error
	fault := func(e *schema.SourceError) {
		e.Function = f.Name
		faults = append(faults, e)
	}
	if f.Generic {
		fault(f.fault("the function has type parameters, which a schema cannot express: write concrete types"))
		return nil, errors.Join(faults...)
	}
	b := newBuilder(ctx, m, resolve, false)
	other := b.otherDecorated(f)
	sig.Name, sig.Description = cmp.Or(other.name, f.Name), cmp.Or(other.description, doc.description)
	b.texts = other.params
	params, errs, err := b.parameters(f, doc, sig, opts)
	if errors.Is(err, errTooLarge) {
		sig.Injected = nil
		b = newBuilder(ctx, m, resolve, true)
		b.texts = other.params
		params, errs, err = b.parameters(f, doc, sig, opts)
	}
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("read Python source: %w", context.Cause(ctx))
	case errors.Is(err, errTooLarge):
		fault(f.fault("the types of the parameters make a schema that is too large"))
	case err != nil:
		return nil, err
	}
	errs = append(errs, b.decorated(f, sig)...)
	if m.marked(f) {
		errs = append(errs, b.sharesName(f, sig.Name)...)
	}
	if missing := f.undocumented(doc, sig.Description, params); opts.DescriptionsOptional {
		sig.Undocumented = missing
	} else {
		errs = append(errs, missing...)
	}
	slices.SortStableFunc(errs, func(a, b *schema.SourceError) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	for _, e := range errs {
		fault(e)
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	sig.Parameters = b.defs.finish(params)
	schema.NoteFiles(sig.Parameters)
	sig.Warnings = append(other.ignored, f.contradictions(doc, sig.Parameters)...)
	for _, w := range other.ignored {
		w.Function = f.Name
	}
	sig.Returns = m.returned(ctx, resolve, f)
	return sig, nil
}

// returned returns the schema of the value, or nil: a value of a type that we
// cannot know does not spoil a tool.
func (m *module) returned(ctx context.Context, resolve Resolver, f *statement) *schema.Object {
	if f.Returns == nil {
		return nil
	}
	for _, share := range []bool{false, true} {
		b := newBuilder(ctx, m, resolve, share)
		s := b.annotation(f.Returns, nil)
		if b.state.err == nil && s.Len() > 0 {
			return b.defs.finish(s)
		}
		if !errors.Is(b.state.err, errTooLarge) {
			return nil
		}
	}
	return nil
}

// parameters returns the schema of the parameters of f and every fault in them.
// The error is errTooLarge, or not the source's fault.
func (b *builder) parameters(f *statement, doc docText, sig *schema.Signature,
	opts schema.Options) (*schema.Object, []*schema.SourceError, error) {
	properties := &schema.Object{}
	required := []any{}
	var faults []*schema.SourceError
	for i, p := range f.Params {
		if schema.IsInjected(p.Name) && p.Kind != "args" && p.Kind != "kwargs" {
			sig.Injected = append(sig.Injected, p.Name)
			continue
		}
		s, must := b.parameter(p, i, doc.params[p.Name])
		err := b.state.err
		b.state.err = nil // the other parameters are looked at too
		if b.state.nodes > maxNodes {
			return nil, nil, errTooLarge
		}
		if err != nil {
			e, ok := errors.AsType[*schema.SourceError](err)
			if !ok {
				return nil, nil, err
			}
			e.Parameter = p.Name
			if !opts.TypesOptional || p.Kind == "args" || p.Kind == "kwargs" {
				faults = append(faults, e)
				continue
			}
			s = &schema.Object{}
		}
		properties.Set(p.Name, s)
		if must {
			required = append(required, p.Name)
		}
	}
	return schema.Obj("type", "object", "properties", properties, "required", required), faults, nil
}

// parameter returns the schema of the i-th parameter and whether it is required.
//
// None stands for "not given": a parameter that admits None and has no other
// default is not required, and its schema does not mention null.
func (b *builder) parameter(p param, i int, doc string) (s *schema.Object, required bool) {
	switch {
	case p.Kind == "args":
		b.fail(p.fault("*%s takes any number of values, which a schema cannot name: take one parameter of type list",
			p.Name))
	case p.Kind == "kwargs":
		b.fail(p.fault("**%s takes any names, which a schema cannot list: declare each parameter, or take one of "+
			"type dict", p.Name))
	case i == 0 && (p.Name == "self" || p.Name == "cls"):
		b.fail(p.fault("a tool is a plain function and has no %s: remove it", p.Name))
	case p.Type == nil:
		b.fail(p.fault("it has no type annotation: write one, such as %s: str", p.Name))
	}
	note := b.meta.unwrap(p.Type, nil)
	m := b.meta.metadata(note.notes, nil)
	b.meta.defaultOf(p.Default, nil, &m)
	if note.typ == nil || note.skip {
		b.fail(p.fault("it has no type of a value"))
	}
	s = b.typeWithMeta(note.typ, nil, &m)
	if !m.optional || m.known && m.fallback == nil {
		if rest := withoutNull(s); rest != nil {
			s, m.optional, m.known, m.fallback = rest, true, true, nil
		}
	}
	s = b.state.describe(s, cmp.Or(doc, m.description, b.texts[p.Name]))
	if m.known && (m.fallback == nil || admits(s, m.fallback)) {
		s.Set("default", m.fallback)
	}
	return s, !m.optional
}

// withoutNull returns s without the alternative null, or nil if it has none or
// nothing else.
func withoutNull(s *schema.Object) *schema.Object {
	out := schema.Clone(s).(*schema.Object)
	isNull := func(v any) bool { return v == nil || v == "null" }
	if all := out.Array("anyOf"); all != nil {
		var rest []any
		found := false
		for _, a := range all {
			o, ok := a.(*schema.Object)
			if ok && o.String("type") == "null" {
				found = true
				continue
			}
			if ok {
				if inner := withoutNull(o); inner != nil {
					a, found = inner, true
				}
			}
			rest = append(rest, a)
		}
		if !found || len(rest) == 0 {
			return nil
		}
		if one, ok := rest[0].(*schema.Object); ok && len(rest) == 1 {
			out.Delete("anyOf")
			merge(one, out)
			return one
		}
		return out.Set("anyOf", rest)
	}
	types := slices.DeleteFunc(out.Array("type"), isNull)
	if len(types) == 0 || len(types) == len(s.Array("type")) {
		return nil
	}
	if out.Set("type", types); len(types) == 1 {
		out.Set("type", types[0])
	}
	if values := slices.DeleteFunc(out.Array("enum"), func(v any) bool { return v == nil }); len(values) > 0 {
		out.Set("enum", values)
	}
	return out
}
