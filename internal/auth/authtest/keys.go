// Package authtest is the conformance suite of [auth.Keys]: what every backend must do, as
// tests.
//
// A store calls [TestKeys] with a function that opens an empty backend.
package authtest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"haft"
	"haft/internal/auth"
)

// TestKeys is the conformance suite of a backend. open returns an empty one, and cleans up
// after itself.
func TestKeys(t *testing.T, open func(t *testing.T) auth.Keys) {
	t.Run("keeps_every_field", func(t *testing.T) { keeps(t, open(t)) })
	t.Run("tells_no_scope_from_an_empty_one", func(t *testing.T) { scopes(t, open(t)) })
	t.Run("has_no_key_that_was_not_put", func(t *testing.T) { missing(t, open(t)) })
	t.Run("writes_on_condition", func(t *testing.T) { conditional(t, open(t)) })
	t.Run("one_of_many_writers_wins", func(t *testing.T) { race(t, open(t)) })
	t.Run("notes_the_last_use", func(t *testing.T) { touches(t, open(t)) })
	t.Run("lists_one_organisation_in_order", func(t *testing.T) { lists(t, open(t)) })
	t.Run("removes_within_the_organisation", func(t *testing.T) { removes(t, open(t)) })
	t.Run("shares_no_memory_with_its_caller", func(t *testing.T) { copies(t, open(t)) })
	t.Run("serves_a_keyring", func(t *testing.T) { serves(t, open(t)) })
}

var noon = time.Date(2026, 11, 15, 12, 0, 0, 123_000, time.UTC)

// full returns a key with every field set.
func full(org, id string) auth.Key {
	return auth.Key{
		ID: id, Org: org, Name: "ci <é>", User: "ann", Agent: "x", Roles: []string{"b", "a"},
		Scope:      []string{"tool:*", "calls:read"},
		SignedOnly: true, Created: noon, Expires: noon.Add(time.Hour), Disabled: true, Rotated: noon.Add(time.Minute),
		Overlap:  noon.Add(2 * time.Minute),
		Secret:   auth.Proof{Hash: []byte{0, 1, 0xff}, Signing: []byte{2, 0, 3}},
		Previous: auth.Proof{Hash: []byte{4}, Signing: []byte{5, 6}},
	}
}

func put(t *testing.T, b auth.Keys, k auth.Key) {
	t.Helper()
	if err := b.PutKey(t.Context(), k); err != nil {
		t.Fatalf("PutKey(%s, rev %d): %v", k.ID, k.Rev, err)
	}
}

func read(t *testing.T, b auth.Keys, id string) auth.Key {
	t.Helper()
	k, err := b.Key(t.Context(), id)
	if err != nil {
		t.Fatalf("Key(%s): %v", id, err)
	}
	return k
}

func wantCode(t *testing.T, what string, err error, want haft.Code) {
	t.Helper()
	if got := haft.CodeOf(err); got != want {
		t.Errorf("%s: code %q (%v), want %q", what, got, err, want)
	}
}

func keeps(t *testing.T, b auth.Keys) {
	want, bare := full("acme", "aaaaaaaaaaaa"), auth.Key{ID: "bbbbbbbbbbbb", Org: "acme", Created: noon}
	for _, k := range []auth.Key{want, bare} {
		put(t, b, k)
		k.Rev = 1
		if diff := cmp.Diff(k, read(t, b, k.ID)); diff != "" {
			t.Errorf("key %s (-want +got):\n%s", k.ID, diff)
		}
	}
	next := full("acme", want.ID)
	next.Rev, next.Name, next.Disabled, next.Scope, next.Previous, next.Overlap, next.Expires = 1, "", false, nil,
		auth.Proof{}, time.Time{}, time.Time{}
	put(t, b, next)
	next.Rev = 2
	if diff := cmp.Diff(next, read(t, b, next.ID)); diff != "" {
		t.Errorf("key after a write (-want +got):\n%s", diff)
	}
}

