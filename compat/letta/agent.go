package letta

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/url"
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
	blocks blockHandlers
	lock   sync.Locker // [Config.Agents]
	models haft.Models // may be nil
}

// A wireAgent is an agent in Letta's form. Fields about sources, identities and embeddings have the
// values of an agent without them.
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
	Blocks      []wireBlock    `json:"blocks"`
	Memory      map[string]any `json:"memory"`
	Sources     []any          `json:"sources"`
	Identities  []any          `json:"identities"`
	IdentityIDs []any          `json:"identity_ids"`
	MessageIDs  []any          `json:"message_ids"`
	Model       *string        `json:"model"`
	LLM         map[string]any `json:"llm_config"`
	Embedding   map[string]any `json:"embedding_config"`
	Metadata    map[string]any `json:"metadata"`
	CreatedBy   *string        `json:"created_by_id"`
	Created     time.Time      `json:"created_at"`
	Updated     time.Time      `json:"updated_at"`
	Autoclear   bool           `json:"message_buffer_autoclear"`
	keptFields
	absentFields
}

// keptFields are what Letta keeps with an agent and nothing here depends on. They are shown again, and agents are
// found by them.
type keptFields struct {
	Project      *string `json:"project_id"`
	Template     *string `json:"template_id"`
	BaseTemplate *string `json:"base_template_id"`
	Deployment   *string `json:"deployment_id"`
	Entity       *string `json:"entity_id"`
	Timezone     *string `json:"timezone"`
}

// absentFields are what an agent has in Letta and not here. They are null.
type absentFields struct {
	UpdatedBy  any `json:"last_updated_by_id"`
	Embeds     any `json:"embedding"`
	Settings   any `json:"model_settings"`
	Format     any `json:"response_format"`
	Compaction any `json:"compaction_settings"`
	Sleeptime  any `json:"enable_sleeptime"`
	Completion any `json:"last_run_completion"`
	Duration   any `json:"last_run_duration_ms"`
	Stop       any `json:"last_stop_reason"`
	Managed    any `json:"managed_group"`
	Group      any `json:"multi_agent_group"`
	Pending    any `json:"pending_approval"`
	MaxFiles   any `json:"max_files_open"`
	View       any `json:"per_file_view_window_char_limit"`
	Hidden     any `json:"hidden"`
}

// ownKey is the member of the metadata of an agent in which Haft keeps and shows what is its own.
const ownKey = "haft"

// keptOf returns what Letta keeps with an agent.
func keptOf(a haft.Agent) (kept keptFields) {
	if raw, ok := a.Metadata[ownKey]; ok {
		_ = json.Unmarshal(raw, &kept) // another program may have put something else there
	}
	return kept
}

