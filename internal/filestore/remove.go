package filestore

import (
	"context"
	"fmt"
	"time"

	"haft"
	"haft/internal/store"
)

// reserve counts one more file of an organisation, or reports that its quota is used up.
func (s *Store) reserve(ctx context.Context, t store.Tx, org string, size int64) error {
	if _, err := t.Exec(ctx, "INSERT INTO file_quotas (org, files, bytes) VALUES ($1, 0, 0) ON CONFLICT (org) DO "+
		"NOTHING", org); err != nil {
		return err
	}
	n, err := t.Exec(ctx, "UPDATE file_quotas SET files = files + 1, bytes = bytes + $1 WHERE org = $2 AND "+
		"files < $3 AND bytes + $4 <= $5", size, org, s.cfg.Count, size, s.cfg.Quota)
	if err == nil && n == 0 {
		return &haft.Error{Code: haft.CodeConflict, Message: fmt.Sprintf("the files of the "+
			"organisation would be more than %d, or have more than %d bytes: remove some", s.cfg.Count, s.cfg.Quota)}
	}
	return err
}

// change changes what is counted of an organisation.
func (s *Store) change(ctx context.Context, t store.Tx, org string, files int, bytes int64) error {
	_, err := t.Exec(ctx, "UPDATE file_quotas SET files = files + $1, bytes = bytes + $2 WHERE org = $3", files, bytes,
		org)
	return err
}

// Remove removes a file, or returns [haft.CodeNotFound].
func (s *Store) Remove(ctx context.Context, f haft.File) error {
	return s.db.Write(ctx, "remove a file", func(ctx context.Context, t store.Tx) error { return s.remove(ctx, t, f) })
}

// remove removes a file, and its content if no other file shares it.
func (s *Store) remove(ctx context.Context, t store.Tx, f haft.File) error {
	if err := s.change(ctx, t, f.Owner.Org, -1, -f.Size); err != nil {
		return err
	}
	var content string
	if err := t.Each(ctx, func(r store.Scanner) error { return r.Scan(&content) },
		"SELECT content FROM files WHERE id = $1 AND org = $2", string(f.ID), f.Owner.Org); err != nil {
		return err
	}
	if content == "" {
		return missing() // and the change of the quota is undone
	}
	if _, err := t.Exec(ctx, "DELETE FROM files WHERE id = $1", string(f.ID)); err != nil {
		return err
	}
	_, err := t.Exec(ctx, "DELETE FROM file_parts WHERE content = $1 AND NOT EXISTS "+
		"(SELECT 1 FROM files WHERE content = $2)", content, content)
	return err
}

// sweepFiles is how many files one call of a sweep removes at most.
const sweepFiles = 200

// sweepFor is how long one sweep goes on.
const sweepFor = 2 * time.Second

// Sweep removes files that have expired, and artifacts of calls that were removed. It returns how many
// it removed. What it has no time for is left to the next one.
func (s *Store) Sweep(ctx context.Context) (removed int, err error) {
	for began := time.Now(); time.Since(began) < sweepFor; {
		now := s.now()
		expired, err := s.list(ctx, "expires <= $1 ORDER BY expires LIMIT $2", now.UnixMicro(), sweepFiles)
		if err != nil {
			return removed, err
		}
		// A call that ended a moment ago may not be in the database yet.
		orphans, err := s.list(ctx, "call <> '' AND created < $1 AND NOT EXISTS (SELECT 1 FROM calls WHERE calls.id "+
			"= files.call) LIMIT $2", now.Add(-time.Hour).UnixMicro(), sweepFiles)
		if err != nil {
			return removed, err
		}
		n, err := s.removeAll(ctx, append(expired, orphans...))
		removed += n
		if err != nil || len(expired) < sweepFiles && len(orphans) < sweepFiles {
			return removed, err
		}
	}
	return removed, nil
}

// Erase removes the files of an organisation, or of one user if that is not empty.
func (s *Store) Erase(ctx context.Context, org, user string) error {
	for {
		found, err := s.list(ctx, "org = $1 AND ($2 = '' OR usr = $3) LIMIT $4", org, user, user, sweepFiles)
		if err == nil {
			_, err = s.removeAll(ctx, found)
		}
		if err != nil {
			return err
		}
		if len(found) < sweepFiles {
			break
		}
	}
	if user != "" {
		return nil
	}
	return s.db.Write(ctx, "erase the quota of files", func(ctx context.Context, t store.Tx) error {
		_, err := t.Exec(ctx, "DELETE FROM file_quotas WHERE org = $1 AND files = 0", org)
		return err
	})
}

// removeAll removes files that may be gone already, and returns how many were there.
func (s *Store) removeAll(ctx context.Context, list []haft.File) (int, error) {
	removed := 0
	for _, f := range list {
		switch err := s.Remove(ctx, f); {
		case err == nil:
			removed++
		case haft.CodeOf(err) != haft.CodeNotFound:
			return removed, err
		}
	}
	return removed, nil
}
