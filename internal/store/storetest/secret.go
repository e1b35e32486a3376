package storetest

import (
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"haft"
	"haft/internal/secret/keeper"
	"haft/internal/store"
)

// sealedSecret makes a secret that is new.
func sealedSecret(org, kind, scope, name, data string) keeper.Row {
	return keeper.Row{Scope: keeper.Scope{Org: org, Kind: keeper.Kind(kind), ID: scope}, Name: name,
		Data: []byte(data), Key: 4000000000, Fingerprint: "ab12", Created: at, Updated: at.Add(time.Second)}
}

// putSecrets keeps secrets.
func putSecrets(t testing.TB, s *store.Store, list ...keeper.Row) {
	t.Helper()
	for _, v := range list {
		if err := s.Secrets.PutSecret(t.Context(), v); err != nil {
			t.Fatalf("PutSecret(%v): %v", v, err)
		}
	}
}

// secretNames lists secrets.
func secretNames(list []keeper.Row) string {
	all := ""
	for _, v := range list {
		all += fmt.Sprintf("%s/%s/%s/%s ", v.Scope.Org, v.Scope.Kind, v.Scope.ID, v.Name)
	}
	return all
}

func secretsKept(t testing.TB, s *store.Store) {
	ctx := t.Context()
	want := sealedSecret("acme", "agent", "a1", "KEY", "\x00\xff cipher")
	want.Plain, want.Bound = true, `{"hosts":["api.example"],"header":"Ä"}`
	putSecrets(t, s, want)
	got, err := s.Secrets.Secret(ctx, keeper.Scope{Org: "acme", Kind: "agent", ID: "a1"}, "KEY")
	if err != nil {
		t.Fatal(err)
	}
	if some, err := s.Secrets.HasPlainSecrets(ctx); !some || err != nil {
		t.Errorf("HasPlainSecrets = %v, %v", some, err)
	}
	want.Rev = 1
	same(t, "a secret", got, want)
	got.Data, got.Plain, got.Bound, got.Updated = []byte("other"), false, "", at.Add(time.Hour)
	putSecrets(t, s, got)
	again, err := s.Secrets.Secret(ctx, keeper.Scope{Org: "acme", Kind: "agent", ID: "a1"}, "KEY")
	got.Rev = 2
	same(t, "a replaced secret", again, got)
	if err != nil {
		t.Fatal(err)
	}
	if some, err := s.Secrets.HasPlainSecrets(ctx); some || err != nil {
		t.Errorf("HasPlainSecrets after the replacement = %v, %v", some, err)
	}
	if err := s.Secrets.RemoveSecret(ctx, keeper.Scope{Org: "acme", Kind: "agent", ID: "a1"}, "KEY"); err != nil {
		t.Fatal(err)
	}
	_, err = s.Secrets.Secret(ctx, keeper.Scope{Org: "acme", Kind: "agent", ID: "a1"}, "KEY")
	refused(t, "a removed secret", err, haft.CodeNotFound)
	refused(t, "removing it again", s.Secrets.RemoveSecret(ctx, keeper.Scope{Org: "acme", Kind: "agent", ID: "a1"},
		"KEY"),
		haft.CodeNotFound)
	for what, bad := range map[string]keeper.Row{
		"without an organisation": sealedSecret("", "org", "", "KEY", "x"),
		"with a strange scope":    sealedSecret("acme", "agent", "a\x00", "KEY", "x"),
		"bound to NUL":            {Scope: keeper.Scope{Org: "acme", Kind: "org"}, Name: "KEY", Bound: "\x00"},
		"that is huge":            sealedSecret("acme", "org", "", "KEY", string(make([]byte, store.MaxText))),
	} {
		refused(t, "a secret "+what, s.Secrets.PutSecret(ctx, bad), haft.CodeInvalid)
	}
}

