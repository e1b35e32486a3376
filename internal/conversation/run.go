package conversation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"haft"
	"haft/internal/model"
	"haft/internal/pause"
)

const (
	// sendMessage is the tool by which an agent speaks to the user. Its call ends the turn unless a rule says
	// otherwise.
	sendMessage = "send_message"
	// maxText bounds each text of a message, in bytes. A message has up to three of them, and its calls.
	maxText = 256 << 10
)

// shared is what outlives the runs of a turn in this process.
type shared struct {
	listeners
	purse *purse
}

// A run is the work of this process on a turn. One goroutine has it, or while calls run those who have the lock of the
// [batch]; others use what is before turn.
type run struct {
	s      *Service
	id     haft.TurnID
	org    string
	owner  string          // the name of this process when the work began
	base   context.Context //nolint:containedctx // ends when the service waits no longer; calls and writes need it
	ctx    context.Context //nolint:containedctx // ends with the work, for a cause; all else needs it
	cancel context.CancelCauseFunc
	done   chan struct{}
	*shared

	out outbox

	turn     haft.Turn
	prof     *Profile                         // that the model was asked with last, or nil
	observed func(model.Usage, string, error) // ends the span of the work
	model    *Model
	own      []haft.Message   // of the turn
	older    [][]haft.Message // groups of the conversation before the turn
	summary  *haft.Message    // the last one, or nil

	hopeless bool // the turn could not go on for long, and is only ended

	loaded  bool          // own is all of the turn
	ratio   float64       // of the tokens that the model counts to those that are estimated
	tooLong bool          // the model said that the last request does not fit
	nudged  bool          // the last answer was empty
	blind   bool          // the vendor refused a request with images
	asking  []haft.CallID // calls that wait for a person when the work ends
	last    haft.Result   // id and value of the last call, as far as they are known here
}

// An ending is why a turn ends.
type ending struct {
	stop haft.StopReason
	why  string // what went wrong, for people; empty if nothing did
	note string // what the user is told
}

// Error implements error.
func (e *ending) Error() string { return cmp.Or(e.why, e.note, string(e.stop)) }

// work takes the turn to its end, unless the process cannot go on with it, or it waits for a person. A hopeless turn is
// only ended.
func (r *run) work(hopeless bool) (err error) {
	defer func() { r.observed(model.Usage{}, string(r.turn.Stop), err) }()
	r.hopeless = hopeless
	defer func() {
		if late := r.flushLast(); late != nil && (err == nil || errors.Is(err, errWaiting)) {
			err = late
		}
	}()
	err = r.guard(func() error { return r.goOn(hopeless) })
	if cause := context.Cause(r.ctx); err != nil && cause != nil && !errors.Is(err, errLost) {
		err = cause // whatever failed at the same moment
	}
	end, ok := errors.AsType[*ending](err)
	if errors.Is(err, errCancelled) {
		end, ok = &ending{stop: haft.StopCancelled}, true
	}
	if !ok || !r.loaded && !hopeless { // without its messages nobody knows which calls have no answer
		return err
	}
	return r.guard(func() error { return r.finish(end) })
}

// goOn reads the turn and takes it from step to step.
func (r *run) goOn(hopeless bool) error {
	err := r.load()
	if hopeless && !errors.Is(err, errLost) {
		return &ending{stop: haft.StopInternal, why: "the turn could not go on: see the log of the server"}
	}
	for err == nil && !r.turn.Final() {
		err = r.step()
	}
	return err
}

// guard makes a panic of a function the end of the turn.
func (r *run) guard(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			r.s.cfg.Logger.Error("a turn panicked", "turn", r.id, "panic", fmt.Sprint(p), "stack",
				string(debug.Stack()))
			err = &ending{stop: haft.StopInternal, why: "a fault inside haft"}
		}
	}()
	return do()
}

// step takes the turn one step further: it makes the calls that have no answer, or asks the model.
func (r *run) step() error {
	if err := r.paused(); err != nil {
		return err
	}
	if err := r.recheck(); err != nil {
		return err
	}
	open, err := r.open(), error(nil)
	if len(open) == 0 || r.prof == nil { // the engine looks itself at who makes the calls that the model just asked for
		if r.prof, err = r.profile(); err != nil {
			return err
		}
	}
	if len(open) > 0 {
		return r.makeCalls(r.prof, open)
	}
	prof := r.prof
	now, err := r.evaluate(prof)
	if err != nil {
		return err
	}
	if _, end := r.purse.left(); end != nil {
		return end
	}
	req, err := r.fit(func() model.Request { return r.request(prof, now) })
	if err != nil {
		return err
	}
	a, err := r.ask(req, true)
	if err != nil && r.goBlind(req, err) {
		return nil
	} else if err != nil {
		return r.fault(err)
	}
	return r.take(now, a)
}

// paused waits while calls are stopped, which takes nothing of the budget. It returns why the work ends meanwhile.
func (r *run) paused() error {
	for {
		if r.ctx.Err() != nil {
			return context.Cause(r.ctx)
		}
		if _, stopped := r.s.cfg.Stopped(); !stopped {
			return nil
		}
		if err := pause.For(r.ctx, answering); err != nil {
			return err
		}
	}
}

