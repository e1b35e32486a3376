package model_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"haft"
	"haft/internal/model"
	"haft/internal/modeltest"
	"haft/internal/skiptest"
	"haft/schema"
)

const key = "sk-very-secret-key"

// forms are all formats.
var forms = []schema.Form{schema.FormOpenAI, schema.FormOpenAIResponses, schema.FormAnthropic, schema.FormGemini}

// client returns a client of a scripted server.
func client(t testing.TB, form schema.Form, s *modeltest.Server) *model.Client {
	t.Helper()
	c, err := model.New(model.Config{Format: form, BaseURL: s.URL, HTTP: s.Client,
		Key: func(context.Context) (string, error) { return key, nil }})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// hello is the smallest request.
func hello() model.Request {
	return model.Request{Model: "m", Parallel: true, Messages: []haft.Message{{Role: haft.RoleUser, Text: "hello"}}}
}

// call is a call of a step, and of an answer.
func call(id, tool, args string) haft.ToolCall {
	return haft.ToolCall{ID: id, Tool: tool, Args: json.RawMessage(args)}
}

func TestGenerate_answers(t *testing.T) {
	const long = "Grüße, 世界! 👩‍👩‍👧 mañana, ça va; "
	tests := []struct {
		name string
		step modeltest.Step
		want model.Answer
		skip string // formats that cannot say it
	}{
		{name: "text", step: modeltest.Step{Text: "hello", Usage: modeltest.Usage{Input: 12, Output: 3, Cached: 4}},
			want: model.Answer{Text: "hello", Stop: model.StopEnd,
				Usage: model.Usage{Input: 12, Output: 3, Cached: 4}}},
		{name: "nothing", want: model.Answer{Stop: model.StopEnd}},
		{name: "unicode in halves", step: modeltest.Step{Text: strings.Repeat(long, 20), Reasoning: long},
			want: model.Answer{Text: strings.Repeat(long, 20), Reasoning: long, Stop: model.StopEnd}},
		{name: "reasoning", step: modeltest.Step{Reasoning: "let me think", Text: "yes"},
			want: model.Answer{Text: "yes", Reasoning: "let me think", Stop: model.StopEnd}},
		{name: "one call", step: modeltest.Step{Text: "one moment", Calls: []haft.ToolCall{call("c1", "now", `{"zone":"UTC"}`)}},
			want: model.Answer{Text: "one moment", Stop: model.StopCalls,
				Calls: []haft.ToolCall{call("c1", "now", `{"zone":"UTC"}`)}}},
		{name: "parallel calls", step: modeltest.Step{Calls: []haft.ToolCall{call("c1", "now", `{}`), call("c2", "unknown_tool",
			`{"n":12345678901234567890,"s":"\u00e9"}`), call("c3", "now", `{"b":1,"a":2}`)}},
			want: model.Answer{Stop: model.StopCalls, Calls: []haft.ToolCall{call("c1", "now", `{}`),
				call("c2", "unknown_tool", `{"n":12345678901234567890,"s":"é"}`), call("c3", "now", `{"b":1,"a":2}`)}}},
		{name: "empty arguments", step: modeltest.Step{Calls: []haft.ToolCall{call("c1", "now", "")}},
			want: model.Answer{Stop: model.StopCalls, Calls: []haft.ToolCall{call("c1", "now", `{}`)}}},
		{name: "malformed arguments", step: modeltest.Step{Calls: []haft.ToolCall{
			{ID: "c1", Tool: "now", Malformed: `{"zone": UTC`}, call("c2", "now", `{}`)}},
			want: model.Answer{Stop: model.StopCalls, Calls: []haft.ToolCall{
				{ID: "c1", Tool: "now", Args: json.RawMessage(`"{\"zone\": UTC"`), Malformed: "expected a value"},
				call("c2", "now", `{}`)}}},
		{name: "arguments that are a list", step: modeltest.Step{Calls: []haft.ToolCall{
			{ID: "c1", Tool: "now", Malformed: `[1]`}}},
			want: model.Answer{Stop: model.StopCalls, Calls: []haft.ToolCall{
				{ID: "c1", Tool: "now", Args: json.RawMessage(`"[1]"`), Malformed: "expected an object"}}}},
		{name: "arguments that nest deep", step: modeltest.Step{Calls: []haft.ToolCall{
			{ID: "c1", Tool: "now", Malformed: strings.Repeat(`{"a":`, 150) + "1" + strings.Repeat("}", 150)}}},
			want: model.Answer{Stop: model.StopCalls, Calls: []haft.ToolCall{{ID: "c1", Tool: "now",
				Args:      json.RawMessage(quoted(strings.Repeat(`{"a":`, 150) + "1" + strings.Repeat("}", 150))),
				Malformed: "nested deeper"}}}},
		{name: "length", step: modeltest.Step{Text: "once upon", Stop: "length"},
			want: model.Answer{Text: "once upon", Stop: model.StopLength}},
		{name: "length within a call", step: modeltest.Step{Stop: "length", Calls: []haft.ToolCall{
			call("c1", "now", `{"a":1}`), call("c2", "rm", `{"path":"/"}`)}},
			want: model.Answer{Stop: model.StopLength, Calls: []haft.ToolCall{call("c1", "now", `{"a":1}`),
				{ID: "c2", Tool: "rm", Args: json.RawMessage(quoted(`{"path":"/"}`)), Malformed: "limit of tokens"}}}},
		{name: "filtered within a call", skip: "anthropic", step: modeltest.Step{Stop: "filtered",
			Calls: []haft.ToolCall{call("c1", "rm", `{"path":"/"}`)}},
			want: model.Answer{Stop: model.StopFiltered, Calls: []haft.ToolCall{
				{ID: "c1", Tool: "rm", Args: json.RawMessage(quoted(`{"path":"/"}`)), Malformed: "by a filter"}}}},
		{name: "refusal", skip: "gemini", step: modeltest.Step{Text: "I would rather not", Stop: "refusal"},
			want: model.Answer{Text: "I would rather not", Stop: model.StopRefusal}},
		{name: "filtered", skip: "anthropic", step: modeltest.Step{Text: "so", Stop: "filtered"},
			want: model.Answer{Text: "so", Stop: model.StopFiltered}},
	}
	for _, form := range forms {
		for _, test := range tests {
			if test.skip == string(form) {
				continue
			}
			t.Run(string(form)+"/"+test.name, func(t *testing.T) {
				t.Parallel()
				c := client(t, form, modeltest.Start(t, test.step))
				var text, reasoning, tools string
				got, err := c.Generate(t.Context(), hello(), func(c model.Chunk) {
					text, reasoning, tools = text+c.Text, reasoning+c.Reasoning, tools+c.Tool+" "
				})
				if err != nil {
					t.Fatal(err)
				}
				for i, c := range got.Calls { // the words are the schema's
					want := test.want.Calls[min(i, len(test.want.Calls)-1)].Malformed
					if want != "" && strings.Contains(c.Malformed, want) {
						got.Calls[i].Malformed = want
					}
				}
				if d := cmp.Diff(&test.want, got, cmpopts.IgnoreFields(model.Answer{}, "Opaque")); d != "" {
					t.Errorf("the answer differs (-want +got):\n%s", d)
				}
				if text != test.want.Text || reasoning != test.want.Reasoning {
					t.Errorf("the chunks are %q and %q", text, reasoning)
				}
				for _, c := range test.want.Calls {
					if strings.Count(tools, c.Tool+" ") == 0 {
						t.Errorf("no chunk has the tool %s", c.Tool)
					}
				}
			})
		}
	}
}

// quoted returns a text as JSON.
func quoted(s string) string {
	raw, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// data returns an event whose data is a text of a format that every reader decodes.
func data(w io.Writer, text string) { _, _ = io.WriteString(w, "data: "+text+"\n\n") }

func TestGenerate_faults(t *testing.T) {
	big := strings.Repeat("x", 1<<20)
	textEvent := map[schema.Form]string{ // with %s for the text
		schema.FormOpenAI:          `{"choices":[{"delta":{"content":"%s"}}]}`,
		schema.FormOpenAIResponses: `{"type":"response.output_text.delta","delta":"%s"}`,
		schema.FormAnthropic:       `{"type":"content_block_delta","delta":{"type":"text_delta","text":"%s"}}`,
		schema.FormGemini:          `{"candidates":[{"content":{"parts":[{"text":"%s"}]}}]}`,
	}
	callEvent := map[schema.Form]string{ // with %d for a number that makes it another call
		schema.FormOpenAI: `{"choices":[{"delta":{"tool_calls":[{"index":%d,"id":"c%[1]d","function":{"name":"f","arguments":"{}"}}]}}]}`,
		schema.FormOpenAIResponses: `{"type":"response.output_item.done","item":{"type":"function_call","call_id":"c%d",` +
			`"name":"f","arguments":"{}"}}`,
		schema.FormAnthropic: `{"type":"content_block_start","content_block":{"type":"tool_use","id":"c%d","name":"f"}}`,
		schema.FormGemini:    `{"candidates":[{"content":{"parts":[{"functionCall":{"id":"c%d","name":"f"}}]}}]}`,
	}
	tests := []struct {
		name   string
		step   func(schema.Form) modeltest.Step
		kind   model.Kind
		status int
		after  time.Duration
		says   string
		retry  bool
	}{
		{"429", always(modeltest.Step{Status: 429, RetryAfter: "7", Message: "slow down " + key}), model.RateLimited,
			429, 7 * time.Second, "slow down [secret]", true},
		{"529", always(modeltest.Step{Status: 529, Message: "busy"}), model.Overloaded, 529, 0, "busy", true},
		{"500", always(modeltest.Step{Status: 500}), model.Unavailable, 500, 0, "500", true},
		{"401", always(modeltest.Step{Status: 401, Message: "wrong key " + key[:5]}), model.Unauthorized, 401, 0,
			"the key", false},
		{"400", always(modeltest.Step{Status: 400, Message: "tools.3: no\nsuch\x1b[31m thing"}), model.RefusedRequest,
			400, 0, "tools.3: no such [31m thing", false},
		{"too long", always(modeltest.Step{Status: 400, Message: "prompt is too long: 200001 tokens"}), model.TooLong,
			400, 0, "too long", false},
		{"cut", always(modeltest.Step{Text: "once upon a time", Cut: true}), model.Cut, 0, 0, "ended before", true},
		{"error in the stream", always(modeltest.Step{Text: "once", Error: "overloaded_error", Message: "too busy"}),
			model.Overloaded, 0, 0, "too busy", true},
		{"unknown error in the stream", always(modeltest.Step{Text: "once", Error: "odd", Message: "oops"}),
			model.Unavailable, 0, 0, "oops", true},
		{"no events", raw(func(io.Writer, schema.Form) {}), model.Cut, 0, 0, "ended before", true},
		{"no JSON", raw(func(w io.Writer, _ schema.Form) { data(w, `{"a":`) }), model.InvalidAnswer, 0, 0, "no JSON", true},
		{"other JSON", raw(func(w io.Writer, _ schema.Form) { data(w, `[1,2]`) }), model.InvalidAnswer, 0, 0, "format", true},
		{"deep JSON", raw(func(w io.Writer, _ schema.Form) { data(w, strings.Repeat("[", 1<<20)) }),
			model.InvalidAnswer, 0, 0, "no JSON, or more", true},
		{"many values", raw(func(w io.Writer, _ schema.Form) { data(w, `{"choices":[`+strings.Repeat("{},", 200_000)+`{}]}`) }),
			model.InvalidAnswer, 0, 0, "no JSON, or more", true},
		{"huge text", raw(func(w io.Writer, f schema.Form) {
			for range 12 {
				data(w, fmt.Sprintf(textEvent[f], big))
			}
		}), model.InvalidAnswer, 0, 0, "text of more", true},
		{"huge stream", raw(func(w io.Writer, _ schema.Form) {
			for range model.MaxStream>>20 + 1 {
				_, _ = io.WriteString(w, ": "+big+"\n")
			}
		}), model.InvalidAnswer, 0, 0, "more than", true},
		{"endless line", raw(func(w io.Writer, _ schema.Form) {
			_, _ = io.WriteString(w, "data: ")
			for range model.MaxLine>>20 + 1 {
				_, _ = io.WriteString(w, big)
			}
		}), model.InvalidAnswer, 0, 0, "line of more", true},
		{"endless event", raw(func(w io.Writer, _ schema.Form) {
			for range model.MaxLine>>20 + 1 {
				_, _ = io.WriteString(w, "data: "+big+"\n")
			}
		}), model.InvalidAnswer, 0, 0, "event of more", true},
		{"many calls", raw(func(w io.Writer, f schema.Form) {
			for i := range model.MaxCalls + 1 {
				data(w, fmt.Sprintf(callEvent[f], i))
			}
		}), model.InvalidAnswer, 0, 0, "calls", true},
	}
	for _, form := range forms {
		for _, test := range tests {
			if skiptest.Race && strings.HasPrefix(test.name, "huge") {
				continue
			}
			t.Run(string(form)+"/"+test.name, func(t *testing.T) {
				t.Parallel()
				c := client(t, form, modeltest.Start(t, test.step(form)))
				_, err := c.Generate(t.Context(), hello(), nil)
				f, ok := errors.AsType[*model.Fault](err)
				if !ok {
					t.Fatalf("the error is %v, want a fault", err)
				}
				if f.Kind != test.kind || f.Status != test.status || f.RetryAfter != test.after ||
					f.Retryable() != test.retry {
					t.Errorf("the fault is %s, %d, %v, want %s, %d, %v", f.Kind, f.Status, f.RetryAfter, test.kind,
						test.status, test.after)
				}
				if !strings.Contains(f.Message, test.says) || strings.Contains(f.Error(), key) || len(f.Message) > 500 {
					t.Errorf("the message is %q, want %q in it", f.Message, test.says)
				}
			})
		}
	}
}

// always is a step that is the same in all formats.
func always(s modeltest.Step) func(schema.Form) modeltest.Step {
	return func(schema.Form) modeltest.Step { return s }
}

// raw is a step whose stream is written by hand.
func raw(write func(io.Writer, schema.Form)) func(schema.Form) modeltest.Step {
	return func(f schema.Form) modeltest.Step {
		return modeltest.Step{Raw: func(w io.Writer) { write(w, f) }}
	}
}

func TestGenerate_ends_with_its_context(t *testing.T) {
	for _, form := range forms {
		t.Run(string(form), func(t *testing.T) {
			t.Parallel()
			c := client(t, form, modeltest.Start(t, modeltest.Step{Text: "once upon a time", Hold: true}))
			ctx, cancel := context.WithCancelCause(t.Context())
			gone := errors.New("the user is gone")
			_, err := c.Generate(ctx, hello(), func(model.Chunk) { cancel(gone) })
			if _, isFault := errors.AsType[*model.Fault](err); isFault || !errors.Is(err, gone) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// stalled is a transport whose server sends one event, or no headers, and then nothing.
type stalled struct{ headers bool }

func (s stalled) RoundTrip(r *http.Request) (*http.Response, error) {
	if !s.headers {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	out, in := io.Pipe()
	context.AfterFunc(r.Context(), func() { _ = in.CloseWithError(r.Context().Err()) })
	go data(in, `{"type":"ping"}`)
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: out}, nil
}

func TestGenerate_idle(t *testing.T) {
	for _, headers := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			c, err := model.New(model.Config{Format: schema.FormAnthropic, BaseURL: "https://a.example",
				HTTP: &http.Client{Transport: stalled{headers}}})
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			_, err = c.Generate(t.Context(), hello(), nil)
			f, ok := errors.AsType[*model.Fault](err)
			if !ok || f.Kind != model.Cut || !f.Retryable() || time.Since(start) != 5*time.Minute {
				t.Errorf("after %v the error is %v", time.Since(start), err)
			}
		})
	}
}

// refusing is a transport that may not reach anything.
type refusing struct{ err error }

func (r refusing) RoundTrip(*http.Request) (*http.Response, error) { return nil, r.err }

func TestGenerate_unreachable(t *testing.T) {
	ask := func(err error) error {
		c, e := model.New(model.Config{Format: schema.FormGemini, BaseURL: "https://a.example",
			HTTP: &http.Client{Transport: refusing{err}}})
		if e != nil {
			t.Fatal(e)
		}
		_, e = c.Generate(t.Context(), hello(), nil)
		return e
	}
	f, ok := errors.AsType[*model.Fault](ask(errors.New("connection refused")))
	if !ok || f.Kind != model.Unavailable || !f.Retryable() || strings.Contains(f.Message, "example") {
		t.Errorf("the fault is %v", f)
	}
	denied := &haft.Error{Code: haft.CodeDenied, Message: "this address is not allowed"}
	if err := ask(denied); haft.CodeOf(err) != haft.CodeDenied {
		t.Errorf("what the caller's client forbids is %v", err)
	}
}

func TestGenerate_key(t *testing.T) {
	for _, form := range forms {
		s := modeltest.Start(t, modeltest.Step{Text: "a"}, modeltest.Step{Text: "b"})
		if _, err := client(t, form, s).Generate(t.Context(), hello(), nil); err != nil {
			t.Fatal(err)
		}
		none, err := model.New(model.Config{Format: form, BaseURL: s.URL, HTTP: s.Client,
			Headers: map[string]string{"X-Team": "7"}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := none.Generate(t.Context(), hello(), nil); err != nil {
			t.Fatal(err)
		}
		with, without := s.Requests()[0].Header, s.Requests()[1].Header
		for i, name := range []string{"Authorization", "X-Api-Key", "X-Goog-Api-Key"} {
			mine := [...]bool{form != schema.FormAnthropic && form != schema.FormGemini, form == schema.FormAnthropic,
				form == schema.FormGemini}[i]
			if strings.HasSuffix(with.Get(name), key) != mine || without.Get(name) != "" {
				t.Errorf("%s: %s is %q with a key, %q without", form, name, with.Get(name), without.Get(name))
			}
		}
		if without.Get("X-Team") != "7" {
			t.Errorf("%s: the header is not sent", form)
		}
	}
	failing, err := model.New(model.Config{Format: forms[0], BaseURL: "https://a.example", HTTP: http.DefaultClient,
		Key: func(context.Context) (string, error) { return "", errors.New("no such secret") }})
	if err != nil {
		t.Fatal(err)
	}
	broken, err := model.New(model.Config{Format: forms[0], BaseURL: "https://a.example", HTTP: http.DefaultClient,
		Key: func(context.Context) (string, error) { return key + "\r\nX: y", nil }})
	if err != nil {
		t.Fatal(err)
	}
	_, err = broken.Generate(t.Context(), hello(), nil)
	f, ok := errors.AsType[*model.Fault](err)
	if !ok || f.Kind != model.Unauthorized || strings.Contains(f.Error(), key) {
		t.Errorf("a key of two lines gives %v", err)
	}
	_, err = failing.Generate(t.Context(), hello(), nil)
	if err == nil || !strings.Contains(err.Error(), "no such secret") {
		t.Errorf("a key that cannot be had gives %v", err)
	}
}
