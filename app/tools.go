package app

import (
	"context"

	"haft"
	"haft/executor"
	"haft/internal/registry"
	"haft/internal/toolsource"
	"haft/schema"
)

// The source of a tool, what it says of the tool, the tool that is ready to be called,
// and one call of it. See [App.Prepare] and [App.Call].
type (
	Source  = toolsource.Source
	Derived = toolsource.Derived
	Tool    = toolsource.Tool
	Run     = toolsource.Run
)

// derive derives schemas for the registry.
func (s *Service) derive(ctx context.Context, src registry.Source) (*registry.Derived, error) {
	d, err := s.App.Derive(ctx, Source{Name: src.Name, Kind: src.Kind, Text: src.Text, Function: src.Function,
		Layers: s.locker.LayersOf(src.Org, src.Lock, src.Text)},
		schema.Options{DescriptionsOptional: true, TypesOptional: src.Untyped})
	if err != nil {
		return nil, err
	}
	return &registry.Derived{Signature: d.Signature, Function: d.Function, Pass: d.Pass, Output: d.Output}, nil
}

// judge asks the policy of an organisation how to treat findings in a tool.
func (s *Service) judge(t haft.Tool, findings []haft.Finding) registry.Verdict {
	if s.Engine == nil {
		return registry.Refuse
	}
	return registry.Verdict(s.Engine.Review(t, findings).Action)
}

// mayAcceptOwn returns what reports whether a person may accept a version that the same person has
// registered: everybody may, or the policy says so. Where the policy cannot be had, it does not.
func (s *Service) mayAcceptOwn(everybody bool) func(context.Context, haft.Principal) bool {
	return func(ctx context.Context, p haft.Principal) bool {
		if everybody || s.Engine == nil {
			return everybody
		}
		rules, err := s.Engine.Rules(ctx, p.Org)
		return err == nil && rules.MayAcceptOwn(p)
	}
}

// sourceTool returns the tool that runs source without storing it.
func (s *Service) sourceTool() toolsource.SourceTool {
	return toolsource.SourceTool{
		Executor: s.App.Sandboxes,
		Prepare: func(ctx context.Context, p haft.Principal, d haft.Draft) (*registry.Compiled, error) {
			if s.Registry == nil {
				return nil, &haft.Error{Code: haft.CodeUnavailable, Message: "the tools are not there yet"}
			}
			return s.Registry.Prepare(ctx, p, d)
		},
		Packages: func(ctx context.Context, org string, v haft.Version) ([]executor.Layer, func(), error) {
			more, err := s.shared(ctx, org)
			if err != nil {
				return nil, nil, err
			}
			return s.locker.Open(ctx, org, v, more, nil)
		},
	}
}
