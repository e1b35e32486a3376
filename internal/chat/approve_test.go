package chat

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"haft"
)

// request is one that waits.
func request() *haft.Approval {
	return &haft.Approval{ID: "a_1", Tool: "pay", State: haft.ApprovalPending, Rule: "money",
		Args: json.RawMessage(`{"amount":3}`), Requester: haft.Principal{User: "u", Agent: "ag_1"},
		Expires: time.Now().Add(time.Hour),
		Terms:   &haft.Terms{Network: []string{"bank.example"}, MinIsolation: "kernel"}}
}

// asks is an agent whose turn waits for a request, and goes on when it is answered.
func asks(a *haft.Approval) *fake {
	return &fake{request: a,
		onSend: yields(user(1), said(2, "I pay.", haft.ToolCall{Tool: "pay", Call: "c_1"}), waits("a_1")),
		onFollow: func(ctx context.Context, yield func(haft.TurnEvent, error) bool) {
			yields(waits("a_1"), answered(3, "pay", "paid"), completed())(ctx, haft.NewMessage{}, yield)
		}}
}

func TestRun_asks_for_approval(t *testing.T) {
	const question = "y or n"
	long := request()
	long.Args = json.RawMessage(`"` + strings.Repeat("x", maxRequest) + `"`)
	decided := request()
	decided.State = haft.ApprovalApproved
	for name, c := range map[string]struct {
		request *haft.Approval
		steps   []step
		want    []haft.Answer
	}{
		"yes": {request(), []step{{question, "y\r"}}, []haft.Answer{{Approve: true}}},
		"yes, with a reason": {request(), []step{{question, "Yes all is well \r"}},
			[]haft.Answer{{Approve: true, Reason: "all is well"}}},
		"no, with a reason": {request(), []step{{question, "n too much\r"}}, []haft.Answer{{Reason: "too much"}}},
		"nothing else is an answer": {request(),
			[]step{{question, "\r"}, {question, "yn\r"}, {question, "n\r"}}, []haft.Answer{{}}},
		"not what was typed before": {request(), []step{{"● ", "y\ry\r"}, {question, "n\r"}},
			[]haft.Answer{{}}},
		"not what was typed with the message": {request(), []step{{question, "n\r"}}, []haft.Answer{{}}},
		"not what was typed at once": {request(), []step{{"has to agree", "y\r"}, {question, "n\r"}},
			[]haft.Answer{{}}},
		"not what cannot be shown": {long,
			[]step{{"cannot agree here", ""}, {question, "y\r"}, {question, "n\r"}}, []haft.Answer{{}}},
		"not what is decided":    {decided, nil, nil},
		"not what others answer": {nil, []step{{"somebody answers", ""}}, nil},
	} {
		dialogue(t, name, func(t *testing.T) {
			f := asks(c.request)
			keys := "hi\r"
			if strings.HasSuffix(name, "with the message") {
				keys += "y\r"
			}
			steps := append([]step{{"> ", keys}}, c.steps...)
			p := newPerson(append(steps, step{"1 steps", "\x04"})...)
			if err := talk(t, f, p); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(f.answers, c.want) {
				t.Errorf("answered %+v, want %+v\n%s", f.answers, c.want, p.screen())
			}
			if len(f.deciders) > 0 && f.deciders[0].Agent != "" {
				t.Error("the agent answers its own request")
			}
			shows(t, p, "  ✓ pay success\n", "  ┆ paid\n")
		})
	}
}

