package letta

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"haft"
)

// agentHandlers serve the routes of agents and of their tools.
type agentHandlers struct {
	agents haft.Agents
	calls  haft.Caller
	tools  toolHandlers
	lock   sync.Locker // [Config.Agents]
}

// A wireAgent is an agent in Letta's form. Only the fields about tools have content; the others
// have the values of an agent without a model and a memory.
type wireAgent struct {
	ID          string         `json:"id"`
	Name        string         `json:"name"`
	AgentType   string         `json:"agent_type"`
	System      string         `json:"system"`
	Description *string        `json:"description"`
	Tools       []wireTool     `json:"tools"`
	Rules       []any          `json:"tool_rules"`
	Secrets     []wireVariable `json:"secrets"`
	Env         []wireVariable `json:"tool_exec_environment_variables"`
	Tags        []string       `json:"tags"`
	Blocks      []any          `json:"blocks"`
	Memory      map[string]any `json:"memory"`
	Sources     []any          `json:"sources"`
	Identities  []any          `json:"identities"`
	IdentityIDs []any          `json:"identity_ids"`
	MessageIDs  []any          `json:"message_ids"`
	LLM         map[string]any `json:"llm_config"`
	Embedding   map[string]any `json:"embedding_config"`
	Metadata    map[string]any `json:"metadata"`
	Created     time.Time      `json:"created_at"`
	Updated     time.Time      `json:"updated_at"`
	Autoclear   bool           `json:"message_buffer_autoclear"`
}

// A wireVariable is a variable of an agent. Its value is never shown again.
type wireVariable struct {
	ID    string `json:"id"`
	Agent string `json:"agent_id"`
	Key   string `json:"key"`
	Value string `json:"value"`
}

// showAgentState writes an agent. Known has the tools that were looked up already.
func (h agentHandlers) showAgentState(ctx context.Context, p haft.Principal, a haft.Agent,
	known map[string]*wireTool) (*wireAgent, error) {
	id := agentID(a.ID)
	w := &wireAgent{
		ID: id, Name: a.Name, AgentType: "letta_v1_agent", Tools: []wireTool{}, Rules: []any{},
		Secrets: []wireVariable{},
		Tags:    []string{}, Blocks: []any{}, Memory: map[string]any{"blocks": []any{}, "prompt_template": ""},
		Sources:    []any{},
		Identities: []any{}, IdentityIDs: []any{}, MessageIDs: []any{},
		LLM:       map[string]any{"model": "none", "model_endpoint_type": "openai", "context_window": 0},
		Embedding: map[string]any{"embedding_model": "none", "embedding_endpoint_type": "openai", "embedding_dim": 0},
		Metadata:  map[string]any{"haft": map[string]any{"id": a.ID, "disabled": a.Disabled}},
		Created:   a.Created.UTC(), Updated: a.Updated.UTC(),
	}
	for _, name := range a.Tools {
		t, err := h.cachedTool(ctx, p, name, known)
		if err != nil {
			return nil, err
		}
		if t == nil {
			continue // it was removed
		}
		w.Tools = append(w.Tools, *t)
		if t.RequiresApproval && !slices.ContainsFunc(a.Rules,
			func(r haft.ToolRule) bool { return r.Type == haft.RuleApproval && r.Tool == name }) {
			// Letta writes the demand of a tool down as a rule of the agent.
			a.Rules = append(slices.Clone(a.Rules), haft.ToolRule{Type: haft.RuleApproval, Tool: name})
		}
	}
	for _, r := range a.Rules {
		w.Rules = append(w.Rules, r)
	}
	for _, name := range slices.Sorted(maps.Keys(a.Env)) {
		w.Secrets = append(w.Secrets, wireVariable{ID: digestID(secretWord, string(a.ID), name), Agent: id, Key: name})
	}
	w.Env = w.Secrets
	return w, nil
}

