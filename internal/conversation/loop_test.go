package conversation_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"haft"
	"haft/internal/conversation"
	"haft/internal/model"
)

// outcome is what a listener saw, and what is kept.
type outcome struct {
	turn   haft.Turn
	kept   []haft.Message
	text   string // of the deltas
	notes  []string
	events []haft.TurnEvent
	err    error
}

// listen takes all events.
func listen(w *world, seq iter.Seq2[haft.TurnEvent, error]) (o outcome) {
	for e, err := range seq {
		if err != nil {
			o.err = err
			break
		}
		o.events = append(o.events, e)
		o.text += e.Delta
		if e.Notice != "" {
			o.notes = append(o.notes, e.Notice)
		}
		if e.Turn != nil {
			o.turn = *e.Turn
		}
	}
	if o.turn.ID != "" {
		_, o.kept = w.ofTurn(o.turn.ID)
	}
	return o
}

// send sends a message and takes all events.
func (p *process) send(text string) outcome {
	return listen(p.world, p.Send(context.Background(), as(ann, "helper"), "helper", haft.NewMessage{Text: text}))
}

// last returns the text of the last message that is kept.
func (o outcome) last() string {
	if len(o.kept) == 0 {
		return ""
	}
	return o.kept[len(o.kept)-1].Text
}

// answers returns the texts of the answers to calls.
func (o outcome) answers() (list []string) {
	for _, m := range o.kept {
		if m.Role == haft.RoleTool {
			list = append(list, m.Text)
		}
	}
	return list
}

// check compares a turn with what it is to be.
func (o outcome) check(t *testing.T, status haft.TurnStatus, stop haft.StopReason, want string) {
	t.Helper()
	if o.err != nil || o.turn.Status != status || o.turn.Stop != stop {
		t.Errorf("the turn is %s, %s (%s), error %v; want %s, %s", o.turn.Status, o.turn.Stop, o.turn.Error, o.err,
			status,
			stop)
	}
	if got := shape(o.kept); got != want {
		t.Errorf("kept: %s\nwant: %s", got, want)
	}
	if status != haft.TurnWaiting {
		closed := append(slices.Clone(o.kept), haft.Message{Role: haft.RoleUser, Text: "next"})
		if why := unacceptable(closed); why != "" {
			t.Errorf("a vendor would refuse the conversation: %s", why)
		}
	}
}

