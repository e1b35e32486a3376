package audit_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"haft"
	"haft/internal/audit"
)

// Ed25519 signatures are deterministic, so what is signed can be pinned too.
func TestSigner_Sign_is_pinned(t *testing.T) {
	s := signer(t, 7)
	c := s.Sign(audit.Genesis("acme"), day)
	got := s.ID() + " " + hex.EncodeToString(c.Signature)
	if got != goldenSignature {
		t.Errorf("key and signature = %s, want %s", got, goldenSignature)
	}
	if again := s.Sign(audit.Head{Org: "acme"}, day); again.Hash != c.Hash {
		t.Errorf("a head without a hash is signed as %s, want that of the beginning", again.Hash)
	}
}

func TestSigner_PEM_gives_the_same_key_again(t *testing.T) {
	a, err := audit.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	text, err := a.PEM()
	if err != nil {
		t.Fatal(err)
	}
	b, err := audit.ParseSigner(text)
	if err != nil {
		t.Fatal(err)
	}
	if a.ID() != b.ID() || !a.Public().Equal(b.Public()) {
		t.Errorf("key %s came back as %s", a.ID(), b.ID())
	}
	if other, err := audit.NewKey(); err != nil || other.ID() == a.ID() {
		t.Errorf("a second key has the id %s of the first (%v)", a.ID(), err)
	}
}

func TestSigner_is_not_printed(t *testing.T) {
	s := signer(t, 'k')
	text, err := s.PEM()
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	holder := struct{ s *audit.Signer }{s}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		for _, v := range []any{s, *s, holder} {
			got := fmt.Sprintf(verb, v)
			for _, secret := range []string{"kkkk", "6b6b6b", "107, 107", "107 107", "0x6b, 0x6b",
				base64.StdEncoding.EncodeToString(block.Bytes)} {
				if strings.Contains(got, secret) {
					t.Errorf("%s of %T prints the key: %s", verb, v, got)
				}
			}
		}
	}
}

func TestParseSigner_refuses(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"nothing":           nil,
		"text":              []byte("a password"),
		"a seed too long":   bytes.Repeat([]byte{1}, 33),
		"another block":     pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		"a damaged block":   pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der[:20]}),
		"a key of P-256":    pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
		"a public key only": mustPEM(t, audit.MakeKeys(signer(t, 1).Public())),
	} {
		t.Run(name, func(t *testing.T) {
			if s, err := audit.ParseSigner(data); haft.CodeOf(err) != haft.CodeInvalid {
				t.Errorf("ParseSigner = %v, %v, want %s", s, err, haft.CodeInvalid)
			}
		})
	}
}

func mustPEM(t testing.TB, k audit.Keys) []byte {
	t.Helper()
	text, err := k.PEM()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestKeys_PEM_gives_the_same_keys_again(t *testing.T) {
	want := audit.MakeKeys(signer(t, 1).Public(), signer(t, 2).Public(), signer(t, 3).Public())
	got, err := audit.ParseKeys(mustPEM(t, want))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
}

func TestParseKeys_refuses(t *testing.T) {
	private, err := signer(t, 1).PEM()
	if err != nil {
		t.Fatal(err)
	}
	good := mustPEM(t, audit.MakeKeys(signer(t, 1).Public()))
	for name, data := range map[string][]byte{
		"nothing":                    nil,
		"text":                       []byte("keys"),
		"a private key":              private,
		"a private key after others": append(bytes.Clone(good), private...),
		"a damaged key":              pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: []byte("x")}),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := audit.ParseKeys(data); haft.CodeOf(err) != haft.CodeInvalid {
				t.Errorf("ParseKeys = %v, want %s", err, haft.CodeInvalid)
			}
		})
	}
}

func TestVerify_does_not_find_a_key_under_another_id(t *testing.T) {
	s, c := signer(t, 1), chain("acme", 1)
	keys := audit.Keys{signer(t, 2).ID(): s.Public(), s.ID(): signer(t, 2).Public(), "": nil}
	report, err := audit.Verify(each(c), []audit.Checkpoint{s.Sign(c[0].Head(), day), {Org: "acme", Seq: 1}}, keys,
		audit.Head{Org: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	want := []audit.Problem{{Kind: audit.UnknownKey, Seq: 1}, {Kind: audit.UnknownKey, Seq: 1}}
	if diff := cmp.Diff(want, report.Problems); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func FuzzParseKeys(f *testing.F) {
	private, err := signer(f, 1).PEM()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(private)
	f.Add(mustPEM(f, audit.MakeKeys(signer(f, 1).Public(), signer(f, 2).Public())))
	f.Fuzz(func(t *testing.T, data []byte) {
		if s, err := audit.ParseSigner(data); err == nil && s.ID() != audit.KeyID(s.Public()) {
			t.Errorf("key %s is called %s", audit.KeyID(s.Public()), s.ID())
		}
		keys, err := audit.ParseKeys(data)
		if err != nil {
			return
		}
		for id, key := range keys {
			if audit.KeyID(key) != id {
				t.Errorf("key %s is called %s", audit.KeyID(key), id)
			}
		}
	})
}
