package auth_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"haft"
	"haft/auth"
)

// Attacks with API keys.
func TestAttack_keys(t *testing.T) {
	w := setup(t)
	yes, soon := true, time.Now().Add(time.Hour)
	_, theirs, err := w.ring.NewAdminKey(t.Context(), "other")
	if err != nil {
		t.Fatal(err)
	}
	disabled, disabledKey := w.issue(t, auth.Key{User: "d"})
	removed, removedKey := w.issue(t, auth.Key{User: "r"})
	rotated, rotatedKey := w.issue(t, auth.Key{User: "o", Expires: soon})
	_, signs := w.issue(t, auth.Key{User: "s", SignedOnly: true})
	if _, err := w.ring.Set(t.Context(), w.admin, disabled.ID, auth.KeyState{Disabled: &yes}); err != nil {
		t.Fatal(err)
	}
	if err := w.ring.Remove(t.Context(), w.admin, removed.ID); err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.ring.Rotate(t.Context(), w.admin, rotated.ID, 0); err != nil {
		t.Fatal(err)
	}
	// A secret of one key under the id of another, with a checksum that fits.
	swapped := resum(w.key[:18] + theirs.Reveal()[18:58])
	// A hash of somebody else's key, copied over by who can write to the store.
	planted, plantedKey := w.issue(t, auth.Key{User: "p"})
	for _, tt := range []struct {
		name, scheme, token string
		want                auth.Reason
	}{
		{"nothing", "", "", auth.ReasonMissing},
		{"no token", "Bearer", "", auth.ReasonMissing},
		{"another scheme", "Basic", w.key, auth.ReasonScheme},
		{"the scheme of signatures", auth.SchemeSigned, w.key, auth.ReasonMalformed},
		{"the id alone", "Bearer", "haft_" + w.id, auth.ReasonMalformed},
		{"upper case", "Bearer", strings.ToUpper(w.key), auth.ReasonScheme},
		{"a space before", "Bearer", " " + w.key, auth.ReasonScheme},
		{"a space behind", "Bearer", w.key + " ", auth.ReasonMalformed},
		{"a line behind", "Bearer", w.key + "\r\nX-Org: other", auth.ReasonMalformed},
		{"a NUL behind", "Bearer", w.key + "\x00", auth.ReasonMalformed},
		{"two keys", "Bearer", w.key + "," + w.key, auth.ReasonMalformed},
		{"a typing error", "Bearer", w.key[:30] + "a" + w.key[31:], auth.ReasonMalformed},
		{"a huge key", "Bearer", "haft_" + strings.Repeat("a", 1<<20), auth.ReasonMalformed},
		{"an id with a wildcard", "Bearer", resum("haft_%%%%%%%%%%%%_" + w.key[18:58]), auth.ReasonMalformed},
		{"an unknown key", "Bearer", resum("haft_aaaaaaaaaaaa_" + w.key[18:58]), auth.ReasonUnknown},
		{"a wrong secret", "Bearer", resum(w.key[:18] + strings.Repeat("a", 40)), auth.ReasonWrong},
		{"a secret of another organisation", "Bearer", swapped, auth.ReasonWrong},
		{"a disabled key", "Bearer", disabledKey, auth.ReasonDisabled},
		{"a removed key", "Bearer", removedKey, auth.ReasonUnknown},
		{"a rotated key", "Bearer", rotatedKey, auth.ReasonWrong},
		{"a key that only signs", "Bearer", signs, auth.ReasonUnsigned},
	} {
		t.Run(tt.name, func(t *testing.T) {
			id, err := w.Authenticate(t.Context(), auth.Credential{Scheme: tt.scheme, Token: tt.token, Source: home})
			wantRefused(t, err, tt.want)
			if diff := cmp.Diff(haft.Principal{}, id.Principal); diff != "" {
				t.Errorf("a principal came with it: %s", diff)
			}
			if strings.Contains(err.Error(), "haft_") {
				t.Errorf("the log would hold the key: %v", err)
			}
		})
	}
	t.Run("a proof in the wrong place", func(t *testing.T) {
		from, _ := w.kept.Key(t.Context(), planted.ID)
		to, _ := w.kept.Key(t.Context(), w.id)
		to.Secret = from.Secret
		if err := w.kept.PutKey(t.Context(), to); err != nil {
			t.Fatal(err)
		}
		_, err := w.bearer(t.Context(), resum(w.key[:18]+plantedKey[18:58]))
		wantRefused(t, err, auth.ReasonWrong)
		forged := strings.Replace(header(plantedKey, "GET", "/", "", nonce(), time.Now().Unix()), planted.ID, w.id, 1)
		_, err = w.Admit(received("GET", "/", "", forged), home)
		wantRefused(t, err, auth.ReasonWrong)
	})
}