// each runs a test in a bubble.
func each(t *testing.T, name string, test func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

func TestSend(t *testing.T) {
	many := func(n int) *model.Answer {
		var pairs []string
		for range n {
			pairs = append(pairs, "a", "{}")
		}
		return call(pairs...)
	}
	stopped := func(a *model.Answer, stop model.Stop) *model.Answer { a.Stop = stop; return a }
	broken := call("a", `"{\"x\":"`)
	broken.Calls[0].Malformed = "it ends too early"
	for _, c := range []struct {
		name    string
		answers []*model.Answer
		status  haft.TurnStatus
		stop    haft.StopReason
		want    string
		last    string // of the messages that are kept
		answer  string // in the last answer to a call
	}{
		{"an answer", []*model.Answer{say("hello")}, haft.TurnCompleted, haft.StopEnd, "user, assistant", "hello",
			""},
		{"a call", []*model.Answer{call("a", `{"x":1}`), say("done")}, haft.TurnCompleted, haft.StopEnd,
			"user, assistant a, a:success, assistant", "done", `{"got":{"x":1}}`},
		{"calls in order", []*model.Answer{call("a", "{}", "b", "{}"), call("c", "{}"), say("done")},
			haft.TurnCompleted,
			haft.StopEnd, "user, assistant a b, a:success, b:success, assistant c, c:success, assistant", "done", ""},
		{"no arguments", []*model.Answer{call("a", ""), say("done")}, haft.TurnCompleted, haft.StopEnd,
			"user, assistant a, a:success, assistant", "done", `{"got":{}}`},
		{"an unknown tool", []*model.Answer{call("rm", "{}"), say("done")}, haft.TurnCompleted, haft.StopEnd,
			"user, assistant rm, rm:permission_denied, assistant", "done", "valid tools include: ['a', 'b', 'c']"},
		{"malformed arguments", []*model.Answer{broken, say("done")}, haft.TurnCompleted, haft.StopEnd,
			"user, assistant a, a:validation_error, assistant", "done", "it ends too early"},
		{"arguments that are no object", []*model.Answer{call("a", "[1]"), say("done")}, haft.TurnCompleted,
			haft.StopEnd,
			"user, assistant a, a:validation_error, assistant", "done", "not a JSON object"},
		{"one of two is malformed", []*model.Answer{call("a", "{", "b", "{}"), say("done")}, haft.TurnCompleted,
			haft.StopEnd, "user, assistant a b, a:validation_error, b:success, assistant", "done", ""},
		{"32 calls", []*model.Answer{many(32), say("done")}, haft.TurnCompleted, haft.StopEnd,
			"user, assistant" + strings.Repeat(" a", 32) + strings.Repeat(", a:success", 32) + ", assistant",
			"done", ""},
		{"33 calls", []*model.Answer{many(33), say("done")}, haft.TurnCompleted, haft.StopEnd,
			"user, assistant" + strings.Repeat(" a", 33) + strings.Repeat(", a:validation_error", 33) + ", assistant",
			"done", "33 calls at once, and 32 is the most"},
		{"too many calls to keep", []*model.Answer{many(129)}, haft.TurnFailed, haft.StopModel, "user", "hi", ""},
		{"a refusal", []*model.Answer{stopped(say("I will not"), model.StopRefusal)}, haft.TurnCompleted,
			haft.StopRefusal,
			"user, assistant", "I will not", ""},
		{"a refusal with calls", []*model.Answer{stopped(call("a", "{}"), model.StopFiltered)}, haft.TurnCompleted,
			haft.StopRefusal, "user, assistant", "The model refused to answer.", ""},
		{"cut text", []*model.Answer{stopped(say("and th"), model.StopLength)}, haft.TurnCompleted, haft.StopTokens,
			"user, assistant", "and th", ""},
		{"cut before anything", []*model.Answer{stopped(say(""), model.StopLength)}, haft.TurnCompleted,
			haft.StopTokens,
			"user, assistant", "The model used up all tokens before it said anything.", ""},
		{"cut after whole calls", []*model.Answer{stopped(call("a", "{}"), model.StopLength), say("done")},
			haft.TurnCompleted, haft.StopEnd, "user, assistant a, a:success, assistant", "done", ""},
		{"cut within a call", []*model.Answer{stopped(call("a", "{}", "b", `{"x`), model.StopLength)},
			haft.TurnCompleted,
			haft.StopTokens, "user, assistant a b, a:cancelled, b:validation_error, assistant",
			"I stopped here: my answer was too long to be completed.", ""},
		{"the same call for ever", slices.Repeat([]*model.Answer{call("a", `{"x":1,"y":2}`), call("a",
			`{"y":2, "x":1}`)}, 9),
			haft.TurnFailed, haft.StopLoop, "user" + strings.Repeat(", assistant a, a:success", 4) +
				", assistant a, a:cancelled, assistant",
			"I stopped here: I asked for the same calls again and again.",
			"not made"},
		{"the same call with something between", slices.Repeat([]*model.Answer{call("a", "{}"), call("a", "{}"),
			call("b", "{}")}, 3), haft.TurnCompleted, haft.StopEnd, "user" + strings.Repeat(
			", assistant a, a:success, assistant a, a:success, assistant b, b:success", 3) + ", assistant",
			"the end", ""},
		{"nothing, twice", []*model.Answer{say(" "), say("")}, haft.TurnCompleted, haft.StopEnd, "user", "hi", ""},
	} {
		each(t, c.name, func(t *testing.T) {
			w := newWorld(t)
			w.script(c.answers...)
			o := w.begin(0).send("hi")
			o.check(t, c.status, c.stop, c.want)
			if o.last() != c.last {
				t.Errorf("the last message is %q, want %q", o.last(), c.last)
			}
			if a := o.answers(); c.answer != "" && !strings.Contains(a[len(a)-1], c.answer) {
				t.Errorf("the call is answered with %q, want %q in it", a[len(a)-1], c.answer)
			}
			if o.turn.Ended.IsZero() || w.twice() != nil {
				t.Errorf("ended %v, twice %v", o.turn.Ended, w.twice())
			}
		})
	}
}

func TestSend_warns_of_repeated_calls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.script(slices.Repeat([]*model.Answer{call("a", "{}")}, 9)...)
		for i, a := range w.begin(0).send("hi").answers() {
			if warned := strings.Contains(a, "times in a row"); warned != (i == 2 || i == 3) {
				t.Errorf("answer %d is warned: %v: %s", i+1, warned, a)
			}
		}
	})
}

