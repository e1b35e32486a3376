package auth_test

import (
	"crypto/sha256"
	"encoding/json"
	"hash/crc32"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"haft/internal/auth"
)

func crc(text string) uint32 { return crc32.ChecksumIEEE([]byte(text)) }

func sha(text string) []byte {
	s := sha256.Sum256([]byte(text))
	return s[:]
}

// What is read as a key is one that a scanner sees, written in the one way there is.
func FuzzParseKey(f *testing.F) {
	pattern := regexp.MustCompile(`^` + auth.KeyPattern + `$`)
	good := resum("haft_aaaaaaaaaaaa_" + strings.Repeat("b", 40))
	for _, s := range []string{good, "", "haft_", good[:64], good + "a", strings.ToUpper(good),
		strings.ReplaceAll(good, "b", "é")} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		id, ok := auth.ParseKey(s)
		if !ok {
			return
		}
		if !pattern.MatchString(s) || s[5:17] != id || s != resum(s[:58]) {
			t.Errorf("ParseKey(%q) = %q", s, id)
		}
	})
}

// What is read as a signature reads back as the same text: there is one way to
// write it.
func FuzzSignature(f *testing.F) {
	good := strings.TrimPrefix(header("haft_aaaaaaaaaaaa_x", "GET", "/", "", "0123456789abcdef", 1700000000),
		"HAFT-HMAC-SHA256 ")
	for _, s := range []string{good, "", good + ",", strings.ReplaceAll(good, ",", ", "), strings.ToUpper(good),
		"key=,time=,nonce=,body=,signature="} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if again, ok := auth.ReadSignature(s); ok && again != s {
			t.Errorf("%q reads as %q", s, again)
		}
	})
}

// What is read as a token has a known algorithm and claims that are JSON, and none
// that was not signed by our key is believed.
func FuzzToken(f *testing.F) {
	p := newIDP(edJWK("d1"))
	w := setup(f, p.use())
	good := mint(object{"alg": "EdDSA", "kid": "d1"}, claims(nil), edKey())
	for _, s := range []string{good, "", "..", ".", good + ".", mint(object{"alg": "none"}, claims(nil), nil),
		mint(`{"alg":"EdDSA","alg":"none"}`, claims(nil), edKey())} {
		f.Add(s)
	}
	signed := good[:strings.LastIndex(good, ".")]
	f.Fuzz(func(t *testing.T, s string) {
		alg, _, all, reason := auth.ReadToken(s)
		if reason == "" && (!slices.Contains(auth.Algorithms(), alg) || all == nil) {
			t.Errorf("%q is read as %q with %v", s, alg, all)
		}
		if id, err := w.bearer(t.Context(), s); err == nil &&
			(!strings.HasPrefix(s, signed+".") || id.Principal.Org != "acme") {
			t.Errorf("%q is believed: %+v", s, id)
		}
	})
}

// What is read as an object is one to encoding/json too, with the same names.
func FuzzStrictObject(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":1,"a":2}`, `{"a":{"b":[1,2,{"c":null}]}}`, `{"a":1}x`, `[]`, `{"a":1e400}`,
		"{\"\xff\":1}", `{"\ud800":1}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := auth.StrictObject(raw)
		if err != nil {
			return
		}
		var want map[string]any
		if err := json.Unmarshal(raw, &want); err != nil && !strings.Contains(err.Error(), "cannot unmarshal number") {
			t.Errorf("%q is read, but: %v", raw, err)
		}
		if want != nil && len(want) != len(got) {
			t.Errorf("%q has %d names, want %d", raw, len(got), len(want))
		}
	})
}

// No set of keys breaks the reader.
func FuzzKeySet(f *testing.F) {
	f.Add([]byte(text(object{"keys": []any{rsaJWK("r1"), ecJWK("e1"), edJWK("d1")}})))
	f.Add([]byte(`{"keys":[{"kty":"RSA","n":"","e":""},{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}]}`))
	token := mint(object{"alg": "EdDSA"}, claims(object{"exp": time.Now().Unix()}), edKey())
	f.Fuzz(func(t *testing.T, raw []byte) {
		keys, err := auth.ParseKeySet(raw)
		if err == nil && len(keys) == 0 {
			t.Errorf("%q has no keys and no error", raw)
		}
		auth.VerifyToken(token, keys)
	})
}
