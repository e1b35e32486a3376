package conversation

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"haft"
	"haft/internal/model"
	"haft/internal/toolrule"
)

// sendMessage is the tool by which an agent speaks to the user. Its call ends the turn unless a rule says otherwise.
const sendMessage = "send_message"

// maxTextOnly is how often a model may answer without a call in a row although a rule demands one.
const maxTextOnly = 3

// A run is the work of this process on a turn. One goroutine has it; others use what is before turn, and listeners.
type run struct {
	s      *Service
	id     haft.TurnID
	org    string
	owner  string          // the name of this process when the work began
	base   context.Context //nolint:containedctx // ends when the service waits no longer; calls and writes need it
	ctx    context.Context //nolint:containedctx // ends with the work, for a cause; all else needs it
	cancel context.CancelCauseFunc
	done   chan struct{}
	// observed ends the span of the work.
	observed func(model.Usage, string, error)
	listeners

	turn    haft.Turn
	model   *Model
	own     []haft.Message // of the turn
	older   []haft.Message // of the conversation before the turn
	summary *haft.Message  // the last one, or nil

	began   time.Time
	waited  time.Duration // of the time since, for people
	ratio   float64       // of the tokens that the model counts to those that are estimated
	tooLong bool          // the model said that the last request does not fit
	nudged  bool          // the last answer was empty
	last    haft.Result   // of the last call, as far as it is known here
}

// An ending is why a turn ends.
type ending struct {
	stop haft.StopReason
	why  string // what went wrong, for people; empty if nothing did
	note string // what the user is told
}

// Error implements error.
func (e *ending) Error() string { return cmp.Or(e.why, e.note, string(e.stop)) }

// status is that of the turn.
func (e *ending) status() haft.TurnStatus {
	switch {
	case e.stop == haft.StopCancelled:
		return haft.TurnCancelled
	case e.why != "":
		return haft.TurnFailed
	}
	return haft.TurnCompleted
}

