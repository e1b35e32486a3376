package store

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"haft"
	"haft/internal/limit"
	"haft/internal/store/rowset"
	"haft/internal/store/stored"
)

// The statements of a batch. What an update does not name never changes, and so
// the indexes over it are not touched when a call ends.
var (
	insertCalls = &insert{
		"INSERT INTO calls (id, org, usr, agent, tool, turn, parent, chain, created, status, final, owner, doc, " +
			"sealed)", 14,
		` ON CONFLICT (id) DO UPDATE SET status = excluded.status, final = excluded.final, owner = excluded.owner, doc = excluded.doc,
		sealed = CASE WHEN excluded.final = 1 THEN NULL ELSE COALESCE(excluded.sealed, calls.sealed) END
		WHERE calls.org = excluded.org AND calls.created = excluded.created AND calls.final = 0
		AND (calls.owner = excluded.owner OR calls.status <> 'running' AND excluded.status <> 'running')
		AND (calls.status <> 'pending_approval' OR excluded.status = 'queued' OR excluded.final = 1 AND excluded.owner = '')`,
	}
	insertEvents = &insert{"INSERT INTO events (cursor, org, call, usr, agent, tool, seq, type, at, rest, data)", 11,
		""}
	insertAudit     = &insert{"INSERT INTO audit (org, seq, at, doc, body, prev, hash)", 7, ""}
	insertApprovals = &insert{
		"INSERT INTO approvals (id, org, call, state, created, expires, doc)", 7,
		` ON CONFLICT (id) DO UPDATE SET state = excluded.state, expires = excluded.expires, doc = excluded.doc
		WHERE approvals.org = excluded.org AND (approvals.state = 'pending' OR approvals.state = 'approved' AND excluded.state = 'used')`,
	}
	insertChains = &insert{
		"INSERT INTO chains (id, org, created, final, owner, doc)", 6,
		` ON CONFLICT (id) DO UPDATE SET final = excluded.final, doc = excluded.doc
		WHERE chains.org = excluded.org AND chains.final = 0 AND chains.owner = excluded.owner`,
	}
	insertLimits = &insert{
		"INSERT INTO limits (name, tokens, used, at)", 4,
		// The latest counts, in whatever order they come: see limit.State.
		` ON CONFLICT (name) DO UPDATE SET tokens = excluded.tokens, used = excluded.used, at = excluded.at
		WHERE excluded.at > limits.at OR (excluded.at = limits.at AND (excluded.used > limits.used OR excluded.tokens < limits.tokens))`,
	}
	insertHeads = &insert{
		"INSERT INTO audit_heads (org, name, seq, hash)", 4,
		" ON CONFLICT (org) DO UPDATE SET seq = excluded.seq, hash = excluded.hash",
	}
)

// A Stale error says of which calls of a batch the store has a later state than whoever
// writes knows: they have ended, belong to another process, have another call's id, or
// their request for approval was answered. Nothing of the batch was kept; without what
// belongs to these calls it can be.
type Stale struct {
	Calls []haft.CallID
	// Kept are calls whose end is in the store just as the batch has it: an earlier try
	// was kept although it seemed to fail.
	Kept []haft.CallID
}

// Error implements error.
func (s *Stale) Error() string {
	return fmt.Sprintf("%d calls have moved on, and %d have ended as they were to", len(s.Calls), len(s.Kept))
}

// encoded is a batch as it goes to the database. It is made before anybody waits.
type encoded struct {
	calls, events, approvals, chains, limits []any
	audit                                    []auditRow
}

