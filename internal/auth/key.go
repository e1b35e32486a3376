package auth

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"haft"
)

// The bounds of a key.
const (
	maxName  = 256
	maxRoles = 64
	maxScope = 256
)

// A Key is an API key as it is stored.
type Key struct {
	ID  string `json:"id"`
	Org string `json:"org"`
	// Name says what the key is for.
	Name string `json:"name,omitempty"`
	// User, Agent and Roles are those of the principal.
	User  string   `json:"user,omitempty"`
	Agent string   `json:"agent,omitempty"`
	Roles []string `json:"roles,omitempty"`
	// Scope confines the key to permissions and actions, see [CheckScope]. Nil
	// confines it to nothing less than its roles allow, and an empty list to
	// nothing at all.
	Scope []string `json:"scope,omitzero"`
	// SignedOnly refuses the key as a bearer token: it only signs.
	SignedOnly bool      `json:"signed_only,omitempty"`
	Created    time.Time `json:"created_at"`
	// Expires is from when on the key is refused; zero means never.
	Expires time.Time `json:"expires_at,omitzero"`
	// LastUsed is known to a minute.
	LastUsed time.Time `json:"last_used_at,omitzero"`
	Disabled bool      `json:"disabled,omitempty"`
	// Rotated is when the secret was last replaced. The previous secret is valid until Overlap.
	Rotated time.Time `json:"rotated_at,omitzero"`
	Overlap time.Time `json:"overlap_until,omitzero"`
	// Secret and Previous are the stored forms of the secrets. APIs do not show them.
	Secret   Proof `json:"-"`
	Previous Proof `json:"-"`
	// Rev counts the writes of this key, from 1 on.
	Rev int64 `json:"-"`
}

// A Proof is the stored form of one secret. It is useless without the pepper.
type Proof struct {
	// Hash is of the key as it is sent.
	Hash []byte
	// Signing is the sealed key that requests are signed with.
	Signing []byte
}

// Principal returns on whose behalf the key acts. Its Scope are the permissions of
// the key's scope, and its Actions the rest of it.
func (k Key) Principal() haft.Principal {
	p := haft.Principal{Org: k.Org, User: k.User, Agent: k.Agent, Roles: k.Roles, Credential: k.ID}
	p.Scope, p.Actions = splitScope(k.Scope)
	return p
}

// check reports why k cannot be issued.
func (k Key) check(now time.Time) error {
	if k.Org == "" {
		return invalid("a key belongs to an organisation")
	}
	for _, f := range []struct{ what, text string }{{"organisation", k.Org}, {"name", k.Name}, {"user", k.User},
		{"agent", k.Agent}} {
		if f.text != "" && !cleanText(f.text) {
			return invalid(fmt.Sprintf("the %s of a key is at most %d characters of text without control characters",
				f.what, maxName))
		}
	}
	if len(k.Roles) > maxRoles {
		return invalid(fmt.Sprintf("a key has at most %d roles", maxRoles))
	}
	for _, r := range k.Roles {
		if !cleanText(r) {
			return invalid(fmt.Sprintf("a role is 1 to %d characters of text without control characters", maxName))
		}
	}
	if !k.Expires.IsZero() && !k.Expires.After(now) {
		return invalid("a key expires in the future")
	}
	return CheckScope(k.Scope)
}

// cleanText reports whether s can be a name: it is text, not empty and not long, and does not
// mislead a reader of a log.
func cleanText(s string) bool {
	return s != "" && len(s) <= maxName && utf8.ValidString(s) && strings.TrimSpace(s) == s &&
		!strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) })
}

// Keys is where keys are kept. It is safe for concurrent use, also from several
// processes. Package authtest is its conformance suite.
type Keys interface {
	// Key returns the key of that id in whatever organisation, or
	// [haft.CodeNotFound].
	Key(ctx context.Context, id string) (Key, error)
	// Keys returns up to limit keys of an organisation whose ids come after the
	// given one, ordered by id.
	Keys(ctx context.Context, org, after string, limit int) ([]Key, error)
	// PutKey writes k, with Rev one higher, if the kept one has k.Rev, 0 meaning
	// that there is none. Else it changes nothing and returns
	// [haft.CodeConflict]. It leaves the organisation and LastUsed of a key that
	// is there.
	PutKey(ctx context.Context, k Key) error
	// TouchKey sets LastUsed and not Rev. It never sets it back, and a key that
	// is not there is no error.
	TouchKey(ctx context.Context, id string, at time.Time) error
	// RemoveKey removes the key of that organisation, or returns
	// [haft.CodeNotFound].
	RemoveKey(ctx context.Context, org, id string) error
}

func invalid(message string) error {
	return &haft.Error{Code: haft.CodeInvalid, Message: message}
}

func notFound() error {
	return &haft.Error{Code: haft.CodeNotFound, Message: "there is no such key"}
}
