package auth_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"haft"
	"haft/internal/auth"
	"haft/internal/auth/authtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	pepper = []byte(strings.Repeat("pepper! ", 4))
	home   = netip.MustParseAddr("192.0.2.1")
)

const oneMessage = "the credential is missing or not valid"

// A world has one of everything.
type world struct {
	*auth.Authenticator
	ring  *auth.Keyring
	kept  *authtest.Memory
	admin auth.Identity
	key   string // that of the administrator of acme
	id    string
}

// setup makes a world. The failures that attacks make do not end it.
func setup(t testing.TB, change ...func(*auth.Config)) *world {
	t.Helper()
	w := &world{kept: &authtest.Memory{}}
	var err error
	if w.ring, err = auth.NewKeyring(w.kept, pepper, nil); err != nil {
		t.Fatal(err)
	}
	cfg := auth.Config{Keyring: w.ring, Attempts: auth.Attempts{Failures: 1_000_000}}
	for _, c := range change {
		c(&cfg)
	}
	if w.Authenticator, err = auth.New(cfg); err != nil {
		t.Fatal(err)
	}
	k, token, err := w.ring.NewAdminKey(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	w.key, w.id = token.Reveal(), k.ID
	if w.admin, err = w.bearer(t.Context(), w.key); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) bearer(ctx context.Context, token string) (auth.Identity, error) {
	return w.Authenticate(ctx, auth.Credential{Scheme: "Bearer", Token: token, Source: home})
}

// issue makes a key of acme.
func (w *world) issue(t testing.TB, k auth.Key) (auth.Key, string) {
	t.Helper()
	k, token, err := w.ring.Issue(t.Context(), w.admin, k)
	if err != nil {
		t.Fatal(err)
	}
	return k, token.Reveal()
}

// wantRefused checks the one answer to what is not good.
func wantRefused(t testing.TB, err error, reason auth.Reason) {
	t.Helper()
	if haft.CodeOf(err) != haft.CodeUnauthenticated || haft.MessageOf(err) != oneMessage {
		t.Errorf("got %q %q (%v), want the one refusal", haft.CodeOf(err), haft.MessageOf(err), err)
	}
	if got := auth.ReasonOf(err); got != reason {
		t.Errorf("the operator is told %q, want %q", got, reason)
	}
}

func wantCode(t testing.TB, what string, err error, want haft.Code) {
	t.Helper()
	if got := haft.CodeOf(err); got != want {
		t.Errorf("%s: code %q (%v), want %q", what, got, err, want)
	}
}

func hmac256(key, text string) []byte {
	h := hmac.New(sha256.New, []byte(key))
	h.Write([]byte(text))
	return h.Sum(nil)
}

// header signs as the package comment says, and not with the package.
func header(key, method, target, body, nonce string, at int64) string {
	id := strings.Split(key, "_")[1]
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(body)))
	text := fmt.Sprintf("HAFT-HMAC-SHA256\n%s\n%d\n%s\n%s\n%s\n%s", id, at, nonce, method, target, sum)
	signing := hmac256(key, "haft request signing 1")
	return fmt.Sprintf("HAFT-HMAC-SHA256 key=%s,time=%d,nonce=%s,body=%s,signature=%x", id, at, nonce, sum,
		hmac256(string(signing), text))
}

var nonces atomic.Int64

func nonce() string { return fmt.Sprintf("nonce-%016d", nonces.Add(1)) }

// received returns a request as a server gets it.
func received(method, target, body, authorization string) *http.Request {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Header.Set("Authorization", authorization)
	return r
}

// An idp is an issuer: a handler, and the client that reaches it.
type idp struct {
	mu      sync.Mutex
	pages   map[string]string // by address
	asked   map[string]int
	down    bool
	blocked chan struct{} // answers wait for it, if it is not nil
}

const issuerURL = "https://issuer.example/realm"

var (
	rsaKey = sync.OnceValue(func() *rsa.PrivateKey { k, _ := rsa.GenerateKey(rand.Reader, 2048); return k })
	ecKey  = sync.OnceValue(
		func() *ecdsa.PrivateKey { k, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader); return k })
	edKey = sync.OnceValue(func() ed25519.PrivateKey { _, k, _ := ed25519.GenerateKey(rand.Reader); return k })
)

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// rsaJWK, ecJWK and edJWK are the public keys as an issuer shows them.
func rsaJWK(kid string) map[string]any {
	k := rsaKey()
	return map[string]any{"kty": "RSA", "kid": kid, "use": "sig", "alg": "RS256", "n": b64(k.N.Bytes()),
		"e": b64(big.NewInt(int64(k.E)).Bytes())}
}

