package auth_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"haft"
	"haft/internal/auth"
	"haft/internal/auth/authtest"
)

var errAway = errors.New("the backend is away")

// failing is a backend of which some methods fail.
type failing struct {
	*authtest.Memory
	read, list, put, remove bool
}

// Key implements [auth.Keys].
func (f *failing) Key(ctx context.Context, id string) (auth.Key, error) {
	if f.read {
		return auth.Key{}, errAway
	}
	return f.Memory.Key(ctx, id)
}

// Keys implements [auth.Keys].
func (f *failing) Keys(ctx context.Context, org, after string, limit int) ([]auth.Key, error) {
	if f.list {
		return nil, errAway
	}
	return f.Memory.Keys(ctx, org, after, limit)
}

// PutKey implements [auth.Keys].
func (f *failing) PutKey(ctx context.Context, k auth.Key) error {
	if f.put {
		return errAway
	}
	return f.Memory.PutKey(ctx, k)
}

// RemoveKey implements [auth.Keys].
func (f *failing) RemoveKey(ctx context.Context, org, id string) error {
	if f.remove {
		return errAway
	}
	return f.Memory.RemoveKey(ctx, org, id)
}

// What cannot be written was not done, and what cannot be read is not taken for absent.
func TestKeyring_reports_a_backend_that_fails(t *testing.T) {
	f := &failing{Memory: &authtest.Memory{}}
	ring, err := auth.NewKeyring(f, pepper, nil)
	if err != nil {
		t.Fatal(err)
	}
	k, _, err := ring.NewAdminKey(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	by := auth.Trusted(haft.Principal{Org: "acme", Roles: []string{haft.RoleAdmin, haft.RoleApprover}})
	name := "x"
	for _, tt := range []struct {
		name string
		with failing
		try  func() error
	}{
		{"Issue", failing{put: true},
			func() error { _, _, err := ring.Issue(t.Context(), by, auth.Key{}); return err }},
		{"Rotate", failing{put: true}, func() error { _, _, err := ring.Rotate(t.Context(), by, k.ID, 0); return err }},
		{"Rotate, read", failing{read: true},
			func() error { _, _, err := ring.Rotate(t.Context(), by, k.ID, 0); return err }},
		{"Set", failing{put: true},
			func() error { _, err := ring.Set(t.Context(), by, k.ID, auth.KeyState{Name: &name}); return err }},
		{"Remove", failing{remove: true}, func() error { return ring.Remove(t.Context(), by, k.ID) }},
		{"Keys", failing{list: true}, func() error {
			for _, err := range ring.Keys(t.Context(), by, "") {
				return err
			}
			return nil
		}},
	} {
		tt.with.Memory = f.Memory
		*f = tt.with
		if err := tt.try(); !errors.Is(err, errAway) {
			t.Errorf("%s: %v, want the error of the backend", tt.name, err)
		}
	}
}

func TestKeyring_is_closed_to_those_without_permission(t *testing.T) {
	w := setup(t)
	user := auth.Trusted(haft.Principal{Org: "acme", User: "ann", Roles: []string{"dev"}})
	wantCode(t, "Remove", w.ring.Remove(t.Context(), user, w.id), haft.CodeDenied)
	_, err := w.ring.Key(t.Context(), user, w.id)
	wantCode(t, "Key", err, haft.CodeDenied)
	for _, err := range w.ring.Keys(t.Context(), user, "") {
		wantCode(t, "Keys", err, haft.CodeDenied)
	}
	if _, err := w.ring.Key(t.Context(), w.admin, w.id); err != nil {
		t.Errorf("the key is gone: %v", err)
	}
	// An id that can be none does not reach the backend.
	away, err := auth.NewKeyring(&failing{read: true}, pepper, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = away.Key(t.Context(), w.admin, "no id")
	wantCode(t, "a key whose id can be none", err, haft.CodeNotFound)
	bad := strings.Repeat("x", 10_000)
	_, err = w.ring.Set(t.Context(), w.admin, w.id, auth.KeyState{Name: &bad})
	wantCode(t, "Set of a name that is too long", err, haft.CodeInvalid)
}

// forgetful cannot remember nonces.
type forgetful struct{}

// Use implements [auth.Nonces].
func (forgetful) Use(context.Context, string, string, time.Time, time.Time) (bool, error) {
	return false, errAway
}

func TestSigned_needs_keys_and_nonces(t *testing.T) {
	w := setup(t)
	f := &failing{Memory: w.kept}
	ring, err := auth.NewKeyring(f, pepper, nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := auth.New(auth.Config{Keyring: ring, Nonces: forgetful{}})
	if err != nil {
		t.Fatal(err)
	}
	for _, read := range []bool{false, true} {
		f.read = read
		scheme, token, _ := strings.Cut(header(w.key, "GET", "/", "", nonce(), time.Now().Unix()), " ")
		_, err := a.Authenticate(t.Context(), auth.Credential{Scheme: scheme, Token: token, Method: "GET", Target: "/"})
		if !errors.Is(err, errAway) || read && haft.CodeOf(err) != haft.CodeUnavailable {
			t.Errorf("keys away: %t: %v, want the error of the backend", read, err)
		}
	}
}

// There is one way to write a signature.
func TestSignature_needs_the_names_of_its_fields(t *testing.T) {
	sum := strings.Repeat("0", 64)
	good := []string{"key=aaaaaaaaaaaa", "time=1700000000", "nonce=" + nonce(), "body=" + sum, "signature=" + sum}
	if _, ok := auth.ReadSignature(strings.Join(good, ",")); !ok {
		t.Fatal("a good signature is not read")
	}
	for i, field := range good {
		bare := slices.Clone(good)
		_, bare[i], _ = strings.Cut(field, "=")
		if _, ok := auth.ReadSignature(strings.Join(bare, ",")); ok {
			t.Errorf("%s is read without its name", field)
		}
	}
}

func TestRecheck_of_credentials_that_are_none(t *testing.T) {
	w := setup(t)
	ring, err := auth.NewKeyring(&failing{read: true}, pepper, nil)
	if err != nil {
		t.Fatal(err)
	}
	away, err := auth.New(auth.Config{Keyring: ring})
	if err != nil {
		t.Fatal(err)
	}
	tokensOnly, err := auth.New(auth.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name       string
		with       *auth.Authenticator
		credential string
		want       haft.Code
	}{
		{"a key without a secret", away, "key:" + w.id, haft.CodeUnauthenticated},
		{"a key whose id can be none", away, "key:x.y", haft.CodeUnauthenticated},
		{"a key where there are none", tokensOnly, w.admin.Principal.Credential, haft.CodeUnauthenticated},
		{"a key that cannot be looked up", away, w.admin.Principal.Credential, haft.CodeUnavailable},
		{"a token without parts", w.Authenticator, "token:x", haft.CodeUnauthenticated},
		{"a token with too many", w.Authenticator, "token:a.b.1.2", haft.CodeUnauthenticated},
	} {
		_, err := tt.with.Recheck(t.Context(), auth.Identity{Principal: haft.Principal{Org: "acme",
			User: w.admin.Principal.User, Credential: tt.credential}})
		wantCode(t, tt.name, err, tt.want)
	}
}

// A claim counts only where the settings name it: without a name, the claim called "" does not.
func TestToken_roles_are_where_the_issuer_says(t *testing.T) {
	for _, tt := range []struct {
		name, at string
		claims   object
		want     []string
	}{
		{"by path", "/realm_access/roles", nil, []string{haft.RoleAdmin}},
		{"not there", "/realm_access/roles", object{"realm_access": object{}}, nil},
		{"below a text", "/realm_access/roles", object{"realm_access": "roles"}, nil},
		{"nowhere", "", object{"": []string{"boss"}}, nil},
	} {
		w := setup(t, newIDP(edJWK("d1")).use(func(i *auth.Issuer) { i.Claims.Roles = tt.at }))
		id, err := w.bearer(t.Context(), mint(object{"alg": "EdDSA", "kid": "d1"}, claims(tt.claims), edKey()))
		if err != nil || !slices.Equal(id.Principal.Roles, tt.want) {
			t.Errorf("%s: roles %q (%v), want %q", tt.name, id.Principal.Roles, err, tt.want)
		}
	}
}

// Keys count only from a whole answer with the status 200.
func TestIssuer_whose_answer_is_not_whole(t *testing.T) {
	keySet := text(object{"keys": []any{edJWK("d1")}})
	for _, tt := range []struct {
		name   string
		status int
		header http.Header
		cut    bool
		want   haft.Code
		cause  string
	}{
		{"good", http.StatusOK, nil, false, "", ""},
		{"another status", http.StatusInternalServerError, nil, false, haft.CodeUnavailable, "answered 500"},
		{"cut", http.StatusOK, nil, true, haft.CodeUnavailable, "unexpected EOF"},
		{"moved", http.StatusFound, http.Header{"Location": {"https://keys.example/new"}}, false, "", ""},
	} {
		at := transport(func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == "/new" {
				return answer{http.StatusOK, nil, keySet}.RoundTrip(r)
			}
			res, err := answer{tt.status, tt.header, keySet}.RoundTrip(r)
			if tt.cut {
				res.Body = io.NopCloser(io.MultiReader(res.Body, iotest.ErrReader(io.ErrUnexpectedEOF)))
			}
			return res, err
		})
		w := setup(t, func(c *auth.Config) {
			newIDP().use(func(i *auth.Issuer) { i.Keys = "https://keys.example/jwks" })(c)
			c.Client = &http.Client{Transport: at}
		})
		_, err := w.bearer(t.Context(), goodToken("d1"))
		wantCode(t, tt.name, err, tt.want)
		if err != nil && !strings.Contains(err.Error(), tt.cause) {
			t.Errorf("%s: the operator is told %v, want %q", tt.name, err, tt.cause)
		}
	}
}

// A body that goes on after its end, as no connection should, does not become the signed one.
func TestBody_stays_refused(t *testing.T) {
	b := auth.CheckBody(io.NopCloser(&resumed{"a", "", "b"}), fmt.Sprintf("%x", sha256.Sum256([]byte("ab"))))
	wantRefused(t, b.Finish(), auth.ReasonBody)
	wantRefused(t, b.Finish(), auth.ReasonBody)
}

// resumed is a reader whose empty texts are ends.
type resumed []string

// Read implements [io.Reader].
func (r *resumed) Read(p []byte) (int, error) {
	if len(*r) == 0 || (*r)[0] == "" {
		*r = (*r)[min(1, len(*r)):]
		return 0, io.EOF
	}
	n := copy(p, (*r)[0])
	*r = (*r)[1:]
	return n, nil
}

func TestRefusal_names_the_key_for_the_operator(t *testing.T) {
	w := setup(t)
	_, err := w.bearer(t.Context(), "haft_"+w.id+"_x")
	if err == nil || strings.Contains(err.Error(), "key )") {
		t.Errorf("without a key: %v", err)
	}
	if got := (auth.Token{}).Reveal(); got != "" {
		t.Errorf("the zero token is %q", got)
	}
	if _, err := w.ring.Set(t.Context(), w.admin, w.id, auth.KeyState{Disabled: new(true)}); err != nil {
		t.Fatal(err)
	}
	_, err = w.bearer(t.Context(), w.key)
	if err == nil || auth.KeyOf(err) != w.id || !strings.Contains(err.Error(), "(key "+w.id+")") {
		t.Errorf("of a disabled key: %v", err)
	}
}
