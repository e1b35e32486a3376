package modeltest_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"haft"
	"haft/internal/modeltest"
)

// ask sends a request, and returns the status and the answer.
func ask(t *testing.T, s *modeltest.Server, path, body string) (int, string) {
	t.Helper()
	resp, err := s.Client.Post(s.URL+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// The paths of the formats.
const (
	chat      = "/v1/chat/completions"
	responses = "/v1/responses"
	anthropic = "/v1/messages"
	gemini    = "/v1beta/models/m:streamGenerateContent?alt=sse"
)

// Requests that the vendors refuse are refused.
func TestHandler_refuses(t *testing.T) {
	tests := []struct{ name, path, body, why string }{
		{"no JSON", chat, `{`, "not of the format"},
		{"unknown field", chat, `{"model":"m","stream":true,"mesages":[]}`, "unknown field"},
		{"no model", chat, `{"stream":true,"messages":[{"role":"user","content":"a"}]}`, "no model"},
		{"no messages", chat, `{"model":"m","stream":true}`, "no messages"},
		{"no stream", chat, `{"model":"m","messages":[{"role":"user","content":"a"}]}`, "stream"},
		{"empty content", chat, `{"model":"m","stream":true,"messages":[{"role":"user","content":" "}]}`, "empty"},
		{"unknown role", chat, `{"model":"m","stream":true,"messages":[{"role":"bot","content":"a"}]}`, "role"},
		{"call without answer", chat, `{"model":"m","stream":true,"messages":[{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}]}`, "no answer"},
		{"answer too late", chat, `{"model":"m","stream":true,"messages":[{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"user","content":"a"},{"role":"tool","tool_call_id":"c","content":"a"}]}`, "no answer"},
		{"answer of no call", chat, `{"model":"m","stream":true,"messages":[{"role":"tool","tool_call_id":"c","content":"a"}]}`, "no call"},
		{"bad name", chat, `{"model":"m","stream":true,"messages":[{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f.g","arguments":"{}"}}]}]}`, "name"},
		{"bad arguments", chat, `{"model":"m","stream":true,"messages":[{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"[]"}}]}]}`, "arguments"},
		{"same id twice", chat, `{"model":"m","stream":true,"messages":[{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}]}`, "unique"},
		{"bad tool", chat, `{"model":"m","stream":true,"messages":[{"role":"user","content":"a"}],"tools":[{"type":"function","function":{"name":"a b","parameters":{}}}]}`, "name"},
		{"choice without tools", chat, `{"model":"m","stream":true,"messages":[{"role":"user","content":"a"}],"tool_choice":"none"}`, "tools"},
		{"choice of no tool", chat, `{"model":"m","stream":true,"messages":[{"role":"user","content":"a"}],"tools":[{"type":"function","function":{"name":"f","parameters":{}}}],"tool_choice":{"type":"function","function":{"name":"g"}}}`, "not offered"},
		{"stored", responses, `{"model":"m","stream":true,"input":[{"role":"user","content":"a"}]}`, "store"},
		{"reasoning alone", responses, `{"model":"m","stream":true,"store":false,"input":[{"role":"user","content":"a"},{"type":"reasoning","id":"r","summary":[],"encrypted_content":"e"}]}`, "follows"},
		{"call without output", responses, `{"model":"m","stream":true,"store":false,"input":[{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}]}`, "no answer"},
		{"roles do not alternate", anthropic, `{"model":"m","stream":true,"max_tokens":1,"messages":[{"role":"user","content":[{"type":"text","text":"a"}]},{"role":"user","content":[{"type":"text","text":"a"}]}]}`, "alternate"},
		{"assistant first", anthropic, `{"model":"m","stream":true,"max_tokens":1,"messages":[{"role":"assistant","content":[{"type":"text","text":"a"}]},{"role":"user","content":[{"type":"text","text":"a"}]}]}`, "first"},
		{"assistant last", anthropic, `{"model":"m","stream":true,"max_tokens":1,"messages":[{"role":"user","content":[{"type":"text","text":"a"}]},{"role":"assistant","content":[{"type":"text","text":"a"}]}]}`, "end with a user"},
		{"no max_tokens", anthropic, `{"model":"m","stream":true,"messages":[{"role":"user","content":[{"type":"text","text":"a"}]}]}`, "max_tokens"},
		{"blank text", anthropic, `{"model":"m","stream":true,"max_tokens":1,"messages":[{"role":"user","content":[{"type":"text","text":" "}]}]}`, "non-whitespace"},
		{"text before results", anthropic, `{"model":"m","stream":true,"max_tokens":1,"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"tool_result","tool_use_id":"c","content":"a"}]}]}`, "first"},
		{"calls without tools", anthropic, `{"model":"m","stream":true,"max_tokens":1,"messages":[{"role":"user","content":[{"type":"text","text":"a"}]},{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"a"}]}]}`, "define tools"},
		{"thinking without signature", anthropic, `{"model":"m","stream":true,"max_tokens":1,"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"a"},{"type":"text","text":"a"}]}]}`, "signature"},
		{"empty part", gemini, `{"contents":[{"role":"user","parts":[{"text":""}]}]}`, "empty"},
		{"response of another name", gemini, `{"contents":[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"functionCall":{"id":"c","name":"f","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"id":"c","name":"g","response":{"result":"a"}}}]}]}`, `is of "g"`},
		{"fewer responses than calls", gemini, `{"contents":[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"functionCall":{"name":"f","args":{}}},{"functionCall":{"name":"f","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"result":"a"}}}]}]}`, "no answer"},
		{"no alt", "/v1beta/models/m:streamGenerateContent", `{"contents":[{"role":"user","parts":[{"text":"a"}]}]}`, "alt=sse"},
	}
	for _, test := range tests {
		t.Run(strings.Trim(strings.ReplaceAll(test.path, "/", "_"), "_")+"/"+test.name, func(t *testing.T) {
			s := modeltest.Start(t, modeltest.Step{Text: "accepted"})
			status, body := ask(t, s, test.path, test.body)
			var plain map[string]any // each vendor has its own form, all have an error
			if status != 400 || json.Unmarshal([]byte(body), &plain) != nil || plain["error"] == nil {
				t.Fatalf("it answers %d: %s", status, body)
			}
			if why := s.Refusals(); len(why) != 1 || !strings.Contains(why[0], test.why) || s.Left() != 1 {
				t.Errorf("the reasons are %q, want %q; %d steps are left", why, test.why, s.Left())
			}
		})
	}
}

const hello = `{"model":"m","stream":true,"messages":[{"role":"system","content":"be brief"},{"role":"user","content":"hello"}]}`

func TestHandler_steps(t *testing.T) {
	s := modeltest.Start(t,
		modeltest.Step{For: "other", Text: "for another"},
		modeltest.Step{Check: func(r modeltest.Request) error {
			if r.System != "be brief" {
				return errors.New("the system prompt is wrong")
			}
			return nil
		}, Text: "first"},
		modeltest.Step{Check: func(modeltest.Request) error { return errors.New("I do not like it") }})
	if status, body := ask(t, s, chat, hello); status != 200 || !strings.Contains(body, "first") {
		t.Errorf("it answers %d: %s", status, body)
	}
	if status, body := ask(t, s, chat, hello); status != 400 || !strings.Contains(body, "I do not like it") {
		t.Errorf("it answers %d: %s", status, body)
	}
	if status, body := ask(t, s, chat, hello); status != 400 || !strings.Contains(body, "no more steps") {
		t.Errorf("it answers %d: %s", status, body)
	}
	if status, body := ask(t, s, chat, strings.Replace(hello, "hello", "the other one", 1)); status != 200 ||
		!strings.Contains(body, "for a") {
		t.Errorf("it answers %d: %s", status, body)
	}
	if status, _ := ask(t, s, "/v1/models", hello); status != http.StatusNotFound {
		t.Errorf("another path answers %d", status)
	}
	got := s.Requests()
	if len(s.Refusals()) != 2 || len(got) != 2 || got[0].Messages[0].Text != "hello" || got[0].Format != "openai" ||
		got[0].Messages[0].Role != haft.RoleUser || s.Left() != 0 {
		t.Errorf("the requests are %+v", got)
	}
	s.Add(modeltest.Step{Status: 503, RetryAfter: "2"})
	if status, _ := ask(t, s, anthropic, strings.Replace(hello, `"messages"`, `"x"`, 1)); status != 400 {
		t.Errorf("it answers %d", status)
	}
	if status, _ := ask(t, s, chat, hello); status != 503 {
		t.Errorf("it answers %d", status)
	}
}

// A fakeTest keeps what a test would report.
type fakeTest struct {
	end    func()
	failed []string
}

func (*fakeTest) Helper()                          {}
func (f *fakeTest) Cleanup(end func())             { f.end = end }
func (f *fakeTest) Errorf(format string, _ ...any) { f.failed = append(f.failed, format) }
func (f *fakeTest) Fatalf(format string, _ ...any) { panic(format) }

// A refused request fails the test, unless that looks for it. A server ends with its test, also where a stream is held.
func TestStart(t *testing.T) {
	for _, looks := range []bool{false, true} {
		f := &fakeTest{}
		s := modeltest.Start(f, modeltest.Step{Text: "hold", Hold: true})
		if status, _ := ask(t, s, chat, `{}`); status != http.StatusBadRequest {
			t.Errorf("it answers %d", status)
		}
		resp, err := s.Client.Post(s.URL+chat, "application/json", strings.NewReader(hello))
		if err != nil {
			t.Fatal(err)
		}
		if looks {
			s.Refusals()
		}
		f.end()
		if _, err := io.ReadAll(resp.Body); err == nil {
			t.Error("the stream that was held is whole")
		}
		resp.Body.Close() //nolint:errcheck // it was only read
		if (len(f.failed) == 0) != looks {
			t.Errorf("the test reports %q", f.failed)
		}
		if resp, err := s.Client.Get(s.URL); err == nil {
			resp.Body.Close() //nolint:errcheck // it was not read
			t.Error("the server listens after its test")
		}
	}
}

func TestRead(t *testing.T) {
	steps, err := modeltest.Read(strings.NewReader(`[{"text":"a","calls":[{"id":"c","tool":"f","args":{"n":1}}]},{"status":429}]`))
	if err != nil || len(steps) != 2 || string(steps[0].Calls[0].Args) != `{"n":1}` || steps[1].Status != 429 {
		t.Errorf("the steps are %+v, %v", steps, err)
	}
	if _, err := modeltest.Read(strings.NewReader(`[{"txt":"a"}]`)); err == nil {
		t.Error("a field that is not known is read")
	}
}

// A step that is played again is never used up.
func TestHandler_plays_a_step_again(t *testing.T) {
	s := modeltest.Start(t, modeltest.Step{For: "two", Again: true, Text: "TWO"}, modeltest.Step{Text: "ONE"})
	for _, word := range []string{"two", "one", "two"} {
		_, answer := ask(t, s, chat, `{"model":"m","stream":true,"messages":[{"role":"user","content":"`+word+`"}]}`)
		if !strings.Contains(answer, strings.ToUpper(word)) {
			t.Errorf("%s is answered with %s", word, answer)
		}
	}
	if s.Left() != 0 {
		t.Errorf("%d steps are left", s.Left())
	}
}

// A handler whose answers have no end keeps no requests, and few reasons of refusals.
func TestHandler_Otherwise_keeps_no_requests(t *testing.T) {
	s := modeltest.Start(t)
	s.Otherwise(func(modeltest.Request) modeltest.Step { return modeltest.Step{Text: "a"} })
	for range 3 {
		if status, body := ask(t, s, chat, hello); status != 200 {
			t.Errorf("it answers %d: %s", status, body)
		}
	}
	if n := len(s.Requests()); n != 0 {
		t.Errorf("%d requests are kept", n)
	}
	for range 200 {
		ask(t, s, chat, "{}")
	}
	if n := len(s.Refusals()); n != 100 {
		t.Errorf("%d reasons are kept", n)
	}
}

// A client that does not know the path of a model is answered by none.
func TestHandler_Below(t *testing.T) {
	h := modeltest.NewHandler(modeltest.Step{Text: "first"})
	h.Below("/secret")
	s, stop, err := modeltest.Listen(h)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	known := s.URL
	for _, url := range []string{strings.TrimSuffix(known, "/secret"), known + "x", known[:len(known)-1]} {
		s.URL = url
		if status, _ := ask(t, s, chat, hello); status != http.StatusNotFound || s.Left() != 1 {
			t.Errorf("%s answers %d, %d steps are left", url, status, s.Left())
		}
	}
	if s.URL = known; !strings.HasSuffix(known, "/secret") {
		t.Errorf("the URL is %s", known)
	}
	if status, body := ask(t, s, chat, hello); status != 200 || !strings.Contains(body, "first") {
		t.Errorf("it answers %d: %s", status, body)
	}
}
