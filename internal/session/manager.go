package session

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"maps"
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
	// 256 and 32.
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
	opening map[string]int  // of organisations
	names   map[string]bool // that sessions which are being opened will have
	stops   int             // how often sessions were stopped
	past    []past          // the newest last
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
		cfg.PerOrg = 32
	}
	return &Manager{cfg: cfg, boot: strings.ToLower(rand.Text()[:8]), live: map[string]*Session{},
		opening: map[string]int{}, names: map[string]bool{}}
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

// owner names who a session belongs to: one user or credential, and one agent. It is empty
// for somebody who owns nothing.
func owner(p haft.Principal) string {
	if p.Agent == "" || p.Owner() == "" {
		return p.Owner()
	}
	return p.Owner() + "\x00" + p.Agent
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
	stops, err := m.reserve(p, o.Name)
	if err != nil {
		return nil, err
	}
	open := o.Request
	open.Env, open.Bound = nil, nil // those of each call are its own
	c, isolation, err := m.cfg.Open(ctx, open)
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.names, nameKey(p, o.Name))
	if m.opening[p.Org]--; m.opening[p.Org] == 0 {
		delete(m.opening, p.Org)
	}
	if err != nil {
		return nil, err
	}
	if m.closed || m.stops != stops {
		c.Release(false)
		return nil, cell.ErrClosed
	}
	now := time.Now().UTC()
	s := newSession(haft.Session{
		ID: "sess_" + m.boot + strings.ToLower(rand.Text()), Org: p.Org, Name: o.Name, Created: now,
		Owner:   strings.ReplaceAll(owner(p), "\x00", "/"),
		Expires: now.Add(ttl), IdleTimeout: haft.Millis(idle), Isolation: isolation,
	}, o.Request, c)
	m.live[s.info.ID] = s
	context.AfterFunc(s.ctx, func() { m.forget(s) })
	return s, nil
}

// nameKey is what a name is reserved by.
func nameKey(p haft.Principal, name string) string {
	if name == "" {
		return ""
	}
	return p.Org + "\x00" + owner(p) + "\x00" + name
}

// reserve checks that one more session may be opened, and counts it. It returns how often
// sessions were stopped so far.
func (m *Manager) reserve(p haft.Principal, name string) (stops int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch key := nameKey(p, name); {
	case m.closed:
		return 0, cell.ErrClosed
	case owner(p) == "":
		return 0, &haft.Error{Code: haft.CodeDenied, Message: "a session needs an owner: a user or a key"}
	case key != "" && m.names[key]:
		return 0, &haft.Error{Code: haft.CodeConflict, Message: "a session of this name is being made"}
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
		if name != "" && s.info.Name == name && owner(s.owner) == owner(p) {
			return 0, &haft.Error{Code: haft.CodeConflict, Message: "there is a session of this name already"}
		}
	}
	if ofOrg >= m.cfg.PerOrg || all >= m.cfg.Total {
		return 0, &haft.Error{Code: haft.CodeRateLimited,
			Message: fmt.Sprintf("there are %d sessions, which is the most; end one, or wait until one ends", ofOrg)}
	}
	m.opening[p.Org]++
	if key := nameKey(p, name); key != "" {
		m.names[key] = true
	}
	return m.stops, nil
}

// forget drops a session that has ended, and remembers why.
func (m *Manager) forget(s *Session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.live, s.info.ID)
	m.past = append(m.past, past{s.info.ID, s.info.Org, owner(s.owner), s.Why()})
	if len(m.past) > remembered {
		m.past = slices.Clone(m.past[len(m.past)-remembered/2:])
	}
}

// Get returns the session of the principal with this id or name. The error of one that has
// ended says why.
func (m *Manager) Get(p haft.Principal, id string) (*Session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	mine := func(org, o string) bool { return org == p.Org && o == owner(p) && o != "" }
	if s := m.live[id]; s != nil && mine(s.info.Org, owner(s.owner)) {
		if err := s.Why(); err != nil {
			return nil, err
		}
		return s, nil
	}
	for _, s := range m.live {
		if s.info.Name == id && id != "" && mine(s.info.Org, owner(s.owner)) && s.ctx.Err() == nil {
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
	return m.infos(func(s *Session) bool {
		return s.info.Org == p.Org && (all || owner(s.owner) == owner(p) && owner(p) != "")
	})
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

// Stop ends the sessions whose owners match, also those that are being made, and returns
// how many live ones there were. It does not wait for them.
func (m *Manager) Stop(why string, match func(haft.Principal) bool) int {
	list := m.stopping(match)
	for _, s := range list {
		s.end(why)
	}
	return len(list)
}

// stopping returns the sessions whose owners match.
func (m *Manager) stopping(match func(haft.Principal) bool) []*Session {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stops++
	var list []*Session
	for _, s := range m.live {
		if match(s.owner) {
			list = append(list, s)
		}
	}
	return list
}

// Owners returns who has sessions of an organisation, or of all if it is empty.
func (m *Manager) Owners(org string) []haft.Principal {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []haft.Principal
	for _, s := range m.live {
		if org == "" || s.owner.Org == org {
			out = append(out, s.owner)
		}
	}
	return out
}

// Close ends all sessions and waits for them. There are none afterwards.
func (m *Manager) Close() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	for _, s := range m.stopping(func(haft.Principal) bool { return true }) {
		s.Close("the server is stopping")
	}
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
		return nil, &haft.Error{Code: haft.CodeConflict, Message: "limits, network, isolation, packages or secrets " +
			"are not what they were when the session was made; end it, or use another name"}
	}
	return s, nil
}

// rulesOf names what confines a session, what it has, and the values of its calls'
// environment. A call with other secrets would not redact those that the session remembers.
func rulesOf(req executor.Request) string {
	limits := req.Limits
	limits.Wall, limits.CPU = 0, 0 // of a call, and not of its session
	h := sha256.New()
	fmt.Fprintf(h, "%+v %s %q %+v", limits, req.Network, req.Route, req.Need)
	for _, l := range req.Layers {
		fmt.Fprintf(h, " %q", l.Digest)
	}
	for _, k := range slices.Sorted(maps.Keys(req.Env)) {
		if _, bound := req.Bound[k]; !bound && !strings.HasPrefix(k, "HAFT_") {
			fmt.Fprintf(h, " %q=%q", k, req.Env[k])
		}
	}
	return string(h.Sum(nil))
}
