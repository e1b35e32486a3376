package letta

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"haft"
)

// agentBody describes an agent to write.
type agentBody struct {
	Name        *string            `json:"name"`
	Description *string            `json:"description"`
	System      *string            `json:"system"`
	Model       *string            `json:"model"`
	LLM         json.RawMessage    `json:"llm_config"`
	Tags        *[]string          `json:"tags"`
	Blocks      []blockBody        `json:"memory_blocks"`
	BlockIDs    *[]haft.BlockID    `json:"block_ids"`
	ToolIDs     *[]string          `json:"tool_ids"`
	Tools       []string           `json:"tools"`
	Rules       *[]json.RawMessage `json:"tool_rules"`
	Secrets     map[string]*string `json:"secrets"`
	Env         map[string]*string `json:"tool_exec_environment_variables"`
	BaseTools   *bool              `json:"include_base_tools"`
	Metadata    *metadata          `json:"metadata"`
	keptFields
}

// metadata is what a client keeps with an agent.
type metadata = map[string]json.RawMessage

// ignoredAgentFields are fields of agents that requests may have, and that nothing here depends on.
func ignoredAgentFields() []string {
	return strings.Fields(`agent_type compaction_settings context_window_limit
		embedding embedding_chunk_size embedding_config enable_reasoner enable_sleeptime folder_ids from_template hidden
		identity_ids include_base_tool_rules include_default_source include_multi_agent_tools initial_message_sequence
		last_run_completion last_run_duration_ms last_stop_reason max_files_open max_reasoning_tokens
		max_tokens memory_variables message_buffer_autoclear message_ids model_settings
		parallel_tool_calls per_file_view_window_char_limit project reasoning response_format source_ids
		template`)
}

// baseTools are the built-in tools by which an agent remembers. Those of them that the server has are attached.
func baseTools() []string {
	return []string{"archival_memory_insert", "archival_memory_search", "conversation_search", "memory_insert",
		"memory_replace"}
}

// rulesOf reads tool rules. Unknown fields are dropped.
func rulesOf(list []json.RawMessage) ([]haft.ToolRule, error) {
	rules := make([]haft.ToolRule, 0, len(list))
	for _, raw := range list {
		var r haft.ToolRule
		if err := json.Unmarshal(raw, &r); err != nil {
			return nil, unprocessable("body tool_rules: a rule does not fit")
		}
		r.Prompt = "" // a template of Letta's own
		if r.RequireOutput {
			r.Default = "" // Letta does not look at it either
		}
		if !slices.Contains(haft.RuleTypes(), r.Type) {
			return nil, unprocessable("body tool_rules: there is no such type of rule")
		}
		rules = append(rules, r)
	}
	return rules, nil
}

// setTexts applies the texts of a body to an agent. The name of the model is that of its handle.
func (b agentBody) setTexts(a *haft.Agent) error {
	var old struct{ Handle, Model string }
	if b.Model == nil && isSet(b.LLM) {
		if err := json.Unmarshal(b.LLM, &old); err != nil {
			return unprocessable("body llm_config: expected an object with the name of a model")
		}
		old.Model = cmp.Or(old.Handle, old.Model)
		b.Model = &old.Model
	}
	setIf(&a.Description, b.Description)
	setIf(&a.Instructions, b.System)
	setIf(&a.Model, b.Model)
	setIf(&a.Tags, b.Tags)
	return b.setMetadata(a)
}

// setMetadata writes what a body has for programs. What Haft keeps there itself stays.
func (b agentBody) setMetadata(a *haft.Agent) error {
	old := keptOf(*a)
	kept := keptFields{cmp.Or(b.Project, old.Project), cmp.Or(b.Template, old.Template),
		cmp.Or(b.BaseTemplate, old.BaseTemplate), cmp.Or(b.Deployment, old.Deployment),
		cmp.Or(b.Entity, old.Entity), cmp.Or(b.Timezone, old.Timezone)}
	setIf(&a.Metadata, b.Metadata)
	a.Metadata = maps.Clone(a.Metadata)
	delete(a.Metadata, ownKey) // what a client sends back of it was only shown
	if kept == (keptFields{}) {
		return nil
	}
	raw, err := json.Marshal(kept)
	if err != nil {
		return fmt.Errorf("encode the fields of an agent: %w", err)
	}
	if a.Metadata == nil {
		a.Metadata = metadata{}
	}
	a.Metadata[ownKey] = raw
	return nil
}

