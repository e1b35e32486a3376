package engine

import (
	"context"
	"slices"

	"haft"
	"haft/executor"
	"haft/internal/filestore"
	"haft/internal/jsontree"
	"haft/internal/registry"
	"haft/internal/requirement"
	"haft/policy"
)

// missing returns the package that a run failed for, if that is why it failed.
func missing(ex *execution) (requirement.Missing, bool) {
	if ex.res == nil || ex.res.Error == nil || ex.res.Error.Kind != haft.FailException {
		return requirement.Missing{}, false
	}
	m, ok := requirement.MissingModule(ex.res.Error.Type + ": " + ex.res.Error.Message)
	v := ex.tool.Tool.Version
	return m, ok && (m.Kind == "pip") == (v.Kind == haft.KindPython) && !filestore.HasModule(v.Files, m.Module)
}

// addMissingPackage answers a run that failed for a package that is not there: with what to add,
// and, if policy says so, by adding it. That makes a new version, which the call is
// run with, once, where the first run cannot have done anything.
func (rn *runner) addMissingPackage(ctx context.Context, ex *execution, x executor.Executor,
	req executor.Request) error {
	m, ok := missing(ex)
	if !ok {
		return nil
	}
	failed := *ex.res.Error
	ex.res.Error.Message += "; " + m.Advice()
	ex.res.Error.Retry = haft.RetryNever
	if !m.Known || ex.rules.Missing(ex.call.Principal.Org) != policy.MissingAdd || ex.approval != nil ||
		ex.call.Digest != "" || ex.tool.Tool.Version.Number == 0 {
		return nil
	}
	next, err := rn.addPackage(ctx, ex, m)
	if err != nil {
		rn.redaction.logOf(ex).Warn("a package that a tool needs could not be added", "call", ex.call.ID, "tool",
			ex.tool.Tool.Name, "err", err)
		ex.notices = append(ex.notices, "packages: "+m.Requirement+" could not be added: "+haft.MessageOf(err))
		return nil
	}
	if next == nil {
		ex.notices = append(ex.notices, "packages: a version with "+m.Requirement+" waits for a person to look at it")
		return nil
	}
	ex.notices = append(ex.notices, "packages: "+m.Requirement+" was added, as a new version of the tool")
	ex.res.Error.Message = failed.Message + "; " + m.Requirement + " was added: call it again"
	ex.res.Error.Retry = haft.RetrySame
	// Other files of the tool can do anything when they are imported.
	if v := ex.tool.Tool.Version; (len(v.Files) > 0 || !m.Harmless(v.Kind, v.Source, v.Function, failed.Traceback)) &&
		!next.Tool.Version.Settings.Idempotent {
		return nil // it may have done something before it failed
	}
	if !rn.authorizer.decideAgain(ctx, ex, next) {
		ex.notices = append(ex.notices, "packages: the rules do not let this call run in the new version")
		return nil
	}
	ex.rec.Digest, req.Digest = next.Tool.Version.Digest, next.Tool.Version.Digest
	if err := rn.authorizer.outdated(ctx, ex); err != nil {
		return err
	}
	release, err := rn.installPackages(ctx, ex, &req)
	if err != nil {
		return err
	}
	defer release()
	if err := rn.recorder.publish(ctx, ex, haft.EventRetry, map[string]any{"try": ex.rec.Tries + 1,
		"kind": haft.FailException, "reason": "packages"}, nil); err != nil {
		return err
	}
	before := ex.rec.Tries
	err = rn.runTool(ctx, ex, x, nil, req)
	ex.rec.Tries += before
	return err
}

// decideAgain has a call go on in another version of its tool, if the rules allow that
// without asking anybody. Else the call stays as it is.
func (au *authorizer) decideAgain(ctx context.Context, ex *execution, next *registry.Compiled) bool {
	tool, decision, decided := ex.tool, ex.decision, ex.decided
	ex.tool, ex.decided = next, jsontree.Document{}
	if next.For(ex.call.Principal) && au.decide(ex, ex.runArgs()) == nil && ex.decision.Effect == policy.Allow &&
		au.stillGranted(ctx, ex, ex.granted) == nil {
		au.grantVersion(ex)
		return true
	}
	ex.tool, ex.decision, ex.decided = tool, decision, decided
	return false
}

// addPackage makes a version of a call's tool that names one more package. It
// returns nil if the version waits for review.
func (rn *runner) addPackage(ctx context.Context, ex *execution, m requirement.Missing) (*registry.Compiled, error) {
	p, t := ex.call.Principal, ex.tool.Tool
	d := registry.DraftOf(t)
	list := &d.Needs.Pip
	if m.Kind == "npm" {
		list = &d.Needs.NPM
	}
	*list, d.If = append(slices.Clone(*list), m.Requirement), t.Version.Digest
	change, err := rn.registry.Put(ctx, p, d)
	switch {
	case haft.CodeOf(err) == haft.CodeConflict:
		// Another call may have been quicker.
		now, again := rn.registry.Resolve(ctx, p.Org, string(t.ID), "")
		if again == nil && now.Tool.Version.Digest != t.Version.Digest && m.In(now.Tool.Version.Requirements) {
			return now, nil
		}
		return nil, err
	case err != nil:
		return nil, err
	}
	v := change.Tool.Version
	err = rn.permissions.Log(ctx, p, p.Org, "tool.put", map[string]any{"tool": t.Name, "id": t.ID, "digest": v.Digest,
		"version": v.Number, "waiting": change.Waiting, "added": m.Requirement})
	if err != nil || change.Waiting > 0 {
		return nil, err
	}
	return rn.registry.Resolve(ctx, p.Org, string(t.ID), v.Digest)
}