func TestSend_nudges_a_silent_model_once(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.answer = func(req model.Request) (*model.Answer, error) {
			if last := req.Messages[len(req.Messages)-1]; strings.Contains(last.Text, "empty") {
				return say("sorry"), nil
			}
			return say("\n"), nil
		}
		o := w.begin(0).send("hi")
		o.check(t, haft.TurnCompleted, haft.StopEnd, "user, assistant")
		if o.turn.Usage.Steps != 2 || o.last() != "sorry" {
			t.Errorf("%d steps, %q", o.turn.Usage.Steps, o.last())
		}
	})
}

func TestSend_request(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.profile.Blocks = []haft.Block{{Label: "persona", Value: "Ich bin grün", Description: "who you are",
			Limit: 100},
			{Label: "rules", Value: "none", Limit: 9, ReadOnly: true}}
		w.profile.Agent.Rules = []haft.ToolRule{{Type: haft.RuleExit, Tool: "c"}}
		w.profile.Tools[1].Disabled = true
		w.script(say("first"))
		p := w.begin(0)
		p.send("one")
		listen(w, p.Send(t.Context(), as(ann, "helper"), "helper", haft.NewMessage{Text: "two"}))
		req := w.asked[1]
		want := `You help.

<memory_blocks>
The following memory blocks are currently engaged in your core memory unit:

<persona>
<description>
who you are
</description>
<metadata>
- chars_current=12
- chars_limit=100
</metadata>
<value>
Ich bin grün
</value>
</persona>

<rules>
<description>

</description>
<metadata>
- read_only=true
- chars_current=4
- chars_limit=9
</metadata>
<value>
none
</value>
</rules>

</memory_blocks>

<tool_usage_rules>
`
		if !strings.HasPrefix(req.System, want) {
			t.Errorf("system:\n%s\nwant:\n%s", req.System, want)
		}
		if req.Model != "m-1" || req.MaxOutput != 1000 || req.Choice != model.ChoiceAuto || req.Parallel {
			t.Errorf("model %q, output %d, choice %q, parallel %v", req.Model, req.MaxOutput, req.Choice,
				req.Parallel)
		}
		if len(req.Tools) != 2 || req.Tools[0].Name != "a" || req.Tools[1].Name != "c" {
			t.Errorf("tools: %v", req.Tools)
		}
		if got := shape(req.Messages); got != "user, assistant, user" {
			t.Errorf("messages: %s", got)
		}
	})
}

