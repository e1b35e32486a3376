package pyschema_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// A genType is a type of Python as the generator knows it.
type genType struct {
	text string
	// base and args are the type and the arguments of Field if the type is
	// Annotated[base, Field(args)], so that it can be written in another way.
	base, args string
	// valid makes a value that fits; near makes one that is at a border of the
	// type, and often beyond it. Both go no deeper where depth is high.
	valid, near func(r *rand.Rand, depth int) any
	// fallback is a default in Python, or "".
	fallback string
	hashable bool
}

// pick returns one of several.
func pick[T any](r *rand.Rand, all ...T) T { return all[r.IntN(len(all))] }

// oneOf makes a type of values that are written down.
func oneOf(text, fallback string, valid, near []any) *genType {
	return &genType{
		text: text, fallback: fallback, hashable: true,
		valid: func(r *rand.Rand, _ int) any { return pick(r, valid...) },
		near:  func(r *rand.Rand, _ int) any { return pick(r, near...) },
	}
}

// almost makes a value that often does not fit t.
func almost(r *rand.Rand, t *genType, depth int) any {
	if r.IntN(4) == 0 {
		return pick[any](r, nil, true, 0, -7, 1.5, "", "some text", []any{}, map[string]any{}, []any{nil},
			map[string]any{"x": 2})
	}
	return t.near(r, depth)
}

type list = []any