// scopes: nil is everything and empty is nothing, so a backend that confuses them grants everything.
func scopes(t *testing.T, b auth.Keys) {
	none, empty := auth.Key{ID: "aaaaaaaaaaaa", Org: "acme", Created: noon},
		auth.Key{ID: "bbbbbbbbbbbb", Org: "acme", Created: noon, Scope: []string{}}
	put(t, b, none)
	put(t, b, empty)
	if k := read(t, b, none.ID); k.Scope != nil {
		t.Errorf("no scope was kept as %#v", k.Scope)
	}
	if k := read(t, b, empty.ID); k.Scope == nil || len(k.Scope) != 0 {
		t.Errorf("an empty scope was kept as %#v", k.Scope)
	}
	all, err := b.Keys(t.Context(), "acme", "", 10)
	if err != nil || len(all) != 2 || all[0].Scope != nil || all[1].Scope == nil {
		t.Errorf("Keys = %#v, %v", all, err)
	}
}

func missing(t *testing.T, b auth.Keys) {
	put(t, b, full("acme", "aaaaaaaaaaaa"))
	for _, id := range []string{"", "bbbbbbbbbbbb", "AAAAAAAAAAAA", "aaaaaaaaaaa%", "aaaaaaaaaaaa ", "aaaaaaaaaaa_",
		"' OR 1=1 --", "aaaaaaaaaaaa\x00"} {
		_, err := b.Key(t.Context(), id)
		wantCode(t, fmt.Sprintf("Key(%q)", id), err, haft.CodeNotFound)
	}
}

func conditional(t *testing.T, b auth.Keys) {
	k := full("acme", "aaaaaaaaaaaa")
	k.Rev = 3
	wantCode(t, "a write over nothing", b.PutKey(t.Context(), k), haft.CodeConflict)
	k.Rev = 0
	put(t, b, k)
	wantCode(t, "a second first write", b.PutKey(t.Context(), k), haft.CodeConflict)
	k.Rev = 2
	wantCode(t, "a write over a later one", b.PutKey(t.Context(), k), haft.CodeConflict)
	other := full("other", k.ID)
	other.Rev = 1
	wantCode(t, "a write from another organisation", b.PutKey(t.Context(), other), haft.CodeConflict)
	if got := read(t, b, k.ID); got.Rev != 1 || got.Org != "acme" {
		t.Errorf("refused writes left rev %d of %s", got.Rev, got.Org)
	}
}

func race(t *testing.T, b auth.Keys) {
	put(t, b, full("acme", "aaaaaaaaaaaa"))
	var won atomic.Int32
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			k := full("acme", "aaaaaaaaaaaa")
			k.Rev, k.Name = 1, fmt.Sprint("writer ", i)
			switch err := b.PutKey(t.Context(), k); haft.CodeOf(err) {
			case "":
				won.Add(1)
			case haft.CodeConflict:
			default:
				t.Errorf("PutKey: %v", err)
			}
		})
	}
	all.Wait()
	if n := won.Load(); n != 1 {
		t.Errorf("%d writers won, want 1", n)
	}
}

func touches(t *testing.T, b auth.Keys) {
	k := full("acme", "aaaaaaaaaaaa")
	put(t, b, k)
	touch := func(id string, at time.Time) {
		t.Helper()
		if err := b.TouchKey(t.Context(), id, at); err != nil {
			t.Errorf("TouchKey(%s): %v", id, err)
		}
	}
	touch(k.ID, noon.Add(time.Hour))
	touch(k.ID, noon) // late, and so no news
	touch("bbbbbbbbbbbb", noon)
	if got := read(t, b, k.ID); !got.LastUsed.Equal(noon.Add(time.Hour)) || got.Rev != 1 {
		t.Errorf("last used %v with rev %d, want %v with 1", got.LastUsed, got.Rev, noon.Add(time.Hour))
	}
	k.Rev, k.LastUsed = 1, noon
	put(t, b, k)
	if got := read(t, b, k.ID); !got.LastUsed.Equal(noon.Add(time.Hour)) {
		t.Errorf("a write set the last use back to %v", got.LastUsed)
	}
	_, err := b.Key(t.Context(), "bbbbbbbbbbbb")
	wantCode(t, "a key that was only touched", err, haft.CodeNotFound)
}

