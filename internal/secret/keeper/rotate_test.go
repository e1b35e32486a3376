package keeper_test

import (
	"errors"
	"fmt"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"haft"
	"haft/internal/secret"
	"haft/internal/secret/keeper"
)

func TestKeeper_rotates_data_keys(t *testing.T) {
	back := newMemory()
	k, other := open(t, back, master(t, 1)), open(t, back, master(t, 1))
	put(t, k, org, "OLD", "old-value")
	first := back.rows[at(org, "OLD")].Key
	if err := k.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	put(t, k, org, "NEW", "new-value")
	if back.rows[at(org, "NEW")].Key == first || back.rows[at(org, "OLD")].Key != first {
		t.Error("new values are under the new key, old ones stay")
	}
	want := map[string]string{"OLD": "old-value", "NEW": "new-value"}
	if diff := gocmp.Diff(want, values(t, other, org)); diff != "" {
		t.Error("a process that did not rotate: " + diff)
	}
	put(t, other, org, "NEW2", "new-value-2")
	if got := back.rows[at(org, "NEW2")].Key; got != back.rows[at(org, "NEW")].Key {
		t.Error("a process that did not rotate writes under the new key")
	}
	if n, err := k.Rewrap(t.Context()); n != 1 || err != nil {
		t.Errorf("Rewrap = %d, %v", n, err)
	}
	if n, err := k.Rewrap(t.Context()); n != 0 || err != nil {
		t.Errorf("Rewrap again = %d, %v", n, err)
	}
	if n, err := k.Forget(t.Context()); n != 1 || err != nil {
		t.Errorf("Forget = %d, %v", n, err)
	}
	want["NEW2"] = "new-value-2"
	for _, k := range []*keeper.Keeper{k, other, open(t, back, master(t, 1))} {
		if diff := gocmp.Diff(want, values(t, k, org)); diff != "" {
			t.Error(diff)
		}
	}
}