// titleOf is what Letta calls the name of an agent. Several agents can have the same one.
func titleOf(a haft.Agent) string { return cmp.Or(a.Title, a.Name) }

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
		ID: id, Name: titleOf(a), keptFields: keptOf(a), AgentType: "letta_v1_agent", Tools: []wireTool{},
		Rules:   []any{},
		Secrets: []wireVariable{},
		System:  a.Instructions, Tags: append([]string{}, a.Tags...), Sources: []any{},
		Identities: []any{}, IdentityIDs: []any{}, MessageIDs: []any{},
		LLM: map[string]any{"model": cmp.Or(a.Model, "none"), "model_endpoint_type": "openai",
			"context_window": 0},
		Embedding: map[string]any{"embedding_model": "none", "embedding_endpoint_type": "openai", "embedding_dim": 0},
		Metadata:  map[string]any{},
		Created:   a.Created.UTC(), Updated: a.Updated.UTC(),
	}
	for name, value := range a.Metadata {
		w.Metadata[name] = value
	}
	w.Metadata[ownKey] = map[string]any{"id": a.ID, "name": a.Name, "disabled": a.Disabled}
	if a.CreatedBy != "" {
		by := digestID(userWord, a.Org, a.CreatedBy)
		w.CreatedBy = &by
	}
	if a.Description != "" {
		w.Description = &a.Description
	}
	if a.Model != "" {
		w.Model, w.LLM["handle"] = &a.Model, a.Model
	}
	blocks, err := h.blocks.ofAgent(ctx, p, a)
	if err != nil {
		return nil, err
	}
	w.Blocks, w.Memory = blocks, map[string]any{"blocks": blocks, "prompt_template": ""}
	size := 0
	for _, b := range blocks {
		size += len(b.Value)
	}
	if size > maxPageBytes/2 { // older clients read them here
		w.Memory["blocks"] = []wireBlock{}
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

// wantedAgents calls use for the agents that a query wants.
func (h agentHandlers) wantedAgents(ctx context.Context, q *request, use func(haft.Agent)) error {
	query := q.URL.Query()
	named, part := query.Get("name"), strings.ToLower(query.Get("query_text"))
	tags := listParam(query, "tags")
	switch {
	case query.Get("last_stop_reason") != "":
		return notHere("query last_stop_reason: list the runs with that stop_reason, which name their agents")
	case query.Get("identity_id") != "" || len(query["identifier_keys"]) > 0:
		return nil // no agent has an identity
	}
	every, err := boolParam(query, "match_all_tags")
	if err != nil {
		return err
	}
	for a, err := range h.agents.AgentList(ctx, q.who.Principal, haft.AgentFilter{}) {
		if err != nil {
			return err
		}
		has := func(tag string) bool { return slices.Contains(a.Tags, tag) }
		switch {
		case named != "" && titleOf(a) != named, !strings.Contains(strings.ToLower(titleOf(a)), part):
		case !keptOf(a).fits(query), !wants(query, "created_by_id", digestID(userWord, a.Org, a.CreatedBy)):
		case len(tags) > 0 && !every && !slices.ContainsFunc(tags, has):
		case every && slices.ContainsFunc(tags, func(tag string) bool { return !has(tag) }):
		default:
			use(a)
		}
	}
	return nil
}

// fits reports whether a query wants an agent of which this is kept.
func (k keptFields) fits(query url.Values) bool {
	for name, value := range map[string]*string{"project_id": k.Project, "template_id": k.Template,
		"base_template_id": k.BaseTemplate} {
		have := ""
		setIf(&have, value)
		if !wants(query, name, have) {
			return false
		}
	}
	return true
}

// wants reports whether a query wants a value, or does not care.
func wants(query url.Values, name, value string) bool {
	return query.Get(name) == "" || query.Get(name) == value
}

// byUpdate is the other order of agents.
const byUpdate = "updated_at"

// agentItem is an agent in a list, without its texts, which may be long.
func agentItem(a haft.Agent, query url.Values) item[haft.AgentID] {
	made := a.Created
	if query.Get("order_by") == byUpdate {
		made = a.Updated
	}
	return item[haft.AgentID]{made, string(a.ID), a.ID}
}

func (h agentHandlers) listAgents(ctx context.Context, q *request) (any, error) {
	pg, err := paging(q.URL.Query(), 50, byUpdate)
	if err != nil {
		return nil, err
	}
	oldest, err := boolParam(q.URL.Query(), "ascending")
	if err != nil {
		return nil, err
	}
	pg.oldest = pg.oldest || oldest
	var all []item[haft.AgentID]
	add := func(a haft.Agent) { all = append(all, agentItem(a, q.URL.Query())) }
	if err := h.wantedAgents(ctx, q, add); err != nil {
		return nil, err
	}
	return h.pageOfAgents(ctx, q, pg, all)
}

// pageOfAgents shows the agents of a page.
func (h agentHandlers) pageOfAgents(ctx context.Context, q *request, pg page, all []item[haft.AgentID]) (any, error) {
	part, err := cut(pg, all, func(id string) (item[haft.AgentID], error) {
		a, err := h.findAgent(ctx, q.who.Principal, id)
		if err != nil {
			return item[haft.AgentID]{}, err
		}
		return agentItem(*a, q.URL.Query()), nil
	})
	if err != nil {
		return nil, err
	}
	known := map[string]*wireTool{}
	return within(pg, part, func(id haft.AgentID) (any, error) {
		a, err := h.agents.Agent(ctx, q.who.Principal, string(id))
		if err != nil {
			return nil, err
		}
		return h.showAgentState(ctx, q.who.Principal, *a, known)
	})
}

func (h agentHandlers) countAgents(ctx context.Context, q *request) (any, error) {
	n := 0
	err := h.wantedAgents(ctx, q, func(haft.Agent) { n++ })
	return n, err
}