// scalars are the types without parts. Some values are in no list, because Python
// and JSON Schema mean different things by them: 1, which is equal to True, so that
// Literal[True] takes it and Literal[1] takes true; and texts of digits, which
// Pydantic takes for the seconds of a datetime.
func scalars() []*genType {
	huge := json.Number("123456789012345678901234567890")
	all := []*genType{
		oneOf("int", "3", list{0, 2, -5, 100, huge}, list{1.5, "x", true, -1, "", json.Number("2.0")}),
		oneOf("float", "0.5", list{0, 2, -5, 1.5, -0.25, 12345.678, huge}, list{"x", "", true, "one"}),
		oneOf("bool", "True", list{true, false}, list{"perhaps", 2, 0.5, nil}),
		oneOf("str", "'red'", list{"", "hello", "5", "Grüße 😀", "a\nb"}, list{5, true, 1.5}),
		oneOf("None", "None", list{nil}, list{0, "", false}),
		oneOf("Any", "None", list{nil, 2, "x", list{2}, map[string]any{"a": nil}}, list{nil}),
		oneOf("object", "None", list{nil, 2, "x", list{2}}, list{nil}),
		oneOf("dt.datetime", "", list{"2024-05-06T07:08:09Z"}, list{"2024-05-06X07:08:09", "x"}),
		oneOf("datetime", "", list{"2024-05-06T07:08:09", "2024-05-06T07:08:09Z", "2024-05-06T07:08:09.123456+02:00",
			"2024-05-06 07:08:09",
			"2024-02-29T23:59:59-11:30", "2024-05-06T07:08", "2024-05-06T07:08:09.5", "2024-05-06t07:08:09z",
			"2024-05-06T07:08:09+0200"},
			list{"yesterday", "2024-13-01T00:00:00", "2023-02-29T00:00:00", "2024-05-06T25:00:00",
				"2024-05-06T07:60:00", "", true}),
		oneOf("date", "", list{"2024-02-29", "1999-12-31", "0001-01-01"},
			list{"2023-02-29", "2024-2-9", "monday", "2024/02/03", "", list{2024, 2, 29}}),
		oneOf("time", "", list{"07:08:09", "23:59:59.5", "07:08", "00:00:00Z", "07:08:09+02:00"},
			list{"24:00:00", "07:60:00", "noon", "7 am", ""}),
		oneOf("timedelta", "", list{"P1DT2H", "PT1H30M", "-P1D", "PT0.5S", "P1W", "P1Y2M", "PT36H", "P1W2D", "PT1.5H",
			"+P1D"}, list{"1 hour", "P", "soon", "", true}),
		oneOf("UUID", "", list{"0b0a3c1e-8f0e-4c55-9c86-2f6f3c2b1a00", "0B0A3C1E-8F0E-4C55-9C86-2F6F3C2B1A00",
			"0b0a3c1e8f0e4c559c862f6f3c2b1a00", "urn:uuid:0b0a3c1e-8f0e-4c55-9c86-2f6f3c2b1a00",
			"{0b0a3c1e-8f0e-4c55-9c86-2f6f3c2b1a00}"},
			list{"0b0a3c1e", "zb0a3c1e-8f0e-4c55-9c86-2f6f3c2b1a00", "", "not a uuid"}),
		oneOf("UUID4", "", list{"0b0a3c1e-8f0e-4c55-9c86-2f6f3c2b1a00"}, list{"x", 5}),
		oneOf("Decimal", "", list{"1.10", 1.5, 3, "1e3", "-0.5", huge, "+7", ".5", "1."},
			list{"abc", "", "1.2.3", list{}}),
		oneOf("Path", "", list{"a/b.txt", "/tmp", "."}, list{5, list{"a"}, false}),
		oneOf("bytes", "", list{"aGk=", "plain text", ""}, list{5, list{3, 2}, true}),
		oneOf("AnyUrl", "", list{"https://example.com/a?b=c#d", "ftp://files.example.org", "mailto:a@example.com",
			"http://127.0.0.1:8080/", "file:///tmp/x",
			"http://exämple.de/ü", "urn:isbn:2", "http://[::1]/", "HTTP://EXAMPLE.COM"},
			list{"no url", "", "/relative", "example.com", 5}),
		oneOf("HttpUrl", "", list{"https://example.com", "http://example.com:81/x%20y"}, list{"nothing", "", "//x"}),
		oneOf("EmailStr", "", list{"a.b+c@example.org", "x@sub.example.com", "ü@example.org", "x@exämple.org"},
			list{"x", "a@", "@example.org", "a b@example.org", "a@b@example.org", ""}),
		oneOf("IPv4Address", "", list{"127.0.0.1", "255.255.255.255"}, list{"256.0.0.1", "1.2.3", "x", ""}),
		oneOf("IPv6Address", "", list{"::1", "2001:db8::ff00:42:8329"}, list{"1::2::3", "x", ""}),
		oneOf("SecretStr", "", list{"secret", ""}, list{5}),
		oneOf("StrictInt", "4", list{0, -3}, list{1.5, "two", true}),
		oneOf("StrictStr", "'s'", list{"a"}, list{2, nil}),
		oneOf("PositiveInt", "2", list{3, 2}, list{0, -1, 2}),
		oneOf("NonNegativeInt", "0", list{0, 2}, list{0, -1}),
		oneOf("NegativeInt", "-1", list{-1}, list{0, 2}),
		oneOf("Annotated[Decimal, Field(ge=2)]", "", list{2, 2.5, "3"}, list{1.5, -3, "x"}),
		oneOf("Annotated[bytes, Field(max_length=4)]", "", list{"", "abcd"}, list{"abcde", 5}),
		oneOf("Annotated[int, Field(strict=True, gt=2)]", "5", list{3, huge}, list{2, "three", 2.5}),
		oneOf("list", "[]", list{list{}, list{2, "x", nil}}, list{map[string]any{}, "x", 5}),
		oneOf("dict", "{}", list{map[string]any{}, map[string]any{"a": nil, "b": list{2}}}, list{list{}, "x"}),
		oneOf("tuple", "()", list{list{}, list{2, "x"}}, list{map[string]any{}, 5}),
		oneOf("NonPositiveFloat", "-1.5", list{0, -0.5}, list{0.001, -1, 2}),
		oneOf("PositiveFloat", "1.5", list{0.001, 7}, list{0, -0.001}),
	}
	for _, t := range all {
		// In a set equal values count once. Where one value is written in several
		// ways, such as PT90M and PT1.5H, JSON Schema counts other numbers.
		t.hashable = slices.Contains([]string{"int", "str", "date", "Path", "PositiveInt", "StrictStr"}, t.text)
	}
	return all
}

