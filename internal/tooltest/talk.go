package tooltest

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"haft"
	"haft/internal/agents"
	"haft/internal/modelfile"
	"haft/internal/modeltest"
	"haft/internal/pause"
	"haft/internal/terminal"
	"haft/schema"
)

// An Answer is one of the scripted model of an agent, and what has to be in the request to the model.
type Answer struct {
	modeltest.Step
	// Offered are all tools that the model is offered, in any order.
	Offered *[]string `json:"offered"`
	// Last is the last message of the request, and System are the instructions with the blocks of memory.
	Last   *Text `json:"last"`
	System *Text `json:"system"`
	// Delay is how long the model takes in the middle of its answer.
	Delay haft.Millis `json:"delay"`
}

// turnTime is how long a turn may take if its case does not say, and cancelWait how long its end may.
const (
	turnTime   = 10 * time.Minute
	cancelWait = time.Minute
)

// models serves the scripted models of cases.
type models struct {
	server   *modeltest.Server
	stop     func()
	dialogue sync.Map // of *dialogue by the name of the run, which is that of the model
}

// openModels listens for what agents ask their models, in every format.
func (w *world) openModels() (cfg agents.Config, err error) {
	h := modeltest.NewHandler()
	h.Otherwise(w.answerModel)
	h.Below("/" + rand.Text()) // other users of this machine reach the port, too
	if w.models.server, w.models.stop, err = modeltest.Listen(h); err != nil {
		return cfg, err
	}
	text := ""
	for _, f := range modelForms() {
		text += fmt.Sprintf("[models.%s]\nformat = %q\nurl = %q\n", f, f, w.models.server.URL)
	}
	if cfg.Models, err = modelfile.Parse("models", text); err != nil {
		return cfg, err
	}
	cfg.Models.AnyModel = true // each run has a model of its own, FORMAT/RUN
	cfg.Budget.Time = haft.Millis(turnTime)
	return cfg, nil
}

// modelForms are the formats in which agents ask models.
func modelForms() []schema.Form {
	return []schema.Form{schema.FormOpenAI, schema.FormOpenAIResponses, schema.FormAnthropic, schema.FormGemini}
}

// answerModel answers a request of an agent to its model.
func (w *world) answerModel(req modeltest.Request) modeltest.Step {
	found, ok := w.models.dialogue.Load(req.Model)
	if !ok {
		return modeltest.Step{Status: 404, Message: "no case has a model for this"}
	}
	return found.(*dialogue).answer(req) //nolint:forcetypeassert // nothing else is stored
}

// A dialogue is one message to the agent of a case, and all that becomes of it.
type dialogue struct {
	r       *run
	answers []Answer

	mu       sync.Mutex
	closed   bool // what became of the message is known
	next     int  // answer
	faults   []Fault
	watched  map[haft.CallID]watchedTool
	results  map[haft.CallID]*haft.Result
	turn     haft.Turn
	messages []haft.Message
	asked    []string // tools for which a person was asked
}

// watchedTool is a call that is observed.
type watchedTool struct {
	tool string
	seen func() *haft.Touched
}

// fault notes what is not as expected. Precondition: mu is locked.
func (d *dialogue) fault(what, format string, args ...any) {
	d.faults = append(d.faults, Fault{what, fmt.Sprintf(format, args...)})
}

// answer plays the next answer of the model.
func (d *dialogue) answer(req modeltest.Request) modeltest.Step {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed { // the request waited for mu, and the next step changes what answers refer to
		return modeltest.Step{Status: 404, Message: "the message of the case has ended"}
	}
	last := req.Messages[len(req.Messages)-1]
	if d.next >= len(d.answers) {
		d.fault("answers", "the model was asked again after its %d answers\n%s", len(d.answers),
			indent("+ ", last.Text))
		return modeltest.Step{Status: 400, Message: "the case has no more answers of the model"}
	}
	a := d.answers[d.next]
	if !a.Again {
		d.next++
	}
	name := fmt.Sprintf("answer %d: ", d.next)
	if a.Offered != nil {
		want, got := slices.Sorted(slices.Values(*a.Offered)), slices.Sorted(slices.Values(req.Tools))
		if !slices.Equal(want, got) {
			d.fault("offered", "%sthe tools that the model is offered differ\n%s", name,
				diffLines(strings.Join(want, "\n"), strings.Join(got, "\n")))
		}
	}
	for _, text := range []struct {
		what string
		want *Text
		got  string
	}{{"last message", a.Last, last.Text}, {"system", a.System, req.System}} {
		c := checker{}
		c.text(text.what, text.want, text.got)
		for _, f := range c.faults {
			d.fault(text.what, "%s%s", name, f.Text)
		}
	}
	step, err := d.step(a)
	if err != nil {
		d.fault("answers", "%s%s", name, err)
	}
	if a.Delay > 0 {
		step.Slow = func(ctx context.Context) { _ = pause.For(ctx, a.Delay.D()) } // which ends with its request
	}
	return step
}

