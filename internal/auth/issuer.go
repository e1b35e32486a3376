package auth

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"haft"
)

// How keys of issuers are kept.
const (
	freshFor  = 15 * time.Minute // then they are fetched again
	staleFor  = 24 * time.Hour   // and used for as long if that fails
	retryWait = time.Minute      // between two tries
	firstWait = 5 * time.Second  // the same, while there are no keys at all
	fetchTime = 10 * time.Second
	maxFetch  = 256 << 10

	maxRedirects = 5
)

// An Issuer is an issuer of accepted tokens, and says which of its claims count.
type Issuer struct {
	// URL is the issuer as it calls itself, exactly, with https.
	URL string
	// Audience are the names that we have there. A token is for one of them.
	Audience []string
	// Algorithms are those that it signs with; empty means all of [Algorithms].
	Algorithms []Algorithm
	// Keys is the address of its keys; empty means that discovery finds it.
	Keys string
	// Org is the organisation of all its users. If Claims.Org is set it must be
	// empty, and Orgs are the organisations that the issuer may name; "*" means
	// every one, which is for an issuer of one's own.
	Org  string
	Orgs []string
	// Claims says where things are.
	Claims Claims
	// UserPrefix goes before the user, so that those of two issuers differ.
	UserPrefix string
	// Roles maps roles of the issuer to roles here. Other roles are ignored.
	Roles map[string]string
	// Scope confines all its tokens, see [CheckScope]. Nil does not.
	Scope []string
}

// An issuer fetches and keeps the keys of one.
type issuer struct {
	Issuer
	client *http.Client
	// turn is held by the goroutine that fetches.
	turn chan struct{}

	mu             sync.Mutex
	keys           []publicKey // replaced and not changed
	fetched, tried time.Time
}

// CheckIssuer reports errors in the settings of an issuer, without a request to it.
func CheckIssuer(i Issuer) error {
	_, err := newIssuer(i, http.DefaultClient)
	return err
}

// newIssuer checks the settings of an issuer.
func newIssuer(i Issuer, client *http.Client) (*issuer, error) {
	bad := func(what string) (*issuer, error) { return nil, invalid("an issuer of tokens " + what) }
	switch {
	case client == nil:
		return bad("needs a client to fetch its keys")
	case !secureURL(i.URL):
		return bad("has an address with https and without a query")
	case i.Keys != "" && !secureURL(i.Keys):
		return bad("has its keys at an address with https")
	case len(i.Audience) == 0 || slices.Contains(i.Audience, ""):
		return bad("needs an audience: the name that it knows us by")
	case (i.Org == "") == (i.Claims.Org == ""):
		return bad("has either one organisation or a claim that names it")
	case i.Claims.Org != "" && len(i.Orgs) == 0:
		return bad("needs a list of the organisations that it may name")
	case i.Org != "" && !cleanText(i.Org):
		return bad("has an organisation with a proper name")
	}
	for _, alg := range i.Algorithms {
		if !slices.Contains(Algorithms(), alg) {
			return bad("signs with RS256, ES256 or EdDSA")
		}
	}
	if err := CheckScope(i.Scope); err != nil {
		return nil, err
	}
	if len(i.Algorithms) == 0 {
		i.Algorithms = Algorithms()
	}
	if i.Claims.User == "" {
		i.Claims.User = "sub"
	}
	i.Audience, i.Orgs, i.Algorithms = slices.Clone(i.Audience), slices.Clone(i.Orgs), slices.Clone(i.Algorithms)
	i.Scope, i.Roles = slices.Clone(i.Scope), maps.Clone(i.Roles)
	own := *client
	own.Transport = strictTransport{cmp.Or(client.Transport, http.DefaultTransport)}
	own.CheckRedirect = func(next *http.Request, past []*http.Request) error {
		err := onlyHTTPS(next, past)
		if err == nil && client.CheckRedirect != nil {
			err = client.CheckRedirect(next, past)
		}
		if errors.Is(err, http.ErrUseLastResponse) {
			return errors.New("the issuer led elsewhere") // or the redirect would be read like a document
		}
		return err
	}
	return &issuer{Issuer: i, client: &own, turn: make(chan struct{}, 1)}, nil
}

// onlyHTTPS follows a redirect if it stays with https: without it, an attacker on the network
// could redirect to other keys.
func onlyHTTPS(next *http.Request, past []*http.Request) error {
	switch {
	case next.URL.Scheme != "https":
		return errors.New("the issuer led away from https")
	case len(past) > maxRedirects:
		return errors.New("the issuer led around")
	}
	return nil
}

// secureURL reports whether keys may be fetched from s.
func secureURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Scheme == "https" && u.Host != "" && u.User == nil && u.RawQuery == "" && u.Fragment == "" &&
		!u.ForceQuery
}

// find returns the keys that can verify a token. The id is only compared: nothing is
// fetched or opened by it.
func (i *issuer) find(ctx context.Context, kid string, alg Algorithm) ([]publicKey, error) {
	keys, fetched := i.cachedKeys()
	found := match(keys, kid, alg)
	if age := time.Since(fetched); len(found) == 0 || age >= freshFor {
		if err := i.refresh(ctx, fetched, len(found) > 0 && age < staleFor); err != nil {
			return nil, err
		}
		keys, fetched = i.cachedKeys()
		found = match(keys, kid, alg)
	}
	if keys == nil || time.Since(fetched) >= staleFor {
		return nil, errUnavailable(errors.New("the keys of the issuer could not be fetched"))
	}
	return found, nil
}