// recheck ends a turn whose sender may not go on, or whose sender is an agent whose turn was cancelled.
func (r *run) recheck() error {
	p, err := r.s.cfg.Recheck(r.ctx, r.turn.Principal)
	if code := haft.CodeOf(err); code == haft.CodeUnauthenticated || code == haft.CodeDenied {
		return &ending{stop: haft.StopCancelled, why: haft.MessageOf(err)}
	} else if err != nil {
		return fmt.Errorf("look at the credential of the turn: %w", err)
	}
	if was := r.turn.Principal; p.Org != was.Org || p.Owner() != was.Owner() || p.Agent != was.Agent {
		return &ending{stop: haft.StopCancelled, why: "the credential of the turn is of somebody else now"}
	}
	r.turn.Principal = p
	if r.turn.Parent == "" {
		return nil
	}
	parent, err := r.s.cfg.History.Turn(r.ctx, r.org, r.turn.Parent)
	switch {
	case err == nil && parent.Status == haft.TurnCancelled:
		return &ending{stop: haft.StopCancelled, why: "the turn of the agent that sent the message was cancelled"}
	case err != nil && haft.CodeOf(err) != haft.CodeNotFound: // one that was removed is not asked
		return fmt.Errorf("look at the turn of the sender: %w", err)
	}
	return nil
}

// profile returns the agent. It ends a turn whose agent may not go on.
func (r *run) profile() (*Profile, error) {
	prof, err := r.s.cfg.Agents.Profile(r.ctx, r.turn.Principal, r.turn.Agent)
	if haft.CodeOf(err) == haft.CodeNotFound {
		err = &ending{stop: haft.StopInternal, why: "there is no such agent any more"}
	} else if err == nil && prof.Agent.Disabled {
		err = &ending{stop: haft.StopCancelled, why: "the agent is disabled"}
	}
	return prof, err
}

// asked splits the turn at the last message of the model, which is the first of after.
func (r *run) asked() (before, after []haft.Message) {
	for i := range slices.Backward(r.own) {
		if r.own[i].Role == haft.RoleAssistant {
			return r.own[:i], r.own[i:]
		}
	}
	return r.own, nil
}

// take does what an answer of the model says.
func (r *run) take(now *moment, a *model.Answer) error {
	m := haft.Message{Role: haft.RoleAssistant, Text: bounded(a.Text), Reasoning: bounded(a.Reasoning),
		Calls: slices.Clone(a.Calls)}
	if len(a.Opaque) <= maxText {
		m.Opaque = a.Opaque
	}
	cut, empty, nudged := a.Stop == model.StopLength, strings.TrimSpace(m.Text) == "", r.nudged
	r.nudged = false
	switch {
	case a.Stop == model.StopRefusal || a.Stop == model.StopFiltered:
		m.Calls, m.Opaque, m.Text = nil, nil, cmp.Or(m.Text, "The model refused to answer.")
		return r.finish(&ending{stop: haft.StopRefusal}, m)
	case len(m.Calls) > 0:
		return r.takeCalls(now, m, cut)
	case cut && empty:
		return &ending{stop: haft.StopTokens, note: "The model used up all tokens before it said anything."}
	case cut:
		return r.finish(&ending{stop: haft.StopTokens}, m)
	case empty && !nudged:
		r.nudged = true
		return nil
	case now.must != nil && (empty || repeated(r.own, m.Calls) >= warnRepeats):
		return &ending{stop: haft.StopRule, why: haft.MessageOf(now.must), note: m.Text}
	case now.must != nil:
		return r.append(m)
	case empty:
		return &ending{stop: now.end}
	}
	return r.finish(&ending{stop: now.end}, m)
}

// append keeps messages and how the turn stands, and tells of them.
func (r *run) append(list ...haft.Message) error {
	r.turn.Usage = r.purse.total()
	r.out.mu.Lock()
	kept, err := r.write(r.turn, list...)
	r.out.mu.Unlock()
	for _, m := range kept {
		r.own = append(r.own, m)
		if m.Role == haft.RoleSummary {
			r.summary = &m
		}
	}
	return err
}

// finish ends the turn, with its last messages. Calls that have no answer are cancelled and answered.
func (r *run) finish(e *ending, list ...haft.Message) error {
	if r.loaded {
		answers, err := r.withdraw()
		if err != nil {
			return err
		}
		list = append(answers, list...)
	}
	if strings.TrimSpace(e.note) != "" {
		list = append(list, haft.Message{Role: haft.RoleAssistant, Text: e.note})
	}
	before, t := r.turn, &r.turn
	t.Status, t.Stop, t.Error, t.Ended, t.Approvals = haft.TurnCompleted, e.stop, e.why, time.Now(), nil
	if e.stop == haft.StopCancelled {
		t.Status = haft.TurnCancelled
	} else if e.why != "" {
		t.Status = haft.TurnFailed
	}
	err := r.append(list...)
	if refused, ok := errors.AsType[*ending](err); ok { // the end is always kept, if need be without the messages
		t.Error = cmp.Or(t.Error, refused.why)
		if t.Status == haft.TurnCompleted {
			t.Status, t.Stop = haft.TurnFailed, refused.stop
		}
		err = r.append()
	}
	if err != nil {
		r.turn = before
		return err
	}
	r.publishTurn(r.turn)
	return nil
}

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