func TestSend_tool_rules(t *testing.T) {
	rule := func(typ haft.RuleType, tool string, children ...string) haft.ToolRule {
		return haft.ToolRule{Type: typ, Tool: tool, Children: children}
	}
	branch := haft.ToolRule{Type: haft.RuleConditional, Tool: "a", Outputs: map[string]string{"yes": "b"},
		Default: "c"}
	yes := tool{run: func(context.Context, string) (string, error) { return `"yes"`, nil }}
	speak := tool{run: func(context.Context, string) (string, error) { return `"sent"`, nil }}
	for _, c := range []struct {
		name    string
		rules   []haft.ToolRule
		answers []*model.Answer
		stop    haft.StopReason
		want    string
		offered string // the tools and the choice of each request
	}{
		{"exit", []haft.ToolRule{rule(haft.RuleExit, "b")}, []*model.Answer{call("a", "{}"), call("b", "{}")},
			haft.StopRule, "user, assistant a, a:success, assistant b, b:success",
			"a b c send_message auto, a b c send_message auto"},
		{"first", []haft.ToolRule{rule(haft.RuleFirst, "a")}, []*model.Answer{call("a", "{}"), say("done")},
			haft.StopEnd,
			"user, assistant a, a:success, assistant", "a required, a b c send_message auto"},
		{"children", []haft.ToolRule{rule(haft.RuleChildren, "a", "b", "c")}, []*model.Answer{call("a", "{}"),
			call("c", "{}"), say("done")}, haft.StopEnd,
			"user, assistant a, a:success, assistant c, c:success, assistant",
			"a b c send_message auto, b c required, a b c send_message auto"},
		{"conditional", []haft.ToolRule{branch}, []*model.Answer{call("a", "{}"), call("b", "{}"), say("done")},
			haft.StopEnd, "user, assistant a, a:success, assistant b, b:success, assistant",
			"a b c send_message auto, b required, a b c send_message auto"},
		{"required", []haft.ToolRule{rule(haft.RuleRequired, "b")}, []*model.Answer{say("done"), call("b", "{}"),
			say("now done")}, haft.StopEnd, "user, assistant, assistant b, b:success, assistant",
			"a b c send_message required, a b c send_message required, a b c send_message auto"},
		{"no tool is left", []haft.ToolRule{{Type: haft.RuleMaxCount, Tool: "a", MaxCount: 1},
			rule(haft.RuleParent, "a", "a")}, []*model.Answer{say("done")}, haft.StopEnd, "user, assistant",
			"b c send_message auto"},
		{"send_message ends the turn", nil, []*model.Answer{call("a", "{}", "send_message", `{"message":"hi"}`),
			say("no")},
			haft.StopEnd, "user, assistant a send_message, a:success, send_message:success",
			"a b c send_message auto"},
		{"send_message with exit_loop", []haft.ToolRule{rule(haft.RuleExit, "send_message")},
			[]*model.Answer{call("send_message", `{"message":"hi"}`), say("no")}, haft.StopRule,
			"user, assistant send_message, send_message:success", "a b c send_message auto"},
		{"send_message goes on", []haft.ToolRule{rule(haft.RuleContinue, "send_message")},
			[]*model.Answer{call("send_message", `{"message":"hi"}`), say("yes")}, haft.StopEnd,
			"user, assistant send_message, send_message:success, assistant",
			"a b c send_message auto, a b c send_message auto"},
		{"send_message before a required tool", []haft.ToolRule{rule(haft.RuleRequired, "b")},
			[]*model.Answer{call("send_message", `{"message":"hi"}`), call("b", "{}"), say("done")}, haft.StopEnd,
			"user, assistant send_message, send_message:success, assistant b, b:success, assistant",
			"a b c send_message required, a b c send_message required, a b c send_message auto"},
	} {
		each(t, c.name, func(t *testing.T) {
			w := newWorld(t)
			w.addTool("a", yes)
			w.addTool("send_message", speak)
			slices.SortFunc(w.profile.Tools, func(x, y haft.Tool) int { return strings.Compare(x.Name, y.Name) })
			w.profile.Agent.Rules = c.rules
			n := -1
			w.answer = func(model.Request) (*model.Answer, error) { n++; return c.answers[n], nil }
			w.begin(0).send("hi").check(t, haft.TurnCompleted, c.stop, c.want)
			var offered []string
			for _, req := range w.asked {
				text := ""
				for _, tool := range req.Tools {
					text += tool.Name + " "
				}
				offered = append(offered, text+req.Choice)
			}
			if got := strings.Join(offered, ", "); got != c.offered {
				t.Errorf("offered: %s\nwant: %s", got, c.offered)
			}
		})
	}
}

func TestSend_rules_that_leave_nothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.profile.Tools = w.profile.Tools[:1]
		w.profile.Agent.Rules = []haft.ToolRule{{Type: haft.RuleMaxCount, Tool: "a", MaxCount: 1}}
		w.script(call("a", "{}"), say("that was all"))
		o := w.begin(0).send("hi")
		o.check(t, haft.TurnCompleted, haft.StopRule, "user, assistant a, a:success, assistant")
		if last := w.asked[1]; len(last.Tools) != 0 || last.Choice != model.ChoiceNone {
			t.Errorf("the last request offers %d tools, choice %s", len(last.Tools), last.Choice)
		}
	})
}

