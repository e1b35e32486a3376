package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"haft"
	"haft/schema"
)

// seeds are streams of all formats.
var seeds = []string{
	`data: {"choices":[{"delta":{"reasoning":"r","content":"a"}}]}

data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":1}}

data: [DONE]

`,
	`event: x
data: {"type":"response.output_item.done","item":{"type":"reasoning","summary":[{"text":"r"}],"encrypted_content":"e"}}

data: {"type":"response.output_text.delta","delta":"a"}

data: {"type":"response.completed","response":{"output":[{},{"type":"function_call","call_id":"c","name":"f"}]}}

`,
	`data: {"type":"content_block_start","content_block":{"type":"thinking"}}

data: {"type":"content_block_delta","delta":{"thinking":"r","signature":"s"}}

data: {"type":"content_block_start","content_block":{"type":"tool_use","id":"c","name":"f","input":{}}}

data: {"type":"message_delta","delta":{"stop_reason":"max_tokens"},"usage":{"output_tokens":3}}

data: {"type":"message_stop"}

`,
	`data: {"candidates":[{"content":{"parts":[{"text":"r","thought":true},{"functionCall":{"name":"f"},"thoughtSignature":"s"},{"text":"","thoughtSignature":"s"}]},"finishReason":"STOP"}]}

`,
	`data: {"error":{"type":"overloaded_error","message":"m"}}

`,
	": comment\r\ndata: [DONE]",
}

// fuzzStream reads any stream in one format: the answer is within its bounds and can be sent back, or there is a fault.
func fuzzStream(f *testing.F, form schema.Form) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		b := &builder{server: "s", secrets: []string{"topsecret"}}
		err := readEvents(bytes.NewReader(stream), b.handle(formats()[form].reader(b)))
		var a *Answer
		if err == nil {
			a, err = b.answer()
		}
		if err != nil {
			fault, ok := errors.AsType[*Fault](err)
			if !ok || fault.Message == "" || len([]rune(fault.Message)) > 500 ||
				strings.ContainsAny(fault.Message, "\n\r\x00") || strings.Contains(fault.Message, "topsecret") {
				t.Fatalf("the error is %v", err)
			}
			return
		}
		checkAnswer(t, a)
		m := haft.Message{Role: haft.RoleAssistant, Text: a.Text, Reasoning: a.Reasoning, Calls: a.Calls,
			Opaque: a.Opaque}
		for other := range formats() {
			r := &rendering{Request: Request{Model: "m"}, history: history([]haft.Message{m}, "s")}
			if _, err := schema.Encode(formats()[other].render(r)); err != nil {
				t.Fatalf("the answer cannot be sent as %s: %v", other, err)
			}
		}
	})
}

// checkAnswer checks what holds for every answer.
func checkAnswer(t *testing.T, a *Answer) {
	t.Helper()
	if len(a.Text) > maxText || len(a.Reasoning) > maxText || len(a.Calls) > maxCalls || len(a.Opaque) > maxOpaque {
		t.Fatal("the answer passes a bound")
	}
	if !utf8.ValidString(a.Text) || a.Stop == "" || a.Usage.Input < 0 || a.Usage.Output < 0 || a.Usage.Cached < 0 {
		t.Fatalf("the answer is %+v", a)
	}
	ids := map[string]bool{}
	for _, c := range a.Calls {
		if c.ID == "" || ids[c.ID] || c.Tool == "" || !json.Valid(c.Args) || (c.Args[0] == '{') == (c.Malformed != "") {
			t.Fatalf("a call is %+v", c)
		}
		ids[c.ID] = true
	}
}

func FuzzChat(f *testing.F)      { fuzzStream(f, schema.FormOpenAI) }
func FuzzResponses(f *testing.F) { fuzzStream(f, schema.FormOpenAIResponses) }
func FuzzAnthropic(f *testing.F) { fuzzStream(f, schema.FormAnthropic) }
func FuzzGemini(f *testing.F)    { fuzzStream(f, schema.FormGemini) }
