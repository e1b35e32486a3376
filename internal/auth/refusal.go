package auth

import (
	"errors"

	"haft"
)

// A Reason is why a credential was refused: for the operator, never for the
// caller.
type Reason string

// The reasons.
const (
	ReasonMissing   Reason = "no credential"
	ReasonMalformed Reason = "not a credential"
	ReasonScheme    Reason = "a kind of credential that is not in use"
	ReasonUnknown   Reason = "unknown key"
	ReasonWrong     Reason = "wrong secret or signature"
	ReasonRotated   Reason = "a secret that was replaced"
	ReasonDisabled  Reason = "disabled key"
	ReasonExpired   Reason = "expired"
	ReasonUnsigned  Reason = "a key that only signs, sent as a whole"
	ReasonClock     Reason = "signed at another time"
	ReasonReplay    Reason = "a nonce that was used before"
	ReasonBody      Reason = "another body than the signed one"
	ReasonIssuer    Reason = "unknown issuer"
	ReasonAlgorithm Reason = "an algorithm that is not allowed"
	ReasonSignedBy  Reason = "signed with an unknown key"
	ReasonAudience  Reason = "a token for somebody else"
	ReasonEarly     Reason = "not valid yet"
	ReasonClaims    Reason = "claims that name no principal"
	ReasonNoUser    Reason = "a key without a user"
)

// A refusal is the cause of an error. Callers do not get it.
type refusal struct {
	reason Reason
	key    string
}

// Error returns the reason.
func (r *refusal) Error() string {
	if r.key == "" {
		return string(r.reason)
	}
	return string(r.reason) + " (key " + r.key + ")"
}

// refuse returns the same answer for every credential that is not valid. The id of a key
// is public, and was checked before.
func refuse(reason Reason, key string) error {
	return &haft.Error{
		Code:    haft.CodeUnauthenticated,
		Message: "the credential is missing or not valid",
		Err:     &refusal{reason, key},
	}
}

// noUser answers a valid key that names no user where every key must. Its holder has proved to
// have it, so that the error says what to do.
func noUser(key string) error {
	return &haft.Error{
		Code: haft.CodeUnauthenticated,
		Message: "this server takes no key without a user: ask for one that was made with haft key add " +
			"--for-user NAME",
		Err: &refusal{ReasonNoUser, key},
	}
}

// ReasonOf returns why a credential was refused, or "" if err is no refusal.
func ReasonOf(err error) Reason {
	if r, ok := errors.AsType[*refusal](err); ok {
		return r.reason
	}
	return ""
}

// KeyOf returns the id of the key that was refused, if it is known which. The id is
// public, and there need not be such a key.
func KeyOf(err error) string {
	if r, ok := errors.AsType[*refusal](err); ok {
		return r.key
	}
	return ""
}
