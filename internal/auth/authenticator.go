package auth

import (
	"context"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"haft"
	"haft/internal/authority"
)

// maxCredential is how many bytes a credential has at most.
const maxCredential = 16 << 10

// defaultSkew is how far clocks may differ.
const defaultSkew = 2 * time.Minute

// Config has the settings of an [Authenticator]. The zero value refuses everybody.
type Config struct {
	// Keyring has the API keys. Nil means that there are none.
	Keyring *Keyring
	// Nonces remembers those of signed requests; nil means in memory.
	Nonces Nonces
	// Skew is how far the time of a signed request, or of a token, may be from
	// ours; 0 means two minutes and ten minutes is the most.
	Skew time.Duration
	// Issuers are those whose tokens are accepted, and Client fetches their keys. The caller
	// restricts where Client may connect: addresses of issuers are configured, but the issuers
	// decide where they point to.
	Issuers []Issuer
	Client  *http.Client
	// Rules name the roles of managers and operators, see package authority.
	Rules authority.Rules
	// RequireUser refuses keys without a user, and has none issued: what such a key
	// does belongs to the key and not to a person.
	RequireUser bool
	// Attempts bounds failures by address.
	Attempts Attempts
}

// A Credential is the credential of a request and, if the request is signed, the signed parts.
// The zero Credential is refused.
type Credential struct {
	// Scheme is [SchemeBearer] or [SchemeSigned], in any case of letters.
	Scheme string
	// Token is what follows it.
	Token string
	// Method and Target are those of the request line, as they were sent. Only
	// signed requests need them.
	Method, Target string
	// Source is the address that the request came from, for counting failures.
	Source netip.Addr
}

// An Authenticator checks credentials. It is safe for concurrent use.
type Authenticator struct {
	keyring  *Keyring
	nonces   Nonces
	skew     time.Duration
	issuers  map[string]*issuer
	rules    authority.Rules
	users    bool // every key must have one
	failures *failures

	anyIssuer bool // of [NewRechecker]
}

// New returns an authenticator. It refuses settings that would believe more than
// they say.
func New(cfg Config) (*Authenticator, error) {
	a := &Authenticator{
		keyring: cfg.Keyring, nonces: cfg.Nonces, skew: cfg.Skew,
		issuers: make(map[string]*issuer), rules: cfg.Rules, users: cfg.RequireUser,
		failures: newFailures(cfg.Attempts),
	}
	if a.skew == 0 {
		a.skew = defaultSkew
	}
	if a.skew < 0 || a.skew > 10*time.Minute {
		return nil, invalid("clocks may differ by at most ten minutes")
	}
	if a.nonces == nil {
		a.nonces = NewMemoryNonces(0, 0)
	}
	if cfg.RequireUser && cfg.Keyring != nil {
		cfg.Keyring.requireUser.Store(true)
	}
	for _, i := range cfg.Issuers {
		made, err := newIssuer(i, cfg.Client)
		if err != nil {
			return nil, err
		}
		if a.issuers[i.URL] != nil {
			return nil, invalid("an issuer is named twice")
		}
		a.issuers[i.URL] = made
	}
	return a, nil
}

// Authenticate returns the identity of c. The error is [haft.CodeUnauthenticated] if the sender
// is not known, with one text for all reasons ([ReasonOf] returns the reason, for the
// operator); [haft.CodeRateLimited] if there were too many of these from one address; or
// [haft.CodeUnavailable] if the credential cannot be checked.
//
// Of a signed request the body is still to be checked, see [Identity.Signed].
func (a *Authenticator) Authenticate(ctx context.Context, c Credential) (Identity, error) {
	id, err := a.identify(ctx, c)
	if err == nil {
		err = id.Principal.Check()
	}
	if err != nil {
		if haft.CodeOf(err) == haft.CodeUnauthenticated {
			err = a.failures.failed(c.Source, err)
		}
		return Identity{}, err
	}
	if a.users && id.Principal.User == "" {
		return Identity{}, noUser(id.Key)
	}
	id.rules = a.rules
	return id, nil
}

// identify authenticates a credential by its kind.
func (a *Authenticator) identify(ctx context.Context, c Credential) (Identity, error) {
	switch {
	case c.Token == "":
		return Identity{}, refuse(ReasonMissing, "")
	case len(c.Token) > maxCredential:
		return Identity{}, refuse(ReasonMalformed, "")
	case strings.EqualFold(c.Scheme, SchemeSigned) && a.keyring != nil:
		return a.signed(ctx, c)
	case !strings.EqualFold(c.Scheme, SchemeBearer):
		return Identity{}, refuse(ReasonScheme, "")
	case strings.HasPrefix(c.Token, keyPrefix) && a.keyring != nil:
		return a.keyring.bearer(ctx, c.Token)
	case len(a.issuers) > 0:
		return a.token(ctx, c.Token)
	}
	return Identity{}, refuse(ReasonScheme, "")
}

// identity returns the identity of the holder of the key. With old it is that of the
// secret before the last rotation, which ends with the overlap.
func (k Key) identity(old bool) Identity {
	id := Identity{Principal: k.Principal(), Key: k.ID, Expires: k.Expires, Ends: k.Expires, scope: k.Scope}
	id.Principal.Credential = k.credentialOf(k.Secret)
	if old {
		id.Principal.Credential = k.credentialOf(k.Previous)
		if k.Expires.IsZero() || k.Overlap.Before(k.Expires) {
			id.Ends = k.Overlap
		}
	}
	return id
}

// CredentialOf returns the credential of a request that a server received: the Authorization
// header, and the request line as it came. Several Authorization headers are refused.
// Credentials in addresses and cookies are ignored: they end up in logs, or a browser sends
// them without the intention of the user.
func CredentialOf(r *http.Request, source netip.Addr) Credential {
	c := Credential{Method: r.Method, Target: r.RequestURI, Source: source}
	switch values := r.Header.Values("Authorization"); len(values) {
	case 0:
	case 1:
		c.Scheme, c.Token, _ = strings.Cut(values[0], " ")
	default:
		c.Scheme, c.Token = "several", "headers"
	}
	return c
}

// Admit authenticates a request that a server received, and lets its body be read
// through the check of a signed one: then r.Body is a [*Body].
func (a *Authenticator) Admit(r *http.Request, source netip.Addr) (Identity, error) {
	id, err := a.Authenticate(r.Context(), CredentialOf(r, source))
	if err != nil || !id.Signed {
		return id, err
	}
	if r.Body == nil || r.Body == http.NoBody {
		if id.Digest != emptyDigest {
			return Identity{}, a.failures.failed(source, refuse(ReasonBody, id.Key))
		}
		return id, nil
	}
	r.Body = CheckBody(r.Body, id.Digest)
	return id, nil
}
