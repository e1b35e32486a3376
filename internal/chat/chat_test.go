package chat

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"haft"
)

// dialogue runs a test with a clock of its own.
func dialogue(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

func TestRun_shows_a_turn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{onSend: yields(user(1), haft.TurnEvent{Thinking: "hm, let me "}, haft.TurnEvent{Thinking: "look"},
			delta("I will **lo"), delta("ok**."),
			haft.TurnEvent{Message: &haft.Message{Turn: turnID, Seq: 2, Role: haft.RoleAssistant,
				Text: "I will **look**.", Reasoning: "hm, let me look",
				Calls: []haft.ToolCall{{Tool: "search", Call: "c_1",
					Args: json.RawMessage(`{"q":"tea"}`)}}}},
			haft.TurnEvent{Event: &haft.Event{Call: "c_1", Tool: "search", Type: haft.EventProgress,
				Data: json.RawMessage(`{"progress":1,"message":"half way"}`)}},
			answered(3, "search", "found"),
			haft.TurnEvent{Result: &haft.Result{Call: "c_1", Tool: "search", Status: haft.StatusSuccess,
				Value: json.RawMessage(`"found it"`), Stdout: "1\n2\n3\n4\n5\n\x1b[31m6\x1b[0m\n",
				Usage: haft.Usage{Wall: haft.Millis(1e9)}, Sandbox: haft.Sandbox{Provider: "local",
					Isolation: haft.Isolation{Level: haft.LevelNamespaces,
						Missing: []haft.Gap{{Control: haft.ControlDisk}}}}}},
			haft.TurnEvent{Result: &haft.Result{Call: "c_2", Tool: "count", Status: haft.StatusSuccess,
				Value: json.RawMessage(`7`)}}, // an answer that is kept later
			haft.TurnEvent{Message: &haft.Message{Turn: turnID, Seq: 4, Role: haft.RoleTool, Name: "count", Call: "c_2",
				Status: haft.StatusSuccess, Text: "7"}},
			haft.TurnEvent{Notice: "the model is asked again"},
			delta("Done."), said(5, "Done."), completed())}
		p := newPerson(step{"> ", "hello\r"}, step{"> ", "/exit\r"})
		if err := talk(t, f, p); err != nil {
			t.Fatal(err)
		}
		shows(t, p, "> hello", "┊ hm, let me look\n", "│ I will look.\n", `● search {"q":"tea"}`+"\n",
			"  ✓ search success in 1s, isolation namespaces (local), without disk_quota\n",
			"  ┆ … 2 more lines\n", "  ┆ 6\n", "  ┆ found it\n", "· the model is asked again\n", "│ Done.\n",
			"· 1 steps, 10 tokens in, 5 out\n")
		if n := strings.Count(p.screen(), "✓"); n != 2 {
			t.Errorf("a result is shown again:\n%s", p.screen())
		}
		if n := strings.Count(p.screen(), "look"); n != 2 {
			t.Errorf("the answer or the reasoning is shown again:\n%s", p.screen())
		}
		if !strings.Contains(p.out.String(), "search: half way") {
			t.Error("the progress is not shown")
		}
		if m := f.sent[0]; m.Text != "hello" || len(m.Key) < 20 {
			t.Errorf("sent: %+v", m)
		}
		if out := p.out.String(); !strings.HasPrefix(out, wrapOff) || !strings.HasSuffix(out, wrapOn) {
			t.Error("text can leave the gutter at the edge, or the terminal is left as it was changed")
		}
	})
}

func TestRun_input(t *testing.T) {
	for name, c := range map[string]struct{ keys, want string }{
		"backslash":       {"one\\\rtwo\r", "one\ntwo"},
		"paste":           {"\x1b[200~one\rtwo\\\r\x1b[201~ three\r", "one\ntwo\\\n three"},
		"slash":           {"//etc is full\r", "/etc is full"},
		"hostile paste":   {"\x1b[200~a\x1b]0;x\x07b\u009b2J\u202ec\x1b[201~\r", "a]0;xb2Jc"},
		"not by a letter": {"caf\xc3\xa9 \u200d\r", "café \u200d"},
	} {
		dialogue(t, name, func(t *testing.T) {
			f := &fake{onSend: yields(user(1), completed())}
			p := newPerson(step{"> ", c.keys}, step{"1 steps", "eof"})
			if err := talk(t, f, p); err != nil {
				t.Fatal(err)
			}
			if len(f.sent) != 1 || f.sent[0].Text != c.want {
				t.Errorf("sent %+v, want %q", f.sent, c.want)
			}
			if strings.Contains(p.out.String(), "\x1b]") || strings.Contains(p.out.String(), "\u009b") {
				t.Error("what was pasted reaches the terminal")
			}
		})
	}
}

