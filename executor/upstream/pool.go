package upstream

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"haft"
	"haft/executor"
	"haft/internal/secret"
)

// A key identifies a session: who may use it, and for which server.
type key struct{ org, server, credentials string }

// A Pool keeps sessions with servers. It is safe for concurrent use.
//
// Lifecycle: New, then anything, then Close.
type Pool struct {
	cfg    Config
	ctx    context.Context
	cancel context.CancelCauseFunc
	work   sync.WaitGroup // every goroutine of the pool

	spawning sync.Mutex // after mu and the lock of any slot
	ended    bool       // nothing is spawned any more

	mu       sync.Mutex // before the lock of any slot
	slots    map[key]*slot
	accounts map[owner]*account
	logins   map[string]*login // by state
	closed   bool

	recheckDue chan struct{} // holds one element if a recheck was asked for
}

var _ executor.Executor = (*Pool)(nil)

// errClosed is why sessions end with the pool.
var errClosed = &haft.Error{Code: haft.CodeUnavailable, Message: "the server is shutting down"}

// New returns a pool without sessions. It uses only the values of ctx: the pool lives
// until Close.
func New(ctx context.Context, cfg Config) *Pool {
	p := &Pool{cfg: cfg.withDefaults(), slots: map[key]*slot{}, accounts: map[owner]*account{},
		logins: map[string]*login{}, recheckDue: make(chan struct{}, 1)}
	p.ctx, p.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	p.work.Go(p.maintain)
	return p
}

// Close ends every session, and returns when all of them are gone.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	slots := p.slots
	p.slots = map[key]*slot{}
	p.mu.Unlock()
	p.spawning.Lock()
	p.ended = true
	p.spawning.Unlock()
	p.cancel(errClosed)
	for _, s := range slots {
		s.end(nil)
	}
	p.work.Wait()
}

// Drop ends the sessions of a server that was changed or removed.
func (p *Pool) Drop(org, server string) {
	p.mu.Lock()
	var dropped []*slot
	for k, s := range p.slots {
		if k.org == org && k.server == server {
			dropped = append(dropped, s)
			delete(p.slots, k)
		}
	}
	maps.DeleteFunc(p.accounts, func(o owner, _ *account) bool { return o.org == org && o.server == server })
	p.mu.Unlock()
	for _, s := range dropped {
		s.end(&haft.Error{Code: haft.CodeDenied,
			Message: "the MCP server was changed or removed while the call ran; the call may have had effects"})
	}
}

// Sessions returns the number of open sessions.
func (p *Pool) Sessions() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, s := range p.slots {
		if s.live() != nil {
			n++
		}
	}
	return n
}

// spawn runs work in a goroutine that Close waits for, unless the pool is closed. It does not take mu: slots call it
// with their lock held, and whoever holds mu takes the locks of slots.
func (p *Pool) spawn(work func()) bool {
	p.spawning.Lock()
	defer p.spawning.Unlock()
	if p.ended {
		return false
	}
	p.work.Go(work)
	return true
}

// A target is a server with the credentials of one caller filled in.
type target struct {
	server  haft.MCPServer
	headers map[string]expanded
	env     map[string]expanded
	who     haft.Principal
}

// resolve finds a server and fills the variables of the call into its credentials.
func (p *Pool) resolve(ctx context.Context, who haft.Principal, ref string, vars []secret.Named) (target, error) {
	s, err := p.cfg.Directory.Server(ctx, who.Org, ref)
	if err != nil {
		return target{}, err
	}
	if s.Disabled {
		return target{}, &haft.Error{Code: haft.CodeDenied, Message: "the server of the tool is disabled"}
	}
	to := target{server: s, who: who}
	if to.headers, err = expand("the header", s.Headers, vars); err != nil {
		return target{}, err
	}
	if err := CheckHeaders(texts(to.headers)); err != nil {
		return target{}, err
	}
	if to.env, err = expand("the variable", s.Env, vars); err != nil {
		return target{}, err
	}
	return to, p.checkBound(to)
}

// key returns the key of the session for a target. Users share a session unless the
// server can distinguish them.
func (to target) key(user string) key {
	s := to.server
	text, err := json.Marshal(struct {
		Server       haft.MCPServer
		Headers, Env map[string]string
		User         string
	}{haft.MCPServer{
		Transport: s.Transport, Command: s.Command, URL: s.URL, Network: s.Network, Mounts: s.Mounts,
		Requirements: s.Requirements, Limits: s.Limits, OAuth: s.OAuth,
	}, texts(to.headers), texts(to.env), user})
	if err != nil { // plain texts always encode
		text = []byte(s.ID)
	}
	sum := sha256.Sum256(text)
	return key{s.Org, s.ID, hex.EncodeToString(sum[:])}
}

