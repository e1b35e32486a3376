package service_test

import (
	"encoding/json"
	"strings"
	"testing"

	"haft"
	"haft/internal/engine"
	"haft/internal/lettaid"
)

// TestPutAgent_texts: nobody leaves texts with an agent that deceive or stop those who read it.
func TestPutAgent_texts(t *testing.T) {
	w := setup(t, allowAll, engine.Config{})
	other, err := w.PutAgent(t.Context(), admin("o"), haft.Agent{Name: "payroll"})
	if err != nil {
		t.Fatal(err)
	}
	nested := func(n int) map[string]json.RawMessage {
		return map[string]json.RawMessage{"a": json.RawMessage(strings.Repeat("[", n) + strings.Repeat("]", n))}
	}
	for name, c := range map[string]struct {
		agent haft.Agent
		code  haft.Code
	}{
		"title":               {haft.Agent{Name: "a", Title: "Pay roll 👩\u200d👧 Ωμέγα"}, ""},
		"line in a title":     {haft.Agent{Name: "a", Title: "payroll\napproved"}, haft.CodeInvalid},
		"escape in a title":   {haft.Agent{Name: "a", Title: "\x1b[2Kpayroll"}, haft.CodeInvalid},
		"reversed title":      {haft.Agent{Name: "a", Title: "\u202ellorya"}, haft.CodeInvalid},
		"paragraph":           {haft.Agent{Name: "a", Title: "payroll\u2029approved"}, haft.CodeInvalid},
		"nested":              {haft.Agent{Name: "a", Metadata: nested(60)}, ""},
		"nested deep":         {haft.Agent{Name: "a", Metadata: nested(9000)}, haft.CodeInvalid},
		"no JSON":             {haft.Agent{Name: "a", Metadata: map[string]json.RawMessage{"": nil}}, haft.CodeInvalid},
		"id as a name":        {haft.Agent{Name: string(other.ID)}, haft.CodeInvalid},
		"id of Letta as name": {haft.Agent{Name: lettaid.Agent(other.ID)}, haft.CodeInvalid},
		"creator":             {haft.Agent{Name: "a", CreatedBy: "somebody else"}, ""},
	} {
		put, err := w.PutAgent(t.Context(), admin("o"), c.agent)
		if haft.CodeOf(err) != c.code {
			t.Errorf("%s: got %v, want %q", name, err, c.code)
		}
		if err == nil && put.CreatedBy != admin("o").User {
			t.Errorf("%s: it was created by %q", name, put.CreatedBy)
		}
	}
}

// TestPutAgent_arguments_of_rules: arguments that a rule sets and the tool would refuse in every call are refused when
// they are set. Rules that were set before stay when the tool has changed.
func TestPutAgent_arguments_of_rules(t *testing.T) {
	w := setup(t, allowAll, engine.Config{})
	w.tool("o", "work", nil)
	args := func(text string) (m map[string]json.RawMessage) {
		check(t, json.Unmarshal([]byte(text), &m))
		return m
	}
	of := func(r ...haft.ToolRule) haft.Agent {
		return haft.Agent{Name: "a", Tools: []string{"work"}, Rules: r}
	}
	for text, words := range map[string]string{
		`{"x":1}`:          "",
		`{"x":"secret"}`:   "tool rule 1 (run_first): Invalid value for argument 'x' of tool 'work'.",
		`{"y":1}`:          "tool rule 1 (run_first): Unknown argument 'y' for tool 'work'.",
		`{"x":true}`:       "Invalid value",
		`{"__proto__":{}}`: "Unknown argument",
	} {
		_, err := w.PutAgent(t.Context(), admin("o"), of(haft.ToolRule{Type: haft.RuleFirst, Tool: "work",
			Args: args(text)}))
		if (err != nil) != (words != "") || words != "" && (haft.CodeOf(err) != haft.CodeInvalid ||
			!strings.Contains(haft.MessageOf(err), words) || strings.Contains(haft.MessageOf(err), "secret")) {
			t.Errorf("%s: %v", text, err)
		}
	}
	child := haft.ToolRule{Type: haft.RuleChildren, Tool: "work", Children: []string{"work"},
		ChildArgs: []haft.ChildArgs{{Name: "work", Args: args(`{"x":"1"}`)}}}
	if _, err := w.PutAgent(t.Context(), admin("o"), of(child)); haft.CodeOf(err) != haft.CodeInvalid {
		t.Errorf("of a child: %v", err)
	}
	first := of(haft.ToolRule{Type: haft.RuleFirst, Tool: "work", Args: args(`{"x":1}`)})
	put := func() {
		t.Helper()
		_, err := w.PutAgent(t.Context(), admin("o"), first)
		check(t, err)
	}
	put()
	w.tool("o", "work", func(d *haft.Draft) {
		d.Parameters = json.RawMessage(`{"type":"object","properties":{"z":{"type":"string"}}}`)
	})
	first.Description = "other words"
	put()
}
