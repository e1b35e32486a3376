package schemacase

import (
	"encoding/json"
	"strings"
	"testing"

	"haft/schema"
)

// restaurant has the keywords that schemas of tools use.
const restaurant = `{
	"type": "object",
	"properties": {
		"city": {"type": "string", "minLength": 2, "maxLength": 30},
		"guests": {"type": "integer", "minimum": 1, "maximum": 12},
		"price": {"type": "number", "exclusiveMinimum": 0},
		"code": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{3,5}$"},
		"when": {"type": "string", "format": "date-time"},
		"kind": {"enum": ["lunch", "dinner"]},
		"tags": {"type": "array", "items": {"type": "string"}, "maxItems": 3, "uniqueItems": true},
		"table": {"anyOf": [{"$ref": "#/$defs/Table"}, {"type": "null"}]},
		"notes": {"type": "object", "additionalProperties": {"type": "string"}}
	},
	"required": ["city", "guests", "code", "kind"],
	"$defs": {"Table": {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#/$defs/Table"}, {"type": "null"}]},
		"seats": {"type": "integer", "multipleOf": 2, "minimum": 2}}, "required": ["seats"]}}
}`

func TestCases_are_what_they_are_called(t *testing.T) {
	t.Parallel()
	g, err := New([]byte(restaurant), 7)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[Kind]map[string]bool{}
	for i := range 1000 {
		c := g.Case(i)
		if seen[c.Kind] == nil {
			seen[c.Kind] = map[string]bool{}
		}
		seen[c.Kind][string(c.Args)] = true
		args, err := schema.ReadArguments(c.Args)
		if c.Kind == Malformed {
			if json.Valid(c.Args) && strings.HasPrefix(string(c.Args), "{") {
				t.Errorf("case %d is called malformed, and is an object", i)
			}
			continue
		}
		if err != nil {
			t.Fatalf("case %d, %s: %v", i, c.Kind, err)
		}
		if _, misfits := g.compiled.Fit(args, schema.FitOptions{}); len(misfits) > 0 != (c.Kind == Invalid) {
			t.Errorf("case %d is called %s (%s), and has the misfits %v: %s", i, c.Kind, c.Why, misfits, c.Args)
		}
		if again := g.Case(i); string(again.Args) != string(c.Args) {
			t.Errorf("case %d is not the same when it is made again", i)
		}
	}
	for _, kind := range kinds {
		if len(seen[kind]) < 100 {
			t.Errorf("of 200 cases only %d are %s and differ", len(seen[kind]), kind)
		}
	}
}

func TestNew_refuses_what_has_no_arguments(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{`, `[]`, `{"type": "string"}`,
		`{"type": "object", "properties": {"a": {"type": "string", "pattern": "^a$", "minLength": 5}}, "required": ["a"]}`,
		`{"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}`,
	} {
		if _, err := New([]byte(text), 1); err == nil {
			t.Errorf("a generator is made of %s", text)
		}
	}
}

func TestShrink_finds_the_smallest(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, args, want string
		fails            func(text string) bool
	}{
		{"number", `{"city":"Berlin","guests":987,"tags":["a","b"]}`, `{"guests":13}`, func(text string) bool {
			var v struct{ Guests int }
			return json.Unmarshal([]byte(text), &v) == nil && v.Guests > 12
		}},
		{"part of a text", `{"city":"a very long name; id","x":[{"y":1}]}`, `{"city":";"}`,
			func(text string) bool { return strings.Contains(text, ";") && strings.Contains(text, "city") }},
		{"element of a list", `{"l":[1,2,"x",4,5]}`, `{"l":["x"]}`,
			func(text string) bool {
				return strings.Contains(text, `"x"`) && strings.Contains(text, "[") &&
					strings.Contains(text, `"l"`)
			}},
		{"no JSON", `{"a": "b", 'c'`, `'`, func(text string) bool { return strings.Contains(text, "'") }},
		{"nothing to leave out", `{}`, `{}`, func(string) bool { return true }},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			asked := 0
			got := Shrink([]byte(test.args), func(text []byte) bool { asked++; return test.fails(string(text)) })
			if string(got) != test.want {
				t.Errorf("%s is the smallest, want %s", got, test.want)
			}
			if asked > maxShrinks {
				t.Errorf("it was asked %d times", asked)
			}
		})
	}
}

func FuzzNew(f *testing.F) {
	f.Add([]byte(restaurant), uint64(1))
	f.Add([]byte(`{"type":"object","properties":{"a":{"$ref":"#/properties/a"}}}`), uint64(2))
	f.Add([]byte(`{"type":"object","minProperties":1e9}`), uint64(3))
	f.Add([]byte(`{"type":"object","properties":{"n":{"type":"number","multipleOf":0.1,"maximum":-1e308}}}`), uint64(4))
	f.Fuzz(func(t *testing.T, text []byte, seed uint64) {
		g, err := New(text, seed)
		if err != nil {
			return
		}
		for i := range len(kinds) * 2 {
			if c := g.Case(i); c.Kind == Valid {
				args, err := schema.ReadArguments(c.Args)
				if err != nil || len(g.compiled.Check(args)) > 0 {
					t.Fatalf("valid arguments do not fit: %s: %v", c.Args, err)
				}
			}
		}
	})
}

func TestNew_is_bounded(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{"type":"object","properties":{"a":{"type":"array","minItems":1e12}},"required":["a"]}`,
		`{"type":"object","properties":{"a":{"type":"string","minLength":1e12}},"required":["a"]}`,
		`{"type":"object","properties":{"a":{"type":"string","pattern":"^((a{900}){900}){900}$"}},"required":["a"]}`,
		`{"type":"object","minProperties":1e12}`,
	} {
		if _, err := New([]byte(text), 1); err == nil {
			t.Errorf("a generator is made of %s", text)
		}
	}
}
