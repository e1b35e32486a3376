package auth_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"haft"
	"haft/internal/auth"
)

func TestToken_gives_a_principal(t *testing.T) {
	p := newIDP()
	w := setup(t, p.use())
	for name, token := range map[string]string{
		"RS256": mint(object{"alg": "RS256", "kid": "r1", "typ": "JWT"}, claims(object{"agent": "bot"}),
			rsaKey()),
		"ES256": mint(object{"alg": "ES256", "kid": "e1", "typ": "at+jwt"}, claims(object{"agent": "bot"}),
			ecKey()),
		"EdDSA":  mint(object{"alg": "EdDSA", "kid": "d1"}, claims(object{"agent": "bot"}), edKey()),
		"no kid": mint(object{"alg": "RS256"}, claims(object{"agent": "bot"}), rsaKey()),
		"list of audience": mint(object{"alg": "RS256", "kid": "r1"},
			claims(object{"agent": "bot", "aud": []string{"x", "haft"}}), rsaKey()),
		"fraction": mint(object{"alg": "RS256", "kid": "r1"},
			claims(object{"agent": "bot", "iat": float64(time.Now().Unix()) - 0.5}), rsaKey()),
	} {
		got, err := w.bearer(t.Context(), token)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want := haft.Principal{Org: "acme", User: "ann", Agent: "bot", Roles: []string{haft.RoleAdmin}}
		want.Credential = got.Principal.Credential // see TestRecheck_of_a_token
		if diff := cmp.Diff(want, got.Principal); diff != "" || got.Issuer != issuerURL || got.Key != "" ||
			got.Expires.Before(time.Now()) {
			t.Errorf("%s: identity %+v (-want +got):\n%s", name, got, diff)
		}
		if err := got.May(haft.CallsWrite); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		wantCode(t, name+": an agent keeps keys", got.May(haft.KeysWrite), haft.CodeDenied)
	}
	if n := p.fetches(); n != 1 {
		t.Errorf("the keys were fetched %d times", n)
	}
}

// The examples of RFC 7515, A.2 and A.3, which others signed.
func TestToken_examples_of_the_RFC(t *testing.T) {
	const payload = ".eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ."
	keys, err := auth.ParseKeySet([]byte(`{"keys":[
			{"kty":"RSA","n":"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ","e":"AQAB"},
			{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}`))
	if err != nil || len(keys) != 2 {
		t.Fatalf("the keys: %v, %v", keys, err)
	}
	for _, token := range []string{
		"eyJhbGciOiJSUzI1NiJ9" + payload +
			"cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw",
		"eyJhbGciOiJFUzI1NiJ9" + payload +
			"DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q",
	} {
		if !auth.VerifyToken(token, keys) {
			t.Errorf("%s… is not signed", token[:30])
		}
		if auth.VerifyToken(strings.Replace(token, "b2Ui", "b2Yi", 1), keys) {
			t.Errorf("%s… is signed whatever it says", token[:30])
		}
	}
}

