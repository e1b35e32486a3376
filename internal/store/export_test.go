package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"haft"
	"haft/internal/event"
	"haft/internal/store/rowset"
)

// A Plan is how a database answers one query of the hot paths.
type Plan struct {
	Name  string
	Lines []string
}

// Plans asks the database how it answers the queries whose cost must not grow with
// what is kept. Each is explained with explain in front, such as EXPLAIN QUERY
// PLAN, whose last column is a line of text. Tests hold them against what is
// allowed.
func (s *Store) Plans(ctx context.Context, explain string) ([]Plan, error) {
	type named struct {
		name string
		query
		args []any
	}
	list := []named{
		{"tool", toolByRef, []any{"acme", "add"}},
		{"stamp", stampByRef, []any{"acme", "add"}},
		{"version", versionFrom + "v.number = $3", []any{"acme", "id", 1}},
		{"version by digest", versionFrom + "v.digest = $3 ORDER BY v.number DESC LIMIT 1", []any{"acme", "id", "d"}},
		{"search", exactQuery, []any{"acme", "word", 256}},
		{"search prefix", prefixQuery, []any{"acme", "word", "wore", 256}},
		{"search load", loadQuery("acme", []any{"1", "2", "3", "4", "5", "6", "7", "8"}), nil},
		{"search complete", completeQuery([]any{"1", "2", "3", "4"}, []string{"a", "b"}), nil},
		{"record", recordByID, []any{"c", "acme"}},
		{"turn", turnQuery, []any{"acme", "t", "x", 1000}},
		{"pending approvals", approvalQuery, []any{"acme", "pending", 0, "", 10}},
		{"last event", highest, nil},
		{"last of calls", logged("SELECT call, MAX(seq) FROM events WHERE call IN ($1,$2) GROUP BY call"),
			[]any{"a", "b"}},
		{"end of chain", lastEntry, []any{"acme"}},
		{"audit logs to index", unindexedQuery, []any{"", 1000}},
	}
	add := func(name string, q query, args ...any) { list = append(list, named{name, q, args}) }
	for name, f := range map[string]haft.ToolFilter{
		"tools": {After: "a"}, "tools by tag": {Tag: "a"}, "tools by category": {Category: "a"},
		"tools by kind": {Kind: haft.KindBash},
	} {
		add(name, toolQuery("acme", f))
	}
	for name, f := range map[string]haft.CallFilter{
		"calls": {}, "calls before": {Before: "c"}, "calls of user": {User: "u"},
		"calls of user before": {User: "u", Before: "c"}, "calls of agent": {Agent: "a"},
		"calls of tool": {Tool: "t"}, "calls of turn": {Turn: "t"}, "calls of parent": {Parent: "p"},
	} {
		f.Org, f.Limit = "acme", 50
		add(name, recordQuery(f, "", 1))
	}
	add("calls by status", recordQuery(haft.CallFilter{Org: "acme", Limit: 50}, haft.StatusError, 0))
	add("queued calls", queuedQuery, "acme", "p", 10)
	add("running calls", runningQuery, "p", "acme", 1, "c", 10)
	add("answered calls", answeredQuery, "acme", 1, "c", 10)
	place := haft.AuditPlace{Time: time.Unix(1, 0), Seq: 7}
	later := place.Time.Add(time.Hour)
	for name, f := range map[string]haft.AuditFilter{"audit": {}, "audit from the start": {Oldest: true}} {
		add(name, numberQuery("acme", f, place))
	}
	for name, f := range map[string]haft.AuditFilter{
		"a kind": {Kind: "k"}, "a user": {User: "u"}, "an agent": {Agent: "a"}, "a tool": {Tool: "t"},
		"a call": {Call: "c"},
		"a time": {Since: place.Time}, "a time until": {Until: later},
		"a kind and a time": {Kind: "k", Since: place.Time, Until: later},
		"a kind and a user": {Kind: "k", User: "u"},
		"all that there is": {Kind: "k", User: "u", Agent: "a", Tool: "t", Call: "c", Since: place.Time, Until: later},
	} {
		for _, f.Oldest = range []bool{false, true} {
			name := fmt.Sprintf("%s, oldest %t", name, f.Oldest)
			add("audit of "+name, facetQuery("acme", f, place, facetsOf(f), nil))
			add("first audit of "+name, facetQuery("acme", f, haft.AuditPlace{}, facetsOf(f), nil))
			add("audit of, how far, "+name, lastOfPageQuery("acme", f, place, facetsOf(f)[0]))
		}
	}
	add("audit counted", countQuery, "acme", facetKind, "k", fewRows)
	add("audit up to a place", facetQuery("acme", haft.AuditFilter{Kind: "k"}, haft.AuditPlace{},
		[]facet{{facetKind, "k"}, {facetUser, "u"}}, &place))
	for name, f := range map[string]event.Filter{"events": {}, "events of org": {Org: "acme"},
		"events of call": {Org: "acme", Call: "c"}} {
		add(name, eventQuery(f, 1, 10))
	}
	var plans []Plan
	for _, q := range list {
		text, own, _ := q.sql()
		lines, err := s.plan(ctx, explain+" "+text, append(own, q.args...))
		if err != nil {
			return nil, fmt.Errorf("explain %s: %w", q.name, err)
		}
		plans = append(plans, Plan{q.name, lines})
	}
	return plans, nil
}

