package modelapi_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"haft"
	"haft/internal/modelapi"
	"haft/schema"
)

// chatCall writes one of Chat Completions' tool_calls.
func chatCall(id, name, args string) string {
	raw, _ := json.Marshal(map[string]any{"id": id, "type": "function",
		"function": map[string]string{"name": name, "arguments": args}})
	return string(raw)
}

// keys writes n more keys of an object.
func keys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"k%d":0`, i)
	}
	return b.String()
}

func TestDetect(t *testing.T) {
	for _, c := range []struct {
		name, raw string
		want      schema.Form
	}{
		{"chat response", `{"choices":[]}`, schema.FormOpenAI},
		{"chat choice", `{"index":0,"message":{"role":"assistant","content":"x"},"finish_reason":"stop"}`,
			schema.FormOpenAI},
		{"chat message", `{"role":"assistant","tool_calls":[]}`, schema.FormOpenAI},
		{"chat message of text", `{"role":"assistant","content":"x"}`, schema.FormOpenAI},
		{"chat message with nulls", `{"content":null,"role":"assistant","function_call":null,"tool_calls":null}`,
			schema.FormOpenAI},
		{"one chat call", chatCall("a", "b", "{}"), schema.FormOpenAI},
		{"chat call without type", `[{"id":"a","function":{"name":"f"}}]`, schema.FormOpenAI},
		{"legacy call", `{"function_call":{"name":"f","arguments":"{}"}}`, schema.FormOpenAI},
		{"responses", `{"object":"response","output":[]}`, schema.FormOpenAIResponses},
		{"responses without object", `{"id":"r","output":[{"type":"message"}]}`, schema.FormOpenAIResponses},
		{"responses items after others", `[{"type":"reasoning","summary":[]},{"type":"function_call"}]`,
			schema.FormOpenAIResponses},
		{"one item", `{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}`, schema.FormOpenAIResponses},
		{"an item of a message", `{"type":"message","role":"assistant","content":[{"type":"output_text","text":"x"}]}`,
			schema.FormOpenAIResponses},
		{"anthropic message", `{"type":"message","role":"assistant","content":[]}`, schema.FormAnthropic},
		{"anthropic message to send", `{"role":"assistant","content":[{"type":"text","text":"x"},{"type":"tool_use"}]}`,
			schema.FormAnthropic},
		{"anthropic content", `[{"type":"thinking"},{"type":"tool_use"}]`, schema.FormAnthropic},
		{"anthropic block", `{"type":"tool_use","id":"a","name":"f","input":{}}`, schema.FormAnthropic},
		{"gemini response", `{"candidates":[]}`, schema.FormGemini},
		{"gemini blocked", `{"promptFeedback":{"blockReason":"SAFETY"}}`, schema.FormGemini},
		{"gemini candidate", `{"content":{"parts":[]},"finishReason":"STOP"}`, schema.FormGemini},
		{"gemini content", `{"role":"model","parts":[{"text":"x"}]}`, schema.FormGemini},
		{"gemini parts", `[{"text":"x"},{"functionCall":{"name":"f"}}]`, schema.FormGemini},
		{"gemini part", `{"functionCall":{"name":"f"}}`, schema.FormGemini},
		{"gemini part of the python sdk", `{"function_call":{"name":"f","args":{}}}`, schema.FormGemini},
		{"byte order mark and space", "\ufeff \n{\"candidates\":[]}\n", schema.FormGemini},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := modelapi.Detect([]byte(c.raw))
			if got != c.want || err != nil {
				t.Errorf("Detect(%s) = %q, %v, want %q", c.raw, got, err, c.want)
			}
			if _, err := modelapi.Parse([]byte(c.raw), ""); err != nil &&
				strings.Contains(err.Error(), "format is not known") {
				t.Errorf("Parse(%s): %v", c.raw, err)
			}
		})
	}
}

func TestParse_refuses(t *testing.T) {
	const stream = "this is a piece of a stream"
	many := make([]string, modelapi.MaxCalls+1)
	for i := range many {
		many[i] = chatCall(fmt.Sprint("c", i), "f", "{}")
	}
	for _, c := range []struct {
		name string
		raw  string
		form schema.Form
		want string
	}{
		{"nothing", " ", "", "the answer of the model: it is empty"},
		{"no JSON", "Sure! I will call f(1).", "", "it is not JSON"},
		{"two documents", "{} {}", "", "it is not JSON"},
		{"no UTF-8", "{\"a\":\"\xff\"}", "", "it is not UTF-8"},
		{"too large", `{"a":"` + strings.Repeat("x", modelapi.MaxBytes) + `"}`, "", "16777216 is the most"},
		{"an unknown shape", `{"a":1}`, "", "its format is not known"},
		{"an empty list", `[]`, "", "its format is not known"},
		{"a number", `1`, "", "its format is not known"},
		{"a list of numbers", `[1]`, "", "its format is not known"},
		{"a form that no model answers in", `{}`, schema.FormMCP,
			"models answer in one of these formats: openai, openai-responses, anthropic, gemini"},
		{"a number by name", `1`, schema.FormOpenAI, "an object is needed here"},
		{"a key twice", `{"tool_calls":[],"tool_calls":[]}`, "", "a key stands there twice"},
		{"too many keys", `{"choices":1` + keys(1000) + `}`, "", "the object has more than 1000 keys"},
		{"too many elements", `{"output":[` + strings.Repeat("{},", 10_000) + `{}]}`, "",
			"output: the list has more than 10000 elements"},
		{"a key twice, one of them escaped",
			`{"choices":[{"message":{"tool_calls":[{"id":"a","function":{"name":"safe","n\u0061me":"rm"}}]}}]}`, "",
			"choices[0].message.tool_calls[0].function: a key stands there twice"},

		{"server-sent events", "data: {\"choices\":[]}\n\n", "", stream},
		{"named server-sent events", "event: message_start\ndata: {}\n", "", stream},
		{"a chat chunk", `{"object":"chat.completion.chunk","choices":[]}`, "", stream},
		{"a chat delta", `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{"}}]}}]}`,
			"", "choices[0]: " + stream},
		{"a chat delta's calls", `[{"index":0,"function":{"arguments":"{\""}}]`, "", stream},
		{"a chat delta's calls with id", `[{"index":0,"id":"a","type":"function","function":{"arguments":"{\""}}]`, "",
			stream},
		{"chat chunks in a list", `[{"choices":[]}]`, schema.FormOpenAI, stream},
		{"a responses event", `{"type":"response.output_item.done","item":{"type":"function_call"}}`, "", stream},
		{"responses events in a list", `[{"type":"response.created"}]`, schema.FormOpenAIResponses, stream},
		{"an anthropic event", `{"type":"content_block_start","content_block":{"type":"tool_use"}}`, "", stream},
		{"anthropic events in a list", `[{"type":"message_start","message":{}}]`, "", stream},
		{"gemini's list of chunks", `[{"candidates":[]},{"candidates":[]}]`, "", stream},
		{"gemini's list of chunks by name", `[{"candidates":[]},{"candidates":[]}]`, schema.FormGemini, stream},
		{"gemini's partial arguments", `{"functionCall":{"name":"f","willContinue":true}}`, "", stream},

		{"gemini's partial arguments, the last",
			`{"function_call":{"name":"f","args":{},"partial_args":[{"json_path":"$.a"}]}}`, "", stream},

		{"two choices", `{"choices":[{"message":{}},{"message":{}}]}`, "",
			"choices: there are 2 choices; send the one to go on with"},
		{"two candidates", `{"candidates":[{},{}]}`, "", "candidates: there are 2 candidates"},
		{"too many calls", "[" + strings.Join(many, ",") + "]", "", "[128]: there are more than 128 calls"},
		{"an id twice", "[" + chatCall("a", "f", "") + "," + chatCall("b", "f", "") + "," + chatCall("a", "g", "") +
			"]", "", "[2]: another call has the same id"},
		{"an id twice at gemini", `[{"functionCall":{"id":"a","name":"f"}},{"functionCall":{"id":"a","name":"f"}}]`, "",
			"[1].functionCall: another call has the same id"},
		{"no id", `[{"type":"function","function":{"name":"f"}}]`, "", "[0]: the call has no id"},
		{"an empty id", "[" + chatCall("", "f", "") + "]", "", "[0]: the call has no id"},
		{"no call_id", `{"output":[{"type":"function_call","id":"x","name":"f","arguments":""}]}`, "",
			"output[0]: the call has no call_id"},
		{"an id that is no text", `[{"type":"tool_use","id":1,"name":"f","input":{}}]`, "",
			"[0].id: a text is needed here"},
		{"an id that would change", `[{"type":"tool_use","id":"\ud800","name":"f","input":{}}]`, "", "[0].id: "},
		{"a long id", "[" + chatCall(strings.Repeat("x", modelapi.MaxID+1), "f", "") + "]", "",
			"[0].id: the text has 16385 bytes, 16384 is the most"},
		{"a long caller", `[{"type":"function_call","call_id":"a","name":"f","caller":{"type":"` +
			strings.Repeat("x", modelapi.MaxID) + `"}}]`, "", "[0].caller: it has 16395 bytes, 16384 is the most"},
		{"no name", `{"content":[{"type":"tool_use","id":"a","input":{}}]}`, "", "content[0]: the call has no name"},
		{"an empty name", "[" + chatCall("a", "", "") + "]", "", "[0]: the call has no name"},
		{"a name that is null", `{"candidates":[{"content":{"parts":[{"functionCall":{"name":null}}]}}]}`, "",
			"candidates[0].content.parts[0].functionCall: the call has no name"},
		{"a name that is no text", `{"functionCall":{"name":["f"]}}`, "", "functionCall.name: a text is needed here"},
		{"a long name", "[" + chatCall("a", strings.Repeat("x", 257), "") + "]", "",
			"[0].function.name: the text has 257 bytes, 256 is the most"},
		{"a custom call of chat", `[{"id":"a","type":"custom","custom":{"name":"f","input":"x"}}]`, "",
			"[0]: this is a custom tool call"},
		{"a custom call of responses", `{"output":[{"type":"custom_tool_call","call_id":"a","name":"f","input":"x"}]}`,
			"", "output[0]: this is a custom tool call"},
		{"another kind of call", `[{"id":"a","type":"shell","function":{"name":"f"}}]`, schema.FormOpenAI,
			"[0]: it is no call of a function"},
		{"no function", `[{"id":"a","type":"function"}]`, "", "[0].function: an object is needed here"},
		{"tool_calls that are no list", `{"tool_calls":{"a":1}}`, "", "tool_calls: a list is needed here"},
		{"a call that is no object", `{"tool_calls":["f"]}`, "", "tool_calls[0]: an object is needed here"},
		{"content that is no list", `{"type":"message","content":1}`, schema.FormAnthropic,
			"content: a list is needed here"},
	} {
		t.Run(c.name, func(t *testing.T) {
			req, err := modelapi.Parse([]byte(c.raw), c.form)
			if haft.CodeOf(err) != haft.CodeInvalid || !strings.Contains(haft.MessageOf(err), c.want) {
				t.Errorf("Parse(%.200s) = %v, %v, want %q", c.raw, req, err, c.want)
			}
		})
	}
}