func (i *issuer) cachedKeys() ([]publicKey, time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.keys, i.fetched
}

// RefetchKeys makes the next token of every issuer fetch the keys of the issuer again, for an
// operator who knows that they have changed. It returns the addresses of the issuers.
func (a *Authenticator) RefetchKeys() []string {
	for _, i := range a.issuers {
		i.mu.Lock()
		if stale := time.Now().Add(-freshFor); i.fetched.After(stale) {
			i.fetched = stale
		}
		i.tried = time.Time{}
		i.mu.Unlock()
	}
	return slices.Sorted(maps.Keys(a.issuers))
}

// match returns the keys with that id. A token without one can be signed with the
// one key that there is for its algorithm.
func match(keys []publicKey, kid string, alg Algorithm) []publicKey {
	var found []publicKey
	for _, k := range keys {
		if k.alg == alg && (kid == "" || k.KeyID == kid) {
			found = append(found, k)
		}
	}
	if len(found) > 1 && kid == "" || len(found) > 4 {
		return nil
	}
	return found
}

// refresh fetches the keys unless that was done or tried a moment ago. A caller with
// usable keys does not wait. A failed fetch is no error as long as there are keys.
func (i *issuer) refresh(ctx context.Context, since time.Time, usable bool) error {
	if usable {
		select {
		case i.turn <- struct{}{}:
		default:
			return nil
		}
	} else {
		select {
		case i.turn <- struct{}{}:
		case <-ctx.Done():
			return errUnavailable(context.Cause(ctx))
		}
	}
	defer func() { <-i.turn }()
	i.mu.Lock()
	wait := retryWait
	if i.keys == nil {
		wait = firstWait
	}
	now := time.Now()
	skip := i.fetched.After(since) || now.Sub(i.tried) < wait
	if !skip {
		i.tried = now
	}
	have := i.keys != nil
	i.mu.Unlock()
	if skip {
		return nil
	}
	// Others wait for what this brings, so it does not end with one request.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTime)
	defer cancel()
	keys, err := i.fetch(ctx)
	if err != nil {
		if have {
			return nil
		}
		return errUnavailable(err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys, i.fetched = keys, time.Now()
	return nil
}

// errUnavailable is the error for keys that cannot be fetched.
func errUnavailable(err error) error {
	return &haft.Error{Code: haft.CodeUnavailable, Message: "credentials cannot be checked at the moment", Err: err}
}

// fetch finds and reads the keys.
func (i *issuer) fetch(ctx context.Context) ([]publicKey, error) {
	at := i.Keys
	if at == "" {
		var err error
		if at, err = i.discover(ctx); err != nil {
			return nil, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, fmt.Errorf("ask the issuer: %w", err)
	}
	req.Header.Set("Accept", "application/json")
	res, err := i.client.Do(req)
	if err != nil {
		return nil, i.askError(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, fmt.Errorf("read the issuer's answer: %w", err)
	}
	return parseKeySet(raw)
}

// askError returns the error of a request to the issuer. It has the configured URL of the
// issuer: the URL in the client's error may be from a redirect, which is part of an
// answer.
func (i *issuer) askError(err error) error {
	if request, ok := errors.AsType[*url.Error](err); ok {
		err = request.Err
	}
	return fmt.Errorf("ask the issuer %s: %w", i.URL, err)
}

// discover returns the address of the keys. The library refuses an issuer that calls
// itself something else, or one issuer could speak for another (OIDC Discovery, 4.3).
func (i *issuer) discover(ctx context.Context) (string, error) {
	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, i.client), i.URL)
	if _, other := errors.AsType[*oidc.IssuerMismatchError](err); other {
		return "", errors.New("the issuer calls itself something else")
	}
	if err != nil {
		return "", i.askError(err)
	}
	// The library also reads names in another case of letters, and takes the last one.
	var document map[string]any
	if err := provider.Claims(&document); err != nil || document["issuer"] != i.URL {
		return "", errors.New("the issuer calls itself something else")
	}
	at, _ := textOf(document, "jwks_uri")
	if !keysURL(at) {
		return "", errors.New("the issuer has no address of keys with https")
	}
	return at, nil
}

// keysURL is like secureURL for an address that the issuer gave, which may have a
// query.
func keysURL(s string) bool {
	u, err := url.Parse(s)
	if err != nil {
		return false
	}
	u.RawQuery, u.ForceQuery = "", false
	return len(s) <= 2048 && secureURL(u.String())
}

// strictTransport is a transport that passes on only small JSON objects that every reader
// reads alike. The library accepts other answers too, and quotes them in its errors.
type strictTransport struct{ next http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (d strictTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := d.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	switch res.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect,
		http.StatusPermanentRedirect:
		if _, err := res.Location(); err == nil {
			return res, nil // the client follows it, or refuses to
		}
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the issuer answered %d", res.StatusCode)
	}
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxFetch+1))
	if err != nil {
		return nil, fmt.Errorf("read the issuer's answer: %w", err)
	}
	if len(raw) > maxFetch {
		return nil, fmt.Errorf("the issuer answered more than %d bytes", maxFetch)
	}
	if _, err := strictObject(raw); err != nil {
		return nil, fmt.Errorf("read the issuer's answer: %w", err)
	}
	res.Header = make(http.Header) // the library quotes the type of the content
	res.Body = io.NopCloser(bytes.NewReader(raw))
	return res, nil
}
