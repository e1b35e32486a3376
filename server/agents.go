package server

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"slices"
	"sync"

	"haft"
)

// AgentBody describes an agent to write.
type AgentBody struct {
	Title        string   `json:"title,omitempty" maxLength:"512" doc:"What people call it."`
	Description  string   `json:"description,omitempty" maxLength:"10000" doc:"What it is for."`
	Instructions string   `json:"instructions,omitempty" maxLength:"400000" doc:"What its model gets before everything else."`
	Model        string   `json:"model,omitempty" maxLength:"256" doc:"The name of the model that it uses; see GET /v1/models."`
	Tags         []string `json:"tags,omitempty" maxItems:"50" maxLength:"100"`
	Tools        []string `json:"tools,omitempty" maxItems:"1000" maxLength:"200" doc:"The names of the tools it may call."`
	Workspace    string   `json:"workspace,omitempty" maxLength:"140" doc:"The workspace of its calls which name none, if their tool takes one: a name, or NAME:ro."`
	Sandbox      string   `json:"sandbox,omitempty" maxLength:"64" doc:"The sandbox of its calls for which neither call nor tool names one."`
	// Env is write-only: answers have the names, and no values.
	Env      map[string]string `json:"env,omitempty" doc:"Added to the environment of its calls. Values are never shown again; an empty one keeps what is there."`
	Rules    []haft.ToolRule   `json:"tool_rules,omitempty" maxItems:"100"`
	Disabled bool              `json:"disabled,omitempty"`
	// Metadata is for programs.
	Metadata map[string]json.RawMessage `json:"metadata,omitempty" maxProperties:"100" doc:"What programs keep with it: at most 100 values, 64 KiB."`
	If       string                     `json:"if_revision,omitempty" maxLength:"100" doc:"The revision that the agent must have, which is its ETag without quotes; If-Match does the same."`
}

// AgentRef names an agent in a path.
type AgentRef struct {
	Agent string `path:"agent" maxLength:"200" doc:"The name or id of the agent."`
}

// agentHandlers serve the operations on agents.
type agentHandlers struct {
	agents haft.Agents
	tools  haft.ToolReader
	lock   sync.Locker // [Config.Agents]
}

// agents registers the operations on agents.
func (a *api) agents() {
	g := a.group("agents", haft.AgentsRead, haft.AgentsWrite)
	h := agentHandlers{a.s.service, a.s.service, a.s.cfg.Agents}
	register(g.op("GET /v1/agents", "list-agents", "List agents by name"), h.listAgents)
	register(g.op("POST /v1/agents", "add-agent", "Add an agent").answers(http.StatusCreated).conflicts(), h.addAgent)
	register(g.op("GET /v1/agents/{agent}", "show-agent", "Show an agent"), h.showAgent)
	register(g.op("PUT /v1/agents/{agent}", "put-agent", "Replace an agent, or add it under that name").
		answers(0, http.StatusCreated).conditional(), h.putAgent)
	register(g.op("PATCH /v1/agents/{agent}", "set-agent", "Change some of an agent").conditional(), h.setAgent)
	register(g.op("DELETE /v1/agents/{agent}", "remove-agent", "Remove an agent").conditional(), h.removeAgent)
	register(g.op("PUT /v1/agents/{agent}/tools/{ref}", "attach-tool", "Give an agent a tool").conflicts(),
		h.attachTool)
	register(g.op("DELETE /v1/agents/{agent}/tools/{ref}", "detach-tool", "Take a tool from an agent").conflicts(),
		h.detachTool)
}

type listAgents struct {
	Paging
	Tool    string `query:"tool" maxLength:"200" doc:"The name of a tool that they have."`
	Enabled string `query:"enabled" enum:"true,false" doc:"List only those that are enabled, or only those that are not."`
	Prefix  string `query:"prefix" maxLength:"64" doc:"How their names begin."`
	After   string `query:"after" maxLength:"64" doc:"A name: only agents behind it are listed. The cursor of a page does the same."`
}