// work takes the turn to its end, unless the process cannot go on with it. A hopeless turn is only ended.
func (r *run) work(hopeless bool) (err error) {
	defer func() { r.observed(model.Usage{}, string(r.turn.Stop), err) }()
	defer func() {
		if p := recover(); p != nil {
			r.s.cfg.Logger.Error("a turn panicked", "turn", r.id, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = r.finish(&ending{stop: haft.StopInternal, why: "a fault inside haft"})
		}
	}()
	if err = r.load(); err == nil && hopeless {
		err = &ending{stop: haft.StopInternal, why: "the turn could not go on: see the log of the server"}
	}
	for err == nil && !r.turn.Final() {
		err = r.step()
	}
	if cause := context.Cause(r.ctx); err != nil && cause != nil && !errors.Is(err, errLost) {
		err = cause // whatever failed at the same moment
	}
	if end, ok := errors.AsType[*ending](err); ok {
		err = r.finish(end)
	} else if errors.Is(err, errCancelled) {
		err = r.finish(&ending{stop: haft.StopCancelled})
	}
	return err
}

// step takes the turn one step further: it makes the calls that have no answer, or asks the model.
func (r *run) step() error {
	if err := context.Cause(r.ctx); err != nil {
		return err
	}
	if err := r.recheck(); err != nil {
		return err
	}
	prof, err := r.s.cfg.Agents.Profile(r.ctx, r.turn.Principal, r.turn.Agent)
	switch {
	case haft.CodeOf(err) == haft.CodeNotFound:
		return &ending{stop: haft.StopInternal, why: "there is no such agent any more"}
	case err != nil:
		return fmt.Errorf("read the agent of the turn: %w", err)
	case prof.Agent.Disabled:
		return &ending{stop: haft.StopCancelled, why: "the agent is disabled"}
	}
	if open := r.open(); len(open) > 0 {
		return r.makeCalls(prof, open)
	}
	now, err := r.evaluate(prof)
	if err != nil {
		return err
	}
	if end := r.exhausted(); end != nil {
		return end
	}
	req, err := r.fit(func() model.Request { return r.request(prof, now) })
	if err != nil {
		return err
	}
	a, err := r.ask(req, true)
	if err != nil {
		return r.fault(err)
	}
	return r.take(now, a)
}

// recheck ends a turn whose sender may not send it any more.
func (r *run) recheck() error {
	if r.s.cfg.Recheck == nil {
		return nil
	}
	p, err := r.s.cfg.Recheck(r.ctx, r.turn.Principal)
	switch haft.CodeOf(err) {
	case haft.CodeUnauthenticated, haft.CodeDenied:
		return &ending{stop: haft.StopCancelled, why: haft.MessageOf(err)}
	case "":
		r.turn.Principal = p
		return nil
	}
	return fmt.Errorf("look at the credential of the turn: %w", err)
}

// A moment is what the rules of the agent allow now.
type moment struct {
	tools []haft.Tool     // all that there are for the agent
	state *toolrule.State // nil if no tool is allowed
	final bool            // the rules leave no tool: the next answer is the last
	must  error           // why the turn may not end yet
	turns bool            // the rules look at the order of calls
}

// allows reports whether a tool may be called now.
func (m *moment) allows(tool string) bool {
	return m.state != nil && slices.Contains(m.state.Allowed, tool)
}

// evaluate says what the rules allow now, or that the turn has ended.
func (r *run) evaluate(prof *Profile) (*moment, error) {
	rules := prof.Agent.Rules
	now := &moment{turns: toolrule.NeedsTurn(rules)}
	var names []string
	for _, t := range prof.Tools {
		if !t.Disabled {
			now.tools, names = append(now.tools, t), append(names, t.Name)
		}
	}
	past, err := r.past(rules)
	if err != nil {
		return nil, err
	}
	state, err := toolrule.Evaluate(rules, past, names)
	switch {
	case haft.CodeOf(err) == haft.CodeDenied:
		now.final = len(names) > 0
		return now, nil
	case err != nil:
		return nil, &ending{stop: haft.StopInternal, why: haft.MessageOf(err)}
	case state.Ended:
		return nil, &ending{stop: haft.StopRule}
	}
	now.state, now.must = state, state.Exit()
	if state.Forced && now.must == nil {
		now.must = &haft.Error{Code: haft.CodeDenied, Message: "The tool rules demand that you call one of these tools " +
			"now: " + strings.Join(state.Allowed, ", ") + "."}
	}
	if now.must == nil && r.spoke() && !state.Continues(sendMessage) {
		return nil, &ending{stop: haft.StopEnd}
	}
	return now, nil
}

// past is what was called in the turn, for the rules. They look at the value of the last call only.
func (r *run) past(rules []haft.ToolRule) ([]toolrule.Past, error) {
	var list []toolrule.Past
	var last haft.CallID
	for _, m := range r.own {
		if m.Role == haft.RoleTool && m.Call != "" {
			list, last = append(list, toolrule.Past{Tool: m.Name, Status: m.Status}), m.Call
		}
	}
	if last == "" {
		return nil, nil
	}
	p := &list[len(list)-1]
	if r.last.Call != last && p.Status == haft.StatusSuccess && slices.ContainsFunc(rules, func(u haft.ToolRule) bool {
		return u.Type == haft.RuleConditional && u.Tool == p.Tool
	}) {
		res, err := r.s.cfg.Calls.Wait(r.ctx, r.turn.Principal, last)
		if err != nil {
			return nil, fmt.Errorf("read the value that a tool rule looks at: %w", err)
		}
		r.last = *res
		r.last.Call = last
	}
	if r.last.Call == last {
		p.Value = r.last.Value
	}
	return list, nil
}

// spoke reports whether the last step has sent the user a message.
func (r *run) spoke() bool {
	for _, m := range slices.Backward(r.own) {
		if m.Role == haft.RoleTool && m.Name == sendMessage && m.Status == haft.StatusSuccess {
			return true
		}
		if m.Role == haft.RoleAssistant {
			break
		}
	}
	return false
}

// exhausted returns why the turn may not take more, or nil.
func (r *run) exhausted() *ending {
	b, u := r.turn.Budget, r.turn.Usage
	stopped := func(stop haft.StopReason, what string, most any) *ending {
		return &ending{stop: stop, note: fmt.Sprintf("I stopped here: this turn has reached its limit of %v%s.", most, what)}
	}
	switch {
	case u.Steps >= b.Steps:
		return stopped(haft.StopSteps, " steps", b.Steps)
	case b.Tokens > 0 && u.Input+u.Output >= b.Tokens:
		return stopped(haft.StopTokens, " tokens", b.Tokens)
	case b.Cost > 0 && u.Cost >= b.Cost:
		return stopped(haft.StopCost, " for its cost", fmt.Sprintf("%d.%06d", b.Cost/1_000_000, b.Cost%1_000_000))
	case r.timeLeft() <= 0:
		return stopped(haft.StopTime, " of time", b.Time.D())
	}
	return nil
}

// timeLeft is how long the turn may still be worked on.
func (r *run) timeLeft() time.Duration {
	return r.turn.Budget.Time.D() - time.Since(r.began) + r.waited
}

// take does what an answer of the model says.
func (r *run) take(now *moment, a *model.Answer) error {
	m := r.message(haft.RoleAssistant)
	m.Text, m.Reasoning = bounded(a.Text), bounded(a.Reasoning)
	m.Calls, m.Opaque = slices.Clone(a.Calls), a.Opaque
	cut, empty, nudged := a.Stop == model.StopLength, strings.TrimSpace(m.Text) == "", r.nudged
	r.nudged = false
	switch {
	case a.Stop == model.StopRefusal || a.Stop == model.StopFiltered:
		m.Calls, m.Opaque, m.Text = nil, nil, cmp.Or(m.Text, "The model refused to answer.")
		return r.finish(&ending{stop: haft.StopRefusal}, m)
	case len(m.Calls) > 0:
		return r.takeCalls(now, m, cut)
	case cut && empty:
		return &ending{stop: haft.StopTokens, note: "The model used up all tokens of its answer before it said anything."}
	case cut:
		return r.finish(&ending{stop: haft.StopTokens}, m)
	case empty && !nudged:
		r.nudged = true
		return nil
	case empty && now.must == nil:
		return &ending{stop: stopOf(now)}
	case now.must == nil:
		return r.finish(&ending{stop: stopOf(now)}, m)
	case empty:
		return &ending{stop: haft.StopRule, why: haft.MessageOf(now.must)}
	case r.textOnly() >= maxTextOnly-1:
		return r.finish(&ending{stop: haft.StopRule, why: haft.MessageOf(now.must)}, m)
	}
	return r.append(m)
}

// stopOf is why a turn ends whose model has answered.
func stopOf(now *moment) haft.StopReason {
	if now.final {
		return haft.StopRule
	}
	return haft.StopEnd
}

// textOnly counts the answers without a call at the end of the turn.
func (r *run) textOnly() (n int) {
	for _, m := range slices.Backward(r.own) {
		if m.Role != haft.RoleAssistant || len(m.Calls) > 0 {
			break
		}
		n++
	}
	return n
}

// message makes a message of the turn.
func (r *run) message(role haft.MessageRole) *haft.Message {
	return &haft.Message{ID: haft.MessageID("message-" + rand.Text()), Agent: r.turn.Agent, Turn: r.id, Role: role,
		Created: time.Now()}
}

// append keeps messages and how the turn stands, and tells of them.
func (r *run) append(list ...*haft.Message) error {
	err := r.s.cfg.Turns.Append(r.base, r.owner, r.turn, list...)
	if haft.CodeOf(err) == haft.CodeConflict {
		return fmt.Errorf("%w: %w", errLost, err)
	}
	if err != nil {
		return fmt.Errorf("keep what happened in the turn: %w", err)
	}
	for _, m := range list {
		r.own = append(r.own, *m)
		if m.Role == haft.RoleSummary {
			r.summary = m
		}
		told := *m
		r.tell(haft.TurnEvent{Message: &told}, false)
	}
	return nil
}

// tellTurn tells how the turn stands.
func (r *run) tellTurn() {
	t := r.turn
	t.Approvals = slices.Clone(t.Approvals)
	r.tell(haft.TurnEvent{Turn: &t}, false)
}

// finish ends the turn, with its last messages. Calls that have no answer are cancelled and answered.
func (r *run) finish(e *ending, list ...*haft.Message) error {
	list = append(r.withdraw(), list...)
	if e.note != "" {
		m := r.message(haft.RoleAssistant)
		m.Text = e.note
		list = append(list, m)
	}
	before := r.turn
	r.turn.Status, r.turn.Stop, r.turn.Error = e.status(), e.stop, e.why
	r.turn.Ended, r.turn.Approvals = time.Now(), nil
	if err := r.append(list...); err != nil {
		r.turn = before
		return err
	}
	r.tellTurn()
	return nil
}

// maxText bounds each text of a message, in bytes.
const maxText = 1 << 20

// bounded makes a text valid, and short enough to be kept.
func bounded(text string) string { return cutText(strings.ToValidUTF8(text, "\ufffd"), maxText) }

// cutText cuts a text to about most bytes, and says so in it.
func cutText(text string, most int) string {
	if len(text) <= most {
		return text
	}
	head := strings.ToValidUTF8(text[:most], "")
	return fmt.Sprintf("%s\n[cut: %d bytes left out]", head, len(text)-len(head))
}

// object reports whether arguments are a JSON object.
func object(args json.RawMessage) bool {
	return json.Valid(args) && strings.HasPrefix(strings.TrimSpace(string(args)), "{")
}
