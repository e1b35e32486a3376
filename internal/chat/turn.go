package chat

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"time"

	"haft"
	"haft/internal/pause"
)

// The times of a turn that is followed.
const (
	frameTime  = 120 * time.Millisecond
	maxTries   = 6                     // to reach the server
	firstPause = 50 * time.Millisecond // before another one; the next is twice as long
	page       = 100
)

// A turnView is what was shown of a turn.
type turnView struct {
	send *haft.NewMessage // what begins it; nil if it has begun
	id   haft.TurnID
	turn *haft.Turn // as it was last seen
	seq  int64      // of the last message that was shown
	late bool       // messages after seq may have been missed

	// all is the text that was shown since the last message, and part that since the last notice: a model that is
	// asked again begins again.
	all, part strings.Builder
	thought   bool
	held      *haft.Message                // the answer of a tool whose result may be about to come
	results   map[haft.CallID]struct{}     // of calls that were shown; their answers come before or after them
	doing     map[haft.CallID]string       // what calls do
	asked     map[haft.ApprovalID]struct{} // requests that were answered or are for others
	cancel    bool                         // it is to be cancelled
	until     time.Time                    // when it has to go on, if its requests are answered
}

// events returns what is shown next: of a turn that this begins, or of one that has begun. A message can be sent
// again, since it has a key.
func (s *session) events(ctx context.Context, v *turnView) iter.Seq2[haft.TurnEvent, error] {
	if v.id == "" {
		return s.Conversations.Send(ctx, s.Principal, s.Agent, *v.send)
	}
	v.late = true
	return s.Conversations.Follow(ctx, s.Principal, v.id)
}

// follow shows a turn until it ends.
func (s *session) follow(ctx context.Context, v *turnView) error {
	v.doing, v.asked = map[haft.CallID]string{}, map[haft.ApprovalID]struct{}{}
	v.results = map[haft.CallID]struct{}{}
	for try := 0; ; {
		before := v.seq
		err := s.watch(ctx, v)
		if v.seq > before {
			try = 0
		}
		switch code := haft.CodeOf(err); {
		case err == nil && v.turn != nil && v.turn.Final():
			s.open = ""
			return s.ended(*v.turn)
		case err == nil && v.turn != nil && v.turn.Status == haft.TurnWaiting:
			try = 0 // it was begun and waits: it is followed from here on
		case err != nil && (code != haft.CodeUnavailable || v.overdue() != nil) || try == maxTries:
			return cmp.Or(err, errLost)
		}
		if try++; err != nil {
			s.view.note("the connection to the turn is lost; it is followed again")
		}
		if err := pause.For(ctx, firstPause<<try); err != nil {
			return err
		}
	}
}

// errLost says that the turn that is followed is not there any more.
var errLost error = &haft.Error{Code: haft.CodeUnavailable, Message: "nothing more is known of the turn"}