// Commit keeps all of b or nothing of it, and returns when it is on the disk. The
// end of ctx stops it only as long as nothing is written.
func (s *Store) Commit(ctx context.Context, b Batch) error {
	e, err := encodeBatch(b)
	if err != nil {
		return fmt.Errorf("keep a batch: %w", err)
	}
	if s.front != nil {
		if kept, err := s.front.acknowledge(ctx, b, e); err != nil || kept {
			return err
		}
	}
	for try := 1; ; try++ {
		err = s.write(ctx, "keep a batch", func(ctx context.Context, t *tx) error { return t.addBatch(ctx, b, e) })
		if !errors.Is(err, errMoved) {
			break
		}
		// What stood in the way is looked up when nothing of the batch is there any more.
		if err = s.staleOf(ctx, b.Records, e.calls); err != nil || try == maxMoved {
			break
		}
	}
	return err
}

// addBatch adds everything of a batch.
func (t *tx) addBatch(ctx context.Context, b Batch, e *encoded) error {
	if err := t.alive(ctx, b.Owner); err != nil {
		return err
	}
	if err := t.hold(ctx, b.Keys); err != nil {
		return err
	}
	if err := t.addAll(ctx, errMoved, insertCalls, e.calls); err != nil {
		return err
	}
	if _, err := t.add(ctx, insertUsage, usageRows(b.Records)); err != nil {
		return err
	}
	if err := t.addApprovals(ctx, b.Approvals, e.approvals); err != nil {
		return err
	}
	if err := t.checkUnasked(ctx, b.Records); err != nil {
		return err
	}
	if err := t.addAll(ctx, conflict("a chain that has ended or belongs to another process cannot go on here"),
		insertChains, e.chains); err != nil {
		return err
	}
	if _, err := t.add(ctx, insertLimits, e.limits); err != nil {
		return err
	}
	if err := t.addAudit(ctx, e); err != nil {
		return err
	}
	return t.addEvents(ctx, b.Events, e.events)
}

// errMoved says that some call of a batch could not be moved as it says.
var errMoved = errors.New("a call has moved on")

// maxMoved is how often a batch is tried whose calls can be moved when they are looked at.
const maxMoved = 3

// staleOf says which calls of a batch cannot be moved as it says: a [Stale], or nil if all
// can by now. The conditions are those of insertCalls; docs/calls.md has the states.
func (s *Store) staleOf(ctx context.Context, records []haft.Record, rows []any) error {
	stale := &Stale{}
	for row := range slices.Chunk(rows, insertCalls.cols) {
		const id, org, created, status, final, owner, doc = 0, 1, 8, 9, 10, 11, 12
		err := each(ctx, s, func(r scanner) error {
			var has struct {
				org, status, owner, doc string
				created, final          int64
			}
			if err := r.Scan(&has.org, &has.created, &has.status, &has.final, &has.owner, &has.doc); err != nil {
				return err
			}
			i := slices.IndexFunc(records, func(r haft.Record) bool { return column(string(r.Call.ID)) == row[id] })
			same, running := has.org == row[org] && has.created == row[created], string(haft.StatusRunning)
			// What waits for a person goes on by an answer, or is ended by somebody who also ends the request.
			asked := has.status == string(haft.StatusPending) && row[status] != string(haft.StatusQueued) &&
				(row[final] == int64(0) || row[owner] != "")
			switch {
			case same && row[status] == has.status && (has.final == 1 || asked) && has.doc == row[doc]:
				stale.Kept = append(stale.Kept, records[i].Call.ID)
			case !same || has.final == 1 || has.owner != row[owner] &&
				(has.status == running || row[status] == running) ||
				asked:
				stale.Calls = append(stale.Calls, records[i].Call.ID)
			}
			return nil
		}, logged("SELECT org, created, status, final, owner, doc FROM calls WHERE id = $1"), row[id])
		if err != nil {
			return err
		}
	}
	if len(stale.Calls)+len(stale.Kept) == 0 {
		return nil
	}
	return &haft.Error{Code: haft.CodeConflict,
		Message: "the call has ended already, or is with another server, or its id is used", Err: stale}
}

