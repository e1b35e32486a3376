package modelapi_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"haft"
	"haft/internal/modelapi"
)

// Every vendor gets the same answer with whole: a list of messages, and each call with its result.
func TestAnswer_whole(t *testing.T) {
	type call struct {
		ID, Name string
		Result   struct{ Status haft.Status }
	}
	type whole struct {
		Format   string
		Messages []map[string]any
		Calls    []call
	}
	ok := func(id, name string) call {
		return call{id, name, struct{ Status haft.Status }{haft.StatusSuccess}}
	}
	for _, c := range []struct {
		name, body string
		messages   int
		calls      []call
	}{
		{"openai", `{"role":"assistant","tool_calls":[
			{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},
			{"id":"b","type":"function","function":{"name":"g","arguments":"{"}}]}`, 2,
			[]call{ok("a", "f"), {"b", "g", struct{ Status haft.Status }{haft.StatusValidation}}}},
		{"openai-responses", `{"output":[{"type":"function_call","call_id":"a","name":"f","arguments":"{}"}]}`, 1,
			[]call{ok("a", "f")}},
		{"anthropic", `{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}},
			{"type":"tool_use","id":"b","name":"g","input":{}}]}`, 1, []call{ok("a", "f"), ok("b", "g")}},
		{"gemini", `{"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"f","args":{}}}]}}]}`, 1,
			[]call{ok("", "f")}},
		{"anthropic", `{"role":"assistant","content":[{"type":"text","text":"No calls."}]}`, 0, []call{}},
		{"openai", `{"role":"assistant","content":"No calls."}`, 0, []call{}},
	} {
		raw, err := modelapi.Answer([]byte(c.body), c.name, true, func(calls []haft.Call) ([]*haft.Result, error) {
			results := make([]*haft.Result, len(calls))
			for i, one := range calls {
				results[i] = &haft.Result{Tool: one.Tool, Status: haft.StatusSuccess, Value: json.RawMessage("1")}
			}
			return results, nil
		})
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		var got whole
		if err := json.Unmarshal(raw, &got); err != nil {
			t.Fatalf("%s: %v: %s", c.name, err, raw)
		}
		if got.Format != c.name || len(got.Messages) != c.messages || got.Messages == nil {
			t.Errorf("%s: got %s", c.name, raw)
		}
		if diff := cmp.Diff(c.calls, got.Calls); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
	refused := errors.New("refused")
	if _, err := modelapi.Answer([]byte(`[]`), "openai", true, func([]haft.Call) ([]*haft.Result, error) {
		return nil, refused
	}); !errors.Is(err, refused) {
		t.Errorf("got %v", err)
	}
}