func lists(t *testing.T, b auth.Keys) {
	for _, id := range []string{"cccccccccccc", "aaaaaaaaaaaa", "bbbbbbbbbbbb"} {
		put(t, b, full("acme", id))
	}
	put(t, b, full("other", "abaaaaaaaaaa"))
	for _, tt := range []struct {
		org, after string
		limit      int
		want       string
	}{
		{"acme", "", 10, "a b c "}, {"acme", "", 2, "a b "}, {"acme", "aaaaaaaaaaaa", 10, "b c "},
		{"acme", "cccccccccccc", 10, ""},
		{"other", "", 10, "a "}, {"nobody", "", 10, ""}, {"ACME", "", 10, ""}, {"acm%", "", 10, ""}, {"", "", 10, ""},
	} {
		all, err := b.Keys(t.Context(), tt.org, tt.after, tt.limit)
		got := ""
		for _, k := range all {
			got += k.ID[:1] + " "
			if k.Org != tt.org {
				t.Errorf("Keys(%q) lists a key of %q", tt.org, k.Org)
			}
		}
		if err != nil || got != tt.want {
			t.Errorf("Keys(%q, %q, %d) = %q, %v, want %q", tt.org, tt.after, tt.limit, got, err, tt.want)
		}
	}
}

func removes(t *testing.T, b auth.Keys) {
	put(t, b, full("acme", "aaaaaaaaaaaa"))
	wantCode(t, "RemoveKey of another organisation", b.RemoveKey(t.Context(), "other", "aaaaaaaaaaaa"),
		haft.CodeNotFound)
	read(t, b, "aaaaaaaaaaaa")
	wantCode(t, "RemoveKey", b.RemoveKey(t.Context(), "acme", "aaaaaaaaaaaa"), "")
	_, err := b.Key(t.Context(), "aaaaaaaaaaaa")
	wantCode(t, "Key after RemoveKey", err, haft.CodeNotFound)
	wantCode(t, "RemoveKey again", b.RemoveKey(t.Context(), "acme", "aaaaaaaaaaaa"), haft.CodeNotFound)
}

func copies(t *testing.T, b auth.Keys) {
	k := full("acme", "aaaaaaaaaaaa")
	put(t, b, k)
	k.Roles[0], k.Scope[0], k.Secret.Hash[0] = "changed", "changed", 9
	got := read(t, b, k.ID)
	got.Roles[0], got.Scope[0], got.Secret.Hash[0] = "changed", "changed", 9
	want := full("acme", k.ID)
	want.Rev = 1
	if diff := cmp.Diff(want, read(t, b, k.ID)); diff != "" {
		t.Errorf("what is kept was changed from outside (-want +got):\n%s", diff)
	}
}

// serves issues, uses, rotates and removes a key.
func serves(t *testing.T, b auth.Keys) {
	ring, err := auth.NewKeyring(b, make([]byte, 32), nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := auth.New(auth.Config{Keyring: ring})
	if err != nil {
		t.Fatal(err)
	}
	use := func(token auth.Token) (auth.Identity, error) {
		return a.Authenticate(t.Context(), auth.Credential{Scheme: auth.SchemeBearer, Token: token.Reveal()})
	}
	key, first, err := ring.NewAdminKey(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	admin, err := use(first)
	if err != nil || admin.Principal.Org != "acme" || admin.Key != key.ID {
		t.Fatalf("the first key gives %+v, %v", admin, err)
	}
	if read(t, b, key.ID).LastUsed.IsZero() {
		t.Error("the last use was not kept")
	}
	_, second, err := ring.Rotate(t.Context(), admin, key.ID, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range []auth.Token{first, second} {
		if _, err := use(token); err != nil {
			t.Errorf("during the overlap: %v", err)
		}
	}
	if err := ring.Remove(t.Context(), admin, key.ID); err != nil {
		t.Fatal(err)
	}
	_, err = use(second)
	wantCode(t, "a key that was removed", err, haft.CodeUnauthenticated)
}
