package audit_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"haft"
	"haft/internal/audit"
)

var day = time.Date(2026, 3, 14, 15, 9, 26, 535_897_932, time.UTC)

// full is an entry with every field set.
func full() audit.Entry {
	return audit.Entry{
		Org: "acme", Time: day, Kind: "call.ended",
		Actor: haft.Principal{Org: "acme", User: "ada", Agent: "a1", Roles: []string{"dev", "ops"},
			Scope: []string{"tools:call"}},
		Call: "c_1", Tool: "add", Digest: "sha256:ab", Body: json.RawMessage(`{"status":"success","took_ms":3}`),
	}
}

// chain returns n linked entries of org.
func chain(org string, n int) []audit.Entry {
	head := audit.Genesis(org)
	entries := make([]audit.Entry, 0, n)
	for i := range n {
		e := full()
		e.Org, e.Actor.Org = org, org
		e.Time = day.Add(time.Duration(i) * time.Second)
		e = audit.Link(head, e)
		entries, head = append(entries, e), e.Head()
	}
	return entries
}

// The hashes here are in the stores and exports of others. If this test fails,
// the encoding has changed: give it a new version and keep the old one readable.
func TestLink_encoding_is_pinned(t *testing.T) {
	empty := audit.Entry{Org: "acme", Time: time.UnixMicro(0)}
	noScope, emptyScope := full(), full()
	noScope.Actor.Scope, emptyScope.Actor.Scope = nil, []string{}
	for name, c := range map[string]struct {
		entry audit.Entry
		want  string
	}{
		"full":        {full(), goldenFull},
		"empty":       {empty, goldenEmpty},
		"no scope":    {noScope, goldenNoScope},
		"empty scope": {emptyScope, goldenEmptyScope},
	} {
		t.Run(name, func(t *testing.T) {
			got := audit.Link(audit.Genesis("acme"), c.entry)
			if got.Hash != c.want {
				t.Errorf("hash = %s, want %s", got.Hash, c.want)
			}
			if got.Prev != goldenGenesis {
				t.Errorf("prev = %s, want %s", got.Prev, goldenGenesis)
			}
		})
	}
	second := audit.Link(audit.Head{Org: "acme", Seq: 41, Hash: strings.Repeat("ab", 32)}, full())
	if second.Hash != goldenSecond || second.Seq != 42 {
		t.Errorf("hash of entry %d = %s, want %s", second.Seq, second.Hash, goldenSecond)
	}
}

func TestLink_every_field_changes_the_hash(t *testing.T) {
	base := audit.Link(audit.Genesis("acme"), full()).Hash
	for name, change := range map[string]func(*audit.Entry){
		"time":               func(e *audit.Entry) { e.Time = e.Time.Add(time.Microsecond) },
		"kind":               func(e *audit.Entry) { e.Kind += "x" },
		"actor org":          func(e *audit.Entry) { e.Actor.Org += "x" },
		"user":               func(e *audit.Entry) { e.Actor.User += "x" },
		"agent":              func(e *audit.Entry) { e.Actor.Agent += "x" },
		"role":               func(e *audit.Entry) { e.Actor.Roles = []string{"dev", "opsx"} },
		"order of roles":     func(e *audit.Entry) { e.Actor.Roles = []string{"ops", "dev"} },
		"roles run together": func(e *audit.Entry) { e.Actor.Roles = []string{"devops"} },
		"role moved to the scope": func(e *audit.Entry) {
			e.Actor.Roles, e.Actor.Scope = []string{"dev"},
				[]string{"ops", "tools:call"}
		},
		"scope":                   func(e *audit.Entry) { e.Actor.Scope = []string{"tools:*"} },
		"empty scope":             func(e *audit.Entry) { e.Actor.Scope = []string{} },
		"no scope":                func(e *audit.Entry) { e.Actor.Scope = nil },
		"call":                    func(e *audit.Entry) { e.Call += "x" },
		"tool":                    func(e *audit.Entry) { e.Tool += "x" },
		"digest":                  func(e *audit.Entry) { e.Digest += "x" },
		"tool and digest shifted": func(e *audit.Entry) { e.Tool, e.Digest = e.Tool+e.Digest[:1], e.Digest[1:] },
		"body": func(e *audit.Entry) {
			e.Body = json.RawMessage(
				`{"status":"success", "took_ms":3}`)
		},
		"no body": func(e *audit.Entry) { e.Body = nil },
	} {
		t.Run(name, func(t *testing.T) {
			e := full()
			change(&e)
			if got := audit.Link(audit.Genesis("acme"), e).Hash; got == base {
				t.Errorf("hash = %s, as without the change", got)
			}
		})
	}
}

func TestLink_makes_what_a_store_gives_back(t *testing.T) {
	roles := []string{"dev", "o\xffps"}
	e := full()
	e.Time = day.In(time.FixedZone("there", 7200))
	e.Kind, e.Call, e.Tool, e.Digest = "k\xff", "c\xff", "t\xff", "d\xff"
	e.Actor = haft.Principal{Org: "acme", User: "u\xff", Agent: "a\xff", Roles: roles, Scope: []string{}}
	got := audit.Link(audit.Head{Org: "acme"}, e)

	raw, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	var back audit.Entry
	if err := json.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	back.Time = time.UnixMicro(got.Time.UnixMicro()).UTC()
	if diff := cmp.Diff(got, back); diff != "" {
		t.Errorf("entry after a round trip (-linked +read):\n%s", diff)
	}
	if want := time.Date(2026, 3, 14, 15, 9, 26, 535_897_000, time.UTC); !got.Time.Equal(want) ||
		got.Time.Location() != time.UTC {
		t.Errorf("time = %v, want %v", got.Time, want)
	}
	if roles[1] != "o\xffps" {
		t.Error("Link wrote to the roles of its caller")
	}
}

func TestLink_takes_the_organisation_of_the_chain(t *testing.T) {
	e := full()
	e.Org = ""
	if got := audit.Link(audit.Genesis("acme"), e); got.Org != "acme" {
		t.Errorf("org = %q, want acme", got.Org)
	}
	if got, want := audit.Link(audit.Head{}, full()), audit.Link(audit.Genesis("acme"), full()); got.Hash != want.Hash {
		t.Errorf("hash from a zero head = %s, want %s", got.Hash, want.Hash)
	}
	defer func() {
		if recover() == nil {
			t.Error("an entry of acme was linked to the chain of other")
		}
	}()
	audit.Link(audit.Genesis("other"), full())
}

func TestLink_makes_one_allocation(t *testing.T) {
	head, e := audit.Link(audit.Genesis("acme"), full()).Head(), full()
	if n := testing.AllocsPerRun(100, func() { audit.Link(head, e) }); n > 1 {
		t.Errorf("Link makes %v allocations, want 1, the hash", n)
	}
}

func BenchmarkLink(b *testing.B) {
	head, e := audit.Link(audit.Genesis("acme"), full()).Head(), full()
	b.ReportAllocs()
	for b.Loop() {
		head = audit.Link(head, e).Head()
	}
}
