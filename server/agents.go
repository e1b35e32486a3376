package server

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	"haft"
)

// AgentBody is what somebody says of an agent.
type AgentBody struct {
	Tools []string `json:"tools,omitempty" maxItems:"1000" maxLength:"200" doc:"The names of the tools it may call."`
	// Env is write-only: answers have the names, and no values.
	Env      map[string]string `json:"env,omitempty" doc:"Added to the environment of its calls. Values are never shown again; an empty one keeps what is there."`
	Rules    []haft.ToolRule   `json:"tool_rules,omitempty" maxItems:"100"`
	Disabled bool              `json:"disabled,omitempty"`
	If       string            `json:"if_revision,omitempty" maxLength:"100" doc:"The revision that the agent must have, which is its ETag without quotes; If-Match does the same."`
}

// AgentRef names an agent in a path.
type AgentRef struct {
	Agent string `path:"agent" maxLength:"200" doc:"The name or id of the agent."`
}

type oneAgent struct {
	Status   int
	ETag     string `header:"ETag"`
	Location string `header:"Location"`
	Body     haft.Agent
}

// agents are the operations on agents.
func (a *api) agents() {
	const tag = "agents"
	conflict, condition := []int{http.StatusConflict}, []int{http.StatusConflict, http.StatusPreconditionFailed}
	register(a, operation{method: http.MethodGet, path: "/v1/agents", id: "list-agents", action: haft.AgentsRead,
		tag: tag, summary: "List agents by name"}, a.s.listAgents)
	register(a, operation{method: http.MethodPost, path: "/v1/agents", id: "add-agent", action: haft.AgentsWrite,
		tag: tag, summary: "Add an agent", status: http.StatusCreated,
		errors: []int{http.StatusConflict, http.StatusNotFound}}, a.s.addAgent)
	register(a, operation{method: http.MethodGet, path: "/v1/agents/{agent}", id: "show-agent", action: haft.AgentsRead,
		tag: tag, summary: "Show an agent"}, a.s.showAgent)
	register(a, operation{method: http.MethodPut, path: "/v1/agents/{agent}", id: "put-agent", action: haft.AgentsWrite,
		tag: tag, summary: "Replace an agent, or add it under that name", also: []int{http.StatusCreated},
		errors: condition}, a.s.putAgent)
	register(a, operation{method: http.MethodPatch, path: "/v1/agents/{agent}", id: "set-agent",
		action: haft.AgentsWrite, tag: tag, summary: "Change some of an agent", errors: condition}, a.s.setAgent)
	register(a, operation{method: http.MethodDelete, path: "/v1/agents/{agent}", id: "remove-agent",
		action: haft.AgentsWrite, tag: tag, summary: "Remove an agent", errors: condition}, a.s.removeAgent)
	register(a, operation{method: http.MethodPut, path: "/v1/agents/{agent}/tools/{ref}", id: "attach-tool",
		action: haft.AgentsWrite, tag: tag, summary: "Give an agent a tool", errors: conflict}, a.s.attachTool)
	register(a, operation{method: http.MethodDelete, path: "/v1/agents/{agent}/tools/{ref}", id: "detach-tool",
		action: haft.AgentsWrite, tag: tag, summary: "Take a tool from an agent", errors: conflict}, a.s.detachTool)
}

type listAgents struct {
	Paging
	Tool    string `query:"tool" maxLength:"200" doc:"The name of a tool that they have."`
	Enabled string `query:"enabled" enum:"true,false" doc:"List only those that are enabled, or only those that are not."`
	Prefix  string `query:"prefix" maxLength:"64" doc:"How their names begin."`
	After   string `query:"after" maxLength:"64" doc:"A name: only agents behind it are listed. The cursor of a page does the same."`
}

func (s *Server) listAgents(ctx context.Context, who Identity, in *listAgents) (*listed[haft.Agent], error) {
	after, err := in.at("agents")
	if err != nil {
		return nil, err
	}
	f := haft.AgentFilter{Tool: in.Tool, Enabled: flag(in.Enabled), Prefix: in.Prefix, After: cmp.Or(after, in.After),
		Limit: in.Limit + 1}
	return collect(s.service.AgentList(ctx, who.Principal, f), in.Paging, "agents", nil,
		func(a haft.Agent) string { return a.Name })
}

type addAgent struct {
	Body struct {
		Name string `json:"name" minLength:"1" maxLength:"64"`
		AgentBody
	}
}

func (s *Server) addAgent(ctx context.Context, who Identity, in *addAgent) (*oneAgent, error) {
	s.cfg.Agents.Lock()
	defer s.cfg.Agents.Unlock()
	switch _, err := s.service.Agent(ctx, who.Principal, in.Body.Name); {
	case err == nil:
		return nil, &haft.Error{Code: haft.CodeConflict, Message: "there is an agent of that name"}
	case haft.CodeOf(err) != haft.CodeNotFound:
		return nil, err
	}
	in.Body.If = haft.IfNone
	return s.keepAgent(ctx, who, http.StatusCreated, in.Body.agent(in.Body.Name))
}

// agent makes an agent of a body.
func (b AgentBody) agent(name string) haft.Agent {
	return haft.Agent{Name: name, Tools: b.Tools, Env: b.Env, Rules: b.Rules, Disabled: b.Disabled, If: b.If}
}