// resum gives text the checksum of a key.
func resum(text string) string {
	const letters = "abcdefghijklmnopqrstuvwxyz234567"
	crc := uint64(crc(text)) << 3
	for shift := 30; shift >= 0; shift -= 5 {
		text += string(letters[crc>>shift&31])
	}
	return text
}

// Attacks on signed requests. Each row changes one thing of a good one.
func TestAttack_signatures(t *testing.T) {
	w := setup(t)
	const target, body = "/v1/calls?wait=1&x=%2Fa", `{"tool":"add"}`
	_, other := w.issue(t, auth.Key{User: "o"})
	good := func() *http.Request {
		return received("POST", target, body, header(w.key, "POST", target, body, nonce(), time.Now().Unix()))
	}
	if _, err := w.Admit(good(), home); err != nil {
		t.Fatal(err)
	}
	set := func(r *http.Request, value string) { r.Header.Set("Authorization", value) }
	edit := func(old, by string) func(*http.Request) {
		return func(r *http.Request) {
			was := r.Header.Get("Authorization")
			if !strings.Contains(was, old) {
				t.Errorf("there is no %q to change", old)
			}
			set(r, strings.Replace(was, old, by, 1))
		}
	}
	to := func(target string) func(*http.Request) { return func(r *http.Request) { r.RequestURI = target } }
	now := time.Now().Unix()
	for _, tt := range []struct {
		name   string
		change func(*http.Request)
		want   auth.Reason
	}{
		{"another method", func(r *http.Request) { r.Method = "PUT" }, auth.ReasonWrong},
		{"the method in lower case", func(r *http.Request) { r.Method = "post" }, auth.ReasonMalformed},
		{"another path", to("/v1/tools?wait=1&x=%2Fa"), auth.ReasonWrong},
		{"the path in another case", to("/v1/Calls?wait=1&x=%2Fa"), auth.ReasonWrong},
		{"the path encoded", to("/v1/%63alls?wait=1&x=%2Fa"), auth.ReasonWrong},
		{"a dot in the path", to("/v1/./calls?wait=1&x=%2Fa"), auth.ReasonWrong},
		{"a way around in the path", to("/v1/x/../calls?wait=1&x=%2Fa"), auth.ReasonWrong},
		{"two slashes", to("//v1/calls?wait=1&x=%2Fa"), auth.ReasonWrong},
		{"a slash at the end", to("/v1/calls/?wait=1&x=%2Fa"), auth.ReasonWrong},
		{"the whole address", to("http://example.com" + target), auth.ReasonMalformed},
		{"a line break in the path", to("/v1/calls\n?wait=1&x=%2Fa"), auth.ReasonMalformed},
		{"a fragment", to(target + "#x"), auth.ReasonMalformed},
		{"another query", to("/v1/calls?wait=0&x=%2Fa"), auth.ReasonWrong},
		{"more of a query", to(target + "&org=other"), auth.ReasonWrong},
		{"no query", to("/v1/calls"), auth.ReasonWrong},
		{"the query in another order", to("/v1/calls?x=%2Fa&wait=1"), auth.ReasonWrong},
		{"the query encoded in lower case", to("/v1/calls?wait=1&x=%2fa"), auth.ReasonWrong},
		{"the query decoded", to("/v1/calls?wait=1&x=/a"), auth.ReasonWrong},
		{"a long path", to("/" + strings.Repeat("a", 1<<20)), auth.ReasonMalformed},
		{"another time", edit("time=", "time=1"), auth.ReasonWrong},
		{"a second later", edit(fmt.Sprint("time=", now/10), fmt.Sprint("time=", now/10+1)), auth.ReasonWrong},
		{"a time with a sign", edit("time=", "time=+"), auth.ReasonMalformed},
		{"a time with a 0", edit("time=", "time=0"), auth.ReasonMalformed},
		{"another nonce", edit("nonce=nonce", "nonce=nonse"), auth.ReasonWrong},
		{"a short nonce", func(r *http.Request) { set(r, header(w.key, "POST", target, body, "short", now)) }, auth.ReasonMalformed},
		{"a long nonce", func(r *http.Request) {
			set(r, header(w.key, "POST", target, body, strings.Repeat("n", 65), now))
		}, auth.ReasonMalformed},
		{"a nonce with a line", func(r *http.Request) {
			set(r, header(w.key, "POST", target, body, "aaaaaaaaaaaaaaaa\nGET", now))
		}, auth.ReasonMalformed},
		{"another key", edit(w.id, other[5:17]), auth.ReasonWrong},
		{"an unknown key", edit(w.id, "aaaaaaaaaaaa"), auth.ReasonUnknown},
		{"the digest of another body", edit("body=", "body=0"), auth.ReasonMalformed},
		{"another digest", edit(sum(body), sum("{}")), auth.ReasonWrong},
		{"a digest in upper case", edit(sum(body), strings.ToUpper(sum(body))), auth.ReasonMalformed},
		{"no signature", func(r *http.Request) {
			head, _, _ := strings.Cut(r.Header.Get("Authorization"), ",signature")
			set(r, head)
		}, auth.ReasonMalformed},
		{"an empty signature", func(r *http.Request) {
			head, _, _ := strings.Cut(r.Header.Get("Authorization"), "signature=")
			set(r, head+"signature=")
		}, auth.ReasonMalformed},
		{"half a signature", func(r *http.Request) {
			set(r, strings.TrimSuffix(r.Header.Get("Authorization"), r.Header.Get("Authorization")[len(r.Header.Get("Authorization"))-32:]))
		}, auth.ReasonMalformed},
		{"a signature of zeros", func(r *http.Request) {
			head, _, _ := strings.Cut(r.Header.Get("Authorization"), "signature=")
			set(r, head+"signature="+strings.Repeat("0", 64))
		}, auth.ReasonWrong},
		{"more behind it", func(r *http.Request) { set(r, r.Header.Get("Authorization")+",key=x") }, auth.ReasonMalformed},
		{"the parts in another order", func(r *http.Request) {
			rest := strings.TrimPrefix(r.Header.Get("Authorization"), "HAFT-HMAC-SHA256 ")
			parts := strings.Split(rest, ",")
			parts[0], parts[1] = parts[1], parts[0]
			set(r, "HAFT-HMAC-SHA256 "+strings.Join(parts, ","))
		}, auth.ReasonMalformed},
		{"a space between the parts", edit(",time=", ", time="), auth.ReasonMalformed},
		{"a weaker scheme", edit("HAFT-HMAC-SHA256", "HAFT-HMAC-MD5"), auth.ReasonScheme},
		{"the header twice", func(r *http.Request) {
			r.Header.Add("Authorization", r.Header.Get("Authorization"))
		}, auth.ReasonScheme},
		{"a bearer beside it", func(r *http.Request) { r.Header.Add("authorization", "Bearer "+w.key) }, auth.ReasonScheme},
		{"two in one header", func(r *http.Request) {
			set(r, r.Header.Get("Authorization")+", Bearer "+w.key)
		}, auth.ReasonMalformed},
		{"the key in the address", func(r *http.Request) {
			r.Header.Del("Authorization")
			r.RequestURI += "&access_token=" + w.key
		}, auth.ReasonMissing},
		{"the key in a cookie", func(r *http.Request) {
			r.Header.Del("Authorization")
			r.AddCookie(&http.Cookie{Name: "Authorization", Value: w.key})
		}, auth.ReasonMissing},
		{"signed with the id", func(r *http.Request) {
			set(r, strings.Replace(header("haft_"+w.id+"_", "POST", target, body, nonce(), now), "key=", "key=", 1))
		}, auth.ReasonWrong},
		{"signed an hour ago", func(r *http.Request) { set(r, header(w.key, "POST", target, body, nonce(), now-3600)) }, auth.ReasonClock},
		{"signed for later", func(r *http.Request) { set(r, header(w.key, "POST", target, body, nonce(), now+3600)) }, auth.ReasonClock},
		{"no body", func(r *http.Request) { r.Body = http.NoBody }, auth.ReasonBody},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := good()
			tt.change(r)
			_, err := w.Admit(r, home)
			wantRefused(t, err, tt.want)
		})
	}
}