func TestParse_arguments(t *testing.T) {
	for _, c := range []struct {
		name, args string // args is JSON
		want, fail string
	}{
		{"text of an object", `"{\"a\": 1}"`, `{"a":1}`, ""},
		{"an object, as some servers send", `{"a": 1}`, `{"a":1}`, ""},
		{"nothing", `""`, `{}`, ""},
		{"null", `null`, `{}`, ""},
		{"text of null", `"null"`, `{}`, ""},
		{"order and numbers stay", `"{\"z\": 1.50, \"a\": 12345678901234567890123}"`,
			`{"z":1.50,"a":12345678901234567890123}`, ""},
		{"markup stays", `"{\"a\": \"<b>&\"}"`, `{"a":"<b>&"}`, ""},
		{"a fence", "\"```json\\n{\\\"a\\\": 1}\\n```\"", `{"a":1}`, ""},
		{"cut off", `"{\"secret\": \"va"`, "", "within the string that holds them line 1, column 12"},
		{"a list", `"[1]"`, "", "expected an object"},
		{"a number", `3`, "", "expected an object"},
		{"python", `"{'a': True}"`, "", "line 1, column 2"},
		{"a key twice", `"{\"a\": 1, \"a\": 2}"`, "", "twice"},
		{"half a pair", `"{\"a\": \"\\ud800\"}"`, "", "surrogate"},
		{"deep", `"` + strings.Repeat("[", 200) + `"`, "", "the arguments are not a JSON object"},
	} {
		t.Run(c.name, func(t *testing.T) {
			raw := `[` + chatCall("one", "f", "{}") +
				`,{"id":"two","type":"function","function":{"name":"g","arguments":` + c.args + `}},` +
				chatCall("three", "f", "{}") + `]`
			req, err := modelapi.Parse([]byte(raw), "")
			if err != nil {
				t.Fatal(err)
			}
			if len(req.Calls) != 3 || req.Calls[0].Failure != nil || req.Calls[2].Failure != nil {
				t.Fatalf("the calls beside it: %+v", req.Calls)
			}
			got := req.Calls[1]
			if string(got.Args) != c.want || (got.Failure == nil) != (c.fail == "") {
				t.Fatalf("got %s, %+v, want %q, %q", got.Args, got.Failure, c.want, c.fail)
			}
			if c.fail == "" {
				if got.Refused() != nil {
					t.Error("a good call is refused")
				}
				return
			}
			if got.Failure.Kind != haft.FailValidation || got.Failure.Retry != haft.RetryChanged ||
				!strings.Contains(got.Failure.Message, c.fail) {
				t.Errorf("failure %+v, want %q", got.Failure, c.fail)
			}
			if strings.Contains(got.Failure.Message, "secret") {
				t.Errorf("the failure quotes the arguments: %s", got.Failure.Message)
			}
			want := &haft.Result{Tool: "g", Status: haft.StatusValidation, Value: json.RawMessage("null"),
				Error: got.Failure}
			if diff := cmp.Diff(want, got.Refused()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A call that the model did not finish writing must not run, whatever it looks like.
func TestParse_cut_off(t *testing.T) {
	const chat = `{"choices":[{"finish_reason":%q,"message":{"tool_calls":[{"id":"a","function":{"name":"f"}},{"id":"b","function":{"name":"f"}}]}}]}`
	const response = `{"object":"response","status":%q,"output":[{"type":"function_call","call_id":"a","name":"f"},{"type":"function_call","call_id":"b","name":"f"}]}`
	const message = `{"type":"message","stop_reason":%q,"content":[{"type":"tool_use","id":"a","name":"f","input":{}},{"type":"tool_use","id":"b","name":"f","input":{}}]}`
	const candidate = `{"candidates":[{"finishReason":%q,"content":{"parts":[{"functionCall":{"id":"a","name":"f"}},{"functionCall":{"id":"b","name":"f"}}]}}]}`
	for _, c := range []struct {
		name, raw string
		cut       bool
	}{
		{"chat", fmt.Sprintf(chat, "length"), true},
		{"chat, whole", fmt.Sprintf(chat, "tool_calls"), false},
		{"chat, stopped", fmt.Sprintf(chat, "stop"), false},
		{"responses", fmt.Sprintf(response, "incomplete"), true},
		{"responses, whole", fmt.Sprintf(response, "completed"), false},
		{"responses, text after the calls", strings.Replace(fmt.Sprintf(response, "incomplete"), `}]}`,
			`},{"type":"message"}]}`, 1), false},
		{"item",
			`[{"type":"function_call","call_id":"a","name":"f"},{"type":"function_call","call_id":"b","name":"f","status":"in_progress"}]`, true},
		{"anthropic", fmt.Sprintf(message, "max_tokens"), true},
		{"anthropic, context full", fmt.Sprintf(message, "model_context_window_exceeded"), true},
		{"anthropic, whole", fmt.Sprintf(message, "tool_use"), false},
		{"anthropic, text after the calls", strings.Replace(fmt.Sprintf(message, "max_tokens"), `}]}`,
			`},{"type":"text","text":"x"}]}`, 1), false},
		{"gemini", fmt.Sprintf(candidate, "MAX_TOKENS"), true},
		{"gemini, whole", fmt.Sprintf(candidate, "STOP"), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			req, err := modelapi.Parse([]byte(c.raw), "")
			if err != nil || len(req.Calls) != 2 {
				t.Fatalf("got %+v, %v", req, err)
			}
			first, last := req.Calls[0], req.Calls[1]
			if first.Failure != nil || (last.Failure != nil) != c.cut || (last.Args == nil) != c.cut {
				t.Errorf("got %+v and %+v, want the last cut: %v", first, last, c.cut)
			}
		})
	}
}

func TestParse_keepsNothingOfTheBuffer(t *testing.T) {
	raw := []byte(
		`{"output":[{"type":"function_call","call_id":"abc","name":"f","arguments":"{\"a\":1}","caller":{"type":"direct"}}]}`)
	req, err := modelapi.Parse(raw, "")
	if err != nil {
		t.Fatal(err)
	}
	for i := range raw {
		raw[i] = 'x'
	}
	want := []modelapi.ToolCall{{ID: "abc", Name: "f", Args: json.RawMessage(`{"a":1}`),
		Caller: json.RawMessage(`{"type":"direct"}`)}}
	if diff := cmp.Diff(want, req.Calls); diff != "" {
		t.Error(diff)
	}
}

func TestParse_othersAreNamed(t *testing.T) {
	for _, c := range []struct{ name, raw, other string }{
		{"computer",
			`{"output":[{"type":"computer_call","call_id":"a"},{"type":"function_call","call_id":"b","name":"f","arguments":""}]}`, "output[0]"},
		{"toolset",
			`[{"type":"tool_use","id":"a","name":"click","input":{},"toolset_name":"computer"},{"type":"tool_use","id":"b","name":"f","input":{}}]`, "[0]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			req, err := modelapi.Parse([]byte(c.raw), "")
			if err != nil {
				t.Fatal(err)
			}
			if len(req.Calls) != 1 || req.Calls[0].ID != "b" || !cmp.Equal(req.Others, []string{c.other}) {
				t.Errorf("got %+v", req)
			}
		})
	}
}
