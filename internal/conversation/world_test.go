package conversation_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"haft"
	"haft/internal/authority"
	"haft/internal/conversation"
	"haft/internal/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The people of the tests.
var (
	ann   = haft.Principal{Org: "org", User: "ann"}
	bob   = haft.Principal{Org: "org", User: "bob"}
	admin = haft.Principal{Org: "org", User: "root", Roles: []string{haft.RoleAdmin}}
)

const agentID = haft.AgentID("ag_ABCDEFGHIJKLMNOPQRSTUVWX")

// as is somebody who acts as an agent.
func as(p haft.Principal, ref string) haft.Principal {
	id, _ := agentOf(ref)
	p.Agent = string(id)
	return p
}

// agentOf returns the id of an agent: helper, or one of many with a number behind it.
func agentOf(ref string) (haft.AgentID, bool) {
	if number, ok := strings.CutPrefix(ref, "helper"); ok {
		return agentID + haft.AgentID(number), true
	}
	return haft.AgentID(ref), strings.HasPrefix(ref, string(agentID))
}

// A world is what outlives processes: a store, an engine, and a model. It keeps the contracts of the ports.
type world struct {
	t  *testing.T
	mu sync.Mutex

	turns    map[haft.TurnID]*keptTurn
	order    []haft.TurnID
	messages []haft.Message
	keys     map[string]haft.TurnID
	alive    map[string]bool

	calls map[haft.CallID]*record
	tools map[string]tool
	files map[haft.FileID][]byte // the content of artifacts that are not in their records

	profile conversation.Profile
	model   conversation.Model
	answer  func(req model.Request) (*model.Answer, error)
	asked   []model.Request
	prelude []model.Chunk // emitted with each answer
	names   int
}

type keptTurn struct {
	turn   haft.Turn
	owner  string
	cancel bool
}

// A record is what the engine keeps of a call.
type record struct {
	call     haft.Call
	owner    string
	status   haft.Status
	approval haft.ApprovalID
	result   *haft.Result
	runs     int
	cancel   context.CancelFunc
	changed  chan struct{}
}

// A tool gives a value, or an error.
type tool struct {
	parallel, approval, idempotent bool

	run func(ctx context.Context, args string) (string, error)
	// result changes what the engine returns of a call that succeeded.
	result func(*haft.Result)
}

func echo(_ context.Context, args string) (string, error) { return `{"got":` + args + `}`, nil }

func newWorld(t *testing.T) *world {
	w := &world{t: t, turns: map[haft.TurnID]*keptTurn{}, keys: map[string]haft.TurnID{}, alive: map[string]bool{},
		calls: map[haft.CallID]*record{}, tools: map[string]tool{}}
	w.profile = conversation.Profile{Agent: haft.Agent{ID: agentID, Org: "org", Name: "helper"},
		Instructions: "You help.", Model: "m"}
	w.model = conversation.Model{Name: "m-1", Context: 100_000, MaxOutput: 1000, Input: 1_000_000, Cached: 100_000,
		Output: 2_000_000}
	for _, name := range []string{"a", "b", "c"} {
		w.addTool(name, tool{run: echo})
	}
	return w
}

// addTool adds a tool of the agent, or replaces it.
func (w *world) addTool(name string, t tool) {
	w.tools[name] = t
	tools := slices.DeleteFunc(w.profile.Tools, func(have haft.Tool) bool { return have.Name == name })
	w.profile.Tools = append(tools, haft.Tool{Name: name, Org: "org", Version: haft.Version{Description: "does " + name,
		Parameters: json.RawMessage(`{"type":"object"}`), Settings: haft.Settings{Parallel: t.parallel,
			Idempotent: t.idempotent}}})
}

