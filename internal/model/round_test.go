package model_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"haft"
	"haft/internal/model"
	"haft/internal/modeltest"
	"haft/schema"
)

// What a vendor wants back is in the next request to it, and in none to another server.
func TestGenerate_gives_opaque_back(t *testing.T) {
	step := modeltest.Step{Reasoning: "let me think", Text: "one moment", Calls: []haft.ToolCall{call("c1", "now", `{}`)}}
	secret := map[schema.Form]string{schema.FormOpenAI: `"reasoning_content":"let me think"`,
		schema.FormOpenAIResponses: `"encrypted_content":"encrypted"`, schema.FormAnthropic: `"signature":"c2lnbmVk"`,
		schema.FormGemini: `"thoughtSignature":"c2lnbmVk"`}
	for _, form := range forms {
		s, other := modeltest.Start(t, step, modeltest.Step{Text: "12"}), modeltest.Start(t, modeltest.Step{Text: "12"})
		req := hello()
		a, err := client(t, form, s).Generate(t.Context(), req, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Messages = append(req.Messages, haft.Message{Role: haft.RoleAssistant, Text: a.Text, Reasoning: a.Reasoning,
			Calls: a.Calls, Opaque: a.Opaque})
		req.Messages = append(req.Messages, haft.Message{Role: haft.RoleTool, Answers: "c1", Name: "now", Text: "noon"})
		for _, to := range []*modeltest.Server{s, other} {
			if _, err := client(t, form, to).Generate(t.Context(), req, nil); err != nil {
				t.Fatalf("%s: %v", form, err)
			}
		}
		if body := string(s.Requests()[1].Body); !strings.Contains(body, secret[form]) {
			t.Errorf("%s does not get back what it wants: %s", form, body)
		}
		if body := string(other.Requests()[0].Body); strings.Contains(body, secret[form]) {
			t.Errorf("%s: another server gets what is not its own: %s", form, body)
		}
	}
}

// Messages with an Opaque that somebody tampered with are sent without it.
func TestGenerate_broken_opaque(t *testing.T) {
	for _, form := range forms {
		for _, opaque := range []string{``, `{`, `[]`, `{"server":1}`, `{"server":"` + string(form) + ` HOST","pieces":[` +
			`{"call":-1},{"call":99},{"text":true},{"text":true},{"call":1},{"call":1}]}`} {
			s := modeltest.Start(t, modeltest.Step{Text: "ok"})
			req := hello()
			req.Messages = append(req.Messages, haft.Message{Role: haft.RoleAssistant, Text: "x",
				Opaque: json.RawMessage(strings.Replace(opaque, "HOST", s.URL[len("http://"):], 1)),
				Calls:  []haft.ToolCall{call("c1", "a", `{}`), call("c2", "b", `{}`)}})
			if _, err := client(t, form, s).Generate(t.Context(), req, nil); err != nil {
				t.Fatalf("%s, %s: %v", form, opaque, err)
			}
			if got := s.Requests()[0].Messages[1]; got.Text != "x" || len(got.Calls) != 2 {
				t.Errorf("%s, %s: the message became %+v", form, opaque, got)
			}
		}
	}
}

// stream answers a request of Chat Completions with the given events, one in each line.
func stream(t *testing.T, form schema.Form, events string) (*model.Answer, error) {
	t.Helper()
	s := modeltest.Start(t, modeltest.Step{Raw: func(w io.Writer) {
		for line := range strings.Lines(events) {
			if line = strings.TrimSpace(line); line != "" {
				data(w, line)
			}
		}
	}})
	return client(t, form, s).Generate(t.Context(), hello(), nil)
}

func TestGenerate_lesser_servers(t *testing.T) {
	tests := []struct {
		name, events string
		want         []haft.ToolCall // "made" stands for an id that was made
	}{
		{"whole calls without index and id, arguments as objects", `
			{"choices":[{"delta":{"tool_calls":[{"function":{"name":"a","arguments":{"n":1}}}]}}]}
			{"choices":[{"delta":{"tool_calls":[{"function":{"name":"b","arguments":{}}}]},"finish_reason":"stop"}]}`,
			[]haft.ToolCall{call("made", "a", `{"n":1}`), call("made", "b", `{}`)}},
		{"both calls have index 0", `
			{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x","function":{"name":"a","arguments":"{}"}}]}}]}
			{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"y","function":{"name":"b","arguments":"{\"n\":"}}]}}]}
			{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]},"finish_reason":"tool_calls"}]}`,
			[]haft.ToolCall{call("x", "a", `{}`), call("y", "b", `{"n":1}`)}},
		{"the id and the name in every chunk", `
			{"choices":[{"delta":{"tool_calls":[{"id":"x","function":{"name":"a","arguments":"{\"n\""}}]}}]}
			{"choices":[{"delta":{"tool_calls":[{"id":"x","function":{"name":"a","arguments":":1}"}}]},"finish_reason":"x"}]}`,
			[]haft.ToolCall{call("x", "a", `{"n":1}`)}},
		{"interleaved", `
			{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x","function":{"name":"a"}},{"index":1,"id":"y"}]}}]}
			{"choices":[{"delta":{"tool_calls":[{"index":1,"function":{"name":"b","arguments":"{}"}}]}}]}
			{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"n\":1}"}}]}}]}
			[DONE]`,
			[]haft.ToolCall{call("x", "a", `{"n":1}`), call("y", "b", `{}`)}},
		{"the same id twice", `
			{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x","function":{"name":"a"}},
				{"index":1,"id":"x","function":{"name":"b","arguments":null}}]},"finish_reason":"stop"}]}`,
			[]haft.ToolCall{call("x", "a", `{}`), call("made", "b", `{}`)}},
		{"arguments in a string in a string", `
			{"choices":[{"delta":{"tool_calls":[{"id":"x","function":{"name":"a","arguments":"\"{\\\"n\\\":1}\""}}]},"finish_reason":"stop"}]}`,
			[]haft.ToolCall{call("x", "a", `{"n":1}`)}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := stream(t, schema.FormOpenAI, strings.ReplaceAll(test.events, ",\n\t\t\t\t", ","))
			if err != nil {
				t.Fatal(err)
			}
			for i, c := range got.Calls {
				if strings.HasPrefix(c.ID, model.MadeID) {
					got.Calls[i].ID = "made"
				}
			}
			if d := cmp.Diff(test.want, got.Calls); d != "" || got.Stop != model.StopCalls {
				t.Errorf("it stops by %s, the calls differ (-want +got):\n%s", got.Stop, d)
			}
		})
	}
	loose := modeltest.Start(t, modeltest.Step{Loose: true, Text: "hm", Calls: []haft.ToolCall{call("", "a", `{"n":1}`)}})
	if a, err := client(t, schema.FormOpenAI, loose).Generate(t.Context(), hello(), nil); err != nil ||
		string(a.Calls[0].Args) != `{"n":1}` || a.Usage != (model.Usage{}) {
		t.Errorf("a loose answer is %+v, %v", a, err)
	}
}

