package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// An Algorithm is how a token is signed.
type Algorithm string

// The algorithms. There is none with a shared secret: a public key would be taken
// for one.
const (
	RS256 Algorithm = "RS256"
	ES256 Algorithm = "ES256"
	EdDSA Algorithm = "EdDSA"
)

// Algorithms lists every algorithm.
func Algorithms() []Algorithm { return []Algorithm{RS256, ES256, EdDSA} }

// The bounds of a set of keys.
const (
	maxKeys   = 64
	maxKeyID  = 256
	minRSA    = 2048
	maxRSA    = 8192 // a larger one takes long to use
	p256Bytes = 32
)

// decode64 reads base64url in its one canonical form. The decoder itself passes
// over line breaks even if it is strict.
func decode64(s string) ([]byte, error) {
	if strings.ContainsAny(s, "\r\n") {
		return nil, errors.New("a line break in base64")
	}
	return base64.RawURLEncoding.Strict().DecodeString(s)
}

// A publicKey is one that an issuer signs with. It is good for one algorithm, by
// its own kind and never by what a token says.
type publicKey struct {
	id  string
	alg Algorithm
	key crypto.PublicKey
}

// parseKeySet reads a JWKS. Keys that we have no use for are passed over, but not
// a set that cannot be read.
func parseKeySet(raw []byte) ([]publicKey, error) {
	object, err := strictObject(raw)
	if err != nil {
		return nil, fmt.Errorf("read a set of keys: %w", err)
	}
	list, ok := object["keys"].([]any)
	if !ok {
		return nil, errors.New("a set of keys has no keys")
	}
	if len(list) > maxKeys {
		return nil, fmt.Errorf("a set of keys has %d, %d is the most", len(list), maxKeys)
	}
	var keys []publicKey
	for _, v := range list {
		entry, ok := v.(map[string]any)
		if !ok {
			return nil, errors.New("a set of keys holds something else")
		}
		if k, ok := parseKey(entry); ok {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("a set of keys has none that can be used")
	}
	return keys, nil
}

// parseKey reads a JWK that signatures can be checked with.
func parseKey(entry map[string]any) (publicKey, bool) {
	var k publicKey
	var ok [4]bool
	var kty, use, alg string
	kty, ok[0] = textOf(entry, "kty")
	use, ok[1] = textOf(entry, "use")
	alg, ok[2] = textOf(entry, "alg")
	k.id, ok[3] = textOf(entry, "kid")
	if slices.Contains(ok[:], false) || use != "" && use != "sig" || len(k.id) > maxKeyID {
		return k, false
	}
	if _, private := entry["d"]; private {
		return k, false // everybody can sign with it
	}
	if ops, there := entry["key_ops"]; there {
		if list, ok := textsOf(ops); !ok || !slices.Contains(list, "verify") {
			return k, false
		}
	}
	switch kty {
	case "RSA":
		k.alg, k.key = RS256, rsaKey(entry)
	case "EC":
		k.alg, k.key = ES256, p256Key(entry)
	case "OKP":
		k.alg, k.key = EdDSA, edKey(entry)
	}
	return k, k.key != nil && (alg == "" || alg == string(k.alg))
}

// field returns the bytes of a part of a JWK, or nil.
func field(entry map[string]any, name string) []byte {
	text, ok := textOf(entry, name)
	if !ok || len(text) > maxRSA/4 {
		return nil
	}
	raw, err := decode64(text)
	if err != nil {
		return nil
	}
	return raw
}

func rsaKey(entry map[string]any) crypto.PublicKey {
	n, e := new(big.Int).SetBytes(field(entry, "n")), new(big.Int).SetBytes(field(entry, "e"))
	if n.BitLen() < minRSA || n.BitLen() > maxRSA || n.Bit(0) == 0 || e.BitLen() < 2 || e.BitLen() > 31 || e.Bit(0) == 0 {
		return nil
	}
	return &rsa.PublicKey{N: n, E: int(e.Int64())}
}

func p256Key(entry map[string]any) crypto.PublicKey {
	x, y := field(entry, "x"), field(entry, "y")
	if entry["crv"] != "P-256" || len(x) != p256Bytes || len(y) != p256Bytes {
		return nil
	}
	// It refuses points that are not on the curve.
	key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), slices.Concat([]byte{4}, x, y))
	if err != nil {
		return nil
	}
	return key
}

func edKey(entry map[string]any) crypto.PublicKey {
	x := field(entry, "x")
	if entry["crv"] != "Ed25519" || len(x) != ed25519.PublicKeySize {
		return nil
	}
	return ed25519.PublicKey(x)
}

// verify reports whether signature is one of text with k.
func (k publicKey) verify(text string, signature []byte) bool {
	sum := sha256.Sum256([]byte(text))
	switch key := k.key.(type) {
	case *rsa.PublicKey:
		return rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], signature) == nil
	case *ecdsa.PublicKey:
		if len(signature) != 2*p256Bytes {
			return false
		}
		r, s := new(big.Int).SetBytes(signature[:p256Bytes]), new(big.Int).SetBytes(signature[p256Bytes:])
		return ecdsa.Verify(key, sum[:], r, s)
	case ed25519.PublicKey:
		return ed25519.Verify(key, []byte(text), signature)
	}
	return false
}
