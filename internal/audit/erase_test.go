package audit_test

import (
	"bytes"
	"encoding/json"
	"iter"
	"testing"
	"time"

	"haft"
	"haft/internal/audit"
)

// erasedChain is a chain of which entries 2 and 4 are erased, as entry 6 says.
func erasedChain(t *testing.T) []audit.Entry {
	t.Helper()
	var list []audit.Entry
	var eraser audit.Eraser
	head := audit.Head{Org: "o"}
	add := func(kind string, body any) {
		raw, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		e := audit.Link(head, audit.Entry{Org: "o", Time: time.Unix(int64(len(list)), 0), Kind: kind,
			Actor: haft.Principal{Org: "o", User: "ann"}, Body: raw})
		list, head = append(list, e), e.Head()
	}
	for range 5 {
		add("call.closed", map[string]int{"n": len(list)})
	}
	eraser.Add(list[1])
	eraser.Add(list[3])
	add(audit.ErasedKind, eraser.Erased("x1"))
	add("call.closed", nil)
	list[1], list[3] = list[1].Tombstone("x1"), list[3].Tombstone("x1")
	return list
}

func sequence(list []audit.Entry) iter.Seq2[audit.Entry, error] {
	return func(yield func(audit.Entry, error) bool) {
		for _, e := range list {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func TestVerify_of_erased_entries(t *testing.T) {
	cases := map[string]struct {
		change func([]audit.Entry) []audit.Entry
		sound  bool
	}{
		"as they were erased": {func(l []audit.Entry) []audit.Entry { return l }, true},
		"another one is erased too": {func(l []audit.Entry) []audit.Entry {
			l[2] = l[2].Tombstone("x1")
			return l
		}, false},
		"another one is erased by nobody": {func(l []audit.Entry) []audit.Entry {
			l[2] = l[2].Tombstone("x2")
			return l
		}, false},
		"another one instead": {func(l []audit.Entry) []audit.Entry {
			l[2], l[3] = l[2].Tombstone("x1"), erasedChain(t)[4]
			return l
		}, false},
		"the entry that says so is erased": {func(l []audit.Entry) []audit.Entry {
			l[5] = l[5].Tombstone("x1")
			return l
		}, false},
		"with another hash": {func(l []audit.Entry) []audit.Entry {
			l[1].Hash = l[2].Hash
			return l
		}, false},
		"with content": {func(l []audit.Entry) []audit.Entry {
			l[1].Actor.User = "eve"
			return l
		}, false},
	}
	for name, c := range cases {
		rep, err := audit.Verify(sequence(c.change(erasedChain(t))), nil, nil, audit.Head{Org: "o"})
		if err != nil || rep.Sound() != c.sound {
			t.Errorf("%s: sound %v, %v, %v; want %v", name, rep.Sound(), rep.Problems, err, c.sound)
		}
		if c.sound &&
			(len(rep.Warnings) != 1 || rep.Warnings[0] != (audit.Problem{Kind: audit.Erasure, Seq: 6, To: 2})) {
			t.Errorf("%s: warnings %v", name, rep.Warnings)
		}
	}
	var out bytes.Buffer
	if _, err := audit.Export(&out, sequence(erasedChain(t)), audit.Extract{From: audit.Head{Org: "o"}}); err != nil {
		t.Fatal(err)
	}
	if rep, err := audit.Read(&out, "o", nil, nil, nil); err != nil || !rep.Sound() {
		t.Errorf("an export: %v, %v", rep.Problems, err)
	}
}
