package auth

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// A token is a JWT that was read and not believed yet.
type token struct {
	alg    Algorithm
	kid    string
	claims map[string]any
	signed string // header and claims as they were sent
	sum    []byte
}

// parseToken reads a JWT in the compact form. It refuses what it does not know:
// every header but alg, kid and typ either asks for something that we do not do
// (crit, zip, cty, b64, enc), or brings along a key or where to find one, and is
// then looked at by nobody.
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
	if kind := strings.TrimPrefix(strings.ToLower(typ), "application/"); kind != "" && kind != "jwt" && kind != "at+jwt" {
		return t, ReasonMalformed
	}
	if !slices.Contains(Algorithms(), Algorithm(alg)) {
		return t, ReasonAlgorithm
	}
	claims, err := strictObject(raw[1])
	if err != nil {
		return t, ReasonMalformed
	}
	return token{Algorithm(alg), kid, claims, parts[0] + "." + parts[1], raw[2]}, ""
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
	if !slices.ContainsFunc(keys, func(k publicKey) bool { return k.verify(t.signed, t.sum) }) {
		return Identity{}, refuse(ReasonWrong, "")
	}
	expires, reason := i.valid(t.claims, time.Now(), a.skew)
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

// valid holds the claims that say for whom and when against now.
func (i *issuer) valid(claims map[string]any, now time.Time, skew time.Duration) (expires time.Time, reason Reason) {
	audience, ok := textsOf(claims["aud"])
	if !ok || !slices.ContainsFunc(audience, func(s string) bool { return slices.Contains(i.Audience, s) }) {
		return expires, ReasonAudience
	}
	expires, ok = dateOf(claims, "exp")
	if !ok || expires.IsZero() {
		return expires, ReasonClaims
	}
	if !now.Before(expires.Add(skew)) {
		return expires, ReasonExpired
	}
	for _, name := range []string{"nbf", "iat"} {
		from, ok := dateOf(claims, name)
		if !ok {
			return expires, ReasonClaims
		}
		if from.After(now.Add(skew)) {
			return expires, ReasonEarly
		}
	}
	return expires, ""
}

// dateOf reads seconds since 1970, which may have a fraction: the zero time if
// they are not there, and not ok if they are something else.
func dateOf(claims map[string]any, name string) (time.Time, bool) {
	v, there := claims[name]
	if !there {
		return time.Time{}, true
	}
	n, ok := v.(json.Number)
	if !ok {
		return time.Time{}, false
	}
	const most = 1e11 // until the year 5138
	f, err := n.Float64()
	if err != nil || !(f >= 0 && f < most) {
		return time.Time{}, false
	}
	return time.UnixMicro(int64(f * 1e6)), true
}
