package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"haft"
	"haft/internal/audit"
	"haft/internal/store/redo"
	"haft/internal/store/rowset"
)

// A front is the log in front of a database that only this process writes to. A
// batch that nothing can clash with is kept there with one small write and is in
// the database soon after, together with others; whoever reads, or writes to the
// database itself, sees to that first. So nobody can tell that there is a front,
// but by the time that it saves.
type front struct {
	s    *Store
	root *os.Root

	// order holds one token: whoever took it decides what comes next, in the log
	// or in the database. It comes before the turn of the store.
	order      chan struct{}
	log        *redo.Log // guarded by order; nil if batches go to the database itself
	seen       int       // batches that the log could have had, guarded by order
	logInvalid bool      // the database still names a log that failed, guarded by order
	buf        []byte    // guarded by order
	// released are calls whose keys were taken from them, and when, see ReleaseUnkept; guarded by order.
	released map[haft.CallID]time.Time

	mu      sync.Mutex
	waiting []*rowset.Set // acknowledged, and not in the database yet; oldest first
	count   atomic.Int64
	stuck   atomic.Bool   // the database does not take what waits
	unsafe  atomic.Bool   // nobody knows what of the database is on the disk
	failing atomic.Uint32 // the parts that were reported to fail, one bit each

	applied uint64 // the last one that is in the database, guarded by the turn
	relaxed bool   // the connection is, guarded by the turn
	commits uint64 // guarded by the turn

	wake, hurry chan struct{}
	stop        context.CancelFunc
	done        chan struct{}
}

const (
	// LogName is the file of the log in the directory of the database.
	LogName = "redo.log"
	// settleAfter is how long a batch waits for others to go into the database
	// with it, and settleAt how many do not wait. A call of a script takes some tens of
	// milliseconds when all processors are busy: most begin and end within this time.
	settleAfter = 100 * time.Millisecond
	settleAt    = 256
	// checkEvery is after how many commits SQLite's own log is looked at: that takes about
	// 20 us, and a commit adds some tens of pages to thousands.
	checkEvery = 32
	// warmUp is how many batches a process writes before it has a log: a command
	// that makes one call is better off without.
	warmUp = 8
)

// openFront takes up what an earlier process left in its log, and begins.
func (s *Store) openFront(ctx context.Context) error {
	root, err := os.OpenRoot(s.dialect.Dir)
	if err != nil {
		return fmt.Errorf("open the directory of the log: %w", err)
	}
	f := &front{s: s, root: root, order: make(chan struct{}, 1), wake: make(chan struct{}, 1),
		hurry: make(chan struct{}, 1), done: make(chan struct{}), released: map[haft.CallID]time.Time{}}
	if err := f.recover(ctx); err != nil {
		return errors.Join(err, root.Close())
	}
	f.order <- struct{}{}
	own, stop := context.WithCancel(context.WithoutCancel(ctx))
	f.stop = stop
	s.front = f
	if s.cfg.Busy && !s.cfg.NoLog {
		f.seen = warmUp
		f.maintain(ctx)
	}
	go f.run(own)
	return nil
}

// begin opens the log, after a while.
func (f *front) begin(ctx context.Context) error {
	epoch := rand.Uint64() // not 0, but for one time in 2^64
	log, err := redo.Open(f.root, LogName, rowset.Version, epoch)
	if err != nil {
		return err
	}
	err = f.s.write(ctx, "begin a log", func(ctx context.Context, t *tx) error {
		if err := t.putEpoch(ctx, epoch); err != nil {
			return err
		}
		if _, err := t.exec(ctx, putMark, "redo_checked", int64(epoch)); err != nil {
			return err
		}
		_, err := t.exec(ctx, putMark, "redo", int64(0))
		return err
	})
	if err != nil {
		return errors.Join(err, log.Close())
	}
	if err := take(ctx, f.order); err != nil {
		return errors.Join(err, log.Close())
	}
	defer func() { f.order <- struct{}{} }()
	if err := take(ctx, f.s.turn); err != nil {
		return errors.Join(err, log.Close())
	}
	f.log, f.applied = log, 0
	f.s.turn <- struct{}{}
	return nil
}

// release notes that a call has lost its key, and forgets calls that lost theirs long ago:
// none of them is about to begin. Precondition: order is held.
func (f *front) release(id haft.CallID) {
	now := time.Now()
	if len(f.released) >= 1000 {
		maps.DeleteFunc(f.released, func(_ haft.CallID, at time.Time) bool { return now.Sub(at) > 24*time.Hour })
	}
	f.released[id] = now
}