// applyBody applies a body to an agent, but for its blocks.
func (h agentHandlers) applyBody(ctx context.Context, q *request, a *haft.Agent, b agentBody) error {
	model := a.Model
	if err := b.setTexts(a); err != nil {
		return err
	}
	if a.Model != model {
		if err := h.checkModel(ctx, q, a.Model); err != nil {
			return err
		}
	}
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
	for _, name := range baseTools() {
		if b.BaseTools == nil || !*b.BaseTools {
			break
		}
		if _, err := h.tools.tools.Tool(ctx, q.who.Principal, name); err == nil {
			a.Tools = append(a.Tools, name)
		} else if !isNotFound(err) {
			return err
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
	if b.BaseTools == nil { // Letta attaches them by default; an agent without blocks has little use for them
		has := len(b.Blocks) > 0 || b.BlockIDs != nil && len(*b.BlockIDs) > 0
		b.BaseTools = &has
	}
	var made undo
	a, err := h.addAgent(ctx, q, b, &made)
	if err != nil {
		return nil, made.takeBack(ctx, err)
	}
	return h.showAgentState(ctx, q.who.Principal, *a, map[string]*wireTool{})
}

// addAgent adds an agent with its blocks. Made gets what takes back each part, also if a later one fails.
func (h agentHandlers) addAgent(ctx context.Context, q *request, b agentBody, made *undo) (*haft.Agent, error) {
	a := haft.Agent{Name: "agent_" + strings.ToLower(rand.Text()[:8])}
	if b.Name != nil && *b.Name != "" {
		a.Name = ourName(*b.Name)
		if _, _, err := readID(agentWord, agentPrefix, a.Name); err == nil {
			a.Name = "_" + a.Name // no agent is named like the id of another
		}
		setTitle(&a, *b.Name)
	}
	if err := h.applyBody(ctx, q, &a, b); err != nil {
		return nil, err
	}
	blocks, err := h.blocks.described(b)
	if err != nil {
		return nil, err
	}
	kept, err := h.putNew(ctx, q, a)
	if err != nil {
		return nil, err
	}
	*made = append(*made, func(ctx context.Context) error {
		return h.agents.RemoveAgent(ctx, q.who.Principal, string(kept.ID), "")
	})
	return kept, h.blocks.addTo(ctx, q, kept.ID, blocks, b.BlockIDs, made)
}

// setTitle gives an agent a name of Letta. The name by which the service knows it stays.
func setTitle(a *haft.Agent, name string) {
	if a.Title = strings.TrimSpace(name); a.Title == a.Name {
		a.Title = ""
	}
}

// putNew writes an agent under a new name: if there is one of that name, which writing would replace, some letters are
// added to it. The lock is that of all organisations: nothing else is done under it.
func (h agentHandlers) putNew(ctx context.Context, q *request, a haft.Agent) (*haft.Agent, error) {
	h.lock.Lock()
	defer h.lock.Unlock()
	switch _, err := h.agents.Agent(ctx, q.who.Principal, a.Name); {
	case err == nil:
		title := titleOf(a)
		a.Name = a.Name[:min(len(a.Name), haft.MaxToolName-9)] + "_" + strings.ToLower(rand.Text()[:8])
		setTitle(&a, title)
	case !isNotFound(err):
		return nil, err
	}
	a.If = haft.IfNone
	return h.agents.PutAgent(ctx, q.who.Principal, a)
}

// An undo takes back what a request made.
type undo []func(ctx context.Context) error

// takeBack takes everything back, the last first, because of err, which it returns. It has some time for that,
// also if the client is gone.
func (u undo) takeBack(ctx context.Context, err error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	for _, f := range slices.Backward(u) {
		if failed := f(ctx); failed != nil {
			err = errors.Join(err, fmt.Errorf("take back what the request made: %w", failed))
		}
	}
	return err
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
	if len(b.Blocks) > 0 {
		return nil, unprocessable("body memory_blocks: extra fields are not permitted")
	}
	var made undo // blocks are kept elsewhere than agents: both are changed or none
	if b.BlockIDs != nil {
		a, err := h.pathAgent(ctx, q)
		if err != nil {
			return nil, err
		}
		if err := h.blocks.setBlocks(ctx, q, *a, *b.BlockIDs, &made); err != nil {
			return nil, made.takeBack(ctx, err)
		}
	}
	w, err := h.changeAgent(ctx, q, func(a *haft.Agent) error {
		if b.Name != nil {
			setTitle(a, *b.Name)
		}
		return h.applyBody(ctx, q, a, b)
	})
	if err != nil {
		return nil, made.takeBack(ctx, err)
	}
	return w, nil
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
