package outgoing_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"haft"
	"haft/internal/outgoing"
	"haft/internal/secret"
	"haft/policy"
)

// texts returns an output, and the texts that it publishes.
func texts(t *testing.T) (*outgoing.Output, chan string) {
	t.Helper()
	r := secret.NewRedactor(secret.Config{Formats: true,
		Values: []secret.Named{{Name: "KEY", Value: secret.New("dat4-base-password")}}})
	got := make(chan string, 1000)
	return outgoing.NewOutput(t.Context(), r, func(_ context.Context, _ haft.EventType, data any) error {
		if m, ok := data.(map[string]string); ok {
			got <- m["text"]
		} else {
			got <- string(data.(json.RawMessage))
		}
		return nil
	}), got
}

// Output is published while the tool runs, in whole lines, also if its end is the beginning of
// a value or of a key.
func TestOutput_is_live_and_whole(t *testing.T) {
	for _, text := range []string{"Loading data\n", "no line break: dat", "mail to joe \n", "50 %", "gh", "ready?\n",
		"ä€", "one\ntwo\nthree data\n"} {
		o, got := texts(t)
		o.Writer("stdout")([]byte(text))
		for all := ""; all != text; { // without more output, and without Close
			piece := <-got
			if all += piece; !strings.HasPrefix(text, all) || all != text && !strings.HasSuffix(all, "\n") {
				t.Fatalf("%q is published as %q", text, all)
			}
		}
		if err := o.Close(); err != nil || len(got) > 0 {
			t.Errorf("%q: %d more pieces, %v", text, len(got), err)
		}
	}
}

// The beginning of a value waits for the rest, and what is before it does not.
func TestOutput_holds_back_the_beginning_of_a_value(t *testing.T) {
	o, got := texts(t)
	write := o.Writer("stderr")
	write([]byte("open dat4-base"))
	if piece := <-got; piece != "open " {
		t.Errorf("got %q, want the text before the value", piece)
	}
	write([]byte("-password!\n"))
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	if rest := <-got; rest != "[redacted:KEY]!\n" {
		t.Errorf("got %q, want the mask", rest)
	}
}

// A long text is cut between characters.
func TestOutput_cuts_between_characters(t *testing.T) {
	o, got := texts(t)
	text := "x" + strings.Repeat("€", 50_000)
	o.Writer("stdout")([]byte(text))
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	close(got)
	all := ""
	for piece := range got {
		if all += piece; !utf8.ValidString(piece) || strings.Contains(piece, "\uFFFD") {
			t.Fatalf("a piece of %d bytes is torn", len(piece))
		}
	}
	if all != text {
		t.Errorf("%d bytes were published, want %d", len(all), len(text))
	}
}

// Of more progress than is held back for filters, the last report is not lost.
func TestHeld_keeps_the_last_report(t *testing.T) {
	var h outgoing.Held
	for range 1000 {
		h.Add(json.RawMessage(`{"progress":1}`))
	}
	h.Add(json.RawMessage(`{"progress":2}`))
	if all := h.Take(); len(all) != 256 || string(all[255]) != `{"progress":2}` {
		t.Errorf("%d reports are kept, the last is %s", len(all), all[len(all)-1])
	}
}

// Items beyond the bound are left out of reports, live and held back, however the key is written.
func TestOutput_bounds_items(t *testing.T) {
	o, got := texts(t)
	o.Items = 4
	for _, data := range []string{`{"progress":1,"item":12}`, `{"progress":2,"item":"secret"}`,
		`{"progress":3,"\u0069tem":"secret"}`, `{"progress":4}`} {
		o.Progress(json.RawMessage(data))
	}
	var h outgoing.Held
	h.Add(json.RawMessage(`{"item":"secret","progress":5}`))
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	if err := o.PublishHeld(&h, "", ""); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`{"progress":1,"item":12}`, `{"progress":2}`, `{"progress":3}`, `{"progress":4}`,
		`{"progress":5}`} {
		if piece := <-got; piece != want {
			t.Errorf("got %s, want %s", piece, want)
		}
	}
}

// A filter matches the texts of the results of code, however they are escaped.
func TestVisitResult_screens_forms_decoded(t *testing.T) {
	for _, tt := range []struct{ at, name, data, want string }{
		{"", "results.json", `{"text":"078\u002d05-1120"}`, `{"text":"[masked by ssn]"}`},
		{", at: [artifact]", "results.json", `{"text":"078\u002d05-1120"}`, `{"text":"[masked by ssn]"}`},
		{", at: [/text]", "results.json", `{"text":"078-05-1120"}`, `{"text":"078-05-1120"}`},
		{"", "results.json", `no JSON 078-05-1120`, `no JSON [masked by ssn]`},
		{"", "other", `{"text":"078-05-1120"}`, `{"text":"[masked by ssn]"}`},
	} {
		rules, err := policy.Compile([]byte(`version: 1
filters:
  - {id: ssn, on: output` + tt.at + `, pattern: '\d{3}-\d{2}-\d{4}', action: mask}
`))
		if err != nil {
			t.Fatal(err)
		}
		s := &outgoing.Screening{Ctx: t.Context(),
			Screen: rules.Screen(policy.Request{Tool: haft.Tool{Name: "t"}}, policy.Output)}
		res := &haft.Result{Artifacts: []haft.Artifact{{Name: tt.name, Data: []byte(tt.data)}}}
		outgoing.VisitResult(res, s)
		if got := string(res.Artifacts[0].Data); s.Err != nil || got != tt.want ||
			res.Artifacts[0].Size != int64(len(tt.want)) {
			t.Errorf("%s %s: got %s, %v", tt.name, tt.at, got, s.Err)
		}
	}
}

// Filters for a part of the value concern items at their place in the value.
func TestHeld_items_are_screened_at_their_index(t *testing.T) {
	for _, tt := range []struct{ at, want string }{
		{"/0/ssn", `{"item":{"ssn":"078-05-1120"},"progress":2}`},
		{"/1/ssn", `{"item":{"ssn":"[masked by ssn]"},"progress":2}`},
		{"/*/ssn", `{"item":{"ssn":"[masked by ssn]"},"progress":2}`},
		{"/message", `{"item":{"ssn":"078-05-1120"},"progress":2}`},
	} {
		rules, err := policy.Compile([]byte(`version: 1
filters:
  - {id: ssn, on: output, at: ["` + tt.at + `"], pattern: '\d{3}-\d{2}-\d{4}', action: mask}
`))
		if err != nil {
			t.Fatal(err)
		}
		var h outgoing.Held
		h.Add(json.RawMessage(`{"progress":2,"item":{"ssn":"078-05-1120"}}`))
		s := &outgoing.Screening{Ctx: t.Context(),
			Screen: rules.Screen(policy.Request{Tool: haft.Tool{Name: "t"}}, policy.Output)}
		h.Visit(s)
		if got := h.Take(); s.Err != nil || string(got[0]) != tt.want {
			t.Errorf("%s: got %s, %v", tt.at, got[0], s.Err)
		}
	}
}

// While text comes in, nothing that may be the beginning of a value is released.
func TestOutput_waits_from_the_last_write(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, got := texts(t)
		write := o.Writer("stdout")
		for _, b := range []byte("dat4-base-password") {
			write([]byte{b})
			time.Sleep(15 * time.Millisecond) // of the clock of the test
		}
		if err := o.Close(); err != nil {
			t.Fatal(err)
		}
		if piece := <-got; piece != "[redacted:KEY]" {
			t.Errorf("got %q", piece)
		}
	})
}
