package store_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"haft"
	"haft/internal/audit"
	"haft/internal/store"
	"haft/internal/store/sqlite"
)

var at = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

// open opens an empty store.
func open(t testing.TB) *store.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Config{})
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

// fill keeps tools and calls of one organisation.
func fill(t testing.TB, s *store.Store, tools, calls int) {
	t.Helper()
	for i := range tools {
		tool := haft.Tool{
			Org: "acme", Name: fmt.Sprintf("tool_%05d", i), Category: fmt.Sprint("category", i%20),
			Tags: []string{fmt.Sprint("tag", i%50)},
			Version: haft.Version{Kind: haft.KindPython, Digest: fmt.Sprint("d", i),
				Description: fmt.Sprintf("Does thing %d with words that all tools have.", i), Created: at},
		}
		if _, _, _, err := s.Tools.PutTool(t.Context(), tool, store.PutOptions{Activate: true}); err != nil {
			t.Fatalf("PutTool: %v", err)
		}
	}
	const size = 500
	for i := 0; i < calls; i += size {
		if err := s.Commit(t.Context(), past(i, min(size, calls-i))); err != nil {
			t.Fatalf("Commit: %v", err)
		}
	}
}

// past makes a batch of calls that have ended.
func past(from, n int) store.Batch {
	var b store.Batch
	for i := from; i < from+n; i++ {
		p := haft.Principal{Org: "acme", User: fmt.Sprint("u", i%100), Agent: fmt.Sprint("a", i%10)}
		id := haft.CallID(fmt.Sprintf("c%08d", i))
		b.Records = append(b.Records, haft.Record{
			Call: haft.Call{ID: id, Tool: fmt.Sprint("tool", i%1000), Principal: p, Turn: fmt.Sprint("t", i/5),
				Args: json.RawMessage(`{}`)},
			Status: haft.Statuses()[i%7], Created: at.Add(time.Duration(i) * time.Millisecond), Owner: "p",
		})
		b.Events = append(b.Events, haft.Event{Seq: 1, Type: haft.EventCompleted, Time: at, Call: id, Tool: "t",
			Principal: p})
		kind := "call.ended"
		if i%10_000 == 9_999 {
			kind = "policy.put"
		}
		b.Audit = append(b.Audit, audit.Entry{Org: "acme", Kind: kind, Actor: p, Call: id,
			Tool: fmt.Sprint("tool", i%1000), Time: at.Add(time.Duration(i) * time.Millisecond)})
	}
	return b
}

// scale says how many tools and calls to keep for the benchmarks.
func scale() (tools, calls int) {
	if os.Getenv("HAFT_SCALE") == "full" {
		return 10_000, 1_000_000
	}
	return 10_000, 50_000
}

// inOrder are the queries that read what an organisation has from one end on, and
// stop when they have enough.
var inOrder = map[string]bool{"calls": true, "end of chain": true}

// TestPlans: every query of the hot paths reads a piece of an index, in order. Then
// what it costs does not grow with what is kept, which timings under load would
// not show.
//
// SQLite plans by the indexes alone until somebody runs ANALYZE, which the store
// never does and this test looks for: so a few rows are as good as a million, which
// HAFT_SCALE=full keeps.
func TestPlans(t *testing.T) {
	s := open(t)
	tools, calls := 200, 1000
	if os.Getenv("HAFT_SCALE") == "full" {
		tools, calls = scale()
	}
	fill(t, s, tools, calls)
	if analysed, err := s.Analysed(t.Context()); err != nil || analysed {
		t.Errorf("Analysed = %v, %v: plans depend on what is kept", analysed, err)
	}
	plans, err := s.Plans(t.Context(), "EXPLAIN QUERY PLAN")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range plans {
		searches := 0
		for _, line := range p.Lines {
			switch {
			case strings.HasPrefix(line, "SEARCH") && strings.Contains(line, "USING"):
				searches++
				if strings.HasPrefix(p.Name, "audit of") && strings.Contains(line, " f ") &&
					!strings.Contains(line, "(at,seq)") {
					t.Errorf("%s does not begin where the page before ended: %s", p.Name, line)
				}
				if strings.HasSuffix(line, "(org=?)") && !inOrder[p.Name] {
					t.Errorf("%s reads all that an organisation has: %s", p.Name, line)
				}
			case p.Name == "last event" && strings.HasPrefix(line, "SCAN h"): // three rows
			case line == "SCAN counted": // those that a limit leaves
			case strings.HasPrefix(line, "SCAN"), strings.Contains(line, "TEMP B-TREE"),
				strings.Contains(line, "AUTOMATIC"):
				t.Errorf("%s: %s", p.Name, line)
			}
		}
		if searches == 0 {
			t.Errorf("%s searches nothing: %q", p.Name, p.Lines)
		}
		t.Logf("%s: %s", p.Name, strings.Join(p.Lines, "; "))
	}
	page, err := s.Calls.Records(t.Context(), haft.CallFilter{Org: "acme",
		Status: []haft.Status{haft.StatusError, haft.StatusSuccess}})
	if err != nil || len(page) != 50 {
		t.Errorf("Records = %d, %v", len(page), err)
	}
}

