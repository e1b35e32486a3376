package auth

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
)

// minPepper is how many bytes a pepper has at least.
const minPepper = 32

// signingLabel makes the signing key of an API key.
const signingLabel = "haft request signing 1"

// vault hashes and seals secrets for storage, under a pepper.
type vault struct {
	hashKey []byte
	seal    cipher.AEAD
	// absent is compared where there is no secret, so that a missing secret takes the same
	// steps. It is the hash of no known text.
	absent Proof
	// step is called with every step that takes time, if it is not nil: a test
	// counts them.
	step func(name string)
}

// newVault returns the vault of a pepper.
func newVault(pepper []byte) (*vault, error) {
	if len(pepper) < minPepper {
		return nil, invalid(fmt.Sprintf("the pepper of API keys has at least %d bytes", minPepper))
	}
	block, err := aes.NewCipher(mac(pepper, "haft key sealing 1"))
	if err != nil {
		return nil, fmt.Errorf("make the cipher of signing keys: %w", err)
	}
	seal, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("make the cipher of signing keys: %w", err)
	}
	v := &vault{hashKey: mac(pepper, "haft key hashing 1"), seal: seal}
	v.absent = Proof{Hash: make([]byte, sha256.Size), Signing: v.seal.Seal(nil, nil, random(), nil)}
	copy(v.absent.Hash, random())
	return v, nil
}

// random returns 32 random bytes.
func random() []byte {
	b := make([]byte, sha256.Size)
	_, _ = rand.Read(b) // never fails
	return b
}

// mac returns HMAC-SHA-256.
func mac(key []byte, message string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(message))
	return h.Sum(nil)
}

// sealContext is the additional data of a sealed signing key. Moved to another row, the
// key does not open.
func sealContext(org, id string) []byte {
	return fmt.Appendf(nil, "haft signing key 1 %d %s %s", len(org), org, id)
}

// proof returns the stored form of a token of that key.
func (v *vault) proof(org, id string, t Token) Proof {
	text := t.Reveal()
	return Proof{
		Hash:    mac(v.hashKey, text),
		Signing: v.seal.Seal(nil, nil, mac([]byte(text), signingLabel), sealContext(org, id)),
	}
}

// matches reports for each of proofs whether it is that of text. What it does does
// not depend on whether.
func (v *vault) matches(text string, proofs [2]Proof) (hit [2]int) {
	v.note("hash")
	sum := mac(v.hashKey, text)
	for i, p := range proofs {
		v.note("compare")
		hit[i] = subtle.ConstantTimeCompare(sum, v.orAbsent(p).Hash)
	}
	return hit
}

// signed reports for each of proofs whether signature is one of text with its
// signing key. What it does does not depend on whether.
func (v *vault) signed(org, id, text string, signature []byte, proofs [2]Proof) (hit [2]int) {
	for i, p := range proofs {
		v.note("open")
		with := v.orAbsent(p)
		ad := sealContext(org, id)
		if len(p.Signing) == 0 {
			ad = nil
		}
		key, err := v.seal.Open(nil, nil, with.Signing, ad)
		ok := 1
		if err != nil {
			// Sealed under another pepper, or not by us: nothing fits it.
			key, ok = random(), 0
		}
		v.note("mac")
		sum := mac(key, text)
		v.note("compare")
		hit[i] = subtle.ConstantTimeCompare(sum, signature) & ok
	}
	return hit
}

// orAbsent returns p, with the absent proof for the parts that p does not have.
func (v *vault) orAbsent(p Proof) Proof {
	if len(p.Hash) != sha256.Size {
		p.Hash = v.absent.Hash
	}
	if len(p.Signing) == 0 {
		p.Signing = v.absent.Signing
	}
	return p
}

func (v *vault) note(step string) {
	if v.step != nil {
		v.step(step)
	}
}
