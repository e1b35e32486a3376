package toolrule_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"haft"
	"haft/internal/toolrule"
)

// parameters is the schema of every tool of these tests.
const parameters = `{"type":"object","properties":{
	"text":{"type":"string"},"count":{"type":"integer"},"ratio":{"type":"number"},"on":{"type":"boolean"},
	"none":{"type":"null"},"list":{"type":"array","items":{"type":"string"}},"map":{"type":"object"},
	"maybe":{"type":["string","null"]},"color":{"enum":["red","green",1,{"a":[1]}]},"fixed":{"const":7},"nothing":{"const":null},
	"either":{"anyOf":[{"type":"integer"},{"type":"null"}]},"one":{"oneOf":[{"type":"string"},{"anyOf":[{"const":true}]}]},
	"any":{},"yes":true,"no":false,"broken":{"type":3},"upper":{"TYPE":"string"}},"required":["text"]}`

// first evaluates the beginning of a turn that prefills a.
func first(t *testing.T, args map[string]json.RawMessage) *toolrule.State {
	t.Helper()
	s, err := toolrule.Evaluate([]haft.ToolRule{{Type: haft.RuleFirst, Tool: "a", Args: args}}, nil, tools)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestPrefilled_values(t *testing.T) {
	for _, c := range []struct {
		key  string
		ok   []string
		fail []string
	}{
		{"text", []string{`"x"`, `""`}, []string{`1`, `null`, `true`, `[]`, `{}`}},
		{"count", []string{`1`, `-3`, `1.0`, `1e3`}, []string{`1.5`, `true`, `"1"`, `null`, `1e99999`}},
		{"ratio", []string{`1`, `0.5`, `1e3`}, []string{`true`, `"1"`, `null`}},
		{"on", []string{`true`, `false`}, []string{`1`, `0`, `"true"`}},
		{"none", []string{`null`}, []string{`0`, `""`}},
		{"list", []string{`[]`, `[1]`}, []string{`{}`, `"[]"`}},
		{"map", []string{`{}`, ` {"a":1}`}, []string{`[]`, `null`}},
		{"maybe", []string{`"x"`, `null`}, []string{`1`}},
		{"color", []string{`"red"`, `1`, `1.0`, `{"a":[1.0]}`}, []string{`"blue"`, `true`, `"1"`, `{"a":[]}`, `{}`}},
		{"fixed", []string{`7`, `7.0`}, []string{`8`, `"7"`, `null`}},
		{"nothing", []string{`null`}, []string{`0`, `false`}},
		{"either", []string{`1`, `null`}, []string{`"x"`, `true`}},
		{"one", []string{`"x"`, `true`}, []string{`false`, `1`}},
		{"any", []string{`1`, `null`, `{}`}, nil},
		{"yes", []string{`1`}, nil},
		{"no", nil, []string{`1`, `null`}},
		{"broken", nil, []string{`1`}},
		{"upper", []string{`1`}, nil},
	} {
		for _, v := range c.ok {
			if got, err := first(t, raws(c.key, v)).Prefilled("a", nil, json.RawMessage(parameters)); err != nil {
				t.Errorf("%s = %s: %v", c.key, v, err)
			} else if want := `{"` + c.key + `":` + strings.TrimSpace(v) + `}`; string(got) != want {
				t.Errorf("%s = %s gives %s, want %s", c.key, v, got, want)
			}
		}
		for _, v := range c.fail {
			_, err := first(t, raws(c.key, v)).Prefilled("a", nil, json.RawMessage(parameters))
			want := "Invalid prefilled tool arguments from tool rules (source=InitToolRule(a)): Invalid value for " +
				"argument '" + c.key + "' of tool 'a'."
			if haft.CodeOf(err) != haft.CodeInvalid || haft.MessageOf(err) != want {
				t.Errorf("%s = %s: %v, want %q", c.key, v, err, want)
			}
		}
	}
}

func TestPrefilled_merges_over_the_model(t *testing.T) {
	s := first(t, raws("text", `"REAL_KEY_123 <&>"`, "count", `2`))
	for _, c := range []struct{ args, want string }{
		{`{"text":"FAKE_KEY","on":true}`, `{"count":2,"on":true,"text":"REAL_KEY_123 <&>"}`},
		{`{"Text":"x"}`, `{"Text":"x","count":2,"text":"REAL_KEY_123 <&>"}`},
		{``, `{"count":2,"text":"REAL_KEY_123 <&>"}`},
		{` {} `, `{"count":2,"text":"REAL_KEY_123 <&>"}`},
		{`{"ratio":1.50e1}`, `{"count":2,"ratio":1.50e1,"text":"REAL_KEY_123 <&>"}`},
	} {
		got, err := s.Prefilled("a", json.RawMessage(c.args), json.RawMessage(parameters))
		if err != nil || string(got) != c.want {
			t.Errorf("Prefilled(%s) = %s, %v, want %s", c.args, got, err, c.want)
		}
	}
	for _, args := range []string{`[]`, `null`, `"x"`, `{"on":1,"on":2}`, `{"on":1`, `{} {}`, "{\"\xff\":1}",
		`{"on":"` + strings.Repeat("x", 8<<20) + `"}`} {
		if got, err := s.Prefilled("a", json.RawMessage(args),
			json.RawMessage(parameters)); haft.CodeOf(err) != haft.CodeInvalid {
			t.Errorf("Prefilled(%.40q) = %.40s, %v, want invalid", args, got, err)
		}
	}
}

func TestPrefilled_leaves_others_alone(t *testing.T) {
	args := json.RawMessage(`not even JSON`)
	got, err := first(t, nil).Prefilled("a", args, nil)
	if err != nil || string(got) != string(args) {
		t.Errorf("Prefilled = %s, %v, want the arguments as they are", got, err)
	}
}

func TestPrefilled_unknown_arguments(t *testing.T) {
	for _, schema := range []string{parameters, `{}`, ``, `{"properties":{}}`} {
		_, err := first(t, raws("key", `1`, "other", `2`)).Prefilled("a", nil, json.RawMessage(schema))
		want := "Invalid prefilled tool arguments from tool rules (source=InitToolRule(a)): Unknown argument 'key' " +
			"for tool 'a'.; Unknown argument 'other' for tool 'a'."
		if haft.MessageOf(err) != want {
			t.Errorf("with schema %s: %v, want %q", schema, err, want)
		}
	}
	deep := strings.Repeat(`{"anyOf":[`, 20) + `true` + strings.Repeat(`]}`, 20)
	for _, schema := range []string{`{"properties":{"text":` + deep + `}}`, `[]`, `{"properties":[]}`, `{`} {
		if _, err := first(t, raws("text", `"x"`)).Prefilled("a", nil,
			json.RawMessage(schema)); haft.CodeOf(err) != haft.CodeInvalid {
			t.Errorf("with schema %s: %v, want invalid", schema, err)
		}
	}
}

func TestPrefill_comes_from_rules_that_hold_now(t *testing.T) {
	rules := []haft.ToolRule{
		{Type: haft.RuleFirst, Tool: "a", Args: raws("text", `"first"`)},
		{Type: haft.RuleChildren, Tool: "a", Children: []string{"b", "c"}, ChildArgs: []haft.ChildArgs{
			{Name: "b", Args: raws("text", `"one"`, "on", `true`)}, {Name: "c", Args: raws("count", `1`)},
		}},
		{Type: haft.RuleChildren, Tool: "a", Children: []string{"b", "d"},
			ChildArgs: []haft.ChildArgs{{Name: "b", Args: raws("text", `"two"`)}}},
		{Type: haft.RuleChildren, Tool: "d", Children: []string{"b"},
			ChildArgs: []haft.ChildArgs{{Name: "b", Args: raws("text", `"three"`)}}},
	}
	type prefill struct {
		Args   map[string]json.RawMessage
		Source string
	}
	for _, c := range []struct {
		history string
		want    map[string]prefill
	}{
		{"", map[string]prefill{"a": {raws("text", `"first"`), "InitToolRule(a)"}}},
		// Both rules count for b; c is not allowed by the second one.
		{"a", map[string]prefill{"b": {raws("text", `"two"`, "on", `true`), "ChildToolRule(a->b)"}}},
		{"a b", map[string]prefill{}},
		{"a d", map[string]prefill{"b": {raws("text", `"three"`), "ChildToolRule(d->b)"}}},
	} {
		s, err := toolrule.Evaluate(rules, turn(c.history), tools)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]prefill{}
		for _, tool := range tools {
			if args, source := s.Prefill(tool); args != nil {
				got[tool] = prefill{args, source}
				args["text"] = nil // a copy
			}
		}
		for _, tool := range tools {
			if args, source := s.Prefill(tool); args != nil {
				got[tool] = prefill{args, source}
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("after %q (-want +got):\n%s", c.history, diff)
		}
	}
}