func sum(body string) string {
	_, rest, _ := strings.Cut(header("haft_x_", "", "", body, "", 0), "body=")
	return rest[:64]
}

func TestAttack_replay(t *testing.T) {
	w := setup(t)
	_, second := w.issue(t, auth.Key{User: "o"})
	n, now := nonce(), time.Now().Unix()
	admit := func(body, authorization string) error {
		r := received("POST", "/", body, authorization)
		if _, err := w.Admit(r, home); err != nil {
			return err
		}
		_, err := io.ReadAll(r.Body)
		return err
	}
	// Somebody without the key cannot use up a nonce.
	wantRefused(t, admit("a", header(second[:5]+w.id+second[17:], "POST", "/", "a", n, now)), auth.ReasonWrong)
	if err := admit("a", header(w.key, "POST", "/", "a", n, now)); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, admit("a", header(w.key, "POST", "/", "a", n, now)), auth.ReasonReplay)
	wantRefused(t, admit("b", header(w.key, "POST", "/", "b", n, now)), auth.ReasonReplay)
	wantRefused(t, admit("a", header(w.key, "POST", "/", "a", n, now+1)), auth.ReasonReplay)
	if err := admit("a", header(second, "POST", "/", "a", n, now)); err != nil {
		t.Errorf("the nonce of another key: %v", err)
	}
	// The body is swapped on the way.
	wantRefused(t, admit("evil", header(w.key, "POST", "/", "good", nonce(), now)), auth.ReasonBody)
	wantRefused(t, admit("good and more", header(w.key, "POST", "/", "good", nonce(), now)), auth.ReasonBody)
	// Requests in another order than they were signed in are good: they are many.
	late, early := header(w.key, "POST", "/", "", nonce(), now+1), header(w.key, "POST", "/", "", nonce(), now)
	for _, h := range []string{late, early} {
		if err := admit("", h); err != nil {
			t.Errorf("out of order: %v", err)
		}
	}
}

