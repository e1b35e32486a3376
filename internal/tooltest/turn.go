package tooltest

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"haft"
)

// An ExpectTurn is what has to be true of what an agent does with a message.
type ExpectTurn struct {
	// Turn is how the turn stands, completed if neither it nor Stop is given, and Stop why it ended.
	Turn haft.TurnStatus `json:"turn"`
	Stop haft.StopReason `json:"stop"`
	// Reply is the last text of the model.
	Reply *Text `json:"reply"`
	// Calls are all calls that the model asks for, in order, and Messages all messages.
	Calls    *[]TurnCall    `json:"calls"`
	Messages *[]TurnMessage `json:"messages"`
	// Approvals are the tools for which a person was asked, in order.
	Approvals *[]string `json:"approvals"`
}

// A TurnCall is a call that the model asks for, and what becomes of it.
type TurnCall struct {
	Tool string          `json:"tool"`
	Args json.RawMessage `json:"args"`
	Expect
}

// A TurnMessage is one of the messages of a turn.
type TurnMessage struct {
	Role haft.MessageRole `json:"role"`
	Name string           `json:"name"`
	Text *Text            `json:"text"`
}

// isGiven reports whether something is expected of a turn.
func (e ExpectTurn) isGiven() bool { return e != ExpectTurn{} }

// ofCall names what is expected that a turn does not have, or "".
func (e Expect) ofCall() string {
	for _, x := range []struct {
		name  string
		given bool
	}{{"status", e.Status != ""}, {"failure", e.Failure != nil}, {"limit", e.Limit != ""}, {"error", e.Error != ""},
		{"stdout", e.Stdout != nil}, {"stderr", e.Stderr != nil}, {"artifacts", e.Artifacts != nil},
		{"notices", len(e.Notices) > 0}, {"tries", e.Tries != nil}, {"cached", e.Cached != nil}} {
		if x.given {
			return x.name
		}
	}
	return ""
}

// compareTurn compares what became of a message with what is expected.
func (e Expect) compareTurn(ctx context.Context, d *dialogue, o observation) []Fault {
	made := d.calls()
	o.result = d.result()
	o.whole = map[string]any{"turn": d.turn, "messages": d.messages, "calls": made}
	c := &checker{Expect: e, observation: o}
	c.turn(d)
	c.value(ctx)
	c.surroundings()
	c.requests()
	c.left()
	if e.Calls != nil {
		c.calls(ctx, *e.Calls, made)
	}
	return c.faults
}

// turn compares how the turn ended, what was said, and for what a person was asked.
func (c *checker) turn(d *dialogue) {
	want := c.Turn
	if want == "" && c.Stop == "" {
		want = haft.TurnCompleted
	}
	if want != "" && want != d.turn.Status {
		c.fault("turn", "expected the turn to be %s, and it is %s", want, d.turn.Status)
	}
	if c.Stop != "" && c.Stop != d.turn.Stop {
		c.fault("stop", "expected the turn to end by %s, and it ended by %q", c.Stop, d.turn.Stop)
	}
	c.text("reply", c.Reply, d.reply())
	if c.Approvals != nil && !slices.Equal(*c.Approvals, d.asked) {
		c.fault("approvals", "the tools for which a person was asked differ\n%s",
			diffLines(strings.Join(*c.Approvals, "\n"), strings.Join(d.asked, "\n")))
	}
	if c.Messages == nil {
		return
	}
	if len(*c.Messages) != len(d.messages) {
		c.fault("messages", "expected %d messages, there were %d", len(*c.Messages), len(d.messages))
		return
	}
	for i, want := range *c.Messages {
		got := d.messages[i]
		if want.Role != "" && want.Role != got.Role || want.Name != "" && want.Name != got.Name {
			c.fault("messages", "expected message %d to be of %s %s, and it is of %s %s", i+1, want.Role, want.Name,
				got.Role, got.Name)
		}
		c.text("message", want.Text, got.Text)
	}
}

// madeCall is a call that the model asked for.
type madeCall struct {
	Tool   string          `json:"tool"`
	Args   json.RawMessage `json:"args"`
	Result *haft.Result    `json:"result"`
}

// calls returns the calls that the model asked for. One that was not made has the answer that the model got.
func (d *dialogue) calls() (list []madeCall) {
	for _, m := range d.messages {
		for _, c := range m.Calls {
			made := madeCall{c.Tool, c.Args, d.results[c.Call]}
			i := slices.IndexFunc(d.messages, func(m haft.Message) bool { return m.Answers == c.ID })
			if made.Result == nil && i >= 0 {
				made.Result = &haft.Result{Tool: c.Tool, Status: d.messages[i].Status,
					Error: &haft.Failure{Message: d.messages[i].Text}}
			}
			list = append(list, made)
		}
	}
	return list
}

// calls compares the calls that the model asked for with those that are expected, in order.
func (c *checker) calls(ctx context.Context, want []TurnCall, got []madeCall) {
	names := func(n int, name func(int) string) string {
		list := make([]string, n)
		for i := range list {
			list[i] = name(i)
		}
		return strings.Join(list, "\n")
	}
	expected := names(len(want), func(i int) string { return want[i].Tool })
	made := names(len(got), func(i int) string { return got[i].Tool })
	if expected != made {
		c.fault("calls", "the calls differ\n%s", diffLines(expected, made))
		return
	}
	for i, w := range want {
		if len(w.Args) > 0 {
			if list := differences(w.Args, got[i].Args); len(list) > 0 {
				c.fault("calls", "call %d (%s): the arguments differ\n%s", i+1, w.Tool, strings.Join(list, "\n"))
			}
		}
		o := c.observation
		o.args, o.result, o.whole = got[i].Args, got[i].Result, nil
		if o.result == nil {
			c.fault("calls", "call %d (%s) has no result", i+1, w.Tool)
			continue
		}
		for _, f := range w.compare(ctx, o) {
			c.fault(f.What, "call %d (%s): %s", i+1, w.Tool, f.Text)
		}
	}
}
