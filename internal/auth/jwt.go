package auth

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/json"
	"github.com/go-jose/go-jose/v4/jwt"
)

// A token is a JWT that was parsed and not verified yet.
type token struct {
	text    string
	alg     Algorithm
	kid     string
	payload []byte
	claims  map[string]any // of payload
	sum     []byte
}

// parseToken reads a JWT in the compact form. It refuses headers that ask for features that are
// not supported (crit, zip, cty, b64, enc). Headers that contain a key, or the address of one,
// are never used.
func parseToken(text string) (token, Reason) {
	var t token
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return t, ReasonMalformed
	}
	var raw [3][]byte
	for i, p := range parts {
		var err error
		if raw[i], err = decode64(p); err != nil {
			return t, ReasonMalformed
		}
	}
	header, err := strictObject(raw[0])
	if err != nil {
		return t, ReasonMalformed
	}
	for _, name := range []string{"crit", "zip", "cty", "b64", "enc"} {
		if _, there := header[name]; there {
			return t, ReasonMalformed
		}
	}
	alg, ok1 := textOf(header, "alg")
	kid, ok2 := textOf(header, "kid")
	typ, ok3 := textOf(header, "typ")
	if !ok1 || !ok2 || !ok3 || len(kid) > maxKeyID {
		return t, ReasonMalformed
	}
	// Issuers sign other things too, which must not be taken for access tokens
	// (RFC 8725, 3.11).
	if kind := strings.TrimPrefix(strings.ToLower(typ), "application/"); kind != "" && kind != "jwt" &&
		kind != "at+jwt" {
		return t, ReasonMalformed
	}
	if !slices.Contains(Algorithms(), Algorithm(alg)) {
		return t, ReasonAlgorithm
	}
	claims, err := strictObject(raw[1])
	if err != nil {
		return t, ReasonMalformed
	}
	return token{text, Algorithm(alg), kid, raw[1], claims, raw[2]}, ""
}

// signedBy reports whether one of keys signed t.
func (t token) signedBy(keys []publicKey) bool {
	signed, err := jose.ParseSignedCompact(t.text, []Algorithm{t.alg})
	if err != nil {
		return false
	}
	return slices.ContainsFunc(keys, func(k publicKey) bool {
		_, err := signed.Verify(k.Key)
		return err == nil
	})
}

// token looks at a token of an issuer.
func (a *Authenticator) token(ctx context.Context, text string) (Identity, error) {
	t, reason := parseToken(text)
	if reason != "" {
		return Identity{}, refuse(reason, "")
	}
	name, _ := textOf(t.claims, "iss")
	i, ok := a.issuers[name]
	if !ok {
		return Identity{}, refuse(ReasonIssuer, "")
	}
	if !slices.Contains(i.Algorithms, t.alg) {
		return Identity{}, refuse(ReasonAlgorithm, "")
	}
	keys, err := i.find(ctx, t.kid, t.alg)
	if err != nil {
		return Identity{}, err
	}
	if len(keys) == 0 {
		return Identity{}, refuse(ReasonSignedBy, "")
	}
	if !t.signedBy(keys) {
		return Identity{}, refuse(ReasonWrong, "")
	}
	expires, reason := i.valid(t.payload, time.Now(), a.skew)
	if reason != "" {
		return Identity{}, refuse(reason, "")
	}
	id, ok := i.identity(t.claims)
	if !ok {
		return Identity{}, refuse(ReasonClaims, "")
	}
	id.Expires, id.Ends = expires, expires
	if !time.Now().Before(expires) {
		id.Ends = expires.Add(a.skew) // it is accepted until then
	}
	id.Principal.Credential = t.credential(id.Ends)
	return id, nil
}

// valid checks the audience and the times of claims.
func (i *issuer) valid(claims []byte, now time.Time, skew time.Duration) (expires time.Time, reason Reason) {
	var c struct {
		Audience  jwt.Audience    `json:"aud"`
		Expires   jwt.NumericDate `json:"exp"`
		NotBefore jwt.NumericDate `json:"nbf"`
		Issued    jwt.NumericDate `json:"iat"`
	}
	if err := json.Unmarshal(claims, &c); errors.Is(err, jwt.ErrUnmarshalAudience) {
		return expires, ReasonAudience
	} else if err != nil {
		return expires, ReasonClaims
	}
	const most = 1e11 // until the year 5138
	if min(c.Expires-1, c.NotBefore, c.Issued) < 0 || max(c.Expires, c.NotBefore, c.Issued) >= most {
		return expires, ReasonClaims
	}
	expires = c.Expires.Time()
	// A nanosecond less, since it has expired once the difference is over.
	err := jwt.Claims{Audience: c.Audience, Expiry: &c.Expires, NotBefore: &c.NotBefore, IssuedAt: &c.Issued}.
		ValidateWithLeeway(jwt.Expected{AnyAudience: i.Audience, Time: now}, skew-1)
	switch {
	case errors.Is(err, jwt.ErrInvalidAudience):
		return expires, ReasonAudience
	case errors.Is(err, jwt.ErrExpired):
		return expires, ReasonExpired
	case err != nil:
		return expires, ReasonEarly
	}
	return expires, ""
}