// addApprovals adds requests for approval, or their answers. There are few, and each is
// asked by itself which of them came too late.
func (t *tx) addApprovals(ctx context.Context, list []haft.Approval, rows []any) error {
	stale := &Stale{}
	for row := range slices.Chunk(rows, insertApprovals.cols) {
		n, err := t.add(ctx, insertApprovals, row)
		if err != nil {
			return err
		}
		if n == 0 {
			i := slices.IndexFunc(list, func(a haft.Approval) bool { return column(string(a.ID)) == row[0] })
			stale.Calls = append(stale.Calls, list[i].Call)
		}
	}
	if len(stale.Calls) == 0 {
		return nil
	}
	return &haft.Error{Code: haft.CodeConflict, Message: "the request for approval is answered already", Err: stale}
}

// checkUnasked refuses the end of a call that has not begun, which has no owner, if a person is still asked about it:
// the request came after whoever ends the call looked.
func (t *tx) checkUnasked(ctx context.Context, records []haft.Record) error {
	stale := &Stale{}
	for _, r := range records {
		if r.Owner != "" || !r.Status.Final() {
			continue
		}
		asked := false
		if err := each(ctx, t, func(scanner) error { asked = true; return nil }, unlogged("SELECT id FROM approvals "+
			"WHERE call = $1 AND org = $2 AND state = 'pending'"), column(string(r.Call.ID)),
			column(r.Call.Principal.Org)); err != nil {
			return err
		}
		if asked {
			stale.Calls = append(stale.Calls, r.Call.ID)
		}
	}
	if len(stale.Calls) == 0 {
		return nil
	}
	return &haft.Error{Code: haft.CodeConflict, Message: "a person is asked about the call by now", Err: stale}
}

// encodeBatch makes the rows of b.
func encodeBatch(b Batch) (*encoded, error) {
	e := &encoded{}
	var err error
	if e.calls, err = callRows(b.Records); err != nil {
		return nil, err
	}
	if e.events, err = eventRows(b.Events); err != nil {
		return nil, err
	}
	if e.approvals, err = docRows(b.Approvals, func(a *haft.Approval) string { return string(a.ID) },
		approvalRow); err != nil {
		return nil, err
	}
	if e.chains, err = docRows(b.Chains, func(c *haft.Chain) string { return string(c.ID) },
		chainRow(b.Owner)); err != nil {
		return nil, err
	}
	e.limits = limitRows(b.Limits)
	return e, e.encodeAudit(b.Audit)
}

// callRows encodes records.
func callRows(records []haft.Record) ([]any, error) {
	open := map[haft.CallID]bool{}
	if len(records) > 1 {
		for _, r := range slices.Backward(records) {
			if r.Status.Final() && open[r.Call.ID] {
				return nil, &haft.Error{Code: haft.CodeConflict,
					Message: "a call that has ended cannot be opened again",
					Err:     &Stale{Calls: []haft.CallID{r.Call.ID}}}
			}
			open[r.Call.ID] = open[r.Call.ID] || !r.Status.Final()
		}
	}
	rows := make([]any, 0, len(records)*insertCalls.cols)
	for _, r := range rowset.Distinct(records, func(r *haft.Record) string { return string(r.Call.ID) }) {
		c := &r.Call
		switch {
		case c.ID == "" || c.Principal.Org == "" || r.Status == "":
			return nil, invalid("a record has an id, an organisation and a status")
		case len(r.Sealed) > MaxSealed:
			return nil, invalid("the arguments and environment of a call have %d bytes, %d is the most", len(r.Sealed),
				MaxSealed)
		case !utf8.Valid(r.Sealed) || bytes.IndexByte(r.Sealed, 0) >= 0:
			return nil, invalid("the arguments of a call are not text")
		}
		doc, err := encodeRecord(r)
		if err != nil {
			return nil, err
		}
		var sealed any
		if len(r.Sealed) > 0 && !r.Status.Final() {
			sealed = string(r.Sealed)
		}
		rows = append(rows, column(string(c.ID)), column(c.Principal.Org), column(c.Principal.Owner()),
			column(c.Principal.Agent),
			column(c.Tool), column(c.Turn), column(string(c.Parent)), column(string(c.Chain)), stored.Micros(r.Created),
			string(r.Status), stored.Bool(r.Status.Final()),
			column(r.Owner), doc, sealed)
	}
	return rows, nil
}