// intBetween makes an integer with bounds, written in one of several ways.
func intBetween(r *rand.Rand) *genType {
	low := 3 + r.IntN(20)
	high := low + 2 + r.IntN(20)
	args := []string{fmt.Sprintf("ge=%d", low), fmt.Sprintf("le=%d", high)}
	if r.IntN(2) == 0 {
		args = []string{fmt.Sprintf("gt=%d", low-1), fmt.Sprintf("lt=%d", high+1)}
	}
	t := oneOf("", strconv.Itoa(low+1), list{low, high, low + 1}, list{low - 1, low, high, high + 1, low - 100, "x"})
	switch r.IntN(5) {
	case 0:
		t.text = "conint(" + strings.Join(args, ", ") + ")"
	case 1:
		t.text = fmt.Sprintf("Annotated[int, annotated_types.Ge(%d), annotated_types.Lt(%d)]", low, high+1)
	default:
		t.with("int", args)
	}
	return t
}

// floatBetween makes a number with bounds.
func floatBetween(r *rand.Rand) *genType {
	if r.IntN(2) == 0 {
		return oneOf("", "0.25", list{0, 0.5, 2}, list{-0.001, 2.001, 0, 2, 3}).with("float",
			[]string{"ge=0", "le=2.0"})
	}
	return oneOf("confloat(gt=0, lt=1e3)", "2.5", list{0.001, 999.9}, list{0, 1000, 1e4, -1})
}

// multiple makes a number that is a multiple of another.
func multiple(r *rand.Rand) *genType {
	if r.IntN(2) == 0 {
		return oneOf("", "10", list{0, 5, -15}, list{2, 7, 10, -3}).with("int", []string{"multiple_of=5"})
	}
	return oneOf("", "0.5", list{0, 1.5, -2, 3.5}, list{0.3, 1.25, 2}).with("float", []string{"multiple_of=0.5"})
}

// textOf makes a string with a length or a pattern.
func textOf(r *rand.Rand) *genType {
	if r.IntN(2) == 0 {
		low, high := r.IntN(3), 3+r.IntN(4)
		args := []string{fmt.Sprintf("min_length=%d", low), fmt.Sprintf("max_length=%d", high)}
		t := oneOf("", strconv.Quote(strings.Repeat("d", high)),
			list{strings.Repeat("a", low), strings.Repeat("😀", high)},
			list{strings.Repeat("a", max(0, low-1)), strings.Repeat("ü", high+1), strings.Repeat("x", high), "", 3})
		switch r.IntN(4) {
		case 0:
			t.text = "constr(" + strings.Join(args, ", ") + ")"
		case 1:
			t.text = "Annotated[str, StringConstraints(" + strings.Join(args, ", ") + ")]"
		default:
			t.with("str", args)
		}
		return t
	}
	p := pick(r,
		[]string{`^[a-z]{2,4}$`, "abc", "xy", "ABC", "a", "abcde", ""},
		[]string{`[0-9]+`, "a1", "42", "none", "", " "},
		[]string{`^(foo|bar)-\d+$`, "foo-1", "bar-22", "baz-1", "foo-", "xfoo-1"},
		[]string{`ab`, "cabd", "ab", "a b", ""},
	)
	return oneOf("", strconv.Quote(p[1]), list{p[1], p[2]}, list{p[3], p[4], p[len(p)-1], 5}).with("str",
		[]string{"pattern=r'" + p[0] + "'"})
}

// with writes t as Annotated.
func (t *genType) with(base string, args []string) *genType {
	t.base, t.args = base, strings.Join(args, ", ")
	t.text = "Annotated[" + base + ", Field(" + t.args + ")]"
	return t
}

