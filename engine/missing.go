package engine

import (
	"context"
	"slices"
	"strings"

	"haft"
	"haft/executor"
	"haft/policy"
	"haft/registry"
	"haft/requirement"
)

// missing returns the package that a run failed for, if that is why it failed.
func missing(f *flight) (requirement.Missing, bool) {
	if f.res == nil || f.res.Error == nil || f.res.Error.Kind != haft.FailException {
		return requirement.Missing{}, false
	}
	m, ok := requirement.MissingModule(f.res.Error.Type + ": " + f.res.Error.Message)
	python := f.tool.Tool.Version.Kind == haft.KindPython
	return m, ok && (m.Kind == "pip") == python
}

// amend answers a run that failed for a package that is not there: with what to add,
// and, if policy says so, by adding it. That makes a new version, which the call is
// run with, once, where the first run cannot have done anything.
func (e *Engine) amend(ctx context.Context, f *flight, x executor.Executor, req executor.Request) error {
	m, ok := missing(f)
	if !ok {
		return nil
	}
	f.res.Error.Message += "; " + m.Advice()
	f.res.Error.Retry = haft.RetryNever
	if !m.Known || f.rules.Missing(f.call.Principal.Org) != policy.MissingAdd || f.approval != nil || f.call.Digest != "" || f.tool.Tool.Version.Number == 0 {
		return nil
	}
	next, err := e.addPackage(ctx, f, m)
	if err != nil {
		e.logOf(f).Warn("a package that a tool needs could not be added", "call", f.call.ID, "tool", f.tool.Tool.Name, "err", err)
		f.notices = append(f.notices, "packages: "+m.Requirement+" could not be added: "+haft.MessageOf(err))
		return nil
	}
	if next == nil {
		f.notices = append(f.notices, "packages: a version with "+m.Requirement+" waits for a person to look at it")
		return nil
	}
	f.notices = append(f.notices, "packages: "+m.Requirement+" was added, as a new version of the tool")
	if !atLoad(f, m) && !next.Tool.Version.Settings.Idempotent {
		return nil // it may have done something before it failed
	}
	if !e.decideAgain(ctx, f, next) {
		f.notices = append(f.notices, "packages: the rules do not let this call run in the new version")
		return nil
	}
	f.rec.Digest, req.Digest = next.Tool.Version.Digest, next.Tool.Version.Digest
	if err := e.outdated(ctx, f); err != nil {
		return err
	}
	release, err := e.supply(ctx, f, &req)
	if err != nil {
		return err
	}
	defer release()
	if err := e.tell(ctx, f, haft.EventRetry, map[string]any{"try": f.rec.Tries + 1, "kind": haft.FailException, "reason": "packages"}, nil); err != nil {
		return err
	}
	return e.run(ctx, f, x, nil, req)
}

// decideAgain has a call go on in another version of its tool, if the rules allow that
// without asking anybody. Else the call stays as it is.
func (e *Engine) decideAgain(ctx context.Context, f *flight, next *registry.Compiled) bool {
	tool, decision, decided := f.tool, f.decision, f.decided
	f.tool, f.decided = next, nil
	if hasRoles(f.call.Principal, next) && e.decide(f, f.args) == nil && f.decision.Effect == policy.Allow &&
		e.stillGranted(ctx, f, f.granted) == nil {
		e.grantVersion(f)
		return true
	}
	f.tool, f.decision, f.decided = tool, decision, decided
	return false
}

// addPackage makes a version of a call's tool that names one more package. It
// returns nil if the version waits for review.
func (e *Engine) addPackage(ctx context.Context, f *flight, m requirement.Missing) (*registry.Compiled, error) {
	p, t := f.call.Principal, f.tool.Tool
	d := registry.DraftOf(t)
	list := &d.Needs.Pip
	if m.Kind == "npm" {
		list = &d.Needs.NPM
	}
	*list, d.If = append(slices.Clone(*list), m.Requirement), t.Version.Digest
	change, err := e.registry.Put(ctx, p, d)
	switch {
	case haft.CodeOf(err) == haft.CodeConflict:
		// Another call may have been quicker.
		now, again := e.registry.Resolve(ctx, p.Org, string(t.ID), "")
		if again == nil && now.Tool.Version.Digest != t.Version.Digest && names(now.Tool.Version.Requirements, m) {
			return now, nil
		}
		return nil, err
	case err != nil:
		return nil, err
	}
	v := change.Tool.Version
	err = e.log(ctx, p, "tool.put", map[string]any{"tool": t.Name, "id": t.ID, "digest": v.Digest, "version": v.Number, "waiting": change.Waiting, "added": m.Requirement})
	if err != nil || change.Waiting > 0 {
		return nil, err
	}
	return e.registry.Resolve(ctx, p.Org, string(t.ID), v.Digest)
}

// names reports whether requirements name the package that is missing.
func names(n haft.Requirements, m requirement.Missing) bool {
	return slices.ContainsFunc(append(slices.Clone(n.Pip), n.NPM...), func(s string) bool {
		return s == m.Requirement || strings.HasPrefix(s, m.Requirement) && strings.ContainsAny(s[len(m.Requirement):][:1], "=<>!~@[ ;")
	})
}

// atLoad reports whether the import failed while the source was being loaded, before
// the tool's function was called.
func atLoad(f *flight, m requirement.Missing) bool {
	v, trace := f.tool.Tool.Version, f.res.Error.Traceback
	if v.Kind == haft.KindPython {
		first := true
		for line := range strings.Lines(trace) {
			if !strings.HasPrefix(line, "  File ") {
				continue
			}
			if first && !strings.HasSuffix(strings.TrimSpace(line), ", in <module>") {
				return false
			}
			first = false
		}
		return !first
	}
	for line := range strings.Lines(v.Source) {
		if strings.HasPrefix(line, "import ") && (strings.Contains(line, `"`+m.Module) || strings.Contains(line, "'"+m.Module)) {
			return true
		}
	}
	return false
}
