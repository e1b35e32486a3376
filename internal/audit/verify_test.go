package audit_test

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"haft"
	"haft/internal/audit"
)

// signer returns the signer whose seed is the given byte, 32 times.
func signer(t testing.TB, seed byte) *audit.Signer {
	t.Helper()
	s, err := audit.ParseSigner(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func each(entries []audit.Entry) iter.Seq2[audit.Entry, error] {
	return func(yield func(audit.Entry, error) bool) {
		for _, e := range entries {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// forge links e after prev as one would who can write to the store.
func forge(prev audit.Entry, kind string) audit.Entry {
	e := full()
	e.Kind, e.Time = kind, prev.Time
	return audit.Link(prev.Head(), e)
}

// The name is short because the tables below are long.
type problems = []audit.Problem

// A verdict is what Verify is to say about the chain of eight entries, changed.
type verdict struct {
	change      func(c []audit.Entry) []audit.Entry
	checkpoints []audit.Checkpoint
	problems    problems
	warnings    problems
	signed      int64
}

func (v verdict) test(t *testing.T) {
	entries := chain("acme", 8)
	if v.change != nil {
		entries = v.change(entries)
	}
	keys := audit.MakeKeys(signer(t, 1).Public(), signer(t, 2).Public())
	got, err := audit.Verify(each(entries), v.checkpoints, keys, audit.Head{Org: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(v.problems, got.Problems); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(v.warnings, got.Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	if got.Signed != v.signed {
		t.Errorf("signed = %d, want %d", got.Signed, v.signed)
	}
	if sound := len(v.problems) == 0; got.Sound() != sound || (got.Err() == nil) != sound {
		t.Errorf("Sound() = %v and Err() = %v, want sound %v", got.Sound(), got.Err(), sound)
	}
	for _, p := range slices.Concat(got.Problems, got.Warnings) {
		if s := p.String(); !strings.Contains(s, "entr") || strings.HasSuffix(s, ": "+string(p.Kind)) {
			t.Errorf("%v reads %q", p.Kind, s)
		}
	}
}

func TestVerify_content(t *testing.T) {
	for name, v := range map[string]verdict{
		"sound": {},
		"content changed": {
			change:   func(c []audit.Entry) []audit.Entry { c[3].Tool = "rm"; return c },
			problems: problems{{Kind: audit.Changed, Seq: 4}},
		},
		"hash changed": {
			change:   func(c []audit.Entry) []audit.Entry { c[3].Hash = c[5].Hash; return c },
			problems: problems{{Kind: audit.Changed, Seq: 4}},
		},
		"number changed": {
			change:   func(c []audit.Entry) []audit.Entry { c[3].Seq = 4000; return c },
			problems: problems{{Kind: audit.Changed, Seq: 4}},
		},
		"number and link changed": {
			change:   func(c []audit.Entry) []audit.Entry { c[3].Seq, c[3].Prev = 1<<63-1, "x"; return c },
			problems: problems{{Kind: audit.Changed, Seq: 1<<63 - 1}, {Kind: audit.Missing, Seq: 4, To: 4}},
		},
		"link changed": {
			change:   func(c []audit.Entry) []audit.Entry { c[3].Prev = c[0].Prev; return c },
			problems: problems{{Kind: audit.Changed, Seq: 4}},
		},
		"replaced by one that is sound in itself": {
			change:   func(c []audit.Entry) []audit.Entry { c[3] = forge(c[2], "forged"); return c },
			problems: problems{{Kind: audit.Unlinked, Seq: 5}},
		},
	} {
		t.Run(name, v.test)
	}
}

func TestVerify_order(t *testing.T) {
	other := chain("other", 8)
	for name, v := range map[string]verdict{
		"one missing": {
			change:   func(c []audit.Entry) []audit.Entry { return slices.Delete(c, 3, 4) },
			problems: problems{{Kind: audit.Missing, Seq: 4, To: 4}},
		},
		"first missing": {
			change:   func(c []audit.Entry) []audit.Entry { return c[1:] },
			problems: problems{{Kind: audit.Missing, Seq: 1, To: 1}},
		},
		"missing in two places": {
			change:   func(c []audit.Entry) []audit.Entry { return slices.Concat(c[:1], c[3:5], c[6:]) },
			problems: problems{{Kind: audit.Missing, Seq: 2, To: 3}, {Kind: audit.Missing, Seq: 6, To: 6}},
		},
		"missing and the next one changed": {
			change: func(c []audit.Entry) []audit.Entry {
				c[3].Tool = "rm"
				return slices.Delete(c, 2, 3)
			},
			problems: problems{{Kind: audit.Changed, Seq: 4}, {Kind: audit.Missing, Seq: 3, To: 3}},
		},
		"two swapped": {
			change:   func(c []audit.Entry) []audit.Entry { c[3], c[4] = c[4], c[3]; return c },
			problems: problems{{Kind: audit.OutOfOrder, Seq: 4}},
		},
		"one moved to the end and changed": {
			change: func(c []audit.Entry) []audit.Entry {
				c[3].Tool = "rm"
				return append(slices.Delete(slices.Clone(c), 3, 4), c[3])
			},
			problems: problems{{Kind: audit.OutOfOrder, Seq: 4}, {Kind: audit.Changed, Seq: 4}},
		},
		"one twice": {
			change:   func(c []audit.Entry) []audit.Entry { return slices.Insert(c, 4, c[3]) },
			problems: problems{{Kind: audit.Inserted, Seq: 4}},
		},
		"one inserted that links": {
			change:   func(c []audit.Entry) []audit.Entry { return slices.Insert(c, 3, forge(c[2], "forged")) },
			problems: problems{{Kind: audit.Inserted, Seq: 4}},
		},
		"one with a number that cannot be": {
			change: func(c []audit.Entry) []audit.Entry {
				return append(c, audit.Link(audit.Head{Org: "acme", Seq: -7, Hash: "x"}, full()))
			},
			problems: problems{{Kind: audit.Changed, Seq: -6}},
		},
		"one of another organisation": {
			change:   func(c []audit.Entry) []audit.Entry { return slices.Insert(c, 3, other[3]) },
			problems: problems{{Kind: audit.Foreign, Seq: 4}},
		},
		"one put in place of another organisation's": {
			change:   func(c []audit.Entry) []audit.Entry { c[3] = other[3]; return c },
			problems: problems{{Kind: audit.Foreign, Seq: 4}, {Kind: audit.Missing, Seq: 4, To: 4}},
		},
		"clock set back": {
			change: func(c []audit.Entry) []audit.Entry {
				c[7].Time = c[7].Time.Add(-time.Hour)
				c[7] = audit.Link(c[6].Head(), c[7])
				return c
			},
			warnings: problems{{Kind: audit.Backwards, Seq: 8}},
		},
	} {
		t.Run(name, v.test)
	}
}

func TestVerify_checkpoints(t *testing.T) {
	a, b := signer(t, 1), signer(t, 2)
	c, other := chain("acme", 8), chain("other", 8)
	at := func(s *audit.Signer, e audit.Entry) audit.Checkpoint { return s.Sign(e.Head(), day) }
	forged, later, renamed := at(a, c[3]), at(a, c[3]), at(b, c[3])
	forged.Signature[5] ^= 1
	later.Time = later.Time.Add(time.Hour)
	renamed.Key = a.ID()
	for name, v := range map[string]verdict{
		"sound with checkpoints of two keys": {checkpoints: []audit.Checkpoint{at(b, c[6]), at(a, c[2])}, signed: 7},
		"content changed behind a checkpoint": {
			change:      func(c []audit.Entry) []audit.Entry { c[3].Tool = "rm"; return c },
			checkpoints: []audit.Checkpoint{at(a, c[3])},
			problems:    problems{{Kind: audit.Changed, Seq: 4}},
		},
		"last one replaced behind a checkpoint": {
			change:      func(c []audit.Entry) []audit.Entry { c[7] = forge(c[6], "forged"); return c },
			checkpoints: []audit.Checkpoint{at(a, c[7])},
			problems:    problems{{Kind: audit.OtherChain, Seq: 8}},
		},
		"cut off behind a checkpoint": {
			change:      func(c []audit.Entry) []audit.Entry { return c[:5] },
			checkpoints: []audit.Checkpoint{at(a, c[2]), at(a, c[6]), at(a, c[7])},
			problems:    problems{{Kind: audit.Truncated, Seq: 5, To: 8}},
			signed:      3,
		},
		"all cut off behind a checkpoint": {
			change:      func(c []audit.Entry) []audit.Entry { return nil },
			checkpoints: []audit.Checkpoint{at(a, c[2])},
			problems:    problems{{Kind: audit.Truncated, Seq: 0, To: 3}},
		},
		"checkpoint with a wrong signature": {
			checkpoints: []audit.Checkpoint{forged},
			problems:    problems{{Kind: audit.BadSignature, Seq: 4}},
		},
		"checkpoint with another time": {
			checkpoints: []audit.Checkpoint{later},
			problems:    problems{{Kind: audit.BadSignature, Seq: 4}},
		},
		"checkpoint without a signature": {
			checkpoints: []audit.Checkpoint{{Org: "acme", Seq: 4, Hash: c[3].Hash, Key: a.ID()}},
			problems:    problems{{Kind: audit.BadSignature, Seq: 4}},
		},
		"checkpoint under another key's name": {
			checkpoints: []audit.Checkpoint{renamed},
			problems:    problems{{Kind: audit.BadSignature, Seq: 4}},
		},
		"checkpoint with an unknown key": {
			checkpoints: []audit.Checkpoint{at(signer(t, 3), c[3])},
			problems:    problems{{Kind: audit.UnknownKey, Seq: 4}},
		},
		"checkpoint of another organisation": {
			checkpoints: []audit.Checkpoint{at(a, other[3])},
			problems:    problems{{Kind: audit.OtherChain, Seq: 4}},
		},
		"checkpoint of a longer chain of another organisation": {
			checkpoints: []audit.Checkpoint{a.Sign(audit.Head{Org: "other", Seq: 12, Hash: c[3].Hash}, day)},
			problems:    problems{{Kind: audit.OtherChain, Seq: 12}},
		},
		"checkpoint of another chain of the organisation": {
			checkpoints: []audit.Checkpoint{at(a, forge(c[2], "forged"))},
			problems:    problems{{Kind: audit.OtherChain, Seq: 4}},
		},
	} {
		t.Run(name, v.test)
	}
}

func TestVerify_from_the_middle(t *testing.T) {
	a, c := signer(t, 1), chain("acme", 8)
	keys := audit.MakeKeys(a.Public())
	checkpoints := []audit.Checkpoint{a.Sign(c[1].Head(), day), a.Sign(c[3].Head(), day)}
	got, err := audit.Verify(each(c[4:]), checkpoints, keys, c[3].Head())
	if err != nil || !got.Sound() {
		t.Fatalf("Verify = %v, %v, want a sound report", got.Problems, err)
	}
	if got.Signed != 4 || got.Entries != 4 || got.Head != c[7].Head() {
		t.Errorf("report = %+v, want 4 entries up to the last, signed up to entry 4", got)
	}
	// An entry from before the beginning was not asked for.
	got, err = audit.Verify(each(c[2:]), nil, keys, c[3].Head())
	if err != nil || len(got.Problems) != 2 || got.Problems[0] != (audit.Problem{Kind: audit.Inserted, Seq: 3}) {
		t.Errorf("Verify = %v, %v, want entries 3 and 4 inserted", got.Problems, err)
	}
}

func TestVerify_refuses_a_beginning_that_makes_no_sense(t *testing.T) {
	for name, from := range map[string]audit.Head{
		"no organisation":       {},
		"no hash in the middle": {Org: "acme", Seq: 3},
		"another genesis":       {Org: "acme", Hash: audit.Genesis("other").Hash},
		"negative":              {Org: "acme", Seq: -1, Hash: "x"},
		"the last number":       {Org: "acme", Seq: 1<<63 - 1, Hash: "x"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := audit.Verify(each(nil), nil, nil, from); haft.CodeOf(err) != haft.CodeInvalid {
				t.Errorf("Verify = %v, want %s", err, haft.CodeInvalid)
			}
		})
	}
}

func TestVerify_returns_the_error_of_the_entries(t *testing.T) {
	broken := errors.New("disk gone")
	_, err := audit.Verify(func(yield func(audit.Entry, error) bool) {
		yield(audit.Entry{}, broken)
	}, nil, nil, audit.Head{Org: "acme"})
	if !errors.Is(err, broken) {
		t.Errorf("Verify = %v, want %v", err, broken)
	}
}

func TestVerify_stays_small_whatever_comes(t *testing.T) {
	// Every second entry is missing, and there are far more than it remembers.
	const n = 5000
	got, err := audit.Verify(func(yield func(audit.Entry, error) bool) {
		for i := range int64(n) {
			if !yield(audit.Link(audit.Head{Org: "acme", Seq: 2*i + 1, Hash: "x"}, full()), nil) {
				return
			}
		}
	}, nil, nil, audit.Head{Org: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Problems) != 100 || got.Unlisted != n-100 {
		t.Errorf("%d problems and %d unlisted, want 100 and %d", len(got.Problems), got.Unlisted, n-100)
	}
}