// literal makes a fixed set of values.
func (g *generator) literal() *genType {
	texts := []string{"'a'", "'b'", "'two words'", "4", "2", "-3", "True", "None", "'ü'"}
	values := list{"a", "b", "two words", 4, 2, -3, true, nil, "ü"}
	if g.r.IntN(2) == 0 {
		texts, values = texts[:3], values[:3]
	}
	var text []string
	var valid, others list
	for i := range texts {
		if g.r.IntN(2) == 0 || i == 0 {
			text, valid = append(text, texts[i]), append(valid, values[i])
		} else {
			others = append(others, values[i])
		}
	}
	others = append(others, "c", "A", 7, "")
	t := oneOf("Literal["+strings.Join(text, ", ")+"]", text[0], valid, others)
	return t
}

// optional makes a type that may be None.
func (g *generator) optional(t *genType) *genType {
	o := &genType{fallback: "None", hashable: t.hashable, near: t.near, valid: func(r *rand.Rand, depth int) any {
		if depth > 3 || r.IntN(3) == 0 {
			return nil
		}
		return t.valid(r, depth)
	}}
	o.text = pick(g.r, "Optional[%s]", "t.Optional[%s]", "Union[%s, None]", "Union[None, %s]")
	// A text cannot be combined with | unless annotations are not evaluated.
	if !strings.HasPrefix(t.text, "'") && t.text != "None" && g.r.IntN(2) == 0 {
		o.text = "%s | None"
	}
	text := t.text
	if t.args != "" && g.r.IntN(2) == 0 {
		o.with(fmt.Sprintf(o.text, t.base), []string{t.args}) // the bound is about the value that is not None
		return o
	}
	o.text = fmt.Sprintf(o.text, text)
	return o
}

// union makes a type that is one of several.
func (g *generator) union(depth int) *genType {
	all := []*genType{g.typ(depth + 1), g.typ(depth + 1)}
	if g.r.IntN(3) == 0 {
		all = append(all, g.simple())
	}
	u := &genType{hashable: true, fallback: all[0].fallback}
	var texts []string
	for _, t := range all {
		texts = append(texts, t.text)
		u.hashable = u.hashable && t.hashable
	}
	u.text = "Union[" + strings.Join(texts, ", ") + "]"
	if g.r.IntN(2) == 0 && !strings.Contains(u.text, "'") && !slices.Contains(texts, "None") {
		u.text = strings.Join(texts, " | ")
	}
	u.valid = func(r *rand.Rand, depth int) any { return pick(r, all...).valid(r, depth) }
	u.near = func(r *rand.Rand, depth int) any { return almost(r, pick(r, all...), depth) }
	return u
}

// sequence makes a list or something like it.
func (g *generator) sequence(item *genType) *genType {
	text := pick(g.r, "list[%s]", "List[%s]", "Sequence[%s]", "tuple[%s, ...]", "t.List[%s]", "deque[%s]")
	t := items(fmt.Sprintf(text, item.text), item, 0, 4, false)
	if strings.Contains(text, "list") || strings.Contains(text, "List") {
		t.fallback = "[]"
	}
	return t
}

// items makes an array of low to high items.
func items(text string, item *genType, low, high int, unique bool) *genType {
	some := func(r *rand.Rand, n, depth int) list {
		if depth > 3 {
			n = low
		}
		all := list{}
		seen := map[string]bool{}
		for range n {
			v := item.valid(r, depth+1)
			key, _ := json.Marshal(v)
			if unique && seen[string(key)] {
				continue
			}
			seen[string(key)] = true
			all = append(all, v)
		}
		return all
	}
	return &genType{text: text,
		valid: func(r *rand.Rand, depth int) any {
			for range 20 {
				if all := some(r, low+r.IntN(high-low+1), depth); len(all) >= low {
					return all
				}
			}
			return list{} // its items have too few values
		},
		near: func(r *rand.Rand, depth int) any {
			switch r.IntN(5) {
			case 0:
				return some(r, high+1, depth)
			case 1:
				return some(r, max(0, low-1), depth)
			}
			all := some(r, max(low, 1), depth)
			if len(all) > 0 {
				all[r.IntN(len(all))] = almost(r, item, depth+1)
			}
			return all
		},
	}
}

