package auth_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"haft"
	"haft/internal/auth"
	"haft/internal/auth/authtest"
)

func TestMemory_is_a_backend(t *testing.T) {
	authtest.TestKeys(t, func(*testing.T) auth.Keys { return &authtest.Memory{} })
}

func TestKey_text(t *testing.T) {
	w := setup(t)
	if !regexp.MustCompile(`^` + auth.KeyPattern + `$`).MatchString(w.key) {
		t.Errorf("the pattern for scanners does not fit a key of %d characters", len(w.key))
	}
	id, ok := auth.ParseKey(w.key)
	if !ok || id != w.id {
		t.Errorf("ParseKey = %q, %v, want %q", id, ok, w.id)
	}
	for i := range w.key {
		// A typing error is seen without asking anybody.
		other := byte('a')
		if w.key[i] == 'a' {
			other = 'b'
		}
		if _, ok := auth.ParseKey(w.key[:i] + string(other) + w.key[i+1:]); ok {
			t.Errorf("a key with a wrong character at %d passes", i)
		}
	}
	for _, bad := range []string{"", "haft_", w.key + "a", w.key[1:], strings.ToUpper(w.key), " " + w.key, w.key + "\n",
		strings.Replace(w.key, "_", "-", 1)} {
		if _, ok := auth.ParseKey(bad); ok {
			t.Errorf("ParseKey(%q) takes it", bad)
		}
	}
}

