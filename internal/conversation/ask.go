package conversation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"haft"
	"haft/internal/model"
	"haft/internal/toolrule"
)

// maxRetryAfter is how long a model can have us wait before the next try.
const maxRetryAfter = time.Minute

// errTime is the cause of the end of a request for which the turn has no time left.
var errTime = errors.New("the turn has no time left")

// nudge is what a model is told that has said nothing.
const nudge = "Your last answer was empty. Answer, or call a tool."

// request is what the model is asked next.
func (r *run) request(prof *Profile, now *moment) model.Request {
	req := model.Request{Model: r.model.Name, System: system(prof), Choice: model.ChoiceAuto, Parallel: !now.turns,
		MaxOutput: r.model.MaxOutput}
	for _, t := range now.tools {
		if now.allows(t.Name) {
			req.Tools = append(req.Tools, t)
		}
	}
	note := ""
	switch {
	case now.must != nil:
		req.Choice, note = model.ChoiceRequired, haft.MessageOf(now.must)
	case len(req.Tools) == 0:
		req.Choice = model.ChoiceNone
	}
	req.Messages = r.view(note)
	if r.nudged {
		req.Messages = append(req.Messages, haft.Message{Role: haft.RoleUser, Text: strings.TrimSpace(nudge + " " + note)})
	}
	return req
}

// system is what the model is told before the conversation: the instructions, the memory in the form of Letta, and the
// tool rules.
func system(prof *Profile) string {
	var b strings.Builder
	b.WriteString(prof.Instructions)
	if len(prof.Blocks) > 0 {
		b.WriteString("\n\n<memory_blocks>\nThe following memory blocks are currently engaged in your core memory unit:\n")
		for _, block := range prof.Blocks {
			readOnly := ""
			if block.ReadOnly {
				readOnly = "- read_only=true\n"
			}
			fmt.Fprintf(&b, "\n<%[1]s>\n<description>\n%[2]s\n</description>\n<metadata>\n%[3]s- chars_current=%[4]d\n"+
				"- chars_limit=%[5]d\n</metadata>\n<value>\n%[6]s\n</value>\n</%[1]s>\n", block.Label, block.Description,
				readOnly, len([]rune(block.Value)), block.Limit, block.Value)
		}
		b.WriteString("\n</memory_blocks>")
	}
	if rules := toolrule.Prompt(prof.Agent.Rules); rules != "" {
		b.WriteString("\n\n" + rules)
	}
	return strings.TrimSpace(b.String())
}

// ask asks the model, again where a fault passes, and counts what that took. If it is told, listeners get the answer as
// it comes.
func (r *run) ask(req model.Request, told bool) (*model.Answer, error) {
	var emit func(model.Chunk)
	if told {
		emit = func(c model.Chunk) {
			if c.Text != "" || c.Reasoning != "" {
				r.tell(haft.TurnEvent{Delta: c.Text, Thinking: c.Reasoning}, true)
			}
		}
	}
	ctx, cancel := context.WithTimeoutCause(r.ctx, r.timeLeft(), errTime)
	defer cancel()
	for try := 1; ; try++ {
		within, observed := r.s.observe(ctx, "chat", r.turn)
		a, err := r.model.Generate(within, req, emit)
		if err == nil {
			observed(a.Usage, string(a.Stop), nil)
			r.count(req, a.Usage, told)
			return a, nil
		}
		observed(model.Usage{}, "", err)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		f, ok := errors.AsType[*model.Fault](err)
		wait, again := r.s.cfg.Retry.Wait(try, rand.Float64())
		if !ok || !f.Retryable() || !again {
			return nil, err
		}
		wait = max(wait, min(f.RetryAfter, maxRetryAfter))
		r.tell(haft.TurnEvent{Notice: fmt.Sprintf("the model did not answer (%s); it is asked again in %v, from the "+
			"beginning", f.Kind, wait.Round(time.Millisecond))}, true)
		if err := pause(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// count adds what a request took, and learns how many tokens the model makes of a text.
func (r *run) count(req model.Request, used model.Usage, step bool) {
	used.Input, used.Output, used.Cached = max(used.Input, 0), max(used.Output, 0), max(used.Cached, 0)
	u := &r.turn.Usage
	u.Input, u.Output, u.Cached = u.Input+used.Input, u.Output+used.Output, u.Cached+used.Cached
	u.Cost += r.model.cost(used)
	if step {
		u.Steps++
		if used.Input > 0 {
			r.ratio = min(max(float64(used.Input)/float64(max(size(req), 1)), 0.75), 4)
		}
		r.tooLong = false
	}
}

// fault is what becomes of a turn whose model does not answer.
func (r *run) fault(err error) error {
	f, ok := errors.AsType[*model.Fault](err)
	switch {
	case r.ctx.Err() != nil:
		return context.Cause(r.ctx)
	case errors.Is(err, errTime):
		return nil // which is found before the next step
	case ok && f.Kind == model.TooLong && !r.tooLong:
		r.tooLong = true // the conversation is made shorter once
		return nil
	case ok:
		return &ending{stop: haft.StopModel, why: "the model did not answer: " + cutText(f.Message, 500)}
	}
	r.s.cfg.Logger.Warn("a model cannot be asked", "turn", r.id, "error", err)
	return &ending{stop: haft.StopModel, why: "the model cannot be asked: " + haft.MessageOf(err)}
}

// size estimates how many tokens a request has: a token is about four bytes.
func size(req model.Request) int {
	n := len(req.System)
	for i := range req.Messages {
		n += messageBytes(&req.Messages[i])
	}
	for i := range req.Tools {
		v := &req.Tools[i].Version
		n += len(req.Tools[i].Name) + len(v.Description) + len(v.Parameters) + 32
	}
	return n / 4
}

// messageBytes is how much of a request a message takes.
func messageBytes(m *haft.Message) int {
	n := len(m.Text) + len(m.Opaque) + 16
	for i := range m.Calls {
		n += len(m.Calls[i].Args) + len(m.Calls[i].Tool) + len(m.Calls[i].ID)
	}
	return n
}

// sum adds up the bytes of messages.
func sum(list []haft.Message) (n int) {
	for i := range list {
		n += messageBytes(&list[i])
	}
	return n
}