func TestGenerate_peculiar_streams(t *testing.T) {
	tests := []struct {
		name   string
		form   schema.Form
		events string
		want   model.Answer
	}{
		{"parts as content", schema.FormOpenAI, `
			{"choices":[{"delta":{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}}]}
			{"choices":[{"index":1,"delta":{"content":"no"}}]}
			{"choices":[{"delta":{"content":null},"finish_reason":"stop"}]}`, model.Answer{Text: "ab", Stop: model.StopEnd}},
		{"reasoning under the other name", schema.FormOpenAI, `
			{"choices":[{"delta":{"reasoning":"a"}}]}
			{"choices":[{"delta":{"content":"b"},"finish_reason":"stop"}]}`,
			model.Answer{Text: "b", Reasoning: "a", Stop: model.StopEnd}},
		{"the output in the last event only", schema.FormOpenAIResponses, `
			{"type":"response.completed","response":{"output":[{"type":"message","content":[{"type":"output_text","text":"a"}]},
				{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"}]}}`,
			model.Answer{Text: "a", Stop: model.StopCalls, Calls: []haft.ToolCall{call("c1", "f", `{}`)}}},
		{"an item that is not done", schema.FormOpenAIResponses, `
			{"type":"response.output_item.done","item":{"type":"message","content":[{"type":"output_text","text":"a"}]}}
			{"type":"response.incomplete","response":{"incomplete_details":{"reason":"max_output_tokens"},"output":[
				{"type":"message"},{"type":"function_call","call_id":"c1","name":"f","arguments":"{\"a\":1}"}]}}`,
			model.Answer{Text: "a", Stop: model.StopLength, Calls: []haft.ToolCall{{ID: "c1", Tool: "f",
				Args: json.RawMessage(quoted(`{"a":1}`)),
				Malformed: "the answer was ended, at its limit of tokens or by a filter, while this call was " +
					"written"}}}},
		{"blocks that begin whole", schema.FormAnthropic, `
			{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"a"}}
			{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"c1","name":"f","input":{"a":1}}}
			{"type":"message_delta","delta":{"stop_reason":"tool_use"}}`,
			model.Answer{Text: "a", Stop: model.StopCalls, Calls: []haft.ToolCall{call("c1", "f", `{"a":1}`)}}},
		{"counts of the cache", schema.FormAnthropic, `
			{"type":"message_start","message":{"usage":{"input_tokens":1,"cache_read_input_tokens":20,"cache_creation_input_tokens":300,"output_tokens":1}}}
			{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":7}}
			{"type":"message_stop"}`,
			model.Answer{Stop: model.StopEnd, Usage: model.Usage{Input: 321, Output: 7, Cached: 20}}},
		{"a blocked prompt", schema.FormGemini, `{"promptFeedback":{"blockReason":"SAFETY"}}`,
			model.Answer{Stop: model.StopFiltered}},
		{"thoughts count as output", schema.FormGemini, `
			{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":4,"thoughtsTokenCount":5}}`,
			model.Answer{Text: "a", Stop: model.StopEnd, Usage: model.Usage{Input: 3, Output: 9}}},
	}
	for _, test := range tests {
		t.Run(string(test.form)+"/"+test.name, func(t *testing.T) {
			got, err := stream(t, test.form, strings.ReplaceAll(test.events, "\n\t\t\t\t", ""))
			if err != nil {
				t.Fatal(err)
			}
			got.Opaque = nil
			if d := cmp.Diff(&test.want, got); d != "" {
				t.Errorf("the answer differs (-want +got):\n%s", d)
			}
		})
	}
	for _, events := range []string{`{"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL"}]}`,
		`{"candidates":[{"finishReason":"OTHER"}]}`, `{"candidates":[{"content":{"parts":[{"functionCall":{}}]},"finishReason":"STOP"}]}`} {
		_, err := stream(t, schema.FormGemini, events)
		if f, ok := errors.AsType[*model.Fault](err); !ok || f.Kind != model.InvalidAnswer {
			t.Errorf("%s gives %v", events, err)
		}
	}
}

