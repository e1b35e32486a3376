package auth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"

	"haft"
)

// The beginnings of [haft.Principal.Credential].
const (
	keyCredential   = "key:"   // key:ID.SECRET, where SECRET distinguishes the secrets of a rotated key
	tokenCredential = "token:" // token:ISSUER.TOKEN.END, with END in seconds since 1970
)

// shortHash returns eight bytes of a hash as text.
func shortHash(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:8])
}

// credentialOf names one secret of a key. The hash of the secret needs the pepper, and
// only eight bytes of a hash of that leave.
func (k Key) credentialOf(p Proof) string {
	return keyCredential + k.ID + "." + shortHash(string(p.Hash))
}

// credential names a verified token. A token without jti is identified by a hash of its
// signature.
func (t token) credential(ends time.Time) string {
	issuer, _ := textOf(t.claims, "iss")
	subject, _ := textOf(t.claims, "sub")
	jti, _ := textOf(t.claims, "jti")
	if jti == "" {
		jti = string(t.sum)
	}
	return tokenCredential + shortHash(issuer) + "." + shortHash(issuer, subject, jti) + "." +
		strconv.FormatInt(ends.Unix(), 10)
}

// withdrawn is the error of a credential that is no longer valid. Unlike [refuse] it says
// why: its holder knows the credential.
func withdrawn(message string) error {
	return &haft.Error{Code: haft.CodeUnauthenticated, Message: message}
}

// Recheck returns the present identity of a credential that was accepted before, without its
// secret: it is for requests, streams and calls that outlive the moment of their
// authentication. id is what [Authenticator.Authenticate] returned, or has only the principal of
// a stored call. The result has the present roles and scope, never more roles than before. The
// caller checks whether the agent of the principal is still the one that KeyAgent names, by name
// or id. The error is [haft.CodeUnauthenticated] and says why if the credential is not valid any
// more, and has any other code if that cannot be checked. A principal without a credential, such
// as the operator at a terminal, is valid.
func (a *Authenticator) Recheck(ctx context.Context, id Identity) (Identity, error) {
	name := id.Principal.Credential
	switch {
	case name == "":
		return id, nil
	case strings.HasPrefix(name, keyCredential):
		return a.recheckKey(ctx, id, name[len(keyCredential):])
	case strings.HasPrefix(name, tokenCredential):
		return a.recheckToken(id, name[len(tokenCredential):])
	}
	return Identity{}, withdrawn("the credential is of a kind that this server does not know")
}

// NewRechecker returns an authenticator that accepts no credentials and only rechecks accepted
// ones: for a program that continues the calls of a server without being one. It checks the
// expiry of tokens, not their issuers.
func NewRechecker(keys Keys) (*Authenticator, error) {
	ring, err := NewKeyring(keys, random(), nil) // no secret is ever held against it
	if err != nil {
		return nil, err
	}
	a, err := New(Config{Keyring: ring})
	if err != nil {
		return nil, err
	}
	a.anyIssuer = true
	return a, nil
}

// recheckKey checks the key that id was made with.
func (a *Authenticator) recheckKey(ctx context.Context, id Identity, name string) (Identity, error) {
	keyID, _, ok := strings.Cut(name, ".")
	if !ok || !isKeyID(keyID) || a.keyring == nil {
		return Identity{}, withdrawn("the API key is not known here")
	}
	k, known, err := a.keyring.find(ctx, keyID)
	if err != nil {
		return Identity{}, err
	}
	now, p := time.Now(), id.Principal
	isPrevious := len(k.Previous.Hash) > 0 && k.credentialOf(k.Previous) == p.Credential
	switch {
	case !known || k.Org != p.Org:
		return Identity{}, withdrawn("the API key was removed")
	case k.Disabled:
		return Identity{}, withdrawn("the API key was disabled")
	case !k.Expires.IsZero() && !now.Before(k.Expires):
		return Identity{}, withdrawn("the API key has expired")
	case k.credentialOf(k.Secret) != p.Credential && !(isPrevious && now.Before(k.Overlap)):
		return Identity{}, withdrawn("the API key was rotated: its old secret is not good any more")
	case k.User != p.User:
		return Identity{}, withdrawn("the API key is for another user now")
	case k.Agent != "" && p.Agent == "":
		return Identity{}, withdrawn("the API key is for an agent now")
	}
	next := k.identity(isPrevious)
	next.Signed, next.Digest = id.Signed, id.Digest
	next.Principal.Agent, next.KeyAgent = p.Agent, k.Agent
	next.Principal.Roles = slices.DeleteFunc(slices.Clone(p.Roles),
		func(r string) bool { return !slices.Contains(k.Roles, r) })
	next.rules = a.rules
	return next, nil
}

// recheckToken checks when a token expires and whether its issuer is still trusted.
func (a *Authenticator) recheckToken(id Identity, name string) (Identity, error) {
	parts := strings.Split(name, ".")
	if len(parts) != 3 {
		return Identity{}, withdrawn("the token is not known here")
	}
	believed := a.anyIssuer
	id.AgentToken = a.anyIssuer
	for url, i := range a.issuers {
		if shortHash(url) == parts[0] {
			believed, id.AgentToken = true, id.AgentToken || i.Claims.Agent != ""
		}
	}
	end, err := strconv.ParseInt(parts[2], 10, 64)
	switch {
	case !believed:
		return Identity{}, withdrawn("the issuer of the token is not believed any more")
	case err != nil || !time.Now().Before(time.Unix(end, 0)):
		return Identity{}, withdrawn("the token has expired")
	}
	id.Ends = time.Unix(end, 0)
	return id, nil
}