// Attacks with tokens. Each row is signed with the key that it would take.
func TestAttack_tokens(t *testing.T) {
	p := newIDP()
	w := setup(t, p.use())
	der, _ := x509.MarshalPKIXPublicKey(&rsaKey().PublicKey)
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	evilRSA, _ := rsa.GenerateKey(rand.Reader, 2048)
	p384, _ := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	_, evilEd, _ := ed25519.GenerateKey(rand.Reader)
	evilJWK := object{"kty": "OKP", "crv": "Ed25519", "x": b64(evilEd.Public().(ed25519.PublicKey))}
	ok, now := object{"alg": "EdDSA", "kid": "d1"}, time.Now().Unix()
	and := func(name string, v any) object { return object{"alg": "EdDSA", "kid": "d1", name: v} }
	raw := text(claims(nil))
	good := mint(ok, raw, edKey())
	if _, err := w.bearer(t.Context(), good); err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(good, ".")
	padded := base64.URLEncoding.EncodeToString([]byte(raw + " "))
	for _, tt := range []struct {
		name  string
		token string
		want  auth.Reason
	}{
		{"alg none", mint(object{"alg": "none"}, raw, nil), auth.ReasonAlgorithm},
		{"alg None", mint(object{"alg": "None", "kid": "r1"}, raw, nil), auth.ReasonAlgorithm},
		{"alg empty", mint(object{"alg": "", "kid": "r1"}, raw, nil), auth.ReasonMalformed},
		{"no alg", mint(object{"kid": "r1"}, raw, nil), auth.ReasonAlgorithm},
		{"alg that is no text", mint(object{"alg": 1}, raw, nil), auth.ReasonMalformed},
		{"no signature", parts[0] + "." + parts[1] + ".", auth.ReasonWrong},
		{"HS256 with the public key as PEM", mint(object{"alg": "HS256", "kid": "r1"}, raw, public), auth.ReasonAlgorithm},
		{"HS256 with the public key as DER", mint(object{"alg": "HS256", "kid": "r1"}, raw, der), auth.ReasonAlgorithm},
		{"HS256 with the modulus", mint(object{"alg": "HS256", "kid": "r1"}, raw, rsaKey().N.Bytes()), auth.ReasonAlgorithm},
		{"HS256 said to be RS256", mint(object{"alg": "RS256", "kid": "r1"}, raw, public), auth.ReasonWrong},
		{"RS512", mint(object{"alg": "RS512", "kid": "r1"}, raw, rsaKey()), auth.ReasonAlgorithm},
		{"PS256", mint(object{"alg": "PS256", "kid": "r1"}, raw, rsaKey()), auth.ReasonAlgorithm},
		{"rs256", mint(object{"alg": "rs256", "kid": "r1"}, raw, rsaKey()), auth.ReasonAlgorithm},
		{"RSA with the id of the EC key", mint(object{"alg": "RS256", "kid": "e1"}, raw, rsaKey()), auth.ReasonSignedBy},
		{"EC with the id of the Ed key", mint(object{"alg": "ES256", "kid": "d1"}, raw, ecKey()), auth.ReasonSignedBy},
		{"a key of one's own", mint(object{"alg": "RS256", "kid": "r1"}, raw, evilRSA), auth.ReasonWrong},
		{"a curve of one's own", mint(object{"alg": "ES256", "kid": "e1"}, raw, p384), auth.ReasonWrong},
		{"a signature of zeros (CVE-2022-21449)", parts0("ES256", "e1", raw) + b64(make([]byte, 64)), auth.ReasonWrong},
		{"a signature in DER", parts0("ES256", "e1", raw) + b64(derSignature(raw)), auth.ReasonWrong},
		{"an embedded key", mint(and("jwk", evilJWK), raw, evilEd), auth.ReasonWrong},
		{"an embedded key alone", mint(object{"alg": "EdDSA", "jwk": evilJWK}, raw, evilEd), auth.ReasonWrong},
		{"an address of keys", mint(and("jku", "https://evil.example/keys"), raw, evilEd), auth.ReasonWrong},
		{"an address of a certificate", mint(and("x5u", "https://evil.example/cert"), raw, evilEd), auth.ReasonWrong},
		{"a certificate", mint(and("x5c", []string{"MIIB"}), raw, evilEd), auth.ReasonWrong},
		{"kid with a path", mint(object{"alg": "EdDSA", "kid": "../../../../dev/null"}, raw, evilEd), auth.ReasonSignedBy},
		{"kid with an address", mint(object{"alg": "EdDSA", "kid": "https://evil.example/keys"}, raw, evilEd), auth.ReasonSignedBy},
		{"kid with SQL", mint(object{"alg": "EdDSA", "kid": "d1' OR '1'='1"}, raw, evilEd), auth.ReasonSignedBy},
		{"kid that is no text", mint(object{"alg": "EdDSA", "kid": []string{"d1"}}, raw, edKey()), auth.ReasonMalformed},
		{"kid empty", mint(object{"alg": "EdDSA", "kid": ""}, raw, edKey()), auth.ReasonMalformed},
		{"kid huge", mint(object{"alg": "EdDSA", "kid": strings.Repeat("d", 257)}, raw, edKey()), auth.ReasonMalformed},
		{"crit", mint(with(and("exp", 1), "crit", []string{"exp"}), raw, edKey()), auth.ReasonMalformed},
		{"crit empty", mint(and("crit", []string{}), raw, edKey()), auth.ReasonMalformed},
		{"b64 false", mint(and("b64", false), raw, edKey()), auth.ReasonMalformed},
		{"zip", mint(and("zip", "DEF"), raw, edKey()), auth.ReasonMalformed},
		{"nested", mint(and("cty", "JWT"), raw, edKey()), auth.ReasonMalformed},
		{"encrypted", good + ".a.b", auth.ReasonMalformed},
		{"a token of another type", mint(and("typ", "logout+jwt"), raw, edKey()), auth.ReasonMalformed},
		{"alg twice", mint(`{"alg":"none","alg":"EdDSA","kid":"d1"}`, raw, edKey()), auth.ReasonMalformed},
		{"alg twice by an escape", mint(`{"alg":"EdDSA","\u0061lg":"none","kid":"d1"}`, raw, edKey()), auth.ReasonMalformed},
		{"ALG", mint(`{"ALG":"EdDSA","kid":"d1"}`, raw, edKey()), auth.ReasonAlgorithm},
		{"sub twice", mint(ok, raw[:len(raw)-1]+`,"sub":"root"}`, edKey()), auth.ReasonMalformed},
		{"roles twice, inside", mint(ok, claims(object{"x": rawJSON(`{"a":1,"a":2}`)}), edKey()), auth.ReasonMalformed},
		{"ISS", mint(ok, strings.Replace(raw, `"iss"`, `"ISS"`, 1), edKey()), auth.ReasonIssuer},
		{"more behind the claims", mint(ok, raw+"{}", edKey()), auth.ReasonMalformed},
		{"claims that are a list", mint(ok, "["+raw+"]", edKey()), auth.ReasonMalformed},
		{"claims that are not UTF-8", mint(ok, raw[:len(raw)-1]+",\"x\":\"\xff\"}", edKey()), auth.ReasonMalformed},
		{"deep claims", mint(ok, claims(object{"x": rawJSON(strings.Repeat("[", 500) + strings.Repeat("]", 500))}), edKey()), auth.ReasonMalformed},
		{"a huge token", mint(ok, claims(object{"x": strings.Repeat("x", 16<<10)}), edKey()), auth.ReasonMalformed},
		{"many dots", strings.Repeat(".", 10_000), auth.ReasonMalformed},
		{"base64 with padding", parts[0] + "." + padded + "." + parts[2], auth.ReasonMalformed},
		{"base64 with a line break", parts[0] + "\n." + parts[1] + "." + parts[2], auth.ReasonMalformed},
		{"a signature with a line break", good + "\n", auth.ReasonMalformed},
		{"a signature with odd bits", good[:len(good)-1] + next(good[len(good)-1]), auth.ReasonMalformed},
		{"claims of another token", parts[0] + "." + strings.Split(mint(ok, claims(object{"sub": "root"}), edKey()), ".")[1] + "." + parts[2], auth.ReasonWrong},
		{"another issuer", mint(ok, claims(object{"iss": "https://evil.example"}), edKey()), auth.ReasonIssuer},
		{"the issuer with a slash", mint(ok, claims(object{"iss": issuerURL + "/"}), edKey()), auth.ReasonIssuer},
		{"the issuer in another case", mint(ok, claims(object{"iss": strings.ToUpper(issuerURL)}), edKey()), auth.ReasonIssuer},
		{"no issuer", mint(ok, claims(object{"iss": nil}), edKey()), auth.ReasonIssuer},
		{"issuers in a list", mint(ok, claims(object{"iss": []string{issuerURL}}), edKey()), auth.ReasonIssuer},
		{"another audience", mint(ok, claims(object{"aud": "other"}), edKey()), auth.ReasonAudience},
		{"an audience that begins alike", mint(ok, claims(object{"aud": "haft.evil"}), edKey()), auth.ReasonAudience},
		{"no audience", mint(ok, claims(object{"aud": nil}), edKey()), auth.ReasonAudience},
		{"an empty audience", mint(ok, claims(object{"aud": []string{}}), edKey()), auth.ReasonAudience},
		{"an audience that is none", mint(ok, claims(object{"aud": []any{"haft", 1}}), edKey()), auth.ReasonAudience},
		{"expired", mint(ok, claims(object{"exp": now - 3600}), edKey()), auth.ReasonExpired},
		{"without an end", mint(ok, claims(object{"exp": nil}), edKey()), auth.ReasonClaims},
		{"the end as text", mint(ok, claims(object{"exp": "9999999999"}), edKey()), auth.ReasonClaims},
		{"the end beyond all numbers", mint(ok, claims(object{"exp": rawJSON("1e400")}), edKey()), auth.ReasonClaims},
		{"a negative end", mint(ok, claims(object{"exp": -1}), edKey()), auth.ReasonClaims},
		{"not valid yet", mint(ok, claims(object{"nbf": now + 3600}), edKey()), auth.ReasonEarly},
		{"issued in the future", mint(ok, claims(object{"iat": now + 3600}), edKey()), auth.ReasonEarly},
		{"nbf that is no time", mint(ok, claims(object{"nbf": "now"}), edKey()), auth.ReasonClaims},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := w.bearer(t.Context(), tt.token)
			wantRefused(t, err, tt.want)
		})
	}
	p.mu.Lock()
	asked := fmt.Sprint(p.asked)
	p.mu.Unlock()
	if strings.Contains(asked, "evil") || strings.Count(asked, "https") != 2 {
		t.Errorf("asked for %v", asked)
	}
	// Another issuer speaks for itself and not for this one.
	p.set("https://keys.example/evil", text(object{"keys": []any{with(evilJWK, "kid", "d1")}}))
	two := setup(t, func(c *auth.Config) {
		p.use()(c)
		c.Issuers = append(c.Issuers, auth.Issuer{URL: "https://evil.example", Audience: []string{"haft"}, Org: "evil", Keys: "https://keys.example/evil"})
	})
	_, err := two.bearer(t.Context(), mint(ok, raw, evilEd))
	wantRefused(t, err, auth.ReasonWrong)
	id, err := two.bearer(t.Context(), mint(ok, claims(object{"iss": "https://evil.example"}), evilEd))
	if err != nil || id.Principal.Org != "evil" || len(id.Principal.Roles) > 0 {
		t.Errorf("the other issuer itself: %+v, %v", id, err)
	}
}

