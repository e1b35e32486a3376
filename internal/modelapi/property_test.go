package modelapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"haft"
	"haft/internal/goldentest"
	"haft/internal/modelapi"
	"haft/schema"
)

// object is a JSON object of random pairs.
type object = map[string]any

// write writes what a model of a vendor answers that makes these calls.
func write(t *rapid.T, form schema.Form, calls []modelapi.ToolCall) []byte {
	var parts []any
	noise := func(o object) {
		if rapid.Bool().Draw(t, "noise") {
			parts = append(parts, o)
		}
	}
	for _, c := range calls {
		switch form {
		case schema.FormOpenAI:
			parts = append(parts, object{"id": c.ID, "type": "function",
				"function": object{"name": c.Name, "arguments": string(c.Args), "more": 1}})
		case schema.FormOpenAIResponses:
			noise(object{"type": "reasoning", "summary": []any{}})
			parts = append(parts, object{"type": "function_call", "id": "fc_" + c.ID, "call_id": c.ID, "name": c.Name,
				"arguments": string(c.Args), "status": "completed"})
		case schema.FormAnthropic:
			noise(object{"type": "text", "text": "{\"type\":\"tool_use\"}]"})
			parts = append(parts, object{"type": "tool_use", "id": c.ID, "name": c.Name, "input": c.Args})
		case schema.FormGemini:
			noise(object{"text": "[{\"functionCall\":{}}"})
			f := object{"name": c.Name, "args": c.Args}
			if c.ID != "" {
				f["id"] = c.ID
			}
			parts = append(parts, object{"functionCall": f, "thoughtSignature": "eA=="})
		}
	}
	raw, err := json.MarshalIndent(envelopes(form, parts)[rapid.IntRange(0, 2).Draw(t, "envelope")], "",
		rapid.SampledFrom([]string{"", "\t"}).Draw(t, "indent"))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// envelopes are three shapes of the same answer.
func envelopes(form schema.Form, parts []any) []any {
	switch form {
	case schema.FormOpenAI:
		message := object{"role": "assistant", "content": nil, "tool_calls": parts}
		return []any{object{"choices": []any{object{"index": 0, "message": message, "finish_reason": "tool_calls"}}},
			message, parts}
	case schema.FormOpenAIResponses:
		return []any{object{"object": "response", "status": "completed", "output": parts}, object{"output": parts},
			parts}
	case schema.FormAnthropic:
		return []any{object{"type": "message", "role": "assistant", "content": parts, "stop_reason": "tool_use"},
			object{"role": "assistant", "content": parts}, parts}
	default:
		content := object{"role": "model", "parts": parts}
		return []any{object{"candidates": []any{object{"content": content, "finishReason": "STOP"}}}, content, parts}
	}
}

// answered reads ids (or, where there are none, names) and texts of messages.
func answered(t *rapid.T, form schema.Form, raw []byte) (ids, texts []string) {
	add := func(id string, text any) {
		ids, texts = append(ids, id), append(texts, fmt.Sprint(text))
	}
	unmarshal := func(to any) {
		if err := json.Unmarshal(raw, to); err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
	}
	switch form {
	case schema.FormOpenAI, schema.FormOpenAIResponses:
		var list []struct {
			Tool    string `json:"tool_call_id"`
			Call    string `json:"call_id"`
			Content string `json:"content"`
			Output  string `json:"output"`
		}
		unmarshal(&list)
		for _, m := range list {
			add(m.Tool+m.Call, m.Content+m.Output)
		}
	case schema.FormAnthropic:
		var m struct {
			Content []struct {
				ID      string `json:"tool_use_id"`
				Content string `json:"content"`
			}
		}
		unmarshal(&m)
		for _, b := range m.Content {
			add(b.ID, b.Content)
		}
	case schema.FormGemini:
		var c struct {
			Parts []struct {
				FunctionResponse struct {
					ID, Name string
					Response struct{ Result any }
				}
			}
		}
		unmarshal(&c)
		for _, p := range c.Parts {
			add(p.FunctionResponse.Name+"/"+p.FunctionResponse.ID, p.FunctionResponse.Response.Result)
		}
	}
	return ids, texts
}

// Every call comes back, with its id, name and arguments, and every answer goes to
// its own call, in order, whatever stands between and around them.
func TestProperty_ids_and_order_are_kept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		form := rapid.SampledFrom(modelapi.Forms()).Draw(t, "form")
		ids := rapid.SliceOfNDistinct(rapid.StringN(1, 20, 60), 1, 8, rapid.ID).Draw(t, "ids")
		var calls []modelapi.ToolCall
		var results []*haft.Result
		var want, texts []string
		for i, id := range ids {
			if form == schema.FormGemini && rapid.Bool().Draw(t, "without id") {
				id = ""
			}
			args, err := schema.Encode(
				object{rapid.String().Draw(t, "key"): rapid.OneOf(rapid.Just[any](nil),
					rapid.Map(rapid.String(), toAny), rapid.Map(rapid.Int64(), toAny)).Draw(t, "value")})
			if err != nil {
				t.Fatal(err)
			}
			c := modelapi.ToolCall{ID: id, Name: rapid.StringN(1, 30, 200).Draw(t, "name"), Args: args}
			calls = append(calls, c)
			value, err := json.Marshal(fmt.Sprint(i, rapid.String().Draw(t, "text")))
			if err != nil {
				t.Fatal(err)
			}
			results = append(results, &haft.Result{Status: haft.StatusSuccess, Value: value})
			var text string
			if err := json.Unmarshal(value, &text); err != nil {
				t.Fatal(err)
			}
			texts = append(texts, text)
			if form == schema.FormGemini {
				id = c.Name + "/" + c.ID
			}
			want = append(want, id)
		}
		raw := write(t, form, calls)
		req, err := modelapi.Parse(raw, "")
		if err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		if diff := cmp.Diff(&modelapi.Request{Form: form, Calls: calls}, req,
			cmp.Transformer("JSON", decoded)); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", raw, diff)
		}
		messages, err := modelapi.Render(req, results)
		if err != nil {
			t.Fatal(err)
		}
		gotIDs, gotTexts := answered(t, form, messages)
		if diff := cmp.Diff(want, gotIDs); diff != "" {
			t.Errorf("ids of %s (-want +got):\n%s", messages, diff)
		}
		if diff := cmp.Diff(texts, gotTexts); diff != "" {
			t.Errorf("texts of %s (-want +got):\n%s", messages, diff)
		}
	})
}

