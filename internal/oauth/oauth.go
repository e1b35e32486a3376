package oauth

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"net/http"
	"sync"
	"time"

	"haft"
	"haft/internal/secret"
)

// Bounds of the cached tokens.
const (
	maxKept    = 10_000
	noExpiry   = 5 * time.Minute // of tokens that do not say
	longest    = 24 * time.Hour  // of those that say more
	early      = 30 * time.Second
	refusedFor = 5 * time.Second  // how long a refusal is cached
	toKeep     = 10 * time.Second // for Rotated, whatever the exchange took
)

// Config has the settings of a client.
type Config struct {
	// HTTP sends requests, and decides where they may go. It is required.
	HTTP *http.Client
	// Timeout bounds one exchange, and the wait for others before it; 0 means 15 seconds.
	Timeout time.Duration
	// Insecure allows http.
	Insecure bool
	// Now returns the time; nil means [time.Now].
	Now func() time.Time
}

// An Ask is a credential and how it is exchanged.
type Ask struct {
	secret.OAuth
	// Client is the secret of the client; the zero value means a public client.
	Client secret.Value
	// Refresh is the refresh token, where the grant has one.
	Refresh secret.Value
	// Rotated is called with the new refresh token that a server returns, and with the one
	// that it replaces, before the exchange ends. If it is nil, the new one is only kept in
	// memory. It is not part of the identity of an Ask.
	Rotated func(ctx context.Context, prev, next secret.Value)
	// Alone waits until no other process uses the same refresh token, and returns the stored
	// one, which may differ from Refresh. Done is called when the exchange has ended and
	// Rotated has returned: at most [Config.Timeout] and 10 seconds later. It is not part of
	// the identity of an Ask either. Nil means that there are no other processes.
	Alone func(ctx context.Context) (stored secret.Value, done func(), err error)
}

// A Client exchanges credentials. It is safe for concurrent use.
type Client struct {
	cfg Config

	mu   sync.Mutex
	kept map[[32]byte]*entry
}

// entry has the state of one credential. Only the goroutine that holds turn writes it.
type entry struct {
	turn    chan struct{}
	token   secret.Value
	refresh secret.Value // that the server gave last; zero means that of the ask
	err     error
	until   time.Time // of token or err
}

// New returns a client. It touches nothing outside.
func New(cfg Config) *Client {
	if cfg.Timeout <= 0 {
		cfg.Timeout = 15 * time.Second
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Client{cfg: cfg, kept: map[[32]byte]*entry{}}
}

// key identifies a credential without containing it.
func (a Ask) key() [32]byte {
	h := sha256.New()
	post := ""
	if a.Post {
		post = "post"
	}
	for _, part := range []string{a.TokenURL, a.Grant, a.ClientID, a.Scope, a.Audience, post, a.Client.Reveal(),
		a.Refresh.Reveal()} {
		h.Write(binary.AppendUvarint(nil, uint64(len(part)))) // a hash never fails
		h.Write([]byte(part))
	}
	return [32]byte(h.Sum(nil))
}

// entry returns the state of a credential.
func (c *Client) entry(key [32]byte) *entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.kept[key]
	if e == nil {
		if len(c.kept) >= maxKept {
			c.prune()
		}
		e = &entry{turn: make(chan struct{}, 1)}
		c.kept[key] = e
	}
	return e
}

// prune removes expired entries that are not in use, and all entries if that is not enough.
// Precondition: mu is held.
func (c *Client) prune() {
	now := c.cfg.Now()
	for key, e := range c.kept {
		select {
		case e.turn <- struct{}{}:
			if !now.Before(e.until) && e.refresh.IsZero() {
				delete(c.kept, key)
			}
			<-e.turn
		default:
		}
	}
	if len(c.kept) >= maxKept {
		clear(c.kept)
	}
}

// Token returns an access token for a credential: the cached one, if it is valid for a
// while, or a new one.
func (c *Client) Token(ctx context.Context, a Ask) (secret.Value, error) {
	if err := c.check(a); err != nil {
		return secret.Value{}, err
	}
	e := c.entry(a.key())
	select {
	case e.turn <- struct{}{}:
	case <-ctx.Done():
		return secret.Value{}, context.Cause(ctx)
	}
	defer func() { <-e.turn }()
	if c.cfg.Now().Before(e.until) {
		return e.token, e.err
	}
	own := a
	if !e.refresh.IsZero() {
		own.Refresh = e.refresh
	}
	if a.Alone != nil && !a.Refresh.IsZero() {
		stored, done, err := c.alone(ctx, a)
		if err != nil {
			return secret.Value{}, unavailable("others use the same refresh token", err)
		}
		defer done()
		if !stored.IsZero() && !stored.Equal(a.Refresh) {
			own.Refresh = stored // another process has replaced ours
		}
	}
	// A caller that leaves does not end the exchange: see the package comment. Time spent
	// waiting does not count either: the successor of a used refresh token would be lost.
	ctx = context.WithoutCancel(ctx)
	got, err := c.exchange(ctx, own)
	if err != nil {
		e.token, e.err, e.until = secret.Value{}, err, c.cfg.Now().Add(refusedFor)
		return secret.Value{}, err
	}
	e.token, e.err, e.until = got.access, nil, c.cfg.Now().Add(got.life)
	if !got.refresh.IsZero() && !got.refresh.Equal(own.Refresh) {
		c.rotate(ctx, e, own, got)
	}
	return e.token, nil
}

// alone waits for other processes that use the same refresh token.
func (c *Client) alone(ctx context.Context, a Ask) (stored secret.Value, done func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	return a.Alone(ctx)
}

// rotate remembers the new refresh token, also under its own key: a caller that reads the
// stored one finds the access token.
func (c *Client) rotate(ctx context.Context, e *entry, a Ask, got answer) {
	e.refresh = got.refresh
	next := a
	next.Refresh = got.refresh
	other := c.entry(next.key())
	select {
	case other.turn <- struct{}{}:
		other.token, other.err, other.until = e.token, nil, e.until
		<-other.turn
	default: // it is being exchanged already
	}
	if a.Rotated != nil {
		ctx, cancel := context.WithTimeout(ctx, toKeep)
		defer cancel()
		a.Rotated(ctx, a.Refresh, got.refresh)
	}
}

// unavailable is the error for a server that gives no token.
func unavailable(why string, cause error) error {
	return &haft.Error{Code: haft.CodeUnavailable, Message: "no token is to be had: " + why, Err: cause}
}
