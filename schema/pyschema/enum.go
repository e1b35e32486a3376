package pyschema

import (
	"cmp"
	"encoding/json"
	"math/big"
	"slices"
	"strings"

	"haft/schema"
)

// enum returns the schema of a class of enumerated values.
func (b *builder) enum(c *statement, k kind) *schema.Object {
	members := b.consts.members(c, k)
	s := enumSchema(members, k.enum)
	if s == nil {
		return b.fail(c.fault("the enum %s has no members", c.Name))
	}
	b.state.nodes += len(members) / 10
	return b.state.describe(s, b.classes.documentation(c).description)
}

// enumSchema returns the schema of members, or nil if there are none. Flags can
// be combined, so any number fits them.
func enumSchema(members []member, enum string) *schema.Object {
	if len(members) == 0 {
		return nil
	}
	if enum == "flag" {
		return schema.Obj("type", "integer", "minimum", json.Number("0"))
	}
	values := make([]any, len(members))
	for i, m := range members {
		values[i] = m.value
	}
	return oneOfValues(values)
}

// enumCall returns the schema of Enum("Color", names), where names are a text,
// a list of texts or pairs, or a dict.
func (b *builder) enumCall(e *expr, tag string, names *expr, in *statement) *schema.Object {
	k := kind{enum: tag}
	if t := e.keyword("type"); t != nil {
		k.mixin = tagOf(b.m.resolve(t, in).full)
	}
	var all []member
	if list, ok := b.consts.nameList(names, in); ok {
		for _, n := range list {
			all = append(all, member{n, nextValue(k, n, all)})
		}
	} else if v, ok := b.consts.constant(names, in); ok {
		switch v := v.(type) {
		case *schema.Object:
			for _, n := range v.Keys() {
				all = append(all, member{n, v.Value(n)})
			}
		case []any:
			for _, pair := range v {
				if p, ok := pair.([]any); ok && len(p) == 2 {
					all = append(all, member{"", p[1]})
				}
			}
		}
	}
	s := enumSchema(all, tag)
	if s == nil {
		return b.fail(e.fault("the members of this enum cannot be known without running the code"))
	}
	return s
}

// A member is one name of an enum and its value.
type member struct {
	name  string
	value any
}

// members returns the members of an enum class in order, or nil where state.err says why
// they are not known.
func (ev *evaluator) members(c *statement, k kind) []member {
	fail := func(err error) []member {
		ev.state.fail(err)
		return nil
	}
	if slices.Contains(c.Methods, "__new__") {
		return fail(c.fault("the enum %s makes its values in __new__, so they cannot be known without running it",
			c.Name))
	}
	var all []member
	for i := range c.Body {
		f := &c.Body[i]
		if f.Value == nil || strings.HasPrefix(f.Name, "_") {
			continue
		}
		value := f.Value
		if value.Kind == "call" {
			switch ev.m.resolve(value.Value, c).full {
			case "enum.auto":
				if slices.Contains(c.Methods, "_generate_next_value_") {
					return fail(f.fault("the enum %s makes its values in _generate_next_value_, so they cannot be "+
						"known without running it", c.Name))
				}
				all = append(all, member{f.Name, nextValue(k, f.Name, all)})
				continue
			case "enum.nonmember":
				continue
			case "enum.member":
				value = cmp.Or(value.Args...)
			}
		}
		v, ok := ev.constant(value, c)
		if t := schema.TypeName(v); !ok || t == "array" || t == "object" {
			return fail(f.fault("the member %s of the enum %s is no constant text or number", f.Name, c.Name))
		}
		all = append(all, member{f.Name, v})
		if len(all) > maxNodes {
			return fail(errTooLarge)
		}
	}
	return all
}

// nextValue is what auto() gives name after the members before it.
func nextValue(k kind, name string, before []member) any {
	if k.enum == "strenum" {
		return strings.ToLower(name)
	}
	next := big.NewInt(1)
	for i := len(before) - 1; i >= 0; i-- {
		v, ok := whole(before[i].value)
		if !ok {
			continue
		}
		if k.enum == "flag" {
			next.Lsh(next, uint(v.BitLen()))
		} else {
			next.Add(v, next)
		}
		break
	}
	if k.mixin == "str" {
		return next.String()
	}
	return json.Number(next.String())
}
