package session

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"haft"
	"haft/executor"
	"haft/sandbox/cell"
)

// Config says how many sessions there may be, and for how long. Zero fields get defaults.
type Config struct {
	// Total bounds the sessions of this server, PerOrg those of an organisation; 0 means
	// 256 and 64.
	Total, PerOrg int
	// TTL is how long a session lives if nothing else is asked for, MaxTTL the longest that
	// can be; 0 means an hour and a day. Idle is after how long without use it ends; 0 means
	// 10 minutes.
	TTL, MaxTTL, Idle time.Duration
	// Open starts the sandbox of a session with its agent, and says what confines it.
	Open func(ctx context.Context, req executor.Request) (*cell.Cell, haft.Isolation, error)
}

// remembered bounds how many ended sessions are known by why they ended.
const remembered = 1024

// A Manager has the sessions of one server. It is safe for concurrent use.
//
// Lifecycle: New, use, Close.
type Manager struct {
	cfg Config
	// boot is a part of the ids of this server's sessions, so that those of another process
	// are told from those that never were.
	boot string

	mu      sync.Mutex
	closed  bool
	live    map[string]*Session
	opening map[string]int // of organisations
	past    []past         // the newest last
}

// past is why a session ended.
type past struct {
	id, org, owner string
	why            error
}

// New returns a manager without sessions.
func New(cfg Config) *Manager {
	set := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	set(&cfg.TTL, time.Hour)
	set(&cfg.MaxTTL, 24*time.Hour)
	set(&cfg.Idle, 10*time.Minute)
	if cfg.Total <= 0 {
		cfg.Total = 256
	}
	if cfg.PerOrg <= 0 {
		cfg.PerOrg = 64
	}
	return &Manager{cfg: cfg, boot: strings.ToLower(rand.Text()[:8]), live: map[string]*Session{},
		opening: map[string]int{}}
}

// Options are what a session is made with.
type Options struct {
	// Name is what its owner calls it; empty means that it has only an id.
	Name string
	// TTL and Idle are as in [Config]; 0 means the server's.
	TTL, Idle time.Duration
	// Request has organisation, principal, limits, network, environment and layers.
	Request executor.Request
}

// owner names who a session belongs to: one user or credential, and one agent.
func owner(p haft.Principal) string {
	if p.Agent == "" {
		return p.Owner()
	}
	return p.Owner() + "/" + p.Agent
}

// Open makes a session.
func (m *Manager) Open(ctx context.Context, o Options) (*Session, error) {
	ttl, idle := cmp.Or(o.TTL, m.cfg.TTL), cmp.Or(o.Idle, m.cfg.Idle)
	if ttl < 0 || ttl > m.cfg.MaxTTL || idle < 0 || idle > m.cfg.MaxTTL {
		return nil, &haft.Error{Code: haft.CodeInvalid,
			Message: fmt.Sprintf("a session lives at most %s", m.cfg.MaxTTL)}
	}
	if len(o.Name) > 64 || strings.ContainsFunc(o.Name, func(r rune) bool { return r < ' ' || r > '~' || r == '/' }) {
		return nil, &haft.Error{Code: haft.CodeInvalid,
			Message: "the name of a session has at most 64 letters, digits and signs of ASCII without /"}
	}
	p := o.Request.Principal
	if err := m.reserve(p, o.Name); err != nil {
		return nil, err
	}
	c, isolation, err := m.cfg.Open(ctx, o.Request)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.opening[p.Org]--; m.opening[p.Org] == 0 {
		delete(m.opening, p.Org)
	}
	if err != nil {
		return nil, err
	}
	if m.closed {
		c.Release(false)
		return nil, cell.ErrClosed
	}
	now := time.Now().UTC()
	s := newSession(haft.Session{
		ID: "sess_" + m.boot + strings.ToLower(rand.Text()), Org: p.Org, Owner: owner(p), Name: o.Name, Created: now,
		Expires: now.Add(ttl), IdleTimeout: haft.Millis(idle), Isolation: isolation,
	}, rulesOf(o.Request), c)
	m.live[s.info.ID] = s
	context.AfterFunc(s.ctx, func() { m.forget(s) })
	return s, nil
}

// reserve checks that one more session may be opened, and counts it.
func (m *Manager) reserve(p haft.Principal, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return cell.ErrClosed
	}
	all, ofOrg := len(m.live), m.opening[p.Org]
	for _, n := range m.opening {
		all += n
	}
	for _, s := range m.live {
		if s.info.Org != p.Org {
			continue
		}
		ofOrg++
		if name != "" && s.info.Name == name && s.info.Owner == owner(p) {
			return &haft.Error{Code: haft.CodeConflict, Message: "there is a session of this name already"}
		}
	}
	if ofOrg >= m.cfg.PerOrg || all >= m.cfg.Total {
		return &haft.Error{Code: haft.CodeRateLimited,
			Message: fmt.Sprintf("there are %d sessions, which is the most; end one, or wait until one ends", ofOrg)}
	}
	m.opening[p.Org]++
	return nil
}

