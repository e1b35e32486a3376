package storetest

import (
	"strings"
	"sync"
	"testing"
	"time"

	"haft"
	"haft/internal/store"
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
		{haft.CallFilter{Status: []haft.Status{haft.StatusSuccess, haft.StatusError}, Limit: 2, Before: "c00007"},
			"6 5"},
		{haft.CallFilter{User: "ann", Tool: "add", Agent: "x", Status: []haft.Status{haft.StatusRunning}}, "7"},
		{haft.CallFilter{User: "bob", Tool: "sub"}, ""},
		{haft.CallFilter{Since: at.Add(3 * time.Second), Until: at.Add(6 * time.Second)}, "5 4 3"},
		{haft.CallFilter{Before: "c00002"}, "1 0"},
		{haft.CallFilter{Before: "c00007", User: "ann", Limit: 2}, "6 5"},
	} {
		tt.f.Org = "acme"
		list, err := s.Calls.Records(t.Context(), tt.f)
		want := ""
		for _, n := range strings.Fields(tt.want) {
			want += " c0000" + n
		}
		if got := ids(list); err != nil || got != strings.TrimSpace(want) {
			t.Errorf("Records(%+v) = %q, %v, want %q", tt.f, got, err, want)
		}
	}
	_, err := s.Calls.Records(t.Context(), haft.CallFilter{})
	refused(t, "Records of no organisation", err, haft.CodeInvalid)
	for _, id := range []haft.CallID{"nobody's", "c00008"} {
		_, err := s.Calls.Records(t.Context(), haft.CallFilter{Org: "acme", Before: id})
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
			list, err := s.Calls.Records(t.Context(), haft.CallFilter{Org: "acme", Before: before, Limit: limit})
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
	list, err := s.Calls.Turn(t.Context(), "acme", "x", "t1")
	if err != nil || len(list) != store.MaxPage || !strings.HasPrefix(ids(list), "c00000 c00004 c00005") {
		t.Errorf("Turn = %d calls, %.40s, %v", len(list), ids(list), err)
	}
	for _, turn := range []string{"", "t3"} {
		if list, err := s.Calls.Turn(t.Context(), "acme", "x", turn); err != nil || len(list) != 0 {
			t.Errorf("Turn(%q) = %v, %v", turn, ids(list), err)
		}
	}
}

func claimRace(t testing.TB, s *store.Store) {
	for round := range 5 {
		key := count("k", round)
		winners := make([]haft.CallID, 100)
		var wg sync.WaitGroup
		for i := range winners {
			wg.Go(func() {
				winner, same, err := s.Calls.Claim(t.Context(), "acme", "ann", "", key, "d", haft.CallID(count("c", i)),
					at)
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
		winner, same, err := s.Calls.Claim(t.Context(), org, scope, agent, key, digest, haft.CallID(id), at)
		if err != nil || string(winner) != want || same != wantSame {
			t.Errorf("Claim(%s, %s, %.10q, %s) = %s, %v, %v, want %s, %v", org, scope, key, digest, winner, same, err,
				want, wantSame)
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
	if err := s.Calls.Release(t.Context(), "acme", "ann", "", "k", "c2"); err != nil {
		t.Errorf("Release by another: %v", err)
	}
	if err := s.Calls.Release(t.Context(), "acme", "ann", "ag_1", "k", "c1"); err != nil {
		t.Errorf("Release of another agent: %v", err)
	}
	claim("acme", "ann", "k", "d1", "c7", "c1", true)
	if err := s.Calls.Release(t.Context(), "acme", "ann", "", "k", "c1"); err != nil {
		t.Errorf("Release: %v", err)
	}
	claim("acme", "ann", "k", "d2", "c8", "c8", true)
	if n, err := s.Calls.PruneClaims(t.Context(), at.Add(time.Second)); err != nil || n != 6+len(odd) {
		t.Errorf("PruneClaims = %d, %v", n, err)
	}
	claim("acme", "ann", "k", "d1", "c9", "c9", true)
	_, _, err := s.Calls.Claim(t.Context(), "acme", "ann", "", "", "d", "c1", at)
	refused(t, "Claim of no key", err, haft.CodeInvalid)
}
