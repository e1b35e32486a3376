package workspace

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"haft"
	"haft/internal/authority"
	"haft/internal/store"
)

// A row is a workspace, and what only Haft knows of it.
type row struct {
	haft.Workspace
	home string // the directory of the workspace, which is also its id
	dir  string // the tree in it
	uid  int    // the user id of the host that owns the files, or 0 for that of this process
}

// resource is what authority decides about: that of its owner, or of the organisation if it is shared.
func (w *row) resource() authority.Resource {
	if w.Shared {
		return authority.Resource{Kind: "workspace"}
	}
	return authority.Owned("workspace", w.Owner)
}

// base is the name of a workspace, or of that whose snapshot it is.
func base(name string) string {
	name, _, _ = strings.Cut(name, "@")
	return name
}

// isSnapshot reports whether a name is that of a snapshot.
func isSnapshot(name string) bool { return strings.Contains(name, "@") }

// maxOrigins is how many names a workspace can have files from.
const maxOrigins = 64

// descend notes that w gets the files of another workspace, and keeps none of its own.
func (w *row) descend(from *row) error { return w.comeFrom(from.names()) }

// names returns the names of the workspaces that files of w come from, with its own.
func (w *row) names() []string { return slices.Concat(w.Origins, []string{base(w.Name)}) }

// comeFrom notes that the files of w come from workspaces of these names.
func (w *row) comeFrom(names []string) error {
	all := slices.Sorted(slices.Values(names))
	all = slices.DeleteFunc(slices.Compact(all), func(name string) bool { return name == w.Name })
	if len(all) > maxOrigins {
		return conflict(fmt.Sprintf("the files would come from more than %d workspaces", maxOrigins))
	}
	w.Origins = all
	return nil
}

// columns are those that list reads.
const columns = "home, org, name, usr, agent, shared, origins, dir, uid, max_bytes, max_inodes, bytes, inodes, " +
	"created, changed"

// list returns workspaces by name.
func (s *Store) list(ctx context.Context, where string, args ...any) (all []*row, err error) {
	err = s.each(ctx, func(r store.Scanner) error {
		var w row
		var origins string
		var shared, created, changed int64
		if err := r.Scan(&w.home, &w.Owner.Org, &w.Name, &w.Owner.User, &w.Owner.Agent, &shared, &origins, &w.dir,
			&w.uid, &w.Quota.Bytes, &w.Quota.Inodes, &w.Used.Bytes, &w.Used.Inodes, &created, &changed); err != nil {
			return err
		}
		if origins != "" {
			w.Origins = strings.Split(origins, ",")
		}
		w.Shared, w.Enforced = shared != 0, haft.QuotaMeasured
		w.Created, w.Changed = time.UnixMicro(created).UTC(), time.UnixMicro(changed).UTC()
		all = append(all, &w)
		return nil
	}, "SELECT "+columns+" FROM workspaces WHERE "+where+" ORDER BY org, name", args...)
	return all, err
}

// one returns the only workspace of a list.
func one(list []*row, err error) (*row, error) {
	if err == nil && len(list) == 0 {
		err = missing("workspace")
	}
	if err != nil {
		return nil, err
	}
	return list[0], nil
}

// family returns a workspace with its snapshots.
func (s *Store) family(ctx context.Context, w *row) ([]*row, error) {
	list, err := s.list(ctx, "org = $1", w.Owner.Org)
	return slices.DeleteFunc(list, func(x *row) bool {
		return x.home != w.home && (isSnapshot(w.Name) || !isSnapshot(x.Name) || base(x.Name) != w.Name)
	}), err
}

// All lists the workspaces of an organisation, or of one user if that is not empty.
func (s *Store) All(ctx context.Context, org, user string) ([]haft.Workspace, error) {
	list, err := s.list(ctx, "org = $1 AND ($2 = '' OR usr = $3)", org, user, user)
	all := make([]haft.Workspace, len(list))
	for i, w := range list {
		all[i] = w.Workspace
	}
	return all, err
}

// write runs f in a transaction that no other one of the organisation runs beside: it changes the row of
// the organisation first.
func (s *Store) write(ctx context.Context, doing, org string, f func(ctx context.Context, t store.Tx) error) error {
	return s.db.Write(ctx, doing, func(ctx context.Context, t store.Tx) error {
		if _, err := t.Exec(ctx, "INSERT INTO workspace_orgs (org, changes) VALUES ($1, 1) ON CONFLICT (org) "+
			"DO UPDATE SET changes = workspace_orgs.changes + 1", org); err != nil {
			return err
		}
		return f(ctx, t)
	})
}

// insert adds the row of a workspace. That whose snapshot it is must still be there.
func (s *Store) insert(ctx context.Context, w *row) error {
	return s.write(ctx, "add a workspace", w.Owner.Org, func(ctx context.Context, t store.Tx) error {
		if isSnapshot(w.Name) {
			if n, err := t.Exec(ctx, "UPDATE workspaces SET changed = changed WHERE org = $1 AND name = $2",
				w.Owner.Org, base(w.Name)); err != nil || n == 0 {
				return orMissing(err)
			}
		}
		if err := s.fits(ctx, t.Each, w.Owner.Org, w.Used.Bytes); err != nil {
			return err
		}
		shared := 0
		if w.Shared {
			shared = 1
		}
		n, err := t.Exec(ctx, "INSERT INTO workspaces ("+columns+", reserved) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, "+
			"$9, $10, $11, $12, $13, $14, $15, 0) ON CONFLICT (org, name) DO NOTHING", w.home, w.Owner.Org, w.Name,
			w.Owner.User, w.Owner.Agent, shared, strings.Join(w.Origins, ","), w.dir, w.uid, w.Quota.Bytes,
			w.Quota.Inodes, w.Used.Bytes, w.Used.Inodes, w.Created.UnixMicro(), w.Changed.UnixMicro())
		if err == nil && n == 0 {
			return conflict("there is a workspace of this name in the organisation")
		}
		return err
	})
}