// keepAgent writes an agent.
func (s *Server) keepAgent(ctx context.Context, who Identity, status int, a haft.Agent) (*oneAgent, error) {
	kept, err := s.service.PutAgent(ctx, who.Principal, a)
	if err != nil {
		return nil, err
	}
	return &oneAgent{Status: status, ETag: quote(kept.Revision()), Location: "/v1/agents/" + string(kept.ID),
		Body: *kept}, nil
}

func (s *Server) showAgent(ctx context.Context, who Identity, in *AgentRef) (*oneAgent, error) {
	a, err := s.service.Agent(ctx, who.Principal, in.Agent)
	if err != nil {
		return nil, err
	}
	return &oneAgent{Status: http.StatusOK, ETag: quote(a.Revision()), Body: *a}, nil
}

type putAgent struct {
	AgentRef
	Condition
	Body AgentBody
}

func (s *Server) putAgent(ctx context.Context, who Identity, in *putAgent) (*oneAgent, error) {
	s.cfg.Agents.Lock()
	defer s.cfg.Agents.Unlock()
	name, status, revision := in.Agent, http.StatusCreated, ""
	switch a, err := s.service.Agent(ctx, who.Principal, in.Agent); {
	case err == nil:
		name, status, revision = a.Name, http.StatusOK, a.Revision()
	case haft.CodeOf(err) != haft.CodeNotFound:
		return nil, err
	}
	condition, err := in.revision(revision)
	if err != nil {
		return nil, err
	}
	if condition != "" {
		in.Body.If = condition
	}
	out, err := s.keepAgent(ctx, who, status, in.Body.agent(name))
	return out, in.failed(err)
}

type setAgent struct {
	AgentRef
	Condition
	Body struct {
		Tools *[]string `json:"tools,omitempty" maxItems:"1000" maxLength:"200"`
		// Env is merged into what is there.
		Env      map[string]*string `json:"env,omitempty" doc:"Merged into what is there; null removes a variable."`
		Rules    *[]haft.ToolRule   `json:"tool_rules,omitempty" maxItems:"100"`
		Disabled *bool              `json:"disabled,omitempty"`
	}
}

func (s *Server) setAgent(ctx context.Context, who Identity, in *setAgent) (*oneAgent, error) {
	return s.changeAgent(ctx, who, in.Agent, in.Condition, func(a *haft.Agent) error {
		b := in.Body
		if b.Tools != nil {
			a.Tools = *b.Tools
		}
		if b.Rules != nil {
			a.Rules = *b.Rules
		}
		if b.Disabled != nil {
			a.Disabled = *b.Disabled
		}
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

// changeTries is how often an agent is changed that others change too, elsewhere.
const changeTries = 5

// changeAgent reads, changes and writes an agent, and nobody else's change gets
// lost in between: it is written only over what was read. The values of its
// environment are not among that; the service keeps them.
func (s *Server) changeAgent(ctx context.Context, who Identity, ref string, c Condition,
	change func(*haft.Agent) error) (*oneAgent, error) {
	s.cfg.Agents.Lock()
	defer s.cfg.Agents.Unlock()
	for try := 1; ; try++ {
		a, err := s.service.Agent(ctx, who.Principal, ref)
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
		out, err := s.keepAgent(ctx, who, http.StatusOK, *a)
		if haft.CodeOf(err) != haft.CodeConflict || c != (Condition{}) || try == changeTries {
			return out, c.failed(err)
		}
	}
}

type removeAgent struct {
	AgentRef
	RemoveIf
}

func (s *Server) removeAgent(ctx context.Context, who Identity, in *removeAgent) (*struct{}, error) {
	s.cfg.Agents.Lock()
	defer s.cfg.Agents.Unlock()
	return nil, in.remove(func() (string, error) {
		a, err := s.service.Agent(ctx, who.Principal, in.Agent)
		if err != nil {
			return "", err
		}
		return a.Revision(), nil
	}, func(revision string) error { return s.service.RemoveAgent(ctx, who.Principal, in.Agent, revision) })
}

type agentTool struct {
	AgentRef
	ToolRef
}

func (s *Server) attachTool(ctx context.Context, who Identity, in *agentTool) (*oneAgent, error) {
	t, err := s.service.Tool(ctx, who.Principal, in.Ref)
	if err != nil {
		return nil, err
	}
	return s.changeAgent(ctx, who, in.Agent, Condition{}, func(a *haft.Agent) error {
		if !slices.Contains(a.Tools, t.Name) {
			a.Tools = append(a.Tools, t.Name)
		}
		return nil
	})
}

func (s *Server) detachTool(ctx context.Context, who Identity, in *agentTool) (*oneAgent, error) {
	name := in.Ref
	if t, err := s.service.Tool(ctx, who.Principal, in.Ref); err == nil {
		name = t.Name // else it may be gone, and the agent still has it
	}
	return s.changeAgent(ctx, who, in.Agent, Condition{}, func(a *haft.Agent) error {
		n := len(a.Tools)
		if a.Tools = slices.DeleteFunc(a.Tools, func(t string) bool { return t == name }); len(a.Tools) == n {
			return &haft.Error{Code: haft.CodeNotFound, Message: "the agent does not have that tool"}
		}
		return nil
	})
}