// step fills in the references and the ids of an answer.
func (d *dialogue) step(a Answer) (modeltest.Step, error) {
	step := a.Step
	text, err := d.r.fill(json.RawMessage(encode(step.Text)))
	if err == nil && json.Unmarshal(text, &step.Text) != nil {
		step.Text = string(text) // the reference is of a value that is no text
	}
	step.Calls = slices.Clone(step.Calls)
	for i := range step.Calls {
		c := &step.Calls[i]
		c.ID = cmp.Or(c.ID, fmt.Sprintf("call-%d", d.r.ids.Add(1)))
		if len(c.Args) == 0 {
			c.Args = json.RawMessage("{}")
		}
		filled, wrong := d.r.fill(c.Args)
		if err = cmp.Or(err, wrong); wrong == nil {
			c.Args = filled
		}
	}
	return step, err
}

// say says something to the agent of the case, and compares what becomes of it. It reports whether that is as expected.
func (r *run) say(ctx context.Context, label string, c Call) (*haft.Result, bool) {
	d := &dialogue{r: r, answers: c.Answers, watched: map[haft.CallID]watchedTool{},
		results: map[haft.CallID]*haft.Result{}}
	r.models.dialogue.Store(r.name, d)
	defer r.models.dialogue.Delete(r.name)
	before := len(r.mock.Report().Requests)
	err := d.talk(ctx, c)
	return d.judge(ctx, label, c, before, err)
}

// judge closes the dialogue and compares what became of it. The mock had before requests when it began, and err is why
// there is no answer.
func (d *dialogue) judge(ctx context.Context, label string, c Call, before int, err error) (*haft.Result, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	r, faults := d.r, d.faults
	if err != nil {
		faults = append(faults, Fault{"message", "there is no answer: " + err.Error()})
	}
	o := observation{seen: r.mock.Report().Requests[before:], hosts: r.hosts(),
		block: func(l string) (string, bool) { return r.readBlock(ctx, l) },
		file:  func(path string) (string, bool) { return r.readFile(ctx, path) }}
	if o.steps, err = json.Marshal(r.results); err != nil {
		faults = append(faults, Fault{"steps", err.Error()})
	}
	for id, w := range d.watched {
		r.takeCovered(w.tool, d.results[id])
		r.takeProfile(w.tool, d.results[id])
		faults = append(faults, r.compareTouched(w.tool, r.withoutAdded(w.tool, w.seen()), d.results[id])...)
	}
	faults = append(faults, c.Expect.compareTurn(ctx, d, o)...)
	if left := len(d.answers) - d.next; left > 0 && !d.answers[d.next].Again && c.Cancel == 0 {
		faults = append(faults, Fault{"answers", fmt.Sprintf("the model was not asked for %d of its %d answers", left,
			len(d.answers))})
	}
	if len(faults) > 0 {
		faults[len(faults)-1].Text += "\nthe turn:\n" + d.transcript()
	}
	for i := range faults {
		if label != "" {
			faults[i].Text = label + ": " + faults[i].Text
		}
	}
	r.add(faults...)
	for _, res := range d.results {
		r.note(res)
	}
	return d.result(), len(faults) == 0
}

// talk sends the message, answers requests for approval, and reads all of the turn when it has ended or waits. A turn
// that has not ended is cancelled: the next message would wait for it.
func (d *dialogue) talk(ctx context.Context, c Call) (err error) {
	talks := d.r.svc.AgentLoop.Conversations()
	defer func() {
		if d.turn.ID != "" && (d.turn.Status == "" || !d.turn.Final()) {
			ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), cancelWait)
			defer stop()
			err = errors.Join(err, talks.CancelTurn(ctx, d.r.principal, d.turn.ID))
		}
	}()
	format := cmp.Or(c.Format, schema.FormOpenAI)
	var cancel *time.Timer
	for e, err := range talks.Send(ctx, d.r.principal, d.r.principal.Agent, haft.NewMessage{Text: c.Message,
		Model: string(format) + "/" + d.r.name, Budget: c.Budget}) {
		switch {
		case err != nil:
			return err
		case e.Turn != nil:
			d.turn = *e.Turn
		case e.Result != nil:
			d.results[e.Result.Call] = e.Result
		case e.Message != nil:
			d.turn.ID = e.Message.Turn
		}
		if id := d.turn.ID; id != "" && cancel == nil && c.Cancel > 0 {
			cancel = time.AfterFunc(c.Cancel.D(), func() { _ = talks.CancelTurn(ctx, d.r.principal, id) })
			defer cancel.Stop()
		}
	}
	if err := d.approve(ctx, talks, c.Approve); err != nil {
		return err
	}
	return d.read(ctx, talks)
}

