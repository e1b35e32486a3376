package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"slices"

	"haft"
	"haft/store/redo"
)

// recover brings into the database what is in the log and not there.
func (f *front) recover(ctx context.Context) error {
	epoch, mark, err := marks(ctx, f.s.conn)
	if err != nil {
		return err
	}
	list, err := left(f.root, epoch, mark)
	if err != nil || len(list) == 0 {
		return err
	}
	sets := make([]*rowset, len(list))
	for i, r := range list {
		if sets[i], err = readRowset(r.Payload); err != nil {
			return fmt.Errorf("record %d of the log: %w", r.Number, err)
		}
		sets[i].number = r.Number
	}
	if err := f.follows(ctx, sets); err != nil {
		return err
	}
	return f.apply(ctx, sets)
}

// follows reports that what is in the log was not added to this state of the
// database: one of the same process, but of another moment, such as a copy that was
// made of the database alone. What went past the log since then is in neither, and
// the chains of the audit show it. Every entry of the log has to follow: a write that
// went past the log may stand between any two of them.
func (f *front) follows(ctx context.Context, sets []*rowset) error {
	type end struct {
		seq  int64
		hash any
	}
	ends := make(map[any]end)
	for _, set := range sets {
		for row := range slices.Chunk(set.audit, insertAudit.cols) {
			const org, seq, prev, hash = 0, 1, 5, 6
			last, ok := ends[row[org]]
			if !ok {
				rows, err := f.s.conn.QueryContext(ctx, lastEntry, row[org])
				if err != nil {
					return err
				}
				var text string
				if err := each(rows, func(r scanner) error { return r.Scan(&last.seq, &text) }); err != nil {
					return err
				}
				last.hash = text
			}
			if whole(row[seq]) != last.seq+1 || last.seq > 0 && row[prev] != last.hash {
				return &haft.Error{Code: haft.CodeUnavailable, Message: "the log " + logName +
					" in the data directory is of a later moment than the database: put back all files of one moment, or keep a copy of the log and remove it to go on without it"}
			}
			ends[row[org]] = end{whole(row[seq]), row[hash]}
		}
	}
	return nil
}

// readable reports that what an earlier process left in its log cannot be read,
// before anything of the database is changed: the version that can read it must
// still be able to.
func (s *Store) readable(ctx context.Context) error {
	epoch, mark, err := marks(ctx, s.db)
	if err != nil {
		return nil //nolint:nilerr // it is new, or damaged, which others say
	}
	root, err := os.OpenRoot(s.dialect.Dir)
	if err != nil {
		return fmt.Errorf("open the directory of the log: %w", err)
	}
	_, err = left(root, epoch, mark)
	return errors.Join(err, root.Close())
}

// left reads what is in the log of an epoch behind a mark.
func left(root *os.Root, epoch, mark uint64) ([]redo.Record, error) {
	if epoch == 0 {
		return nil, nil
	}
	list, err := redo.Read(root, logName, epoch, mark)
	if errors.Is(err, redo.ErrDamaged) {
		return nil, &haft.Error{Code: haft.CodeUnavailable, Err: err, Message: "the log " + logName +
			" in the data directory is damaged, and some calls of its last moments are lost: keep a copy, and remove it to go on without them"}
	}
	for _, r := range list {
		if r.Version != rowsetVersion {
			return nil, &haft.Error{Code: haft.CodeConflict, Message: fmt.Sprintf(
				"another version of haft stopped without an end, and left %d commits in %s of the data directory: start and stop that version once", len(list), logName)}
		}
	}
	return list, err
}

// marks reads which log belongs to the database, and how far it has it.
func marks(ctx context.Context, db interface {
	QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error)
}) (epoch, mark uint64, err error) {
	rows, err := db.QueryContext(ctx, "SELECT name, value FROM marks WHERE name IN ('redo', 'redo_epoch')")
	if err != nil {
		return 0, 0, err
	}
	err = each(rows, func(r scanner) error {
		var name string
		var value int64
		err := r.Scan(&name, &value)
		if name == "redo" {
			mark = uint64(value)
		} else {
			epoch = uint64(value)
		}
		return err
	})
	return epoch, mark, err
}
