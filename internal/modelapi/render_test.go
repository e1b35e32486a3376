package modelapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"haft"
	"haft/internal/modelapi"
	"haft/schema"
)

// png is as much of an image as is looked at.
var png = []byte("\x89PNG\r\n\x1a\n and so on")

// rendered renders one result for Chat Completions and returns what the model reads.
func rendered(t *testing.T, r *haft.Result) string {
	t.Helper()
	req := &modelapi.Request{Form: schema.FormOpenAI, Calls: []modelapi.ToolCall{{ID: "a", Name: "f"}}}
	raw, err := modelapi.Render(req, []*haft.Result{r})
	if err != nil {
		t.Fatal(err)
	}
	var messages []struct{ Content string }
	if err := json.Unmarshal(raw, &messages); err != nil || len(messages) != 1 {
		t.Fatalf("%s: %v", raw, err)
	}
	return messages[0].Content
}

func TestRender_text(t *testing.T) {
	success := func(value string) *haft.Result {
		return &haft.Result{Status: haft.StatusSuccess, Value: json.RawMessage(value), Stdout: "printed",
			Stderr: "warned"}
	}
	failed := func(s haft.Status, f *haft.Failure) *haft.Result { return &haft.Result{Status: s, Error: f} }
	for _, c := range []struct {
		name string
		res  *haft.Result
		want string
	}{
		{"a string as it is", success(`"a \"b\"\n"`), "a \"b\"\n"},
		{"an empty string", success(`""`), ""},
		{"the string null is a value", success(`"null"`), "null"},
		{"an object compactly", success(`{ "a" : [ 1, 2.50 ] }`), `{"a":[1,2.50]}`},
		{"false", success(`false`), "false"},
		{"stdout instead of a missing value", success(`null`), "printed"},
		{"stdout instead of any value", success(``), "printed"},
		{"null if nothing was printed", &haft.Result{Status: haft.StatusSuccess, Value: json.RawMessage("null"),
			Stdout: " \n", Stderr: "warned"}, "null"},
		{"no JSON, which is our fault", success("{\xff"), "{\ufffd"},
		{"a value that was cut without room for a note",
			&haft.Result{Status: haft.StatusSuccess, Value: json.RawMessage(`"ab"`),
				Truncated: haft.Truncated{Value: 7}}, "ab\n[cut: 7 characters left out]"},
		{"a failure of which more was printed", &haft.Result{Status: haft.StatusLimit, Stdout: "a",
			Truncated: haft.Truncated{Stdout: 5, Stderr: 6},
			Error:     &haft.Failure{Kind: haft.FailOutput, Message: "too much"}},
			"Error (limit_output): too much\nstdout:\na\n[cut: 5 bytes of stdout left out]\n[cut: 6 bytes of stderr " +
				"left out]"},
		{"no result", nil, "Error (internal): there is no result of this call"},
		{"a failure without words", failed(haft.StatusTimeout, nil), "Error (timeout): the call failed"},
		{"never again",
			failed(haft.StatusDenied, &haft.Failure{Kind: haft.FailDenied, Message: "no", Retry: haft.RetryNever}),
			"Error (permission_denied): no\nCalling it again will not help."},
		{"later", failed(haft.StatusRate, &haft.Failure{Kind: haft.FailRate, Message: "slow down",
			Retry: haft.RetrySame, RetryAfter: haft.Millis(1500 * time.Millisecond)}),
			"Error (rate_limited): slow down\nThe same call may succeed after 1.5s."},
		{"a misfit that the message has is not said twice",
			failed(haft.StatusValidation, &haft.Failure{Kind: haft.FailValidation, Message: "/a is wrong",
				Misfits: []haft.Misfit{{Pointer: "/a", Message: "is wrong"}, {Pointer: "/b", Message: "is wrong"}}}),
			"Error (validation): /a is wrong\n- /b: is wrong"},
		{"an approval without a call", &haft.Result{Status: haft.StatusPending, Approval: "a_1"},
			"pending_approval: a person has to agree to this call before it runs (approval a_1). It has not run. Do " +
				"not call it again; go on without its result, or tell the user what it waits for."},
		{"a call that waits", &haft.Result{Call: "c_1", Status: haft.StatusQueued},
			"queued: the call was accepted and has not begun (call c_1). Do not call it again; its result " +
				"comes later."},
		{"a file whose name has lines", &haft.Result{Status: haft.StatusSuccess,
			Artifacts: []haft.Artifact{{Name: "a\n[b]", ContentType: "x/y\r\n", Size: 1, Data: []byte("z")}}},
			"[file a [b], x/y  , 1 bytes: it cannot be shown here]"},
		{"a file without a name", &haft.Result{Status: haft.StatusSuccess,
			Artifacts: []haft.Artifact{{ContentType: "x/y"}}}, "[file file, x/y, 0 bytes: it cannot be shown here]"},
		{"a text that is no text", &haft.Result{Status: haft.StatusSuccess,
			Artifacts: []haft.Artifact{{Name: "a", ContentType: "text/plain", Size: 1, Data: []byte("\xff")}}},
			"[file a, text/plain, 1 bytes: it cannot be shown here]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, rendered(t, c.res)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRender_bounds_what_is_printed(t *testing.T) {
	long := strings.Repeat("ä", haft.DefaultMaxChars) + "end"
	got := rendered(t, &haft.Result{Status: haft.StatusSuccess, Stdout: long})
	if want := strings.Repeat("ä", haft.DefaultMaxChars) + "\n[cut: 3 characters left out]"; got != want {
		t.Errorf("stdout as a value: %d bytes, ends with %.100s", len(got), got[max(0, len(got)-100):])
	}
	var misfits []haft.Misfit
	for i := range 100 {
		misfits = append(misfits, haft.Misfit{Pointer: fmt.Sprint("/", i), Message: strings.Repeat("m", 1000)})
	}
	got = rendered(t, &haft.Result{Status: haft.StatusError, Stdout: long, Stderr: long, Notices: make([]string, 100),
		Error: &haft.Failure{Kind: haft.FailException, Message: "x", Traceback: long, Misfits: misfits}})
	for _, want := range []string{"stdout:\n[cut: 48003 characters left out] …ä", "äend", "\n- /19: mmm",
		"\n- and more places", "[92 more notices]"} {
		if !strings.Contains(got, want) {
			t.Errorf("the answer lacks %q", want)
		}
	}
	if len(got) > 30_000 || strings.Contains(got, "/20:") {
		t.Errorf("the answer has %d bytes", len(got))
	}
}

func TestRender_marks_errors(t *testing.T) {
	for _, s := range haft.Statuses() {
		req := &modelapi.Request{Form: schema.FormAnthropic, Calls: []modelapi.ToolCall{{ID: "a", Name: "f"}}}
		raw, err := modelapi.Render(req, []*haft.Result{{Status: s, Value: json.RawMessage("1")}})
		if err != nil {
			t.Fatal(err)
		}
		marked := bytes.Contains(raw, []byte(`"is_error":true`))
		if want := s.Final() && s != haft.StatusSuccess; marked != want {
			t.Errorf("%s: %s, want an error: %v", s, raw, want)
		}
		if !s.Final() && !bytes.Contains(raw, []byte(s)) {
			t.Errorf("%s: it is not told as such: %s", s, raw)
		}
	}
}

// The API of Anthropic takes nothing but text for an error.
func TestRender_puts_no_file_into_an_error_for_anthropic(t *testing.T) {
	plot := haft.Artifact{Name: "x.png", ContentType: "image/png", Size: int64(len(png)), Data: png}
	for status, want := range map[haft.Status]bool{haft.StatusSuccess: true, haft.StatusError: false} {
		req := &modelapi.Request{Form: schema.FormAnthropic, Calls: []modelapi.ToolCall{{ID: "a", Name: "f"}}}
		raw, err := modelapi.Render(req, []*haft.Result{{Status: status, Artifacts: []haft.Artifact{plot}}})
		if err != nil {
			t.Fatal(err)
		}
		if got := bytes.Contains(raw, []byte(`"type":"image"`)); got != want || !bytes.Contains(raw, []byte("x.png")) {
			t.Errorf("%s: %s, want the image: %v, and its name", status, raw, want)
		}
	}
}

func TestRender_bounds_files(t *testing.T) {
	file := func(n int) haft.Artifact {
		data := append(bytes.Clone(png), make([]byte, max(0, n-len(png)))...)
		return haft.Artifact{Name: "x.png", ContentType: "image/png", Size: int64(len(data)), Data: data}
	}
	var small []haft.Artifact
	for range modelapi.MaxMedia/2 + 1 {
		small = append(small, file(0))
	}
	large := file(modelapi.MaxMediaFile)
	for _, c := range []struct {
		name   string
		files  []haft.Artifact
		text   bool
		images int
		want   string
	}{
		{"too many for all calls together", small, false, modelapi.MaxMedia,
			": there are too many files to show this one]"},
		{"one too large", []haft.Artifact{file(modelapi.MaxMediaFile + 1)}, false, 0, ": it is too large to be shown]"},
		{"too large together", []haft.Artifact{large, large}, false, 3, ": there are too many files to show this one]"},
		{"nobody sees", small, true, 0, ": it cannot be shown here]"},
		{"content that is elsewhere", []haft.Artifact{{Name: "x.png", ContentType: "image/png", Size: 99, Data: png}},
			false, 0, ": its content is not here]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for form, mark := range map[schema.Form]string{
				schema.FormOpenAIResponses: `"type":"input_image"`, schema.FormAnthropic: `"type":"image"`,
				schema.FormGemini: `"inlineData"`,
			} {
				req := &modelapi.Request{Form: form,
					Calls: []modelapi.ToolCall{{ID: "a", Name: "f"}, {ID: "b", Name: "f"}}, TextOnly: c.text}
				r := &haft.Result{Status: haft.StatusSuccess, Value: json.RawMessage("1"), Artifacts: c.files}
				raw, err := modelapi.Render(req, []*haft.Result{r, r})
				if err != nil {
					t.Fatal(err)
				}
				if n := bytes.Count(raw, []byte(mark)); n != c.images {
					t.Errorf("%s shows %d images, want %d", form, n, c.images)
				}
				if !bytes.Contains(raw, []byte(c.want)) {
					t.Errorf("%s does not say %q", form, c.want)
				}
				if n := bytes.Count(raw, []byte("[file x.png, ")); n != 2*len(c.files) {
					t.Errorf("%s names %d files, want %d", form, n, 2*len(c.files))
				}
			}
		})
	}
}

