package terminal

import (
	"encoding/json"
	"strings"
	"testing"

	"haft"
)

// What is not a terminal gets a line for each report, and no escape sequence.
func TestProgress_prints_lines(t *testing.T) {
	var b strings.Builder
	p := NewProgress(&b)
	p.Line("installing") // for a person only
	for _, data := range []string{`{"progress":3,"total":10,"message":"a\n\u001b[2Jb"}`, `{"progress":0.5}`,
		`{"progress":2,"item":{"a":"\u001b"}}`, `{"phase":"packages"}`, `7`, `"x"`} {
		p.Event(haft.Event{Type: haft.EventProgress, Data: json.RawMessage(data)})
	}
	p.Event(haft.Event{Type: haft.EventOutput, Data: json.RawMessage(`{"stream":"stdout","text":"said\n"}`)})
	want := "progress: 3/10 a \\x1b[2Jb\nprogress: 0.5\nitem 2: {\"a\":\"\\u001b\"}\nsaid\n"
	if b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
}

// A terminal shows a bar, which output takes the place of.
func TestProgress_draws_a_bar(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	var b strings.Builder
	p := &Progress{w: &b, on: true}
	p.Report(json.RawMessage(`{"progress":25,"total":50,"message":"half\u001b"}`))
	p.Report(json.RawMessage(`{"progress":99,"total":50}`))
	p.Output("said\x1b\n")
	p.Line("")
	want := "\r\x1b[K[##########..........]  50% half\\x1b\r\x1b[K[####################] 100%\r\x1b[Ksaid\\x1b\n"
	if b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
}
