package store

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"haft"
	"haft/internal/audit"
	"haft/internal/store/stored"
)

// An auditDoc is what of an entry has no column of its own.
type auditDoc struct {
	Kind   string         `json:"kind"`
	Actor  haft.Principal `json:"actor"`
	Call   haft.CallID    `json:"call,omitempty"`
	Tool   string         `json:"tool,omitempty"`
	Digest string         `json:"digest,omitempty"`
	Erased string         `json:"erased,omitempty"`
}

// heads are the ends of the audit chains and of the events, as far as a store
// that nobody else writes to remembers them.
type heads struct {
	chains map[string]audit.Head
	cursor int64
	known  bool // cursor is
}

// maxHeads bounds the chains whose heads are remembered.
const maxHeads = 10_000

// encodeAudit encodes entries. Their numbers are not known yet.
func (e *encoded) encodeAudit(entries []audit.Entry) error {
	for _, entry := range entries {
		if entry.Org == "" || entry.Kind == "" {
			return invalid("an entry of the audit trail has an organisation and a kind")
		}
		entry = tidy(entry)
		doc, err := stored.Encode(auditDoc{Kind: entry.Kind, Actor: entry.Actor, Call: entry.Call, Tool: entry.Tool,
			Digest: entry.Digest})
		if err != nil {
			return err
		}
		if n := len(doc) + len(entry.Body); n > MaxRecord {
			return invalid("an entry of the audit trail has %d bytes, %d is the most", n, MaxRecord)
		}
		e.audit = append(e.audit, auditRow{entry, doc})
	}
	return nil
}

// An auditRow is an entry with its document.
type auditRow struct {
	audit.Entry
	doc string
}

// tidy makes of the text of an entry what comes back unchanged. [audit.Link] does
// the same to all but Body, which has to be encoded before it is linked.
func tidy(e audit.Entry) audit.Entry {
	e = e.Valid()
	if !utf8.Valid(e.Body) || slices.Contains(e.Body, 0) {
		e.Body = json.RawMessage(strings.ReplaceAll(stored.Text(e.Body), "\x00", string(utf8.RuneError)))
	}
	return e
}

// addAudit links entries to their chains and adds them.
func (t *tx) addAudit(ctx context.Context, e *encoded) error {
	if len(e.audit) == 0 {
		return nil
	}
	heads, err := t.chainHeads(ctx, e.audit)
	if err != nil {
		return err
	}
	if _, err := t.add(ctx, insertAudit, e.link(heads)); err != nil {
		return err
	}
	return t.moveHeads(ctx, heads)
}

// link links entries to the ends of their chains, moves the ends, and returns the
// rows. It is done in the order of the chain: an entry without a time gets that of now,
// so that the times of a chain do not go back because somebody had to wait.
func (e *encoded) link(ends map[string]audit.Head) []any {
	rows := make([]any, 0, len(e.audit)*insertAudit.cols)
	now := time.Now()
	for _, entry := range e.audit {
		if entry.Time.IsZero() {
			entry.Time = now
		}
		linked := audit.Link(ends[entry.Org], entry.Entry)
		ends[entry.Org] = linked.Head()
		rows = append(rows, column(linked.Org), linked.Seq, stored.Micros(linked.Time), entry.doc, string(entry.Body),
			linked.Prev, linked.Hash)
	}
	return rows
}

// chainHeads returns where the chains of entries stand. In a shared store they
// are locked, in the order of their names, until the transaction ends.
func (t *tx) chainHeads(ctx context.Context, entries []auditRow) (map[string]audit.Head, error) {
	found := make(map[string]audit.Head, 1)
	for _, e := range entries {
		found[e.Org] = audit.Head{Org: e.Org}
	}
	if t.s.dialect.Shared {
		return found, t.lockHeads(ctx, found)
	}
	kept := &t.s.heads
	if kept.chains == nil || len(kept.chains) > maxHeads {
		kept.chains = make(map[string]audit.Head)
	}
	for org := range found {
		head, ok := kept.chains[org]
		if !ok {
			var err error
			if head, err = lastHead(ctx, t, org); err != nil {
				return nil, err
			}
		}
		found[org] = head
	}
	return found, nil
}

const lastEntry logged = "SELECT seq, hash FROM audit WHERE org = $1 ORDER BY seq DESC LIMIT 1"

// lastHead reads where the chain of an organisation stands.
func lastHead(ctx context.Context, from source, org string) (audit.Head, error) {
	head := audit.Genesis(org)
	last, err := first(ctx, from, "find the end of the audit trail", scanPair[int64, string], lastEntry, column(org))
	if last != nil {
		head.Seq, head.Hash = last.a, last.b
	}
	return head, err
}

