package pyschema_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// preamble is what every generated module begins with.
const preamble = `import datetime as dt
import typing as t
from collections import deque
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum, auto
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import (Annotated, Any, ClassVar, Dict, FrozenSet, List, Literal, Mapping, NamedTuple, NewType, Optional, Sequence, Set,
    Tuple, TypeAlias, Union)
from uuid import UUID

import annotated_types
from pydantic import (UUID4, AliasChoices, AnyUrl, BaseModel, ConfigDict, EmailStr, Field, HttpUrl, NegativeInt, NonNegativeInt, NonPositiveFloat,
    PositiveFloat, PositiveInt, PrivateAttr, RootModel, SecretStr, StrictInt, StrictStr, StringConstraints, confloat, conint, conlist,
    constr)
from pydantic.alias_generators import to_camel
from pydantic.dataclasses import dataclass as model_dataclass
from typing_extensions import NotRequired, Required, TypeAliasType, TypedDict
`

// A generator writes one tool and the types that it needs.
type generator struct {
	r       *rand.Rand
	prefix  string // of every name, so that many tools fit into one module
	count   int
	classes int
	source  strings.Builder
	scalars []*genType
	models  []*model // that others may derive from
	// closed is set within a model that forbids more keys: typed dicts and
	// dataclasses there would be closed too, which a schema of theirs cannot tell.
	closed bool
}

// A generated is a tool, its own part of the module, and the values to judge.
type generated struct {
	name, source string
	arguments    *record
}

// newTool generates a tool.
func newTool(r *rand.Rand, number int) generated {
	g := &generator{r: r, prefix: fmt.Sprintf("T%d", number), scalars: scalars()}
	name := fmt.Sprintf("tool_%d", number)
	args := &record{extra: "forbid"}
	var texts []string
	byName := false
	for i := range 1 + r.IntN(4) {
		f := genField{name: "p" + strconv.Itoa(i), typ: g.typ(0)}
		f.key = f.name
		f.required = f.typ.fallback == "" || r.IntN(3) > 0
		text := g.parameter(&f)
		texts = append(texts, text)
		args.fields = append(args.fields, f)
		// Those without a default cannot follow those with one, unless they are
		// given by name.
		if strings.Contains(text, " = ") && !byName {
			texts = append(texts, "*")
			byName = true
		}
	}
	if texts[len(texts)-1] == "*" {
		texts = texts[:len(texts)-1]
	}
	fmt.Fprintf(&g.source, "%sdef %s(%s) -> str:\n    \"\"\"Do it.\"\"\"\n    return ''\n", pick(r, "", "", "async "),
		name, strings.Join(texts, ", "))
	return generated{name: name, source: g.source.String(), arguments: args}
}

// parameter writes a parameter of the tool.
func (g *generator) parameter(f *genField) string {
	switch {
	case f.required && f.typ.args != "" && g.r.IntN(3) == 0:
		return f.name + ": " + f.typ.base + " = Field(" + f.typ.args + ")"
	case f.required:
		return f.name + ": " + f.typ.text
	case f.typ.args != "" && g.r.IntN(3) == 0:
		return f.name + ": " + f.typ.base + " = Field(default=" + f.typ.fallback + ", " + f.typ.args + ")"
	}
	return f.name + ": " + f.typ.text + " = " + f.typ.fallback
}

// name returns a new name.
func (g *generator) name(kind string) string {
	g.count++
	return fmt.Sprintf("%s%s%d", g.prefix, kind, g.count)
}

// declare adds lines to the source.
func (g *generator) declare(lines ...string) {
	g.source.WriteString(strings.Join(lines, "\n") + "\n\n\n")
}

// simple returns a type without parts.
func (g *generator) simple() *genType {
	switch g.r.IntN(10) {
	case 0:
		return intBetween(g.r)
	case 1:
		return floatBetween(g.r)
	case 2:
		return multiple(g.r)
	case 3, 4:
		return textOf(g.r)
	case 5:
		return g.literal()
	}
	return pick(g.r, g.scalars...)
}

