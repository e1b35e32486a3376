package store

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"

	"haft"
	"haft/audit"
)

// The statements of a batch. What an update does not name never changes, and so
// the indexes over it are not touched when a call ends.
var (
	insertCalls = &insert{
		"INSERT INTO calls (id, org, usr, agent, tool, turn, parent, chain, created, status, final, owner, doc, sealed)", 14,
		` ON CONFLICT (id) DO UPDATE SET status = excluded.status, final = excluded.final, owner = excluded.owner, doc = excluded.doc,
		sealed = CASE WHEN excluded.final = 1 THEN NULL ELSE COALESCE(excluded.sealed, calls.sealed) END
		WHERE calls.org = excluded.org AND calls.created = excluded.created AND (calls.final = 0 OR excluded.final = 1)`,
	}
	insertEvents    = &insert{"INSERT INTO events (cursor, org, call, usr, agent, tool, seq, type, at, rest, data)", 11, ""}
	insertAudit     = &insert{"INSERT INTO audit (org, seq, at, doc, body, prev, hash)", 7, ""}
	insertApprovals = &insert{
		"INSERT INTO approvals (id, org, call, state, created, expires, doc)", 7,
		` ON CONFLICT (id) DO UPDATE SET state = excluded.state, expires = excluded.expires, doc = excluded.doc
		WHERE approvals.org = excluded.org AND (approvals.state = 'pending' OR excluded.state <> 'pending')`,
	}
	insertChains = &insert{
		"INSERT INTO chains (id, org, created, final, doc)", 5,
		` ON CONFLICT (id) DO UPDATE SET final = excluded.final, doc = excluded.doc
		WHERE chains.org = excluded.org AND (chains.final = 0 OR excluded.final = 1)`,
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

// A Stale error says which calls of a batch have ended already and were to be
// opened again, or have the id of another call. Nothing of the batch was kept; without
// them it can be.
type Stale struct{ Calls []haft.CallID }

// Error implements error.
func (s *Stale) Error() string { return fmt.Sprintf("%d calls have ended already", len(s.Calls)) }

// encoded is a batch as it goes to the database. It is made before anybody waits.
type encoded struct {
	calls, events, approvals, chains, limits []any
	audit                                    []audit.Entry
	auditDocs                                []string
	auditBodies                              []string
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
	err = s.write(ctx, func(ctx context.Context, t *tx) error {
		if err := t.addUsage(ctx, b); err != nil { // while it is known what ended before
			return err
		}
		if err := t.addCalls(ctx, b.Records, e.calls); err != nil {
			return err
		}
		if n, err := t.add(ctx, insertApprovals, e.approvals); err != nil {
			return err
		} else if int(n)*insertApprovals.cols != len(e.approvals) {
			return conflict("an approval that is answered cannot be asked for again")
		}
		if n, err := t.add(ctx, insertChains, e.chains); err != nil {
			return err
		} else if int(n)*insertChains.cols != len(e.chains) {
			return conflict("a chain that has ended cannot go on")
		}
		if _, err := t.add(ctx, insertLimits, e.limits); err != nil {
			return err
		}
		if err := t.addAudit(ctx, e); err != nil {
			return err
		}
		return t.addEvents(ctx, b.Events, e.events)
	})
	if err != nil {
		return fmt.Errorf("keep a batch: %w", err)
	}
	return nil
}

// addCalls adds records, or replaces them by later ones of the same call: an id that is
// used again, at another time or in another organisation, is that of another call.
func (t *tx) addCalls(ctx context.Context, records []haft.Record, rows []any) error {
	n, err := t.add(ctx, insertCalls, rows)
	if err != nil || int(n)*insertCalls.cols == len(rows) {
		return err
	}
	stale := &Stale{}
	err = chunks(records, func(part []haft.Record) error {
		args := make([]any, len(part))
		for i, r := range part {
			args[i] = column(string(r.Call.ID))
		}
		args = pad(args)
		found, err := t.query(ctx, "SELECT id, org, created, final FROM calls WHERE id IN "+in(len(args), 1), args...)
		if err != nil {
			return err
		}
		return each(found, func(rows scanner) error {
			var id, org string
			var created, final int64
			if err := rows.Scan(&id, &org, &created, &final); err != nil {
				return err
			}
			i := slices.IndexFunc(part, func(r haft.Record) bool { return column(string(r.Call.ID)) == id })
			r := part[i]
			if org != column(r.Call.Principal.Org) || created != micros(r.Created) || final == 1 && !r.Status.Final() {
				stale.Calls = append(stale.Calls, r.Call.ID)
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	return &haft.Error{Code: haft.CodeConflict, Message: "a call that has ended cannot be opened again, and an id is used once", Err: stale}
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
	if e.approvals, err = approvalRows(b.Approvals); err != nil {
		return nil, err
	}
	if e.chains, err = chainRows(b.Chains); err != nil {
		return nil, err
	}
	e.limits = limitRows(b.Limits)
	return e, e.encodeAudit(b.Audit)
}

// distinct returns list ordered by key, with the last one of each key. Postgres
// changes no row twice in one statement, and processes that lock rows in one
// order cannot wait for each other in a circle.
func distinct[T any](list []T, key func(*T) string) []*T {
	refs := make([]*T, len(list))
	sorted := true
	for i := range list {
		refs[i] = &list[i]
		sorted = sorted && (i == 0 || key(refs[i-1]) < key(refs[i]))
	}
	if sorted {
		return refs
	}
	slices.SortStableFunc(refs, func(a, b *T) int { return cmp.Compare(key(a), key(b)) })
	kept := refs[:0]
	for i, r := range refs {
		if i+1 == len(refs) || key(r) != key(refs[i+1]) {
			kept = append(kept, r)
		}
	}
	return kept
}

// callRows encodes records.
func callRows(records []haft.Record) ([]any, error) {
	if len(records) == 0 {
		return nil, nil
	}
	open := map[haft.CallID]bool{}
	if len(records) > 1 {
		for _, r := range slices.Backward(records) {
			if r.Status.Final() && open[r.Call.ID] {
				return nil, &haft.Error{Code: haft.CodeConflict, Message: "a call that has ended cannot be opened again", Err: &Stale{[]haft.CallID{r.Call.ID}}}
			}
			open[r.Call.ID] = open[r.Call.ID] || !r.Status.Final()
		}
	}
	rows := make([]any, 0, len(records)*insertCalls.cols)
	for _, r := range distinct(records, func(r *haft.Record) string { return string(r.Call.ID) }) {
		c := &r.Call
		switch {
		case c.ID == "" || c.Principal.Org == "" || r.Status == "":
			return nil, invalid("a record has an id, an organisation and a status")
		case len(r.Sealed) > MaxSealed:
			return nil, invalid("the arguments and environment of a call have %d bytes, %d is the most", len(r.Sealed), MaxSealed)
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
		rows = append(rows, column(string(c.ID)), column(c.Principal.Org), column(c.Principal.Owner()), column(c.Principal.Agent),
			column(c.Tool), column(c.Turn), column(string(c.Parent)), column(string(c.Chain)), micros(r.Created), string(r.Status), number(r.Status.Final()),
			column(r.Owner), doc, sealed)
	}
	return rows, nil
}

// encodeRecord encodes r, cut to what may be kept: first the files go, then what
// was printed, then the value. The result says so.
func encodeRecord(r *haft.Record) (string, error) {
	doc, err := encode(r)
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
	if doc, err = encode(small); err != nil || len(doc) <= MaxRecord {
		return doc, err
	}
	result.Truncated.Stdout += int64(len(result.Stdout))
	result.Truncated.Stderr += int64(len(result.Stderr))
	result.Stdout, result.Stderr = "", ""
	if doc, err = encode(small); err != nil || len(doc) <= MaxRecord {
		return doc, err
	}
	result.Truncated.Value += int64(utf8.RuneCount(result.Value))
	result.Value, result.Content = json.RawMessage("null"), nil
	doc, err = encode(small)
	return doc, bounded(err, doc)
}

func bounded(err error, doc string) error {
	if err == nil && len(doc) > MaxRecord {
		return invalid("what is to be kept of a call has %d bytes, %d is the most", len(doc), MaxRecord)
	}
	return err
}

// approvalRows encodes approvals.
func approvalRows(list []haft.Approval) ([]any, error) {
	if len(list) == 0 {
		return nil, nil
	}
	rows := make([]any, 0, len(list)*insertApprovals.cols)
	for _, a := range distinct(list, func(a *haft.Approval) string { return string(a.ID) }) {
		if a.ID == "" || a.Requester.Org == "" || a.State == "" {
			return nil, invalid("an approval has an id, an organisation and a state")
		}
		doc, err := encode(a)
		if err = bounded(err, doc); err != nil {
			return nil, err
		}
		rows = append(rows, column(string(a.ID)), column(a.Requester.Org), column(string(a.Call)), string(a.State),
			micros(a.Created), micros(a.Expires), doc)
	}
	return rows, nil
}

// chainRows encodes chains.
func chainRows(list []haft.Chain) ([]any, error) {
	if len(list) == 0 {
		return nil, nil
	}
	rows := make([]any, 0, len(list)*insertChains.cols)
	for _, c := range distinct(list, func(c *haft.Chain) string { return string(c.ID) }) {
		if c.ID == "" || c.Principal.Org == "" || c.Status == "" {
			return nil, invalid("a chain has an id, an organisation and a status")
		}
		doc, err := encode(c)
		if err = bounded(err, doc); err != nil {
			return nil, err
		}
		rows = append(rows, column(string(c.ID)), column(c.Principal.Org), micros(c.Created), number(c.Status.Final()), doc)
	}
	return rows, nil
}

// limitRows encodes states of limits.
func limitRows(list []LimitState) []any {
	if len(list) == 0 {
		return nil
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b LimitState) int { // the latest last, which is the one that stays
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Used, b.Used), cmp.Compare(b.Tokens, a.Tokens))
	})
	rows := make([]any, 0, len(list)*insertLimits.cols)
	for _, l := range distinct(list, func(l *LimitState) string { return l.Key }) {
		rows = append(rows, column(l.Key), l.Tokens, l.Used, micros(l.At))
	}
	return rows
}
