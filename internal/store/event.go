package store

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"haft"
	"haft/internal/event"
	"haft/internal/store/stored"
)

// An eventRest is what of an event does not fit its columns.
type eventRest struct {
	Principal haft.Principal `json:"principal"`
	Call      haft.CallID    `json:"call"`
	Tool      string         `json:"tool"`
}

// eventRows encodes events. Their cursors may still change, see addEvents.
func eventRows(events []haft.Event) ([]any, error) {
	rows := make([]any, 0, len(events)*insertEvents.cols)
	for i := range events {
		e := &events[i]
		p := &e.Principal
		if p.Org == "" || e.Call == "" || e.Type == "" {
			return nil, invalid("an event has an organisation, a call and a type")
		}
		if len(e.Data) > event.MaxData {
			return nil, invalid("the data of an event has %d bytes, %d is the most", len(e.Data), event.MaxData)
		}
		rest := ""
		if len(p.Roles) > 0 || p.Scope != nil || p.Actions != nil || p.Credential != "" || !plain(p.Org) ||
			!plain(p.User) || !plain(p.Agent) || !plain(string(e.Call)) || !plain(e.Tool) {
			var err error
			if rest, err = stored.Encode(eventRest{*p, e.Call, e.Tool}); err != nil {
				return nil, err
			}
		}
		rows = append(rows, e.Cursor, column(p.Org), column(string(e.Call)), column(p.Owner()), column(p.Agent),
			column(e.Tool),
			e.Seq, string(e.Type), stored.Micros(e.Time), rest, stored.Text(e.Data))
	}
	return rows, nil
}

// addEvents adds events behind those that are there.
func (t *tx) addEvents(ctx context.Context, events []haft.Event, rows []any) error {
	if len(events) == 0 {
		return nil
	}
	cursor, err := t.lastCursor(ctx)
	if err != nil {
		return err
	}
	if t.s.dialect.Shared && events[0].Cursor != cursor+1 {
		if err := t.raiseSeqs(ctx, events, rows); err != nil {
			return err
		}
	}
	cursor = numberEvents(events, rows, cursor)
	if _, err := t.add(ctx, insertEvents, rows); err != nil {
		return err
	}
	if !t.s.dialect.Shared {
		t.s.heads.cursor, t.s.heads.known = cursor, true
		return nil
	}
	_, err = t.exec(ctx, "UPDATE marks SET value = $1 WHERE name = 'events'", cursor)
	return err
}

// raiseSeqs has the events of each call go on after those that other processes have
// added. It is for whoever did not know of the last event of all.
func (t *tx) raiseSeqs(ctx context.Context, events []haft.Event, rows []any) error {
	var calls []haft.CallID
	for _, e := range events {
		if !slices.Contains(calls, e.Call) {
			calls = append(calls, e.Call)
		}
	}
	last, err := lastSeqs(ctx, t, calls)
	if err != nil {
		return err
	}
	for i := range events {
		e := &events[i]
		e.Seq = max(e.Seq, last[e.Call]+1)
		last[e.Call] = e.Seq
		rows[i*insertEvents.cols+seqColumn] = e.Seq
	}
	return nil
}

// seqColumn is where insertEvents has the number of an event of its call.
const seqColumn = 6

// lastSeqs asks for the highest Seq of calls.
func lastSeqs(ctx context.Context, from source, calls []haft.CallID) (map[haft.CallID]int64, error) {
	last := make(map[haft.CallID]int64, len(calls))
	return last, chunks(calls, func(part []haft.CallID) error {
		ids := make(map[string]haft.CallID, len(part))
		for _, id := range part {
			ids[column(string(id))] = id
		}
		q := build("SELECT call, MAX(seq) FROM events WHERE call IN ")
		q.in(columns(part))
		q.add(" GROUP BY call")
		found, err := list(ctx, from, "find the last events of calls", scanPair[string, int64], q.logged())
		for _, p := range found {
			last[ids[p.a]] = p.b
		}
		return err
	})
}

// numberEvents gives events the cursors behind the last one, and returns the last
// of theirs.
func numberEvents(events []haft.Event, rows []any, cursor int64) int64 {
	for i := range events {
		cursor = max(cursor+1, events[i].Cursor)
		events[i].Cursor = cursor
		rows[i*insertEvents.cols] = cursor
	}
	return cursor
}

// lastCursor returns the highest cursor. In a shared store it is locked until the
// transaction ends: cursors become visible in their order, so that nobody who
// reads on after one misses a smaller one.
func (t *tx) lastCursor(ctx context.Context) (int64, error) {
	q := highest
	if t.s.dialect.Shared {
		q = logged("SELECT value FROM marks WHERE name = 'events'" + t.s.dialect.ForUpdate)
	} else if t.s.heads.known {
		return t.s.heads.cursor, nil
	}
	return value[int64](ctx, t, "find the last event", q)
}

// highest finds the highest cursor: of the events that are kept, or of those that
// were.
const highest logged = `SELECT MAX(c) FROM (SELECT MAX(cursor) AS c FROM events UNION ALL SELECT value FROM marks WHERE name IN ('events', 'events_lost')) AS h`

