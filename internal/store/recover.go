package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"haft"
	"haft/internal/audit"
	"haft/internal/store/redo"
	"haft/internal/store/rowset"
)

// A LogLoss says that the log in front of a database does not have what it must have
// after a crash, or is not of this database.
type LogLoss struct {
	// Why says what is wrong with the file.
	Why string
	// Kept is how many of its records can be taken up all the same.
	Kept int
}

// AcceptLoss returns the entry of the audit that says that a loss was accepted.
type AcceptLoss func(*LogLoss) audit.Entry

// Error implements error.
func (l *LogLoss) Error() string { return LogName + " " + l.Why }

// refusal says what to do about the loss.
func (l *LogLoss) refusal() error {
	return &haft.Error{Code: haft.CodeUnavailable, Err: l, Message: LogName + " in the data directory " + l.Why +
		", and calls of the last moments before haft stopped may be nowhere else: put back the right file, " +
		"or all files of one moment; to go on without them run: haft restore --accept-loss"}
}

// recover brings into the database what is in the log and not there. After that the
// database is complete by itself.
func (f *front) recover(ctx context.Context) error {
	m, err := readMarks(ctx, f.s.conn)
	if err != nil {
		return err
	}
	list, err := left(f.root, m)
	loss := f.s.accepted(err)
	if err != nil && loss == nil {
		return err
	}
	sets := make([]*rowset.Set, len(list))
	for i, r := range list {
		if sets[i], err = rowset.Read(r.Payload, int(r.Version), loggedColumns()); err != nil {
			return fmt.Errorf("record %d of the log: %w", r.Number, err)
		}
		sets[i].Number = r.Number
	}
	n, err := f.following(ctx, sets)
	if err != nil {
		return err
	}
	if n < len(sets) {
		later := &LogLoss{Why: "is of a later moment than the database", Kept: n}
		if loss = f.s.accepted(later); loss == nil {
			return later.refusal()
		}
	}
	if n > 0 {
		if err := f.apply(ctx, sets[:n]); err != nil {
			return err
		}
	}
	if loss != nil {
		return f.goOn(ctx, loss)
	}
	if m.epoch == 0 {
		return nil
	}
	return f.s.transact(ctx, func(ctx context.Context, t *tx) error { return t.putEpoch(ctx, 0) })
}

// accepted returns the loss that err tells of, if it is to be accepted.
func (s *Store) accepted(err error) *LogLoss {
	loss, ok := errors.AsType[*LogLoss](err)
	if !ok || s.cfg.AcceptLoss == nil {
		return nil
	}
	return loss
}

// goOn adds to the audit that something is lost, and only then forgets the log. The file
// stays under another name.
func (f *front) goOn(ctx context.Context, loss *LogLoss) error {
	if err := f.s.Commit(ctx, Batch{Audit: []audit.Entry{f.s.cfg.AcceptLoss(loss)}}); err != nil {
		return err
	}
	if err := f.s.transact(ctx, func(ctx context.Context, t *tx) error { return t.putEpoch(ctx, 0) }); err != nil {
		return err
	}
	if err := f.root.Rename(LogName, LogName+".lost"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("move the log away: %w", err)
	}
	return nil
}

// following returns how many of sets were added to this state of the database: not to
// one of the same process, but of another moment, such as a copy that was made of the
// database alone. What went past the log since then is in neither, and the chains of the
// audit show it. Every entry of the log has to follow: a write that went past the log may
// stand between any two of them.
func (f *front) following(ctx context.Context, sets []*rowset.Set) (int, error) {
	type end struct {
		seq  int64
		hash any
	}
	ends := make(map[any]end)
	for i, set := range sets {
		for row := range slices.Chunk(set.Audit, insertAudit.cols) {
			const org, seq, prev, hash = 0, 1, 5, 6
			last, ok := ends[row[org]]
			if !ok {
				found, err := first(ctx, &tx{s: f.s}, "find the end of a chain", scanPair[int64, string], lastEntry,
					row[org])
				if err != nil {
					return 0, err
				}
				if found != nil {
					last = end{found.a, found.b}
				}
			}
			if rowset.Whole(row[seq]) != last.seq+1 || last.seq > 0 && row[prev] != last.hash {
				return i, nil
			}
			ends[row[org]] = end{rowset.Whole(row[seq]), row[hash]}
		}
	}
	return len(sets), nil
}