// acquire returns a session for a target. The caller releases its slot.
func (p *Pool) acquire(ctx context.Context, to target) (*session, error) {
	user := ""
	if to.server.Transport != haft.MCPStdio && p.cfg.Vault != nil && !hasAuthorization(to.headers) {
		user = to.who.Owner() // who may be logged in
	}
	for {
		s, err := p.slot(to.key(user), to.server)
		if err != nil {
			return nil, err
		}
		got, err := s.acquire(ctx, to)
		if errors.Is(err, errDropped) {
			continue
		}
		return got, err
	}
}

// slot returns the slot of a key. It makes one if there is none, and ends an idle
// session if there are too many.
func (p *Pool) slot(k key, server haft.MCPServer) (*slot, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errClosed
	}
	if s := p.slots[k]; s != nil {
		return s, nil
	}
	for {
		org := 0
		for o := range p.slots {
			if o.org == k.org {
				org++
			}
		}
		if len(p.slots) < p.cfg.Sessions && org < p.cfg.PerOrg {
			break
		}
		if !p.evict(k.org, org >= p.cfg.PerOrg) {
			return nil, &haft.Error{Code: haft.CodeUnavailable,
				Message: "too many sessions with MCP servers at once; try again", RetryAfter: haft.Millis(time.Second)}
		}
	}
	s := &slot{pool: p, key: k, server: server, used: time.Now()}
	p.slots[k] = s
	return s, nil
}

// evict ends the least recently used session that is not in use: one of the
// organisation if own is set, else any. Precondition: mu is held.
func (p *Pool) evict(org string, own bool) bool {
	var oldest *slot
	var at time.Time
	for k, s := range p.slots {
		if own && k.org != org {
			continue
		}
		if used, busy := s.lastUse(); !busy && (oldest == nil || used.Before(at)) {
			oldest, at = s, used
		}
	}
	if oldest == nil {
		return false
	}
	delete(p.slots, oldest.key)
	p.work.Go(func() { oldest.end(nil) })
	return true
}

// maintain closes idle sessions, pings the others, and rechecks permissions, until the
// pool is closed.
func (p *Pool) maintain() {
	tick := time.NewTicker(min(p.cfg.Health, p.cfg.Idle))
	defer tick.Stop()
	var recheck <-chan time.Time
	if p.cfg.RecheckEvery > 0 {
		every := time.NewTicker(p.cfg.RecheckEvery)
		defer every.Stop()
		recheck = every.C
	}
	for {
		select {
		case <-p.ctx.Done():
			return
		case now := <-tick.C:
			p.sweep(now)
		case <-p.recheckDue:
			p.recheck(p.ctx)
		case <-recheck:
			p.recheck(p.ctx)
		}
	}
}

// sweep closes the sessions that have been idle for too long, and pings the others.
func (p *Pool) sweep(now time.Time) {
	p.mu.Lock()
	var stale, others []*slot
	for k, s := range p.slots {
		if used, busy := s.lastUse(); !busy && now.Sub(used) >= p.cfg.Idle {
			stale = append(stale, s)
			delete(p.slots, k)
		} else {
			others = append(others, s)
		}
	}
	p.mu.Unlock()
	for _, s := range stale {
		p.spawn(func() { s.end(nil) })
	}
	for _, s := range others {
		if live := s.live(); live != nil {
			p.spawn(func() { live.checkHealth(p.ctx) })
		}
	}
}

// Recheck asks [Config.Permit] soon about the server of every session, and ends the
// sessions whose servers may no longer be used. It returns at once.
func (p *Pool) Recheck() {
	select {
	case p.recheckDue <- struct{}{}:
	default: // a recheck is due anyway, and has not begun
	}
}

// recheck ends the sessions, also those that are being opened, whose servers may no
// longer be used as they are. Their calls end with the reason. A session that is opened
// later is checked by its caller.
func (p *Pool) recheck(ctx context.Context) {
	if p.cfg.Permit == nil {
		return
	}
	p.mu.Lock()
	slots := slices.Collect(maps.Values(p.slots))
	p.mu.Unlock()
	for _, s := range slots {
		err := p.cfg.Permit(ctx, s.server)
		if err == nil {
			continue
		}
		if code := haft.CodeOf(err); code != haft.CodeDenied && code != haft.CodeNotFound {
			if ctx.Err() == nil {
				p.cfg.Logger.Warn("cannot check whether an MCP server may still be used",
					"org", s.server.Org, "server", s.server.Name, "error", err)
			}
			continue
		}
		p.mu.Lock()
		if p.slots[s.key] == s {
			delete(p.slots, s.key)
		}
		p.mu.Unlock()
		p.cfg.Logger.Info("the session with an MCP server is ended",
			"org", s.server.Org, "server", s.server.Name, "reason", haft.MessageOf(err))
		why := &haft.Error{Code: haft.CodeDenied, Err: err,
			Message: fmt.Sprintf("the MCP server was ended while the call ran: %s; the call may have had effects",
				haft.MessageOf(err))}
		p.work.Go(func() { s.end(why) }) // Close waits for this goroutine of the pool, and so for that one
	}
}