func (h agentHandlers) listAgents(ctx context.Context, who Identity, in *listAgents) (*Listed[haft.Agent], error) {
	f := haft.AgentFilter{Tool: in.Tool, Enabled: flag(in.Enabled), Prefix: in.Prefix, Limit: in.Limit + 1}
	return pageOf(in.Paging, "agents", func(a haft.Agent) string { return a.Name },
		func(after string) iter.Seq2[haft.Agent, error] {
			f.After = cmp.Or(after, in.After)
			return h.agents.AgentList(ctx, who.Principal, f)
		})
}

type addAgent struct {
	Body struct {
		Name string `json:"name" minLength:"1" maxLength:"64"`
		AgentBody
	}
}

func (h agentHandlers) addAgent(ctx context.Context, who Identity, in *addAgent) (*stored[haft.Agent], error) {
	h.lock.Lock()
	defer h.lock.Unlock()
	switch _, err := h.agents.Agent(ctx, who.Principal, in.Body.Name); {
	case err == nil:
		return nil, &haft.Error{Code: haft.CodeConflict, Message: "there is an agent of that name"}
	case haft.CodeOf(err) != haft.CodeNotFound:
		return nil, err
	}
	in.Body.If = haft.IfNone
	return h.storeAgent(ctx, who, http.StatusCreated, in.Body.agent(in.Body.Name))
}

// agent makes an agent of a body.
func (b AgentBody) agent(name string) haft.Agent {
	return haft.Agent{Name: name, Title: b.Title, Metadata: b.Metadata, Description: b.Description,
		Instructions: b.Instructions, Model: b.Model, Tags: b.Tags, Tools: b.Tools, Workspace: b.Workspace,
		Sandbox: b.Sandbox, Env: b.Env, Rules: b.Rules, Disabled: b.Disabled, If: b.If}
}

// storeAgent writes an agent.
func (h agentHandlers) storeAgent(ctx context.Context, who Identity, status int,
	a haft.Agent) (*stored[haft.Agent], error) {
	out, err := found(h.agents.PutAgent(ctx, who.Principal, a))
	if err == nil {
		out.Status, out.Location = status, "/v1/agents/"+string(out.Body.ID)
	}
	return out, err
}

func (h agentHandlers) showAgent(ctx context.Context, who Identity, in *AgentRef) (*stored[haft.Agent], error) {
	return found(h.agents.Agent(ctx, who.Principal, in.Agent))
}

type putAgent struct {
	AgentRef
	Condition
	Body AgentBody
}

func (h agentHandlers) putAgent(ctx context.Context, who Identity, in *putAgent) (*stored[haft.Agent], error) {
	h.lock.Lock()
	defer h.lock.Unlock()
	return replace(in.Condition, func() (*haft.Agent, error) { return h.agents.Agent(ctx, who.Principal, in.Agent) },
		func(old *haft.Agent, condition string) (*stored[haft.Agent], error) {
			name, status := in.Agent, http.StatusCreated
			if old != nil {
				name, status = old.Name, http.StatusOK
			}
			in.Body.If = cmp.Or(condition, in.Body.If)
			return h.storeAgent(ctx, who, status, in.Body.agent(name))
		})
}

type setAgent struct {
	AgentRef
	Condition
	Body struct {
		Title        *string   `json:"title,omitempty" maxLength:"512"`
		Description  *string   `json:"description,omitempty" maxLength:"10000"`
		Instructions *string   `json:"instructions,omitempty" maxLength:"400000"`
		Model        *string   `json:"model,omitempty" maxLength:"256"`
		Tags         *[]string `json:"tags,omitempty" maxItems:"50" maxLength:"100"`
		Tools        *[]string `json:"tools,omitempty" maxItems:"1000" maxLength:"200"`
		Workspace    *string   `json:"workspace,omitempty" maxLength:"140"`
		Sandbox      *string   `json:"sandbox,omitempty" maxLength:"64"`
		// Env is merged into the stored environment.
		Env      map[string]*string `json:"env,omitempty" doc:"Merged into what is there; null removes a variable."`
		Rules    *[]haft.ToolRule   `json:"tool_rules,omitempty" maxItems:"100"`
		Disabled *bool              `json:"disabled,omitempty"`
		// Metadata replaces all of what is there.
		Metadata *map[string]json.RawMessage `json:"metadata,omitempty" maxProperties:"100"`
	}
}