func TestToken_claims(t *testing.T) {
	byClaim := func(i *auth.Issuer) {
		i.Org, i.Orgs, i.Claims.Org = "", []string{"acme", "beta"}, "https://x.example/org"
	}
	open := func(i *auth.Issuer) { i.Org, i.Orgs, i.Claims.Org = "", []string{"*"}, "org" }
	scoped := func(i *auth.Issuer) { i.Claims.Scope = "scope" }
	narrow := func(i *auth.Issuer) { i.Claims.Scope, i.Scope = "scope", []string{"tool:*", "tools:read"} }
	fixed := func(i *auth.Issuer) { i.Scope = []string{"tool:add"} }
	prefix := func(i *auth.Issuer) { i.UserPrefix, i.Claims.User = "corp:", "email" }
	none := func(*auth.Issuer) {}
	boss := []string{haft.RoleAdmin}
	for _, tt := range []struct {
		name   string
		issuer func(*auth.Issuer)
		change object
		want   haft.Principal // of nobody, if it is refused
	}{
		{"roles are mapped once", none, object{"realm_access": object{"roles": []string{"lead", "boss", "lead"}}},
			haft.Principal{Org: "acme", User: "ann", Roles: []string{"approver", "admin"}}},
		{"roles of ours count for nothing", none,
			object{"realm_access": object{"roles": []string{"admin", "approver"}}},
			haft.Principal{Org: "acme", User: "ann"}},
		{"one role", none, object{"realm_access": object{"roles": "boss"}},
			haft.Principal{Org: "acme", User: "ann", Roles: boss}},
		{"no roles", none, object{"realm_access": nil}, haft.Principal{Org: "acme", User: "ann"}},
		{"roles that are none", none, object{"realm_access": object{"roles": []any{"boss", 1}}}, haft.Principal{}},
		{"the organisation of a claim", byClaim, object{"https://x.example/org": "beta"},
			haft.Principal{Org: "beta", User: "ann", Roles: boss}},
		{"another organisation", byClaim, object{"https://x.example/org": "victim"}, haft.Principal{}},
		{"no organisation", byClaim, nil, haft.Principal{}},
		{"the organisation *", byClaim, object{"https://x.example/org": "*"}, haft.Principal{}},
		{"an organisation in a list", byClaim, object{"https://x.example/org": []string{"acme"}}, haft.Principal{}},
		{"any organisation", open, object{"org": "victim"}, haft.Principal{Org: "victim", User: "ann", Roles: boss}},
		{"an empty organisation", open, object{"org": ""}, haft.Principal{}},
		{"an organisation with a line break", open, object{"org": "a\nb"}, haft.Principal{}},
		{"the organisation of a fixed issuer", none, object{"org": "victim"},
			haft.Principal{Org: "acme", User: "ann", Roles: boss}},
		{"no user", none, object{"sub": nil}, haft.Principal{}},
		{"a user that is a number", none, object{"sub": 1}, haft.Principal{}},
		{"a long user", none, object{"sub": strings.Repeat("a", 257)}, haft.Principal{}},
		{"another claim for the user", prefix, object{"email": "ann@x"},
			haft.Principal{Org: "acme", User: "corp:ann@x", Roles: boss}},
		{"an agent that is none", none, object{"agent": 7}, haft.Principal{}},
		{"a scope", scoped, object{"scope": "openid tool:add tools:read nonsense"},
			haft.Principal{Org: "acme", User: "ann", Roles: boss, Scope: []string{"tool:add"},
				Actions: []haft.Action{haft.ToolsRead, haft.CallsWrite}}},
		{"a scope in a list", scoped, object{"scope": []string{"tool:add"}},
			haft.Principal{Org: "acme", User: "ann", Roles: boss, Scope: []string{"tool:add"},
				Actions: []haft.Action{haft.CallsWrite}}},
		{"no scope where there has to be one", scoped, nil,
			haft.Principal{Org: "acme", User: "ann", Roles: boss, Scope: []string{}, Actions: []haft.Action{}}},
		{"a scope that is none", scoped, object{"scope": 1}, haft.Principal{}},
		{"a scope beyond the issuer's", narrow, object{"scope": "tool:add kind:bash admin"},
			haft.Principal{Org: "acme", User: "ann", Roles: boss, Scope: []string{"tool:add"},
				Actions: []haft.Action{haft.CallsWrite}}},
		{"a scope for all tokens", fixed, object{"scope": "admin tool:*"},
			haft.Principal{Org: "acme", User: "ann", Roles: boss, Scope: []string{"tool:add"},
				Actions: []haft.Action{haft.CallsWrite}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := setup(t, newIDP(edJWK("d1")).use(tt.issuer))
			got, err := w.bearer(t.Context(), mint(object{"alg": "EdDSA", "kid": "d1"}, claims(tt.change), edKey()))
			if tt.want.Org == "" {
				wantRefused(t, err, auth.ReasonClaims)
				return
			}
			tt.want.Credential = got.Principal.Credential // see TestRecheck
			if diff := cmp.Diff(tt.want, got.Principal); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
			if tt.want.Scope != nil {
				wantCode(t, "a confined token", got.May(haft.KeysWrite), haft.CodeDenied)
			}
		})
	}
}