// refused reports whether an error is a reason for which a transaction was not tried to commit. After other
// errors it may have been committed.
func refused(err error) bool {
	code := haft.CodeOf(err)
	return code == haft.CodeConflict || code == haft.CodeNotFound
}

// delete removes the rows of workspaces.
func (s *Store) delete(ctx context.Context, org string, list []*row) error {
	return s.write(ctx, "remove a workspace", org, func(ctx context.Context, t store.Tx) error {
		var gone int64
		for _, w := range list {
			n, err := t.Exec(ctx, "DELETE FROM workspaces WHERE home = $1", w.home)
			if gone += n; err != nil {
				return err
			}
		}
		if gone == 0 && len(list) > 0 {
			return missing("workspace")
		}
		return nil
	})
}

// update writes down which tree has the files of a workspace and how much is in it, and gives back what was
// reserved.
func (s *Store) update(ctx context.Context, w *row) error {
	return s.db.Write(ctx, "change a workspace", func(ctx context.Context, t store.Tx) error {
		n, err := t.Exec(ctx, "UPDATE workspaces SET dir = $1, bytes = $2, inodes = $3, changed = $4, origins = $5, "+
			"reserved = 0 WHERE home = $6", w.dir, w.Used.Bytes, w.Used.Inodes, now().UnixMicro(),
			strings.Join(w.Origins, ","), w.home)
		if n > 0 {
			return err
		}
		return orMissing(err)
	})
}

func orMissing(err error) error {
	if err != nil {
		return err
	}
	return missing("workspace")
}

// eachFunc is a query: of the database, or of a transaction.
type eachFunc func(ctx context.Context, scan func(store.Scanner) error, text string, args ...any) error

func (s *Store) each(ctx context.Context, scan func(store.Scanner) error, text string, args ...any) error {
	return s.db.Each(ctx, "read workspaces", scan, text, args...)
}

// totals returns what an organisation has in workspaces without that of a home, with what writers may still
// write to them, and how many those are.
func totals(ctx context.Context, each eachFunc, org, but string) (bytes int64, count int, err error) {
	err = each(ctx, func(r store.Scanner) error { return r.Scan(&bytes, &count) },
		"SELECT CAST(COALESCE(SUM(CASE WHEN reserved > bytes THEN reserved ELSE bytes END), 0) AS BIGINT), COUNT(*) "+
			"FROM workspaces WHERE org = $1 AND home <> $2", org, but)
	return bytes, count, err
}

// hold keeps room in an organisation for a copy that has no row yet, until release. It is kept in memory, so that
// a crash leaves nothing: another process on the same database counts the copy when it has a row.
func (s *Store) hold(ctx context.Context, org string, size int64) (release func(), err error) {
	leave, err := s.holding.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	if err := s.fits(ctx, s.each, org, s.addHeld(org, 0)+size); err != nil {
		return nil, err
	}
	s.addHeld(org, size)
	return func() { s.addHeld(org, -size) }, nil
}

// addHeld adds to what is held for an organisation, and returns that.
func (s *Store) addHeld(org string, n int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[org] += n; s.held[org] == 0 {
		delete(s.held, org)
		return 0
	}
	return s.held[org]
}

// reserve returns how much may be in a workspace that is about to be written to, its quota or what others
// leave of that of the organisation, and keeps others from using it until update.
func (s *Store) reserve(ctx context.Context, w *row) (limit haft.WorkspaceSize, err error) {
	held := s.addHeld(w.Owner.Org, 0)
	err = s.write(ctx, "reserve a workspace", w.Owner.Org, func(ctx context.Context, t store.Tx) error {
		others, _, err := totals(ctx, t.Each, w.Owner.Org, w.home)
		if err != nil {
			return err
		}
		left := max(0, s.cfg.Org-others-held)
		limit = haft.WorkspaceSize{Bytes: min(w.Quota.Bytes, left), Inodes: w.Quota.Inodes}
		n, err := t.Exec(ctx, "UPDATE workspaces SET reserved = $1 WHERE home = $2", limit.Bytes, w.home)
		if n > 0 {
			return err
		}
		return orMissing(err)
	})
	return limit, err
}

// fits reports why an organisation cannot have one more workspace of so many bytes.
func (s *Store) fits(ctx context.Context, each eachFunc, org string, size int64) error {
	bytes, count, err := totals(ctx, each, org, "")
	if err == nil && (bytes+size > s.cfg.Org || count >= s.cfg.Count) {
		return conflict(fmt.Sprintf("the organisation would have more than %d bytes in workspaces and snapshots, with "+
			"what running calls may write, or more than %d of them: remove some", s.cfg.Org, s.cfg.Count))
	}
	return err
}