// watch shows a turn until the events end.
func (s *session) watch(ctx context.Context, v *turnView) error {
	type update struct {
		haft.TurnEvent
		err error
	}
	ctx, stop := context.WithCancel(ctx)
	var working sync.WaitGroup
	defer working.Wait()
	defer stop()
	events, updates, failed := s.events(ctx, v), make(chan update), make(chan error, 1)
	working.Go(func() {
		defer close(updates)
		for e, err := range events {
			select {
			case updates <- update{e, err}:
			case <-ctx.Done():
				return
			}
		}
	})
	frames := time.NewTicker(frameTime)
	defer frames.Stop()
	for cancelled := false; ; {
		if v.cancel && !cancelled && v.id != "" {
			cancelled = true
			id := v.id
			working.Go(func() { failed <- s.Conversations.CancelTurn(ctx, s.Principal, id) })
		}
		var err error
		select {
		case u, more := <-updates:
			if !more {
				return nil
			}
			if err = u.err; err == nil {
				err = s.show(ctx, v, u.TurnEvent)
			}
		case failure := <-failed:
			if failure != nil && ctx.Err() == nil {
				v.cancel, cancelled = false, false
				s.view.problem("the turn is not cancelled: "+failure.Error(), "press Ctrl-C to try again")
			}
		case <-s.keys.interrupts:
			err = errInterrupted
		case <-frames.C:
			s.view.spin(v.activity())
			err = v.overdue()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if errors.Is(err, errInterrupted) {
			if v.cancel {
				return errLeave
			}
			v.cancel, err = true, nil
			s.view.note("the turn is being cancelled; Ctrl-C again leaves it")
		}
		if err = cmp.Or(err, s.view.err); err != nil {
			return err
		}
	}
}

// activity says what a turn does now.
func (v *turnView) activity() string {
	switch {
	case v.cancel:
		return "cancelling"
	case v.turn != nil && v.turn.Status == haft.TurnWaiting:
		return "waiting for approval"
	}
	text := "working"
	for _, doing := range v.doing {
		text = doing
	}
	if n := len(v.doing); n > 1 {
		text = fmt.Sprintf("%d calls, %s", n, text)
	}
	return text
}

// show shows an event.
func (s *session) show(ctx context.Context, v *turnView, e haft.TurnEvent) error {
	if s.JSON {
		s.view.event(e)
	}
	if e.Message != nil && (v.id == "" || v.id == e.Message.Turn) {
		v.id = e.Message.Turn
	}
	if e.Turn != nil {
		v.id = e.Turn.ID
	}
	if s.open = v.id; s.JSON && e.Turn != nil {
		v.turn = e.Turn
		return s.ask(ctx, v)
	} else if s.JSON {
		return nil
	}
	if e.Result == nil && e.Event == nil {
		s.flushHeld(v)
	}
	if e.Thinking != "" {
		v.thought = true
		s.view.text(e.Thinking, true)
	}
	if e.Delta != "" {
		v.all.WriteString(e.Delta)
		v.part.WriteString(e.Delta)
		s.view.text(e.Delta, false)
	}
	switch {
	case e.Message != nil:
		s.showMessage(v, *e.Message)
	case e.Result != nil:
		v.held, v.results[e.Result.Call] = nil, struct{}{}
		delete(v.doing, e.Result.Call)
		s.view.result(e.Result)
	case e.Event != nil:
		s.showEvent(v, *e.Event)
	case e.Notice != "":
		v.part.Reset()
		s.view.note(e.Notice)
	case e.Turn != nil:
		v.turn = e.Turn
		if err := s.catchUp(ctx, v); err != nil {
			return err
		}
		return s.ask(ctx, v)
	}
	return nil
}

// catchUp shows the messages that were kept while nobody followed.
func (s *session) catchUp(ctx context.Context, v *turnView) error {
	for v.late {
		list, err := s.Conversations.Messages(ctx, s.Principal, s.Agent, haft.MessageFilter{Turn: v.id, After: v.seq,
			Limit: page})
		if err != nil {
			return err
		}
		for _, m := range list {
			s.flushHeld(v)
			s.showMessage(v, m)
		}
		v.late = len(list) > 0
	}
	s.flushHeld(v)
	return nil
}

// showMessage shows what was not yet shown of a message.
func (s *session) showMessage(v *turnView, m haft.Message) {
	if m.Seq <= v.seq {
		return
	}
	v.seq = m.Seq
	switch m.Role {
	case haft.RoleAssistant:
		if m.Reasoning != "" && !v.thought {
			s.view.text(m.Reasoning, true)
		}
		rest, ok := remainder(m.Text, v.all.String())
		if part := v.part.String(); !ok && part != "" {
			rest, ok = remainder(m.Text, part)
		}
		if !ok {
			s.view.note("the whole answer:")
		}
		if rest != "" {
			s.view.text(rest, false)
		}
		s.view.end()
		v.all.Reset()
		v.part.Reset()
		v.thought = false
		for _, c := range m.Calls {
			v.doing[c.Call] = c.Tool
			s.view.call(c)
		}
	case haft.RoleTool:
		if _, shown := v.results[m.Call]; !shown {
			v.held = &m
		}
	case haft.RoleSummary:
		s.view.note("earlier messages are replaced by a summary")
	}
}

// remainder returns what was not shown of a text, which is all of it if something else was shown.
func remainder(text, shown string) (rest string, ok bool) {
	if rest, ok = strings.CutPrefix(text, shown); !ok && strings.HasPrefix(shown, strings.TrimSpace(text)) {
		return "", true // it was shortened when it was kept
	}
	return rest, ok
}

// flushHeld shows the answer of a tool whose result did not come.
func (s *session) flushHeld(v *turnView) {
	if m := v.held; m != nil {
		v.held = nil
		delete(v.doing, m.Call)
		s.view.outcome(m.Name, m.Status, "", m.Text)
	}
}

// showEvent shows what a call does.
func (s *session) showEvent(v *turnView, e haft.Event) {
	var d struct{ Text, Message string }
	if err := json.Unmarshal(e.Data, &d); err != nil && len(e.Data) > 0 {
		return // of another form, and only for the line that changes
	}
	switch e.Type {
	case haft.EventRetry:
		s.view.note("the call of " + e.Tool + " is tried again")
	case haft.EventProgress, haft.EventOutput:
		if lines := lastLines(d.Message+"\n"+d.Text, 1, maxText); len(lines) > 0 {
			v.doing[e.Call] = e.Tool + ": " + lines[len(lines)-1]
		}
	}
}

// waiting is the error of a turn that nobody here is asked about.
func (s *session) waiting(t *haft.Turn) error {
	what := "haft approvals"
	if len(t.Approvals) == 1 {
		what = "haft approvals approve " + oneLine(string(t.Approvals[0]), 80)
	}
	return &haft.Error{Code: haft.CodeDenied, Message: "the turn waits for a person; agree with: " + what}
}

// ended says how a turn ended.
func (s *session) ended(t haft.Turn) error {
	text, next, code := "", "", haft.CodeRateLimited
	switch t.Stop {
	case haft.StopEnd, haft.StopRule:
	case haft.StopSteps, haft.StopTokens, haft.StopTime, haft.StopCost:
		text = "the turn was stopped by its budget (" + string(t.Stop) + ")"
		next = "say \"go on\", or begin with a larger --" + strings.ReplaceAll(string(t.Stop), "_", "-")
	case haft.StopLoop:
		text, next = "the model made the same calls again and again", "say what it should do instead"
	case haft.StopRefusal:
		code, text, next = haft.CodeDenied, "the model refuses", "ask in another way, or use another model: /model NAME"
	case haft.StopModel:
		code, text = haft.CodeUnavailable, "the model cannot be used"
		next = "see how it is set up with: haft agent show " + s.Agent + "; or use another one: /model NAME"
	case haft.StopCancelled:
		code, text = haft.CodeConflict, "the turn was cancelled"
	default:
		code, text, next = haft.CodeInternal, "the turn failed", "try again"
	}
	if text == "" {
		u := t.Usage
		text = fmt.Sprintf("%d steps, %d tokens in, %d out", u.Steps, u.Input, u.Output)
		if u.Cost > 0 {
			text += fmt.Sprintf(", cost %.4f", float64(u.Cost)/1e6)
		}
		s.view.note(text)
		return nil
	}
	if t.Error != "" {
		text += ": " + t.Error
	}
	if !s.TTY {
		s.view.end()
		failed := &haft.Error{Code: code, Message: oneLine(text, 1000)}
		if t.Stop == haft.StopCancelled {
			failed.Err = context.Canceled
		}
		return failed
	}
	s.view.problem(text, next)
	return nil
}
