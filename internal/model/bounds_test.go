package model_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"haft"
	"haft/internal/model"
	"haft/internal/modeltest"
	"haft/internal/skiptest"
	"haft/schema"
)

// What only some formats can send is bounded too.
func TestGenerate_bounds(t *testing.T) {
	if skiptest.Race {
		return
	}
	big := strings.Repeat("x", 2<<20)
	for _, test := range []struct {
		name   string
		form   schema.Form
		events string
	}{
		{"arguments", schema.FormOpenAI, `{"choices":[{"delta":{"tool_calls":[{"id":"c","function":{"name":"f","arguments":"` + big + `"}}]}}]}`},
		{"arguments as an object", schema.FormGemini, `{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{"a":"` + big + `"}}}]}}]}`},
		{"arguments of an item", schema.FormOpenAIResponses, `{"type":"response.output_item.done","item":{"type":"function_call","name":"f","arguments":"` + big + `"}}`},
		{"arguments in pieces", schema.FormAnthropic, `{"type":"content_block_start","content_block":{"type":"tool_use","id":"c","name":"f"}}` +
			strings.Repeat("\n"+`{"type":"content_block_delta","delta":{"partial_json":"`+big[:1<<19]+`"}}`, 3)},
		{"id", schema.FormAnthropic, `{"type":"content_block_start","content_block":{"type":"tool_use","name":"f","id":"` + big[:20_000] + `"}}`},
		{"name", schema.FormGemini, `{"candidates":[{"content":{"parts":[{"functionCall":{"name":"` + big[:300] + `"}}]}}]}`},
		{"late id", schema.FormOpenAI, `{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"f"}}]}}]}` + "\n" +
			`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"` + big[:20_000] + `"}]},"finish_reason":"stop"}]}`},
		{"late name", schema.FormOpenAI, `{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c"}]}}]}` + "\n" +
			`{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"` + big[:300] + `"}}]},"finish_reason":"stop"}]}`},
		{"names that are only shown", schema.FormOpenAIResponses, strings.Repeat(
			`{"type":"response.output_item.added","item":{"type":"function_call","name":"`+big+`"}}`+"\n", 5) +
			`{"type":"response.completed","response":{}}`},
		{"reasoning", schema.FormOpenAI, strings.Repeat(`{"choices":[{"delta":{"reasoning":"`+big+`"}}]}`+"\n", 3)},
		{"signature", schema.FormAnthropic, strings.Repeat(`{"type":"content_block_delta","delta":{"signature":"`+big+`"}}`+"\n", 3)},
		{"redacted thinking", schema.FormAnthropic,
			strings.Repeat(`{"type":"content_block_start","content_block":{"type":"redacted_thinking","data":"`+big+`"}}`+"\n", 3) +
				`{"type":"message_stop"}`},
	} {
		_, err := stream(t, test.form, test.events)
		if f, ok := errors.AsType[*model.Fault](err); !ok || f.Kind != model.InvalidAnswer || len(f.Message) > 200 {
			t.Errorf("%s of %s: the error is %.300v", test.name, test.form, err)
		}
	}
}