// serve returns a client of a server that answers as the function does.
func serve(t *testing.T, form schema.Form, answer http.HandlerFunc) *model.Client {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	return client(t, form, &modeltest.Server{URL: s.URL, Client: s.Client()})
}

func TestGenerate_other_answers(t *testing.T) {
	tests := []struct {
		name, contentType, body string
		status                  int
		header                  [2]string
		kind                    model.Kind
		says                    string
		after                   time.Duration
	}{
		{name: "a page", contentType: "text/html", body: "<html>sign in</html>", status: 200,
			kind: model.RefusedRequest, says: "check the address"},
		{name: "an error with 200", contentType: "application/json", status: 200, kind: model.RateLimited, says: "slow",
			body: `{"error":{"message":"slow","type":"rate_limit_error"}}`},
		{name: "a redirect", status: 302, header: [2]string{"Location", "/elsewhere"}, kind: model.RefusedRequest,
			says: "302"},
		{name: "too many tokens for now", status: 429, kind: model.RateLimited, says: "context window", body: `{"error":"` +
			`the context window of this minute is full"}`},
		{name: "no quota", status: 429, kind: model.RefusedRequest, says: "pay",
			body: `{"error":{"message":"pay","code":"insufficient_quota"}}`},
		{name: "a list of one error, with a delay", status: 429, kind: model.RateLimited, says: "quota",
			after: 34 * time.Second,
			body:  `[{"error":{"code":429,"message":"quota","status":"RESOURCE_EXHAUSTED","details":[{},{"retryDelay":"34s"}]}}]`},
		{name: "a wrong key with 400", status: 400, kind: model.Unauthorized, says: "the key is missing, wrong",
			body: `{"error":{"message":"key AIza not valid","status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}`},
		{name: "a text as error", status: 404, kind: model.RefusedRequest, says: "model not found", body: `{"error":"model not found"}`},
		{name: "an error without fields", status: 503, kind: model.Overloaded, says: "overloaded", body: `upstream`},
		{name: "a number as message", status: 400, kind: model.RefusedRequest, says: "check", body: `{"error":{"message":7}}`},
		{name: "a long message", status: 400, kind: model.RefusedRequest, says: "xxx…", body: `{"error":"` +
			strings.Repeat("x", 5000) + `"}`},
		{name: "a deep body", status: 500, kind: model.Unavailable, says: "500", body: strings.Repeat(`{"error":`, 60_000/9)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := serve(t, schema.FormGemini, func(w http.ResponseWriter, r *http.Request) {
				if strings.Contains(r.URL.Path, "elsewhere") {
					t.Error("the redirect was followed")
				}
				w.Header().Set("Content-Type", test.contentType)
				if test.header[0] != "" {
					w.Header().Set(test.header[0], test.header[1])
				}
				w.WriteHeader(test.status)
				_, _ = io.WriteString(w, test.body)
			})
			_, err := c.Generate(t.Context(), hello(), nil)
			f, ok := errors.AsType[*model.Fault](err)
			if !ok || f.Kind != test.kind || !strings.Contains(f.Message, test.says) || f.RetryAfter != test.after ||
				len([]rune(f.Message)) > 400 {
				t.Errorf("the fault is %+v", f)
			}
		})
	}
}