// approve answers requests for approval until the turn ends. Without an answer the turn is left as it waits.
func (d *dialogue) approve(ctx context.Context, talks haft.Conversations, a *Approve) error {
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	given := map[haft.ApprovalID]bool{}
	for wait := time.Millisecond; !d.turn.Final(); wait = min(2*wait, 50*time.Millisecond) {
		for _, id := range d.turn.Approvals {
			if given[id] || d.turn.Status != haft.TurnWaiting {
				continue
			}
			req, err := d.r.svc.Approval(ctx, d.r.manager(), id)
			if err != nil {
				return fmt.Errorf("read the request for approval: %w", err)
			}
			given[id], d.asked = true, append(d.asked, req.Tool)
			if a == nil {
				continue
			}
			answer := haft.Answer{Approve: a.Answer == "yes", Args: a.Args}
			if _, err := d.r.svc.Decide(ctx, d.r.approver(a.Roles), id, answer); err != nil {
				return fmt.Errorf("answer the request for approval: %w", err)
			}
		}
		if a == nil {
			return nil
		}
		if err := pause.For(ctx, wait); err != nil {
			return err
		}
		t, err := talks.Turn(ctx, d.r.principal, d.turn.ID)
		if err != nil {
			return err
		}
		d.turn = *t
	}
	return nil
}

// messagesAtOnce is how many messages of a turn are read at once.
const messagesAtOnce = 100

// read reads the messages of the turn and the results of its calls.
func (d *dialogue) read(ctx context.Context, talks haft.Conversations) error {
	for after := int64(0); ; {
		list, err := talks.Messages(ctx, d.r.principal, d.r.principal.Agent, haft.MessageFilter{Turn: d.turn.ID,
			After: after, Limit: messagesAtOnce})
		if err != nil {
			return fmt.Errorf("read the messages of the turn: %w", err)
		}
		d.messages = append(d.messages, list...)
		if len(list) < messagesAtOnce {
			break
		}
		after = list[len(list)-1].Seq
	}
	for _, m := range d.messages {
		for _, c := range m.Calls {
			if c.Call == "" || d.results[c.Call] != nil {
				continue
			}
			res, err := d.r.svc.Wait(ctx, d.r.principal, c.Call)
			if err == nil {
				d.results[c.Call] = res
			} else if haft.CodeOf(err) != haft.CodeNotFound { // it was not begun
				return fmt.Errorf("read the result of a call: %w", err)
			}
		}
	}
	return nil
}

// observe is [engine.Config.Observe]. Nobody knows the calls of turns before.
func (w *world) observe(c haft.Call) (func(haft.Touched), bool) {
	if found, ok := w.runs.Load(c.Principal.Org + "/" + c.Principal.User); ok {
		r := found.(*run) //nolint:forcetypeassert // nothing else is stored
		if talking, ok := w.models.dialogue.Load(r.name); ok {
			talking.(*dialogue).watch(c) //nolint:forcetypeassert // nothing else is stored
		}
	}
	return w.watching.observe(c)
}

// watch begins to watch a call of the turn, if it is not watched already.
func (d *dialogue) watch(c haft.Call) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.watched[c.ID]; !ok && !d.closed {
		d.watched[c.ID] = watchedTool{c.Tool, d.r.watch(c.ID, d.r.file.Touches != nil || d.r.cfg.Learn)}
	}
}

// result stands for the turn where the result of a call is wanted: its value is the reply.
func (d *dialogue) result() *haft.Result {
	res := &haft.Result{Status: haft.StatusSuccess, Value: json.RawMessage(encode(d.reply()))}
	if d.turn.Status != haft.TurnCompleted {
		res.Status, res.Error = haft.StatusError, &haft.Failure{Message: d.turn.Error}
	}
	return res
}

// reply is the last text of the model.
func (d *dialogue) reply() string {
	for _, m := range slices.Backward(d.messages) {
		if m.Role == haft.RoleAssistant && m.Text != "" {
			return m.Text
		}
	}
	return ""
}

// maxSaid bounds what is shown of a message of a turn that is not as expected, in characters.
const maxSaid = 300

// transcript shows the turn.
func (d *dialogue) transcript() string {
	var lines []string
	for _, m := range d.messages {
		who := string(m.Role)
		if m.Name != "" {
			who += " " + m.Name
		}
		if m.Status != "" {
			who += " (" + string(m.Status) + ")"
		}
		if m.Text != "" {
			lines = append(lines, who+": "+terminal.OneLine(m.Text, maxSaid))
		}
		for _, c := range m.Calls {
			lines = append(lines, who+" calls "+c.Tool+" "+terminal.OneLine(string(c.Args), maxSaid))
		}
	}
	end := "it is " + string(d.turn.Status)
	if d.turn.Stop != "" {
		end += ": " + string(d.turn.Stop)
	}
	if d.turn.Error != "" {
		end += ": " + d.turn.Error
	}
	return indent("  ", strings.Join(append(lines, end), "\n"))
}

// close ends the models.
func (m *models) close() {
	if m.stop != nil {
		m.stop()
	}
}
