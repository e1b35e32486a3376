package store_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"haft"
	"haft/internal/limit"
	"haft/internal/store"
	"haft/internal/store/rowset"
)

// rows is a batch as it goes into the log.
func rows(t testing.TB) []byte {
	t.Helper()
	now := time.UnixMicro(1_800_000_000_000_000)
	p := haft.Principal{Org: "acme", User: "ann"}
	raw, err := store.Rows(store.Batch{
		Records: []haft.Record{
			{Call: haft.Call{ID: "a", Tool: "add", Principal: p}, Status: haft.StatusRunning, Created: now,
				Sealed: json.RawMessage(`{"a":1}`)},
			{Call: haft.Call{ID: "b", Tool: "add", Principal: p}, Status: haft.StatusSuccess, Created: now,
				Result: &haft.Result{Tool: "add"}},
		},
		Events: []haft.Event{{Cursor: 1, Seq: 1, Type: haft.EventExecuting, Time: now, Call: "a", Tool: "add",
			Principal: p}},
		Limits: []limit.State{{Key: "k", Tokens: 0.5, Used: -1, At: now}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func FuzzRowset(f *testing.F) {
	f.Add(rows(f))
	f.Add([]byte{0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, raw []byte) {
		again, _, err := store.Recode(raw)
		if err != nil {
			return
		}
		// A number may have been written longer than it needs: what comes back
		// comes back for good.
		if third, _, err := store.Recode(again); err != nil || !bytes.Equal(third, again) {
			t.Errorf("%q is read back as %q, %v", again, third, err)
		}
	})
}

func TestRowset_comes_back(t *testing.T) {
	raw := rows(t)
	again, _, err := store.Recode(raw)
	if err != nil || !bytes.Equal(raw, again) {
		t.Errorf("%q is read back as %q, %v", raw, again, err)
	}
	for n := range raw {
		if _, _, err := store.Recode(raw[:n]); err == nil {
			t.Errorf("the first %d bytes are read as a whole", n)
		}
	}
}

// TestRowset_columns: whoever changes the columns counts the version up, and this
// with it.
func TestRowset_columns(t *testing.T) {
	version, columns := store.RowsetColumns()
	want := []string{
		"INSERT INTO calls (id, org, usr, agent, tool, turn, parent, chain, created, status, final, owner, doc, " +
			"sealed)",
		"INSERT INTO events (cursor, org, call, usr, agent, tool, seq, type, at, rest, data)",
		"INSERT INTO audit (org, seq, at, doc, body, prev, hash)",
		"INSERT INTO limits (name, tokens, used, at)",
		"INSERT INTO usage_hours (org, hour, tool, usr, agent, status, calls, cached, wall, cpu, output, " +
			"network, rss)",
	}
	if version != 2 || !slices.Equal(columns, want) {
		t.Errorf("version %d has the columns %q, want %q", version, columns, want)
	}
}

// Rows of the version before are read with columns of 0: a process that was killed may have left them.
func TestRowset_reads_the_version_before(t *testing.T) {
	row := []any{"o", int64(1), "t", "u", "a", "success", int64(1), int64(0), int64(7), int64(8), int64(9)}
	raw, err := (&rowset.Set{Usage: append(slices.Clone(row), row...)}).AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	cols := rowset.Columns{14, 11, 7, 4, 13}
	set, err := rowset.Read(raw, 1, cols)
	want := append(slices.Clone(row), int64(0), int64(0))
	if err != nil || !slices.Equal(set.Usage, append(slices.Clone(want), want...)) {
		t.Errorf("read %v, %v", set, err)
	}
	if _, err := rowset.Read(raw, rowset.Version, cols); err == nil {
		t.Error("rows of the version before are read as rows of this one")
	}
	if rowset.Readable(0) || rowset.Readable(3) || !rowset.Readable(1) || !rowset.Readable(2) {
		t.Error("the versions 1 and 2 can be read, and no other")
	}
}