// No part of a secret is in what is said of a fault, and nothing that controls a terminal.
func TestGenerate_message_of_fault(t *testing.T) {
	for _, test := range []struct {
		name   string
		status int
		said   string
		want   string // the end of the message
	}{
		{"the header", 400, "Bearer sk-header is bad", ": [secret] is bad"},
		{"the key in the header", 400, "sk-header is bad", ": [secret] is bad"},
		{"a secret within a secret", 400, "sk-header-too is bad", ": [secret] is bad"},
		{"the scheme alone", 400, "Bearer is missing", ": Bearer is missing"},
		{"a part of the key", 401, "sk-hea***", "may not be used for this"},
		{"the key in another form", 403, "SK-HEADER", "may not be used for this"},
		{"control characters", 400, "a\u009b31m\u0085b\x7fc\u2028d\u2029e", ": a 31m b c d e"},
		{"direction", 400, "a\u202eb\u2066c\u200fd\u061ce", ": a b c d e"},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(test.status)
			_, _ = io.WriteString(w, `{"error":{"message":`+quoted(test.said)+`}}`)
		}))
		c, err := model.New(model.Config{Format: schema.FormOpenAI, BaseURL: s.URL, HTTP: s.Client(),
			Headers: map[string]string{"Authorization": "Bearer sk-header", "X-Key": "sk-header-too"}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Generate(t.Context(), hello(), nil)
		s.Close()
		if err == nil || !strings.HasSuffix(err.Error(), test.want) {
			t.Errorf("%s: the error is %q, want %q at its end", test.name, err, test.want)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, test := range []struct {
		name, value string
		want        time.Duration
	}{
		{"Retry-After", "", 0},
		{"Retry-After", "30", 30 * time.Second},
		{"Retry-After", "0.5", 500 * time.Millisecond},
		{"Retry-After", "-3", 0},
		{"Retry-After", "NaN", 0},
		{"Retry-After", "1e300", time.Hour},
		{"Retry-After", "soon", 0},
		{"Retry-After", "Fri, 02 Jan 2026 03:05:05 GMT", time.Minute},
		{"Retry-After", "Fri, 02 Jan 2026 03:00:00 GMT", 0},
		{"Retry-After", "Fri, 02 Jan 2037 03:00:00 GMT", time.Hour},
		{"Retry-After-Ms", "250", 250 * time.Millisecond},
	} {
		if got := model.RetryAfter(http.Header{test.name: {test.value}}, now); got != test.want {
			t.Errorf("%s: %s means %v, want %v", test.name, test.value, got, test.want)
		}
	}
}

func TestNew_refuses(t *testing.T) {
	good := model.Config{Format: schema.FormOpenAI, BaseURL: "https://a.example", HTTP: http.DefaultClient}
	for name, change := range map[string]func(*model.Config){
		"no format":     func(c *model.Config) { c.Format = "" },
		"no model's":    func(c *model.Config) { c.Format = schema.FormMCP },
		"no client":     func(c *model.Config) { c.HTTP = nil },
		"no address":    func(c *model.Config) { c.BaseURL = "" },
		"a file":        func(c *model.Config) { c.BaseURL = "file:///etc/passwd" },
		"a host only":   func(c *model.Config) { c.BaseURL = "a.example/v1" },
		"a password":    func(c *model.Config) { c.BaseURL = "https://me:" + key + "@a.example" },
		"bad with it":   func(c *model.Config) { c.BaseURL = "https://me:" + key + "@a.example:x" },
		"with fragment": func(c *model.Config) { c.BaseURL = "https://a.example#" + key },
	} {
		cfg := good
		change(&cfg)
		if _, err := model.New(cfg); err == nil || strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := model.New(good); err != nil {
		t.Error(err)
	}
}

func TestGenerate_addresses(t *testing.T) {
	for _, test := range []struct {
		form             schema.Form
		path, model, url string
	}{
		{schema.FormOpenAI, "", "m", "/v1/chat/completions"},
		{schema.FormOpenAI, "/api/", "m", "/api/chat/completions"},
		{schema.FormOpenAI, "/x?api-version=1", "m", "/x/chat/completions?api-version=1"},
		{schema.FormOpenAIResponses, "/", "m", "/v1/responses"},
		{schema.FormAnthropic, "", "m", "/v1/messages"},
		{schema.FormGemini, "", "gemini-3", "/v1beta/models/gemini-3:streamGenerateContent?alt=sse"},
		{schema.FormGemini, "/v1?x=y", "tunedModels/a", "/v1/tunedModels/a:streamGenerateContent?x=y&alt=sse"},
		{schema.FormGemini, "", "../../admin?x=y#z", "/v1beta/_/_/admin%3Fx=y%23z:streamGenerateContent?alt=sse"},
	} {
		got := ""
		s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			got = r.URL.RequestURI()
		}))
		c := client(t, test.form, &modeltest.Server{URL: s.URL + test.path, Client: s.Client()})
		req := hello()
		req.Model = test.model
		if _, err := c.Generate(t.Context(), req, nil); err == nil {
			t.Error("an empty answer is one")
		}
		s.Close()
		if got != test.url {
			t.Errorf("%s, %s: the address is %s, want %s", test.form, test.path, got, test.url)
		}
	}
}