func TestRun_keys(t *testing.T) {
	for name, c := range map[string]struct {
		steps []step
		want  []string
	}{
		"up brings the last line back": {[]step{{"> ", "one\r"}, {"1 steps", "\r"}, {"> ", "\x1b[A\r"},
			{"1 steps", "\x04"}}, []string{"one", "one"}},
		"what is cut is not sent": {[]step{{"> ", strings.Repeat("x", longLine+10) + "\r"}, {"too long", "\x04"}}, nil},
	} {
		dialogue(t, name, func(t *testing.T) {
			f := &fake{onSend: yields(user(1), completed())}
			if err := talk(t, f, newPerson(c.steps...)); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, m := range f.sent {
				got = append(got, m.Text)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("sent %q", got)
			}
		})
	}
}

// Wherever the bytes of keys are cut, the editor gets the same.
func TestKeyboard_splits(t *testing.T) {
	const keys = "a\x1b[A\x1b[200~b\x1b]0;x\x07\u009b\tc\r\n\u202ed\x1b[201~é\x1b\x7f\xff漢\r"
	const want = "a\x1b[A\x1b[200~b]0;x\tc\r\nd\x1b[201~é\x1b\x7f漢\r"
	for i := range keys {
		k := newKeyboard(t.Context())
		k.raw = true
		k.take([]byte(keys[:i]))
		if k.take([]byte(keys[i:])); string(k.typed) != want {
			t.Errorf("cut at %d: %q\nwant %q", i, k.typed, want)
		}
	}
}

// cancellable is a turn that ends when it is cancelled, if it does.
func (f *fake) cancellable(ends bool) {
	f.onSend = func(ctx context.Context, _ haft.NewMessage, yield func(haft.TurnEvent, error) bool) {
		if !yield(user(1), nil) || !yield(delta("well "), nil) {
			return
		}
		if f.began != nil {
			f.began()
		}
		select {
		case id := <-f.cancelled:
			if id == turnID && ends {
				yield(haft.TurnEvent{Turn: &haft.Turn{ID: turnID, Status: haft.TurnCancelled,
					Stop: haft.StopCancelled}}, nil)
				return
			}
			<-ctx.Done()
		case <-ctx.Done():
		}
		yield(haft.TurnEvent{}, context.Cause(ctx))
	}
}

func TestRun_interrupts(t *testing.T) {
	const resume = "come back to it with: haft chat ann --resume"
	for name, c := range map[string]struct {
		ends   bool
		steps  []step
		resume bool
	}{
		"once cancels the turn": {true,
			[]step{{"> ", "hi\r"}, {"well", "\x03"}, {"was cancelled", ""}, {"> ", "\x04"}}, false},
		"twice leaves":           {false, []step{{"> ", "hi\r"}, {"well", "\x03"}, {"again leaves", "\x03"}}, true},
		"at the prompt leaves":   {false, []step{{"> ", "hal\x03"}}, false},
		"input that ends leaves": {false, []step{{"> ", "eof"}}, false},
	} {
		dialogue(t, name, func(t *testing.T) {
			f := &fake{}
			f.cancellable(c.ends)
			p := newPerson(c.steps...)
			if err := talk(t, f, p); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(p.screen(), resume) != c.resume {
				t.Errorf("shown:\n%s", p.screen())
			}
		})
	}
	dialogue(t, "again where cancelling fails", func(t *testing.T) {
		f := &fake{fails: errors.New("away")}
		f.cancellable(true)
		p := newPerson(step{"> ", "hi\r"}, step{"well", "\x03"}, step{"not cancelled: away", "\x03"},
			step{"was cancelled", ""}, step{"> ", "\x04"})
		if err := talk(t, f, p); err != nil {
			t.Fatal(err)
		}
	})
	dialogue(t, "by a signal, without a terminal", func(t *testing.T) {
		f := &fake{}
		f.cancellable(true)
		p := newPerson(step{"well", ""})
		p.keys <- "hi\n"
		signals := make(chan os.Signal, 1)
		f.began = func() { signals <- os.Interrupt }
		err := talk(t, f, p, func(c *Config) { c.TTY, c.Interrupts = false, signals })
		if !errors.Is(err, context.Canceled) {
			t.Errorf("it ends with %v", err)
		}
	})
}