func TestRender_bounds_texts(t *testing.T) {
	text := func(data string) haft.Artifact {
		return haft.Artifact{Name: "t", ContentType: "application/json", Size: int64(len(data)), Data: []byte(data)}
	}
	full := text(strings.Repeat("x", modelapi.MaxTextFile))
	for _, c := range []struct {
		name  string
		files []haft.Artifact
		want  int
	}{
		{"as large as it may be", []haft.Artifact{full}, 1},
		{"too large", []haft.Artifact{text(strings.Repeat("x", modelapi.MaxTextFile+1))}, 0},
		{"too large together", []haft.Artifact{full, full, full, text("{}")}, 3},
		{"binary that claims to be text", []haft.Artifact{text("a\x00b")}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := rendered(t, &haft.Result{Status: haft.StatusSuccess, Artifacts: c.files})
			if n := strings.Count(got, "[end of file t]"); n != c.want {
				t.Errorf("%d texts are shown, want %d", n, c.want)
			}
			if n := strings.Count(got, "[file t, "); n != len(c.files) {
				t.Errorf("%d files are named, want %d", n, len(c.files))
			}
		})
	}
}

func TestRender_refuses(t *testing.T) {
	req := &modelapi.Request{Form: schema.FormOpenAI, Calls: []modelapi.ToolCall{{ID: "a", Name: "f"}}}
	if raw, err := modelapi.Render(req, nil); err == nil {
		t.Errorf("a call without a result: %s", raw)
	}
	if raw, err := modelapi.Render(&modelapi.Request{Form: schema.FormMCP}, nil); haft.CodeOf(err) != haft.CodeInvalid {
		t.Errorf("a form in which no model answers: %s, %v", raw, err)
	}
}