func TestNew_refuses_settings_that_believe_too_much(t *testing.T) {
	p := newIDP()
	for name, change := range map[string]func(*auth.Issuer){
		"http":                      func(i *auth.Issuer) { i.URL = "http://issuer.example" },
		"no address":                func(i *auth.Issuer) { i.URL = "" },
		"a user in the address":     func(i *auth.Issuer) { i.URL = "https://a:b@issuer.example" },
		"keys over http":            func(i *auth.Issuer) { i.Keys = "http://issuer.example/keys" },
		"keys in a file":            func(i *auth.Issuer) { i.Keys = "file:///etc/passwd" },
		"no audience":               func(i *auth.Issuer) { i.Audience = nil },
		"an empty audience":         func(i *auth.Issuer) { i.Audience = []string{"haft", ""} },
		"no organisation":           func(i *auth.Issuer) { i.Org = "" },
		"two ways to organisations": func(i *auth.Issuer) { i.Claims.Org, i.Orgs = "org", []string{"a"} },
		"any organisation unsaid":   func(i *auth.Issuer) { i.Org, i.Claims.Org = "", "org" },
		"none":                      func(i *auth.Issuer) { i.Algorithms = []auth.Algorithm{"none"} },
		"HS256":                     func(i *auth.Issuer) { i.Algorithms = []auth.Algorithm{"RS256", "HS256"} },
		"a scope that is none":      func(i *auth.Issuer) { i.Scope = []string{"everything"} },
	} {
		var c auth.Config
		p.use(change)(&c)
		_, err := auth.New(c)
		wantCode(t, name, err, haft.CodeInvalid)
	}
	var twice, noClient auth.Config
	p.use()(&twice)
	p.use()(&twice)
	_, err := auth.New(twice)
	wantCode(t, "an issuer twice", err, haft.CodeInvalid)
	p.use()(&noClient)
	noClient.Client = nil
	_, err = auth.New(noClient)
	wantCode(t, "no client", err, haft.CodeInvalid)
	for _, skew := range []time.Duration{-1, time.Hour} {
		_, err = auth.New(auth.Config{Skew: skew})
		wantCode(t, skew.String(), err, haft.CodeInvalid)
	}
}

func TestNew_zero_refuses_everybody(t *testing.T) {
	w := setup(t)
	a, err := auth.New(auth.Config{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = a.Authenticate(t.Context(), auth.Credential{Scheme: "Bearer", Token: w.key})
	wantRefused(t, err, auth.ReasonScheme)
	_, err = a.Authenticate(t.Context(), auth.Credential{Scheme: "Bearer",
		Token: mint(object{"alg": "none"}, claims(nil), nil)})
	wantRefused(t, err, auth.ReasonScheme)
	_, err = a.Admit(received("GET", "/", "", header(w.key, "GET", "/", "", nonce(), time.Now().Unix())), home)
	wantRefused(t, err, auth.ReasonScheme)
}

// token returns a good one that was signed with a key of that id.
func goodToken(kid string) string {
	return mint(object{"alg": "EdDSA", "kid": kid}, claims(nil), edKey())
}

func TestKeys_of_an_issuer_are_fetched_seldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newIDP(edJWK("d1"))
		w := setup(t, p.use())
		use := func(kid string, want auth.Reason, fetches int) {
			t.Helper()
			_, err := w.bearer(t.Context(), goodToken(kid))
			if auth.ReasonOf(err) != want || (err == nil) != (want == "") {
				t.Errorf("kid %s: %v, want %q", kid, err, want)
			}
			if n := p.fetches(); n != fetches {
				t.Errorf("kid %s: %d fetches, want %d", kid, n, fetches)
			}
		}
		use("d1", "", 1)
		for range 100 { // ids that nobody has do not make us ask
			use("x", auth.ReasonSignedBy, 1)
		}
		p.publish(edJWK("d1"), edJWK("d2"))
		use("d2", auth.ReasonSignedBy, 1)
		time.Sleep(auth.RetryWait)
		use("d2", "", 2)
		use("x", auth.ReasonSignedBy, 2)
		// A key that is withdrawn is good for a while, and not for longer.
		p.publish(edJWK("d2"))
		time.Sleep(auth.FreshFor - time.Second)
		use("d1", "", 2)
		time.Sleep(time.Second)
		use("d1", auth.ReasonSignedBy, 3)
		use("d2", "", 3)
		// Unless the operator says so.
		p.publish(edJWK("d3"))
		use("d2", "", 3)
		if got := w.RefetchKeys(); len(got) != 1 {
			t.Errorf("issuers %q", got)
		}
		use("d2", auth.ReasonSignedBy, 4)
		use("d3", "", 4)
		time.Sleep(auth.RetryWait)
		p.publish(edJWK("d2"))
		use("d2", "", 5)
		// An issuer that is away takes nothing from us for a day.
		p.mu.Lock()
		p.down = true
		p.mu.Unlock()
		time.Sleep(auth.StaleFor - time.Second)
		use("d2", "", 5) // the discovery fails before the keys are asked for
		time.Sleep(time.Second)
		_, err := w.bearer(t.Context(), goodToken("d2"))
		wantCode(t, "keys of yesterday", err, haft.CodeUnavailable)
		p.mu.Lock()
		p.down = false
		p.mu.Unlock()
		time.Sleep(auth.RetryWait)
		use("d2", "", 6)
	})
}