func secretsConditional(t testing.TB, s *store.Store) {
	ctx := t.Context()
	v := sealedSecret("acme", "org", "", "KEY", "first")
	putSecrets(t, s, v)
	refused(t, "a second new one", s.Secrets.PutSecret(ctx, v), haft.CodeConflict)
	stale := v
	stale.Rev, stale.Data = 7, []byte("stale")
	refused(t, "a write of another revision", s.Secrets.PutSecret(ctx, stale), haft.CodeConflict)
	gone := sealedSecret("acme", "org", "", "GONE", "x")
	gone.Rev = 1
	refused(t, "a write of what is not there", s.Secrets.PutSecret(ctx, gone), haft.CodeConflict)
	got, err := s.Secrets.Secret(ctx, keeper.Scope{Org: "acme", Kind: "org"}, "KEY")
	if err != nil || string(got.Data) != "first" {
		t.Errorf("after refused writes the secret is %q, %v", got.Data, err)
	}
	var won atomic.Int64
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			next := v
			next.Rev, next.Data = 1, []byte{byte(i)}
			switch err := s.Secrets.PutSecret(ctx, next); haft.CodeOf(err) {
			case "":
				won.Add(1)
			case haft.CodeConflict:
			default:
				t.Errorf("a write at the same time: %v", err)
			}
		})
	}
	all.Wait()
	if won.Load() != 1 {
		t.Errorf("%d writes of one revision were taken, want 1", won.Load())
	}
}

func secretsListed(t testing.TB, s *store.Store) {
	ctx := t.Context()
	putSecrets(t, s,
		sealedSecret("b", "org", "", "X", "1"), sealedSecret("a", "org", "", "B", "1"),
		sealedSecret("a", "org", "", "A", "1"),
		sealedSecret("a", "agent", "2", "A", "1"), sealedSecret("a", "agent", "1", "Z", "1"),
		sealedSecret("a", "org", "", "a", "1"))
	list, err := s.Secrets.Secrets(ctx, &keeper.Scope{Org: "a", Kind: "org"}, keeper.Row{Name: "A"}, 10)
	if got := secretNames(list); err != nil || got != "a/org//B a/org//a " {
		t.Errorf("Secrets after A = %q, %v", got, err)
	}
	var all []keeper.Row
	for after := (keeper.Row{}); ; {
		part, err := s.Secrets.Secrets(ctx, nil, after, 2)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, part...)
		if len(part) < 2 {
			break
		}
		after = part[1]
	}
	if got := secretNames(all); got != "a/agent/1/Z a/agent/2/A a/org//A a/org//B a/org//a b/org//X " {
		t.Errorf("AllSecrets, in pages of 2 = %q", got)
	}
	list, err = s.Secrets.Secrets(ctx, &keeper.Scope{Org: "c\x00", Kind: "org"}, keeper.Row{}, 10)
	if err != nil || len(list) > 0 {
		t.Errorf("the secrets of a strange organisation: %v, %v", list, err)
	}
}