// typ returns any type.
func (g *generator) typ(depth int) *genType {
	if depth > 2 {
		return g.simple()
	}
	switch g.r.IntN(24) {
	case 0, 1:
		return g.optional(g.typ(depth + 1))
	case 2, 3:
		return g.union(depth)
	case 4, 5:
		return g.sequence(g.typ(depth + 1))
	case 6, 7:
		return g.bounded(g.typ(depth + 1))
	case 8:
		return g.tuple(depth)
	case 9, 10:
		return g.mapping(g.typ(depth + 1))
	case 11, 12:
		return g.enum()
	case 13:
		return g.alias(depth)
	case 14, 15, 16, 17, 18, 19:
		if g.classes < 6 {
			g.classes++
			return g.class(depth + 1)
		}
	}
	return g.simple()
}

// class returns a type with named fields.
func (g *generator) class(depth int) *genType {
	n := g.r.IntN(9)
	if g.closed && n < 2 {
		n = 8
	}
	switch n {
	case 0:
		return g.dataclass(depth)
	case 1:
		return g.typedDict(depth)
	case 2:
		return g.namedTuple(depth)
	case 3:
		return g.discriminated(depth)
	case 4:
		return g.recursive(depth)
	case 5:
		return g.rootModel(depth)
	case 6:
		// Some more to derive from.
		g.model(depth + 1)
		g.model(depth + 1)
	}
	return g.model(depth).typ()
}

// enum declares an enum.
func (g *generator) enum() *genType {
	name := g.name("Enum")
	var t *genType
	switch g.r.IntN(8) {
	case 5:
		g.declare("class "+name+"(int, Enum):", "    SMALL = 2", "    LARGE = SMALL * 10 + 5")
		t = oneOf(name, name+".LARGE", list{2, 25}, list{20, "SMALL", 0})
	case 6:
		g.declare("class "+name+"(str, Enum):", "    RED = 'red'", "    BLUE = 'blue'")
		t = oneOf("Literal["+name+".RED]", name+".RED", list{"red"}, list{"blue", "RED", 2})
	case 0:
		g.declare("class "+name+"(IntEnum):", "    LOW = 2", "    HIGH = 10")
		t = oneOf(name, name+".LOW", list{2, 10}, list{3, 0, "LOW", 11})
	case 1:
		g.declare("class "+name+"(StrEnum):", "    RED = auto()", "    DARK_BLUE = auto()")
		t = oneOf(name, name+".RED", list{"red", "dark_blue"}, list{"RED", "green", 2, ""})
	case 2:
		g.declare("class "+name+"(str, Enum):", `    """Doc."""`, "    RED = 'r'", "    BLUE = 'b'")
		t = oneOf(name, name+".BLUE", list{"r", "b"}, list{"RED", "R", "", 0})
	case 3:
		g.declare("class "+name+"(Enum):", "    A = 3", "    B = auto()", "    C = 7", "    D = auto()")
		t = oneOf(name, name+".D", list{3, 4, 7, 8}, list{2, 0, "A", 9})
	case 4:
		g.declare("class "+name+"(Enum):", "    A = 'x'", "    B = 2", "    C = None", "    D = 1.5")
		t = oneOf(name, name+".A", list{"x", 2, nil, 1.5}, list{"A", 3, "y", 2.5})
	default:
		g.declare("class "+name+"(str, Enum):", "    ONE = 'eins'", "    TWO = 'zwei'", "    ALSO_ONE = 'eins'", "",
			"    def label(self) -> str:", "        return self.value.title()")
		t = oneOf(name, name+".TWO", list{"eins", "zwei"}, list{"drei", "ONE", "", 2})
	}
	return t
}

// alias gives a type another name.
func (g *generator) alias(depth int) *genType {
	t := *g.typ(depth + 1)
	name := g.name("Alias")
	switch g.r.IntN(5) {
	case 3:
		g.declare(name + " = TypeAliasType('" + name + "', " + t.text + ")")
	case 4:
		// A type that contains itself.
		t = *pick(g.r, g.scalars[:4]...)
		g.declare(name + " = TypeAliasType('" + name + "', \"Union[" + t.text + ", list[" + name + "]]\")")
		inner := t
		t.hashable, t.fallback = false, ""
		t.valid = func(r *rand.Rand, depth int) any {
			if depth > 3 || r.IntN(2) == 0 {
				return inner.valid(r, depth+1)
			}
			return list{inner.valid(r, depth+1), list{}}
		}
		t.near = func(r *rand.Rand, depth int) any {
			return pick[any](r, almost(r, &inner, depth), list{almost(r, &inner, depth)},
				list{list{almost(r, &inner, depth)}})
		}
	case 0:
		g.declare(name + ": TypeAlias = " + t.text)
	case 1:
		g.declare(name + " = " + t.text)
	default:
		t = *oneOf("", "", list{3, 2}, list{1.5, "x"})
		g.declare(name + " = NewType('" + name + "', int)")
	}
	t.text, t.base, t.args = name, "", ""
	return &t
}

