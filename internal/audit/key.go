package audit

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"maps"
	"slices"

	"haft"
)

// KeyID returns the name of a public key: the first 8 bytes of its SHA-256, in
// hexadecimal. It only finds the key; what is trusted is the key itself.
func KeyID(key ed25519.PublicKey) string {
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:8])
}

// A Signer signs checkpoints. It is safe for concurrent use.
type Signer struct {
	id string
	// key is behind a function, because fmt prints what is in a struct, and with
	// the wrong verb also what a pointer in it points to.
	key func() ed25519.PrivateKey
}

// NewKey returns a signer with a fresh key. Keep its PEM where only the server
// can read it.
func NewKey() (*Signer, error) {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, &haft.Error{Code: haft.CodeInternal, Message: "no key for the audit log could be made", Err: err}
	}
	return newSigner(key), nil
}

// ParseSigner returns the signer whose key is in data: an Ed25519 key as PKCS #8
// in PEM, as [Signer.PEM] gives it and "openssl genpkey -algorithm ed25519"
// makes it, or the 32 bytes of its seed.
func ParseSigner(data []byte) (*Signer, error) {
	if len(data) == ed25519.SeedSize {
		return newSigner(ed25519.NewKeyFromSeed(data)), nil
	}
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, invalid("the key of the audit log is neither a PEM block PRIVATE KEY nor a seed of 32 bytes", nil)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, invalid("the key of the audit log is not PKCS #8", err)
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, invalid("the key of the audit log is not an Ed25519 key", nil)
	}
	return newSigner(key), nil
}

func newSigner(key ed25519.PrivateKey) *Signer {
	return &Signer{
		id:  KeyID(key.Public().(ed25519.PublicKey)),
		key: func() ed25519.PrivateKey { return key },
	}
}

// ID returns the id of the key.
func (s *Signer) ID() string { return s.id }

// Public returns the key with which others verify what s signs.
func (s *Signer) Public() ed25519.PublicKey { return s.key().Public().(ed25519.PublicKey) }

// String returns the id of the key, and nothing of the key.
func (s *Signer) String() string { return "audit key " + s.id }

// PEM returns the private key for [ParseSigner]: a secret.
func (s *Signer) PEM() ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(s.key())
	if err != nil {
		return nil, &haft.Error{Code: haft.CodeInternal, Message: "the key of the audit log cannot be written",
			Err: err}
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// Keys are the public keys that are trusted, by [KeyID]. There are several when
// the key was changed: a chain keeps the checkpoints of all of them. A key whose
// private half got lost to others must be taken out, and what it alone vouched
// for is then vouched for by nobody.
type Keys map[string]ed25519.PublicKey

// MakeKeys returns a set of the given keys.
func MakeKeys(keys ...ed25519.PublicKey) Keys {
	set := make(Keys, len(keys))
	for _, key := range keys {
		set[KeyID(key)] = key
	}
	return set
}

// maxKeys bounds a file of keys.
const maxKeys = 1000

// ParseKeys reads public keys from PEM blocks PUBLIC KEY, as [Keys.PEM] gives
// them.
func ParseKeys(data []byte) (Keys, error) {
	set := make(Keys)
	for {
		block, rest := pem.Decode(data)
		if block == nil {
			break
		}
		data = rest
		if block.Type != "PUBLIC KEY" {
			return nil, invalid("a file of audit keys has only PEM blocks PUBLIC KEY", nil)
		}
		parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return nil, invalid("an audit key cannot be read", err)
		}
		key, ok := parsed.(ed25519.PublicKey)
		if !ok {
			return nil, invalid("an audit key is not an Ed25519 key", nil)
		}
		if set[KeyID(key)] = key; len(set) > maxKeys {
			return nil, invalid("there are more than 1,000 audit keys", nil)
		}
	}
	if len(set) == 0 {
		return nil, invalid("there is no audit key: a PEM block PUBLIC KEY is needed", nil)
	}
	return set, nil
}

// PEM returns the keys for [ParseKeys], in the order of their ids.
func (k Keys) PEM() ([]byte, error) {
	var text []byte
	for _, id := range slices.Sorted(maps.Keys(k)) {
		der, err := x509.MarshalPKIXPublicKey(k[id])
		if err != nil {
			return nil, invalid("an audit key cannot be written", err)
		}
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})...)
	}
	return text, nil
}

// find returns the key with the given id. A key that stands under another's id
// is not found.
func (k Keys) find(id string) (ed25519.PublicKey, bool) {
	key, ok := k[id]
	return key, ok && len(key) == ed25519.PublicKeySize && KeyID(key) == id
}

func invalid(message string, cause error) error {
	return &haft.Error{Code: haft.CodeInvalid, Message: message, Err: cause}
}