// plan returns the last column of a query's rows.
func (s *Store) plan(ctx context.Context, text string, args []any) ([]string, error) {
	rows, err := s.read.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	var lines []string
	err = eachRow(rows, func(r scanner) error {
		cells, to := make([]string, len(columns)), make([]any, len(columns))
		for i := range cells {
			to[i] = &cells[i]
		}
		err := r.Scan(to...)
		lines = append(lines, cells[len(cells)-1])
		return err
	})
	return lines, err
}

// Analysed reports whether SQLite has counted rows, and plans by them.
func (s *Store) Analysed(ctx context.Context) (bool, error) {
	found, err := s.plan(ctx, "SELECT name FROM sqlite_master WHERE name LIKE 'sqlite_stat%'", nil)
	return len(found) > 0, err
}

// MaxColumn is the longest text of a column.
const MaxColumn = maxColumn

// Recode reads a rowset, and returns it encoded again, and merged with itself.
func Recode(raw []byte) (again []byte, merged int, err error) {
	r, err := rowset.Read(raw, rowset.Version, loggedColumns())
	if err != nil {
		return nil, 0, err
	}
	m := rowset.Merge([]*rowset.Set{r, r}, loggedColumns())
	for _, rows := range m.Tables() {
		merged += len(*rows)
	}
	again, err = r.AppendTo(nil)
	return again, merged, err
}

// Rows encodes a batch as it goes into the log.
func Rows(b Batch) ([]byte, error) {
	e, err := encodeBatch(b)
	if err != nil {
		return nil, err
	}
	r := &rowset.Set{Calls: e.calls, Events: e.events, Limits: e.limits, Usage: usageRows(b.Records)}
	return r.AppendTo(nil)
}

// RowsetColumns are the version of rowsets and the columns that they have.
func RowsetColumns() (version int, columns []string) {
	for _, in := range loggedInserts() {
		columns = append(columns, in.head)
	}
	return rowset.Version, columns
}

// FailLog has the log take a batch that the store does not hear of, and fail from
// then on: as a disk does that writes and then says that it did not.
func (s *Store) FailLog(b Batch) error {
	payload, err := Rows(b)
	if err != nil {
		return err
	}
	<-s.front.order
	defer func() { s.front.order <- struct{}{} }()
	if s.front.log == nil {
		return errors.New("there is no log")
	}
	_, err = s.front.log.Append(payload)
	return errors.Join(err, s.front.log.Close())
}

// FailSync has the next attempt to bring the database to the disk fail, and those
// after it say that all is well: as a kernel does that has dropped the pages.
func (s *Store) FailSync() {
	sync, failed := s.dialect.Sync, false
	s.dialect.Sync = func() error {
		if !failed {
			failed = true
			return errors.New("input/output error")
		}
		return sync()
	}
}

// FreeLog brings the log into the database, and makes its room free.
func (s *Store) FreeLog(ctx context.Context) error {
	if err := s.front.settle(ctx); err != nil {
		return err
	}
	return s.front.trim(s.front.log, s.front.applied)
}

// Writing reports whether somebody writes to the database.
func (s *Store) Writing() bool { return len(s.turn) == 0 }

// MoveCondition is by what a call is moved.
func MoveCondition() string { return insertCalls.tail }

// LoggedTables are the tables to which rowsets add rows.
func LoggedTables() (tables []string) {
	for _, in := range loggedInserts() {
		tables = append(tables, strings.Fields(in.head)[2])
	}
	return tables
}