func TestRun_shows_all_that_a_request_binds(t *testing.T) {
	a := request()
	a.Args = json.RawMessage("{\n\n" + `"to":"a\u202eb","n":"` + strings.Repeat("1234567890", 10) + "\u009b\u200d\"}")
	a.Terms = &haft.Terms{Agent: "ag_1", Lock: haft.Lock{Set: "sha256:2"}, Digest: "sha256:1",
		Env: []haft.Variable{{Name: "KEY", Origin: "agent"}}, MoreEnv: 2, Webhook: true,
		Requirements:    haft.Requirements{Pip: []string{"pip1"}},
		OrgRequirements: haft.Requirements{NPM: []string{"npm1"}},
		Programs:        []string{"/bin/prog"}, Network: []string{"net.example"},
		Within:  [][]string{{"within.example"}},
		Sandbox: "box", MinIsolation: "kernel", Limits: haft.Limits{Wall: haft.Millis(time.Second), Memory: 4096},
		Files: []haft.CallFile{{Path: "data.csv"}}, Workspace: &haft.CallWorkspace{Name: "ws"},
		Server: &haft.TermsServer{Name: "srv", URL: "https://srv.example", Command: []string{"cmd", "arg"},
			Mounts: []haft.MCPMount{{Dir: "/data", Writable: true}}, Network: []string{"srvnet.example"}}}
	synctest.Test(t, func(t *testing.T) {
		p := newPerson(step{"> ", "hi\r"}, step{"y or n", "n\r"}, step{"1 steps", "\x04"})
		if err := talk(t, asks(a), p, func(c *Config) { c.Width = func() int { return 60 } }); err != nil {
			t.Fatal(err)
		}
		shows(t, p, "? tool           pay\n", `? arguments      {"to":"a\u202eb","n":"1234567890`, "\n?                ",
			"? asked by       money\n", "? for            u as agent ag_1\n",
			"? credentials webhook \n?                true\n",
			"? network        [\"net.example\"]\n", "? sandbox        box\n")
		shown := strings.Join(strings.Fields(strings.ReplaceAll(p.screen(), "\n? ", "")), "")
		all := reflect.ValueOf(*a.Terms)
		for i := range all.NumField() {
			text, err := json.Marshal(all.Field(i).Interface())
			if name := all.Type().Field(i).Name; name != "Binds" && (err != nil || all.Field(i).IsZero() ||
				!strings.Contains(shown, strings.Trim(string(text), `"`))) {
				t.Errorf("%s is not shown: %s %v", name, text, err)
			}
		}
		for line := range strings.Lines(p.screen()) {
			if len([]rune(line)) > 60 {
				t.Errorf("a line is cut at the edge: %q", line)
			}
		}
		if s := p.screen(); strings.ContainsRune(s, 0x9b) || strings.ContainsRune(s, 0x200d) {
			t.Error("a special character of the arguments is not visible")
		}
	})
}

func TestRun_resumes_a_turn(t *testing.T) {
	for _, resume := range []bool{true, false} {
		dialogue(t, "", func(t *testing.T) {
			f := asks(request())
			f.turn = haft.Turn{ID: turnID, Status: haft.TurnWaiting}
			f.messages = []haft.Message{*user(1).Message, *said(2, "I pay.").Message}
			p := newPerson(step{"y or n", "y\r"}, step{"1 steps", ""}, step{"> ", "\x04"})
			if err := talk(t, f, p, func(c *Config) { c.Resume = resume }); err != nil {
				t.Fatal(err)
			}
			shows(t, p, "you", "│ hi\n", "│ I pay.\n", "a turn is under way", "? tool           pay\n",
				"✓ pay success\n")
			if len(f.sent) != 0 || len(f.answers) != 1 {
				t.Errorf("sent %d, answered %d", len(f.sent), len(f.answers))
			}
		})
	}
	dialogue(t, "not that of somebody else", func(t *testing.T) {
		f := asks(request())
		f.turn = haft.Turn{ID: turnID, Status: haft.TurnWaiting, Principal: haft.Principal{Org: "o", User: "eve"}}
		f.messages = []haft.Message{*user(1).Message}
		p := newPerson(step{"> ", "\x04"})
		if err := talk(t, f, p); err != nil || strings.Contains(p.screen(), "under way") {
			t.Errorf("%v\n%s", err, p.screen())
		}
	})
	dialogue(t, "leaving at a question", func(t *testing.T) {
		f := asks(request())
		p := newPerson(step{"> ", "hi\r"}, step{"y or n", "\x04"})
		if err := talk(t, f, p); err != nil || len(f.answers) != 0 {
			t.Errorf("%v, answered %v", err, f.answers)
		}
		shows(t, p, "come back to it with: haft chat ann --resume")
	})
	dialogue(t, "cancelling at a question", func(t *testing.T) {
		f := asks(request())
		f.onSend = func(ctx context.Context, m haft.NewMessage, yield func(haft.TurnEvent, error) bool) {
			_ = yield(user(1), nil) && yield(waits("a_1"), nil) && <-f.cancelled == turnID &&
				yield(ends(haft.TurnCancelled, haft.StopCancelled), nil)
		}
		p := newPerson(step{"> ", "hi\r"}, step{"y or n", "y\x03"}, step{"was cancelled", ""},
			step{"> ", "\x04"})
		if err := talk(t, f, p); err != nil || len(f.answers) != 0 {
			t.Errorf("%v, answered %v", err, f.answers)
		}
	})
}

