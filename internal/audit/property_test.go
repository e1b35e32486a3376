package audit_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"haft"
	"haft/internal/audit"
)

// anyEntry draws an entry with any content, sensible or not.
func anyEntry(t *rapid.T) audit.Entry {
	text := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()),
		func(b []byte) string { return string(b) }))
	e := audit.Entry{
		Org: "acme", Time: time.UnixMicro(rapid.Int64Range(0, 1<<52).Draw(t, "time")).Add(
			time.Duration(rapid.IntRange(0, 999).Draw(t, "nanos"))),
		Kind: text.Draw(t, "kind"), Call: haft.CallID(text.Draw(t, "call")),
		Tool: text.Draw(t, "tool"), Digest: text.Draw(t, "digest"),
		Actor: haft.Principal{
			Org: text.Draw(t, "actor"), User: text.Draw(t, "user"), Agent: text.Draw(t, "agent"),
			Roles: rapid.SliceOfN(text, 0, 3).Draw(t, "roles"),
		},
	}
	if rapid.Bool().Draw(t, "scoped") {
		e.Actor.Scope = append([]string{}, rapid.SliceOfN(text, 0, 3).Draw(t, "scope")...)
	}
	e.Body = rapid.OneOf(
		rapid.Just(json.RawMessage(nil)),
		rapid.SampledFrom([]json.RawMessage{
			[]byte(`null`), []byte(`""`), []byte(` {}`), []byte("{\n}"), []byte(`{"a":1,"a":2}`), []byte(`{"b":"<&>"}`),
			[]byte(`{"c":"\u003c\ud800"}`), []byte("\"\u2028\""), []byte("\"\xff\""), []byte(`1e999`),
			[]byte(`not JSON`),
		}),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) json.RawMessage { return b }),
		rapid.Map(rapid.MapOf(rapid.String(), rapid.Float64()), func(m map[string]float64) json.RawMessage {
			raw, err := json.Marshal(m)
			if err != nil {
				return []byte(`"` + err.Error() + `"`)
			}
			return raw
		}),
	).Draw(t, "body")
	return e
}

func anyChain(t *rapid.T, least int) []audit.Entry {
	var entries []audit.Entry
	head := audit.Genesis("acme")
	for range rapid.IntRange(least, 12).Draw(t, "length") {
		e := audit.Link(head, anyEntry(t))
		entries, head = append(entries, e), e.Head()
	}
	return entries
}

func TestProperty_any_other_order_or_number_of_entries_is_found(t *testing.T) {
	s := signer(t, 1)
	keys := audit.MakeKeys(s.Public())
	rapid.Check(t, func(t *rapid.T) {
		c := anyChain(t, 2)
		end := []audit.Checkpoint{s.Sign(c[len(c)-1].Head(), day)}
		report, err := audit.Verify(each(c), end, keys, audit.Head{Org: "acme"})
		if err != nil || !report.Sound() || report.Signed != int64(len(c)) {
			t.Fatalf("as it was written: %v, %v", report.Problems, err)
		}
		// Any selection of the entries, with or without repetition, in any order.
		picks := rapid.OneOf(
			rapid.Permutation(c),
			rapid.SliceOfN(rapid.SampledFrom(c), 0, 2*len(c)),
		).Draw(t, "picks")
		same := slices.EqualFunc(picks, c, func(a, b audit.Entry) bool { return a.Seq == b.Seq })
		report, err = audit.Verify(each(picks), end, keys, audit.Head{Org: "acme"})
		if err != nil || report.Sound() != same {
			t.Fatalf("other entries: sound = %v, want %v (%v)", report.Sound(), same, err)
		}
	})
}

func TestProperty_one_removal_duplication_or_change_is_named(t *testing.T) {
	s := signer(t, 1)
	keys := audit.MakeKeys(s.Public())
	rapid.Check(t, func(t *rapid.T) {
		c := anyChain(t, 3)
		end := []audit.Checkpoint{s.Sign(c[len(c)-1].Head(), day)}
		i := rapid.IntRange(0, len(c)-2).Draw(t, "which")
		want := audit.Problem{Seq: c[i].Seq}
		var entries []audit.Entry
		switch rapid.IntRange(0, 2).Draw(t, "what") {
		case 0:
			want.Kind, want.To = audit.Missing, want.Seq
			entries = slices.Delete(slices.Clone(c), i, i+1)
		case 1:
			want.Kind = audit.Inserted
			j := rapid.IntRange(i+1, len(c)).Draw(t, "where")
			entries = slices.Insert(slices.Clone(c), j, c[i])
		case 2:
			want.Kind = audit.Changed
			entries = slices.Clone(c)
			entries[i].Body = append(slices.Clone(entries[i].Body), ' ')
		}
		report, err := audit.Verify(each(entries), end, keys, audit.Head{Org: "acme"})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]audit.Problem{want}, report.Problems); diff != "" {
			t.Fatalf("problems (-want +got):\n%s", diff)
		}
	})
}

func TestProperty_an_export_reads_back_as_it_was(t *testing.T) {
	s := signer(t, 1)
	keys := audit.MakeKeys(s.Public())
	rapid.Check(t, func(t *rapid.T) {
		c := anyChain(t, 0)
		x := audit.Extract{From: audit.Head{Org: "acme"}, Signer: s, Time: day}
		for _, e := range c {
			if rapid.Bool().Draw(t, "checkpoint") {
				x.Checkpoints = append(x.Checkpoints, s.Sign(e.Head(), day))
			}
		}
		var file bytes.Buffer
		wrote, err := audit.Export(&file, each(c), x)
		if err != nil || !wrote.Sound() {
			t.Fatalf("Export = %v, %v", wrote.Problems, err)
		}
		var back []audit.Entry
		read, err := audit.Read(&file, "acme", keys, nil, func(e audit.Entry) error {
			back = append(back, e)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(wrote, read); diff != "" {
			t.Fatalf("reports (-export +read):\n%s", diff)
		}
		for i := range c {
			c[i].Actor.Roles = back[i].Actor.Roles // nil and empty are the same
			if len(c[i].Body) == 0 {
				c[i].Body = nil
			}
		}
		if diff := cmp.Diff(c, back); diff != "" {
			t.Fatalf("entries (-export +read):\n%s", diff)
		}
	})
}