// script has the model give these answers in every turn, one after the other, whatever they are about. What it gives is
// a function of the conversation.
func (w *world) script(answers ...*model.Answer) {
	w.answer = func(req model.Request) (*model.Answer, error) {
		n := 0
		for _, m := range slices.Backward(req.Messages) {
			if m.Role == haft.RoleUser {
				break
			}
			if m.Role == haft.RoleAssistant {
				n++
			}
		}
		if n >= len(answers) {
			return say("the end"), nil
		}
		a := *answers[n]
		a.Calls = slices.Clone(a.Calls)
		return &a, nil
	}
}

func say(text string) *model.Answer {
	return &model.Answer{Text: text, Stop: model.StopEnd, Usage: model.Usage{Input: 10, Output: 5}}
}

// call is an answer that asks for calls: "a", `{"x":1}`, "b", `{}`, …
func call(pairs ...string) *model.Answer {
	a := &model.Answer{Stop: model.StopCalls, Usage: model.Usage{Input: 10, Output: 5}}
	for i := 0; i < len(pairs); i += 2 {
		a.Calls = append(a.Calls, haft.ToolCall{ID: fmt.Sprintf("t%d", i/2), Tool: pairs[i],
			Args: json.RawMessage(pairs[i+1])})
	}
	return a
}

// A process is a server of the world. It dies at a certain operation, and does nothing from then on.
type process struct {
	*world
	name  string
	ops   int
	dies  int // the operation before which it dies; 0 means never
	dead  chan struct{}
	extra func(cfg *conversation.Config)
	*conversation.Service
}

var errDead = &haft.Error{Code: haft.CodeUnavailable, Message: "the process is dead"}

// begin makes a process with its service.
func (w *world) begin(dies int, change ...func(*conversation.Config)) *process {
	w.mu.Lock()
	w.names++
	p := &process{world: w, name: fmt.Sprintf("p%d", w.names), dies: dies, dead: make(chan struct{})}
	w.alive[p.name] = true
	w.recover()
	w.mu.Unlock()
	cfg := conversation.Config{Turns: p, Claims: claims{p}, History: history{p}, Agents: p, Models: p, Calls: p,
		Artifacts: p, Authority: authority.Rules{}, Owner: func() string { return p.name }}
	for _, f := range change {
		f(&cfg)
	}
	p.Service = conversation.New(cfg)
	w.t.Cleanup(p.end)
	return p
}

// end closes the service, as a server that is stopped does.
func (p *process) end() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = p.Close(ctx)
	p.mu.Lock()
	delete(p.alive, p.name)
	p.mu.Unlock()
}

// recover is what the engine does with the calls of processes that ended. It has the lock.
func (w *world) recover() {
	for _, r := range w.calls {
		if r.status == haft.StatusRunning && !w.alive[r.owner] {
			r.end(failed(haft.StatusUnknown, haft.FailUnknown, "lost"))
		}
	}
}

// op counts an operation, and kills the process if it is time.
func (p *process) op() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.opLocked()
}

func (p *process) opLocked() error {
	select {
	case <-p.dead:
		return errDead
	default:
	}
	if p.ops++; p.ops == p.dies {
		close(p.dead)
		delete(p.alive, p.name)
		return errDead
	}
	return nil
}

// write does something to the store between two operations: the process can die before or after it.
func (p *process) write(do func() error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.opLocked(); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	return p.opLocked()
}

func conflict() error { return &haft.Error{Code: haft.CodeConflict, Message: "no"} }

func notFound() error { return &haft.Error{Code: haft.CodeNotFound, Message: "there is none"} }

func (p *process) BeginTurn(_ context.Context, owner string, t haft.Turn, key string, first haft.Message) (
	turn *haft.Turn, begun bool, err error) {
	err = p.write(func() error {
		scope := t.Principal.Org + "/" + t.Principal.Owner() + "/" + string(t.Agent) + "/" + key
		if id, ok := p.keys[scope]; ok && key != "" {
			have := p.turns[id].turn
			turn = &have
			return nil
		}
		for _, k := range p.turns {
			if k.turn.Agent == t.Agent && k.turn.Principal.Owner() == t.Principal.Owner() && !k.turn.Final() {
				return conflict()
			}
		}
		t.ID, t.Status, t.Created = haft.TurnID(fmt.Sprintf("run-%03d", len(p.turns)+1)), haft.TurnRunning, time.Now()
		if key != "" {
			p.keys[scope] = t.ID
		}
		p.turns[t.ID] = &keptTurn{turn: t, owner: owner}
		p.order = append(p.order, t.ID)
		p.add(t, first)
		turn, begun = &t, true
		return nil
	})
	return turn, begun, err
}