// auditFilters are the ways in which an audit of so many entries is searched: what is
// common, what is rare, and what never comes together, each from both ends.
func auditFilters(entries int) map[string]haft.AuditFilter {
	end := at.Add(time.Duration(entries) * time.Millisecond)
	middle := at.Add(time.Duration(entries/2) * time.Millisecond)
	filters := map[string]haft.AuditFilter{
		"all":             {},
		"kind":            {Kind: "call.ended"},
		"rare kind":       {Kind: "policy.put"},
		"no kind":         {Kind: "none"},
		"user":            {User: "u3"},
		"agent":           {Agent: "a3"},
		"tool":            {Tool: "tool3"},
		"call":            {Call: "c00000050"},
		"since":           {Since: middle},
		"until":           {Until: middle},
		"an hour":         {Since: end.Add(-time.Hour), Until: end},
		"kind until":      {Kind: "call.ended", Until: middle},
		"user and agent":  {User: "u3", Agent: "a3", Since: at.Add(50 * time.Millisecond)},
		"kind and user":   {Kind: "call.ended", User: "u3"},
		"never together":  {User: "u3", Agent: "a4"},
		"rare and common": {Kind: "policy.put", Agent: "a9"},
		"all facets":      {Kind: "call.ended", User: "u50", Agent: "a0", Tool: "tool50", Call: "c00000050"},
	}
	both := map[string]haft.AuditFilter{}
	for name, f := range filters {
		f.Limit = 50
		both[name] = f
		f.Oldest = true
		both[name+", oldest first"] = f
	}
	return both
}

// BenchmarkRead times the queries over an empty store and over a full one.
func BenchmarkRead(b *testing.B) {
	tools, calls := scale()
	for name, size := range map[string][2]int{"few": {10, 100}, "many": {tools, calls}} {
		b.Run(name, func(b *testing.B) {
			s := open(b)
			fill(b, s, size[0], size[1])
			began := time.Now()
			if _, _, err := s.Audit.FindAudit(b.Context(), "acme", haft.AuditFilter{Kind: "none"},
				haft.AuditPlace{}); err != nil {
				b.Fatal(err)
			}
			b.Logf("the first search of %d entries took %v", size[1], time.Since(began))
			for name, f := range auditFilters(size[1]) {
				b.Run("FindAudit/"+name, func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						if _, _, err := s.Audit.FindAudit(b.Context(), "acme", f, haft.AuditPlace{}); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
			for _, q := range []struct {
				name string
				run  func() error
			}{
				{"Tool", func() error { _, err := s.Tools.Tool(b.Context(), "acme", "tool_00003"); return err }},
				{"ToolStamp",
					func() error { _, _, _, err := s.Tools.ToolStamp(b.Context(), "acme", "tool_00003"); return err }},
				{"Tools", func() error {
					_, err := s.Tools.Tools(b.Context(), "acme", haft.ToolFilter{After: "tool_00001", Limit: 5})
					return err
				}},
				{"SearchTools",
					func() error { _, err := s.Tools.SearchTools(b.Context(), "acme", "thing 3", 5); return err }},
				{"Record", func() error { _, err := s.Calls.Record(b.Context(), "acme", "c00000050"); return err }},
				{"Records", func() error {
					_, err := s.Calls.Records(b.Context(),
						haft.CallFilter{Org: "acme"})
					return err
				}},
			} {
				b.Run(q.name, func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						if err := q.run(); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		})
	}
}
