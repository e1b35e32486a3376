package storetest

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"haft"
	"haft/store"
)

func callsFiltered(t testing.TB, s *store.Store) {
	var b store.Batch
	for i, change := range []func(*haft.Record){
		func(*haft.Record) {},
		func(r *haft.Record) { r.Call.Principal.User = "bob" },
		func(r *haft.Record) { r.Call.Principal.Agent = "y" },
		func(r *haft.Record) { r.Call.Tool = "sub" },
		func(r *haft.Record) { r.Call.Turn = "t1" },
		func(r *haft.Record) { r.Call.Parent = "c00000" },
		func(r *haft.Record) { r.Status = haft.StatusError },
		func(r *haft.Record) { r.Status = haft.StatusRunning },
		func(r *haft.Record) { r.Call.Principal.Org = "other" },
		func(r *haft.Record) { r.Call.Principal.User, r.Call.Principal.Agent = "", "" },
	} {
		r := record("acme", count("c", i), haft.StatusSuccess)
		r.Created = at.Add(time.Duration(i) * time.Second)
		change(&r)
		b.Records = append(b.Records, r)
	}
	commit(t, s, b)
	for _, tt := range []struct {
		f    haft.CallFilter
		want string
	}{
		{haft.CallFilter{}, "9 7 6 5 4 3 2 1 0"},
		{haft.CallFilter{User: "bob"}, "1"},
		{haft.CallFilter{Agent: "y"}, "2"},
		{haft.CallFilter{Tool: "sub"}, "3"},
		{haft.CallFilter{Turn: "t1"}, "4"},
		{haft.CallFilter{Parent: "c00000"}, "5"},
		{haft.CallFilter{Status: []haft.Status{haft.StatusError}}, "6"},
		{haft.CallFilter{Status: []haft.Status{haft.StatusRunning, haft.StatusError, haft.StatusRunning}}, "7 6"},
		{haft.CallFilter{Status: []haft.Status{haft.StatusSuccess, haft.StatusError}, Limit: 3}, "9 6 5"},
		{haft.CallFilter{Status: []haft.Status{haft.StatusSuccess, haft.StatusError}, Limit: 2, Before: "c00007"}, "6 5"},
		{haft.CallFilter{User: "ann", Tool: "add", Agent: "x", Status: []haft.Status{haft.StatusRunning}}, "7"},
		{haft.CallFilter{User: "bob", Tool: "sub"}, ""},
		{haft.CallFilter{Since: at.Add(3 * time.Second), Until: at.Add(6 * time.Second)}, "5 4 3"},
		{haft.CallFilter{Before: "c00002"}, "1 0"},
		{haft.CallFilter{Before: "c00007", User: "ann", Limit: 2}, "6 5"},
	} {
		tt.f.Org = "acme"
		list, err := s.Records(t.Context(), tt.f)
		want := ""
		for _, n := range strings.Fields(tt.want) {
			want += " c0000" + n
		}
		if got := ids(list); err != nil || got != strings.TrimSpace(want) {
			t.Errorf("Records(%+v) = %q, %v, want %q", tt.f, got, err, want)
		}
	}
	_, err := s.Records(t.Context(), haft.CallFilter{})
	refused(t, "Records of no organisation", err, haft.CodeInvalid)
	for _, id := range []haft.CallID{"nobody's", "c00008"} {
		_, err := s.Records(t.Context(), haft.CallFilter{Org: "acme", Before: id})
		refused(t, "Records before "+string(id), err, haft.CodeNotFound)
	}
}

func callsPaged(t testing.TB, s *store.Store) {
	const n = 130
	var b store.Batch
	for i := range n {
		r := record("acme", count("c", i), haft.StatusSuccess)
		r.Created = at.Add(time.Duration(i/4) * time.Second) // four at once
		b.Records = append(b.Records, r)
	}
	commit(t, s, b)
	for _, limit := range []int{0, 1, 7, 50, 1000, 5000} {
		want, pages := n-1, 0
		for before := haft.CallID(""); ; pages++ {
			list, err := s.Records(t.Context(), haft.CallFilter{Org: "acme", Before: before, Limit: limit})
			if err != nil {
				t.Fatalf("Records: %v", err)
			}
			if len(list) == 0 {
				break
			}
			if limit > 0 && len(list) > limit || limit == 0 && len(list) > 50 {
				t.Fatalf("Records of %d gives %d", limit, len(list))
			}
			for _, r := range list {
				if string(r.Call.ID) != count("c", want) {
					t.Fatalf("limit %d: %s is listed, want %s", limit, r.Call.ID, count("c", want))
				}
				want--
			}
			before = list[len(list)-1].Call.ID
		}
		if want != -1 {
			t.Errorf("limit %d: %d calls are not listed", limit, want+1)
		}
	}
}