// add keeps a message. The world is locked.
func (w *world) add(t haft.Turn, m haft.Message) haft.Message {
	if _, err := json.Marshal(m); err != nil || len(m.Text)+len(m.Reasoning)+len(m.Opaque) > 1<<20 {
		w.t.Errorf("a message cannot be kept: %v", err)
	}
	m.Agent, m.Turn, m.Created, m.Seq = t.Agent, t.ID, time.Now(), int64(len(w.messages)+1)
	m.ID = haft.MessageID(fmt.Sprintf("message-%d", m.Seq))
	w.messages = append(w.messages, m)
	return m
}

func (p *process) AdvanceTurn(_ context.Context, owner string, t haft.Turn, list ...haft.Message) (kept []haft.Message,
	err error) {
	err = p.write(func() error {
		have := p.turns[t.ID]
		if have == nil || have.owner != owner || have.turn.Final() {
			return conflict()
		}
		have.turn.Status, have.turn.Stop, have.turn.Error, have.turn.Usage = t.Status, t.Stop, t.Error, t.Usage
		have.turn.Approvals = slices.Clone(t.Approvals)
		if have.turn.Final() {
			have.turn.Ended = time.Now()
		}
		for _, m := range list {
			kept = append(kept, p.add(t, m))
		}
		return nil
	})
	return kept, err
}

// owned lists the turns of an owner that have not ended.
func (p *process) owned(owner string, fits func(*keptTurn) bool) (list []haft.Turn, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.dead:
		return nil, errDead
	default:
	}
	for _, id := range p.order {
		if k := p.turns[id]; !k.turn.Final() && fits(k) && k.owner == owner {
			list = append(list, k.turn)
		}
	}
	return list, nil
}

func (p *process) ClaimTurns(_ context.Context, owner string) ([]haft.Turn, error) {
	return p.owned(owner, func(k *keptTurn) bool {
		gone := !p.alive[k.owner]
		if gone {
			k.owner = owner
		}
		return gone
	})
}

func (p *process) OpenTurns(_ context.Context, owner string, after haft.TurnID) ([]haft.Turn, error) {
	list, err := p.owned(owner, func(k *keptTurn) bool { return k.turn.ID > after })
	return list[:min(len(list), 3)], err
}

func (p *process) CancelledTurns(_ context.Context, owner string) (ids []haft.TurnID, err error) {
	list, err := p.owned(owner, func(k *keptTurn) bool { return k.cancel })
	for _, t := range list {
		ids = append(ids, t.ID)
	}
	return ids, err
}

// claims cancels. It has methods of the names that the service has.
type claims struct{ *process }

func (p claims) CancelTurn(_ context.Context, org string, id haft.TurnID) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.turns[id]
	if k == nil || k.turn.Principal.Org != org {
		return notFound()
	}
	k.cancel = true
	return nil
}

// history reads. It has methods of the names that the service has.
type history struct{ *process }

func (p history) Turn(_ context.Context, org string, id haft.TurnID) (*haft.Turn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.turns[id]
	if k == nil || k.turn.Principal.Org != org {
		return nil, notFound()
	}
	t := k.turn
	return &t, nil
}

func (p history) Turns(_ context.Context, org, owner string, agent haft.AgentID, after haft.TurnID,
	limit int) (list []haft.Turn, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range p.order[slices.Index(p.order, after)+1:] {
		t := p.turns[id].turn
		if t.Principal.Org == org && (owner == "" || t.Principal.Owner() == owner) && t.Agent == agent &&
			len(list) < limitOf(limit) {
			list = append(list, t)
		}
	}
	return list, nil
}

