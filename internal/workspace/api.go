package workspace

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"os"
	"strings"

	"haft"
	"haft/internal/authority"
)

// An API is what principals can do with workspaces. It implements the roles of [haft.Workspaces].
type API struct {
	Store *Store
	Rules authority.Rules
	// Files has the content of files that are put into workspaces by their id.
	Files haft.Files
	// Log writes to the audit what was done.
	Log func(ctx context.Context, p haft.Principal, kind string, body any) error
	// Ask asks the policy of the organisation whether p may use a workspace like that. Nil means that
	// there is none.
	Ask func(ctx context.Context, p haft.Principal, w *haft.CallWorkspace) error
}

// Roles returns the API by role.
func (a *API) Roles() haft.Workspaces {
	return haft.Workspaces{WorkspaceKeeper: a, WorkspaceReader: a, WorkspaceWriter: a}
}

// find returns a workspace that p may do an action to.
func (s *Store) find(ctx context.Context, rules authority.Rules, p haft.Principal, name string,
	action haft.Action) (*row, error) {
	if err := rules.May(p, action); err != nil {
		return nil, err
	}
	w, err := one(s.list(ctx, "org = $1 AND name = $2", p.Org, name))
	if err == nil {
		err = rules.Authorize(p, action, w.resource())
	}
	if err != nil {
		return nil, err
	}
	return w, nil
}

// find is that of the store, and asks the policy.
func (a *API) find(ctx context.Context, p haft.Principal, name string, action haft.Action) (*row, error) {
	w, err := a.Store.find(ctx, a.Rules, p, name, action)
	if err != nil {
		return nil, err
	}
	return w, a.ask(ctx, p, w, action)
}

func (a *API) ask(ctx context.Context, p haft.Principal, w *row, action haft.Action) error {
	if a.Ask == nil {
		return nil
	}
	return a.Ask(ctx, p, w.asked(action == haft.WorkspacesRead, false))
}

// change has do change a workspace that nobody else uses meanwhile, and writes to the audit what was done.
func (a *API) change(ctx context.Context, p haft.Principal, name, kind string, body map[string]any,
	do func(home *os.Root, w *row, limit haft.WorkspaceSize) error) error {
	w, err := a.find(ctx, p, name, haft.WorkspacesWrite)
	if err != nil {
		return err
	}
	if isSnapshot(name) {
		return invalid("/name", "a snapshot is only read: fork it")
	}
	if err := a.Store.admit(p.Org); err != nil {
		return err
	}
	if err := a.Store.change(ctx, w, do); err != nil {
		return err
	}
	if body == nil {
		body = map[string]any{}
	}
	body["workspace"] = name
	return a.Log(ctx, p, kind, body)
}

// AddWorkspace implements [haft.WorkspaceKeeper].
func (a *API) AddWorkspace(ctx context.Context, p haft.Principal, n haft.NewWorkspace) (*haft.Workspace, error) {
	if err := a.Rules.Authorize(p, haft.WorkspacesWrite, authority.Owned("workspace", p)); err != nil {
		return nil, err
	}
	name, snapshot, isSnapshot := strings.Cut(n.Name, "@")
	switch {
	case !validName(name) || isSnapshot && !validName(snapshot):
		return nil, invalid("/name", nameRule)
	case n.Quota.Bytes < 0 || n.Quota.Inodes < 0:
		return nil, invalid("/quota", "expected positive numbers")
	case n.Quota.Bytes > a.Store.cfg.Quota.Bytes || n.Quota.Inodes > a.Store.cfg.Quota.Inodes:
		return nil, invalid("/quota", fmt.Sprintf("expected at most %d bytes and %d files and directories, which "+
			"is what the operator allows", a.Store.cfg.Quota.Bytes, a.Store.cfg.Quota.Inodes))
	case isSnapshot && (n.From != "" && n.From != name || n.Shared || n.Quota != haft.WorkspaceSize{}):
		return nil, invalid("/from", "a snapshot is of the workspace that its name begins with, and has its settings")
	case isSnapshot:
		n.From = name
	}
	w := &row{Workspace: haft.Workspace{Name: n.Name, Shared: n.Shared,
		Quota: within(n.Quota, a.Store.cfg.Quota, true),
		Owner: haft.Principal{Org: p.Org, User: p.Owner(), Agent: p.Agent}}}
	if err := a.add(ctx, p, w, n.From); err != nil {
		return nil, err
	}
	return &w.Workspace, a.Log(ctx, p, "workspace.add", map[string]any{"workspace": n.Name, "shared": w.Shared,
		"from": n.From})
}

// add adds a workspace with the files of another one, if that has a name. Nobody writes to that one meanwhile.
func (a *API) add(ctx context.Context, p haft.Principal, w *row, from string) error {
	if from == "" {
		if err := cmp.Or(a.ask(ctx, p, w, haft.WorkspacesWrite), a.Store.admit(p.Org)); err != nil {
			return err
		}
		return addCopy(ctx, a.Store, w, nil)
	}
	action := haft.WorkspacesRead
	if isSnapshot(w.Name) {
		action = haft.WorkspacesWrite
	}
	source, err := a.find(ctx, p, from, action)
	if err != nil {
		return err
	}
	if err := a.Store.admit(p.Org); err != nil {
		return err
	}
	return a.Store.leased(ctx, source, func(files *os.Root, source *row) error {
		if isSnapshot(w.Name) {
			w.Owner, w.Shared, w.Quota = source.Owner, source.Shared, source.Quota
		}
		if err := w.descend(source); err != nil {
			return err
		}
		if err := a.ask(ctx, p, w, haft.WorkspacesWrite); err != nil {
			return err
		}
		return addCopy(ctx, a.Store, w, files)
	})
}