func TestToken_is_not_printed(t *testing.T) {
	w := setup(t)
	k, token, err := w.ring.Issue(t.Context(), w.admin, auth.Key{User: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("made", "token", token, "key", k)
	raw, _ := json.Marshal(struct {
		T auth.Token
		K auth.Key
	}{token, k})
	_, secret, _ := strings.Cut(token.Reveal()[5:], "_")
	for _, out := range []string{fmt.Sprintf("%v %+v %#v %s %q %x", token, token, token, token, token, token),
		fmt.Sprintf("%+v", struct{ t auth.Token }{token}), log.String(), string(raw)} {
		if strings.Contains(out, secret) {
			t.Errorf("the secret is in %q", out)
		}
	}
	if strings.Contains(string(raw), "Hash") || strings.Contains(string(raw), "Signing") {
		t.Errorf("what is at rest is shown: %s", raw)
	}
}

func TestKey_at_rest_does_not_give_the_key(t *testing.T) {
	w := setup(t)
	kept, err := w.kept.Key(t.Context(), w.id)
	if err != nil {
		t.Fatal(err)
	}
	_, secret, _ := strings.Cut(w.key[5:], "_")
	if out := fmt.Sprintf("%s", kept.Secret); strings.Contains(out, secret) ||
		strings.Contains(out, string(hmac256(w.key, "haft request signing 1"))) {
		t.Error("the backend holds a secret")
	}
	// Another pepper opens nothing.
	ring, err := auth.NewKeyring(w.kept, []byte(strings.Repeat("another ", 4)), nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := auth.New(auth.Config{Keyring: ring})
	if err != nil {
		t.Fatal(err)
	}
	_, err = a.Authenticate(t.Context(), auth.Credential{Scheme: "Bearer", Token: w.key})
	wantRefused(t, err, auth.ReasonWrong)
	r := received("GET", "/", "", header(w.key, "GET", "/", "", nonce(), time.Now().Unix()))
	_, err = a.Admit(r, home)
	wantRefused(t, err, auth.ReasonWrong)
	if _, err := auth.NewKeyring(w.kept, make([]byte, 31), nil); err == nil {
		t.Error("a short pepper is taken")
	}
}

func TestAuthenticate_gives_the_principal_of_a_key(t *testing.T) {
	w := setup(t)
	k, token := w.issue(t, auth.Key{Name: "ci", User: "ann", Agent: "bot", Roles: []string{"dev"},
		Scope: []string{"tool:a*", "tools:read"}, Expires: time.Now().Add(time.Hour)})
	got, err := w.bearer(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	want := haft.Principal{Org: "acme", User: "ann", Agent: "bot", Roles: []string{"dev"}, Scope: []string{"tool:a*"},
		Actions: []haft.Action{haft.ToolsRead, haft.CallsWrite}, Credential: got.Principal.Credential}
	if diff := cmp.Diff(want, got.Principal); diff != "" {
		t.Errorf("principal (-want +got):\n%s", diff)
	}
	if got.Key != k.ID || !got.Expires.Equal(k.Expires) || got.Signed {
		t.Errorf("identity %+v", got)
	}
	for _, scheme := range []string{"bearer", "BEARER"} {
		if _, err := w.Authenticate(t.Context(), auth.Credential{Scheme: scheme, Token: token}); err != nil {
			t.Errorf("scheme %s: %v", scheme, err)
		}
	}
}

func TestKeyring_checks_what_it_issues(t *testing.T) {
	w := setup(t)
	for name, k := range map[string]auth.Key{
		"control character":      {User: "a\nb"},
		"text that runs back":    {Name: "a\u202eb"},
		"long name":              {Name: strings.Repeat("a", 257)},
		"not UTF-8":              {Agent: "\xff"},
		"empty role":             {Roles: []string{""}},
		"many roles":             {Roles: slices.Repeat([]string{"r"}, 65)},
		"unknown action":         {Scope: []string{"calls:everything"}},
		"permission for nothing": {Scope: []string{"tool:"}},
		"calls of no tool":       {Scope: []string{"calls:write"}},
		"long scope":             {Scope: slices.Repeat([]string{"tool:a"}, 257)},
		"expired already":        {Expires: time.Now().Add(-time.Second)},
	} {
		_, _, err := w.ring.Issue(t.Context(), w.admin, k)
		wantCode(t, name, err, haft.CodeInvalid)
	}
	if _, _, err := w.ring.NewAdminKey(t.Context(), ""); haft.CodeOf(err) != haft.CodeInvalid {
		t.Errorf("a key of no organisation: %v", err)
	}
}

func TestRotate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := setup(t)
		k, first := w.issue(t, auth.Key{User: "ann"})
		rotate := func(overlap time.Duration) string {
			t.Helper()
			_, token, err := w.ring.Rotate(t.Context(), w.admin, k.ID, overlap)
			if err != nil {
				t.Fatal(err)
			}
			return token.Reveal()
		}
		second := rotate(time.Hour)
		time.Sleep(time.Hour - time.Microsecond)
		for _, token := range []string{first, second} {
			if _, err := w.bearer(t.Context(), token); err != nil {
				t.Errorf("at the end of the overlap: %v", err)
			}
			if _, err := w.Admit(received("GET", "/x", "", header(token, "GET", "/x", "", nonce(), time.Now().Unix())),
				home); err != nil {
				t.Errorf("signed, at the end of the overlap: %v", err)
			}
		}
		time.Sleep(time.Microsecond)
		_, err := w.bearer(t.Context(), first)
		wantRefused(t, err, auth.ReasonRotated)
		_, err = w.Admit(received("GET", "/x", "", header(first, "GET", "/x", "", nonce(), time.Now().Unix())), home)
		wantRefused(t, err, auth.ReasonRotated)
		if _, err := w.bearer(t.Context(), second); err != nil {
			t.Errorf("after the overlap: %v", err)
		}
		// A second rotation ends what the first had left.
		third := rotate(time.Hour)
		fourth := rotate(time.Hour)
		_, err = w.bearer(t.Context(), second)
		wantRefused(t, err, auth.ReasonWrong)
		fifth := rotate(0)
		for _, token := range []string{third, fourth} {
			_, err = w.bearer(t.Context(), token)
			wantRefused(t, err, auth.ReasonWrong)
		}
		if _, err := w.bearer(t.Context(), fifth); err != nil {
			t.Error(err)
		}
		for _, overlap := range []time.Duration{-1, auth.MaxOverlap + 1} {
			_, _, err := w.ring.Rotate(t.Context(), w.admin, k.ID, overlap)
			wantCode(t, overlap.String(), err, haft.CodeInvalid)
		}
	})
}

func TestKey_expires_and_is_disabled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := setup(t)
		k, token := w.issue(t, auth.Key{User: "ann", Expires: time.Now().Add(time.Hour)})
		time.Sleep(time.Hour - time.Microsecond)
		if _, err := w.bearer(t.Context(), token); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Microsecond)
		_, err := w.bearer(t.Context(), token)
		wantRefused(t, err, auth.ReasonExpired)
		later, yes, no, name := time.Now().Add(time.Hour), true, false, "renamed"
		set := func(s auth.KeyState, reason auth.Reason) {
			t.Helper()
			if _, err := w.ring.Set(t.Context(), w.admin, k.ID, s); err != nil {
				t.Fatal(err)
			}
			if _, err := w.bearer(t.Context(), token); auth.ReasonOf(err) != reason || (err == nil) != (reason == "") {
				t.Errorf("after %+v: %v, want %q", s, err, reason)
			}
		}
		set(auth.KeyState{Name: &name}, auth.ReasonExpired)
		set(auth.KeyState{Expires: &later}, "")
		set(auth.KeyState{Disabled: &yes}, auth.ReasonDisabled)
		set(auth.KeyState{Disabled: &no}, "")
		past := time.Now()
		_, err = w.ring.Set(t.Context(), w.admin, k.ID, auth.KeyState{Expires: &past})
		wantCode(t, "an end in the past", err, haft.CodeInvalid)
		got, err := w.ring.Key(t.Context(), w.admin, k.ID)
		if err != nil || got.Name != name {
			t.Errorf("Key = %+v, %v", got, err)
		}
	})
}