// EventTip returns the highest cursor of a shared store: every event up to it can be
// read.
func (s Events) EventTip(ctx context.Context) (int64, error) {
	return s.db.Settings.Mark(ctx, "events")
}

// LastEvents returns the highest Cursor, and of the given calls those that have
// events with their highest Seq. It is what [event.Log] asks for.
func (s Events) LastEvents(ctx context.Context, calls []haft.CallID) (
	cursor int64, seqs map[haft.CallID]int64, err error) {
	if cursor = s.db.last.Load(); cursor == 0 {
		if cursor, err = value[int64](ctx, s.db, "find the last event", highest); err != nil {
			return 0, nil, err
		}
	}
	seqs, err = lastSeqs(ctx, s.db, calls)
	return cursor, seqs, err
}

// EventsAfter lists events that fit f after the one with that cursor, in order. If
// after is not 0 and some behind it are no longer kept, it returns an error that
// wraps [event.ErrLost].
func (s Events) EventsAfter(ctx context.Context, f event.Filter, after int64, limit int) ([]haft.Event, error) {
	all, err := list(ctx, s.db, "list events", scanEvent, eventQuery(f, after, page(limit)))
	if err != nil || after == 0 {
		return all, err
	}
	// Asked last: what was lost while the list was read is noticed.
	lost, err := s.db.Settings.Mark(ctx, "events_lost")
	if err != nil {
		return nil, err
	}
	if after < lost {
		return nil, event.Lost()
	}
	return all, nil
}

// eventQuery returns the query for a filter.
func eventQuery(f event.Filter, after int64, limit int) query {
	q := build("SELECT cursor, org, call, usr, agent, tool, seq, type, at, rest, data FROM events WHERE cursor > ?",
		after)
	for _, c := range []struct{ name, value string }{
		{"call", string(f.Call)}, {"org", f.Org}, {"usr", f.User}, {"agent", f.Agent}, {"tool", f.Tool},
	} {
		if c.value != "" {
			q.add(" AND "+c.name+" = ?", column(c.value))
		}
	}
	if len(f.Types) > 0 {
		q.add(" AND type IN ")
		q.in(columns(f.Types))
	}
	q.add(" ORDER BY cursor LIMIT ?", limit)
	return q.logged()
}

// scanEvent reads one row.
func scanEvent(r scanner) (haft.Event, error) {
	var e haft.Event
	var at int64
	var rest, data string
	p := &e.Principal
	if err := r.Scan(&e.Cursor, &p.Org, &e.Call, &p.User, &p.Agent, &e.Tool, &e.Seq, &e.Type, &at, &rest,
		&data); err != nil {
		return e, err
	}
	e.Time = stored.Time(at)
	if data != "" {
		e.Data = json.RawMessage(data)
	}
	if rest == "" {
		return e, nil
	}
	var more eventRest
	err := stored.Decode(rest, &more)
	e.Principal, e.Call, e.Tool = more.Principal, more.Call, more.Tool
	return e, err
}

// PruneEvents forgets events from before a time, but for those of calls that have
// not ended: their numbers go on. It returns how many are gone.
func (s Events) PruneEvents(ctx context.Context, before time.Time) (int, error) {
	// The first one to stay. Cursors rise with time, or nearly: a clock that was
	// set back only makes an event stay for longer.
	const doing = "prune events"
	stays, err := value[int64](ctx, s.db, doing,
		logged("SELECT COALESCE((SELECT cursor FROM events WHERE at >= $1 ORDER BY cursor LIMIT 1), (SELECT "+
			"cursor + 1 FROM events ORDER BY cursor DESC LIMIT 1), 0)"), stored.Micros(before))
	if err != nil {
		return 0, err
	}
	gone := 0
	for from := int64(0); ; {
		n := 0
		err := s.db.write(ctx, doing, func(ctx context.Context, t *tx) (err error) {
			n, from, err = t.pruneEvents(ctx, from, stays)
			return err
		})
		if err != nil {
			return gone, err
		}
		if gone += n; from == 0 {
			return gone, nil
		}
	}
}

// pruneRows is how much is removed at once, so that nobody waits for long.
const pruneRows = 1000

// pruneEvents removes some events between from and stays, and returns where to go
// on, or 0 if there are no more.
func (t *tx) pruneEvents(ctx context.Context, from, stays int64) (gone int, next int64, err error) {
	seen, err := list(ctx, t, "list events", scalar[int64],
		logged("SELECT cursor FROM events WHERE cursor >= $1 AND cursor < $2 ORDER BY cursor LIMIT $3"), from, stays,
		pruneRows)
	if err != nil || len(seen) == 0 {
		return 0, 0, err
	}
	last := seen[len(seen)-1]
	n, err := t.exec(ctx, `DELETE FROM events WHERE cursor >= $1 AND cursor <= $2
		AND NOT EXISTS (SELECT 1 FROM calls WHERE calls.id = events.call AND calls.final = 0)`, from, last)
	if err != nil {
		return 0, 0, err
	}
	if n > 0 {
		if _, err := t.exec(ctx, "UPDATE marks SET value = $1 WHERE name = 'events_lost' AND value < $1",
			last); err != nil {
			return 0, 0, err
		}
	}
	if len(seen) == pruneRows {
		next = last + 1
	}
	return int(n), next, nil
}