// nameRule says what a name is.
const nameRule = "expected a name of 1 to 64 lower-case letters, digits, dots, underscores and hyphens, that begins " +
	"with a letter or a digit; a snapshot has the name of its workspace, an @ and such a name"

// validName reports whether a name can be that of a workspace, or of a snapshot after the @. Two names never look
// the same, and rules of policy name them.
func validName(name string) bool {
	for i, r := range name {
		if !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || i > 0 && strings.ContainsRune("._-", r)) {
			return false
		}
	}
	return name != "" && len(name) <= 64
}

// Workspace implements [haft.WorkspaceReader].
func (a *API) Workspace(ctx context.Context, p haft.Principal, name string) (*haft.Workspace, error) {
	w, err := a.find(ctx, p, name, haft.WorkspacesRead)
	if err != nil {
		return nil, err
	}
	return &w.Workspace, nil
}

// Workspaces implements [haft.WorkspaceKeeper].
func (a *API) Workspaces(ctx context.Context, p haft.Principal) iter.Seq2[haft.Workspace, error] {
	return func(yield func(haft.Workspace, error) bool) {
		err := a.Rules.May(p, haft.WorkspacesRead)
		var list []*row
		if err == nil {
			list, err = a.Store.list(ctx, "org = $1", p.Org)
		}
		if err != nil {
			yield(haft.Workspace{}, err)
			return
		}
		for _, w := range list {
			if a.Rules.Authorize(p, haft.WorkspacesRead, w.resource()) == nil && !yield(w.Workspace, nil) {
				return
			}
		}
	}
}

// RemoveWorkspace implements [haft.WorkspaceKeeper].
func (a *API) RemoveWorkspace(ctx context.Context, p haft.Principal, name string) error {
	w, err := a.find(ctx, p, name, haft.WorkspacesWrite)
	if err != nil {
		return err
	}
	if a.Rules.Authorize(p, haft.WorkspacesWrite, authority.Owned("workspace", w.Owner)) != nil {
		return &haft.Error{Code: haft.CodeDenied,
			Message: "only who added a shared workspace, or a manager, removes it and its snapshots"}
	}
	if err := a.Store.admit(p.Org); err != nil {
		return err
	}
	if err := a.Store.remove(ctx, w); err != nil {
		return err
	}
	return a.Log(ctx, p, "workspace.remove", map[string]any{"workspace": name})
}

// RestoreWorkspace implements [haft.WorkspaceWriter].
func (a *API) RestoreWorkspace(ctx context.Context, p haft.Principal, name, from string) error {
	if from == name {
		return invalid("/from", "expected another workspace, or a snapshot")
	}
	action := haft.WorkspacesRead
	if base(from) == name { // what it was may be had by who writes to it
		action = haft.WorkspacesWrite
	}
	source, err := a.find(ctx, p, from, action)
	if err != nil {
		return err
	}
	return a.change(ctx, p, name, "workspace.restore", map[string]any{"from": from},
		func(home *os.Root, w *row, limit haft.WorkspaceSize) error {
			return a.Store.leased(ctx, source, func(files *os.Root, source *row) error {
				restored := *w
				err := a.ask(ctx, p, source, action) // it may have other origins by now
				if err == nil {
					err = restored.descend(source)
				}
				if err == nil {
					err = a.ask(ctx, p, &restored, haft.WorkspacesWrite)
				}
				var size haft.WorkspaceSize
				if err == nil {
					size, err = sizeOf(ctx, files, limit)
				}
				if err == nil {
					err = a.Store.makeTree(ctx, home, &restored, copyOf(a.Store, files, &restored, size))
				}
				if err == nil {
					*w = restored
				}
				return err
			})
		})
}

// DiffWorkspaces implements [haft.WorkspaceReader].
func (a *API) DiffWorkspaces(ctx context.Context, p haft.Principal, from,
	to string) (d *haft.WorkspaceDiff, err error) {
	if from == to {
		return nil, invalid("/to", "expected another workspace, or a snapshot")
	}
	before, err := a.find(ctx, p, from, haft.WorkspacesRead)
	if err != nil {
		return nil, err
	}
	after, err := a.find(ctx, p, to, haft.WorkspacesRead)
	if err != nil {
		return nil, err
	}
	err = a.Store.leased(ctx, before, func(old *os.Root, _ *row) error {
		return a.Store.leased(ctx, after, func(now *os.Root, _ *row) error {
			leave, err := a.Store.looks.enter(ctx) // with the leases: who waits for those takes no place
			if err != nil {
				return err
			}
			defer leave()
			d, err = compareTrees(ctx, old, now)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return d, nil
}