func (h agentHandlers) setAgent(ctx context.Context, who Identity, in *setAgent) (*stored[haft.Agent], error) {
	return h.changeAgent(ctx, who, in.Agent, in.Condition, func(a *haft.Agent) error {
		b := in.Body
		setField(&a.Title, b.Title)
		setField(&a.Metadata, b.Metadata)
		setField(&a.Description, b.Description)
		setField(&a.Instructions, b.Instructions)
		setField(&a.Model, b.Model)
		setField(&a.Tags, b.Tags)
		setField(&a.Tools, b.Tools)
		setField(&a.Workspace, b.Workspace)
		setField(&a.Sandbox, b.Sandbox)
		setField(&a.Rules, b.Rules)
		setField(&a.Disabled, b.Disabled)
		if a.Env == nil {
			a.Env = map[string]string{}
		}
		for name, value := range b.Env {
			if value == nil {
				delete(a.Env, name)
				continue
			}
			a.Env[name] = *value
		}
		return nil
	})
}

// setField replaces a field, unless the request leaves it out.
func setField[T any](field, next *T) {
	if next != nil {
		*field = *next
	}
}

// changeTries is how often a change is tried while other processes change the same agent.
const changeTries = 5

// changeAgent reads, changes and writes an agent. It writes only over the revision that it
// read, so that no other change gets lost. The service keeps the values of the environment.
func (h agentHandlers) changeAgent(ctx context.Context, who Identity, ref string, c Condition,
	change func(*haft.Agent) error) (*stored[haft.Agent], error) {
	h.lock.Lock()
	defer h.lock.Unlock()
	for try := 1; ; try++ {
		a, err := h.agents.Agent(ctx, who.Principal, ref)
		if err != nil {
			return nil, err
		}
		if _, err := c.revision(a.Revision()); err != nil {
			return nil, err
		}
		if err := change(a); err != nil {
			return nil, err
		}
		a.If = a.Revision()
		out, err := h.storeAgent(ctx, who, http.StatusOK, *a)
		if haft.CodeOf(err) != haft.CodeConflict || c != (Condition{}) || try == changeTries {
			return out, c.failed(err)
		}
	}
}

type removeAgent struct {
	AgentRef
	RemoveIf
}

func (h agentHandlers) removeAgent(ctx context.Context, who Identity, in *removeAgent) (*struct{}, error) {
	h.lock.Lock()
	defer h.lock.Unlock()
	return remove(in.RemoveIf, func() (*haft.Agent, error) { return h.agents.Agent(ctx, who.Principal, in.Agent) },
		func(revision string) error { return h.agents.RemoveAgent(ctx, who.Principal, in.Agent, revision) })
}

type agentTool struct {
	AgentRef
	ToolRef
}

func (h agentHandlers) attachTool(ctx context.Context, who Identity, in *agentTool) (*stored[haft.Agent], error) {
	t, err := h.tools.Tool(ctx, who.Principal, in.Ref)
	if err != nil {
		return nil, err
	}
	return h.changeAgent(ctx, who, in.Agent, Condition{}, func(a *haft.Agent) error {
		if !slices.Contains(a.Tools, t.Name) {
			a.Tools = append(a.Tools, t.Name)
		}
		return nil
	})
}

func (h agentHandlers) detachTool(ctx context.Context, who Identity, in *agentTool) (*stored[haft.Agent], error) {
	name := in.Ref
	if t, err := h.tools.Tool(ctx, who.Principal, in.Ref); err == nil {
		name = t.Name // else it may be gone, and the agent still has it
	}
	return h.changeAgent(ctx, who, in.Agent, Condition{}, func(a *haft.Agent) error {
		n := len(a.Tools)
		if a.Tools = slices.DeleteFunc(a.Tools, func(t string) bool { return t == name }); len(a.Tools) == n {
			return &haft.Error{Code: haft.CodeNotFound, Message: "the agent does not have that tool"}
		}
		return nil
	})
}
