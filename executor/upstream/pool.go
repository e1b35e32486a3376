package upstream

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"haft"
	"haft/executor"
	"haft/internal/secret"
)

// A key names what a session may be used for: everything that decides whose it is.
type key struct{ org, server, credentials string }

// A Pool keeps sessions with servers. It is safe for concurrent use.
//
// Lifecycle: New, then anything, then Close.
type Pool struct {
	cfg    Config
	ctx    context.Context
	cancel context.CancelCauseFunc
	work   sync.WaitGroup // every goroutine of the pool

	mu       sync.Mutex
	slots    map[key]*slot
	accounts map[owner]*account
	logins   map[string]*login // by state
	closed   bool

	changed chan struct{} // has one if something may have been forbidden
}

var _ executor.Executor = (*Pool)(nil)

// errClosed is why sessions end with the pool.
var errClosed = &haft.Error{Code: haft.CodeUnavailable, Message: "the server is shutting down"}

// New makes a pool. It connects to nobody. Ctx is for its values: the pool lives
// until Close.
func New(ctx context.Context, cfg Config) *Pool {
	p := &Pool{cfg: cfg.filled(), slots: map[key]*slot{}, accounts: map[owner]*account{}, logins: map[string]*login{},
		changed: make(chan struct{}, 1)}
	p.ctx, p.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	p.work.Go(p.housekeep)
	p.work.Go(p.recheckWhenTold)
	return p
}

// Close ends every session, and returns when nothing of any is left.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	slots := p.slots
	p.slots = map[key]*slot{}
	p.mu.Unlock()
	p.cancel(errClosed)
	for _, s := range slots {
		s.end()
	}
	p.work.Wait()
}

// Drop ends the sessions of a server, because it is another now or gone.
func (p *Pool) Drop(org, server string) {
	p.mu.Lock()
	var gone []*slot
	for k, s := range p.slots {
		if k.org == org && k.server == server {
			gone = append(gone, s)
			delete(p.slots, k)
		}
	}
	for o := range p.accounts {
		if o.org == org && o.server == server {
			delete(p.accounts, o)
		}
	}
	p.mu.Unlock()
	why := &haft.Error{Code: haft.CodeDenied,
		Message: "the MCP server was changed or removed while the call ran; the call may have had effects"}
	for _, s := range gone {
		s.endFor(why)
	}
}

// Sessions returns how many there are.
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

// spawn runs work in a goroutine that Close waits for, unless the pool is closed.
func (p *Pool) spawn(work func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.work.Go(work)
	return true
}

// A wanted is a server with whose credentials it is to be spoken to.
type wanted struct {
	server  haft.MCPServer
	headers map[string]filled
	env     map[string]filled
	who     haft.Principal
}

// want finds a server and fills in what its credentials leave to the call.
func (p *Pool) want(ctx context.Context, who haft.Principal, ref string, vars []secret.Named) (wanted, error) {
	s, err := p.cfg.Directory.Server(ctx, who.Org, ref)
	if err != nil {
		return wanted{}, err
	}
	if s.Disabled {
		return wanted{}, &haft.Error{Code: haft.CodeDenied, Message: "the server of the tool is disabled"}
	}
	w := wanted{server: s, who: who}
	if w.headers, err = expand("the header", s.Headers, vars); err != nil {
		return wanted{}, err
	}
	if err := CheckHeaders(texts(w.headers)); err != nil {
		return wanted{}, err
	}
	if w.env, err = expand("the variable", s.Env, vars); err != nil {
		return wanted{}, err
	}
	return w, p.checkBound(w)
}

// key names the session for w. People share one unless a server knows them apart.
func (w wanted) key(user string) key {
	text, err := json.Marshal(struct {
		Server       haft.MCPServer
		Headers, Env map[string]string
		User         string
	}{haft.MCPServer{
		Transport: w.server.Transport, Command: w.server.Command, URL: w.server.URL, Network: w.server.Network,
		Mounts:       w.server.Mounts,
		Requirements: w.server.Requirements, Limits: w.server.Limits, OAuth: w.server.OAuth,
	}, texts(w.headers), texts(w.env), user})
	if err != nil { // of plain texts: cannot be
		text = []byte(w.server.ID)
	}
	sum := sha256.Sum256(text)
	return key{w.server.Org, w.server.ID, hex.EncodeToString(sum[:])}
}

// acquire returns a session for w, which the caller gives back.
func (p *Pool) acquire(ctx context.Context, w wanted) (*session, error) {
	user := ""
	if w.server.Transport != haft.MCPStdio && p.cfg.Vault != nil && !authorized(w.headers) {
		user = w.who.Owner() // who may be logged in
	}
	for {
		s, err := p.slot(w.key(user), w.server)
		if err != nil {
			return nil, err
		}
		got, err := s.take(ctx, w)
		if errors.Is(err, errGone) {
			continue // it was dropped meanwhile
		}
		return got, err
	}
}

// slot returns the one of a key, and makes room for it if there is none.
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

// evict ends the session that was used least recently and is not in use: of an
// organisation, or of any. Precondition: mu is held.
func (p *Pool) evict(org string, own bool) bool {
	var oldest *slot
	var at time.Time
	for k, s := range p.slots {
		if own && k.org != org {
			continue
		}
		if used, busy := s.idle(); !busy && (oldest == nil || used.Before(at)) {
			oldest, at = s, used
		}
	}
	if oldest == nil {
		return false
	}
	delete(p.slots, oldest.key)
	p.work.Go(oldest.end)
	return true
}

// housekeep closes what nobody uses and asks the others whether they live.
func (p *Pool) housekeep() {
	tick := time.NewTicker(min(p.cfg.Health, p.cfg.Idle))
	defer tick.Stop()
	for {
		select {
		case <-p.ctx.Done():
			return
		case now := <-tick.C:
			p.sweep(now)
		}
	}
}

// sweep looks at every session once.
func (p *Pool) sweep(now time.Time) {
	p.mu.Lock()
	var stale, others []*slot
	for k, s := range p.slots {
		if used, busy := s.idle(); !busy && now.Sub(used) >= p.cfg.Idle {
			stale = append(stale, s)
			delete(p.slots, k)
		} else {
			others = append(others, s)
		}
	}
	p.mu.Unlock()
	for _, s := range stale {
		p.spawn(s.end)
	}
	for _, s := range others {
		if live := s.live(); live != nil {
			p.spawn(func() { live.health(p.ctx) })
		}
	}
}