func callsTurn(t testing.TB, s *store.Store) {
	var b store.Batch
	for i := range store.MaxPage + 10 {
		r := record("acme", count("c", i), haft.StatusSuccess)
		r.Call.Turn, r.Created = "t1", at.Add(time.Duration(i)*time.Second)
		switch i {
		case 1:
			r.Call.Turn = "t2"
		case 2:
			r.Call.Principal.Agent = "y"
		case 3:
			r.Call.Principal.Org = "other"
		}
		b.Records = append(b.Records, r)
	}
	commit(t, s, b)
	list, err := s.Turn(t.Context(), "acme", "x", "t1")
	if err != nil || len(list) != store.MaxPage || !strings.HasPrefix(ids(list), "c00000 c00004 c00005") {
		t.Errorf("Turn = %d calls, %.40s, %v", len(list), ids(list), err)
	}
	for _, turn := range []string{"", "t3"} {
		if list, err := s.Turn(t.Context(), "acme", "x", turn); err != nil || len(list) != 0 {
			t.Errorf("Turn(%q) = %v, %v", turn, ids(list), err)
		}
	}
}

func callsOpen(t testing.TB, s *store.Store) {
	var b store.Batch
	for i, status := range haft.Statuses() {
		r := record("acme", count("c", i), status)
		r.Sealed = []byte(`{"a":1}`)
		if i%2 == 1 {
			r.Call.Principal.Org, r.Owner = "other", "p2"
		}
		b.Records = append(b.Records, r)
	}
	commit(t, s, b)
	for _, tt := range []struct {
		owner string
		limit int
		want  string
	}{{"", 0, "c00007 c00008 c00009"}, {"p1", 0, "c00008"}, {"p2", 0, "c00007 c00009"}, {"p3", 0, ""}, {"", 2, "c00007 c00008"}} {
		list, err := s.Open(t.Context(), tt.owner, tt.limit)
		if err != nil || ids(list) != tt.want {
			t.Errorf("Open(%q, %d) = %q, %v, want %q", tt.owner, tt.limit, ids(list), err, tt.want)
		}
		for _, r := range list {
			if string(r.Sealed) != `{"a":1}` {
				t.Errorf("Open gives %s without what is sealed: %q", r.Call.ID, r.Sealed)
			}
		}
	}
}

func callsAdopted(t testing.TB, s *store.Store) {
	var b store.Batch
	var all []haft.CallID
	for i := range 100 {
		status := haft.StatusRunning
		if i == 7 {
			status = haft.StatusSuccess
		}
		b.Records = append(b.Records, record("acme", count("c", i), status))
		all = append(all, haft.CallID(count("c", i)))
	}
	commit(t, s, b)
	if n, err := s.Adopt(t.Context(), "p1", "me", all[:2]); err != nil || n != 2 {
		t.Errorf("Adopt of two = %d, %v", n, err)
	}
	var won atomic.Int64
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			n, err := s.Adopt(t.Context(), "p1", count("q", i), all)
			if err != nil {
				t.Errorf("Adopt: %v", err)
			}
			won.Add(int64(n))
		})
	}
	wg.Wait()
	if won.Load() != 97 {
		t.Errorf("%d calls were adopted, want 97", won.Load())
	}
	if n, err := s.Adopt(t.Context(), "me", "you", nil); err != nil || n != 2 {
		t.Errorf("Adopt of all = %d, %v", n, err)
	}
	got, err := s.Record(t.Context(), "acme", "c00000")
	done, err2 := s.Record(t.Context(), "acme", "c00007")
	if err := errors.Join(err, err2); err != nil || got.Owner != "you" || done.Owner != "p1" {
		t.Errorf("owners are %q and %q, %v", got.Owner, done.Owner, err)
	}
	_, err = s.Adopt(t.Context(), "", "me", nil)
	refused(t, "Adopt from nobody", err, haft.CodeInvalid)
}

