package engine

import (
	"context"
	"crypto/rand"
	"iter"
	"slices"
	"strings"
	"time"

	"haft"
	"haft/internal/secret"
	"haft/internal/toolrule"
)

// PutTool implements [haft.Toolbox].
func (e *Engine) PutTool(ctx context.Context, p haft.Principal, d haft.Draft) (*haft.Change, error) {
	if err := e.may(p, haft.ToolsWrite); err != nil {
		return nil, err
	}
	if err := e.hasSandbox(d.Settings.Sandbox, "/settings/sandbox"); err != nil {
		return nil, err
	}
	change, err := e.registry.Put(ctx, p, d)
	if err != nil {
		return nil, err
	}
	if change.Same {
		return change, nil
	}
	t := change.Tool
	return change,
		e.log(ctx, p, "tool.put", map[string]any{"tool": t.Name, "id": t.ID, "digest": t.Version.Digest,
			"version": t.Version.Number, "waiting": change.Waiting})
}

// SetTool implements [haft.Toolbox].
func (e *Engine) SetTool(ctx context.Context, p haft.Principal, ref string, s haft.ToolState) (*haft.Tool, error) {
	if err := e.may(p, haft.ToolsWrite); err != nil {
		return nil, err
	}
	t, err := e.registry.Set(ctx, p, ref, s)
	if err != nil {
		return nil, err
	}
	return t, e.log(ctx, p, "tool.set", map[string]any{"tool": t.Name, "id": t.ID, "change": s})
}

// RemoveTool implements [haft.Toolbox].
func (e *Engine) RemoveTool(ctx context.Context, p haft.Principal, ref, revision string) error {
	if err := e.may(p, haft.ToolsWrite); err != nil {
		return err
	}
	t, err := e.registry.Tool(ctx, p, ref)
	if err != nil {
		return err
	}
	if err := e.registry.Remove(ctx, p, string(t.ID), revision); err != nil {
		return err
	}
	return e.log(ctx, p, "tool.remove", map[string]any{"tool": t.Name, "id": t.ID, "digest": t.Version.Digest})
}

// attached returns what of the tools p's agent has, or a function that lets all
// pass.
func (e *Engine) attached(ctx context.Context, p haft.Principal) (func(name string) bool, error) {
	if err := e.mayFind(p, haft.ToolsRead); err != nil {
		return nil, err
	}
	if p.Agent == "" {
		return func(string) bool { return true }, nil
	}
	a, err := e.store.Agent(ctx, p.Org, p.Agent)
	if err != nil {
		return nil, err
	}
	return func(name string) bool { return slices.Contains(a.Tools, name) }, nil
}

// Tool implements [haft.ToolReader].
func (e *Engine) Tool(ctx context.Context, p haft.Principal, ref string) (*haft.Tool, error) {
	has, err := e.attached(ctx, p)
	if err != nil {
		return nil, err
	}
	t, err := e.registry.Tool(ctx, p, ref)
	if err != nil {
		return nil, err
	}
	if !has(t.Name) {
		return nil, &haft.Error{Code: haft.CodeNotFound, Message: "there is no such tool"}
	}
	return t, nil
}

// Tools implements [haft.ToolReader].
func (e *Engine) Tools(ctx context.Context, p haft.Principal, f haft.ToolFilter) iter.Seq2[haft.Tool, error] {
	return func(yield func(haft.Tool, error) bool) {
		has, err := e.attached(ctx, p)
		if err != nil {
			yield(haft.Tool{}, err)
			return
		}
		for t, err := range e.registry.Tools(ctx, p, f) {
			if err == nil && !has(t.Name) {
				continue
			}
			if !yield(t, err) || err != nil {
				return
			}
		}
	}
}

// Versions implements [haft.ToolReader].
func (e *Engine) Versions(ctx context.Context, p haft.Principal, ref string) iter.Seq2[haft.Version, error] {
	return func(yield func(haft.Version, error) bool) {
		t, err := e.Tool(ctx, p, ref)
		if err != nil {
			yield(haft.Version{}, err)
			return
		}
		e.registry.Versions(ctx, p, string(t.ID))(yield)
	}
}

// The bounds on an agent.
const (
	maxAgentTools = 1000
	maxAgentRules = 100
)

// Agent implements [haft.Agents].
func (e *Engine) Agent(ctx context.Context, p haft.Principal, ref string) (*haft.Agent, error) {
	if err := e.mayFind(p, haft.AgentsRead); err != nil {
		return nil, err
	}
	a, err := e.store.Agent(ctx, p.Org, ref)
	if err != nil {
		return nil, err
	}
	return e.shown(ctx, *a)
}

