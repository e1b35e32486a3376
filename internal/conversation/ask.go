package conversation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"time"

	"haft"
	"haft/internal/model"
	"haft/internal/pause"
	"haft/internal/toolrule"
)

// maxRetryAfter is how long a model can have us wait before the next try.
const maxRetryAfter = time.Minute

// errTime is the cause of the end of a request for which the turn has no time left.
var errTime = errors.New("the turn has no time left")

// request is what the model is asked next.
func (r *run) request(prof *Profile, now *moment) model.Request {
	req := model.Request{Model: r.model.Name, System: system(prof), Messages: slices.Concat(r.groups()...),
		Choice: model.ChoiceAuto, Parallel: !toolrule.NeedsTurn(prof.Agent.Rules), MaxOutput: r.model.MaxOutput}
	for _, t := range now.tools {
		if now.state != nil && now.state.Admit(t.Name) == nil {
			req.Tools = append(req.Tools, t)
		}
	}
	// Nobody writes what looks as if it came from another agent, or from a summary.
	frames := strings.NewReplacer("[message from the agent", "(message from the agent", "[summary of the conversation",
		"(summary of the conversation")
	for i := range req.Messages {
		if m := &req.Messages[i]; m.Role == haft.RoleUser {
			m.Text = frames.Replace(m.Text)
		}
	}
	note := haft.MessageOf(now.must)
	if note != "" {
		req.Choice = model.ChoiceRequired
	} else if len(req.Tools) == 0 {
		req.Choice = model.ChoiceNone
	}
	if r.nudged {
		note = strings.TrimSpace("Your last answer was empty. Answer, or call a tool. " + note)
	}
	if n := len(req.Messages); r.nudged || n > 0 && req.Messages[n-1].Role == haft.RoleAssistant {
		req.Messages = append(req.Messages, haft.Message{Role: haft.RoleUser, Text: note})
	}
	return req
}

// system is what the model is told before the conversation: the instructions, the memory in the form of Letta, and the
// tool rules.
func system(prof *Profile) string {
	var b strings.Builder
	// What is in a block must not end it.
	framed := strings.NewReplacer("</value>", `<\/value>`, "</description>", `<\/description>`, "</memory_blocks>",
		`<\/memory_blocks>`, "<tool_usage_rules>", `<\tool_usage_rules>`)
	b.WriteString(prof.Instructions)
	if len(prof.Blocks) > 0 {
		b.WriteString("\n\n<memory_blocks>\nThe following memory blocks are currently engaged in your core memory " +
			"unit:\n")
		for _, block := range prof.Blocks {
			readOnly := ""
			if block.ReadOnly {
				readOnly = "- read_only=true\n"
			}
			fmt.Fprintf(&b, "\n<%[1]s>\n<description>\n%[2]s\n</description>\n<metadata>\n%[3]s- chars_current=%[4]d\n"+
				"- chars_limit=%[5]d\n</metadata>\n<value>\n%[6]s\n</value>\n</%[1]s>\n", block.Label,
				framed.Replace(block.Description), readOnly, len([]rune(block.Value)), block.Limit,
				framed.Replace(block.Value))
		}
		b.WriteString("\n</memory_blocks>")
	}
	b.WriteString("\n\n" + toolrule.Prompt(prof.Agent.Rules))
	return strings.TrimSpace(b.String())
}

