package policy

import (
	"cmp"
	"slices"

	"haft"
)

// concernsWorkspace reports whether a rule is for a workspace. A fork has the files of its origins: a rule that
// allows must name it and all of them, and any other rule one of them.
func (r *rule) concernsWorkspace(w *haft.CallWorkspace) bool {
	all := append([]string{w.Name}, w.Origins...)
	if r.effect != Allow {
		return r.workspaces.match(all...)
	}
	return !slices.ContainsFunc(all, func(name string) bool { return !r.workspaces.match(name) })
}

// CheckWorkspace refuses to let a principal use the workspace of req without a call, to read or to write its files.
// Rules that name workspaces, and neither tools, kinds nor digests, forbid it. No rule has to allow it. A rule
// that demands approval forbids it, since only a call can wait for that.
func (p *Policy) CheckWorkspace(req Request) error {
	if p == nil {
		return nil
	}
	e := &evaluation{req: &req}
	for i := range p.layers {
		l := &p.layers[i]
		for j := range l.rules {
			r := &l.rules[j]
			if len(r.workspaces) == 0 || len(r.tools)+len(r.kinds)+len(r.digests) > 0 || r.effect == Allow {
				continue
			}
			matched, _, err := r.matches(&req, e)
			ref := l.ref(r.id)
			switch {
			case err != nil:
				return &haft.Error{Code: haft.CodeDenied, Err: publicError(err),
					Message: "the rule " + ref + " cannot be evaluated"}
			case matched && r.effect == NeedsApproval:
				return &haft.Error{Code: haft.CodeDenied, Message: "the rule " + ref + " demands approval of what is " +
					"done with the workspace: do it with a call"}
			case matched:
				return &haft.Error{Code: haft.CodeDenied, Message: cmp.Or(r.reason, "the rule "+ref+" forbids it")}
			}
		}
	}
	return nil
}