type rawJSON string

func (r rawJSON) MarshalJSON() ([]byte, error) { return []byte(r), nil }

// parts0 returns header and claims with the dot behind them.
func parts0(alg, kid, claims string) string {
	token := mint(object{"alg": alg, "kid": kid}, claims, nil)
	return token[:strings.LastIndex(token, ".")+1]
}

// derSignature signs with the right key in a form that JWTs do not have.
func derSignature(claims string) []byte {
	signed := strings.TrimSuffix(parts0("ES256", "e1", claims), ".")
	sig, _ := ecdsa.SignASN1(rand.Reader, ecKey(), sha(signed))
	return sig
}

// next returns a character of base64 that differs in the last bit, which must be
// 0 at the end of 64 bytes.
func next(c byte) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	return string(letters[strings.IndexByte(letters, c)^1])
}

// A refusal takes the same steps for every key that is not good, and for a good
// one. That these take no longer for one than for another is up to crypto/subtle.
func TestSteps_do_not_depend_on_the_key(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := setup(t)
		yes := true
		_, expired := w.issue(t, auth.Key{User: "e", Expires: time.Now().Add(time.Minute)})
		disabled, disabledKey := w.issue(t, auth.Key{User: "d"})
		rotated, rotatedKey := w.issue(t, auth.Key{User: "r"})
		if _, err := w.ring.Set(t.Context(), w.admin, disabled.ID, auth.KeyState{Disabled: &yes}); err != nil {
			t.Fatal(err)
		}
		if _, _, err := w.ring.Rotate(t.Context(), w.admin, rotated.ID, time.Minute); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		var steps []string
		w.ring.Watch(func(name string) { steps = append(steps, name) })
		for _, kind := range []string{"bearer", "signed"} {
			want := []string{"find", "hash", "compare", "compare"}
			if kind == "signed" {
				want = []string{"find", "open", "mac", "compare", "open", "mac", "compare"}
			}
			for name, key := range map[string]string{
				"good": w.key, "unknown": resum("haft_aaaaaaaaaaaa_" + w.key[18:58]), "wrong": resum(w.key[:18] + strings.Repeat("a", 40)),
				"expired": expired, "disabled": disabledKey, "rotated": rotatedKey,
			} {
				steps = nil
				c := auth.Credential{Scheme: "Bearer", Token: key, Source: home}
				if kind == "signed" {
					c = auth.CredentialOf(received("GET", "/", "", header(key, "GET", "/", "", nonce(), time.Now().Unix())), home)
				}
				_, err := w.Authenticate(t.Context(), c)
				if (err == nil) != (name == "good") {
					t.Errorf("%s, %s: %v", kind, name, err)
				}
				if diff := cmp.Diff(want, steps); diff != "" {
					t.Errorf("the steps of a key that is %s, %s (-want +got):\n%s", name, kind, diff)
				}
			}
		}
	})
}

func TestAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := setup(t, func(c *auth.Config) {
			c.Attempts = auth.Attempts{Failures: 3, Every: 10 * time.Second, Sources: 100}
		})
		try := func(from, key string) error {
			_, err := w.Authenticate(t.Context(), auth.Credential{Scheme: "Bearer", Token: key, Source: netip.MustParseAddr(from)})
			return err
		}
		bad := resum("haft_aaaaaaaaaaaa_" + w.key[18:58])
		for range 1000 {
			if err := try("192.0.2.9", w.key); err != nil {
				t.Fatalf("good keys are counted: %v", err)
			}
		}
		for range 3 {
			wantRefused(t, try("192.0.2.9", bad), auth.ReasonUnknown)
		}
		for _, key := range []string{bad, w.key, "nonsense"} {
			err := try("192.0.2.9", key)
			wantCode(t, "the fourth", err, haft.CodeRateLimited)
			if e, ok := err.(*haft.Error); !ok || e.RetryAfter.D() != 10*time.Second {
				t.Errorf("come back after: %v", err)
			}
		}
		if err := try("192.0.2.10", w.key); err != nil {
			t.Errorf("a neighbour: %v", err)
		}
		wantCode(t, "the same address in IPv6", try("::ffff:192.0.2.9", w.key), haft.CodeRateLimited)
		time.Sleep(10*time.Second - 1)
		wantCode(t, "too early", try("192.0.2.9", w.key), haft.CodeRateLimited)
		time.Sleep(1)
		wantRefused(t, try("192.0.2.9", bad), auth.ReasonUnknown)
		wantCode(t, "one more was given back, and no more", try("192.0.2.9", bad), haft.CodeRateLimited)
		time.Sleep(30 * time.Second)
		for range 3 {
			wantRefused(t, try("192.0.2.9", bad), auth.ReasonUnknown)
		}
		// One network of IPv6 is one source.
		for i := range 3 {
			wantRefused(t, try(fmt.Sprintf("2001:db8::%x", i+1), bad), auth.ReasonUnknown)
		}
		wantCode(t, "the same network", try("2001:db8::ffff:1", w.key), haft.CodeRateLimited)
		if err := try("2001:db8:0:1::1", w.key); err != nil {
			t.Errorf("another network: %v", err)
		}
		for i := range 5000 {
			_ = try(fmt.Sprintf("10.%d.%d.1", i/256, i%256), bad)
		}
		if n := w.Sources(); n != 100 {
			t.Errorf("%d sources are kept, want 100", n)
		}
	})
}