// A genField is a named part.
type genField struct {
	name, key string
	typ       *genType
	required  bool
}

// A record is an object with named parts.
type record struct {
	fields []genField
	extra  string // forbid, allow or ignore
}

// valid makes an object that fits.
func (rec *record) valid(r *rand.Rand, depth int) map[string]any {
	m := map[string]any{}
	for _, f := range rec.fields {
		if f.required || depth <= 3 && r.IntN(3) > 0 {
			m[f.key] = f.typ.valid(r, depth+1)
		}
	}
	if rec.extra != "forbid" && r.IntN(5) == 0 {
		m["unknown"] = pick[any](r, 2, "x", nil)
	}
	return m
}

// near makes an object that often does not fit.
func (rec *record) near(r *rand.Rand, depth int) any {
	m := rec.valid(r, depth)
	if len(rec.fields) == 0 {
		return m
	}
	f := pick(r, rec.fields...)
	switch n := r.IntN(10); {
	case n == 0:
		m["unknown_key"] = 2
	case n < 3:
		delete(m, f.key)
	case n == 3:
		m[f.key] = nil
	default:
		m[f.key] = almost(r, f.typ, depth+1)
	}
	return m
}

// typ makes a type of a record.
func (rec *record) typ(text string) *genType {
	return &genType{text: text, near: rec.near, valid: func(r *rand.Rand, depth int) any { return rec.valid(r, depth) }}
}

// A model is a model of Pydantic.
type model struct {
	record
	name  string
	bases []string // all of them
	plain bool     // it says nothing about more keys
}

// model declares a model.
func (g *generator) model(depth int) *model {
	m := &model{record: record{extra: "ignore"}}
	base, config, keyword := "BaseModel", []string(nil), ""
	switch n := g.r.IntN(8); {
	case len(g.models) > 0 && n < 3:
		b := pick(g.r, g.models...)
		base, m.extra = b.name, b.extra
		m.fields = append(m.fields, b.fields...)
		if c := g.unrelated(b); n < 2 && c != nil {
			// The first base has the last word about fields, the last about the rest.
			base, m.extra = b.name+", "+c.name, c.extra
			if c.plain {
				m.extra = b.extra
			}
			for _, f := range c.fields {
				if !m.has(f.name) {
					m.fields = append(m.fields, f)
				}
			}
		}
	case n < 5:
		m.extra = pick(g.r, "forbid", "allow", "ignore")
		config = []string{"    model_config = ConfigDict(extra='" + m.extra + "')", ""}
	case n == 5:
		m.extra = "forbid"
		config = []string{"    model_config = {'extra': 'forbid', 'title': 'A title'}", ""}
	case n == 6:
		m.extra = "forbid"
		keyword = ", extra='forbid'"
	default:
		m.plain = g.r.IntN(3) > 0
		if !m.plain {
			m.extra = "forbid"
			config = []string{"    class Config:", "        extra = 'forbid'", ""}
		}
	}
	camel := base == "BaseModel" && config == nil && keyword == "" && g.r.IntN(4) == 0
	if camel {
		config = []string{"    model_config = ConfigDict(alias_generator=to_camel)", ""}
	}
	lines := append([]string{`    """A model."""`}, config...)
	before := g.closed
	g.closed = g.closed || m.extra == "forbid"
	declared := map[string]bool{}
	for range 1 + g.r.IntN(4) {
		f := genField{name: pick(g.r, "alpha", "beta", "gamma_ray", "delta", "epsilon", "type", "items", "id"),
			typ: g.typ(depth + 1)}
		f.key = f.name
		if declared[f.name] {
			continue
		}
		declared[f.name] = true
		// One of a base is declared again, as another type.
		m.fields = slices.DeleteFunc(slices.Clone(m.fields), func(o genField) bool { return o.name == f.name })
		lines = append(lines, g.field(&f))
		if camel && f.key == "gamma_ray" {
			f.key = "gammaRay"
		}
		m.fields = append(m.fields, f)
	}
	g.closed = before
	if g.r.IntN(3) == 0 {
		lines = append(lines, "    SOME: ClassVar[int] = 5", "    _hidden: int = PrivateAttr(default=3)")
	}
	for _, b := range strings.Split(base, ", ") {
		m.bases = append(m.bases, b)
		if b := g.find(b); b != nil {
			m.bases = append(m.bases, b.bases...)
			m.plain = b.plain && base == b.name
		}
	}
	m.name = g.name("Model")
	g.declare(append([]string{"class " + m.name + "(" + base + keyword + "):"}, lines...)...)
	if !g.closed && !camel {
		g.models = append(g.models, m)
	}
	return m
}