func TestRun_text_that_was_lost(t *testing.T) {
	for name, c := range map[string]struct {
		events []haft.TurnEvent
		want   []string
		most   int // how often the answer begins
	}{
		"the end": {[]haft.TurnEvent{delta("Hello "), said(2, "Hello world.")}, []string{"│ Hello world.\n"}, 1},
		"the end, by a slow listener": {[]haft.TurnEvent{delta("Hello "), {Notice: "slow"}, said(2, "Hello world.")},
			[]string{"│ Hello\n", "· slow\n", "│ world.\n"}, 1},
		"the model began again": {[]haft.TurnEvent{delta("Good "), {Notice: "again"}, delta("Hello "),
			said(2, "Hello world.")}, []string{"│ Good\n", "· again\n", "│ Hello world.\n"}, 1},
		"everything else": {[]haft.TurnEvent{delta("Bye"), said(2, "Hello world.")},
			[]string{"│ Bye\n", "· the whole answer:\n", "│ Hello world.\n"}, 1},
		"everything":         {[]haft.TurnEvent{said(2, "Hello world.")}, []string{"│ Hello world.\n"}, 1},
		"nothing but blanks": {[]haft.TurnEvent{delta("Hello \n"), said(2, "Hello")}, []string{"│ Hello\n"}, 1},
		"a result": {[]haft.TurnEvent{said(2, "Hello"), answered(3, "search", "found it")},
			[]string{"  ✓ search success\n", "  ┆ found it\n"}, 1},
	} {
		dialogue(t, name, func(t *testing.T) {
			f := &fake{onSend: yields(append(append([]haft.TurnEvent{user(1)}, c.events...), completed())...)}
			p := newPerson(step{"> ", "hi\r"}, step{"1 steps", "\x04"})
			if err := talk(t, f, p); err != nil {
				t.Fatal(err)
			}
			shows(t, p, c.want...)
			if n := strings.Count(p.screen(), "Hello"); n != c.most {
				t.Errorf("the answer begins %d times:\n%s", n, p.screen())
			}
		})
	}
}

func TestRun_a_lost_connection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := &haft.Error{Code: haft.CodeUnavailable, Message: "away"}
		f := &fake{}
		f.onSend = func(_ context.Context, _ haft.NewMessage, yield func(haft.TurnEvent, error) bool) {
			if len(f.sent) == 2 && (!yield(user(1), nil) || !yield(delta("Hel"), nil)) {
				return
			}
			yield(haft.TurnEvent{}, away)
		}
		f.onFollow = func(_ context.Context, yield func(haft.TurnEvent, error) bool) {
			f.mu.Lock()
			f.messages = []haft.Message{*said(2, "Hello there").Message, *said(3, "And there").Message}
			f.mu.Unlock()
			_ = yield(ends(haft.TurnRunning, ""), nil) && yield(said(3, "And there"), nil) &&
				yield(delta("Bye"), nil) && yield(said(4, "Bye"), nil) && yield(completed(), nil)
		}
		p := newPerson(step{"> ", "hi\r"}, step{"1 steps", "\x04"})
		if err := talk(t, f, p); err != nil {
			t.Fatal(err)
		}
		if len(f.sent) != 2 || f.sent[0].Key != f.sent[1].Key {
			t.Errorf("the message was not sent again with its key: %+v", f.sent)
		}
		shows(t, p, "· the connection to the turn is lost", "│ Hel", "│ lo there\n", "│ And there\n", "│ Bye\n")
		if n := strings.Count(p.screen(), "there"); n != 2 {
			t.Errorf("a message is shown %d times:\n%s", n, p.screen())
		}
	})
}