// AgentList implements [haft.Agents].
func (e *Engine) AgentList(ctx context.Context, p haft.Principal, f haft.AgentFilter) iter.Seq2[haft.Agent, error] {
	return func(yield func(haft.Agent, error) bool) {
		if err := e.mayFind(p, haft.AgentsRead); err != nil {
			yield(haft.Agent{}, err)
			return
		}
		after := f.After
		for n := 0; ; {
			list, err := e.store.Agents(ctx, p.Org, after, page)
			if err != nil {
				yield(haft.Agent{}, err)
				return
			}
			for _, a := range list {
				if after = a.Name; !listed(a, f) {
					continue
				}
				s, err := e.shown(ctx, a)
				if err != nil {
					yield(haft.Agent{}, err)
					return
				}
				if n++; !yield(*s, nil) || n == f.Limit {
					return
				}
			}
			if len(list) < page {
				return
			}
		}
	}
}

// listed reports whether an agent fits a filter, wherever it stands.
func listed(a haft.Agent, f haft.AgentFilter) bool {
	return strings.HasPrefix(a.Name, f.Prefix) && (f.Tool == "" || slices.Contains(a.Tools, f.Tool)) &&
		(f.Enabled == nil || *f.Enabled == !a.Disabled)
}

// PutAgent implements [haft.Agents]. A value of the environment that is empty
// keeps the one that is there. The condition is looked at first, and again in the
// transaction that writes the agent and its variables.
func (e *Engine) PutAgent(ctx context.Context, p haft.Principal, a haft.Agent) (*haft.Agent, error) {
	if err := e.may(p, haft.AgentsWrite); err != nil {
		return nil, err
	}
	a.Org = p.Org
	if err := haft.CheckToolName(a.Name); err != nil {
		return nil, &haft.Error{Code: haft.CodeInvalid, Message: "the name of an agent is made like that of a tool",
			Err: err}
	}
	if haft.IsAgentID(a.Name) {
		return nil, &haft.Error{Code: haft.CodeInvalid,
			Message: "the name of an agent must not look like the id of one"}
	}
	if len(a.Tools) > maxAgentTools || len(a.Rules) > maxAgentRules || len(a.Env) > maxEnv {
		return nil, &haft.Error{Code: haft.CodeInvalid, Message: "an agent has too many tools, rules or variables"}
	}
	for name := range a.Env {
		if err := secret.CheckEnvName(name); err != nil {
			return nil, err
		}
	}
	for _, name := range a.Tools {
		if _, err := e.registry.Tool(ctx, p, name); err != nil {
			return nil, &haft.Error{Code: haft.CodeOf(err),
				Message: "the tool " + name + " of the agent: " + haft.MessageOf(err), Err: err}
		}
	}
	if err := toolrule.Check(a.Rules, func(tool string) bool { return slices.Contains(a.Tools, tool) }); err != nil {
		return nil, err
	}
	now := time.Now()
	a.Updated = now
	switch old, err := e.store.Agent(ctx, p.Org, a.Name); {
	case err == nil:
		if a.If != "" && a.If != old.Revision() {
			return nil, &haft.Error{Code: haft.CodeConflict,
				Message: "the agent is not what you say it is; look again first"}
		}
		a.ID, a.Created = old.ID, old.Created
		for k, v := range a.Env {
			if was, ok := old.Env[k]; ok && (v == "" || v == notKept) {
				a.Env[k] = was
			}
		}
	case haft.CodeOf(err) == haft.CodeNotFound:
		if a.If != "" && a.If != haft.IfNone {
			return nil, &haft.Error{Code: haft.CodeConflict, Message: "there is no such agent any more"}
		}
		a.ID, a.Created = haft.AgentID(haft.AgentIDPrefix+rand.Text()[:haft.RandomID]), now
	default:
		return nil, err
	}
	put, err := e.putAgent(ctx, a)
	if err != nil {
		return nil, err
	}
	return put, e.log(ctx, p, "agent.put", map[string]any{"agent": a.Name, "id": a.ID, "tools": a.Tools,
		"rules": len(a.Rules), "env": len(a.Env)})
}

// RemoveAgent implements [haft.Agents].
func (e *Engine) RemoveAgent(ctx context.Context, p haft.Principal, ref, revision string) error {
	if err := e.may(p, haft.AgentsWrite); err != nil {
		return err
	}
	a, err := e.store.Agent(ctx, p.Org, ref)
	if err != nil {
		return err
	}
	if err := e.store.RemoveAgent(ctx, p.Org, string(a.ID), revision); err != nil {
		return err
	}
	if err := e.pruneEnv(ctx, p.Org, a.ID, nil); err != nil {
		return err
	}
	return e.log(ctx, p, "agent.remove", map[string]any{"agent": a.Name, "id": a.ID})
}