// Gemini refuses a whole request for one value that nests too deep.
func TestRender_deep_values_are_text_for_gemini(t *testing.T) {
	nest := func(n int) string { return strings.Repeat(`["]`+`",`, n-1) + "[]" + strings.Repeat("]", n-1) }
	for _, n := range []int{20, 21} {
		req := &modelapi.Request{Form: schema.FormGemini, Calls: []modelapi.ToolCall{{Name: "f"}}}
		raw, err := modelapi.Render(req, []*haft.Result{{Status: haft.StatusSuccess, Value: json.RawMessage(nest(n))}})
		if err != nil {
			t.Fatal(err)
		}
		want := nest(n)
		if n > 20 {
			text, err := json.Marshal(want)
			if err != nil {
				t.Fatal(err)
			}
			want = string(text)
		}
		if !bytes.Contains(raw, []byte(`{"result":`+want+`}`)) {
			t.Errorf("%d levels: got %s, want %s in it", n, raw, want)
		}
	}
}

func TestTools_refuses_unknown_forms(t *testing.T) {
	if l, err := modelapi.Tools("cohere", nil, false); haft.CodeOf(err) != haft.CodeInvalid {
		t.Errorf("got %v, %v", l, err)
	}
}

func TestTools_looks_at_schemas_that_nobody_has_judged(t *testing.T) {
	tool := func(parameters string) haft.Tool {
		return haft.Tool{Name: "f", Version: haft.Version{Number: 1, Parameters: json.RawMessage(parameters)}}
	}
	for _, c := range []struct{ name, parameters, want string }{
		{"invalid", `{"type":"object","properties":{"a":{"type":"array"}}}`, "root.properties.a: "},
		{"no JSON", `{`, "the schema of its parameters cannot be read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, form := range modelapi.Forms() {
				l, err := modelapi.Tools(form, []haft.Tool{tool(c.parameters)}, false)
				if err != nil || len(l.Listed) != 0 || len(l.Skipped) != 1 ||
					!strings.Contains(strings.Join(l.Skipped[0].Reasons, "; "), c.want) {
					t.Errorf("%s: %+v, %v", form, l, err)
				}
			}
		})
	}
}

func TestTools_says_when_there_are_too_many(t *testing.T) {
	var tools []haft.Tool
	for i := range 1000 {
		tools = append(tools, haft.Tool{Name: fmt.Sprint("tool_", i),
			Version: haft.Version{Number: 1, Description: "does it",
				Parameters: json.RawMessage(`{"type":"object","properties":{}}`)}})
	}
	l, err := modelapi.Tools(schema.FormOpenAI, tools, true)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"OpenAI's Chat Completions take 128 tools, these are 1000"}; !cmp.Equal(l.Notes, want) ||
		len(l.Listed) != 1000 {
		t.Errorf("got %v and %d tools", l.Notes, len(l.Listed))
	}
	sum := 0
	for _, e := range l.Listed {
		sum += e.Tokens
	}
	if sum != l.Tokens || sum < 10_000 || sum > 100_000 {
		t.Errorf("%d tokens, %d in all", sum, l.Tokens)
	}
}