type ctx = context.Context

// A touched backend counts writes of the last use.
type touched struct {
	authtest.Memory
	times []time.Time
	fail  bool
}

func (b *touched) TouchKey(ctx ctx, id string, at time.Time) error {
	b.times = append(b.times, at)
	if b.fail {
		return errors.New("the disk is full")
	}
	return b.Memory.TouchKey(ctx, id, at)
}

func TestLast_use_is_written_once_a_minute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &touched{}
		ring, _ := auth.NewKeyring(b, pepper, nil)
		a, err := auth.New(auth.Config{Keyring: ring})
		if err != nil {
			t.Fatal(err)
		}
		k, token, err := ring.NewAdminKey(t.Context(), "acme")
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for range 121 {
			if _, err := a.Authenticate(t.Context(),
				auth.Credential{Scheme: "Bearer", Token: token.Reveal()}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if len(b.times) != 3 || !b.times[2].Equal(began.Add(2*time.Minute)) {
			t.Errorf("written at %v", b.times)
		}
		b.fail = true
		time.Sleep(time.Minute)
		if _, err := a.Authenticate(t.Context(), auth.Credential{Scheme: "Bearer",
			Token: token.Reveal()}); err != nil || len(b.times) != 4 {
			t.Errorf("a last use that cannot be kept: %v after %d writes", err, len(b.times))
		}
		if kept, _ := b.Key(t.Context(), k.ID); !kept.LastUsed.Equal(began.Add(2 * time.Minute)) {
			t.Errorf("kept as %v", kept.LastUsed)
		}
	})
}

// A broken backend has no answer.
type broken struct{ authtest.Memory }

func (*broken) Key(ctx, string) (auth.Key, error) {
	return auth.Key{}, errors.New("no route to the database at 10.0.0.1")
}

func TestAuthenticate_says_when_it_cannot_know(t *testing.T) {
	ring, _ := auth.NewKeyring(&broken{}, pepper, nil)
	w := setup(t)
	a, err := auth.New(auth.Config{Keyring: ring, Attempts: auth.Attempts{Failures: 1}})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 { // and that is no failure of the caller's
		_, err = a.Authenticate(t.Context(), auth.Credential{Scheme: "Bearer", Token: w.key})
		wantCode(t, "a backend that is away", err, haft.CodeUnavailable)
		if strings.Contains(haft.MessageOf(err), "10.0") {
			t.Errorf("the caller is told %q", haft.MessageOf(err))
		}
	}
}

func TestKeys_are_listed_by_page(t *testing.T) {
	w := setup(t)
	want := []string{w.id}
	for range 230 {
		k, _ := w.issue(t, auth.Key{User: "ann"})
		want = append(want, k.ID)
	}
	slices.Sort(want)
	var got []string
	for k, err := range w.ring.Keys(t.Context(), w.admin, "") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, k.ID)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for k, err := range w.ring.Keys(t.Context(), w.admin, got[100]) {
		if err != nil || k.ID != got[101] {
			t.Errorf("after %s comes %s, %v", got[100], k.ID, err)
		}
		break
	}
}
