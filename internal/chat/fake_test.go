package chat

import (
	"bytes"
	"context"
	"io"
	"iter"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"haft"
)

// A step is what a person types once the output shows something.
type step struct{ when, keys string }

// A person looks at the output of a terminal, and types.
type person struct {
	mu    sync.Mutex
	out   bytes.Buffer
	seen  int
	steps []step
	keys  chan string
	rest  string
}

func newPerson(steps ...step) *person { return &person{steps: steps, keys: make(chan string, 100)} }

func (p *person) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out.Write(b)
	for len(p.steps) > 0 {
		i := strings.Index(p.out.String()[p.seen:], p.steps[0].when)
		if i < 0 {
			break
		}
		p.seen += i + len(p.steps[0].when)
		if p.steps[0].keys == "eof" {
			close(p.keys)
		} else {
			p.keys <- p.steps[0].keys
		}
		p.steps = p.steps[1:]
	}
	return len(b), nil
}

func (p *person) Read(b []byte) (int, error) {
	if p.rest == "" {
		rest, ok := <-p.keys
		if !ok {
			return 0, io.EOF
		}
		p.rest = rest
	}
	n := copy(b, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

var sequences = regexp.MustCompile("\x1b\\[[0-9;?]*[A-Za-z]")

// screen is what the terminal shows at last, without colours and without what was removed.
func (p *person) screen() string {
	var b strings.Builder
	for line := range strings.Lines(strings.ReplaceAll(p.out.String(), "\r\n", "\n")) {
		if i := strings.LastIndex(line, "\r\x1b[K"); i >= 0 {
			line = line[i:]
		}
		b.WriteString(strings.TrimPrefix(sequences.ReplaceAllString(line, ""), "\r"))
	}
	return b.String()
}

// fake is a scripted agent.
type fake struct {
	mu        sync.Mutex
	onSend    func(ctx context.Context, m haft.NewMessage, yield func(haft.TurnEvent, error) bool)
	onFollow  func(ctx context.Context, yield func(haft.TurnEvent, error) bool)
	sent      []haft.NewMessage
	turn      haft.Turn // what Turn returns
	messages  []haft.Message
	cancelled chan haft.TurnID
	began     func() // called by a turn that can be cancelled
	request   *haft.Approval
	decide    error
	missing   bool  // there is no turn
	fails     error // what CancelTurn returns at first
	answers   []haft.Answer
	deciders  []haft.Principal
}

func (f *fake) Send(ctx context.Context, _ haft.Principal, _ string, m haft.NewMessage) iter.Seq2[haft.TurnEvent,
	error] {
	f.mu.Lock()
	f.sent = append(f.sent, m)
	f.mu.Unlock()
	return func(yield func(haft.TurnEvent, error) bool) { f.onSend(ctx, m, yield) }
}

func (f *fake) Follow(ctx context.Context, _ haft.Principal, _ haft.TurnID) iter.Seq2[haft.TurnEvent, error] {
	return func(yield func(haft.TurnEvent, error) bool) { f.onFollow(ctx, yield) }
}

func (f *fake) Turn(context.Context, haft.Principal, haft.TurnID) (*haft.Turn, error) {
	if f.missing {
		return nil, &haft.Error{Code: haft.CodeNotFound, Message: "there is no such turn"}
	}
	return &f.turn, nil
}

func (f *fake) Turns(context.Context, haft.Principal, string, haft.TurnID, int) ([]haft.Turn, error) {
	return nil, nil
}

func (f *fake) CancelTurn(_ context.Context, _ haft.Principal, id haft.TurnID) error {
	if err := f.fails; err != nil {
		f.fails = nil
		return err
	}
	f.cancelled <- id
	return nil
}

func (f *fake) Messages(_ context.Context, _ haft.Principal, _ string, q haft.MessageFilter) ([]haft.Message, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []haft.Message
	for _, m := range f.messages {
		if m.Seq > q.After && strings.Contains(m.Text, q.Query) {
			list = append(list, m)
		}
	}
	if q.Newest {
		slices.Reverse(list)
	}
	return list, nil
}

func (f *fake) Approval(context.Context, haft.Principal, haft.ApprovalID) (*haft.Approval, error) {
	if f.request == nil {
		return nil, &haft.Error{Code: haft.CodeNotFound, Message: "there is no such request"}
	}
	return f.request, nil
}

func (f *fake) Decide(_ context.Context, p haft.Principal, _ haft.ApprovalID, a haft.Answer) (*haft.Approval, error) {
	f.answers, f.deciders = append(f.answers, a), append(f.deciders, p)
	return f.request, f.decide
}

func (f *fake) Blocks(context.Context, haft.Principal, haft.BlockFilter) ([]haft.Block, error) {
	return []haft.Block{{Label: "human\x1b[2J", Value: "likes **tea**\n? approve\x1b[2J", Limit: 100}}, nil
}

func (f *fake) Agent(context.Context, haft.Principal, string) (*haft.Agent, error) {
	return &haft.Agent{Tools: []string{"search", "evil\x1b]0;x\a"}}, nil
}

// The parts of scripted turns.
const turnID = haft.TurnID("run-1")

func delta(s string) haft.TurnEvent { return haft.TurnEvent{Delta: s} }

func user(seq int64) haft.TurnEvent {
	return haft.TurnEvent{Message: &haft.Message{Turn: turnID, Seq: seq, Role: haft.RoleUser, Text: "hi"}}
}

func said(seq int64, text string, calls ...haft.ToolCall) haft.TurnEvent {
	return haft.TurnEvent{Message: &haft.Message{Turn: turnID, Seq: seq, Role: haft.RoleAssistant, Text: text,
		Calls: calls}}
}

func answered(seq int64, tool, text string) haft.TurnEvent {
	return haft.TurnEvent{Message: &haft.Message{Turn: turnID, Seq: seq, Role: haft.RoleTool, Name: tool, Text: text,
		Call: "c_1", Status: haft.StatusSuccess}}
}

func ends(status haft.TurnStatus, stop haft.StopReason) haft.TurnEvent {
	return haft.TurnEvent{Turn: &haft.Turn{ID: turnID, Status: status, Stop: stop,
		Usage: haft.TurnUsage{Steps: 1, Input: 10, Output: 5}}}
}

func completed() haft.TurnEvent { return ends(haft.TurnCompleted, haft.StopEnd) }

func waits(ids ...haft.ApprovalID) haft.TurnEvent {
	e := ends(haft.TurnWaiting, "")
	e.Turn.Approvals = ids
	return e
}

// yields returns a turn in which events happen, half a second after each other.
func yields(events ...haft.TurnEvent) func(context.Context, haft.NewMessage, func(haft.TurnEvent, error) bool) {
	return func(ctx context.Context, _ haft.NewMessage, yield func(haft.TurnEvent, error) bool) {
		for _, e := range events {
			if !yield(e, nil) {
				return
			}
			select {
			case <-time.After(500 * time.Millisecond):
			case <-ctx.Done():
				yield(haft.TurnEvent{}, context.Cause(ctx))
				return
			}
		}
	}
}

// talk has a person talk to a scripted agent.
func talk(t *testing.T, f *fake, p *person, change ...func(*Config)) error {
	t.Helper()
	f.cancelled = make(chan haft.TurnID, 10)
	cfg := Config{Conversations: f, Approvals: f, Memory: f, Agents: f, Agent: "ann", In: p, Out: p, TTY: true,
		Colour: true, Principal: haft.Principal{Org: "o", User: "u", Agent: "ag_1"},
		Approver: haft.Principal{Org: "o", User: "u"}}
	for _, c := range change {
		c(&cfg)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour) // of the clock of the test
	defer cancel()
	err := Run(ctx, cfg)
	func() {
		defer func() { _ = recover() }() // a script may have closed it
		close(p.keys)
	}()
	synctest.Wait()
	if len(p.steps) > 0 {
		t.Errorf("the person still waits for %q in\n%s", p.steps[0].when, p.screen())
	}
	return err
}

// shows checks that the screen has texts, in this order.
func shows(t *testing.T, p *person, texts ...string) {
	t.Helper()
	screen := p.screen()
	at := 0
	for _, text := range texts {
		i := strings.Index(screen[at:], text)
		if i < 0 {
			t.Errorf("there is no %q behind the texts before it in\n%s", text, screen)
			return
		}
		at += i + len(text)
	}
}