// cachedTool returns the tool of that name, or nil if it was removed. It remembers tools
// in known.
func (h agentHandlers) cachedTool(ctx context.Context, p haft.Principal, name string,
	known map[string]*wireTool) (*wireTool, error) {
	if t, ok := known[name]; ok {
		return t, nil
	}
	t, err := h.tools.tools.Tool(ctx, p, name)
	if isNotFound(err) {
		known[name] = nil
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	w := h.tools.toWire(ctx, p, *t)
	known[name] = &w
	return &w, nil
}

// findAgent returns the agent with Letta's id.
func (h agentHandlers) findAgent(ctx context.Context, p haft.Principal, id string) (*haft.Agent, error) {
	ours, isMade, err := readID(agentWord, agentPrefix, id)
	if err != nil {
		return nil, err
	}
	if !isMade {
		a, err := h.agents.Agent(ctx, p, ours)
		if err == nil && string(a.ID) == ours { // and not an agent with that name
			return a, nil
		}
		if err != nil && !isNotFound(err) {
			return nil, err
		}
	}
	if isMade { // it has an id of an older form
		for a, err := range h.agents.AgentList(ctx, p, haft.AgentFilter{}) {
			if err != nil {
				return nil, err
			}
			if agentID(a.ID) == id {
				return &a, nil
			}
		}
	}
	return nil, notFound("there is no agent with that id")
}

// pathAgent is the agent that the path names.
func (h agentHandlers) pathAgent(ctx context.Context, q *request) (*haft.Agent, error) {
	return h.findAgent(ctx, q.who.Principal, q.PathValue("agent"))
}

// agentBody describes an agent to write.
type agentBody struct {
	Name      *string            `json:"name"`
	ToolIDs   *[]string          `json:"tool_ids"`
	Tools     []string           `json:"tools"`
	Rules     *[]json.RawMessage `json:"tool_rules"`
	Secrets   map[string]*string `json:"secrets"`
	Env       map[string]*string `json:"tool_exec_environment_variables"`
	BaseTools *bool              `json:"include_base_tools"`
}

// ignoredAgentFields are the fields about the model and the memory of an agent. Requests
// may have them, but Haft does not store them, since no model talks to the agent here.
func ignoredAgentFields() []string {
	return strings.Fields(`agent_type base_template_id block_ids compaction_settings context_window_limit description
		embedding embedding_chunk_size embedding_config enable_reasoner enable_sleeptime folder_ids from_template hidden
		identity_ids include_base_tool_rules include_default_source include_multi_agent_tools initial_message_sequence
		last_run_completion last_run_duration_ms last_stop_reason llm_config max_files_open max_reasoning_tokens
		max_tokens memory_blocks memory_variables message_buffer_autoclear message_ids metadata model model_settings
		parallel_tool_calls per_file_view_window_char_limit project project_id reasoning response_format source_ids
		system tags template template_id timezone`)
}

// rulesOf reads tool rules. Unknown fields are dropped.
func rulesOf(list []json.RawMessage) ([]haft.ToolRule, error) {
	rules := make([]haft.ToolRule, 0, len(list))
	for _, raw := range list {
		var r haft.ToolRule
		if err := json.Unmarshal(raw, &r); err != nil {
			return nil, unprocessable("body tool_rules: a rule does not fit")
		}
		r.Prompt = "" // a text for a model, which is not here
		if !slices.Contains(haft.RuleTypes(), r.Type) {
			return nil, unprocessable("body tool_rules: there is no such type of rule")
		}
		rules = append(rules, r)
	}
	return rules, nil
}

// applyBody applies a body to an agent.
func (h agentHandlers) applyBody(ctx context.Context, q *request, a *haft.Agent, b agentBody) error {
	if b.ToolIDs != nil {
		a.Tools = nil
		for _, id := range *b.ToolIDs {
			t, err := h.tools.find(ctx, q.who.Principal, id)
			if err != nil {
				return err
			}
			a.Tools = append(a.Tools, t.Name)
		}
	}
	a.Tools = append(a.Tools, b.Tools...)
	if b.BaseTools != nil && *b.BaseTools {
		for t, err := range h.tools.tools.Tools(ctx, q.who.Principal, haft.ToolFilter{Kind: haft.KindBuiltin}) {
			if err != nil {
				return err
			}
			a.Tools = append(a.Tools, t.Name)
		}
	}
	slices.Sort(a.Tools)
	a.Tools = slices.Compact(a.Tools)
	if b.Rules != nil {
		rules, err := rulesOf(*b.Rules)
		if err != nil {
			return err
		}
		a.Rules = rules
	}
	for _, set := range []map[string]*string{b.Env, b.Secrets} {
		if set == nil {
			continue
		}
		a.Env = map[string]string{} // it replaces the stored environment; an empty value keeps the stored one
		for k, v := range set {
			if v != nil {
				a.Env[k] = *v
			}
		}
	}
	return nil
}

func (h agentHandlers) createAgent(ctx context.Context, q *request) (any, error) {
	var b agentBody
	if err := q.read(&b, ignoredAgentFields()...); err != nil {
		return nil, err
	}
	a := haft.Agent{Name: "agent_" + strings.ToLower(rand.Text()[:8])}
	if b.Name != nil && *b.Name != "" {
		a.Name = ourName(*b.Name)
	}
	if err := h.applyBody(ctx, q, &a, b); err != nil {
		return nil, err
	}
	h.lock.Lock()
	defer h.lock.Unlock()
	if err := h.freeName(ctx, q, a.Name); err != nil {
		return nil, err
	}
	return h.putAgent(ctx, q, a)
}

// freeName refuses the name of an existing agent: writing it would replace that agent.
func (h agentHandlers) freeName(ctx context.Context, q *request, name string) error {
	switch _, err := h.agents.Agent(ctx, q.who.Principal, name); {
	case err == nil:
		return conflict("there is an agent of that name, and names are unique here")
	case !isNotFound(err):
		return err
	}
	return nil
}

// putAgent writes an agent. Precondition: lock is held.
func (h agentHandlers) putAgent(ctx context.Context, q *request, a haft.Agent) (*wireAgent, error) {
	kept, err := h.agents.PutAgent(ctx, q.who.Principal, a)
	if err != nil {
		return nil, err
	}
	return h.showAgentState(ctx, q.who.Principal, *kept, map[string]*wireTool{})
}

func (h agentHandlers) showAgent(ctx context.Context, q *request, a haft.Agent) (any, error) {
	return h.showAgentState(ctx, q.who.Principal, a, map[string]*wireTool{})
}

func (h agentHandlers) updateAgent(ctx context.Context, q *request) (any, error) {
	var b agentBody
	if err := q.read(&b, ignoredAgentFields()...); err != nil {
		return nil, err
	}
	return h.changeAgent(ctx, q, func(a *haft.Agent) error {
		if b.Name != nil && ourName(*b.Name) != a.Name {
			return invalid("an agent keeps its name here: create one of the other name")
		}
		return h.applyBody(ctx, q, a, b)
	})
}

func (h agentHandlers) deleteAgent(ctx context.Context, q *request, a haft.Agent) (any, error) {
	h.lock.Lock()
	defer h.lock.Unlock()
	return nil, h.agents.RemoveAgent(ctx, q.who.Principal, string(a.ID), "")
}

// changeAgent reads, changes and writes the agent of the path. It removes tools that no
// longer exist, and the rules about them: the service would refuse an agent that has them.
func (h agentHandlers) changeAgent(ctx context.Context, q *request, how func(*haft.Agent) error) (*wireAgent, error) {
	h.lock.Lock()
	defer h.lock.Unlock()
	a, err := h.pathAgent(ctx, q)
	if err != nil {
		return nil, err
	}
	var lost []string
	for _, name := range a.Tools {
		if _, err := h.tools.tools.Tool(ctx, q.who.Principal, name); isNotFound(err) {
			lost = append(lost, name)
		} else if err != nil {
			return nil, err
		}
	}
	for _, name := range lost {
		removeTool(a, name)
	}
	if err := how(a); err != nil {
		return nil, err
	}
	return h.putAgent(ctx, q, *a)
}

// wantedAgents returns the agents that a query wants.
func (h agentHandlers) wantedAgents(ctx context.Context, q *request) ([]item[haft.Agent], error) {
	query := q.URL.Query()
	named, part := query.Get("name"), strings.ToLower(query.Get("query_text"))
	var all []item[haft.Agent]
	for a, err := range h.agents.AgentList(ctx, q.who.Principal, haft.AgentFilter{}) {
		if err != nil {
			return nil, err
		}
		if named != "" && a.Name != ourName(named) || !strings.Contains(strings.ToLower(a.Name), part) ||
			len(query["tags"]) > 0 {
			continue // no agent has tags here
		}
		all = append(all, agentItem(a))
	}
	return all, nil
}

func agentItem(a haft.Agent) item[haft.Agent] { return item[haft.Agent]{a.Created, string(a.ID), a} }

func (h agentHandlers) listAgents(ctx context.Context, q *request) (any, error) {
	pg, err := paging(q.URL.Query(), 50)
	if err != nil {
		return nil, err
	}
	oldest, err := boolParam(q.URL.Query(), "ascending")
	if err != nil {
		return nil, err
	}
	pg.oldest = pg.oldest || oldest
	all, err := h.wantedAgents(ctx, q)
	if err != nil {
		return nil, err
	}
	part, err := cut(pg, all, func(id string) (item[haft.Agent], error) {
		a, err := h.findAgent(ctx, q.who.Principal, id)
		if err != nil {
			return item[haft.Agent]{}, err
		}
		return agentItem(*a), nil
	})
	if err != nil {
		return nil, err
	}
	list, known := []*wireAgent{}, map[string]*wireTool{}
	for _, a := range part {
		w, err := h.showAgentState(ctx, q.who.Principal, a, known)
		if err != nil {
			return nil, err
		}
		list = append(list, w)
	}
	return list, nil
}

func (h agentHandlers) countAgents(ctx context.Context, q *request) (any, error) {
	all, err := h.wantedAgents(ctx, q)
	return len(all), err
}