// Every vendor takes every name that a tool of ours can have.
func TestProperty_our_names_are_accepted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[A-Za-z_][A-Za-z0-9_-]{0,63}`).Draw(t, "name")
		if err := haft.CheckToolName(name); err != nil {
			t.Fatal(err)
		}
		for _, form := range schema.Forms() {
			l, err := modelapi.Tools(form, []haft.Tool{{Name: name, Version: haft.Version{Number: 1}}}, true)
			if err != nil || len(l.Listed) != 1 || l.Listed[0].Name != name {
				t.Errorf("%s: %+v, %v", form, l, err)
			}
		}
	})
}

func toAny[T any](v T) any { return v }

// corpus returns answers and results of the golden files, to begin with.
func corpus(f *testing.F) [][2][]byte {
	f.Helper()
	var all [][2][]byte
	for _, g := range goldentest.Files(f, "testdata/answer", 1) {
		all = append(all, [2][]byte{[]byte(g.Text("answer.json")), []byte(g.Text("results.json"))})
	}
	return all
}

// FuzzParse: any text is an answer or an error that names a place. What is an
// answer keeps the bounds, and all of its calls are answered.
func FuzzParse(f *testing.F) {
	for _, c := range corpus(f) {
		f.Add(c[0], uint8(0))
	}
	f.Add([]byte(`[{"type":"tool_use","id":"\ud83d\ude00","name":"f","input":{}}]`), uint8(3))
	f.Fuzz(func(t *testing.T, raw []byte, n uint8) {
		form := append([]schema.Form{""}, modelapi.Forms()...)[int(n)%5]
		req, err := modelapi.Parse(raw, form)
		if err != nil {
			if haft.CodeOf(err) != haft.CodeInvalid || haft.MessageOf(err) == "" ||
				!utf8.ValidString(haft.MessageOf(err)) {
				t.Fatalf("Parse(%q) = %v", raw, err)
			}
			return
		}
		if !slices.Contains(modelapi.Forms(), req.Form) || len(req.Calls) > modelapi.MaxCalls {
			t.Fatalf("Parse(%q) = %+v", raw, req)
		}
		results := make([]*haft.Result, len(req.Calls))
		seen := map[string]bool{}
		for i, c := range req.Calls {
			if c.Name == "" || (c.Failure == nil) != bytes.HasPrefix(c.Args, []byte("{")) ||
				!json.Valid(c.Args) && c.Failure == nil {
				t.Fatalf("Parse(%q): call %d is %+v", raw, i, c)
			}
			if c.ID != "" && seen[c.ID] || c.ID == "" && req.Form != schema.FormGemini && !req.Legacy {
				t.Fatalf("Parse(%q): call %d has the id %q", raw, i, c.ID)
			}
			seen[c.ID] = true
			results[i] = c.Refused()
		}
		checkMessages(t, req, results)
	})
}

// FuzzRender: whatever a result holds, what is written is valid JSON with one
// answer for each call.
func FuzzRender(f *testing.F) {
	for _, c := range corpus(f) {
		f.Add(c[1], "out", "name", []byte("%PDF-"), uint8(0))
	}
	f.Add([]byte(`[{"status":"success","value":"\ud800"},{}]`), "\xff\x00", "a\nb\xff", png, uint8(2))
	f.Fuzz(func(t *testing.T, raw []byte, out, name string, data []byte, n uint8) {
		var results []*haft.Result
		if json.Unmarshal(raw, &results) != nil {
			results = []*haft.Result{{Status: haft.StatusSuccess, Value: raw},
				{Status: haft.Status(name), Value: raw,
					Error: &haft.Failure{Message: out, Kind: haft.FailureKind(name), Traceback: out}}}
		}
		req := &modelapi.Request{Form: modelapi.Forms()[int(n)%4], Legacy: n&16 != 0, TextOnly: n&32 != 0}
		for i, r := range results {
			req.Calls = append(req.Calls, modelapi.ToolCall{ID: fmt.Sprint("id", i),
				Name: strings.ToValidUTF8(name, "") + "x"})
			if r != nil {
				r.Stdout, r.Notices = out, []string{name}
				r.Artifacts = append(r.Artifacts, haft.Artifact{Name: name, ContentType: out, Size: int64(len(data)),
					Data: data}, haft.Artifact{Name: name, ContentType: "text/x", Data: data})
			}
		}
		checkMessages(t, req, results)
	})
}

// checkMessages renders results and counts the answers.
func checkMessages(t *testing.T, req *modelapi.Request, results []*haft.Result) {
	t.Helper()
	raw, err := modelapi.Render(req, results)
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(raw) || !utf8.Valid(raw) {
		t.Fatalf("Render wrote %q", raw)
	}
	var list []json.RawMessage
	var message struct{ Content, Parts []json.RawMessage }
	if req.Form == schema.FormAnthropic || req.Form == schema.FormGemini {
		err = json.Unmarshal(raw, &message)
	} else {
		err = json.Unmarshal(raw, &list)
	}
	if n := len(list) + len(message.Content) + len(message.Parts); err != nil || n != len(req.Calls) {
		t.Fatalf("Render wrote %d answers to %d calls: %s (%v)", n, len(req.Calls), raw, err)
	}
	for _, c := range req.Calls {
		id, err := json.Marshal(c.ID)
		if err != nil {
			t.Fatal(err)
		}
		if s := string(id); c.ID != "" && !req.Legacy && !strings.Contains(s, `\u`) && !bytes.Contains(raw, id) {
			t.Fatalf("Render lost the id %s: %s", id, raw)
		}
	}
}
