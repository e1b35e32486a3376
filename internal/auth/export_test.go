package auth

import "fmt"

// Watch calls step with every step that checking a credential takes.
func (r *Keyring) Watch(step func(name string)) { r.vault.step = step }

// Sources returns how many addresses are remembered.
func (a *Authenticator) Sources() int {
	a.failures.mu.Lock()
	defer a.failures.mu.Unlock()
	return len(a.failures.sources)
}

// Kept returns how many nonces are remembered, and of how many keys.
func (m *MemoryNonces) Kept() (total, keys int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.total, len(m.keys)
}

// Hidden names of the package that tests look at.
var (
	StrictObject = strictObject
	ParseKeySet  = parseKeySet
)

// ReadSignature reads a signature and writes it again.
func ReadSignature(text string) (again string, ok bool) {
	s, ok := parseSignature(text)
	if !ok {
		return "", false
	}
	return fmt.Sprintf("key=%s,time=%s,nonce=%s,body=%s,signature=%x", s.key, s.time, s.nonce, s.body, s.sum), true
}

// ReadToken reads a token without believing it.
func ReadToken(text string) (alg Algorithm, kid string, claims map[string]any, reason Reason) {
	t, reason := parseToken(text)
	return t.alg, t.kid, t.claims, reason
}

// The bounds that tests look at.
const (
	FreshFor  = freshFor
	StaleFor  = staleFor
	RetryWait = retryWait
	FirstWait = firstWait
	MaxFetch  = maxFetch
)

// VerifyToken reports whether one of keys signed a token, whatever it claims.
func VerifyToken(text string, keys []publicKey) bool {
	t, reason := parseToken(text)
	return reason == "" && t.signedBy(match(keys, t.kid, t.alg))
}
