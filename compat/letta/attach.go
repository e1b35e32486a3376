package letta

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"haft"
)

// agentTools lists the tools of an agent, which has them in the order of their
// names.
func (h agentHandlers) agentTools(ctx context.Context, q *request, a haft.Agent) (any, error) {
	pg, err := paging(q.URL.Query(), 10)
	if err != nil {
		return nil, err
	}
	var all []item[haft.ToolID]
	for _, name := range a.Tools {
		t, err := h.tools.tools.Tool(ctx, q.who.Principal, name)
		if isNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, toolItem(*t))
	}
	return h.tools.pageOf(ctx, q.who.Principal, pg, all)
}

// changeTools changes the tools of the agent of the path. Clients before 1.0 expect the
// agent as the answer, and newer ones nothing.
func (h agentHandlers) changeTools(ctx context.Context, q *request, how func(*haft.Agent) error) (any, error) {
	a, err := h.changeAgent(ctx, q, how)
	if err != nil {
		return nil, err
	}
	if v := q.Header.Get("X-Stainless-Package-Version"); v != "" && !strings.HasPrefix(v, "0.") {
		return nil, nil
	}
	return a, nil
}

func (h agentHandlers) attachTool(ctx context.Context, q *request, t haft.Tool) (any, error) {
	return h.changeTools(ctx, q, func(a *haft.Agent) error {
		if !slices.Contains(a.Tools, t.Name) {
			a.Tools = append(a.Tools, t.Name)
		}
		return nil
	})
}

// detachTool removes a tool from an agent. It is no error if the agent does not have it, as in
// Letta.
func (h agentHandlers) detachTool(ctx context.Context, q *request, t haft.Tool) (any, error) {
	return h.changeTools(ctx, q, func(a *haft.Agent) error {
		removeTool(a, t.Name)
		return nil
	})
}

// removeTool removes a tool from an agent and from its rules. A rule that would allow more
// without the tool is removed only if nothing is left of it.
func removeTool(a *haft.Agent, name string) {
	is := func(s string) bool { return s == name }
	a.Tools = slices.DeleteFunc(a.Tools, is)
	a.Rules = slices.DeleteFunc(a.Rules, func(r haft.ToolRule) bool { return r.Tool == name })
	for i := range a.Rules {
		r := &a.Rules[i]
		r.Children = slices.DeleteFunc(slices.Clone(r.Children), is)
		r.ChildArgs = slices.DeleteFunc(slices.Clone(r.ChildArgs),
			func(c haft.ChildArgs) bool { return c.Name == name })
		r.Outputs = maps.Clone(r.Outputs)
		maps.DeleteFunc(r.Outputs, func(_, tool string) bool { return tool == name })
		if r.Default == name {
			r.Default = ""
		}
	}
	a.Rules = slices.DeleteFunc(a.Rules, func(r haft.ToolRule) bool {
		switch r.Type {
		case haft.RuleChildren, haft.RuleParent:
			return len(r.Children) == 0
		case haft.RuleConditional:
			return len(r.Outputs) == 0
		}
		return false
	})
}

// toolApproval sets whether a person has to approve calls of a tool of the agent.
func (h agentHandlers) toolApproval(ctx context.Context, q *request) (any, error) {
	var b struct {
		Requires *bool `json:"requires_approval"`
		// Sent is how the client for JavaScript sends it, up to 1.12.1 at least.
		Sent *bool `json:"body_requires_approval"`
	}
	if err := q.lenient(&b); err != nil {
		return nil, err
	}
	b.Requires = cmp.Or(b.Requires, b.Sent)
	if b.Requires == nil {
		if q.URL.Query().Get("requires_approval") == "" {
			return nil, unprocessable("body requires_approval: it is missing")
		}
		yes, err := boolParam(q.URL.Query(), "requires_approval")
		if err != nil {
			return nil, err
		}
		b.Requires = &yes
	}
	name := q.PathValue("name")
	return h.changeTools(ctx, q, func(a *haft.Agent) error {
		if !slices.Contains(a.Tools, name) {
			return notFound("the agent does not have that tool")
		}
		a.Rules = slices.DeleteFunc(a.Rules,
			func(r haft.ToolRule) bool { return r.Type == haft.RuleApproval && r.Tool == name })
		if *b.Requires {
			a.Rules = append(a.Rules, haft.ToolRule{Type: haft.RuleApproval, Tool: name})
			return nil
		}
		t, err := h.tools.tools.Tool(ctx, q.who.Principal, name)
		if err == nil && t.Version.Settings.RequiresApproval {
			err = &haft.Error{Code: haft.CodeDenied,
				Message: "the tool itself demands that a person agrees, whoever calls it: set " +
					"default_requires_approval of the tool to false, and requires_approval for the agents that need it"}
		}
		return err
	})
}