// bounded makes an array with a bound on its length, or a set.
func (g *generator) bounded(item *genType) *genType {
	low := g.r.IntN(2)
	high := low + 1 + g.r.IntN(3)
	args := fmt.Sprintf("min_length=%d, max_length=%d", low, high)
	if item.hashable && g.r.IntN(2) == 0 {
		text := pick(g.r, "set[%s]", "Set[%s]", "frozenset[%s]", "FrozenSet[%s]")
		if g.r.IntN(2) == 0 {
			return items(fmt.Sprintf(text, item.text), item, 0, 3, true)
		}
		return items("", item, low, high, true).with(fmt.Sprintf(text, item.text), []string{args})
	}
	if g.r.IntN(3) == 0 {
		return items("conlist("+item.text+", "+args+")", item, low, high, false)
	}
	return items("", item, low, high, false).with("list["+item.text+"]", []string{args})
}

// tuple makes a tuple with a type for each place.
func (g *generator) tuple(depth int) *genType {
	var all []*genType
	var texts []string
	hashable := true
	for range 1 + g.r.IntN(3) {
		t := g.typ(depth + 1)
		all, texts = append(all, t), append(texts, t.text)
		hashable = hashable && t.hashable
	}
	text := pick(g.r, "tuple", "Tuple") + "[" + strings.Join(texts, ", ") + "]"
	return places(text, all, hashable)
}

// places makes an array with a type for each place.
func places(text string, all []*genType, hashable bool) *genType {
	fill := func(r *rand.Rand, depth int) list {
		v := make(list, len(all))
		for i := range all {
			v[i] = all[i].valid(r, depth+1)
		}
		return v
	}
	return &genType{text: text, hashable: hashable,
		valid: func(r *rand.Rand, depth int) any { return fill(r, depth) },
		near: func(r *rand.Rand, depth int) any {
			v := fill(r, depth)
			switch i := r.IntN(len(v)); r.IntN(4) {
			case 0:
				return v[:len(v)-1]
			case 1:
				return append(v, 2)
			default:
				v[i] = almost(r, all[i], depth+1)
				return v
			}
		},
	}
}

// mapping makes a dict.
func (g *generator) mapping(item *genType) *genType {
	text, keys := pick(g.r, "dict[str, %s]", "Dict[str, %s]", "Mapping[str, %s]"), []string{"a", "b", "some key", ""}
	wrong := "c"
	switch g.r.IntN(9) {
	case 0:
		text, keys, wrong = "dict[int, %s]", []string{"1", "-2", "30"}, "one"
	case 1:
		text, keys, wrong = "dict[Literal['on', 'off'], %s]", []string{"on", "off"}, "neither"
	case 2:
		text, keys, wrong = "dict[date, %s]", []string{"2024-02-29", "1999-12-31"}, "2023-02-29"
	case 3:
		text, keys, wrong = "Dict[Annotated[str, Field(min_length=2)], %s]", []string{"ab", "abc"}, "a"
	}
	fill := func(r *rand.Rand, depth int) map[string]any {
		m := map[string]any{}
		for _, k := range keys {
			if depth <= 3 && r.IntN(2) == 0 {
				m[k] = item.valid(r, depth+1)
			}
		}
		return m
	}
	return &genType{text: fmt.Sprintf(text, item.text), fallback: "{}",
		valid: func(r *rand.Rand, depth int) any { return fill(r, depth) },
		near: func(r *rand.Rand, depth int) any {
			m := fill(r, depth)
			if r.IntN(3) == 0 {
				m[wrong] = item.valid(r, depth+1)
			} else {
				m[keys[0]] = almost(r, item, depth+1)
			}
			return m
		},
	}
}
