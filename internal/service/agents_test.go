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