// find returns a model by its name.
func (g *generator) find(name string) *model {
	for _, m := range g.models {
		if m.name == name {
			return m
		}
	}
	return nil
}

// unrelated returns a model that can be a base beside m, or nil.
func (g *generator) unrelated(m *model) *model {
	for _, other := range g.models {
		if other.name != m.name && !slices.Contains(m.bases, other.name) && !slices.Contains(other.bases, m.name) {
			return other
		}
	}
	return nil
}

// has reports whether a field is there.
func (rec *record) has(name string) bool {
	for _, f := range rec.fields {
		if f.name == name {
			return true
		}
	}
	return false
}

// typ makes a type of a model.
func (m *model) typ() *genType { return m.record.typ(m.name) }

// field writes a field of a model, and decides whether it has a default and
// another name in JSON.
func (g *generator) field(f *genField) string {
	args := ""
	typ := f.typ.text
	if f.typ.args != "" && g.r.IntN(2) == 0 {
		typ, args = f.typ.base, ", "+f.typ.args
	}
	f.required = f.typ.fallback == "" || g.r.IntN(2) == 0
	if g.r.IntN(5) == 0 {
		f.key = f.name + "Key"
		args += pick(g.r, ", alias=", ", validation_alias=") + "'" + f.key + "'"
	}
	if g.r.IntN(4) == 0 {
		args += ", description='What it is.', examples=[1]"
	}
	indent := "    " + f.name + ": "
	switch {
	case f.required && args == "" && g.r.IntN(10) == 0 && !strings.Contains(typ, "Any") && typ != "object":
		f.required = false
		return indent + typ + " = None" // which is no value of the type; Pydantic does not mind
	case f.required && args == "":
		return indent + typ
	case f.required && g.r.IntN(3) == 0:
		return indent + typ + " = Field(..." + args + ")"
	case f.required:
		return indent + typ + " = Field(" + args[2:] + ")"
	case f.typ.fallback == "[]" && g.r.IntN(2) == 0:
		return indent + typ + " = Field(default_factory=list" + args + ")"
	case f.typ.fallback == "{}" && g.r.IntN(2) == 0:
		return indent + typ + " = Field(default_factory=lambda: {}" + args + ")"
	case args == "":
		return indent + typ + " = " + f.typ.fallback
	}
	return indent + typ + " = Field(" + pick(g.r, "", "default=") + f.typ.fallback + args + ")"
}

// dataclass declares a dataclass.
func (g *generator) dataclass(depth int) *genType {
	rec := &record{extra: "ignore"}
	var lines []string
	for i := range 1 + g.r.IntN(3) {
		f := genField{name: "f" + strconv.Itoa(i), typ: g.typ(depth + 1)}
		f.key = f.name
		f.required = f.typ.fallback == "" || g.r.IntN(2) == 0
		line := "    " + f.name + ": " + f.typ.text
		switch {
		case f.required:
		case f.typ.fallback == "[]":
			line += " = field(default_factory=list)"
		case f.typ.fallback == "{}":
			line += " = field(default_factory=dict)"
		case g.r.IntN(3) == 0:
			line += " = field(default=" + f.typ.fallback + ")"
		default:
			line += " = " + f.typ.fallback
		}
		lines = append(lines, line)
		rec.fields = append(rec.fields, f)
	}
	name := g.name("Data")
	g.declare(append([]string{pick(g.r, "@dataclass(kw_only=True)", "@model_dataclass(kw_only=True)"),
		"class " + name + ":"}, lines...)...)
	if g.r.IntN(3) > 0 {
		return rec.typ(name)
	}
	child := g.name("Data")
	g.declare("@dataclass(kw_only=True)", "class "+child+"("+name+"):", "    more: int = 3")
	rec.fields = append(rec.fields, genField{name: "more", key: "more", typ: g.scalars[0]})
	return rec.typ(child)
}