func TestKeeper_replaces_the_master_key_without_a_gap(t *testing.T) {
	back := newMemory()
	old, next := master(t, 1), master(t, 2)
	before := open(t, back, old)
	put(t, before, org, "A", "value")
	during := open(t, back, next, old) // the keyset is under both from here on
	put(t, during, org, "B", "value")
	for name, k := range map[string]*keeper.Keeper{"running": before, "old key": open(t, back, old),
		"new key": open(t, back, next), "both": during} {
		if got := values(t, k, org); len(got) != 2 {
			t.Errorf("%s: %v", name, got)
		}
	}
	after := open(t, back, next)
	if _, err := after.Rewrap(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := keeper.Open(t.Context(), back, old); haft.CodeOf(err) != haft.CodeUnavailable {
		t.Errorf("the old key opens nothing any more: %v", err)
	}
	if got := values(t, after, org); len(got) != 2 {
		t.Errorf("after: %v", got)
	}
}

func TestKeeper_seals_plain_rows(t *testing.T) {
	back := newMemory()
	for i := range 250 {
		r := keeper.Row{Scope: org, Name: fmt.Sprint("P", i), Data: []byte(fmt.Sprint("plain-value-", i)), Plain: true,
			Rev: 1}
		back.rows[at(r.Scope, r.Name)] = r
	}
	k := open(t, back, master(t, 1))
	if _, err := k.Values(t.Context(), org); haft.CodeOf(err) != haft.CodeUnavailable {
		t.Errorf("what is not sealed is not used: %v", err)
	}
	back.fail = func(n int) error {
		if n > 100 {
			return errCrash
		}
		return nil
	}
	n, err := k.Seal(t.Context())
	if !errors.Is(err, errCrash) || n == 0 || n >= 250 {
		t.Fatalf("Seal = %d, %v", n, err)
	}
	back.fail = nil
	k = open(t, back, master(t, 1))
	if m, err := k.Seal(t.Context()); n+m != 250 || err != nil {
		t.Errorf("Seal = %d and %d, %v", n, m, err)
	}
	got := values(t, k, org)
	for i := range 250 {
		if got[fmt.Sprint("P", i)] != fmt.Sprint("plain-value-", i) {
			t.Errorf("P%d is %q", i, got[fmt.Sprint("P", i)])
		}
	}
	for _, r := range back.rows {
		if r.Plain || r.Fingerprint == "" || string(r.Data) == "plain-value" {
			t.Errorf("%s is not sealed", r.Name)
		}
	}
}

func TestKeeper_rewrap_names_what_it_cannot_read(t *testing.T) {
	back := newMemory()
	k := open(t, back, master(t, 1))
	for _, n := range []string{"A", "BROKEN", "C"} {
		put(t, k, org, n, "value")
	}
	row := back.rows[at(org, "BROKEN")]
	row.Data = []byte("broken")
	back.rows[at(org, "BROKEN")] = row
	if err := k.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	n, err := k.Rewrap(t.Context())
	if n != 2 || haft.CodeOf(err) != haft.CodeUnavailable {
		t.Errorf("Rewrap = %d, %v", n, err)
	}
	if string(back.rows[at(org, "BROKEN")].Data) != "broken" {
		t.Error("what cannot be read is left as it is")
	}
}

// Whatever is done in whatever order, with a crash at any write, every value that
// was acknowledged can be read with a key that was given last.
func TestKeeper_property(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		back := newMemory()
		newest := byte(1)
		reopen := func() *keeper.Keeper {
			var masters []*keeper.Master
			for _, b := range []byte{newest, newest - 1} {
				m, err := keeper.NewMaster(append(make([]byte, keeper.MasterSize-1), b))
				if err != nil {
					t.Fatal(err)
				}
				masters = append(masters, m)
			}
			k, err := keeper.Open(t.Context(), back, masters...)
			if err != nil {
				if errors.Is(err, errCrash) {
					return nil
				}
				t.Fatalf("Open: %v", err)
			}
			return k
		}
		k := reopen()
		want, maybe := map[string]string{}, map[string]string{}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			if rapid.IntRange(0, 3).Draw(t, "crash") == 0 {
				left := back.writes + rapid.IntRange(1, 4).Draw(t, "after")
				back.fail = func(n int) error {
					if n >= left {
						return errCrash
					}
					return nil
				}
			}
			var err error
			switch rapid.SampledFrom([]string{"put", "put", "rotate", "rewrap", "seal", "forget", "remove",
				"master"}).Draw(t, "do") {
			case "put":
				name, value := rapid.SampledFrom([]string{"A", "B", "C"}).Draw(t, "name"),
					rapid.StringN(1, 20, -1).Draw(t, "value")
				if err = k.Put(t.Context(), org, name, secret.New(value)); err == nil {
					want[name] = value
				} else {
					maybe[name] = value
				}
			case "rotate":
				err = k.Rotate(t.Context())
			case "rewrap":
				_, err = k.Rewrap(t.Context())
			case "seal":
				_, err = k.Seal(t.Context())
			case "forget":
				_, err = k.Forget(t.Context())
			case "remove":
				if back.RemoveSecret(t.Context(), org, "C") == nil {
					delete(want, "C")
				}
			case "master":
				if k := reopen(); k != nil { // under this one and the one before
					if _, err = k.Rewrap(t.Context()); err == nil {
						newest++
					}
				}
			}
			if err != nil && !errors.Is(err, errCrash) && haft.CodeOf(err) != haft.CodeConflict {
				t.Fatal(err)
			}
			back.fail = nil
			k = reopen()
			list, err := k.Values(t.Context(), org)
			if err != nil {
				t.Fatalf("Values: %v", err)
			}
			got := map[string]string{}
			for _, n := range list {
				got[n.Name] = n.Value.Reveal()
			}
			for name, value := range want {
				if v := got[name]; v != value && v != maybe[name] {
					t.Fatalf("%s is %q, want %q", name, v, value)
				}
			}
		}
	})
}