// What the vendor wants back beside signatures of calls is kept.
func TestGenerate_opaque(t *testing.T) {
	for _, test := range []struct {
		name   string
		form   schema.Form
		events string
		want   string // the pieces
	}{
		{"a signature of Gemini in Chat Completions", schema.FormOpenAI,
			`{"choices":[{"delta":{"tool_calls":[{"id":"c","function":{"name":"f"},"extra_content":{"google":{"s":"x"}}}]},"finish_reason":"stop"}]}`,
			`[{"call":1,"raw":{"google":{"s":"x"}}}]`},
		{"redacted thinking", schema.FormAnthropic, `
			{"type":"content_block_start","content_block":{"type":"redacted_thinking","data":"x"}}
			{"type":"content_block_start","content_block":{"type":"thinking","thinking":"a"}}
			{"type":"content_block_delta","delta":{"thinking":"b"}}
			{"type":"content_block_delta","delta":{"signature":"s"}}
			{"type":"content_block_start","content_block":{"type":"thinking","thinking":"c","signature":"t"}}
			{"type":"content_block_stop"}
			{"type":"content_block_start","content_block":{"type":"text","text":"d"}}
			{"type":"message_stop"}`,
			`[{"raw":{"data":"x","type":"redacted_thinking"}},{"raw":{"signature":"s","thinking":"ab","type":"thinking"}},{"raw":{"signature":"t","thinking":"c","type":"thinking"}},{"text":true}]`},
		{"phase and two reasonings", schema.FormOpenAIResponses, `
			{"type":"response.output_item.done","item":{"type":"reasoning","id":"r1","summary":[{"text":"a"},{"text":"b"}],"encrypted_content":"x"}}
			{"type":"response.output_item.done","item":{"type":"message","phase":"commentary","content":[{"text":"a"}]}}
			{"type":"response.output_item.done","item":{"type":"reasoning","id":"r2","content":[{"text":"c"}],"encrypted_content":"y"}}
			{"type":"response.output_item.done","item":{"type":"reasoning","id":"r3","content":[{"text":"d"}]}}
			{"type":"response.output_item.done","item":{"type":"function_call","call_id":"c","name":"f"}}
			{"type":"response.completed","response":{}}`,
			`[{"raw":{"encrypted_content":"x","id":"r1","summary":[{"text":"a","type":"summary_text"},{"text":"b","type":"summary_text"}],"type":"reasoning"}},` +
				`{"text":true,"raw":"commentary"},{"raw":{"encrypted_content":"y","id":"r2","summary":[],"type":"reasoning"}},{"call":1}]`},
		{"a signature alone at the end", schema.FormGemini, `
			{"candidates":[{"index":1,"content":{"parts":[{"text":"no"}]}},{"content":{"parts":[{"text":"a"}]}}]}
			{"candidates":[{"content":{"parts":[{"text":"","thoughtSignature":"s"}]},"finishReason":"STOP"}]}`,
			`[{"text":true,"raw":"s"}]`},
		{"an id that others refuse", schema.FormGemini,
			`{"candidates":[{"content":{"parts":[{"functionCall":{"id":"a.b","name":"f"}}]},"finishReason":"STOP"}]}`, `[{"call":1}]`},
		{"nothing", schema.FormGemini, `{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP"}]}`, ``},
	} {
		a, err := stream(t, test.form, test.events)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		var got struct{ Pieces json.RawMessage }
		if len(a.Opaque) > 0 {
			if err := json.Unmarshal(a.Opaque, &got); err != nil {
				t.Fatal(err)
			}
		}
		if string(got.Pieces) != test.want {
			t.Errorf("%s: the pieces are %s, want %s", test.name, got.Pieces, test.want)
		}
	}
}

// captured is a transport that keeps the last body, and answers nothing.
type captured struct{ body []byte }

func (c *captured) RoundTrip(r *http.Request) (*http.Response, error) {
	c.body, _ = io.ReadAll(r.Body) // "" fails the test
	return &http.Response{StatusCode: 500, Body: io.NopCloser(&bytes.Buffer{})}, nil
}

// OpenAI's own models refuse the name that all other servers know.
func TestGenerate_max_output(t *testing.T) {
	for host, want := range map[string]string{"api.openai.com": `"max_completion_tokens":7`, "eu.api.openai.com": "max_completion",
		"x.openai.azure.com": "max_completion", "notopenai.com": `"max_tokens":7`, "localhost:11434": `"max_tokens":7`} {
		to := &captured{}
		c, err := model.New(model.Config{Format: schema.FormOpenAI, BaseURL: "https://" + host,
			HTTP: &http.Client{Transport: to}})
		if err != nil {
			t.Fatal(err)
		}
		req := hello()
		req.MaxOutput = 7
		if _, err := c.Generate(t.Context(), req, nil); err == nil || !strings.Contains(string(to.body), want) {
			t.Errorf("%s gets %s", host, to.body)
		}
	}
}

// Arguments that a vendor would refuse, and with them all requests to come, are sent as a text.
func TestGenerate_odd_arguments(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 30) + "1" + strings.Repeat("}", 30)
	for args, want := range map[string]string{deep: quoted(deep), `[1]`: `"[1]"`, `{"a`: quoted(`{"a`),
		quoted(strings.Repeat("é", 3000)): quoted(strings.Repeat("é", 1000))} {
		for _, form := range forms {
			s := modeltest.Start(t, modeltest.Step{Text: "ok"})
			req := hello()
			req.Messages = append(req.Messages, haft.Message{Role: haft.RoleAssistant,
				Calls: []haft.ToolCall{call("c1", "a", args)}})
			if _, err := client(t, form, s).Generate(t.Context(), req, nil); err != nil {
				t.Fatalf("%s: %v", form, err)
			}
			if got := string(s.Requests()[0].Messages[1].Calls[0].Args); got != `{"unreadable_arguments":`+want+`}` {
				t.Errorf("%s: the arguments are %.200s", form, got)
			}
		}
	}
}