func TestSend_an_agent_without_tools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.profile.Tools = nil
		w.script(call("a", "{}"), say("done"))
		o := w.begin(0).send("hi")
		o.check(t, haft.TurnCompleted, haft.StopEnd, "user, assistant a, a:permission_denied, assistant")
		if a := o.answers()[0]; len(w.calls) != 0 || !strings.Contains(a, "there is no such tool") {
			t.Errorf("%d calls, answered with %q", len(w.calls), a)
		}
	})
}

func TestSend_a_model_that_ignores_a_required_tool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.profile.Agent.Rules = []haft.ToolRule{{Type: haft.RuleRequired, Tool: "b"}}
		w.answer = func(model.Request) (*model.Answer, error) { return say("done"), nil }
		o := w.begin(0).send("hi")
		o.check(t, haft.TurnFailed, haft.StopRule, "user, assistant, assistant, assistant")
		if last := w.asked[2].Messages; !strings.Contains(last[len(last)-1].Text, "You must call b") {
			t.Errorf("the model is told %q", last[len(last)-1].Text)
		}
	})
}

func TestSend_refuses(t *testing.T) {
	me := as(ann, "helper")
	confined := func(actions ...haft.Action) haft.Principal { p := me; p.Actions = actions; return p }
	foreign, nobody := me, as(haft.Principal{Org: "org"}, "helper")
	foreign.Org = "elsewhere"
	good := haft.NewMessage{Text: "hi"}
	for _, c := range []struct {
		name  string
		p     haft.Principal
		agent string
		m     haft.NewMessage
		code  haft.Code
	}{
		{"no organisation", haft.Principal{User: "ann"}, "helper", good, haft.CodeUnauthenticated},
		{"another organisation", foreign, "helper", good, haft.CodeNotFound},
		{"an unknown agent", me, "nobody", good, haft.CodeNotFound},
		{"a credential without calls:write", confined(haft.AgentsRead, haft.CallsRead), "helper", good,
			haft.CodeDenied},
		{"a credential without agents:read", confined(haft.CallsWrite), "helper", good, haft.CodeDenied},
		{"a user who does not act as the agent", ann, "helper", good, haft.CodeDenied},
		{"a manager who does not act as the agent", admin, "helper", good, haft.CodeDenied},
		{"a credential of another agent", as(ann, "helper2"), "helper", good, haft.CodeDenied},
		{"nobody", nobody, "helper", good, haft.CodeInvalid},
		{"no text", me, "helper", haft.NewMessage{Text: " \n"}, haft.CodeInvalid},
		{"a huge text", me, "helper", haft.NewMessage{Text: strings.Repeat("x", 256<<10+1)}, haft.CodeInvalid},
		{"text that is none", me, "helper", haft.NewMessage{Text: "\xff"}, haft.CodeInvalid},
		{"a long key", me, "helper", haft.NewMessage{Text: "hi", Key: strings.Repeat("k", 257)}, haft.CodeInvalid},
		{"a long model", me, "helper", haft.NewMessage{Text: "hi", Model: strings.Repeat("k", 257)},
			haft.CodeInvalid},
		{"a negative budget", me, "helper", haft.NewMessage{Text: "hi", Budget: haft.Budget{Steps: -1}},
			haft.CodeInvalid},
		{"an unknown model", me, "helper", haft.NewMessage{Text: "hi", Model: "x"}, haft.CodeNotFound},
	} {
		each(t, c.name, func(t *testing.T) {
			w := newWorld(t)
			w.script()
			p := w.begin(0)
			o := listen(w, p.Send(t.Context(), c.p, c.agent, c.m))
			if haft.CodeOf(o.err) != c.code || len(o.events) != 0 || len(w.messages) != 0 {
				t.Errorf("error %v, %d events, %d messages; want %s", o.err, len(o.events), len(w.messages), c.code)
			}
		})
	}
}

func TestSend_disabled_and_removed_agents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.profile.Agent.Disabled = true
		p := w.begin(0)
		if o := p.send("hi"); haft.CodeOf(o.err) != haft.CodeDenied {
			t.Errorf("error %v", o.err)
		}
		w.profile.Agent.Disabled = false
		w.addTool("a", tool{run: func(context.Context, string) (string, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.profile.Agent.Disabled = true
			return "1", nil
		}})
		w.script(call("a", "{}", "b", "{}"))
		o := p.send("hi")
		o.check(t, haft.TurnCancelled, haft.StopCancelled, "user, assistant a b, a:success, b:success")
		if o.turn.Error != "the agent is disabled" {
			t.Errorf("error %q", o.turn.Error)
		}
	})
}

