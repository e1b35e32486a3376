package auth

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/json"
)

// An Algorithm is how a token is signed.
type Algorithm = jose.SignatureAlgorithm

// The algorithms. There is none with a shared secret: a public key would be taken
// for one.
const (
	RS256 = jose.RS256
	ES256 = jose.ES256
	EdDSA = jose.EdDSA
)

// Algorithms lists every algorithm.
func Algorithms() []Algorithm { return []Algorithm{RS256, ES256, EdDSA} }

// The bounds of a set of keys. The library refuses RSA keys above 4096 bits.
const (
	maxKeys  = 64
	maxKeyID = 256
	minRSA   = 2048
)

// A publicKey verifies signatures of an issuer. It is used for one algorithm, which its own
// type decides and never the token.
type publicKey struct {
	jose.JSONWebKey
	alg Algorithm
}

// parseKeySet reads a JWKS. Keys of other types are skipped; a set that cannot be read is an
// error.
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

// parseKey reads a JWK that signatures can be checked with. The library is given what
// makes a public key, and so has no certificate to judge.
func parseKey(entry map[string]any) (publicKey, bool) {
	var k publicKey
	if _, private := entry["d"]; private {
		return k, false // everybody can sign with it
	}
	if ops, there := entry["key_ops"]; there {
		if list, ok := textsOf(ops); !ok || !slices.Contains(list, "verify") {
			return k, false
		}
	}
	public := make(map[string]any)
	for _, name := range []string{"kty", "use", "alg", "kid", "crv", "x", "y", "n", "e"} {
		if v, there := entry[name]; there {
			public[name] = v
		}
	}
	text, err := json.Marshal(public)
	if err != nil || k.UnmarshalJSON(text) != nil {
		return k, false
	}
	k.alg = algorithmOf(k.Key)
	return k, k.alg != "" && (k.Algorithm == "" || k.Algorithm == string(k.alg)) &&
		(k.Use == "" || k.Use == "sig") && len(k.KeyID) <= maxKeyID
}

// algorithmOf returns the one algorithm that a public key is used with, or "" if it is
// none for us.
func algorithmOf(key any) Algorithm {
	switch key := key.(type) {
	case *rsa.PublicKey:
		// crypto/rsa refuses even numbers and larger exponents, but only with a token: a
		// set of such keys must not replace good ones.
		if key.N.BitLen() >= minRSA && key.N.Bit(0) == 1 && key.E > 2 && key.E <= math.MaxInt32 && key.E%2 == 1 {
			return RS256
		}
	case *ecdsa.PublicKey:
		if key.Curve == elliptic.P256() {
			return ES256
		}
	case ed25519.PublicKey:
		return EdDSA
	}
	return ""
}
