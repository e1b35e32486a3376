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
	"strings"
	"sync"
	"testing"
	"time"

	"haft/internal/auth"
)

// The keys of an attacker.
var (
	evilRSA = sync.OnceValue(func() *rsa.PrivateKey { k, _ := rsa.GenerateKey(rand.Reader, 2048); return k })
	evilEd  = sync.OnceValue(func() ed25519.PrivateKey { _, k, _ := ed25519.GenerateKey(rand.Reader); return k })
)

func evilJWK() map[string]any {
	return object{"kty": "OKP", "crv": "Ed25519", "x": b64(evilEd().Public().(ed25519.PublicKey))}
}

// Attacks with the header of a token. Each is signed with the key that it would
// take.
func TestAttack_token_headers(t *testing.T) {
	p := newIDP()
	w := setup(t, p.use())
	der, _ := x509.MarshalPKIXPublicKey(&rsaKey().PublicKey)
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	p384, _ := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	and := func(name string, v any) object { return object{"alg": "EdDSA", "kid": "d1", name: v} }
	raw := text(claims(nil))
	good := goodToken("d1")
	parts := strings.Split(good, ".")
	if _, err := w.bearer(t.Context(), good); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, token string
		want        auth.Reason
	}{
		{"alg none", mint(object{"alg": "none"}, raw, nil), auth.ReasonAlgorithm},
		{"alg None", mint(object{"alg": "None", "kid": "r1"}, raw, nil), auth.ReasonAlgorithm},
		{"alg empty", mint(object{"alg": "", "kid": "r1"}, raw, nil), auth.ReasonMalformed},
		{"no alg", mint(object{"kid": "r1"}, raw, nil), auth.ReasonAlgorithm},
		{"alg that is no text", mint(object{"alg": 1}, raw, nil), auth.ReasonMalformed},
		{"no signature", parts[0] + "." + parts[1] + ".", auth.ReasonWrong},
		{"HS256 with the public key as PEM", mint(object{"alg": "HS256", "kid": "r1"}, raw, public),
			auth.ReasonAlgorithm},
		{"HS256 with the public key as DER", mint(object{"alg": "HS256", "kid": "r1"}, raw, der), auth.ReasonAlgorithm},
		{"HS256 with the modulus", mint(object{"alg": "HS256", "kid": "r1"}, raw, rsaKey().N.Bytes()),
			auth.ReasonAlgorithm},
		{"HS256 said to be RS256", mint(object{"alg": "RS256", "kid": "r1"}, raw, public), auth.ReasonWrong},
		{"RS512", mint(object{"alg": "RS512", "kid": "r1"}, raw, rsaKey()), auth.ReasonAlgorithm},
		{"PS256", mint(object{"alg": "PS256", "kid": "r1"}, raw, rsaKey()), auth.ReasonAlgorithm},
		{"rs256", mint(object{"alg": "rs256", "kid": "r1"}, raw, rsaKey()), auth.ReasonAlgorithm},
		{"RSA with the id of the EC key", mint(object{"alg": "RS256", "kid": "e1"}, raw, rsaKey()),
			auth.ReasonSignedBy},
		{"EC with the id of the Ed key", mint(object{"alg": "ES256", "kid": "d1"}, raw, ecKey()), auth.ReasonSignedBy},
		{"a key of one's own", mint(object{"alg": "RS256", "kid": "r1"}, raw, evilRSA()), auth.ReasonWrong},
		{"a curve of one's own", mint(object{"alg": "ES256", "kid": "e1"}, raw, p384), auth.ReasonWrong},
		{"a signature of zeros (CVE-2022-21449)", parts0("ES256", "e1", raw) + b64(make([]byte, 64)), auth.ReasonWrong},
		{"a signature in DER", parts0("ES256", "e1", raw) + b64(derSignature(raw)), auth.ReasonWrong},
		{"an embedded key", mint(and("jwk", evilJWK()), raw, evilEd()), auth.ReasonWrong},
		{"an embedded key alone", mint(object{"alg": "EdDSA", "jwk": evilJWK()}, raw, evilEd()), auth.ReasonWrong},
		{"an address of keys", mint(and("jku", "https://evil.example/keys"), raw, evilEd()), auth.ReasonWrong},
		{"an address of a certificate", mint(and("x5u", "https://evil.example/cert"), raw, evilEd()), auth.ReasonWrong},
		{"a certificate", mint(and("x5c", []string{"MIIB"}), raw, evilEd()), auth.ReasonWrong},
		{"kid with a path", mint(object{"alg": "EdDSA", "kid": "../../../../dev/null"}, raw, evilEd()),
			auth.ReasonSignedBy},
		{"kid with an address", mint(object{"alg": "EdDSA", "kid": "https://evil.example/keys"}, raw, evilEd()),
			auth.ReasonSignedBy},
		{"kid with SQL", mint(object{"alg": "EdDSA", "kid": "d1' OR '1'='1"}, raw, evilEd()), auth.ReasonSignedBy},
		{"kid that is no text", mint(object{"alg": "EdDSA", "kid": []string{"d1"}}, raw, edKey()),
			auth.ReasonMalformed},
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
		{"alg twice by an escape", mint(`{"alg":"EdDSA","\u0061lg":"none","kid":"d1"}`, raw, edKey()),
			auth.ReasonMalformed},
		{"ALG", mint(`{"ALG":"EdDSA","kid":"d1"}`, raw, edKey()), auth.ReasonAlgorithm},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := w.bearer(t.Context(), tt.token)
			wantRefused(t, err, tt.want)
		})
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if asked := fmt.Sprint(p.asked); strings.Contains(asked, "evil") || len(p.asked) != 2 {
		t.Errorf("asked for %v", asked)
	}
}