func TestSend_withdrawn_credentials_end_the_turn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := 0
		p := w.begin(0, func(cfg *conversation.Config) {
			cfg.Recheck = func(_ context.Context, p haft.Principal) (haft.Principal, error) {
				if n++; n > 1 {
					return p, &haft.Error{Code: haft.CodeUnauthenticated, Message: "the key was removed"}
				}
				return p, nil
			}
		})
		w.script(call("a", "{}"))
		o := p.send("hi")
		o.check(t, haft.TurnCancelled, haft.StopCancelled, "user, assistant a, a:cancelled")
		if len(w.calls) != 0 || o.turn.Error != "the key was removed" {
			t.Errorf("%d calls, error %q", len(w.calls), o.turn.Error)
		}
	})
}

func TestSend_panics_end_the_turn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.answer = func(model.Request) (*model.Answer, error) { panic("oops") }
		w.begin(0).send("hi").check(t, haft.TurnFailed, haft.StopInternal, "user")
		if len(w.asked) != 1 {
			t.Errorf("the model was asked %d times", len(w.asked))
		}
	})
}

func TestSend_rules_that_nobody_understands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.profile.Agent.Rules = []haft.ToolRule{{Type: "nonsense", Tool: "a"}}
		o := w.begin(0).send("hi")
		o.check(t, haft.TurnFailed, haft.StopInternal, "user")
		if !strings.Contains(o.turn.Error, "tool rule 1") || len(w.asked) != 0 {
			t.Errorf("asked %d times, error %q", len(w.asked), o.turn.Error)
		}
	})
}

func TestSend_an_agent_that_is_removed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.addTool("a", tool{run: func(context.Context, string) (string, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.profile.Agent.Org = "gone"
			return "1", nil
		}})
		w.script(call("a", "{}"))
		o := w.begin(0).send("hi")
		o.check(t, haft.TurnFailed, haft.StopInternal, "user, assistant a, a:success")
		if o.turn.Error != "there is no such agent any more" {
			t.Errorf("error %q", o.turn.Error)
		}
	})
}

func TestSend_is_idempotent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.script(call("a", "{}"), say("done"))
		p := w.begin(0)
		m := haft.NewMessage{Text: "hi", Key: "k"}
		first := listen(w, p.Send(t.Context(), as(ann, "helper"), "helper", m))
		again := listen(w, p.Send(t.Context(), as(ann, "helper"), "helper", m))
		if first.turn.ID != again.turn.ID || len(w.asked) != 2 {
			t.Errorf("turns %s and %s, asked %d times", first.turn.ID, again.turn.ID, len(w.asked))
		}
		var seen []haft.Message
		for _, e := range again.events {
			if e.Message != nil {
				seen = append(seen, *e.Message)
			}
		}
		if shape(seen) != "user, assistant a, a:success, assistant" {
			t.Errorf("the second sender saw %s", shape(seen))
		}
		other := listen(w, p.Send(t.Context(), as(bob, "helper"), "helper", m))
		if other.err != nil || other.turn.ID == first.turn.ID {
			t.Error("a key of somebody else counts")
		}
	})
}

func TestSend_bounds_the_turns_under_way(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		hold := make(chan struct{})
		w.answer = func(model.Request) (*model.Answer, error) { <-hold; return say("done"), nil }
		p := w.begin(0, func(cfg *conversation.Config) { cfg.PerOrg = 2 })
		for i := range 2 {
			name := fmt.Sprint("helper", i)
			go listen(w, p.Send(t.Context(), as(ann, name), name, haft.NewMessage{Text: "hi"}))
		}
		synctest.Wait()
		if o := p.send("hi"); haft.CodeOf(o.err) != haft.CodeRateLimited {
			t.Errorf("error %v", o.err)
		}
		close(hold)
		synctest.Wait()
		p.send("hi").check(t, haft.TurnCompleted, haft.StopEnd, "user, assistant")
	})
}