func TestRun_says_what_to_do(t *testing.T) {
	for name, c := range map[string]struct {
		stop haft.StopReason
		err  error
		want []string
		code haft.Code // without a terminal
	}{
		"budget": {haft.StopTokens, nil, []string{"! the turn was stopped by its budget (max_tokens): why",
			"--max-tokens"}, haft.CodeRateLimited},
		"model": {haft.StopModel, nil, []string{"! the model cannot be used: why", "/model NAME"},
			haft.CodeUnavailable},
		"refusal": {haft.StopRefusal, nil, []string{"! the model refuses: why", "next: "}, haft.CodeDenied},
		"fault":   {haft.StopInternal, nil, []string{"! the turn failed: why", "next: try again"}, haft.CodeInternal},
		"another turn": {"", &haft.Error{Code: haft.CodeConflict, Message: "another\x1b[2J turn"},
			[]string{`! another\x1b[2J turn`, "next: /cancel"}, haft.CodeConflict},
		"denied": {"", &haft.Error{Code: haft.CodeDenied, Message: "no"}, []string{"! no", "--role"}, haft.CodeDenied},
	} {
		dialogue(t, name, func(t *testing.T) {
			f := &fake{onSend: func(_ context.Context, _ haft.NewMessage, yield func(haft.TurnEvent, error) bool) {
				yield(haft.TurnEvent{Turn: &haft.Turn{ID: turnID, Status: haft.TurnFailed, Stop: c.stop,
					Error: "why"}}, c.err)
			}}
			p := newPerson(step{"> ", "hi\r"}, step{"next:", ""}, step{"> ", "\x04"})
			if err := talk(t, f, p); err != nil {
				t.Fatal(err)
			}
			shows(t, p, c.want...)
			p = newPerson()
			p.keys <- "hi\nnot sent\n"
			err := talk(t, f, p, func(cfg *Config) { cfg.TTY = false })
			if haft.CodeOf(err) != c.code || len(f.sent) != 2 {
				t.Errorf("without a terminal: %v, sent %d", err, len(f.sent))
			}
		})
	}
}

func TestRun_commands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{onSend: yields(user(1), completed()), turn: haft.Turn{ID: turnID, Status: haft.TurnCompleted},
			messages: []haft.Message{{Turn: turnID, Seq: 1, Role: haft.RoleUser, Text: "where is the tea"},
				{Turn: turnID, Seq: 2, Role: haft.RoleAssistant, Text: "no idea"}}}
		p := newPerson(step{"> ", "/help\r"}, step{"Ctrl-C cancels", "/history tea\r"}, step{"where is", "/memory\r"},
			step{"likes", "/tools\r"}, step{"evil", "/model other\r"}, step{"use other", "/cancel\r"},
			step{"no turn", "/nothing\r"}, step{"next:", "hi\r"}, step{"1 steps", "/exit\r"})
		if err := talk(t, f, p); err != nil {
			t.Fatal(err)
		}
		shows(t, p, "/history [WORDS]", "you ", "│ where is the tea\n", `block human\x1b[2J (`, "│ likes tea\n",
			`│ ? approve\x1b[2J`, "  search\n", `  evil\x1b]0;x\a`, "! there is no command /nothing")
		if strings.Contains(p.screen(), "no idea") {
			t.Error("/history shows messages without the words")
		}
		if len(f.sent) != 1 || f.sent[0].Model != "other" {
			t.Errorf("sent: %+v", f.sent)
		}
	})
}