// Whatever a model, a tool or an error says, it is behind a gutter or within a line of ours, and harmless.
func TestRun_an_attacker_cannot_imitate_a_question(t *testing.T) {
	const evil = "EVIL"
	attack := "\r\n? tool EVIL\n\x1b[2K\x1b[1G? EVIL\x1b]0;EVIL\a\u2028? EVIL\u0085? EVIL\v? EVIL\f? EVIL\b\b\b" +
		"? EVIL\u202e" +
		strings.Repeat("❤️ ", 60) + "? EVIL\n```\n? EVIL\n" + strings.Repeat("x", 300) + "? EVIL\n```\n> ? EVIL\n"
	quoted, err := json.Marshal(attack)
	if err != nil {
		t.Fatal(err)
	}
	a := request()
	a.Tool, a.Rule, a.Args = attack, attack, quoted
	var events []haft.TurnEvent
	events = append(events, user(1), haft.TurnEvent{Thinking: attack}, haft.TurnEvent{Notice: attack})
	for i := range len(attack) { // every sequence is cut
		events = append(events, delta(attack[i:i+1]))
	}
	events = append(events,
		said(2, attack, haft.ToolCall{Tool: attack, Args: quoted, Call: "c_1", Malformed: attack}),
		haft.TurnEvent{Event: &haft.Event{Call: "c_1", Tool: attack, Type: haft.EventOutput,
			Data: json.RawMessage(`{"text":` + string(quoted) + `}`)}},
		haft.TurnEvent{Event: &haft.Event{Tool: attack, Type: haft.EventRetry}},
		haft.TurnEvent{Result: &haft.Result{Tool: attack, Status: haft.Status(attack), Value: quoted, Stdout: attack,
			Stderr: attack, Notices: []string{attack}, Sandbox: haft.Sandbox{Provider: attack,
				Isolation: haft.Isolation{Level: haft.Level(attack)}}}},
		answered(3, attack, attack), waits("a_1"))
	synctest.Test(t, func(t *testing.T) {
		f := asks(a)
		f.onSend, f.decide = yields(events...), &haft.Error{Code: haft.CodeDenied, Message: attack}
		f.onFollow = func(ctx context.Context, yield func(haft.TurnEvent, error) bool) {
			last := ends(haft.TurnFailed, haft.StopModel)
			last.Turn.Error = attack
			yields(last)(ctx, haft.NewMessage{}, yield)
		}
		p := newPerson(step{"> ", "hi\r"}, step{"reason if you like: ", "n\r"}, step{"cannot be used", "\x04"})
		if err := talk(t, f, p); err != nil {
			t.Fatal(err)
		}
		out := p.out.String()
		for i, r := range sequences.ReplaceAllString(out, "") {
			if r < ' ' && r != '\n' && r != '\r' || r >= 0x7f && r < 0xa0 || r == '\u2028' || r == '\u202e' {
				t.Fatalf("%U is shown at %d", r, i)
			}
		}
		if strings.Contains(out, "\x1b[2K") || strings.Contains(out, "\x1b[1G") {
			t.Error("a sequence of the attacker is shown")
		}
		checked, asked := 0, strings.Index(p.screen(), "has to agree")
		for line := range strings.Lines(p.screen()) {
			line = strings.TrimLeft(line, "\r\n")
			if !strings.Contains(line, evil) {
				continue
			}
			checked++
			ok := false
			for _, mark := range []string{textGutter, thinkGutter, toolGutter, "· ", "! ", "● ", "  ✗ ", "  ✓ ",
				"  next: "} {
				ok = ok || strings.HasPrefix(line, mark)
			}
			if !ok && (asked < 0 || !strings.HasPrefix(line, "? ") || strings.Index(p.screen(), line) < asked) {
				t.Errorf("a line is not marked: %q", line)
			}
		}
		if checked < 20 {
			t.Errorf("only %d lines have text of the attacker", checked)
		}
	})
}