func secretsMarked(t testing.TB, s *store.Store) {
	ctx := t.Context()
	mark := func(org string) int64 {
		t.Helper()
		n, err := s.Secrets.SecretMark(ctx, org)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := mark("acme"); n != 0 {
		t.Errorf("the mark of an organisation without secrets is %d", n)
	}
	v := sealedSecret("acme", "org", "", "KEY", "1")
	putSecrets(t, s, v)
	put := mark("acme")
	v.Rev = 1
	putSecrets(t, s, v)
	replaced := mark("acme")
	if err := s.Secrets.RemoveSecret(ctx, keeper.Scope{Org: "acme", Kind: "org"}, "KEY"); err != nil {
		t.Fatal(err)
	}
	removed := mark("acme")
	if put == 0 || put == replaced || replaced == removed || mark("other") != 0 {
		t.Errorf("the marks are %d, %d, %d and %d for another: each change makes another", put, replaced, removed,
			mark("other"))
	}
	refused(t, "a refused write", s.Secrets.PutSecret(ctx, v), haft.CodeConflict)
	if mark("acme") != removed {
		t.Error("a refused write changed the mark")
	}
}

func keysetKept(t testing.TB, s *store.Store) {
	ctx := t.Context()
	_, _, err := s.Secrets.Keyset(ctx)
	refused(t, "a keyset before there is one", err, haft.CodeNotFound)
	refused(t, "a replacement of none", s.Secrets.PutKeyset(ctx, []byte("x"), 1), haft.CodeConflict)
	refused(t, "an empty keyset", s.Secrets.PutKeyset(ctx, nil, 0), haft.CodeInvalid)
	for i, want := range []string{"\x00first", "second"} {
		if err := s.Secrets.PutKeyset(ctx, []byte(want), int64(i)); err != nil {
			t.Fatal(err)
		}
		refused(t, "the same write again", s.Secrets.PutKeyset(ctx, []byte("stale"), int64(i)), haft.CodeConflict)
		data, rev, err := s.Secrets.Keyset(ctx)
		if err != nil || string(data) != want || rev != int64(i+1) {
			t.Errorf("Keyset = %q, %d, %v; want %q, %d", data, rev, err, want, i+1)
		}
	}
}

func agentEnvDropped(t testing.TB, s *store.Store) {
	ctx := t.Context()
	var kept []haft.Agent
	for i, env := range []map[string]string{{"KEY": "one"}, nil, {"KEY": "two", "URL": "three"}} {
		a, err := s.Agents.PutAgent(ctx, haft.Agent{ID: haft.AgentID(count("a", i)), Org: "acme", Name: count("n", i),
			Env: env, Tools: []string{`"env":{"`}})
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, *a)
	}
	list, err := s.Agents.AgentsWithEnv(ctx, "", 10)
	if err != nil || len(list) != 2 || list[0].ID != kept[0].ID || list[1].ID != kept[2].ID {
		t.Fatalf("AgentsWithEnv = %v, %v", list, err)
	}
	stale := kept[2]
	stale.Env = map[string]string{"KEY": "two"}
	if dropped, err := s.Agents.DropAgentEnv(ctx, stale); dropped || err != nil {
		t.Errorf("variables that are not those were dropped: %v, %v", dropped, err)
	}
	for _, a := range list {
		if dropped, err := s.Agents.DropAgentEnv(ctx, a); !dropped || err != nil {
			t.Errorf("DropAgentEnv = %v, %v", dropped, err)
		}
	}
	if list, err = s.Agents.AgentsWithEnv(ctx, "", 10); err != nil || len(list) > 0 {
		t.Errorf("after that there are %v, %v", list, err)
	}
	got, err := s.Agents.Agent(ctx, "acme", kept[2].Name)
	if err != nil {
		t.Fatal(err)
	}
	kept[2].Env = nil
	same(t, "the rest of the agent", *got, kept[2])
}

func callsResealed(t testing.TB, s *store.Store) {
	ctx := t.Context()
	var records []haft.Record
	for i, status := range []haft.Status{haft.StatusQueued, haft.StatusPending, haft.StatusRunning,
		haft.StatusSuccess} {
		r := record("acme", count("c", i), status)
		r.Sealed = json.RawMessage(`{"args":1}`)
		if i == 2 {
			r.Sealed = nil
		}
		records = append(records, r)
	}
	commit(t, s, store.Batch{Records: records})
	list, err := s.Calls.SealedCalls(ctx, "", 10)
	if err != nil || len(list) != 2 || list[0].ID != "c00000" || list[1].ID != "c00001" {
		t.Fatalf("SealedCalls = %v, %v", list, err)
	}
	if page, err := s.Calls.SealedCalls(ctx, list[0].ID, 10); err != nil || len(page) != 1 {
		t.Errorf("the page after the first = %v, %v", page, err)
	}
	next := json.RawMessage(`"c2VhbGVk"`)
	if ok, err := s.Calls.Reseal(ctx, list[0], next); !ok || err != nil {
		t.Errorf("Reseal = %v, %v", ok, err)
	}
	if ok, err := s.Calls.Reseal(ctx, list[0], json.RawMessage(`"again"`)); ok || err != nil {
		t.Errorf("Reseal of what is not there any more = %v, %v", ok, err)
	}
	if got, err := s.Calls.Record(ctx, "acme", list[0].ID); err != nil || string(got.Sealed) != string(next) {
		t.Errorf("after Reseal: %+v, %v", got, err)
	}
	if err := s.Scrub(ctx); err != nil {
		t.Errorf("Scrub: %v", err)
	}
	if again, err := s.Calls.SealedCalls(ctx, "", 10); err != nil || len(again) != 2 {
		t.Errorf("after Scrub: %v, %v", again, err)
	}
}