func TestIssuer_that_is_not_to_be_believed(t *testing.T) {
	const config, keys = issuerURL + "/.well-known/openid-configuration", "https://keys.example/jwks?v=1"
	many := make([]any, 65)
	for i := range many {
		many[i] = edJWK("d1")
	}
	for _, tt := range []struct{ name, at, page string }{
		{"says it is another", config, text(object{"issuer": "https://other.example", "jwks_uri": keys})},
		{"says nothing", config, "{}"},
		{"names itself twice", config, `{"issuer":"https://evil.example","issuer":"` + issuerURL + `","jwks_uri":"` +
			keys + `"}`},
		{"names itself twice in two cases", config,
			`{"issuer":"https://evil.example","Issuer":"` + issuerURL + `","jwks_uri":"` + keys + `"}`},
		{"has keys at two addresses in two cases", config,
			`{"issuer":"` + issuerURL + `","jwks_uri":"http://keys.example","JWKS_URI":"` + keys + `"}`},
		{"has keys over http", config, text(object{"issuer": issuerURL, "jwks_uri": "http://keys.example/jwks"})},
		{"has keys at another host over http", config, text(object{"issuer": issuerURL,
			"jwks_uri": "http://keys.example/plain"})},
		{"has keys at an address that cannot be read", config, text(object{"issuer": issuerURL,
			"jwks_uri": "https://keys.example/%zz"})},
		{"has keys in a file", config, text(object{"issuer": issuerURL, "jwks_uri": "file:///etc/passwd"})},
		{"has keys nowhere", config, text(object{"issuer": issuerURL})},
		{"leads away from https", keys, "redirect http://keys.example/plain"},
		{"leads away from https and back", keys, "redirect http://keys.example/back"},
		{"leads around in a circle", keys, "redirect " + keys},
		{"has a huge set of keys", keys, `{"keys":[` + text(edJWK("d1")) + `],"x":"` +
			strings.Repeat("x", auth.MaxFetch) + `"}`},
		{"has a set of keys with much space after it", keys, text(object{"keys": []any{edJWK("d1")}}) +
			strings.Repeat(" ", auth.MaxFetch)},
		{"has a set with a text among the keys", keys, text(object{"keys": []any{"d1", edJWK("d1")}})},
		{"has many keys", keys, text(object{"keys": many})},
		{"has deep keys", keys, `{"keys":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `}`},
		{"has no set of keys", keys, text([]any{edJWK("d1")})},
		{"has keys twice", keys, `{"keys":[],"keys":[` + text(edJWK("d1")) + `]}`},
		{"has two sets", keys, text(object{"keys": []any{edJWK("d1")}}) + "{}"},
		{"has a shared secret for a key", keys,
			text(object{"keys": []any{object{"kty": "oct", "kid": "d1", "k": "AAAA"}}})},
		{"shows a private key", keys, text(object{"keys": []any{with(edJWK("d1"), "d", "AAAA")}})},
		{"has a key for encryption", keys, text(object{"keys": []any{with(edJWK("d1"), "use", "enc")}})},
		{"has a key that signs only", keys,
			text(object{"keys": []any{with(edJWK("d1"), "key_ops", []string{"sign"})}})},
		{"has a key for another algorithm", keys, text(object{"keys": []any{with(edJWK("d1"), "alg", "HS256")}})},
		{"has a key of another curve", keys, text(object{"keys": []any{with(edJWK("d1"), "crv", "X25519")}})},
		{"has a small RSA key", keys,
			text(object{"keys": []any{with(rsaJWK("d1"), "n", b64([]byte(strings.Repeat("\xff", 255))))}})},
		{"has an RSA key with the exponent 1", keys, text(object{"keys": []any{with(rsaJWK("d1"), "e", "AQ")}})},
		{"has an RSA key with an even exponent", keys, text(object{"keys": []any{with(rsaJWK("d1"), "e", "BA")}})},
		{"has an RSA key with a huge exponent", keys, text(object{"keys": []any{with(rsaJWK("d1"), "e", "AQAAAAAB")}})},
		{"has an RSA key with an even modulus", keys,
			text(object{"keys": []any{with(rsaJWK("d1"), "n", b64([]byte(strings.Repeat("\xfe", 256))))}})},
		{"has a giant RSA key", keys,
			text(object{"keys": []any{with(rsaJWK("d1"), "n", b64([]byte(strings.Repeat("\xff", 1025))))}})},
		{"has a point off the curve", keys, text(object{"keys": []any{with(ecJWK("d1"), "y", b64(make([]byte, 32)))}})},
		{"has a short point", keys, text(object{"keys": []any{with(ecJWK("d1"), "y", "AAAA")}})},
		{"has an odd key id", keys, text(object{"keys": []any{with(edJWK("d1"), "kid", 1)}})},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newIDP(edJWK("d1"))
			for _, at := range []string{"http://keys.example/plain", "https://evil.example/keys"} {
				p.set(at, text(object{"keys": []any{edJWK("d1")}}))
			}
			p.set("http://keys.example/back", "redirect https://evil.example/keys") // says who sits on the line
			w := setup(t, p.use())
			good := setup(t, newIDP(edJWK("d1")).use())
			p.set(tt.at, tt.page)
			_, err := w.bearer(t.Context(), goodToken("d1"))
			wantCode(t, "its token", err, haft.CodeUnavailable)
			if _, err := good.bearer(t.Context(), goodToken("d1")); err != nil {
				t.Errorf("the same token of an honest one: %v", err)
			}
		})
	}
}

func with(m map[string]any, name string, v any) map[string]any {
	m[name] = v
	return m
}

func TestIssuer_that_does_not_answer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newIDP(edJWK("d1"))
		p.blocked = make(chan struct{})
		w := setup(t, p.use())
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				_, err := w.bearer(t.Context(), goodToken("d1"))
				wantCode(t, "a token while nobody answers", err, haft.CodeUnavailable)
			})
		}
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		all.Go(func() {
			began := time.Now()
			_, err := w.bearer(impatient, goodToken("d1"))
			wantCode(t, "a caller that left", err, haft.CodeUnavailable)
			if time.Since(began) > 10*time.Second {
				t.Errorf("a caller waited for %v", time.Since(began))
			}
		})
		all.Wait()
		close(p.blocked)
		time.Sleep(auth.FirstWait)
		if _, err := w.bearer(t.Context(), goodToken("d1")); err != nil {
			t.Errorf("after it answers again: %v", err)
		}
		// Once there are keys nobody waits for new ones.
		p.mu.Lock()
		p.blocked = make(chan struct{})
		p.mu.Unlock()
		time.Sleep(auth.FreshFor)
		slow := make(chan struct{})
		all.Go(func() {
			defer close(slow)
			if _, err := w.bearer(t.Context(), goodToken("d1")); err != nil {
				t.Errorf("who asks for new keys: %v", err)
			}
		})
		synctest.Wait()
		began := time.Now()
		if _, err := w.bearer(t.Context(), goodToken("d1")); err != nil || time.Since(began) > 0 {
			t.Errorf("who does not: %v after %v", err, time.Since(began))
		}
		<-slow
	})
}

// answer is a transport that answers every request alike.
type answer struct {
	status int
	header http.Header
	body   string
}

func (a answer) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: a.status, Header: a.header, Body: io.NopCloser(strings.NewReader(a.body)),
		Request: r}, nil
}

// What an issuer answers may hold anything, and does not get into the log.
func TestIssuer_whose_answer_is_not_quoted(t *testing.T) {
	const secret = "hunter2"
	at := http.Header{"Location": {"https://issuer.example/hunter2"}}
	for _, a := range []answer{
		{http.StatusOK, nil, secret}, {http.StatusOK, nil, `{"issuer":"` + secret + `"}`},
		{http.StatusOK, nil, `{"issuer":["` + secret + `"]}`},
		{http.StatusOK, nil, `{"hunter2":1,"hunter2":2}`}, {http.StatusForbidden, nil, secret},
		{http.StatusCreated, nil, secret},
		{http.StatusOK, http.Header{"Content-Type": {"text/hunter2"}}, `{"issuer":1}`},
		{http.StatusFound, at, ""}, {http.StatusFound, http.Header{"Location": {"http://issuer.example/?hunter2"}}, ""},
		{http.StatusFound, http.Header{"Location": {"https://[hunter2"}}, ""},
		{http.StatusFound, nil, secret}, {http.StatusNotModified, at, secret}, {http.StatusMultipleChoices, at, secret},
	} {
		p := newIDP()
		w := setup(t, func(c *auth.Config) {
			p.use()(c)
			c.Client = &http.Client{Transport: a}
		})
		_, err := w.bearer(t.Context(), goodToken("d1"))
		wantCode(t, "its token", err, haft.CodeUnavailable)
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%d %s: the error quotes it: %v", a.status, a.body, err)
		}
	}
}

// endless is a body that does not end, of which only so much may be read.
type endless struct{ left int }

func (e *endless) Read(p []byte) (int, error) {
	if e.left -= len(p); e.left < 0 {
		return 0, errors.New("too much was read")
	}
	return copy(p, strings.Repeat(" ", len(p))), nil
}

func (*endless) Close() error { return nil }

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A client that does not follow redirects, such as that of haft serve, hands out the
// redirect itself: its body is no document, and is not read.
func TestIssuer_that_redirects_a_client_that_stays(t *testing.T) {
	at := http.Header{"Location": {"https://elsewhere.example/"}}
	document := text(object{"issuer": issuerURL, "jwks_uri": "https://keys.example/jwks?v=1"})
	keySet := text(object{"keys": []any{edJWK("d1")}})
	for _, part := range []string{"configuration", "jwks"} {
		for _, isEndless := range []bool{false, true} {
			body := &endless{4 * auth.MaxFetch}
			serve := transport(func(r *http.Request) (*http.Response, error) {
				page := keySet
				if strings.Contains(r.URL.Path, "configuration") {
					page = document
				}
				res, err := answer{http.StatusOK, nil, page}.RoundTrip(r)
				if strings.Contains(r.URL.Path, part) {
					res.StatusCode, res.Header = http.StatusFound, at
					if isEndless {
						res.Body = body
					}
				}
				return res, err
			})
			w := setup(t, func(c *auth.Config) {
				newIDP().use()(c)
				c.Client = &http.Client{Transport: serve,
					CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
			})
			_, err := w.bearer(t.Context(), goodToken("d1"))
			wantCode(t, "a redirect of "+part, err, haft.CodeUnavailable)
			if body.left < 0 || err != nil && strings.Contains(err.Error(), "jwks_uri") {
				t.Errorf("a redirect of %s: its body was read: %v", part, err)
			}
		}
	}
}

func TestIssuer_with_a_given_address_of_keys(t *testing.T) {
	p := newIDP()
	p.set("https://issuer.example/given", text(object{"keys": []any{edJWK("d1")}}))
	w := setup(t, p.use(func(i *auth.Issuer) { i.Keys = "https://issuer.example/given" }))
	if _, err := w.bearer(t.Context(), goodToken("d1")); err != nil {
		t.Error(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.asked) != 1 {
		t.Errorf("asked for %v", p.asked)
	}
}

var _ http.RoundTripper = (*idp)(nil)