// acknowledge keeps a batch in the log if it can: if it reports false, nothing of
// it is kept.
func (f *front) acknowledge(ctx context.Context, b Batch, e *encoded) (bool, error) {
	if !b.Sure || b.Again || len(b.Approvals) > 0 || len(b.Chains) > 0 {
		return false, nil
	}
	if err := take(ctx, f.order); err != nil {
		return false, f.s.explain(err)
	}
	defer func() { f.order <- struct{}{} }()
	if f.stuck.Load() || slices.ContainsFunc(b.Keys, func(k Key) bool { return !f.released[k.Call].IsZero() }) {
		return false, nil // the database refuses it, says why it is stuck, or is well again
	}
	for _, id := range b.Chosen { // nobody adds one meanwhile: that needs the order
		if kept, err := f.s.Calls.Kept(ctx, id); err != nil || kept {
			return false, nil // the database refuses it, or says what is wrong
		}
	}
	if f.log == nil {
		if f.seen++; f.seen == warmUp && !f.s.cfg.NoLog {
			signal(f.hurry)
		}
		return false, nil
	}
	h := &f.s.heads
	if !h.known && len(b.Events) > 0 || slices.ContainsFunc(e.audit,
		func(a auditRow) bool { _, ok := h.chains[a.Org]; return !ok }) {
		return false, nil // they have to be looked up
	}
	set := &rowset.Set{Calls: e.calls, Events: e.events, Limits: e.limits, Usage: usageRows(b.Records)}
	ends := make(map[string]audit.Head, 1)
	for _, a := range e.audit {
		ends[a.Org] = h.chains[a.Org]
	}
	set.Audit = e.link(ends)
	cursor := numberEvents(b.Events, e.events, h.cursor)
	payload, err := set.AppendTo(f.buf[:0])
	if err != nil {
		return false, fmt.Errorf("encode a batch for the log: %w", err)
	}
	if cap(payload) <= redo.MaxPayload {
		f.buf = payload
	}
	if set.Number, err = f.append(context.WithoutCancel(ctx), payload); err != nil {
		f.abandonLog()
		return false, nil // it goes into the database, or else that says why not
	}
	f.report(partWrite, nil)
	for org, end := range ends {
		h.chains[org] = end
	}
	if len(b.Events) > 0 {
		h.cursor = cursor
		f.s.last.Store(cursor)
	}
	f.mu.Lock()
	f.waiting = append(f.waiting, set)
	n := f.count.Add(1)
	f.mu.Unlock()
	if n == 1 {
		signal(f.wake)
	}
	if n == settleAt || f.log.Filled() {
		signal(f.hurry)
	}
	return true, nil
}

// waits reports whether a record of a call is acknowledged and not in the database yet.
func (f *front) waits(id string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return rowset.HasCall(f.waiting, id, insertCalls.cols)
}

// append adds a record, and makes room for it if there is none.
func (f *front) append(ctx context.Context, payload []byte) (uint64, error) {
	n, err := f.log.Append(payload)
	if errors.Is(err, redo.ErrFull) {
		if err := take(ctx, f.s.turn); err != nil {
			return 0, err
		}
		err = f.settleTurn(ctx, false)
		applied := f.applied
		f.s.turn <- struct{}{}
		if err == nil {
			err = f.trim(f.log, applied)
		}
		if err == nil {
			n, err = f.log.Append(payload)
		}
	}
	return n, err
}

// abandonLog gives up a log that failed. Its last record may be in it or not: the
// batch goes into the database, together with the word that the log counts no more.
func (f *front) abandonLog() {
	if f.log.Err() == nil {
		return // it was only full, or the record too long
	}
	f.report(partWrite, f.log.Err())
	_ = f.log.Close() // it has failed already
	f.log, f.seen, f.logInvalid = nil, 0, true
	signal(f.hurry) // so that the database names it no more, if nobody else writes
}

// putEpoch has the database name the log of an epoch, without which it is not complete;
// 0 means that it is complete by itself.
func (t *tx) putEpoch(ctx context.Context, epoch uint64) error {
	_, err := t.exec(ctx, putMark, "redo_epoch", int64(epoch))
	return err
}

// signal wakes whoever waits for c, if nobody has yet.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// settle brings into the database what was acknowledged before.
func (f *front) settle(ctx context.Context) error {
	if f == nil || f.count.Load() == 0 {
		return nil
	}
	if err := take(ctx, f.s.turn); err != nil {
		return err
	}
	defer func() { f.s.turn <- struct{}{} }()
	return f.settleTurn(context.WithoutCancel(ctx), false)
}