func TestRun_without_a_terminal(t *testing.T) {
	plain := func(t *testing.T, f *fake, change ...func(*Config)) (out, notes string, err error) {
		p := newPerson()
		p.keys <- "one\n\ntwo\n"
		close(p.keys)
		var b bytes.Buffer
		err = talk(t, f, p, append(change, func(c *Config) { c.TTY, c.Notes = false, &b })...)
		return p.out.String(), b.String(), err
	}
	dialogue(t, "text", func(t *testing.T) {
		f := &fake{onSend: yields(user(1), haft.TurnEvent{Thinking: "hm"}, delta("**a"), delta("**\n\tb\x1b[2J\u202e"),
			said(2, "**a**\n\tb\x1b[2J\u202e", haft.ToolCall{Tool: "x\x1b[2J", Args: json.RawMessage(`{}`)}), completed())}
		out, notes, err := plain(t, f)
		if want := "**a**\n\tb\\x1b[2J\\u202e\n"; err != nil || out != want+want || len(f.sent) != 2 {
			t.Errorf("%v, out %q", err, out)
		}
		if strings.ContainsAny(notes, "\x1b") || !strings.Contains(notes, `● x\x1b[2J {}`) {
			t.Errorf("notes: %q", notes)
		}
		if f.sent[0].Key == f.sent[1].Key {
			t.Error("two messages have one key")
		}
	})
	dialogue(t, "nobody is asked", func(t *testing.T) {
		f := &fake{onSend: yields(user(1), waits("a_1")), request: &haft.Approval{State: haft.ApprovalPending}}
		_, notes, err := plain(t, f)
		if haft.CodeOf(err) != haft.CodeDenied || !strings.Contains(err.Error(), "haft approvals approve a_1") {
			t.Errorf("it ends with %v", err)
		}
		if len(f.sent) != 1 || len(f.answers) != 0 || !strings.Contains(notes, "--resume") {
			t.Errorf("sent %d, answered %d, notes %q", len(f.sent), len(f.answers), notes)
		}
	})
	dialogue(t, "nobody is asked about a turn that is under way", func(t *testing.T) {
		f := asks(request())
		f.turn, f.messages = haft.Turn{ID: turnID, Status: haft.TurnWaiting}, []haft.Message{*user(1).Message}
		for _, asJSON := range []bool{false, true} {
			if _, _, err := plain(t, f, func(c *Config) { c.JSON = asJSON }); haft.CodeOf(err) != haft.CodeDenied {
				t.Errorf("JSON %v: it ends with %v", asJSON, err)
			}
		}
		f.missing, f.onSend = true, yields(user(1), completed())
		if _, _, err := plain(t, f); err != nil || len(f.sent) != 2 || len(f.answers) != 0 {
			t.Errorf("without the turn: %v, sent %d", err, len(f.sent))
		}
	})
	dialogue(t, "a turn whose request is answered goes on", func(t *testing.T) {
		f := asks(request())
		f.request.State = haft.ApprovalApproved
		f.turn, f.messages = haft.Turn{ID: turnID, Status: haft.TurnWaiting}, []haft.Message{*user(1).Message}
		if _, notes, err := plain(t, f, func(c *Config) { c.In = strings.NewReader("") }); err != nil ||
			!strings.Contains(notes, "paid") {
			t.Errorf("it ends with %v, notes %q", err, notes)
		}
	})
	dialogue(t, "JSON", func(t *testing.T) {
		f := &fake{onSend: yields(user(1), delta("<a>\x1b\x7f\u009b\u202e\U000e0041"), completed())}
		out, _, err := plain(t, f, func(c *Config) { c.JSON, c.TTY = true, true })
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if err != nil || len(lines) != 6 {
			t.Fatalf("%v, out %q", err, out)
		}
		if want := `{"delta":"<a>\u001b\u007f\u009b\u202e\udb40\udc41"}`; lines[1] != want {
			t.Errorf("got %s, want %s", lines[1], want)
		}
		var e haft.TurnEvent
		if err := json.Unmarshal([]byte(lines[1]), &e); err != nil || e.Delta != "<a>\x1b\x7f\u009b\u202e\U000e0041" {
			t.Errorf("%v: %q", err, e.Delta)
		}
	})
	dialogue(t, "much input is read as it is needed", func(t *testing.T) {
		p, f := newPerson(), &fake{onSend: yields(user(1), completed())}
		p.rest = strings.Repeat(strings.Repeat("x", maxLine-100)+"\n", 4)
		close(p.keys)
		if err := talk(t, f, p, func(c *Config) { c.TTY = false }); err != nil || len(f.sent) != 4 {
			t.Errorf("%v, sent %d", err, len(f.sent))
		}
	})
	dialogue(t, "a line is too long", func(t *testing.T) {
		p := newPerson()
		p.rest = strings.Repeat("x", 2*maxLine)
		if err := talk(t, &fake{}, p, func(c *Config) { c.TTY = false }); haft.CodeOf(err) != haft.CodeInvalid {
			t.Errorf("it ends with %v", err)
		}
	})
}
