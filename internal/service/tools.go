package service

import (
	"context"
	"iter"
	"slices"

	"haft"
)

// A ToolManager keeps the tools of organisations.
type ToolManager struct{ *base }

// PutTool implements [haft.Toolbox].
func (m *ToolManager) PutTool(ctx context.Context, p haft.Principal, d haft.Draft) (*haft.Change, error) {
	if err := m.authority.May(p, haft.ToolsWrite); err != nil {
		return nil, err
	}
	if err := m.decisions.CheckSandbox(d.Settings.Sandbox, "/settings/sandbox"); err != nil {
		return nil, err
	}
	change, err := m.registry.Put(ctx, p, d)
	if err != nil {
		return nil, err
	}
	if change.Same {
		return change, nil
	}
	t := change.Tool
	return change,
		m.log(ctx, p, "tool.put", map[string]any{"tool": t.Name, "id": t.ID, "digest": t.Version.Digest,
			"version": t.Version.Number, "waiting": change.Waiting})
}

// SetTool implements [haft.Toolbox].
func (m *ToolManager) SetTool(ctx context.Context, p haft.Principal, ref string, s haft.ToolState) (*haft.Tool, error) {
	if err := m.authority.May(p, haft.ToolsWrite); err != nil {
		return nil, err
	}
	if s.Review == nil {
		t, err := m.registry.Set(ctx, p, ref, s)
		if err != nil {
			return nil, err
		}
		return t, m.log(ctx, p, "tool.set", map[string]any{"tool": t.Name, "id": t.ID, "change": s})
	}
	t, self, err := m.registry.Answer(ctx, p, ref, s)
	if err != nil {
		return nil, err
	}
	body := map[string]any{"tool": t.Name, "id": t.ID, "change": s}
	if self {
		body["self"] = true // the same person has registered the version
	}
	return t, m.log(ctx, p, "tool.set", body)
}

// RemoveTool implements [haft.Toolbox].
func (m *ToolManager) RemoveTool(ctx context.Context, p haft.Principal, ref, revision string) error {
	if err := m.authority.May(p, haft.ToolsWrite); err != nil {
		return err
	}
	t, err := m.registry.Tool(ctx, p, ref)
	if err != nil {
		return err
	}
	if err := m.registry.Remove(ctx, p, string(t.ID), revision); err != nil {
		return err
	}
	return m.log(ctx, p, "tool.remove", map[string]any{"tool": t.Name, "id": t.ID, "digest": t.Version.Digest})
}

// attached returns what of the tools p's agent has, or a function that lets all
// pass.
func (m *ToolManager) attached(ctx context.Context, p haft.Principal) (func(name string) bool, error) {
	if err := m.authority.MayFind(p, haft.ToolsRead); err != nil {
		return nil, err
	}
	if p.Agent == "" {
		return func(string) bool { return true }, nil
	}
	a, err := m.store.Agents.Agent(ctx, p.Org, p.Agent)
	if err != nil {
		return nil, err
	}
	return func(name string) bool { return slices.Contains(a.Tools, name) }, nil
}

// Tool implements [haft.ToolReader].
func (m *ToolManager) Tool(ctx context.Context, p haft.Principal, ref string) (*haft.Tool, error) {
	has, err := m.attached(ctx, p)
	if err != nil {
		return nil, err
	}
	t, err := m.registry.Tool(ctx, p, ref)
	if err != nil {
		return nil, err
	}
	if !has(t.Name) {
		return nil, &haft.Error{Code: haft.CodeNotFound, Message: "there is no such tool"}
	}
	return t, nil
}

// Tools implements [haft.ToolReader].
func (m *ToolManager) Tools(ctx context.Context, p haft.Principal, f haft.ToolFilter) iter.Seq2[haft.Tool, error] {
	return func(yield func(haft.Tool, error) bool) {
		has, err := m.attached(ctx, p)
		if err != nil {
			yield(haft.Tool{}, err)
			return
		}
		for t, err := range m.registry.Tools(ctx, p, f) {
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
func (m *ToolManager) Versions(ctx context.Context, p haft.Principal, ref string) iter.Seq2[haft.Version, error] {
	return func(yield func(haft.Version, error) bool) {
		t, err := m.Tool(ctx, p, ref)
		if err != nil {
			yield(haft.Version{}, err)
			return
		}
		m.registry.Versions(ctx, p, string(t.ID))(yield)
	}
}