// settleTurn is settle for who has the turn. Who goes on to write to the database
// itself wants it strict: its commits wait for the disk then.
func (f *front) settleTurn(ctx context.Context, strict bool) error {
	if f.count.Load() > 0 {
		f.mu.Lock()
		sets := f.waiting[:len(f.waiting):len(f.waiting)]
		f.mu.Unlock()
		err := f.relax(ctx, true)
		if err == nil {
			err = f.apply(ctx, sets)
		}
		f.stuck.Store(err != nil)
		f.report(partApply, err)
		if err != nil {
			return err
		}
		f.applied = sets[len(sets)-1].Number
		f.mu.Lock()
		f.waiting = slices.Delete(f.waiting, 0, len(sets))
		f.mu.Unlock()
		f.count.Add(-int64(len(sets)))
	}
	if !strict {
		return nil
	}
	return f.relax(ctx, false)
}

// relax has commits wait for the disk or not.
func (f *front) relax(ctx context.Context, relaxed bool) error {
	if f == nil || f.relaxed == relaxed {
		return nil
	}
	text := f.s.dialect.Strict
	if relaxed {
		text = f.s.dialect.Relaxed
	}
	if _, err := f.s.conn.ExecContext(ctx, text); err != nil {
		return f.checkSync(err)
	}
	f.relaxed = relaxed
	return nil
}

// apply adds the rows of sets, and that they are there, in one transaction.
func (f *front) apply(ctx context.Context, sets []*rowset.Set) error {
	all := rowset.Merge(sets, loggedColumns())
	inserts := loggedInserts()
	return f.s.transact(ctx, func(ctx context.Context, t *tx) error {
		for i, rows := range all.Tables() {
			if _, err := t.add(ctx, inserts[i], *rows); err != nil {
				return err
			}
		}
		_, err := t.exec(ctx, putMark, "redo", int64(all.Number))
		return err
	})
}

// run brings what is acknowledged into the database, many at a time.
func (f *front) run(ctx context.Context) {
	defer close(f.done)
	timer := time.NewTimer(0)
	defer timer.Stop()
	<-timer.C
	for {
		select {
		case <-f.wake:
			timer.Reset(settleAfter)
			select {
			case <-timer.C:
			case <-f.hurry:
			case <-ctx.Done():
				return
			}
		case <-f.hurry:
		case <-ctx.Done():
			return
		}
		f.maintain(ctx)
		if f.count.Load() > 0 { // what came meanwhile woke nobody
			signal(f.wake)
		}
	}
}

// maintain does what is due. What fails is tried again by the next writer or reader, which
// gets the error.
func (f *front) maintain(ctx context.Context) {
	if take(ctx, f.order) != nil {
		return
	}
	log, due, invalid := f.log, f.log == nil && f.seen >= warmUp && !f.s.cfg.NoLog, f.logInvalid
	f.order <- struct{}{}
	if invalid { // a write clears its epoch
		if f.s.write(ctx, "abandon the log", func(context.Context, *tx) error { return nil }) != nil {
			return // the file is still the one that the database names
		}
	}
	if due {
		err := f.begin(ctx)
		f.report(partOpen, err)
		if err != nil {
			// Without a log everything goes on, only slower.
			if take(ctx, f.order) == nil {
				f.seen = 0
				f.order <- struct{}{}
			}
		}
		return
	}
	if f.settle(ctx) != nil || log == nil || !log.Filled() || take(ctx, f.s.turn) != nil {
		return
	}
	applied := f.applied
	f.s.turn <- struct{}{}
	_ = f.trim(log, applied) // a log that stays full says so
}

// close brings everything into the database. It keeps the order.
func (f *front) close() error {
	f.stop()
	<-f.done
	<-f.order
	ctx := context.Background() //nolint:forbidigo // what was acknowledged is kept, whoever closes
	err := take(ctx, f.s.turn)
	if err == nil {
		err = f.settleTurn(ctx, true)
		// A log whose records may not be on the disk elsewhere is still needed.
		if err == nil && (f.logInvalid || f.log != nil && !f.unsafe.Load()) {
			err = f.s.transact(ctx, func(ctx context.Context, t *tx) error { return t.putEpoch(ctx, 0) })
		}
		f.s.turn <- struct{}{}
	}
	if f.log != nil {
		err = errors.Join(err, f.log.Close())
	}
	close(f.order)
	return errors.Join(err, f.root.Close())
}