// Attacks with the claims of a token and how it is written.
func TestAttack_token_claims(t *testing.T) {
	w := setup(t, newIDP().use())
	ok, now := object{"alg": "EdDSA", "kid": "d1"}, time.Now().Unix()
	raw := text(claims(nil))
	good := mint(ok, raw, edKey())
	parts := strings.Split(good, ".")
	padded := base64.URLEncoding.EncodeToString([]byte(raw + strings.Repeat(" ", 3-len(raw)%3+1)))
	for _, tt := range []struct {
		name, token string
		want        auth.Reason
	}{
		{"sub twice", mint(ok, raw[:len(raw)-1]+`,"sub":"root"}`, edKey()), auth.ReasonMalformed},
		{"roles twice, inside", mint(ok, claims(object{"x": rawJSON(`{"a":1,"a":2}`)}), edKey()), auth.ReasonMalformed},
		{"ISS", mint(ok, strings.Replace(raw, `"iss"`, `"ISS"`, 1), edKey()), auth.ReasonIssuer},
		{"more behind the claims", mint(ok, raw+"{}", edKey()), auth.ReasonMalformed},
		{"claims that are a list", mint(ok, "["+raw+"]", edKey()), auth.ReasonMalformed},
		{"claims that are not UTF-8", mint(ok, raw[:len(raw)-1]+",\"x\":\"\xff\"}", edKey()), auth.ReasonMalformed},
		{"deep claims", mint(ok, claims(object{"x": rawJSON(strings.Repeat("[", 500) + strings.Repeat("]", 500))}),
			edKey()), auth.ReasonMalformed},
		{"a huge token", mint(ok, claims(object{"x": strings.Repeat("x", 16<<10)}), edKey()), auth.ReasonMalformed},
		{"many dots", strings.Repeat(".", 10_000), auth.ReasonMalformed},
		{"base64 with padding", parts[0] + "." + padded + "." + parts[2], auth.ReasonMalformed},
		{"base64 with a line break", parts[0] + "\n." + parts[1] + "." + parts[2], auth.ReasonMalformed},
		{"a signature with a line break", good + "\n", auth.ReasonMalformed},
		{"a signature with odd bits", good[:len(good)-1] + next(good[len(good)-1]), auth.ReasonMalformed},
		{"claims of another token", parts[0] + "." +
			strings.Split(mint(ok, claims(object{"sub": "root"}), edKey()), ".")[1] + "." + parts[2], auth.ReasonWrong},
		{"another issuer", mint(ok, claims(object{"iss": "https://evil.example"}), edKey()), auth.ReasonIssuer},
		{"the issuer with a slash", mint(ok, claims(object{"iss": issuerURL + "/"}), edKey()), auth.ReasonIssuer},
		{"the issuer in another case", mint(ok, claims(object{"iss": strings.ToUpper(issuerURL)}), edKey()),
			auth.ReasonIssuer},
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
}

// Whoever sends a token that nobody signed has little work done for it.
func TestAttack_deep_tokens_cost_little(t *testing.T) {
	w := setup(t, newIDP().use())
	for _, deep := range []string{
		`{"x":` + strings.Repeat("[", 5_900) + strings.Repeat("]", 5_900) + "}",
		strings.Repeat(`{"x":`, 1_900) + "1" + strings.Repeat("}", 1_900),
	} {
		token := mint(object{"alg": "EdDSA", "kid": "d1"}, deep, edKey())
		most := testing.AllocsPerRun(10, func() {
			if _, err := w.bearer(t.Context(), token); err == nil {
				t.Error("it was accepted")
			}
		})
		if most > 200 {
			t.Errorf("%v allocations for a token of %d bytes", most, len(token))
		}
	}
	brackets := claims(object{"x": strings.Repeat("[", 100) + `\"` + strings.Repeat("{", 100)})
	if _, err := w.bearer(t.Context(), mint(object{"alg": "EdDSA", "kid": "d1"}, brackets, edKey())); err != nil {
		t.Errorf("brackets in a text: %v", err)
	}
}

// An issuer speaks for itself and not for another.
func TestAttack_issuer_of_another_organisation(t *testing.T) {
	p := newIDP()
	p.set("https://keys.example/evil", text(object{"keys": []any{with(evilJWK(), "kid", "d1")}}))
	w := setup(t, func(c *auth.Config) {
		p.use()(c)
		c.Issuers = append(c.Issuers, auth.Issuer{URL: "https://evil.example", Audience: []string{"haft"}, Org: "evil",
			Keys: "https://keys.example/evil"})
	})
	ok := object{"alg": "EdDSA", "kid": "d1"}
	_, err := w.bearer(t.Context(), mint(ok, claims(nil), evilEd()))
	wantRefused(t, err, auth.ReasonWrong)
	id, err := w.bearer(t.Context(), mint(ok, claims(object{"iss": "https://evil.example"}), evilEd()))
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

func TestAttack_keys_that_an_issuer_does_not_name(t *testing.T) {
	two := setup(t, newIDP(edJWK("d1"), edJWK("d2")).use())
	_, err := two.bearer(t.Context(), mint(object{"alg": "EdDSA"}, claims(nil), edKey()))
	wantRefused(t, err, auth.ReasonSignedBy)
	only := setup(t, newIDP().use(func(i *auth.Issuer) { i.Algorithms = []auth.Algorithm{auth.RS256} }))
	_, err = only.bearer(t.Context(), goodToken("d1"))
	wantRefused(t, err, auth.ReasonAlgorithm)
	same := setup(t, newIDP(edJWK("d1"), evilWith("d1")).use())
	if _, err := same.bearer(t.Context(), goodToken("d1")); err != nil {
		t.Errorf("one of two keys with the same id: %v", err)
	}
}

func evilWith(kid string) map[string]any { return with(evilJWK(), "kid", kid) }
