package toolrule_test

import (
	"encoding/json"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"haft"
	"haft/internal/toolrule"
)

// drawRule makes a rule of a small world, so that rules often meet.
func drawRule(t *rapid.T, types []haft.RuleType) haft.ToolRule {
	name := rapid.SampledFrom(tools)
	r := haft.ToolRule{Type: rapid.SampledFrom(types).Draw(t, "type"), Tool: name.Draw(t, "tool")}
	switch r.Type {
	case haft.RuleChildren, haft.RuleParent:
		r.Children = rapid.SliceOfN(name, 1, 4).Draw(t, "children")
	case haft.RuleConditional:
		r.Outputs = rapid.MapOfN(rapid.SampledFrom([]string{"true", "1", "1.0", "x"}), name, 1, 3).Draw(t, "outputs")
		if rapid.Bool().Draw(t, "strict") {
			r.RequireOutput = true
		} else if rapid.Bool().Draw(t, "default") {
			r.Default = name.Draw(t, "child")
		}
	case haft.RuleMaxCount:
		r.MaxCount = rapid.IntRange(1, 3).Draw(t, "count")
	}
	return r
}

func drawRules(t *rapid.T) []haft.ToolRule {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) haft.ToolRule { return drawRule(t, haft.RuleTypes()) }), 0,
		6).Draw(t, "rules")
}

func drawHistory(t *rapid.T) []toolrule.Past {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) toolrule.Past {
		return toolrule.Past{
			Tool: rapid.SampledFrom(tools).Draw(t, "tool"),
			Status: rapid.SampledFrom(append(haft.Statuses(), haft.StatusSuccess, haft.StatusSuccess,
				haft.StatusSuccess)).Draw(t, "status"),
			Value: json.RawMessage(rapid.SampledFrom(
				[]string{"true", "1", `"x"`, `{"message":"1.0"}`, "null", "{"}).Draw(t, "value")),
		}
	}), 0, 5).Draw(t, "history")
}

// allowed returns what is allowed, and nothing if that is an error.
func allowed(t *rapid.T, rules []haft.ToolRule, history []toolrule.Past, available []string) []string {
	s, err := toolrule.Evaluate(rules, history, available)
	if err != nil {
		if haft.CodeOf(err) != haft.CodeDenied {
			t.Fatalf("Evaluate: %v", err)
		}
		return nil
	}
	return s.Allowed
}

func TestProperty_a_further_rule_never_allows_more(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rules, history := drawRules(t), drawHistory(t)
		types := slices.DeleteFunc(haft.RuleTypes(), func(r haft.RuleType) bool {
			// A second run_first is an alternative to the first.
			return r == haft.RuleFirst && slices.ContainsFunc(rules, func(x haft.ToolRule) bool { return x.Type == r })
		})
		before := allowed(t, rules, history, tools)
		more := slices.Insert(slices.Clone(rules), rapid.IntRange(0, len(rules)).Draw(t, "at"), drawRule(t, types))
		for _, tool := range allowed(t, more, history, tools) {
			if !slices.Contains(before, tool) {
				t.Fatalf("%s is allowed only since there is one rule more", tool)
			}
		}
	})
}

func TestProperty_only_what_is_available_is_allowed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rules, history := drawRules(t), drawHistory(t)
		available := rapid.SliceOf(rapid.SampledFrom(tools)).Draw(t, "available")
		all := allowed(t, rules, history, tools)
		got := allowed(t, rules, history, available)
		if !slices.IsSorted(got) {
			t.Fatalf("allowed = %v is not sorted", got)
		}
		for _, tool := range got {
			if !slices.Contains(available, tool) || !slices.Contains(all, tool) {
				t.Fatalf("%s is allowed, of %v", tool, available)
			}
		}
	})
}

func TestProperty_the_order_of_rules_does_not_matter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rules, history := drawRules(t), drawHistory(t)
		want := allowed(t, rules, history, tools)
		if got := allowed(t, rapid.Permutation(rules).Draw(t, "order"), history, tools); !slices.Equal(got, want) {
			t.Fatalf("allowed = %v, in another order %v", want, got)
		}
	})
}

func TestProperty_an_exit_is_the_end(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rules := append(drawRules(t), rule(haft.RuleExit, "end"))
		history := append(drawHistory(t), turn("end")...)
		if got := allowed(t, rules, history, tools); len(got) > 0 {
			t.Fatalf("allowed after the end: %v", got)
		}
	})
}

// What Check accepts can begin: rules that forbid every first call are found.
func TestProperty_checked_rules_can_begin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rules := drawRules(t)
		if err := toolrule.Check(rules, has); err != nil {
			t.Skip()
		}
		firsts := slices.ContainsFunc(rules, func(r haft.ToolRule) bool { return r.Type == haft.RuleFirst })
		if firsts && len(allowed(t, rules, nil, tools)) == 0 {
			t.Fatal("nothing can be called first")
		}
	})
}

func FuzzEvaluate(f *testing.F) {
	f.Add([]byte(`[{"type":"conditional","tool_name":"a","child_output_mapping":{"1":"b"}}]`), []byte(`{"message":1}`),
		[]byte(`{"x":1}`), []byte(parameters))
	f.Add([]byte(`[{"type":"run_first","tool_name":"a","args":{"text":"x","color":"red"}}]`), []byte(`true`),
		[]byte(``), []byte(parameters))
	f.Add([]byte(
		`[{"type":"constrain_child_tools","tool_name":"a","children":["b"],"child_arg_nodes":[{"name":"b","args":{"either":null}}]}]`), []byte(`1`), []byte(`{}`), []byte(parameters))
	f.Add([]byte(
		`[{"type":"max_count_per_step","tool_name":"b","max_count_limit":1,"prompt_template":"{{ tool_name }}"}]`),
		[]byte(`""`), []byte(`null`), []byte(`true`))
	f.Fuzz(func(t *testing.T, raw, value, args, schema []byte) {
		var rules []haft.ToolRule
		if json.Unmarshal(raw, &rules) != nil {
			return
		}
		checked := toolrule.Check(rules, nil) == nil
		toolrule.Prompt(rules)
		history := []toolrule.Past{{Tool: "a", Status: haft.StatusSuccess, Value: value}}
		for n := range 2 {
			s, err := toolrule.Evaluate(rules, history[:n], tools)
			if err != nil {
				if checked && haft.CodeOf(err) == haft.CodeInvalid {
					t.Fatalf("Check accepts rules that Evaluate refuses: %v", err)
				}
				continue
			}
			for _, tool := range tools {
				if (s.Admit(tool) == nil) != slices.Contains(s.Allowed, tool) {
					t.Fatalf("Admit(%s) disagrees with %v", tool, s.Allowed)
				}
				if !checked {
					continue
				}
				over, _ := s.Prefill(tool)
				out, err := s.Prefilled(tool, args, schema)
				if err != nil || len(over) == 0 {
					continue
				}
				var got map[string]json.RawMessage
				if err := json.Unmarshal(out, &got); err != nil {
					t.Fatalf("Prefilled gives no object: %s", out)
				}
				for key := range over {
					if _, ok := got[key]; !ok {
						t.Fatalf("the prefilled argument %q is lost in %s", key, out)
					}
				}
			}
		}
	})
}