// forget drops a session that has ended, and remembers why.
func (m *Manager) forget(s *Session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.live, s.info.ID)
	m.past = append(m.past, past{s.info.ID, s.info.Org, s.info.Owner, s.Why()})
	if len(m.past) > remembered {
		m.past = slices.Clone(m.past[len(m.past)-remembered/2:])
	}
}

// Get returns the session of the principal with this id or name. The error of one that has
// ended says why.
func (m *Manager) Get(p haft.Principal, id string) (*Session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	mine := func(org, o string) bool { return org == p.Org && o == owner(p) }
	if s := m.live[id]; s != nil && mine(s.info.Org, s.info.Owner) && s.ctx.Err() == nil {
		return s, nil
	}
	for _, s := range m.live {
		if s.info.Name == id && id != "" && mine(s.info.Org, s.info.Owner) && s.ctx.Err() == nil {
			return s, nil
		}
	}
	for _, e := range slices.Backward(m.past) {
		if e.id == id && mine(e.org, e.owner) {
			return nil, e.why
		}
	}
	if rest, ok := strings.CutPrefix(id, "sess_"); ok && !strings.HasPrefix(rest, m.boot) {
		return nil, ended("it is not of this server process, which may have been started anew")
	}
	return nil, &haft.Error{Code: haft.CodeNotFound, Message: "there is no such session"}
}

// List lists the sessions of the principal, the oldest first; with all, those of its whole
// organisation.
func (m *Manager) List(p haft.Principal, all bool) []haft.Session {
	return m.infos(func(s *Session) bool { return s.info.Org == p.Org && (all || s.info.Owner == owner(p)) })
}

// infos describes the sessions that match.
func (m *Manager) infos(match func(*Session) bool) []haft.Session {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := []haft.Session{}
	for _, s := range m.live {
		if match(s) {
			out = append(out, s.Info())
		}
	}
	slices.SortFunc(out, func(a, b haft.Session) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// Extend sets when a session ends at the latest, counted from now.
func (m *Manager) Extend(s *Session, ttl time.Duration) error {
	if ttl <= 0 || ttl > m.cfg.MaxTTL {
		return &haft.Error{Code: haft.CodeInvalid,
			Message: fmt.Sprintf("a session lives at most %s", m.cfg.MaxTTL)}
	}
	s.Extend(time.Now().Add(ttl).UTC())
	return nil
}

// End ends a session of the principal, or with all one of its organisation that has this id.
func (m *Manager) End(p haft.Principal, id string, all bool) error {
	s, err := m.Get(p, id)
	if err != nil && all {
		m.mu.Lock()
		if o := m.live[id]; o != nil && o.info.Org == p.Org {
			s, err = o, nil
		}
		m.mu.Unlock()
	}
	if err != nil {
		return err
	}
	s.Close("it was ended")
	return nil
}

// Stop ends the sessions of an organisation, or of all if it is empty, and waits for them. It
// returns how many there were.
func (m *Manager) Stop(org, why string) int {
	m.mu.Lock()
	var list []*Session
	for _, s := range m.live {
		if org == "" || s.info.Org == org {
			list = append(list, s)
		}
	}
	m.mu.Unlock()
	for _, s := range list {
		s.end(why)
	}
	for _, s := range list {
		<-s.gone
	}
	return len(list)
}

// Close ends all sessions and waits for them. There are none afterwards.
func (m *Manager) Close() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.Stop("", "the server is stopping")
}

// Use returns the session of the principal that has this name. If there is none it is made
// as the request says. One that was made under other rules is refused.
func (m *Manager) Use(ctx context.Context, req executor.Request, name string) (*Session, error) {
	if name == "" {
		return nil, &haft.Error{Code: haft.CodeInvalid, Message: "a session needs a name"}
	}
	s, err := m.Get(req.Principal, name)
	if haft.CodeOf(err) == haft.CodeNotFound && !strings.HasPrefix(name, "sess_") {
		if s, err = m.Open(ctx, Options{Name: name, Request: req}); haft.CodeOf(err) == haft.CodeConflict {
			s, err = m.Get(req.Principal, name) // another call has made it meanwhile
		}
	}
	if err != nil {
		return nil, err
	}
	if s.rules != rulesOf(req) {
		return nil, &haft.Error{Code: haft.CodeConflict, Message: "limits, network, isolation or packages are " +
			"not what they were when the session was made; end it, or use another name"}
	}
	return s, nil
}

// rulesOf names what confines a session and what it has.
func rulesOf(req executor.Request) string {
	limits := req.Limits
	limits.Wall, limits.CPU = 0, 0 // of a call, and not of its session
	text := fmt.Sprintf("%+v %s %+v", limits, req.Network, req.Need)
	for _, l := range req.Layers {
		text += " " + l.Digest
	}
	return text
}