// typedDict declares a typed dict.
func (g *generator) typedDict(depth int) *genType {
	rec := &record{extra: "ignore"}
	name := g.name("Dict")
	total := g.r.IntN(2) == 0
	first := "class " + name + "(TypedDict):"
	if !total {
		first = "class " + name + "(TypedDict, total=False):"
	}
	lines := []string{first}
	for i := range 1 + g.r.IntN(3) {
		f := genField{name: "k" + strconv.Itoa(i), typ: g.typ(depth + 1), required: total}
		f.key = f.name
		text := f.typ.text
		switch g.r.IntN(4) {
		case 0:
			text, f.required = "NotRequired["+text+"]", false
		case 1:
			text, f.required = "Required["+text+"]", true
		}
		lines = append(lines, "    "+f.name+": "+text)
		rec.fields = append(rec.fields, f)
	}
	g.declare(lines...)
	if g.r.IntN(3) == 0 {
		child := g.name("Dict")
		g.declare("class "+child+"("+name+", total=False):", "    more: int")
		rec.fields = append(rec.fields, genField{name: "more", key: "more", typ: g.scalars[0]})
		name = child
	}
	return rec.typ(name)
}

// namedTuple declares a named tuple.
func (g *generator) namedTuple(depth int) *genType {
	lines := []string{}
	var all []*genType
	for i := range 1 + g.r.IntN(3) {
		t := g.typ(depth + 1)
		all = append(all, t)
		lines = append(lines, fmt.Sprintf("    n%d: %s", i, t.text))
	}
	name := g.name("Named")
	if g.r.IntN(3) == 0 {
		lines = append(lines, "    last: int = 5")
	}
	g.declare(append([]string{"class " + name + "(NamedTuple):"}, lines...)...)
	return places(name, all, false)
}

// discriminated declares models that are told apart by a field.
func (g *generator) discriminated(depth int) *genType {
	var names []string
	var all []*genType
	for _, tag := range []string{"cat", "dog", "fish"}[:2+g.r.IntN(2)] {
		m := &record{extra: "ignore"}
		f := genField{name: "own", key: "own", typ: g.typ(depth + 1), required: true}
		m.fields = []genField{{name: "kind", key: "kind", required: true,
			typ: oneOf("", "", list{tag}, list{"cat", "dog", "bird", 2, nil})}, f}
		name := g.name("Kind")
		g.declare("class "+name+"(BaseModel):", "    kind: Literal['"+tag+"']", "    own: "+f.typ.text)
		names, all = append(names, name), append(all, m.typ(name))
	}
	text := "Annotated[Union[" + strings.Join(names, ", ") + "], Field(discriminator='kind')]"
	return &genType{text: text,
		valid: func(r *rand.Rand, depth int) any { return pick(r, all...).valid(r, depth) },
		near:  func(r *rand.Rand, depth int) any { return pick(r, all...).near(r, depth) },
	}
}

// recursive declares models that contain themselves, or each other.
func (g *generator) recursive(depth int) *genType {
	one, two := g.name("Node"), g.name("Node")
	first, second := &record{extra: "ignore"}, &record{extra: "ignore"}
	quoted := second.typ("'" + two + "'")
	field := func(name string, t *genType) genField { return genField{name: name, key: name, typ: t} }
	value := g.typ(depth + 1)
	first.fields = []genField{
		field("again", g.optional(first.typ("'"+one+"'"))),
		field("many", items("list['"+one+"']", first.typ(""), 0, 2, false)),
		field("other", g.optional(quoted)),
		{name: "value", key: "value", typ: value, required: true},
	}
	second.fields = []genField{field("back", g.mapping(first.typ("'"+one+"'")))}
	g.declare("class "+one+"(BaseModel):",
		"    again: "+first.fields[0].typ.text+" = None",
		"    many: "+first.fields[1].typ.text+" = []",
		"    other: "+first.fields[2].typ.text+" = None",
		"    value: "+value.text, "", "",
		"class "+two+"(BaseModel):",
		"    back: "+second.fields[0].typ.text+" = {}")
	return first.typ(one)
}

// rootModel declares a model that is one value.
func (g *generator) rootModel(depth int) *genType {
	t := g.typ(depth + 1)
	if strings.Contains(t.text, "Any") || t.text == "object" || t.text == "None" {
		t = intBetween(g.r) // whether a union of those with None is optional is a matter of taste
	}
	name := g.name("Root")
	g.declare("class "+name+"(RootModel["+t.text+"]):", `    """One value."""`)
	return &genType{text: name, valid: t.valid, near: t.near}
}