// encodeRecord encodes r, cut to what may be kept: first the files go, then what
// was printed, then the value. The result says so.
func encodeRecord(r *haft.Record) (string, error) {
	doc, err := stored.Encode(r)
	if err != nil || len(doc) <= MaxRecord || r.Result == nil {
		return doc, bounded(err, doc)
	}
	small, result := *r, *r.Result
	small.Result = &result
	result.Artifacts = slices.Clone(result.Artifacts)
	for i := range result.Artifacts {
		result.Artifacts[i].Data = nil
	}
	result.Truncated.Artifacts += int64(len(result.Artifacts))
	if doc, err = stored.Encode(small); err != nil || len(doc) <= MaxRecord {
		return doc, err
	}
	result.Truncated.Stdout += int64(len(result.Stdout))
	result.Truncated.Stderr += int64(len(result.Stderr))
	result.Stdout, result.Stderr = "", ""
	if doc, err = stored.Encode(small); err != nil || len(doc) <= MaxRecord {
		return doc, err
	}
	result.Truncated.Value += int64(utf8.RuneCount(result.Value))
	result.Value, result.Content = json.RawMessage("null"), nil
	doc, err = stored.Encode(small)
	return doc, bounded(err, doc)
}

func bounded(err error, doc string) error {
	if err == nil && len(doc) > MaxRecord {
		return invalid("what is to be kept of a call has %d bytes, %d is the most", len(doc), MaxRecord)
	}
	return err
}

// docRows makes rows of the last one of each id, whose last column is its document.
func docRows[T any](all []T, id func(*T) string, row func(*T) ([]any, error)) ([]any, error) {
	var rows []any
	for _, v := range rowset.Distinct(all, id) {
		columns, err := row(v)
		if err != nil {
			return nil, err
		}
		doc, err := stored.Encode(v)
		if err = bounded(err, doc); err != nil {
			return nil, err
		}
		rows = append(append(rows, columns...), doc)
	}
	return rows, nil
}

// approvalRow returns the columns of an approval but its document.
func approvalRow(a *haft.Approval) ([]any, error) {
	if a.ID == "" || a.Requester.Org == "" || a.State == "" {
		return nil, invalid("an approval has an id, an organisation and a state")
	}
	return []any{column(string(a.ID)), column(a.Requester.Org), column(string(a.Call)), string(a.State),
		stored.Micros(a.Created), stored.Micros(a.Expires)}, nil
}

// chainRow returns what makes the columns of a chain of owner but its document.
func chainRow(owner string) func(*haft.Chain) ([]any, error) {
	return func(c *haft.Chain) ([]any, error) {
		if c.ID == "" || c.Principal.Org == "" || c.Status == "" {
			return nil, invalid("a chain has an id, an organisation and a status")
		}
		return []any{column(string(c.ID)), column(c.Principal.Org), stored.Micros(c.Created),
			stored.Bool(c.Status.Final()),
			column(owner)}, nil
	}
}

// limitRows encodes states of limits.
func limitRows(list []limit.State) []any {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b limit.State) int { // the latest last, which is the one that stays
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Used, b.Used), cmp.Compare(b.Tokens, a.Tokens))
	})
	rows := make([]any, 0, len(list)*insertLimits.cols)
	for _, l := range rowset.Distinct(list, func(l *limit.State) string { return l.Key }) {
		rows = append(rows, column(l.Key), l.Tokens, l.Used, stored.Micros(l.At))
	}
	return rows
}