// ask asks the model, again where a fault passes, and counts what that took. Listeners get the answer
// to a step as it comes. An [ending] is why there is no further try.
func (r *run) ask(req model.Request, step bool) (*model.Answer, error) {
	began := time.Now()
	defer func() { r.purse.spend(haft.TurnUsage{Time: haft.Millis(time.Since(began))}) }()
	ctx, cancel := context.WithTimeoutCause(r.ctx, r.purse.time().D(), errTime)
	defer cancel()
	for try := 1; ; try++ {
		left, end := r.purse.left()
		if end != nil {
			return nil, end
		}
		req.MaxOutput = r.model.affordable(req.MaxOutput, left)
		wrote := 0
		emit := func(c model.Chunk) {
			wrote += len(c.Text) + len(c.Reasoning) + len(c.Tool)
			if step && (c.Text != "" || c.Reasoning != "") && r.listened() {
				_ = r.flush() // so that who listens gets the answers first; if it fails, the next message fails too
				r.publish(haft.TurnEvent{Delta: c.Text, Thinking: c.Reasoning}, true)
			}
		}
		a, err := r.generate(ctx, &req, emit)
		if err == nil {
			said := []haft.Message{{Text: a.Text + a.Reasoning, Calls: a.Calls}}
			r.count(req, a.Usage, max(wrote, bytesOf(said)), step)
			return a, nil
		}
		f, ok := errors.AsType[*model.Fault](err)
		if wrote > 0 || ok && (f.Kind == model.Cut || f.Kind == model.InvalidAnswer) {
			r.count(req, model.Usage{}, wrote, false) // what was written is paid for
		}
		wait, again := r.s.cfg.Retry.Wait(try, rand.Float64())
		if !ok || !f.Retryable() || !again {
			return nil, err
		}
		wait = max(wait, min(f.RetryAfter, maxRetryAfter))
		r.publish(haft.TurnEvent{Notice: fmt.Sprintf("the model did not answer (%s); it is asked again in %v, from "+
			"the beginning", f.Kind, wait.Round(time.Millisecond))}, true)
		if err := pause.For(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// generate asks the model once. It has the images of the request in memory only meanwhile, so that other turns can use
// the memory between tries; images that cannot be sent now are removed from req.
func (r *run) generate(ctx context.Context, req *model.Request, emit func(model.Chunk)) (a *model.Answer, err error) {
	defer r.s.images.reserve(ctx, r.org, req)()
	if ctx.Err() != nil { // while it waited for memory
		return nil, context.Cause(ctx)
	}
	defer dropContent(req.Messages)
	r.loadImages(req)
	ctx, observed := r.s.cfg.Observe(ctx, "chat", r.model.Provider, r.turn)
	if a, err = r.model.Generate(ctx, *req, emit); err != nil {
		observed(model.Usage{}, "", err)
		return nil, err
	}
	observed(a.Usage, string(a.Stop), nil)
	return a, nil
}

// fault is what becomes of a turn whose model does not answer.
func (r *run) fault(err error) error {
	f, ok := errors.AsType[*model.Fault](err)
	end, over := errors.AsType[*ending](err)
	switch {
	case over:
		return end
	case errors.Is(err, errTime):
		return timeUp(r.turn.Budget)
	case ok && f.Kind == model.TooLong && !r.tooLong:
		r.tooLong = true // the conversation is made shorter once
		return nil
	case ok:
		cause := f.Err
		if u, is := errors.AsType[*url.Error](cause); is {
			cause = u.Err // an address may have a key in it
		}
		r.s.cfg.Logger.Warn("a model does not answer", "turn", r.id, "model", r.turn.Model, "kind", f.Kind, "status",
			f.Status, "error", cause)
		return &ending{stop: haft.StopModel, why: "the model did not answer: " + cutText(f.Message, 500)}
	}
	r.s.cfg.Logger.Warn("a model cannot be asked", "turn", r.id, "error", err)
	return &ending{stop: haft.StopModel, why: "the model cannot be asked: " + haft.MessageOf(err)}
}

// size estimates how many tokens a request has: a token is about four bytes.
func size(req model.Request) int {
	n := len(req.System) + bytesOf(req.Messages)
	for i := range req.Tools {
		v := &req.Tools[i].Version
		n += len(req.Tools[i].Name) + len(v.Description) + len(v.Parameters) + 32
	}
	return n / 4
}

// bytesOf is how much of a request messages take.
func bytesOf(list []haft.Message) (n int) {
	for i := range list {
		m := &list[i]
		n += len(m.Text) + len(m.Opaque) + 16 + 4*imageTokens*len(m.Images)
		for j := range m.Calls {
			n += len(m.Calls[j].Args) + len(m.Calls[j].Tool) + len(m.Calls[j].ID)
		}
	}
	return n
}
