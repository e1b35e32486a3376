package registry_test

import (
	"fmt"
	"testing"

	"haft"
	"haft/internal/registry"
	"haft/schema"
)

func TestPassGiven(t *testing.T) {
	arg := func(name string) haft.Argument { return haft.Argument{Name: name} }
	whole := haft.Argument{Name: "person", Whole: true}
	props := func(names ...string) *schema.Object {
		o, required := schema.Obj(), []any{}
		for _, n := range names {
			o.Set(n, schema.Obj())
			required = append(required, n)
		}
		return schema.Obj("type", "object", "properties", o, "required", required)
	}
	optional := props("x", "y").Set("required", []any{"x"})
	for _, tt := range []struct {
		name    string
		pass    []haft.Argument
		derived *schema.Object
		given   []string
		want    string // "" means an error
	}{
		{"the members", []haft.Argument{whole}, props("a", "b"), []string{"a", "b"}, "[{person true}]"},
		{"some members", []haft.Argument{whole}, props("a", "b"), []string{"a", "z"}, ""},
		{"more than the members", []haft.Argument{whole}, props("a"), []string{"z", "a"}, "[{person true}]"},
		{"optional members only", []haft.Argument{whole}, props("x", "y").Set("required", []any{}), []string{"a", "b"},
			"[{person true}]"},
		{"the parameter", []haft.Argument{whole}, props("a", "b"), []string{"person"}, "[{person false}]"},
		{"the parameter and more", []haft.Argument{whole}, props("a"), []string{"person", "z"}, "[{person false}]"},
		{"a member of that name", []haft.Argument{whole}, props("person"), []string{"person"}, "[{person true}]"},
		{"one other", []haft.Argument{whole}, props("a", "b"), []string{"who"}, "[{who false}]"},
		{"two others", []haft.Argument{whole}, props("a", "b"), []string{"who", "what"}, ""},
		{"unknown members", []haft.Argument{whole}, props(), []string{"who", "what"}, "[{person true}]"},
		{"by name", []haft.Argument{arg("x"), arg("y")}, props("x", "y"), []string{"y", "x"}, "[{x false} {y false}]"},
		{"by position", []haft.Argument{arg("x"), arg("y")}, props("x", "y"), []string{"b", "a"},
			"[{b false} {a false}]"},
		{"one is missing", []haft.Argument{arg("x"), arg("y")}, props("x", "y"), []string{"x"}, ""},
		{"an optional one is missing", []haft.Argument{arg("x"), arg("y")}, optional, []string{"x"},
			"[{x false} {y false}]"},
		{"one for all", []haft.Argument{arg("args")}, props("args"), []string{"a", "b"}, "[{args true}]"},
		{"beside an injected one", []haft.Argument{arg("agent_id"), whole}, props("a"), []string{"person"},
			"[{agent_id false} {person false}]"},
		{"nothing is said", []haft.Argument{arg("x")}, props("x"), nil, ""},
		{"nothing is needed", []haft.Argument{arg("x")}, props(), nil, "[{x false}]"},
		{"some by name", []haft.Argument{arg("x"), arg("y")}, optional, []string{"b", "x"}, "[{x false} {b false}]"},
		{"fewer by position", []haft.Argument{arg("x"), arg("y")}, optional, []string{"b"}, "[{b false} {y false}]"},
		{"too few by position", []haft.Argument{arg("x"), arg("y")}, props("x", "y"), []string{"b"}, ""},
		{"more than parameters", []haft.Argument{arg("x"), arg("y")}, optional, []string{"x", "b", "c"}, ""},
		{"more than parameters of that name", []haft.Argument{arg("x")}, props("x"), []string{"x", "b"}, "[{x false}]"},
		{"a pattern among several", []haft.Argument{arg(""), arg("y")}, props("y"), []string{"a", "y"},
			"[{a false} {y false}]"},
		{"a pattern that gets nothing", []haft.Argument{arg(""), arg("y")}, props("y"), []string{"y"}, ""},
	} {
		d := &registry.Derived{Signature: &schema.Signature{Parameters: tt.derived, Injected: []string{"agent_id"}},
			Pass: tt.pass}
		got, err := registry.PassGiven(d, props(tt.given...))
		text := fmt.Sprint(got)
		if err != nil {
			text = ""
		}
		if text != tt.want || err != nil && haft.CodeOf(err) != haft.CodeInvalid {
			t.Errorf("%s: %s %v, want %s", tt.name, text, err, tt.want)
		}
	}
}