// readable reports that what an earlier process left in its log cannot be read,
// before anything of the database is changed: the version that can read it must
// still be able to.
func (s *Store) readable(ctx context.Context) error {
	m, err := readMarks(ctx, s.db)
	if err != nil {
		return nil //nolint:nilerr // it is new, or damaged, which others say
	}
	root, err := os.OpenRoot(s.dialect.Dir)
	if err != nil {
		return fmt.Errorf("open the directory of the log: %w", err)
	}
	_, err = left(root, m)
	if s.accepted(err) != nil {
		err = nil
	}
	return errors.Join(err, root.Close())
}

// left reads the records of the log that the database does not have. With a [*LogLoss]
// it returns those that can be taken up.
func left(root *os.Root, m logMarks) ([]redo.Record, error) {
	if m.epoch == 0 { // the database is complete
		return nil, unknown(root, m.checked)
	}
	c, err := redo.Read(root, LogName, m.epoch, m.applied)
	if err != nil {
		return nil, err
	}
	for _, r := range c.Records {
		if !rowset.Readable(int(r.Version)) {
			return nil, &haft.Error{Code: haft.CodeConflict, Message: fmt.Sprintf(
				"another version of haft stopped without an end, and left %d commits in %s of the data directory: "+
					"start and stop that version once", len(c.Records), LogName)}
		}
	}
	if why := m.lacking(c); why != "" {
		return c.Records, (&LogLoss{Why: why, Kept: len(c.Records)}).refusal()
	}
	return c.Records, nil
}

// unknown reports a log of which a complete database never heard: it is of another one, or
// of a later moment. One in which nothing was acknowledged was just made.
func unknown(root *os.Root, checked uint64) error {
	h, err := redo.ReadHead(root, LogName)
	if err != nil || h == nil || h.Epoch == checked {
		return err
	}
	c, err := redo.Read(root, LogName, h.Epoch, 0)
	if err == nil && max(h.Last, c.Last) > 0 {
		err = (&LogLoss{Why: "is of another database, or of a later moment than the database"}).refusal()
	}
	return err
}

// lacking says what a log lacks that the database names, or "".
func (m logMarks) lacking(c redo.Content) string {
	if c.Last > m.applied+uint64(len(c.Records)) {
		return "is damaged"
	}
	if m.epoch != m.checked {
		return "" // an earlier version wrote it, without a head
	}
	switch {
	case c.Size < 0:
		return "is missing"
	case c.Size < redo.Size:
		return "is cut off"
	case c.Head == nil || c.Head.Epoch != m.epoch:
		return "is of another database, or was overwritten"
	case max(c.Last, c.Head.Erased) < max(m.applied, c.Head.Last):
		return "does not have its last records, or is of an earlier moment than the database"
	}
	return ""
}

// logMarks are what the database knows of the log.
type logMarks struct {
	epoch   uint64 // of the log that the database needs, or 0
	checked uint64 // of the last log that has a head
	applied uint64 // the number of the last record that the database has
}

// readMarks reads what the database knows of the log.
func readMarks(ctx context.Context, db interface {
	QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error)
}) (m logMarks, err error) {
	rows, err := db.QueryContext(ctx,
		"SELECT name, value FROM marks WHERE name IN ('redo', 'redo_epoch', 'redo_checked')")
	if err != nil {
		return m, err
	}
	err = eachRow(rows, func(r scanner) error {
		var name string
		var value int64
		err := r.Scan(&name, &value)
		switch name {
		case "redo":
			m.applied = uint64(value)
		case "redo_checked":
			m.checked = uint64(value)
		default:
			m.epoch = uint64(value)
		}
		return err
	})
	return m, err
}
