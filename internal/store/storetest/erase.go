package storetest

import (
	"encoding/json"
	"testing"
	"time"

	"haft"
	"haft/internal/audit"
	"haft/internal/auth"
	"haft/internal/event"
	"haft/internal/secret/keeper"
	"haft/internal/store"
)

// erased: what belongs to a user, or to an organisation, goes; numbers stay, and so does what
// belongs to others. The audit verifies.
func erased(t testing.TB, s *store.Store) {
	ctx := t.Context()
	fillErased(t, s)
	eraseAudit(t, s, "acme", 1, 3)
	mark := keepCredentials(t, s)
	if err := s.Erasure.EraseUser(ctx, "acme", "ann", []string{"login"}); err != nil {
		t.Fatalf("EraseUser: %v", err)
	}
	_, err := s.Keys.Key(ctx, "k_ann")
	refused(t, "the API key of who was erased", err, haft.CodeNotFound)
	if _, err := s.Keys.Key(ctx, "k_bob"); err != nil {
		t.Errorf("the API key of another user: %v", err)
	}
	list, err := s.Secrets.Secrets(ctx, &keeper.Scope{Org: "acme", Kind: "login", ID: "mcp_s/ann"}, keeper.Row{}, 0)
	if err != nil || len(list) != 0 {
		t.Errorf("logins of who was erased: %v, %v", list, err)
	}
	list, err = s.Secrets.Secrets(ctx, &keeper.Scope{Org: "acme", Kind: "login", ID: "mcp_s/bob"}, keeper.Row{}, 0)
	if err != nil || len(list) != 1 {
		t.Errorf("logins of another user: %v, %v", list, err)
	}
	mark = newMark(t, s, mark)
	left := func(what, org string, calls, events int) {
		t.Helper()
		records, err := s.Calls.Records(ctx, haft.CallFilter{Org: org})
		if err != nil || len(records) != calls {
			t.Errorf("%s: %d calls of %s, %v; want %d", what, len(records), org, err, calls)
		}
		list, err := s.Events.EventsAfter(ctx, event.Filter{Org: org}, 0, 100)
		if err != nil || len(list) != events {
			t.Errorf("%s: %d events of %s, %v; want %d", what, len(list), org, err, events)
		}
		sums, err := s.Calls.Usage(ctx, org, haft.UsageQuery{From: at.Add(-time.Hour), Until: at.Add(time.Hour),
			By: []haft.UsageBy{haft.ByUser}})
		total := int64(0)
		for _, sum := range sums {
			total += sum.Calls
			if sum.User == "ann" && what != "before" && org == "acme" {
				t.Errorf("%s: usage names the user", what)
			}
		}
		if err != nil || total != 2 {
			t.Errorf("%s: usage of %d calls of %s, %v; want 2", what, total, org, err)
		}
	}
	left("a user", "acme", 1, 1)
	left("a user", "other", 2, 2)
	if winner, _, err := s.Calls.Claim(ctx, "acme", "ann", "", "k", "d", "c9", at); err != nil || winner != "c9" {
		t.Errorf("Claim of an erased key = %s, %v", winner, err)
	}
	last, _, err := s.Events.LastEvents(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	eraseAudit(t, s, "acme", 2)
	if err := s.Erasure.EraseOrg(ctx, "acme"); err != nil {
		t.Fatalf("EraseOrg: %v", err)
	}
	_, err = s.Keys.Key(ctx, "k_bob")
	refused(t, "an API key of what was erased", err, haft.CodeNotFound)
	newMark(t, s, mark)
	left("an organisation", "acme", 0, 0)
	left("an organisation", "other", 2, 2)
	if tools, err := s.Tools.Tools(ctx, "acme", haft.ToolFilter{}); err != nil || len(tools) != 0 {
		t.Errorf("Tools = %v, %v", tools, err)
	}
	if tools, err := s.Tools.Tools(ctx, "other", haft.ToolFilter{}); err != nil || len(tools) != 1 {
		t.Errorf("Tools of others = %v, %v", tools, err)
	}
	if now, _, err := s.Events.LastEvents(ctx, nil); err != nil || now < last {
		t.Errorf("LastEvents = %d, %v; it was %d", now, err, last)
	}
	commit(t, s, store.Batch{Audit: []audit.Entry{entry("acme", "later")}})
	report, err := audit.Verify(entries(t, s, "acme"), nil, nil, audit.Head{Org: "acme"})
	if err != nil || !report.Sound() || len(report.Warnings) != 2 {
		t.Errorf("Verify = %+v, %v", report, err)
	}
	found, _, err := s.Audit.FindAudit(ctx, "acme", haft.AuditFilter{User: "ann", Kind: "call.closed"},
		haft.AuditPlace{})
	if err != nil || len(found) != 0 {
		t.Errorf("FindAudit = %v, %v; want nothing", found, err)
	}
}

// keepCredentials keeps API keys and logins of two users, which are then known in memory, and
// returns the mark of secrets.
func keepCredentials(t testing.TB, s *store.Store) int64 {
	t.Helper()
	ctx := t.Context()
	if _, err := s.MCPServers.PutMCPServer(ctx, haft.MCPServer{Org: "acme", ID: "mcp_s", Name: "s"},
		store.OwnSecrets{}); err != nil {
		t.Fatal(err)
	}
	for _, user := range []string{"ann", "bob"} {
		if err := s.Keys.PutKey(ctx, auth.Key{ID: "k_" + user, Org: "acme", User: user, Created: at}); err != nil {
			t.Fatal(err)
		}
		login := keeper.Row{Scope: keeper.Scope{Org: "acme", Kind: "login", ID: "mcp_s/" + user}, Name: "grant",
			Data: []byte("sealed"), Created: at, Updated: at}
		if err := s.Secrets.PutSecret(ctx, login); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"k_ann", "k_bob"} {
		if _, err := s.Keys.Key(ctx, id); err != nil {
			t.Fatal(err)
		}
	}
	return newMark(t, s, -1)
}

// newMark returns the mark of secrets, which is not old any more.
func newMark(t testing.TB, s *store.Store, old int64) int64 {
	t.Helper()
	mark, err := s.Secrets.SecretMark(t.Context(), "acme")
	if err != nil || mark == old {
		t.Errorf("SecretMark = %d, %v; caches need another one", mark, err)
	}
	return mark
}

// fillErased fills two organisations with the same.
func fillErased(t testing.TB, s *store.Store) {
	t.Helper()
	for _, org := range []string{"acme", "other"} {
		put(t, s, tool(org, "add", "sha256:1", "Adds."))
		b := store.Batch{Audit: []audit.Entry{entry(org, "call.closed"), entry(org, "call.closed"),
			entry(org, "call.closed")}}
		for i, user := range []string{"ann", "bob"} {
			r := record(org, org+count("c", i), haft.StatusSuccess)
			r.Call.Principal.User, r.Ended = user, at
			e := happened(org, string(r.Call.ID), 0, 1)
			e.Principal.User = user
			b.Records, b.Events = append(b.Records, r), append(b.Events, e)
		}
		commit(t, s, b)
		if _, _, err := s.Calls.Claim(t.Context(), org, "ann", "", "k", "d", "c1", at); err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Audit.FindAudit(t.Context(), org, haft.AuditFilter{User: "ann"},
			haft.AuditPlace{}); err != nil {
			t.Fatal(err)
		}
	}
}

// eraseAudit erases entries of a log.
func eraseAudit(t testing.TB, s *store.Store, org string, seqs ...int64) {
	t.Helper()
	var eraser audit.Eraser
	for e, err := range entries(t, s, org) {
		if err != nil {
			t.Fatal(err)
		}
		for _, seq := range seqs {
			if e.Seq == seq {
				eraser.Add(e)
			}
		}
	}
	id := "x" + count("", int(seqs[0]))
	said := entry(org, audit.ErasedKind)
	said.Actor.User = "root"
	body, err := json.Marshal(eraser.Erased(id))
	if err != nil {
		t.Fatal(err)
	}
	said.Body = body
	if err := s.Erasure.EraseAudit(t.Context(), id, said, seqs); err != nil {
		t.Fatalf("EraseAudit: %v", err)
	}
	if err := s.Erasure.DropAuditIndex(t.Context(), org); err != nil {
		t.Fatalf("DropAuditIndex: %v", err)
	}
}