func TestGenerate_options(t *testing.T) {
	s := modeltest.Start(t, modeltest.Step{Text: "ok"}, modeltest.Step{Text: "ok"})
	options := map[string]any{"generationConfig": map[string]any{"temperature": 0.5}}
	c, err := model.New(model.Config{Format: schema.FormGemini, BaseURL: s.URL, HTTP: s.Client, Options: options})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the first must not change them for the second
		req := hello()
		req.MaxOutput = 100
		if _, err := c.Generate(t.Context(), req, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range s.Requests() {
		if !strings.Contains(string(r.Body), `"generationConfig":{"maxOutputTokens":100,"temperature":0.5}`) {
			t.Errorf("the request is %s", r.Body)
		}
	}
	thinking := modeltest.Start(t, modeltest.Step{Text: "ok"}, modeltest.Step{Text: "ok"})
	anthropic, err := model.New(model.Config{Format: schema.FormAnthropic, BaseURL: thinking.URL, HTTP: thinking.Client,
		Options: map[string]any{"thinking": map[string]any{"type": "adaptive"}}})
	if err != nil {
		t.Fatal(err)
	}
	for i, choice := range []string{model.ChoiceAuto, model.ChoiceRequired} {
		req := hello()
		req.Choice, req.Tools = choice, []haft.Tool{{Name: "now", Version: haft.Version{Number: 1}}}
		if _, err := anthropic.Generate(t.Context(), req, nil); err != nil {
			t.Fatal(err)
		}
		if thinks := strings.Contains(string(thinking.Requests()[i].Body), "adaptive"); thinks != (i == 0) {
			t.Errorf("with the choice %s, thinking is sent: %v", choice, thinks)
		}
	}
	if _, err := c.Generate(t.Context(), model.Request{Model: "m"}, nil); err == nil {
		t.Error("a request without messages is sent")
	}
	long := hello()
	long.Messages[0].Text = strings.Repeat("x", 33<<20)
	_, err = c.Generate(t.Context(), long, nil)
	if f, ok := errors.AsType[*model.Fault](err); !ok || f.Kind != model.TooLong || f.Retryable() {
		t.Errorf("a long request gives %v", err)
	}
}

// Streams are framed in every way that the standard allows.
func TestGenerate_framing(t *testing.T) {
	first, last := `{"choices":[{"delta":{"content":"a"}}]}`, `{"choices":[{"delta":{},"finish_reason":"stop"}]}`
	for name, stream := range map[string]string{
		"CRLF":                "data: " + first + "\r\n\r\ndata: " + last + "\r\n\r\n",
		"no space":            "data:" + first + "\n\ndata:" + last + "\n\n",
		"comments and others": ": hello\n\nid: 7\nevent: x\ndata: " + first + "\n\n:\n\ndata: " + last + "\n\n",
		"several lines":       "data: " + strings.Replace(first, ":", ":\ndata: ", 1) + "\n\ndata: " + last + "\n\n",
		"byte order mark":     "\ufeffdata: " + first + "\n\ndata: " + last + "\n\n",
		"no line at the end":  "data: " + first + "\n\ndata: " + last,
		"done without an end": "data: " + first + "\n\ndata: [DONE]",
		"broken after it":     "data: " + first + "\n\ndata: " + last + "\n\ndata: {\"usa",
	} {
		s := modeltest.Start(t, modeltest.Step{Raw: func(w io.Writer) { _, _ = io.WriteString(w, stream) }})
		a, err := client(t, schema.FormOpenAI, s).Generate(t.Context(), hello(), nil)
		if err != nil || a.Text != "a" {
			t.Errorf("%s: the answer is %+v, %v", name, a, err)
		}
	}
	half := "data: " + first + "\n\ndata: {\"cho"
	s := modeltest.Start(t, modeltest.Step{Raw: func(w io.Writer) { _, _ = io.WriteString(w, half) }})
	_, err := client(t, schema.FormOpenAI, s).Generate(t.Context(), hello(), nil)
	if f, ok := errors.AsType[*model.Fault](err); !ok || f.Kind != model.Cut {
		t.Errorf("half an event at the end gives %v", err)
	}
}