func ecJWK(kid string) map[string]any {
	point, _ := ecKey().PublicKey.Bytes()
	return map[string]any{"kty": "EC", "crv": "P-256", "kid": kid, "x": b64(point[1:33]), "y": b64(point[33:])}
}

func edJWK(kid string) map[string]any {
	return map[string]any{"kty": "OKP", "crv": "Ed25519", "kid": kid, "x": b64(edKey().Public().(ed25519.PublicKey))}
}

func text(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	b, _ := json.Marshal(v)
	return string(b)
}

func newIDP(keys ...any) *idp {
	p := &idp{asked: map[string]int{}, pages: map[string]string{
		issuerURL + "/.well-known/openid-configuration": text(
			map[string]any{"issuer": issuerURL, "jwks_uri": "https://keys.example/jwks?v=1"}),
	}}
	if len(keys) == 0 {
		keys = []any{rsaJWK("r1"), ecJWK("e1"), edJWK("d1")}
	}
	p.publish(keys...)
	return p
}

func (p *idp) publish(keys ...any) {
	p.set("https://keys.example/jwks?v=1", text(map[string]any{"keys": keys}))
}

func (p *idp) set(at, page string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pages[at] = page
}

func (p *idp) fetches() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked["https://keys.example/jwks?v=1"]
}

// RoundTrip answers as the issuer's servers do.
func (p *idp) RoundTrip(r *http.Request) (*http.Response, error) {
	p.mu.Lock()
	page, ok := p.pages[r.URL.String()]
	p.asked[r.URL.String()]++
	down, blocked := p.down, p.blocked
	p.mu.Unlock()
	if blocked != nil {
		select {
		case <-blocked:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	res := httptest.NewRecorder()
	to, moved := strings.CutPrefix(page, "redirect ")
	switch {
	case down:
		res.WriteHeader(http.StatusBadGateway)
	case moved:
		res.Header().Set("Location", to)
		res.WriteHeader(http.StatusFound)
	case !ok:
		res.WriteHeader(http.StatusNotFound)
	default:
		fmt.Fprint(res, page)
	}
	out := res.Result()
	out.Request = r
	return out, nil
}

// use is the configuration that believes p.
func (p *idp) use(change ...func(*auth.Issuer)) func(*auth.Config) {
	return func(c *auth.Config) {
		i := auth.Issuer{
			URL: issuerURL, Audience: []string{"haft"}, Org: "acme",
			Claims: auth.Claims{Agent: "agent", Roles: "/realm_access/roles"},
			Roles:  map[string]string{"boss": haft.RoleAdmin, "lead": "approver"},
		}
		for _, ch := range change {
			ch(&i)
		}
		c.Issuers, c.Client = append(c.Issuers, i), &http.Client{Transport: p}
	}
}

// claims returns those of a good token, with changes. Nil removes one.
func claims(change map[string]any) map[string]any {
	now := time.Now().Unix()
	all := map[string]any{"iss": issuerURL, "sub": "ann", "aud": "haft", "exp": now + 600, "iat": now,
		"realm_access": map[string]any{"roles": []string{"boss", "other"}}}
	maps.Copy(all, change)
	maps.DeleteFunc(all, func(_ string, v any) bool { return v == nil })
	return all
}

// mint signs a token with one of our keys, or "none", or with an HMAC of a key.
func mint(header, claims any, with any) string {
	signed := b64([]byte(text(header))) + "." + b64([]byte(text(claims)))
	sum := sha256.Sum256([]byte(signed))
	var sig []byte
	switch k := with.(type) {
	case *rsa.PrivateKey:
		sig, _ = rsa.SignPKCS1v15(nil, k, crypto.SHA256, sum[:])
	case *ecdsa.PrivateKey:
		r, s, _ := ecdsa.Sign(rand.Reader, k, sum[:])
		size := k.Params().BitSize / 8
		sig = append(r.FillBytes(make([]byte, size)), s.FillBytes(make([]byte, size))...)
	case ed25519.PrivateKey:
		sig = ed25519.Sign(k, []byte(signed))
	case []byte:
		sig = hmac256(string(k), signed)
	}
	return signed + "." + b64(sig)
}

type object = map[string]any