// limitOf bounds lists as the store does.
func limitOf(n int) int {
	if n <= 0 || n > 100 {
		return 100
	}
	return n
}

func (p history) Messages(_ context.Context, org, owner string, agent haft.AgentID,
	f haft.MessageFilter) (list []haft.Message, err error) {
	if err := p.op(); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	all := slices.Clone(p.messages)
	if f.Newest {
		slices.Reverse(all)
	}
	for _, m := range all {
		by := p.turns[m.Turn].turn.Principal
		if by.Org == org && (owner == "" || by.Owner() == owner) && m.Agent == agent &&
			(f.Turn == "" || f.Turn == m.Turn) &&
			m.Seq > f.After && (f.Before == 0 || m.Seq < f.Before) && len(list) < limitOf(f.Limit) {
			list = append(list, m)
		}
	}
	return list, nil
}

func (p *process) Agent(_ context.Context, by haft.Principal, ref string) (*haft.Agent, error) {
	id, ok := agentOf(ref)
	if by.Org != "org" || !ok {
		return nil, notFound()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.profile.Agent
	if a.ID = id; a.Org != by.Org {
		return nil, notFound()
	}
	return &a, nil
}

func (p *process) Profile(ctx context.Context, by haft.Principal, id haft.AgentID) (*conversation.Profile, error) {
	if _, err := p.Agent(ctx, by, string(id)); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	prof := p.profile
	return &prof, nil
}

func (p *process) Model(_ context.Context, _ haft.Principal, name string) (*conversation.Model, error) {
	if name != "m" {
		return nil, &haft.Error{Code: haft.CodeNotFound, Message: "there is no such model"}
	}
	m := p.model
	m.Generator = p
	return &m, nil
}

// Generate answers by the script. Every request must be one that vendors take.
func (p *process) Generate(ctx context.Context, req model.Request, emit func(model.Chunk)) (*model.Answer, error) {
	if err := p.op(); err != nil {
		return nil, err
	}
	if why := unacceptable(req.Messages); why != "" {
		p.t.Errorf("a vendor would refuse the request: %s: %s", why, shape(req.Messages))
	}
	req.Messages = slices.Clone(req.Messages) // the caller can change them afterwards
	p.mu.Lock()
	p.asked = append(p.asked, req)
	answer, prelude := p.answer, p.prelude
	p.mu.Unlock()
	for _, c := range prelude {
		if emit != nil {
			emit(c)
		}
	}
	a, err := answer(req)
	if err == nil && emit != nil && a.Text != "" {
		emit(model.Chunk{Text: a.Text})
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if dead := p.op(); dead != nil {
		return nil, dead
	}
	return a, err
}

// unacceptable says why vendors would not take messages.
func unacceptable(list []haft.Message) string {
	open := map[string]bool{}
	for _, m := range list {
		if m.Role == haft.RoleTool {
			if !open[m.Answers] {
				return "an answer without its call"
			}
			delete(open, m.Answers)
			continue
		}
		if len(open) > 0 {
			return "a call without an answer"
		}
		for _, c := range m.Calls {
			if open[c.ID] || c.ID == "" {
				return "two calls with one id"
			}
			open[c.ID] = true
		}
		if m.Text == "" && len(m.Calls) == 0 {
			return "an empty message"
		}
	}
	if len(open) > 0 {
		return "a call without an answer"
	}
	if len(list) == 0 || list[len(list)-1].Role == haft.RoleAssistant {
		return "nothing to answer"
	}
	return ""
}

// shape writes messages in one line, to be compared.
func shape(list []haft.Message) string {
	var parts []string
	for _, m := range list {
		text := string(m.Role)
		switch m.Role {
		case haft.RoleTool:
			text = m.Name + ":" + string(m.Status)
		case haft.RoleAssistant:
			for _, c := range m.Calls {
				text += " " + c.Tool
			}
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}