// lockHeads locks and reads the heads of chains, and makes those that are new.
func (t *tx) lockHeads(ctx context.Context, heads map[string]audit.Head) error {
	orgs := sortedKeys(heads)
	byColumn := make(map[string]string, len(orgs))
	var fresh []any
	for _, org := range orgs {
		name, err := stored.Encode(org)
		if err != nil {
			return err
		}
		byColumn[column(org)] = org
		fresh = append(fresh, column(org), name, int64(0), audit.Genesis(org).Hash)
	}
	for range 2 {
		n := 0
		err := chunks(orgs, func(part []string) error {
			q := build("SELECT org, seq, hash FROM audit_heads WHERE org IN ")
			q.in(columns(part))
			q.add(" ORDER BY org" + t.s.dialect.ForUpdate)
			return each(ctx, t, func(r scanner) error {
				var h audit.Head
				err := r.Scan(&h.Org, &h.Seq, &h.Hash)
				h.Org = byColumn[h.Org]
				heads[h.Org] = h
				n++
				return err
			}, q.logged())
		})
		if err != nil || n == len(orgs) {
			return err
		}
		if _, err := t.add(ctx, insertNewHeads, fresh); err != nil {
			return err
		}
	}
	return fmt.Errorf("the heads of %d audit chains cannot be locked", len(orgs))
}

var insertNewHeads = &insert{"INSERT INTO audit_heads (org, name, seq, hash)", 4, " ON CONFLICT (org) DO NOTHING"}

// moveHeads keeps where chains stand now: in the database if it is shared, and
// else in memory. Then the database only has to know the names of the chains.
func (t *tx) moveHeads(ctx context.Context, heads map[string]audit.Head) error {
	var rows []any
	for _, org := range sortedKeys(heads) {
		head := heads[org]
		if !t.s.dialect.Shared {
			_, known := t.s.heads.chains[org]
			t.s.heads.chains[org] = head // forgotten if the transaction fails
			if known {
				continue
			}
		}
		name, err := stored.Encode(org)
		if err != nil {
			return err
		}
		rows = append(rows, column(org), name, head.Seq, head.Hash)
	}
	_, err := t.add(ctx, insertHeads, rows)
	return err
}

// sortedKeys returns the keys of m in the order of their columns.
func sortedKeys(m map[string]audit.Head) []string {
	return slices.SortedFunc(maps.Keys(m), func(a, b string) int { return cmp.Compare(column(a), column(b)) })
}

// AuditEntries lists the entries of an organisation after the one with that
// number, in order.
func (s Audit) AuditEntries(ctx context.Context, org string, after int64, limit int) ([]audit.Entry, error) {
	return list(ctx, s.db, "list the audit trail", auditOf(org),
		logged("SELECT seq, at, doc, body, prev, hash FROM audit WHERE org = $1 AND seq > $2 ORDER BY seq LIMIT $3"),
		column(org), after, page(limit))
}

// AuditHead returns where the chain of an organisation stands; one that is empty
// stands at its [audit.Genesis].
func (s Audit) AuditHead(ctx context.Context, org string) (audit.Head, error) {
	return lastHead(ctx, s.db, org)
}

// AuditOrgs lists the organisations that have a chain.
func (s Audit) AuditOrgs(ctx context.Context) ([]string, error) {
	var all []string
	for after := ""; ; {
		part, err := list(ctx, s.db, "list the audit trails", func(r scanner) (org string, err error) {
			var name string
			if err := r.Scan(&after, &name); err != nil {
				return "", err
			}
			err = stored.Decode(name, &org)
			return org, err
		}, logged("SELECT org, name FROM audit_heads WHERE org > $1 ORDER BY org LIMIT $2"), after, MaxPage)
		if all = append(all, part...); err != nil || len(part) < MaxPage {
			return all, err
		}
	}
}

// PutCheckpoint keeps a checkpoint without a place, as earlier versions made them; see
// AddCheckpoints. The first one of a key for an entry stays. Only tests still make such ones.
func (s Audit) PutCheckpoint(ctx context.Context, c audit.Checkpoint) error {
	doc, err := stored.Encode(c)
	if err != nil {
		return err
	}
	_, err = s.db.exec(ctx, "keep a checkpoint",
		"INSERT INTO checkpoints (org, seq, key, doc) VALUES ($1, $2, $3, $4) "+
			"ON CONFLICT (org, seq, key) DO NOTHING", column(c.Org), c.Seq, column(c.Key), doc)
	return err
}

// Checkpoints lists the checkpoints of an organisation without a place after the entry
// with that number, in order.
func (s Audit) Checkpoints(ctx context.Context, org string, after int64, limit int) ([]audit.Checkpoint, error) {
	return list(ctx, s.db, "list checkpoints", doc[audit.Checkpoint],
		unlogged("SELECT doc FROM checkpoints WHERE org = $1 AND seq > $2 ORDER BY seq, key LIMIT $3"), column(org),
		after, page(limit))
}
