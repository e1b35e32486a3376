package storetest

import (
	"strings"
	"testing"

	"haft"
	"haft/internal/auth"
	"haft/internal/auth/authtest"
	"haft/internal/store"
)

// keysBackend holds a store to the contract for backends of API keys.
func keysBackend(t *testing.T, open func(t *testing.T) *store.Store) {
	authtest.TestKeys(t, func(t *testing.T) auth.Keys { return open(t).Keys })
}

// keysBounded is what a store does for keys beyond that contract.
func keysBounded(t testing.TB, s *store.Store) {
	ctx := t.Context()
	some := func(want bool) {
		t.Helper()
		if got, err := s.Keys.HasKeys(ctx); got != want || err != nil {
			t.Errorf("HasKeys = %v, %v, want %v", got, err, want)
		}
	}
	some(false)
	if err := s.Keys.TouchKey(ctx, "aaaaaaaaaaaa", at); err != nil {
		t.Errorf("TouchKey of none: %v", err)
	}
	some(false)
	for what, bad := range map[string]auth.Key{
		"without an id":                  {Org: "acme"},
		"without an organisation":        {ID: "aaaaaaaaaaaa"},
		"of a strange organisation":      {ID: "aaaaaaaaaaaa", Org: "acme\x00"},
		"of an organisation of any size": {ID: "aaaaaaaaaaaa", Org: strings.Repeat("o", 300)},
		"that is huge":                   {ID: "aaaaaaaaaaaa", Org: "acme", Name: strings.Repeat("n", store.MaxText)},
	} {
		refused(t, "a key "+what, s.Keys.PutKey(ctx, bad), haft.CodeInvalid)
	}
	some(false)
	if err := s.Keys.PutKey(ctx, auth.Key{ID: "aaaaaaaaaaaa", Org: "acme", Created: at}); err != nil {
		t.Fatal(err)
	}
	some(true)
	for limit, want := range map[int]int{-1: 0, 0: 0, 1: 1, store.MaxPage + 1: 1} {
		if list, err := s.Keys.Keys(ctx, "acme", "", limit); err != nil || len(list) != want {
			t.Errorf("Keys with a limit of %d = %d keys, %v, want %d", limit, len(list), err, want)
		}
	}
	if err := s.Keys.RemoveKey(ctx, "acme", "aaaaaaaaaaaa"); err != nil {
		t.Fatal(err)
	}
	some(false)
}