func claimRace(t testing.TB, s *store.Store) {
	for round := range 5 {
		key := count("k", round)
		winners := make([]haft.CallID, 100)
		var wg sync.WaitGroup
		for i := range winners {
			wg.Go(func() {
				winner, same, err := s.Claim(t.Context(), "acme", "ann", "", key, "d", haft.CallID(count("c", i)), at)
				if err != nil || !same {
					t.Errorf("Claim = %v, %v", same, err)
				}
				winners[i] = winner
			})
		}
		wg.Wait()
		own := 0
		for i, w := range winners {
			if w != winners[0] {
				t.Fatalf("%s and %s have won", w, winners[0])
			}
			if string(w) == count("c", i) {
				own++
			}
		}
		if own != 1 {
			t.Errorf("%d have won", own)
		}
	}
}

func claimScope(t testing.TB, s *store.Store) {
	agent := ""
	claim := func(org, scope, key, digest, id, want string, wantSame bool) {
		t.Helper()
		winner, same, err := s.Claim(t.Context(), org, scope, agent, key, digest, haft.CallID(id), at)
		if err != nil || string(winner) != want || same != wantSame {
			t.Errorf("Claim(%s, %s, %.10q, %s) = %s, %v, %v, want %s, %v", org, scope, key, digest, winner, same, err, want, wantSame)
		}
	}
	claim("acme", "ann", "k", "d1", "c1", "c1", true)
	claim("acme", "ann", "k", "d1", "c2", "c1", true)
	claim("acme", "ann", "k", "d2", "c3", "c1", false)
	claim("acme", "bob", "k", "d1", "c4", "c4", true)
	claim("other", "ann", "k", "d1", "c5", "c5", true)
	claim("acme", "ann", "K", "d1", "c6", "c6", true)
	agent = "ag_1"
	claim("acme", "ann", "k", "d1", "c10", "c10", true)
	claim("acme", "", "annag_1", "d1", "c11", "c11", true)
	agent = ""
	for i, key := range odd {
		claim("acme", "odd", key, "d1", count("o", i), count("o", i), true)
		claim("acme", "odd", key, "d1", "late", count("o", i), true)
	}
	if err := s.Release(t.Context(), "acme", "ann", "", "k", "c2"); err != nil {
		t.Errorf("Release by another: %v", err)
	}
	if err := s.Release(t.Context(), "acme", "ann", "ag_1", "k", "c1"); err != nil {
		t.Errorf("Release of another agent: %v", err)
	}
	claim("acme", "ann", "k", "d1", "c7", "c1", true)
	if err := s.Release(t.Context(), "acme", "ann", "", "k", "c1"); err != nil {
		t.Errorf("Release: %v", err)
	}
	claim("acme", "ann", "k", "d2", "c8", "c8", true)
	if n, err := s.PruneClaims(t.Context(), at.Add(time.Second)); err != nil || n != 6+len(odd) {
		t.Errorf("PruneClaims = %d, %v", n, err)
	}
	claim("acme", "ann", "k", "d1", "c9", "c9", true)
	_, _, err := s.Claim(t.Context(), "acme", "ann", "", "", "d", "c1", at)
	refused(t, "Claim of no key", err, haft.CodeInvalid)
}

func processes(t testing.TB, s *store.Store) {
	ctx := t.Context()
	for i, owner := range []string{"p1", "p2", "p3"} {
		if err := s.Beat(ctx, owner, at.Add(time.Duration(i)*time.Minute)); err != nil {
			t.Fatalf("Beat: %v", err)
		}
	}
	dead, err := s.Dead(ctx, at.Add(90*time.Second))
	if err != nil {
		t.Fatalf("Dead: %v", err)
	}
	same(t, "Dead", dead, []string{"p1", "p2"})
	if err := errors.Join(s.Beat(ctx, "p1", at.Add(time.Hour)), s.Bury(ctx, "p2"), s.Bury(ctx, "nobody")); err != nil {
		t.Fatal(err)
	}
	dead, err = s.Dead(ctx, at.Add(30*time.Minute))
	if err != nil {
		t.Fatalf("Dead: %v", err)
	}
	same(t, "Dead", dead, []string{"p3"})
}
