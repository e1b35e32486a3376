package auth_test

import (
	"strings"
	"testing"
	"time"

	"haft"
	"haft/internal/auth"
)

// change changes what is kept of a key, as another server would.
func (w *world) change(t *testing.T, id string, f func(*auth.Key)) {
	t.Helper()
	k, err := w.kept.Key(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	f(&k)
	if err := w.kept.PutKey(t.Context(), k); err != nil {
		t.Fatal(err)
	}
}

func TestRecheck_says_why_a_key_is_not_good_any_more(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*world, *testing.T, string)
		want   string
	}{
		"removed": {func(w *world, t *testing.T, id string) {
			if err := w.ring.Remove(t.Context(), w.admin, id); err != nil {
				t.Fatal(err)
			}
		}, "the API key was removed"},
		"disabled": {func(w *world, t *testing.T, id string) {
			if _, err := w.ring.Set(t.Context(), w.admin, id, auth.KeyState{Disabled: new(true)}); err != nil {
				t.Fatal(err)
			}
		}, "the API key was disabled"},
		"expired": {func(w *world, t *testing.T, id string) {
			w.change(t, id, func(k *auth.Key) { k.Expires = time.Now().Add(-time.Second) })
		}, "the API key has expired"},
		"rotated": {func(w *world, t *testing.T, id string) {
			if _, _, err := w.ring.Rotate(t.Context(), w.admin, id, 0); err != nil {
				t.Fatal(err)
			}
		}, "the API key was rotated"},
		"rotated twice": {func(w *world, t *testing.T, id string) {
			for range 2 {
				if _, _, err := w.ring.Rotate(t.Context(), w.admin, id, time.Hour); err != nil {
					t.Fatal(err)
				}
			}
		}, "the API key was rotated"},
		"of another user": {func(w *world, t *testing.T,
			id string) {
			w.change(t, id, func(k *auth.Key) { k.User = "bob" })
		}, "the API key is for another user now"},
		"of an agent": {func(w *world, t *testing.T,
			id string) {
			w.change(t, id, func(k *auth.Key) { k.Agent = "x" })
		}, "the API key is for an agent now"},
	} {
		t.Run(name, func(t *testing.T) {
			w := setup(t)
			k, token := w.issue(t, auth.Key{User: "ann", Roles: []string{"dev"}})
			id, err := w.bearer(t.Context(), token)
			if err != nil {
				t.Fatal(err)
			}
			// What is kept of a call has the principal only.
			for _, before := range []auth.Identity{id, {Principal: id.Principal}} {
				if _, err := w.Recheck(t.Context(), before); err != nil {
					t.Fatalf("a good key: %v", err)
				}
			}
			tt.change(w, t, k.ID)
			for _, before := range []auth.Identity{id, {Principal: id.Principal}} {
				_, err = w.Recheck(t.Context(), before)
				if haft.CodeOf(err) != haft.CodeUnauthenticated || !strings.HasPrefix(haft.MessageOf(err), tt.want) {
					t.Errorf("%v, want %q", err, tt.want)
				}
			}
		})
	}
}

func TestRecheck_narrows_and_never_widens(t *testing.T) {
	w := setup(t)
	k, token := w.issue(t, auth.Key{User: "ann", Roles: []string{"admin", "dev"}})
	id, err := w.bearer(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	w.change(t, k.ID, func(k *auth.Key) {
		k.Roles, k.Scope = []string{"dev", "approver"}, []string{"tool:add", "calls:read"}
	})
	now, err := w.Recheck(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	p := now.Principal
	if len(p.Roles) != 1 || p.Roles[0] != "dev" || len(p.Scope) != 1 || p.Scope[0] != "tool:add" ||
		p.Credential != id.Principal.Credential {
		t.Errorf("the principal is %+v", p)
	}
	wantCode(t, "an action of a role that was taken", now.May(haft.KeysRead), haft.CodeDenied)
	wantCode(t, "an action that is out of the scope", now.May(haft.EventsRead), haft.CodeDenied)
	wantCode(t, "an action in the scope", now.May(haft.CallsRead), "")
}

func TestRecheck_of_an_old_secret_ends_with_the_overlap(t *testing.T) {
	w := setup(t)
	k, token := w.issue(t, auth.Key{User: "ann"})
	before, err := w.bearer(t.Context(), token)
	if err != nil || !before.Ends.IsZero() {
		t.Fatal(before.Ends, err)
	}
	_, next, err := w.ring.Rotate(t.Context(), w.admin, k.ID, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	old, err := w.bearer(t.Context(), token)
	if err != nil || old.Principal.Credential != before.Principal.Credential || old.Ends.IsZero() ||
		!old.Expires.IsZero() {
		t.Fatalf("%+v %v", old, err)
	}
	fresh, err := w.bearer(t.Context(), next.Reveal())
	if err != nil || fresh.Principal.Credential == old.Principal.Credential || !fresh.Ends.IsZero() {
		t.Fatalf("%+v %v", fresh, err)
	}
	if again, err := w.Recheck(t.Context(), before); err != nil || !again.Ends.Equal(old.Ends) {
		t.Errorf("during the overlap: %v %v", again.Ends, err)
	}
	w.change(t, k.ID, func(k *auth.Key) { k.Overlap = time.Now().Add(-time.Second) })
	if _, err := w.Recheck(t.Context(), before); haft.CodeOf(err) != haft.CodeUnauthenticated {
		t.Errorf("after the overlap: %v", err)
	}
	if _, err := w.Recheck(t.Context(), fresh); err != nil {
		t.Errorf("the new secret: %v", err)
	}
}

func TestRecheck_of_a_token(t *testing.T) {
	w := setup(t, newIDP(edJWK("d1")).use())
	made := func(change object) auth.Identity {
		id, err := w.bearer(t.Context(), mint(object{"alg": "EdDSA", "kid": "d1"}, claims(change), edKey()))
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	id := made(nil)
	if c := id.Principal.Credential; !strings.HasPrefix(c, "token:") || strings.Contains(c, "ann") {
		t.Errorf("the credential is named %q", c)
	}
	if other := made(object{"jti": "2"}); other.Principal.Credential == id.Principal.Credential {
		t.Error("two tokens have one name")
	}
	if got, err := w.Recheck(t.Context(), auth.Identity{Principal: id.Principal}); err != nil || got.Ends.IsZero() {
		t.Errorf("a good token: %v %v", got.Ends, err)
	}
	// It is accepted for as long as clocks may differ, and ends then.
	late := made(object{"exp": time.Now().Add(-time.Second).Unix()})
	if _, err := w.Recheck(t.Context(), late); err != nil || !late.Ends.After(time.Now()) {
		t.Errorf("a token within the difference of clocks: %v %v", late.Ends, err)
	}
	over := id
	over.Principal.Credential = id.Principal.Credential[:strings.LastIndex(id.Principal.Credential, ".")] +
		".1700000000"
	other := setup(t)
	for name, try := range map[string]func() error{
		"expired":                   func() error { _, err := w.Recheck(t.Context(), over); return err },
		"of an issuer that is gone": func() error { _, err := other.Recheck(t.Context(), id); return err },
		"of a kind that is not known": func() error {
			_, err := w.Recheck(t.Context(),
				auth.Identity{Principal: haft.Principal{Org: "acme", Credential: "cookie:1"}})
			return err
		},
	} {
		wantCode(t, name, try(), haft.CodeUnauthenticated)
	}
}
