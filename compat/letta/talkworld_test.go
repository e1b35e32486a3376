package letta_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"haft"
	"haft/internal/authority"
	"haft/internal/conversation"
	"haft/internal/memorystore"
	"haft/internal/model"
	"haft/internal/servertest"
	"haft/internal/store"
)

// converse opens conversations over the engine and the store of the world, with a model that is a function of the test.
func (w *world) converse(st *store.Store) haft.Conversations {
	beats, err := st.Processes.Beats(w.t.Context())
	if err != nil || len(beats) != 1 {
		w.t.Fatalf("processes: %v, %v", beats, err)
	}
	owner := ""
	for owner = range beats {
		break
	}
	kept := memorystore.New(st)
	s := conversation.New(conversation.Config{Turns: kept, Claims: kept, History: kept, Agents: talkAgents{w},
		Models: talkModels{w}, Calls: w.calls, Authority: authority.Rules{Operators: servertest.Operators},
		Owner: func() string { return owner }})
	w.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		servertest.Check(w.t, s.Close(ctx))
	})
	return s
}

// talkAgents are the agents of the engine.
type talkAgents struct{ *world }

func (a talkAgents) Agent(ctx context.Context, p haft.Principal, ref string) (*haft.Agent, error) {
	return a.engine.Agent(ctx, p, ref)
}

func (a talkAgents) Profile(ctx context.Context, p haft.Principal, id haft.AgentID) (*conversation.Profile, error) {
	one, err := a.engine.Agent(ctx, p, string(id))
	if err != nil {
		return nil, err
	}
	prof := &conversation.Profile{Agent: *one, Instructions: one.Instructions, Model: one.Model}
	for _, name := range one.Tools {
		t, err := a.engine.Tool(ctx, p, name)
		if err != nil {
			return nil, err
		}
		prof.Tools = append(prof.Tools, *t)
	}
	return prof, nil
}

// talkModels are one model.
type talkModels struct{ *world }

func (m talkModels) Model(ctx context.Context, p haft.Principal, name string) (*conversation.Model, error) {
	if list, err := m.Models(ctx, p); err != nil || !list[0].Is(name) {
		return nil, &haft.Error{Code: haft.CodeNotFound, Message: "there is no such model"}
	}
	return &conversation.Model{Generator: m, Name: "m", Context: 100_000, MaxOutput: 1000}, nil
}

// Models implements [haft.Models].
func (talkModels) Models(context.Context, haft.Principal) ([]haft.Model, error) {
	return []haft.Model{{Name: "m", Model: "gpt-4.1", Provider: "openai", Context: 100_000, Default: true},
		{Name: "vendor/gpt"}, {Name: "gpt"}, {Name: "other"}}, nil
}

// Generate implements [conversation.Generator].
func (m talkModels) Generate(_ context.Context, req model.Request, emit func(model.Chunk)) (*model.Answer, error) {
	m.mu.Lock()
	answer := m.answer
	m.mu.Unlock()
	if emit == nil {
		emit = func(model.Chunk) {}
	}
	a := answer(req, emit)
	if a == nil {
		return nil, &haft.Error{Code: haft.CodeInvalid, Message: "the model is broken"}
	}
	a.Usage = model.Usage{Input: 10, Output: 5}
	return a, nil
}

// script has the model give these answers in every turn, one after the other.
func (w *world) script(answers ...model.Answer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answer = func(req model.Request, emit func(model.Chunk)) *model.Answer {
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
			return &model.Answer{Text: "the end", Stop: model.StopEnd}
		}
		a := answers[n]
		a.Calls = slices.Clone(a.Calls)
		for _, text := range []string{a.Reasoning[:len(a.Reasoning)/2], a.Reasoning[len(a.Reasoning)/2:]} {
			emit(model.Chunk{Reasoning: text})
		}
		for _, text := range []string{a.Text[:len(a.Text)/2], a.Text[len(a.Text)/2:]} {
			emit(model.Chunk{Text: text})
		}
		return &a
	}
}

func say(text string) model.Answer { return model.Answer{Text: text, Stop: model.StopEnd} }

// call is an answer that asks for calls: "one", `{"a":1}`, …
func call(pairs ...string) model.Answer {
	a := model.Answer{Stop: model.StopCalls}
	for i := 0; i < len(pairs); i += 2 {
		a.Calls = append(a.Calls, haft.ToolCall{ID: fmt.Sprintf("call_%d", i/2), Tool: pairs[i],
			Args: json.RawMessage(pairs[i+1])})
	}
	return a
}

// message is what the tests look at of one.
type message struct {
	ID        string     `json:"id"`
	Type      string     `json:"message_type"`
	Run       string     `json:"run_id"`
	Seq       int64      `json:"seq_id"`
	Content   string     `json:"content"`
	Reasoning string     `json:"reasoning"`
	Return    string     `json:"tool_return"`
	Status    string     `json:"status"`
	Calls     []lettaRef `json:"tool_calls"`
	Call      string     `json:"tool_call_id"`
	Stop      string     `json:"stop_reason"`
	Message   string     `json:"message"`
}

type lettaRef struct {
	Name string `json:"name"`
	Args string `json:"arguments"`
	ID   string `json:"tool_call_id"`
}

// String is a message in one line.
func (m message) String() string {
	text := strings.TrimSuffix(m.Type, "_message") + m.Stop
	for _, part := range []string{m.Content, m.Reasoning, m.Status, m.Message} {
		if part != "" {
			text += ":" + part
		}
	}
	for _, c := range m.Calls {
		text += ":" + c.Name
	}
	return text
}

// shape writes messages in one line.
func shape(list []message) string {
	var all []string
	for _, m := range list {
		all = append(all, m.String())
	}
	return strings.Join(all, ", ")
}

// said is the answer to a message.
type said struct {
	Messages []message `json:"messages"`
	Stop     struct {
		Reason string `json:"stop_reason"`
		Detail string `json:"detail"`
	} `json:"stop_reason"`
	Usage struct {
		Total int      `json:"total_tokens"`
		Steps int      `json:"step_count"`
		Runs  []string `json:"run_ids"`
	} `json:"usage"`
}
